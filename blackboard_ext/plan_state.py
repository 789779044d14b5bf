"""The control blackboard as the log folds to it: part of a case's state (BB1: Hayes-Roth 1985)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from blackboard_ext.events import (
    FocusChanged,
    NoteWritten,
    OscillationDetected,
    PlanFormulated,
    PlanItemAdded,
    PlanItemCancelled,
    PlanItemCompleted,
    PlanItemFaulted,
    PlanItemObsolete,
    PlanItemPrioritised,
    PlanItemRejected,
    PlanItemStarted,
    ResourceBudgeted,
    StageActivated,
    StageCompleted,
    StageFaulted,
    StageResumed,
    StageSuspended,
    StageTerminated,
)
from casehub.envelope import Event, subtypes
from casehub.events import BudgetExhausted, DeliberationStarted, TimerFired
from casehub.lifecycle import ActivationStatus, MilestoneStatus
from casehub.plan import PlanItem, PlanView, StageView
from casehub.subcase_events import SubCaseStarted
from casehub.task_events import HumanTaskCreated, HumanTaskEnded
from casehub.values import Plain, copy

REMEMBERED = 100
"""Ended items that a plan remembers; the log has them all."""


class StageStatus(StrEnum):
    """Where a stage stands (CMMN 1.1, section 8.4.2)."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    TERMINATED = "TERMINATED"
    FAULTED = "FAULTED"

    @property
    def ended(self) -> bool:
        return self in (StageStatus.COMPLETED, StageStatus.TERMINATED, StageStatus.FAULTED)


STAGE_TRANSITIONS: Mapping[StageStatus, frozenset[StageStatus]] = {
    StageStatus.PENDING: frozenset({StageStatus.ACTIVE, StageStatus.TERMINATED, StageStatus.FAULTED}),
    StageStatus.ACTIVE: frozenset(
        {StageStatus.SUSPENDED, StageStatus.COMPLETED, StageStatus.TERMINATED, StageStatus.FAULTED}
    ),
    StageStatus.SUSPENDED: frozenset({StageStatus.ACTIVE, StageStatus.TERMINATED, StageStatus.FAULTED}),
    StageStatus.COMPLETED: frozenset(),
    StageStatus.TERMINATED: frozenset(),
    StageStatus.FAULTED: frozenset(),
}


@dataclass(slots=True)
class PlanState:
    """What the log folds to. `items`: pending and running ones by binding; `ended`: the last of the others.

    `oscillating`: the cycle that the last firings go round in; `intended`: bindings that are meant to fire, in order; `exhausted`: budgets, as `case.tokens`; `stalled`: the
    reasons of the stall that the deliberation under way is about.
    """

    items: dict[str, PlanItem] = field(default_factory=dict)
    ended: list[PlanItem] = field(default_factory=list)
    stages: dict[str, StageStatus] = field(default_factory=dict)
    focus: str = ""
    because: str = ""
    notes: dict[str, Plain] = field(default_factory=dict)
    resources: dict[str, float] = field(default_factory=dict)
    fired: list[str] = field(default_factory=list)
    oscillating: tuple[str, ...] = ()
    exhausted: tuple[str, ...] = ()
    intended: tuple[str, ...] = ()
    stalled: tuple[str, ...] = ()

    def stage(self, name: str) -> StageStatus:
        """Where a stage stands; `PENDING` for one that nothing has happened to."""
        return self.stages.get(name, StageStatus.PENDING)

    def apply(self, event: Event) -> None:
        """Take one event in; total."""
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event)

    def agenda(self) -> list[PlanItem]:
        """The pending items: highest priority first, then oldest."""
        return by_priority(self.items.values())

    def view(
        self,
        parents: Mapping[str, str],
        milestones: Mapping[str, MilestoneStatus],
        enabled: Collection[str] = (),
    ) -> PlanView:
        """This version of the plan, which shares nothing with it that changes. `parents`: of stages, by their names."""
        return PlanView(
            agenda=tuple(self.agenda()),
            running=tuple([item for item in self.items.values() if item.status is ActivationStatus.RUNNING]),
            delegated=tuple([item for item in self.items.values() if item.status is ActivationStatus.DELEGATED]),
            ended=tuple(self.ended),
            stages={name: StageView(self.stage(name), parent, name in enabled) for name, parent in parents.items()},
            milestones=milestones,
            focus=self.focus,
            because=self.because,
            notes={key: copy(value) for key, value in self.notes.items()},
            resources=dict(self.resources),
            oscillating=self.oscillating,
            exhausted=self.exhausted,
            intended=self.intended,
            stalled=self.stalled,
        )


def by_priority(items: Iterable[PlanItem]) -> list[PlanItem]:
    """Those that are pending: highest priority first, then oldest."""
    pending = [item for item in items if item.status is ActivationStatus.PENDING]
    pending.sort(key=lambda item: (-item.priority, item.since))
    return pending


def _added(state: PlanState, event: Any) -> None:
    state.items[event.binding] = PlanItem(event.item, event.binding, event.priority, event.version, event.stage)


def _prioritised(state: PlanState, event: Any) -> None:
    item = state.items.get(event.binding)
    if item is not None:
        state.items[event.binding] = replace(item, priority=event.priority)


def _started(state: PlanState, event: Any) -> None:
    item = state.items.get(event.binding)
    if item is None:
        item = PlanItem(event.item, event.binding, since=event.version)
    state.items[event.binding] = replace(item, status=ActivationStatus.RUNNING)
    cycle = state.oscillating
    if cycle and [event.binding] != state.fired[-len(cycle) :][:1]:
        state.oscillating = ()  # it was another one's turn: the cycle is broken
    if event.binding in state.intended:
        place = state.intended.index(event.binding)
        state.intended = (*state.intended[:place], *state.intended[place + 1 :])
    state.fired.append(event.binding)
    del state.fired[:-REMEMBERED]


def _with_people(change: int) -> Callable[[PlanState, Any], None]:
    def fold(state: PlanState, event: Any) -> None:
        item = state.items.get(event.binding)
        if item is not None and item.id == event.activation:
            tasks = max(item.tasks + change, 0)
            status = ActivationStatus.DELEGATED if tasks else ActivationStatus.RUNNING
            state.items[event.binding] = replace(item, status=status, tasks=tasks)

    return fold


def _with_sub_cases(state: PlanState, event: Any) -> None:
    item = state.items.get(event.binding)
    if item is not None and item.id == event.activation and event.waited:
        state.items[event.binding] = replace(item, status=ActivationStatus.DELEGATED)


_ENDS: Mapping[type[Event], ActivationStatus] = {
    PlanItemCompleted: ActivationStatus.COMPLETED,
    PlanItemFaulted: ActivationStatus.FAULTED,
    PlanItemRejected: ActivationStatus.REJECTED,
    PlanItemCancelled: ActivationStatus.CANCELLED,
    PlanItemObsolete: ActivationStatus.OBSOLETE,
}


def _ended(state: PlanState, event: Any) -> None:
    item = state.items.pop(event.binding, None)
    if item is not None and type(event) is not PlanItemObsolete:
        state.ended.append(replace(item, status=_ENDS[type(event)], detail=event.detail))
        del state.ended[:-REMEMBERED]


def _focused(state: PlanState, event: Any) -> None:
    state.focus, state.because = event.focus, event.because


def _noted(state: PlanState, event: Any) -> None:
    if event.value is None:
        state.notes.pop(event.key, None)
    else:
        state.notes[event.key] = event.value


def _budgeted(state: PlanState, event: Any) -> None:
    state.resources[event.resource] = event.amount


def _formulated(state: PlanState, event: Any) -> None:
    state.intended = event.steps


def _oscillating(state: PlanState, event: Any) -> None:
    state.oscillating = event.cycle


def _exhausted(state: PlanState, event: Any) -> None:
    budget = f"{event.scope}.{event.unit}"
    state.exhausted = (*(each for each in state.exhausted if each != budget), budget)


def _day_began(state: PlanState, event: Any) -> None:
    purpose, _, budget = event.timer.partition(":")
    if purpose == "budget":
        state.exhausted = tuple(each for each in state.exhausted if each != budget)


def _asked(state: PlanState, event: Any) -> None:
    state.stalled = event.stalled


def _stage(status: StageStatus) -> Callable[[PlanState, Any], None]:
    def fold(state: PlanState, event: Any) -> None:
        state.stages[event.stage] = status

    return fold


def _folds() -> Iterator[tuple[type[Event], Callable[[PlanState, Any], None]]]:
    yield PlanItemAdded, _added
    yield PlanItemPrioritised, _prioritised
    yield PlanItemStarted, _started
    yield SubCaseStarted, _with_sub_cases
    yield HumanTaskCreated, _with_people(1)
    yield from ((kind, _with_people(-1)) for kind in subtypes(HumanTaskEnded))
    yield from ((kind, _ended) for kind in _ENDS)
    yield FocusChanged, _focused
    yield NoteWritten, _noted
    yield ResourceBudgeted, _budgeted
    yield PlanFormulated, _formulated
    yield OscillationDetected, _oscillating
    yield BudgetExhausted, _exhausted
    yield TimerFired, _day_began
    yield DeliberationStarted, _asked
    for kind, status in (
        (StageActivated, StageStatus.ACTIVE),
        (StageSuspended, StageStatus.SUSPENDED),
        (StageResumed, StageStatus.ACTIVE),
        (StageCompleted, StageStatus.COMPLETED),
        (StageTerminated, StageStatus.TERMINATED),
        (StageFaulted, StageStatus.FAULTED),
    ):
        yield kind, _stage(status)


_FOLDS: dict[type[Event], Callable[[PlanState, Any], None]] = dict(_folds())
