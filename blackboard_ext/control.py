"""The loop control that asks a planning strategy: the opt-in that turns choreography into orchestration.

Plan items follow the engine's events in the same turn: when a worker finishes, its item has ended and its stage has
completed, if that is what follows, before the next `select`. It holds nothing a case; the plan is the case's.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from blackboard_ext.events import (
    OscillationDetected,
    PlanItemAdded,
    PlanItemCancelled,
    PlanItemCompleted,
    PlanItemEnded,
    PlanItemEvent,
    PlanItemFaulted,
    PlanItemObsolete,
    PlanItemPrioritised,
    PlanItemRejected,
    PlanItemStarted,
    PlanRevised,
    StageEvent,
)
from blackboard_ext.oscillation import LONGEST, ROUNDS, cycle_in
from blackboard_ext.plan import CasePlanModel
from blackboard_ext.plan_state import REMEMBERED, PlanState
from blackboard_ext.spi import HearsStalls, PlanningStrategy
from blackboard_ext.stages import awaited, enabled, inactive, next_round
from blackboard_ext.steering import direct
from casehub.binding import Binding
from casehub.dataform import form_of
from casehub.durations import Duration, duration
from casehub.envelope import ActivationId, Event, subtypes
from casehub.errors import InputRefusedError, LoopControlError, SettingsError
from casehub.events import (
    BudgetExhausted,
    DeliberationStarted,
    TimerFired,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerExecutionDeclined,
    WorkerExecutionFinished,
    WorkerScheduled,
)
from casehub.inputs import SteerStage
from casehub.lifecycle import ActivationStatus, MilestoneStatus
from casehub.plain import Plain
from casehub.plan import PlanView
from casehub.policies import OnOutcome
from casehub.spi import Answer, CaseView, Defer, Selection
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.subcase_events import SubCaseStarted
from casehub.task_events import HumanTaskCreated, HumanTaskEnded

KEPT: Final = form_of(PlanState)
PLAN: Final = f"plan 2 {sha256(KEPT.shape.encode()).hexdigest()[:16]}"
"""What is kept of a plan. The number is raised when `PlanState.apply` makes something else of the same events."""

_FOLLOWED: Final = (
    DeliberationStarted,
    WorkerScheduled,
    *subtypes(WorkerExecutionFinished),
    *subtypes(PlanItemEvent),
    *subtypes(PlanRevised),
    *subtypes(StageEvent),
    OscillationDetected,
    BudgetExhausted,
    TimerFired,
    HumanTaskCreated,
    *subtypes(HumanTaskEnded),
    SubCaseStarted,
)


class PlanningStrategyLoopControl:
    """Asks `strategy` what runs next, and works the stages of the definition.

    `deadline`: how long a `select` may take; past it nothing is fired and it is asked again. `rounds`: how often the
    same cycle of bindings may fire before an `OSCILLATION_DETECTED` says so. Raises `SettingsError` for what is no strategy.
    """

    immediate = False
    handles: frozenset[type[Event]] = frozenset(_FOLLOWED)
    stage_events: frozenset[type[Event]] = frozenset(subtypes(StageEvent))
    control_form = PLAN

    def __init__(
        self,
        strategy: PlanningStrategy,
        *,
        deadline: Duration = "30s",
        rounds: int = ROUNDS,
        structure: Structure | None = None,
    ) -> None:
        if not 2 <= rounds <= REMEMBERED // LONGEST:
            raise SettingsError(
                f"PlanningStrategyLoopControl(rounds={rounds}): from 2 to {REMEMBERED // LONGEST}; a plan remembers no more"
            )
        if duration(deadline) <= timedelta():
            raise SettingsError(f"PlanningStrategyLoopControl(deadline={deadline!r}): more than nothing")
        _check(strategy)
        self.strategy = strategy
        self.deadline: Duration = deadline
        self._rounds = rounds
        self._structure = structure

    def __repr__(self) -> str:
        return f"PlanningStrategyLoopControl({type(self.strategy).__name__})"

    def over(self, structure: Structure) -> PlanningStrategyLoopControl:
        """The same strategy for the cases of one definition."""
        return PlanningStrategyLoopControl(
            self.strategy, deadline=self.deadline, rounds=self._rounds, structure=structure
        )

    def initial(self) -> PlanState:
        return PlanState()

    def apply(self, control: Any, event: Event) -> PlanState:
        plan: PlanState = control
        plan.apply(event)
        return plan

    def dump_control(self, control: Any) -> Plain:
        data: Plain = KEPT.plain(control)
        return data

    def load_control(self, data: Any) -> PlanState:
        plan: PlanState = KEPT.load(data)
        return plan

    def gate(self, state: CaseState, binding: Binding) -> str | None:
        return None

    def inactive(self, state: CaseState, binding: Binding) -> str | None:
        return None if self._structure is None else inactive(state, self._structure, state.control, binding.name)

    def awaited(self, state: CaseState) -> Sequence[str]:
        return () if self._structure is None else awaited(state, self._structure, state.control)

    def direct(self, state: CaseState, input: SteerStage) -> Sequence[Event]:
        if self._structure is None:
            raise InputRefusedError(
                f"case {state.id!r} has no stages: its loop control was made over no definition; give it to CaseHub as loop="
            )
        return direct(state, self._structure, state.control, input)

    def settle(self, state: CaseState) -> Iterable[Event]:
        if self._structure is None or not self._structure.stages:
            return ()
        return next_round(state, self._structure, state.control)

    def react(self, state: CaseState, event: Event) -> Iterator[Event]:
        plan: PlanState = state.control
        if isinstance(event, DeliberationStarted):
            if self._structure is not None:
                yield from _onto_the_agenda(state, self._structure, plan, event)
        elif isinstance(event, WorkerScheduled):
            yield PlanItemStarted(binding=event.binding, item=event.activation)
        elif isinstance(event, WorkerExecutionFinished) and event.settled:
            yield _ended(event)
        elif isinstance(event, PlanItemStarted):
            cycle = cycle_in(plan.fired, self._rounds)
            if cycle and set(cycle) != set(plan.oscillating):  # a cycle is the same wherever it is entered
                yield OscillationDetected(cycle=cycle, rounds=self._rounds)

    def view(self, state: CaseState) -> PlanView:
        plan: PlanState = state.control
        reached = {name: milestone.status for name, milestone in state.milestones.items()}
        structure = self._structure
        if structure is None:  # a log alone tells of the stages that something has happened to
            return plan.view(dict.fromkeys(plan.stages, ""), reached)
        parents = {name: structure.stage_of.get(name, "") for name in structure.stages}
        waiting = dict.fromkeys(structure.milestones, MilestoneStatus.PENDING)
        return plan.view(parents, {**waiting, **reached}, enabled(state, structure, plan))

    def withdraw(self, state: CaseState, eligible: Sequence[Binding]) -> Iterator[Event]:
        plan: PlanState = state.control
        return _off_the_agenda(state, plan, {binding.name for binding in eligible})

    @property
    def hears_stalls(self) -> bool:
        return isinstance(self.strategy, HearsStalls)

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        plan = CasePlanModel(case.plan or PlanView())
        if plan.stalled and isinstance(self.strategy, HearsStalls):
            answering = self.strategy.stalled(plan, case, eligible)
        else:
            answering = self.strategy.select(plan, case, eligible)
        if not isinstance(answering, Awaitable):
            raise LoopControlError(f"{self!r} gave {answering!r:.100}, which cannot be awaited; write async def select")
        answer = await answering
        if isinstance(answer, Defer):
            answer = Selection(defer=answer)
        elif not isinstance(answer, Selection):
            answer = Selection(answer)
        for write in answer.writes:
            if not isinstance(write, PlanRevised | PlanItemPrioritised):
                raise LoopControlError(
                    f"{self!r} wrote {write!r:.100}; a strategy writes on the plan alone: events of its own derive from PlanRevised"
                )
        return replace(answer, rationale=answer.rationale or plan.because, writes=(*plan.writes, *answer.writes))


def _check(strategy: object) -> None:
    """Raises `SettingsError` for what can never answer as a strategy."""
    if isinstance(strategy, type):
        name = strategy.__name__
        raise SettingsError(f"PlanningStrategyLoopControl({name}): give it a strategy, not its class: {name}()")
    if not callable(getattr(strategy, "select", None)):
        raise SettingsError(
            f"a {type(strategy).__name__} is no strategy; give it async def select(self, plan, case, eligible)"
        )
    try:
        inspect.signature(strategy.select).bind(None, None, None)  # type: ignore[attr-defined]  # found above
    except TypeError as error:
        raise SettingsError(
            f"the select of {type(strategy).__name__} cannot be asked ({error}); "
            "give it async def select(self, plan, case, eligible)"
        ) from None


def _onto_the_agenda(
    state: CaseState, structure: Structure, plan: PlanState, event: DeliberationStarted
) -> Iterator[Event]:
    """Eligible bindings come onto the agenda, in order of declaration; what nobody kept the plan of is put right."""
    yield from _off_the_agenda(state, plan, set(event.eligible))
    for activation in state.activations.values():
        if activation.binding not in plan.items:
            yield PlanItemStarted(binding=activation.binding, item=activation.id)
    for name in event.eligible:
        if name not in plan.items:
            binding = structure.bindings[name]
            yield PlanItemAdded(
                binding=name,
                item=_next(state, name),
                priority=binding.priority,
                stage=structure.stage_of.get(name, ""),
            )


def _next(state: CaseState, binding: str) -> ActivationId:
    """The id that the next activation of a binding will have."""
    firing = state.firings.get(binding)
    return ActivationId(f"{state.id}/{binding}/{1 if firing is None else firing.count + 1}")


def _off_the_agenda(state: CaseState, plan: PlanState, eligible: Collection[str]) -> Iterator[Event]:
    """Pending items of bindings that are eligible no more leave it, and what was settled while nobody kept the plan."""
    for item in plan.agenda():
        if item.binding not in eligible or item.id != _next(state, item.binding):
            yield PlanItemObsolete(binding=item.binding, item=ActivationId(item.id))
    for item in list(plan.items.values()):
        if item.status is not ActivationStatus.PENDING and item.id not in state.activations:
            yield PlanItemObsolete(
                binding=item.binding, item=ActivationId(item.id), detail="it ended under another loop control"
            )


def _ended(event: WorkerExecutionFinished) -> PlanItemEnded:
    detail = getattr(event, "message", "") or getattr(event, "reason", "")
    kind: type[PlanItemEnded] = PlanItemFaulted
    if isinstance(event, WorkerExecutionCompleted) or event.then == OnOutcome.IGNORE:
        kind = PlanItemCompleted
    elif isinstance(event, WorkerExecutionDeclined):
        kind = PlanItemRejected
    elif isinstance(event, WorkerExecutionCancelled):
        kind = PlanItemCancelled
    return kind(binding=event.binding, item=event.activation, detail=detail)
