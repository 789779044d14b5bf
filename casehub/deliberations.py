"""Events of deliberation: a loop control that awaits is asked, and what comes of it.

They are events like all others and known as `casehub.events`' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from casehub.envelope import Event
from casehub.values import Plain


@dataclass(slots=True, kw_only=True)
class DeliberationEvent(Event):
    """Base: a loop control that awaits is deciding. `deliberation`: its number in the case, from 1."""

    deliberation: int


@dataclass(slots=True, kw_only=True)
class DeliberationStarted(DeliberationEvent):
    """`eligible`: names of bindings; `stalled`: where the case is about to stall, the reasons."""

    eligible: tuple[str, ...]
    stalled: tuple[str, ...] = ()

    @property
    def as_of(self) -> int:
        """The global position up to which the log answers: this event's own, so that what led to it is seen."""
        return self.seq


@dataclass(slots=True, kw_only=True)
class DeliberationEnded(DeliberationEvent):
    """Base of every end of a deliberation. `seconds`: how long it took, as far as that is known.

    `queries`: what it asked of the log, in order, each a verb of `case.log` with the arguments it was given; the log
    answered as of the deliberation's position. `queries_left_out`: how many more there were than are kept.
    """

    queries: tuple[Mapping[str, Plain], ...] = ()
    queries_left_out: int = 0
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class DeliberationFinished(DeliberationEnded):
    """The answer. `deferred`: the loop control asks to be asked again."""

    chosen: tuple[str, ...]
    rationale: str = ""
    as_of: int = 0
    deferred: bool = False


@dataclass(slots=True, kw_only=True)
class DeliberationTimedOut(DeliberationEnded):
    """No answer before the deadline (`limit`: seconds); nothing is fired."""

    limit: float


@dataclass(slots=True, kw_only=True)
class DeliberationFailed(DeliberationEnded):
    """It raised, or answered outside of what is eligible; nothing is fired."""

    error: str
    message: str


@dataclass(slots=True, kw_only=True)
class DeliberationCancelled(DeliberationEnded):
    """Called off: by a suspension, by the end of the case, or because the process that asked has gone."""


@dataclass(slots=True, kw_only=True)
class SelectionDropped(Event):
    """A chosen binding that does not fire: the case has moved on since the deliberation began, or a limit is reached."""

    binding: str
    reason: str


@dataclass(slots=True, kw_only=True)
class SelectionForced(Event):
    """A chosen binding that fires although the case has moved on: it had been dropped three times in a row."""

    binding: str
    reason: str
