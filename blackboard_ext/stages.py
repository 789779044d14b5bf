"""How stages behave: rounds of transitions over one state, until nothing follows.

In a round every criterion is tested against the state as the round finds it; then exits, completions and entries are
taken, in this order. So the order of declaration never matters, and a stage that becomes active after its items have
settled completes in the next round. The number of rounds is bounded by the life cycles themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from blackboard_ext.events import StageActivated, StageCompleted, StageFaulted, StageTerminated
from blackboard_ext.plan import PlanState, StageStatus
from casehub.envelope import Event
from casehub.events import WorkerExecutionCancelled
from casehub.lifecycle import MilestoneStatus
from casehub.sentry import Facts
from casehub.stage import Stage, StageFault
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.values import ABSENT
from casehub.wiring import Parameter


class Seen(Facts):
    """A state as the criteria of stages read it."""

    __slots__ = ("_state",)

    def __init__(self, state: CaseState) -> None:
        self._state = state

    def visible(self, name: str) -> bool:
        fact = self._state.facts.get(name)
        return fact is not None and fact.visible

    def value(self, parameter: Parameter) -> object:
        fact = self._state.facts[parameter.target]
        return None if fact.value is ABSENT else parameter.type.restore(fact.value, f"fact {fact.name!r}")

    def reached(self, milestone: str) -> bool:
        found = self._state.milestones.get(milestone)
        return found is not None and found.status is MilestoneStatus.ACHIEVED


def next_round(state: CaseState, structure: Structure, plan: PlanState) -> list[Event]:
    """The transitions of one round, with what they call off; empty when nothing follows."""
    seen = Seen(state)
    leaving = list(_exits(state, structure, plan, seen))
    left = {event.stage for event in leaving if isinstance(event, StageTerminated)}
    ending = [
        event
        for stage in _ending(state, structure, plan)
        if stage.name not in left
        for event in _end(state, plan, structure, stage)
    ]
    entering = [event for event in _entries(structure, plan, seen) if event.stage not in left]
    return [*leaving, *ending, *entering]


def gate(structure: Structure, plan: PlanState, binding: str) -> str | None:
    """Why the stages hold a binding back, in words; None when they do not."""
    stage = structure.stage_of.get(binding)
    while stage is not None:
        status = plan.stage(stage)
        if status is not StageStatus.ACTIVE:
            return f"its stage {stage!r} is {status}"
        stage = structure.stage_of.get(stage)
    return None


def terminate(
    state: CaseState, structure: Structure, plan: PlanState, stage: Stage, reason: str, by: str = "engine"
) -> Iterator[Event]:
    """End a stage and all within it, innermost first, and call off what runs in them."""
    for member in stage.members:
        nested = structure.stages.get(member)
        if nested is not None and not plan.stage(member).ended:
            yield from terminate(state, structure, plan, nested, f"its parent {stage.name!r} ended", by)
    yield from call_off(state, stage.members, f"stage {stage.name!r} is TERMINATED")
    yield StageTerminated(stage=stage.name, reason=reason, by=by)


def call_off(state: CaseState, bindings: tuple[str, ...] | frozenset[str], reason: str) -> Iterator[Event]:
    """Cancel the activations in flight of these bindings."""
    for activation in list(state.activations.values()):
        if activation.binding in bindings:
            yield WorkerExecutionCancelled(
                binding=activation.binding,
                activation=activation.id,
                worker=activation.worker,
                attempt=activation.attempt,
                reason=reason,
            )


def _exits(state: CaseState, structure: Structure, plan: PlanState, seen: Seen) -> Iterator[Event]:
    for stage in structure.stages.values():
        status = plan.stage(stage.name)
        inner = structure.stage_of.get(stage.name)
        if inner is not None and _exiting(structure.stages[inner], plan, seen):
            continue  # its parent takes it along
        if status is StageStatus.ACTIVE and _exiting(stage, plan, seen):
            yield from terminate(state, structure, plan, stage, f"exit: {stage.exit}")


def _exiting(stage: Stage, plan: PlanState, seen: Seen) -> bool:
    active = plan.stage(stage.name) is StageStatus.ACTIVE
    return active and stage.exit is not None and stage.exit.holds(seen)


def _ending(state: CaseState, structure: Structure, plan: PlanState) -> Iterator[Stage]:
    """The active stages that complete or fault."""
    for stage in structure.stages.values():
        required = stage.required
        if plan.stage(stage.name) is not StageStatus.ACTIVE:
            continue
        if (stage.on_fault is StageFault.FAULT and _faulty(state, plan, structure, stage)) or (
            stage.autocomplete and required and all(_settled(state, plan, structure.stages, name) for name in required)
        ):
            yield stage


def _end(state: CaseState, plan: PlanState, structure: Structure, stage: Stage) -> Iterator[Event]:
    faulty = _faulty(state, plan, structure, stage) if stage.on_fault is StageFault.FAULT else []
    ended = "FAULTED" if faulty else "COMPLETED"
    called_off = stage.members if faulty else stage.companions
    yield from call_off(state, called_off, f"stage {stage.name!r} is {ended}")
    if faulty:
        yield StageFaulted(stage=stage.name, reason=f"{', '.join(faulty)} faulted")
    else:
        yield StageCompleted(stage=stage.name, reason=f"{', '.join(stage.required)} settled")


def _faulty(state: CaseState, plan: PlanState, structure: Structure, stage: Stage) -> list[str]:
    return [name for name in stage.required if _faulted(state, plan, structure.stages, name)]


def _entries(structure: Structure, plan: PlanState, seen: Seen) -> Iterator[StageActivated]:
    for stage in structure.stages.values():
        if plan.stage(stage.name) is not StageStatus.PENDING:
            continue
        parent = structure.stage_of.get(stage.name)
        if parent is not None and plan.stage(parent) is not StageStatus.ACTIVE:
            continue
        if stage.entry is None or stage.entry.holds(seen):
            yield StageActivated(stage=stage.name, reason="" if stage.entry is None else f"entry: {stage.entry}")


def _settled(state: CaseState, plan: PlanState, stages: Mapping[str, Stage], name: str) -> bool:
    """Whether a member needs nothing more: it ran and ended, or is achieved, or has ended as a stage."""
    if name in stages:
        return plan.stage(name).ended
    milestone = state.milestones.get(name)
    if milestone is not None:
        return milestone.status is MilestoneStatus.ACHIEVED
    firing = state.firings.get(name)
    return (
        firing is not None
        and bool(firing.outcome)
        and firing.in_flight is None
        and not firing.outcome.endswith("CANCELLED")
    )


def _faulted(state: CaseState, plan: PlanState, stages: Mapping[str, Stage], name: str) -> bool:
    if name in stages:
        return plan.stage(name) is StageStatus.FAULTED
    firing = state.firings.get(name)
    return firing is not None and firing.in_flight is None and firing.then.startswith("fault")
