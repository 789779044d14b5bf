"""Schedules: time as a trigger, as data. `after("2d")`, `at(moment)`, `every("15m")`, `cron("0 2 * * 1-5", tz="Europe/Berlin")`.

A schedule says when its occurrences are due, from a start and nothing else, so they do not drift with when they were
taken. What is wrong with one is told when the hub is made (`mistakes`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from casehub.durations import Duration, duration, in_words
from casehub.envelope import TimerId
from casehub.errors import SettingsError, did_you_mean

PURPOSE: Final = "time"
"""What the ids of the timers of schedules begin with."""
COUNTED: Final = 1_000
"""Occurrences in the past up to which they are counted."""
ALIKE: Final = 0.8
"""How alike the name of a time zone must be to be taken for what was meant."""
FIELDS: Final = ("second", "minute", "hour", "day-of-month", "month", "day-of-week")
SHORTEST: Final = timedelta(seconds=1)
LONGEST: Final = timedelta(days=36_525)


class CatchUp(StrEnum):
    """What becomes of occurrences that nobody could take at their time.

    `SKIP`: they fall out; `ONCE`: the latest stands for all of them; `ALL`: each gets its activation, one after the
    other, up to a bound.
    """

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


Mistake = tuple[str, str]
"""Why a schedule cannot work, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(ABC):
    """When a binding is triggered by time. As a trigger: each occurrence that comes due.

    `since`: the fact or milestone it is counted from, empty for the time at which its binding comes into force.
    """

    catch_up: CatchUp | str = CatchUp.ONCE
    since: str = ""

    def mistakes(self) -> Iterator[Mistake]:
        """What is wrong with it."""
        if self.catch_up not in tuple(CatchUp):
            yield f"catch_up={self.catch_up!r} is no policy", did_you_mean(str(self.catch_up), CatchUp)

    @abstractmethod
    def following(self, start: datetime, after: datetime | None) -> datetime | None:
        """The first occurrence later than `after`, or the first of all without it; None when none is left (UTC)."""

    def passed(self, start: datetime, first: datetime, until: datetime) -> Sequence[datetime]:
        """The occurrences from `first`, which is one, to `until`, oldest first; the latest `COUNTED` of them."""
        return (first,)

    def timer(self, binding: str) -> TimerId:
        """The id of the durable timer that it has for a binding."""
        return TimerId(f"{PURPOSE}:{binding}:{self}")


@dataclass(frozen=True, slots=True)
class After(Schedule):
    """Once, a span after its start."""

    span: Duration

    def mistakes(self) -> Iterator[Mistake]:
        yield from Schedule.mistakes(self)
        yield from _one_only(self)
        yield from _span(self.span)

    def following(self, start: datetime, after: datetime | None) -> datetime | None:
        return _once(start + duration(self.span), after)

    def __str__(self) -> str:
        return f"after {_written(self.span)}" + (f" since {self.since}" if self.since else "")


@dataclass(frozen=True, slots=True)
class At(Schedule):
    """Once, at a moment; `since` names the fact that holds it where it is not given."""

    moment: datetime | None

    def mistakes(self) -> Iterator[Mistake]:
        yield from Schedule.mistakes(self)
        yield from _one_only(self)
        if self.moment is not None and self.moment.utcoffset() is None:
            yield (
                f"{self.moment.isoformat(' ')} has no time zone, so nobody knows when it is",
                "give it one: datetime(..., tzinfo=UTC)",
            )

    def following(self, start: datetime, after: datetime | None) -> datetime | None:
        return _once(start, after)

    def __str__(self) -> str:
        return f"at {self.since if self.moment is None else self.moment.isoformat()}"


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """Again and again: a span after its start, two spans after it, and so on."""

    span: Duration

    def mistakes(self) -> Iterator[Mistake]:
        yield from Schedule.mistakes(self)
        yield from _span(self.span)

    def following(self, start: datetime, after: datetime | None) -> datetime | None:
        span = duration(self.span)
        return start + span * (1 if after is None or after < start else (after - start) // span + 1)

    def passed(self, start: datetime, first: datetime, until: datetime) -> Sequence[datetime]:
        span = duration(self.span)
        later = range(max(0, (until - first) // span) + 1)[-COUNTED:]
        return [first + span * number for number in later]

    def __str__(self) -> str:
        return f"every {_written(self.span)}"


@dataclass(frozen=True, slots=True)
class Cron(Schedule):
    """Again and again, as a cron expression says in a time zone.

    Where clocks change it does what Debian's cron does: an expression with a fixed hour has one occurrence a day, at
    the end of the hour that is left out, and in the first of the hours that come twice.
    """

    expression: str
    tz: str

    def mistakes(self) -> Iterator[Mistake]:
        yield from Schedule.mistakes(self)
        if _zone(self.tz) is None:
            yield f"there is no time zone {self.tz!r}", _right_zone(self.tz)
            return
        said = f"cron({self.expression!r})"
        fields = len(self.expression.split())
        if fields not in (5, 6):
            yield (
                f"{said} has {fields} fields",
                "write five (minute hour day-of-month month day-of-week), or six with seconds in front",
            )
            return
        try:
            never = self.following(datetime(2026, 1, 1, tzinfo=UTC), None) is None
        except (
            CronSimError,
            ValueError,
            AssertionError,
            TypeError,
        ) as error:  # it asserts of some what it should refuse
            wrong = str(error).removeprefix("Bad ")
            place = FIELDS.index(wrong) - (6 - fields) if wrong in FIELDS else 0
            yield (
                f"{said}: {self.expression.split()[place]!r} is no {wrong or 'field'}, or none that its months have",
                "see crontab(5) for what a field may be",
            )
        else:
            if never:
                yield f"{said} is a time that never comes", "give it a day that its months have"

    def following(self, start: datetime, after: datetime | None) -> datetime | None:
        seen = start if after is None else max(start, after)
        return next(self._later(seen), None)

    def passed(self, start: datetime, first: datetime, until: datetime) -> Sequence[datetime]:
        # From ever earlier on, until there are enough or all: minutes of years are not counted one by one.
        window = timedelta(hours=1)
        while True:
            begin = max(first - timedelta(seconds=1), until - window)
            found: deque[datetime] = deque(maxlen=COUNTED)
            for occurrence in self._later(begin):
                if occurrence > until:
                    break
                found.append(occurrence)
            if begin < first or len(found) == COUNTED:
                return tuple(found) or (first,)
            window *= 2

    def _later(self, after: datetime) -> Iterator[datetime]:
        zone = _zone(self.tz)
        for local in CronSim(self.expression, after.astimezone(zone)):
            occurrence = local.astimezone(UTC)
            if occurrence > after:  # local times that come twice
                yield occurrence

    def __str__(self) -> str:
        return f"cron {' '.join(self.expression.split())} {self.tz}"


def after(span: Duration, *, since: str = "", catch_up: CatchUp | str = CatchUp.ONCE) -> Schedule:
    """Once, a span after the binding has come into force: the case's start, or the entry of the stage it is in.

    `since`: the name of a fact, from when it was last written, or of a milestone, from when it was reached.
    """
    return After(span, since=since, catch_up=catch_up)


def at(moment: datetime | str, *, catch_up: CatchUp | str = CatchUp.ONCE) -> Schedule:
    """Once, at a moment (aware), or at the one that a fact of this name holds: a datetime, or text in ISO 8601 with an
    offset. The fact may change, and come later."""
    if isinstance(moment, str):
        return At(None, since=moment, catch_up=catch_up)
    return At(moment, catch_up=catch_up)


def every(span: Duration, *, catch_up: CatchUp | str = CatchUp.ONCE) -> Schedule:
    """Again and again, counted from when the binding has come into force; the first time one span after it."""
    return Every(span, catch_up=catch_up)


def cron(expression: str, *, tz: str = "UTC", catch_up: CatchUp | str = CatchUp.ONCE) -> Schedule:
    """At the times of a cron expression: minute, hour, day of month, month, day of week, with seconds in front if there
    are six. `tz`: an IANA name, such as `"Europe/Berlin"`."""
    return Cron(expression, tz, catch_up=catch_up)


def moment_of(value: object) -> datetime | None:
    """The moment that a fact's plain value is; None for a value that is none, or has no time zone."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return None if found is None or found.utcoffset() is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _once(due: datetime, after: datetime | None) -> datetime | None:
    return due.astimezone(UTC) if after is None or due > after else None


def _one_only(schedule: Schedule) -> Iterator[Mistake]:
    if schedule.catch_up == CatchUp.ALL:
        yield f"'{schedule}' has one occurrence, and catch_up='all' is for several", "say 'once' or 'skip'"


def _span(span: Duration) -> Iterator[Mistake]:
    try:
        found = duration(span)
    except OverflowError:
        found = timedelta.max
    except SettingsError as error:
        yield str(error), "give a timedelta, or text as it says"
        return
    if not SHORTEST <= found <= LONGEST:
        yield (
            f"its span {span!r} is {'shorter than a second' if found < SHORTEST else 'longer than a hundred years'}",
            "give one of at least '1s' and at most '36525d'",
        )


def _written(span: Duration) -> str:
    """A span in one form, however it was written; one that is none as it is."""
    try:
        return in_words(duration(span))
    except (SettingsError, OverflowError):
        return str(span)


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return None


def _right_zone(name: str) -> str:
    """Where to go instead: the zone whose name, or whose city, is most like it."""
    zones = sorted(available_timezones())
    if not zones:
        return "this machine has no time zones; install the package tzdata"
    whole = {zone.casefold(): zone for zone in zones}
    places = {zone.rpartition("/")[2].casefold(): zone for zone in zones if "/" in zone}
    asked = name.casefold().replace(" ", "_")
    for known, part in ((whole, asked), (places, asked.rpartition("/")[2])):
        if found := get_close_matches(part, known, n=1, cutoff=ALIKE):
            return f"did you mean {known[found[0]]!r}?"
    return "give an IANA name, such as 'Europe/Berlin' or 'UTC'"
