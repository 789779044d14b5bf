"""A turn made ready for a database: encoded on the loop, so that one that cannot be written never gets into a group.

Times in a database are microseconds since 1970 (UTC).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from casehub.adapters.codec import FORMS, encode
from casehub.errors import FactError, SettingsError
from casehub.events import CaseStatusChanged
from casehub.query import confidence_of
from casehub.spi import Refused, TooLarge, Turn

EVENT_BYTES: Final = 3_145_728
"""Largest body of one event, as JSON, unless a store is told otherwise."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

Where = tuple[str, str]
"""Tenant and case."""
Kind = tuple[str, str, str, str, str]
"""Tenant, definition, name, binding, worker."""


def to_micros(at: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (at - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The time in UTC, exactly."""
    return _EPOCH + timedelta(microseconds=micros)


@dataclass(slots=True, eq=False)
class Written:
    """A turn made ready for the writer. `rows`: kind, by, cause, body, confidence; `reason`: of its last change of status."""

    turn: Turn
    rows: list[tuple[Kind, str, int, str, float | None]]
    at: int
    size: int
    reason: str | None


def prepare(turn: Turn, event_bytes: int) -> Written | TooLarge | Refused:
    """Encode a turn: done on the loop, so that one that cannot be written never gets into a group."""
    try:
        return _prepared(turn, event_bytes)
    except Exception as error:  # what user code put into a key, an author or an event may be anything
        name = turn.events[0].name if turn.events else ""
        return Refused(name, f"a turn of case {turn.envelope.case!r} holds {type(error).__name__}: {error}")


def _prepared(turn: Turn, event_bytes: int) -> Written | TooLarge | Refused:
    envelope = turn.envelope
    tenant, definition = envelope.tenant, envelope.definition
    rows: list[tuple[Kind, str, int, str, float | None]] = []
    size, reason = 0, None
    if not _can_be_text("".join((envelope.case, tenant, definition, turn.key, *turn.timers))):
        return Refused(
            "",
            f"case {envelope.case!r}: its id, its tenant, a key or a timer has a lone surrogate or a NUL; use valid text",
        )
    for event in turn.events:
        try:
            name, body = encode(event)
        except (FactError, SettingsError) as error:
            return Refused(event.name, str(error))
        if len(body) > event_bytes:
            return TooLarge(name, len(body), event_bytes)
        form = FORMS[type(event)]
        binding, worker = form.mentions(event) if form.mentions else ("", "")
        names = event.by + name + binding + worker
        if not (names.isprintable() or _can_be_text(names)):
            return Refused(
                name,
                f"event {name} of case {envelope.case!r}: an identifier has a lone surrogate or a NUL; use valid text",
            )
        size += len(body)
        if isinstance(event, CaseStatusChanged):
            reason = event.reason
        sure = confidence_of(event) if form.confident else None
        rows.append(((tenant, definition, name, binding, worker), event.by, event.cause, body.decode(), sure))
    return Written(turn, rows, to_micros(envelope.at), size, reason)


def _can_be_text(text: str) -> bool:
    if "\0" in text:  # PostgreSQL has no text with it, and what one store takes the others take
        return False
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True
