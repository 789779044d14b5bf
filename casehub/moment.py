"""A moment in the log of a case: a global position, or a time, at which it is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from casehub.durations import duration
from casehub.errors import SettingsError
from casehub.events import Event

Moment = int | datetime | timedelta | str
"""A position, a time (without an offset: UTC), or how long ago; as text `"1234"`, `"2026-11-30T12:00"`, `"2h"`."""


def read_moment(at: Moment, now: datetime) -> int | datetime:
    """A moment as a position or a time in UTC. Raises `SettingsError` for what is none, and for one that has not come."""
    if isinstance(at, str):
        at = _of_text(at)
    if isinstance(at, timedelta):
        at = now - at
    if isinstance(at, datetime):
        at = at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)
        if at > now:
            raise SettingsError(f"{at:%Y-%m-%d %H:%M:%SZ} has not come yet; give a time that has passed")
    elif at < 1:
        raise SettingsError(f"position {at}: positions begin with 1")
    return at


def _of_text(text: str) -> int | datetime | timedelta:
    if text.strip().isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        pass
    try:
        return duration(text)
    except SettingsError:
        raise SettingsError(
            f"{text!r} is no moment; give a position (1234), a time (2026-11-30T12:00Z), or how long ago (2h)"
        ) from None


def up_to(events: Sequence[Event], at: int | datetime) -> Sequence[Event]:
    """The events of a case at a moment or before it. Raises `SettingsError` where it had not started."""
    if isinstance(at, datetime):
        found = [event for event in events if event.at <= at]
    else:
        found = [event for event in events if event.seq <= at]
    if not found:
        first = events[0]
        when = f"{at:%Y-%m-%d %H:%M:%SZ}" if isinstance(at, datetime) else f"position {at}"
        raise SettingsError(
            f"case {first.case!r} had not started at {when}; it began at position {first.seq}, {first.at:%Y-%m-%d %H:%M:%SZ}"
        )
    return found


def whole_turns(events: Sequence[Event], at: int | datetime) -> Sequence[Event]:
    """As `up_to`, without a turn that is not over then, as nobody ever saw a case in the middle of one; the first is whole."""
    found = list(up_to(events, at))
    while found and len(found) < len(events) and events[len(found)].turn == found[-1].turn:
        turn = found[-1].turn
        found = [event for event in found if event.turn != turn]
    return found or [event for event in events if event.turn == events[0].turn]
