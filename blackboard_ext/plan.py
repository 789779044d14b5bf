"""The control blackboard (BB1: Hayes-Roth 1985) as a strategy holds it for one deliberation.

It is a frozen version of the plan with a write buffer, whose writes become events with the accepted answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy as copy_of
from dataclasses import replace
from math import isfinite
from types import UnionType
from typing import Any, TypeVar

from blackboard_ext.events import (
    FocusChanged,
    NoteWritten,
    PlanFormulated,
    PlanItemPrioritised,
    ResourceBudgeted,
)
from blackboard_ext.plan_state import StageStatus, by_priority
from casehub.binding import Binding
from casehub.envelope import ActivationId, Event
from casehub.errors import SettingsError, did_you_mean
from casehub.lifecycle import ActivationStatus
from casehub.plan import PlanItem, PlanView
from casehub.values import Plain, copy, plain, same

T = TypeVar("T")


class CasePlanModel:
    """The control blackboard during one deliberation: read it as it was, write what the answer needs.

    What is written is read back here at once, and becomes events only if the answer is accepted.

    `oscillating`: the bindings that go round, in order, until another one fires; `exhausted`: the budgets that hold
    bindings back, such as `case.tokens` or `assess.calls`; `intended`: bindings that are meant to fire, in order, and have
    not; `stalled`: why the case is about to stall, empty unless it is.
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
        self.intended = view.intended
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
        """The item of a binding that is pending, running or delegated."""
        return self._items.get(binding if isinstance(binding, str) else binding.name)

    @property
    def running(self) -> Sequence[PlanItem]:
        """The items whose workers run."""
        return [item for item in self._items.values() if item.status is ActivationStatus.RUNNING]

    @property
    def delegated(self) -> Sequence[PlanItem]:
        """The items that people have, whose tasks are open, and those that are worked as sub-cases."""
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

    def intend(self, goal: str, steps: Sequence[str], *, cost: float = 0.0, because: str = "") -> None:
        """Say which bindings are meant to fire, in order, and to what end; nothing new where they are meant to already."""
        intended = tuple(steps)
        if intended != self.intended:
            before, self.intended = self.intended, intended
            self.writes.append(PlanFormulated(goal=goal, steps=intended, cost=cost, before=before, because=because))

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
