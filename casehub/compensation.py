"""Compensation: what a case has done and may have to undo, declared and as its log folds to it.

A binding compensates another one: its worker undoes what an activation of that one did (BPMN 2.0.2, section 10.5.6:
compensation handlers; sagas: Garcia-Molina and Salem, 1987). When a case is about to end otherwise than well, what it has
completed is undone first, the newest completion first, one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from casehub.activation import Activation
from casehub.context import Fact
from casehub.durations import Duration, duration
from casehub.envelope import ActivationId, TimerId
from casehub.errors import SettingsError, did_you_mean
from casehub.events import (
    CaseCompensating,
    CompensationEnabled,
    CompensationStarted,
    ContextChanged,
    WorkerExecutionCompleted,
    WorkerExecutionFinished,
)
from casehub.lifecycle import CaseStatus
from casehub.policies import OnOutcome

DEADLINE: Final = TimerId("compensation:deadline")
"""The timer of the phase in which a case compensates."""
ENDS: Final = (CaseStatus.FAULTED, CaseStatus.CANCELLED)
"""The ends before which a case can compensate."""
SAID: Final = 3
"""Activations that the reason of an end names as not undone."""


@dataclass(frozen=True, slots=True)
class Compensation:
    """When a case undoes what it did, and how long that may take.

    `on`: before which ends, FAULTED and CANCELLED by default; `deadline`: after which it ends with the rest not undone,
    None for never. Raises `SettingsError` for an end that is none of these.
    """

    on: Collection[CaseStatus | str] = ENDS
    deadline: Duration | None = None

    def __post_init__(self) -> None:
        ends = tuple(end.upper() for end in ((self.on,) if isinstance(self.on, str) else self.on))
        object.__setattr__(self, "on", ends)
        for end in ends:
            if end not in ENDS:
                raise SettingsError(
                    f"Compensation(on={end!r}): a case compensates before it is {' or '.join(ENDS)}; "
                    f"{did_you_mean(end, ENDS)}"
                )
        if self.limit == timedelta():
            raise SettingsError("Compensation(deadline=): more than nothing, or nothing would be undone")

    @property
    def limit(self) -> timedelta | None:
        return None if self.deadline is None else duration(self.deadline)

    def __str__(self) -> str:
        within = "" if self.deadline is None else f" within {self.deadline}"
        return f"on {' and '.join(sorted(self.on)) or 'nothing'}{within}"


@dataclass(slots=True)
class Undoable:
    """A completed activation that has a compensation.

    `facts`: what it read and what it returned, as it was then; `wrote`: those that it changed; `version`: of its
    completion; `undone_by`: the activation that undoes it, or was to; `failure`: why that did not, empty where it did.
    """

    activation: ActivationId
    binding: str
    version: int
    facts: dict[str, Fact]
    wrote: tuple[str, ...] = ()
    undone_by: ActivationId | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end that a case comes to once it has compensated."""

    status: CaseStatus
    reason: str
    by: str


@dataclass(slots=True)
class Compensations:
    """What a case may have to undo, is undoing and has undone.

    `undoable`: in the order of completion; `under_way`, `failed`: by the activation that undoes it, or was to; `undone`:
    since the case compensates. `ending`: what it will end as, None while it does not; `overdue`: its time to do so is over.
    """

    undoable: dict[ActivationId, Undoable] = field(default_factory=dict[ActivationId, Undoable])
    under_way: dict[ActivationId, Undoable] = field(default_factory=dict[ActivationId, Undoable])
    undone: list[Undoable] = field(default_factory=list[Undoable])
    failed: dict[ActivationId, Undoable] = field(default_factory=dict[ActivationId, Undoable])
    ending: Ending | None = None
    overdue: bool = False

    def enable(self, event: CompensationEnabled, activation: Activation, facts: Mapping[str, Fact]) -> None:
        """An activation that has a compensation completes with the next event."""
        seen = {**activation.facts, **{name: facts[name] for name in event.returned if name in facts}}
        self.undoable[activation.id] = Undoable(activation.id, activation.binding, event.version + 1, seen)

    def wrote(self, event: ContextChanged, facts: Mapping[str, Fact]) -> None:
        """What a worker has written is part of what its completed activation returned."""
        for last in reversed(self.undoable.values()):
            if last.version == event.cause and last.binding == event.binding:
                last.wrote = (*event.facts, *event.deleted)
                last.facts.update((name, facts[name]) for name in last.wrote if name in facts)
            if last.version <= event.cause:
                break

    def begin(self, event: CompensationStarted) -> None:
        """An activation is about to be undone."""
        found = self.undoable.pop(event.activation, None)
        if found is None:
            found = next((each for each in self.failed.values() if each.activation == event.activation), None)
            self.failed = {by: each for by, each in self.failed.items() if each is not found}
        if found is not None:
            found.undone_by, found.failure = event.undone_by, ""
            self.under_way[event.undone_by] = found

    def settled(self, event: WorkerExecutionFinished) -> None:
        """What undoes an activation has ended."""
        found = self.under_way.pop(event.activation, None)
        if found is None:
            return
        if isinstance(event, WorkerExecutionCompleted) or event.then == OnOutcome.IGNORE:
            if self.ending is not None:
                self.undone.append(found)
        else:
            found.failure = getattr(event, "message", "") or getattr(event, "reason", "") or event.name
            self.failed[event.activation] = found

    def again(self, by: ActivationId) -> None:
        """Somebody has a compensation that failed tried again."""
        if (found := self.failed.pop(by, None)) is not None:
            self.undoable[found.activation] = found

    def start(self, event: CaseCompensating) -> None:
        """The case compensates from here on; what could not be undone before is tried again."""
        self.ending, self.overdue = Ending(event.end, event.reason, event.by), False
        self.undoable, self.failed = {each.activation: each for each in self.open()}, {}

    def goes_on(self) -> list[Undoable]:
        """The case goes on although it had ended: what was undone, newest first, which nobody remembers then."""
        undone, self.undone = self.undone, []
        return sorted(undone, key=lambda each: each.version, reverse=True)

    def open(self) -> list[Undoable]:
        """What can be undone, in the order of completion."""
        return sorted((*self.undoable.values(), *self.failed.values()), key=lambda each: each.version)

    def retracted(self, facts: Mapping[str, Fact]) -> tuple[str, ...]:
        """The facts that what was undone had written, and nobody has since."""
        written = {(name, each.facts[name].stamp) for each in self.undone for name in each.wrote}
        return tuple(name for name, fact in facts.items() if fact.visible and (name, fact.stamp) in written)

    def left(self) -> str:
        """What of it is not undone, in words; empty for nothing."""
        said = [f"{each.activation} ({each.failure})" for each in self.failed.values()]
        said += [f"{each} (not tried)" for each in reversed(self.undoable)]
        more = f" and {len(said) - SAID} more" if len(said) > SAID else ""
        return f"not compensated: {', '.join(said[:SAID])}{more}" if said else ""
