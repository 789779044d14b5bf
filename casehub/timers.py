"""What happens to a durable timer: events of a case, beside those of `casehub.events`, which has their names too.

A timer's id says what it is for: `sla:` a milestone, `retry:` an activation, `budget:` what is spent, `time:` a schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from casehub.envelope import Event, TimerId


@dataclass(slots=True, kw_only=True)
class TimerEvent(Event):
    """Base: something about one durable timer."""

    timer: TimerId


@dataclass(slots=True, kw_only=True)
class TimerSet(TimerEvent):
    """A timer will come due at `due` (UTC). `since`: where a schedule that comes into force counts from."""

    due: datetime
    since: datetime | None = None


@dataclass(slots=True, kw_only=True)
class TimerFired(TimerEvent):
    """It came due.

    Of a schedule, `due` is the time of the occurrence that it is; `missed`: how many earlier ones fell out, counted to
    a thousand; `skipped`: this one falls out too, as it is late and its schedule skips.
    """

    due: datetime | None = None
    missed: int = 0
    skipped: bool = False


@dataclass(slots=True, kw_only=True)
class TimerCancelled(TimerEvent):
    """It will not come due any more."""
