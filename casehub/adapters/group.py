"""One transaction of a store: which turns go into it, and the rows that they make.

Each turn is decided on its own: its log must end where the turn begins, and its key must be new. Rows are collected
table by table; how they are written is the database's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from casehub.adapters.written import Kind, Where, Written, to_micros
from casehub.spi import CommitResult, Committed, Conflict, Duplicate
from casehub.tasks import Task

MARK_EVERY: Final = 1_000
"""Events between two marks."""
KNOWN_CASES: Final = 5_000
"""Cases whose versions are held in memory; when there are more, they are looked up again."""

POSITION: Final = "SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM events UNION ALL SELECT max(seq) FROM retired) AS last"
"""The last position that has been given: it never goes back, whatever is retired."""
COUNTED: Final = f"""SELECT (SELECT count(*) FROM events WHERE case_no NOT IN (SELECT no FROM retiring)),
(SELECT coalesce(sum(events), 0) FROM retired), ({POSITION})"""  # noqa: S608 - the statement above
"""Events that are there, events that are retired, the last position."""

Key = tuple[str, str, str]
"""Tenant, case and the key of an input."""


class Rows(Protocol):
    """What a statement gives. `rowcount`: how many rows it has changed."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection that takes statements with `?` or `:name` for the values."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Rows: ...


@dataclass(slots=True, eq=False)
class KnownCase:
    """Where a case stands; `no` is 0 before its first event. `epoch`, `owner`: whose it is, in a database of several hubs;
    the owner is empty where it is this hub's to write."""

    no: int = 0
    version: int = 0
    seq: int = 0
    status: str = ""
    stalled: int = 0
    reason: str = ""
    changed_at: int = 0
    epoch: int = 0
    owner: str = ""


class Known:
    """What the writer knows of the database without asking: made after connecting, thrown away after an error."""

    __slots__ = ("cases", "high", "kinds", "last_kind", "marked", "seq")

    def __init__(self, connection: Connection) -> None:
        self.cases: dict[Where, KnownCase] = {}
        self.kinds: dict[Kind, int] = {
            (tenant, definition, name, binding, worker): no
            for no, tenant, definition, name, binding, worker in connection.execute(
                "SELECT no, tenant, definition, name, binding, worker FROM kinds"
            )
        }
        self.last_kind = max(self.kinds.values(), default=0)
        self.seq: int = connection.execute(POSITION).fetchone()[0]
        mark = connection.execute("SELECT high, seq FROM marks ORDER BY high DESC, seq DESC LIMIT 1").fetchone()
        self.high: int = -(2**62) if mark is None else mark[0]
        self.marked: int = 0 if mark is None else mark[1]
        (latest,) = connection.execute("SELECT max(at) FROM events WHERE seq > ?", (self.marked,)).fetchone()
        if latest is not None:
            self.high = max(self.high, latest)


@dataclass(eq=False)
class Group(ABC):
    """The rows of one transaction, by table. After `flush` and a commit, `settle`; after anything else, a new `Known`."""

    known: Known
    size: int = 0
    events: list[tuple[int, int, int, int, int, int, str, int, str, float | None]] = field(default_factory=list)
    kinds: list[tuple[int, str, str, str, str, str]] = field(default_factory=list)
    begun: dict[Where, tuple[str, int]] = field(default_factory=dict)
    changed: dict[Where, KnownCase] = field(default_factory=dict)
    longer: dict[Where, KnownCase] = field(default_factory=dict)
    keys: dict[Key, int] = field(default_factory=dict)
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
        case = self.known.cases[where] = self.find_case(where) or KnownCase()
        return case

    def _consumed(self, key: Key) -> int | None:
        found = self.keys.get(key)
        return self.find_key(key) if found is None else found

    @abstractmethod
    def find_case(self, where: Where) -> KnownCase | None:
        """Where the database has a case, None for one that it does not have."""

    @abstractmethod
    def find_key(self, key: Key) -> int | None:
        """The position of the turn that consumed a key."""

    @abstractmethod
    def flush(self) -> None:
        """Write the rows, within the transaction that is open."""

    @property
    def mark_due(self) -> bool:
        """Whether a mark comes at the end of this group."""
        return self.known.seq - self.known.marked >= MARK_EVERY

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

    def settle(self) -> None:
        """After the commit: what has ended need not be known any longer."""
        cases = self.known.cases
        for where in self.ended:
            cases.pop(where, None)
        if len(cases) > KNOWN_CASES:
            cases.clear()

    def begun_rows(self) -> list[tuple[str | int, ...]]:
        """The rows of the cases that begin: number, tenant, id, definition, and from `status` on as a case changes."""
        rows: list[tuple[str | int, ...]] = []
        for where, (definition, at) in self.begun.items():
            case = self.known.cases[where]
            rows.append(
                (
                    case.no, *where, definition, case.status, case.stalled, case.reason,
                    case.version, case.seq, at, case.changed_at,
                )
            )  # fmt: skip
        return rows
