"""One transaction of the SQLite store: which turns go into it, and the rows that they make.

Each turn is decided on its own: its log must end where the turn begins, and its key must be new. Rows are collected
table by table and written with one call a table.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from casehub.adapters.codec import encode, form_of
from casehub.adapters.sqlite_schema import to_micros
from casehub.adapters.sqlite_tasks import write_tasks
from casehub.errors import FactError, SettingsError
from casehub.events import CaseStatusChanged
from casehub.query import confidence_of
from casehub.spi import CommitResult, Committed, Conflict, Duplicate, Refused, TooLarge, Turn
from casehub.tasks import Task

MARK_EVERY: Final = 1_000
"""Events between two marks."""
KNOWN_CASES: Final = 50_000
"""Cases whose versions are held in memory; when there are more, they are looked up again."""


_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_KIND: Final = "INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?)"
_BEGUN: Final = "INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CHANGED: Final = (
    "UPDATE cases SET status = ?, stalled = ?, reason = ?, version = ?, seq = ?, changed_at = ? WHERE no = ?"
)
_LONGER: Final = "UPDATE cases SET version = ?, seq = ?, changed_at = ? WHERE no = ?"
_CONSUMED: Final = "INSERT INTO inputs VALUES (?, ?, ?, ?)"
_TIMER_SET: Final = "INSERT OR REPLACE INTO timers VALUES (?, ?, ?, ?)"
_TIMER_GONE: Final = "DELETE FROM timers WHERE tenant = ? AND case_id = ? AND timer = ?"
_TIMERS_GONE: Final = "DELETE FROM timers WHERE tenant = ? AND case_id = ?"
_BOOKMARK: Final = "INSERT OR REPLACE INTO subscribers VALUES (?, ?, ?)"
_SORT_IN: Final = "INSERT INTO events_by_kind SELECT kind, seq FROM events WHERE seq > ? ORDER BY kind, seq"
_MARK: Final = "INSERT INTO marks VALUES (?, ?)"
_FIND_CASE: Final = "SELECT no, version, seq, status, stalled, reason FROM cases WHERE tenant = ? AND case_id = ?"
_FIND_KEY: Final = 'SELECT seq FROM inputs WHERE tenant = ? AND case_id = ? AND "key" = ?'

Where = tuple[str, str]
"""Tenant and case."""
Kind = tuple[str, str, str, str, str]
"""Tenant, definition, name, binding, worker."""


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
    if not _can_be_text(envelope.case, turn.key, *turn.timers):
        return Refused("", f"case {envelope.case!r}: its id, a key or a timer has a lone surrogate; use valid text")
    for event in turn.events:
        try:
            name, body = encode(event)
        except (FactError, SettingsError) as error:
            return Refused(event.name, str(error))
        if len(body) > event_bytes:
            return TooLarge(name, len(body), event_bytes)
        form = form_of(type(event))
        kind = (tenant, definition, name, *form.mentions(event))
        if not _names_can_be_text(event.by, *kind):
            return Refused(
                name, f"event {name} of case {envelope.case!r}: an identifier has a lone surrogate; use valid text"
            )
        size += len(body)
        if isinstance(event, CaseStatusChanged):
            reason = event.reason
        rows.append((kind, event.by, event.cause, body.decode(), confidence_of(event) if form.confident else None))
    return Written(turn, rows, to_micros(envelope.at), size, reason)


def _can_be_text(*texts: str) -> bool:
    for text in texts:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                return False
    return True


_names_can_be_text = lru_cache(maxsize=4_096)(_can_be_text)
"""The same for the names of authors and kinds, which are few and come again and again."""


@dataclass(slots=True, eq=False)
class KnownCase:
    """Where a case stands; `no` is 0 before its first event."""

    no: int = 0
    version: int = 0
    seq: int = 0
    status: str = ""
    stalled: int = 0
    reason: str = ""
    changed_at: int = 0


class Known:
    """What the writer knows of the database without asking: made after connecting, thrown away after an error."""

    __slots__ = ("cases", "high", "kinds", "last_kind", "marked", "seq")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.cases: dict[Where, KnownCase] = {}
        self.kinds: dict[Kind, int] = {
            (tenant, definition, name, binding, worker): no
            for no, tenant, definition, name, binding, worker in connection.execute("SELECT * FROM kinds")
        }
        self.last_kind = max(self.kinds.values(), default=0)
        (self.seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
        mark = connection.execute("SELECT high, seq FROM marks ORDER BY high DESC, seq DESC LIMIT 1").fetchone()
        self.high: int = -(2**62) if mark is None else mark[0]
        self.marked: int = 0 if mark is None else mark[1]
        (latest,) = connection.execute("SELECT max(at) FROM events WHERE seq > ?", (self.marked,)).fetchone()
        if latest is not None:
            self.high = max(self.high, latest)


@dataclass(slots=True, eq=False)
class Group:
    """The rows of one transaction, by table. After `flush` and a commit, `settle`; after anything else, a new `Known`."""

    connection: sqlite3.Connection
    known: Known
    size: int = 0
    events: list[tuple[int, int, int, int, int, int, str, int, str, float | None]] = field(default_factory=list)
    kinds: list[tuple[int, str, str, str, str, str]] = field(default_factory=list)
    begun: dict[Where, tuple[str, int]] = field(default_factory=dict)
    changed: dict[Where, KnownCase] = field(default_factory=dict)
    longer: dict[Where, KnownCase] = field(default_factory=dict)
    keys: dict[tuple[str, str, str], int] = field(default_factory=dict)
    timers: dict[tuple[str, str, str], int | None] = field(default_factory=dict)
    ended: list[Where] = field(default_factory=list)
    bookmarks: list[tuple[str, str, int]] = field(default_factory=list)
    tasks: dict[tuple[str, str], Task] = field(default_factory=dict)

    def decide(self, written: Written, failed: set[Where]) -> CommitResult:
        """Take the turn in, or say why not. `failed`: cases whose turns are refused from here on."""
        turn, envelope = written.turn, written.turn.envelope
        where = (envelope.tenant, envelope.case)
        case = self.known.cases.get(where) or self._find(where)
        if turn.key:
            seq = self._consumed((*where, turn.key))
            if seq is not None:
                failed.add(where)
                return Duplicate(seq)
        if envelope.version != case.version + 1 or where in failed:
            failed.add(where)
            return Conflict(case.version)
        seq = self.known.seq
        if written.rows:
            seq += 1
            self._append(written, where, case)
        if turn.key:
            self.keys[(*where, turn.key)] = seq
        for timer, due in turn.timers.items():
            self.timers[(*where, timer)] = None if due is None else to_micros(due)
        for id, task in turn.tasks.items():
            self.tasks[envelope.tenant, id] = task
        if turn.status.ended:
            self.ended.append(where)
        return Committed(seq)

    def _find(self, where: Where) -> KnownCase:
        row = self.connection.execute(_FIND_CASE, where).fetchone()
        case = self.known.cases[where] = KnownCase() if row is None else KnownCase(*row)
        return case

    def _consumed(self, key: tuple[str, str, str]) -> int | None:
        found = self.keys.get(key)
        if found is None:
            row = self.connection.execute(_FIND_KEY, key).fetchone()
            found = None if row is None else row[0]
        return found

    def _append(self, written: Written, where: Where, case: KnownCase) -> None:
        turn, known, at = written.turn, self.known, written.at
        envelope = turn.envelope
        number, seq, version = envelope.turn, known.seq, case.version
        if not version:
            case.no = seq + 1
            self.begun[where] = (envelope.definition, at)
        for kind, by, cause, body, confidence in written.rows:
            seq += 1
            version += 1
            kind_no = known.kinds.get(kind) or self._new_kind(kind)
            self.events.append((seq, case.no, kind_no, version, number, at, by, cause, body, confidence))
        known.seq = case.seq = seq
        case.version = version
        case.changed_at = at
        if at > known.high:
            known.high = at
        if case.status != turn.status or case.stalled != turn.stalled or written.reason not in (None, case.reason):
            case.status, case.stalled = str(turn.status), int(turn.stalled)
            case.reason = case.reason if written.reason is None else written.reason
            self.changed[where] = case
        self.longer[where] = case
        self.size += written.size

    def _new_kind(self, kind: Kind) -> int:
        self.known.last_kind += 1
        no = self.known.kinds[kind] = self.known.last_kind
        self.kinds.append((no, *kind))
        return no

    def flush(self) -> None:
        """Write the rows, within the transaction that is open."""
        many, known = self.connection.executemany, self.known
        if self.kinds:
            many(_KIND, self.kinds)
        if self.events:
            many(_EVENT, self.events)
        if self.begun:
            many(_BEGUN, [self._begun_row(where, *first) for where, first in self.begun.items()])
        if self.changed:
            many(
                _CHANGED,
                [
                    (case.status, case.stalled, case.reason, case.version, case.seq, case.changed_at, case.no)
                    for where, case in self.changed.items()
                    if where not in self.begun
                ],
            )
        if self.longer:
            many(
                _LONGER,
                [
                    (case.version, case.seq, case.changed_at, case.no)
                    for where, case in self.longer.items()
                    if where not in self.changed
                ],
            )
        if self.keys:
            many(_CONSUMED, [(*key, seq) for key, seq in self.keys.items()])
        if self.timers:
            many(_TIMER_SET, [(*timer, due) for timer, due in self.timers.items() if due is not None])
            many(_TIMER_GONE, [timer for timer, due in self.timers.items() if due is None])
        if self.ended:
            many(_TIMERS_GONE, self.ended)
        if self.tasks:
            write_tasks(self.connection, self.tasks.values())
        if self.bookmarks:
            many(_BOOKMARK, self.bookmarks)
        if known.seq - known.marked >= MARK_EVERY:
            self.connection.execute(_SORT_IN, (known.marked,))
            self.connection.execute(_MARK, (known.high, known.seq))
            known.marked = known.seq

    def _begun_row(self, where: Where, definition: str, at: int) -> tuple[str | int, ...]:
        tenant, case_id = where
        case = self.known.cases[where]
        return (
            case.no, tenant, case_id, definition, case.status, case.stalled, case.reason,
            case.version, case.seq, at, case.changed_at,
        )  # fmt: skip

    def settle(self) -> None:
        """After the commit: what has ended need not be known any longer."""
        cases = self.known.cases
        for where in self.ended:
            cases.pop(where, None)
        if len(cases) > KNOWN_CASES:
            cases.clear()
