"""The control blackboard (BB1: Hayes-Roth 1985): one a case, apart from the facts.

`PlanState` is what the log folds to and part of the case's state. `CasePlanModel` is what a strategy holds for one
deliberation: a frozen version of it with a write buffer, whose writes become events with the accepted answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy as copy_of
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from types import UnionType
from typing import Any, TypeVar

from blackboard_ext.events import (
    FocusChanged,
    NoteWritten,
    OscillationDetected,
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
from casehub.binding import Binding
from casehub.envelope import ActivationId, Event, subtypes
from casehub.errors import SettingsError, did_you_mean
from casehub.events import BudgetExhausted, DeliberationStarted, TimerFired
from casehub.lifecycle import ActivationStatus, MilestoneStatus
from casehub.plan import PlanItem, PlanView, StageView
from casehub.task_events import HumanTaskCreated, HumanTaskEnded
from casehub.values import Plain, copy, plain, same

T = TypeVar("T")

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

    `oscillating`: the cycle that the last firings go round in; `exhausted`: budgets, as `case.tokens`; `stalled`: the
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
            stalled=self.stalled,
        )


def by_priority(items: Iterable[PlanItem]) -> list[PlanItem]:
    """Those that are pending: highest priority first, then oldest."""
    pending = [item for item in items if item.status is ActivationStatus.PENDING]
    pending.sort(key=lambda item: (-item.priority, item.since))
    return pending


class CasePlanModel:
    """The control blackboard during one deliberation: read it as it was, write what the answer needs.

    What is written is read back here at once, and becomes events only if the answer is accepted.

    `oscillating`: the bindings that go round, in order, until another one fires; `exhausted`: the budgets that hold
    bindings back, such as `case.tokens` or `assess.calls`; `stalled`: why the case is about to stall, empty unless it is.
    """

    def __init__(self, view: PlanView) -> None:
        self._items = {item.binding: item for item in (*view.agenda, *view.running, *view.delegated)}
        self._ended = view.ended
        self._focus, self._because = view.focus, view.because
        self._notes = dict(view.notes)
        self._resources = dict(view.resources)
        self.stages: Mapping[str, StageStatus] = {name: StageStatus(each.status) for name, each in view.stages.items()}
        self.milestones = view.milestones
        self.oscillating = view.oscillating
        self.exhausted = view.exhausted
        self.stalled = view.stalled
        self.writes: list[Event] = []

    # ---- drafts

    def draft(self) -> CasePlanModel:
        """A plan of its own as this one is now: what is written on it is on it alone, until this one adopts it."""
        other = copy_of(self)
        other._items, other._notes, other._resources = dict(self._items), dict(self._notes), dict(self._resources)
        other.writes = list(self.writes)
        return other

    def adopt(self, draft: CasePlanModel) -> None:
        """Take over everything that was written on a draft of this plan."""
        vars(self).update(vars(draft))

    # ---- reading

    @property
    def agenda(self) -> Sequence[PlanItem]:
        """The pending items: highest priority first, then oldest."""
        return by_priority(self._items.values())

    def top(self, count: int) -> Sequence[PlanItem]:
        """The first items of the agenda; none for 0, all for more than there are."""
        return self.agenda[: max(count, 0)]

    def item(self, binding: Binding | str) -> PlanItem | None:
        """The item of a binding that is pending, running or with people."""
        return self._items.get(binding if isinstance(binding, str) else binding.name)

    @property
    def running(self) -> Sequence[PlanItem]:
        """The items whose workers run."""
        return [item for item in self._items.values() if item.status is ActivationStatus.RUNNING]

    @property
    def delegated(self) -> Sequence[PlanItem]:
        """The items that people have; their tasks are open."""
        return [item for item in self._items.values() if item.status is ActivationStatus.DELEGATED]

    @property
    def ended(self) -> Sequence[PlanItem]:
        """What ran and how it ended, oldest first, the last hundred of it."""
        return self._ended

    @property
    def focused_on(self) -> str:
        return self._focus

    @property
    def because(self) -> str:
        """Why the focus is where it is."""
        return self._because

    def get(self, key: str, kind: type[T]) -> T | None:
        """A note, if there is one of this type; a note of another type is none."""
        value: Any = self._notes.get(key)
        found: Any = copy(value)
        return found if type(value) is kind else None

    @property
    def resources(self) -> Mapping[str, float]:
        """What is set aside of each resource."""
        return self._resources

    # ---- writing

    def focus(self, on: str, *, because: str = "") -> None:
        """Turn the attention to something, and say why. Raises `SettingsError` for what is no text."""
        if not (_is(on, str) and _is(because, str)):
            raise SettingsError(f"focus({on!r:.100}, because={because!r:.100}): both are text")
        if (on, because) != (self._focus, self._because):
            self._focus, self._because = on, because
            self.writes.append(FocusChanged(focus=on, because=because))

    def note(self, key: str, value: Plain) -> None:
        """Keep a note on the control blackboard; None takes it away. Raises `FactError` for what is no plain value."""
        value = plain(value, f"note {key!r}")
        if not same(self._notes.get(key), value):
            self._notes[key] = value
            self.writes.append(NoteWritten(key=key, value=value))

    def prioritise(self, binding: Binding | str, priority: int) -> None:
        """Give the pending item of a binding another priority, a whole number.

        Raises `SettingsError` when it is none, or the binding is not on the agenda.
        """
        if not _is(priority, int):
            raise SettingsError(f"prioritise({binding!r}, {priority!r:.100}): a priority is a whole number")
        item = self.item(binding)
        if item is None or item.status is not ActivationStatus.PENDING:
            name = binding if isinstance(binding, str) else binding.name
            raise SettingsError(f"binding {name!r} is not on the agenda; {did_you_mean(name, self._items)}")
        if item.priority != priority:
            self._items[item.binding] = replace(item, priority=priority)
            self.writes.append(PlanItemPrioritised(binding=item.binding, item=ActivationId(item.id), priority=priority))

    def set_aside(self, resource: str, amount: float) -> None:
        """Set an amount of a resource aside, in the resource's own unit. Raises `SettingsError` for what is no amount."""
        if not (_is(amount, int | float) and isfinite(amount)):
            raise SettingsError(f"set_aside({resource!r}, {amount!r:.100}): an amount is a finite number")
        if self._resources.get(resource) != amount:
            self._resources[resource] = amount
            self.writes.append(ResourceBudgeted(resource=resource, amount=amount))


def _is(value: object, kind: type | UnionType) -> bool:
    """Whether a value is of a type; a bool is no number."""
    return isinstance(value, kind) and not isinstance(value, bool)


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
    yield HumanTaskCreated, _with_people(1)
    yield from ((kind, _with_people(-1)) for kind in subtypes(HumanTaskEnded))
    yield from ((kind, _ended) for kind in _ENDS)
    yield FocusChanged, _focused
    yield NoteWritten, _noted
    yield ResourceBudgeted, _budgeted
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
