"""What can be asked of a log in a database: queries become SQL that costs what it answers, not what is stored.

Which kinds of event a query means is decided here, on the few rows of `kinds`; the events themselves are found through
one of two indexes: by case, or by kind. Values are bound; what is put together are clauses that stand in these modules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, Self, TypeVar

from casehub.adapters.codec import decode
from casehub.adapters.group import POSITION, Connection
from casehub.adapters.written import from_micros, to_micros
from casehub.events import CaseId, Envelope, Event, TimerId, UnknownEvent
from casehub.lifecycle import CaseStatus
from casehub.query import By, CaseQuery, CaseSummary, EventQuery
from casehub.spi import DueTimer

TAIL_BATCH: Final = 500
"""Events in one batch of `tail`, at most."""
KINDS_MOST: Final = 500
"""Kinds that are looked up one by one; a query that means more of them reads the log along instead."""

UNREADABLE: Final = "unreadable"
"""In the body of an event whose row is no JSON: what stands there."""
_END: Final = 2**62
EVERY_STATUS: Final = tuple(CaseStatus)

COUNT: Final = "SELECT {group}, count(*) FROM events AS e WHERE {where} GROUP BY {group}"
RANGE: Final = "{e}.seq > :after AND {e}.seq <= :upto"
SURE: Final = "{e}.confidence >= :sure AND {e}.confidence < :unsure"
LAST_CASES: Final = "SELECT {columns} FROM cases WHERE {where} AND no < :before ORDER BY no DESC LIMIT :limit"
CASE_COLUMNS: Final = "no, tenant, case_id, definition, status, stalled, reason, version, seq, started_at, changed_at"
_FIND_CASE: Final = "SELECT no FROM cases WHERE tenant = ? AND case_id = ?"
_LAST_MARK: Final = "SELECT seq FROM marks ORDER BY high DESC, seq DESC LIMIT 1"
_MARK_BEFORE: Final = "SELECT seq FROM marks WHERE high < ? ORDER BY high DESC, seq DESC LIMIT 1"
_ACTIVE: Final = (
    "SELECT no, tenant, case_id FROM cases WHERE tenant = ? AND status IN ('STARTING', 'RUNNING', 'COMPENSATING')"
)
_OUTCOME: Final = 'SELECT seq FROM inputs WHERE tenant = ? AND case_id = ? AND "key" = ?'
_INPUTS: Final = 'SELECT "key", seq FROM inputs WHERE tenant = ? AND case_id = ? ORDER BY seq, "key"'
_DUE: Final = "SELECT tenant, case_id, timer, due FROM timers WHERE due <= ? ORDER BY due LIMIT ?"
_RETIRING: Final = "SELECT count(*) FROM (SELECT no FROM retiring LIMIT 1) AS found"
_THERE: Final = "e.case_no NOT IN (SELECT no FROM retiring)"
_NEXT_DUE: Final = "SELECT min(due) FROM timers WHERE due > ?"
_BOOKMARK: Final = "SELECT seq FROM subscribers WHERE tenant = ? AND name = ?"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A row of `kinds`: what the events of this number have in common."""

    no: int
    tenant: str
    definition: str
    name: str
    binding: str
    worker: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """A query in SQL. `more`: what is left to look at in each event; `by_kind`: whether the events are found by kind."""

    where: str
    more: str
    values: dict[str, Any]
    by_kind: bool


class LogSession(ABC):
    """Asks through one connection, in one thread. Questions are functions of a session, given to `ask`.

    What each database says in its own SQL: `begin` a snapshot, `events` in full, the clauses `of_kinds` and `of_cases`, the
    ids of sub-cases `ordered` by their bytes, and for tasks `offered` to somebody and `mine`.
    """

    begin: ClassVar[str]
    events: ClassVar[str]
    of_kinds: ClassVar[str]
    of_cases: ClassVar[str]
    ordered: ClassVar[str]
    offered: ClassVar[str]
    mine: ClassVar[str]

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._kinds: dict[int, _Kind] = {}
        self._last_kind = 0
        self._meant: dict[Any, list[int]] = {}

    def ask(self, question: Callable[[Self], T]) -> T:
        """The answer, all of it from one snapshot of the database."""
        self.connection.execute(self.begin)
        try:
            answer = question(self)
        except BaseException:
            self.give_up()
            raise
        self.connection.execute("COMMIT")
        return answer

    @abstractmethod
    def give_up(self) -> None:
        """After an error, which is what the asker hears of: end the snapshot, if there still is one."""

    @abstractmethod
    def these(self, values: Sequence[int] | Sequence[str]) -> Any:
        """Kinds, cases or names, as the value of a clause."""

    @abstractmethod
    def of_statuses(self, statuses: Sequence[CaseStatus]) -> str:
        """The clause for cases of these statuses among the stalled ones."""

    @abstractmethod
    def first_of_kinds(self, meaning: Meaning, order: str) -> str:
        """The clause for the first events of these kinds, so that to find them costs no more than how many they are."""

    @abstractmethod
    def count_of_kinds(self, meaning: Meaning, group: str) -> str:
        """The statement that counts the events of these kinds, by a column."""

    @abstractmethod
    def sure_of_kinds(self, where: str) -> str:
        """The clause for the events of these kinds that carry a confidence within `where`."""

    def load(self, case: CaseId, tenant: str) -> Sequence[Event]:
        return self._events("e.case_no = :case", case=self._number(case, tenant), limit=_END)

    def query(self, query: EventQuery) -> Sequence[Event]:
        meaning = self._meaning(query)
        where, order = meaning.where, "DESC" if query.newest else "ASC"
        if meaning.by_kind:
            where = self.first_of_kinds(meaning, order)
        return self._events(where, order, **meaning.values, limit=max(query.limit, 0))

    def count(self, query: EventQuery, by: By | None) -> Mapping[str, int]:
        meaning = self._meaning(query)
        group = {"by": '"by"', "case": "case_no"}.get(by or "", "kind")
        if meaning.by_kind:
            sql = self.count_of_kinds(meaning, group)
        else:
            sql = COUNT.format(group=f"e.{group}", where=meaning.where)
        found = self.connection.execute(sql, meaning.values).fetchall()
        if by is None:
            return {"": sum(number for _, number in found)}
        counts: Counter[str] = Counter()
        for value, number in found:
            counts[self._label(by, value)] += number
        return counts

    def _label(self, by: By, value: Any) -> str:
        if by == "case":
            (value,) = self.connection.execute("SELECT case_id FROM cases WHERE no = ?", (value,)).fetchone()
        elif by != "by":
            value = getattr(self._kinds[value], by)
        return str(value)

    def batch(self, after: int, tenant: str) -> tuple[Sequence[Event], int, bool]:
        """The next events of a tail, the position it has got to, and whether that is the end of the log."""
        last, upto = self.position(), after + TAIL_BATCH
        kinds = self.these(self._kinds_of(EventQuery(tenant=tenant)))
        where = f"{RANGE.format(e='e')} AND {self.of_kinds}"
        return self._events(where, after=after, upto=upto, kinds=kinds, limit=_END), min(upto, last), upto >= last

    def position(self) -> int:
        return self._first(POSITION)

    def _number(self, case: CaseId, tenant: str) -> int:
        """What the case is called inside; 0 for one that was never started."""
        return self._first(_FIND_CASE, (tenant, case))

    def _meaning(self, query: EventQuery) -> Meaning:
        """Where the events are, and what is left to look at in each of them."""
        after, upto = query.after, _END if query.upto is None else query.upto
        kinds = self._kinds_of(query)
        values: dict[str, Any] = {"upto": upto, "kinds": self.these(kinds)}
        # Events of a case that has just been retired are there until they are swept, and nobody is to count them.
        more = f" AND {_THERE}" if self._first(_RETIRING) else ""
        if query.since is not None:
            values["since"] = since = to_micros(query.since)
            after = max(after, self._first(_MARK_BEFORE, (since,)))
            more += " AND e.at >= :since"
        if query.until is not None:
            values["until"] = to_micros(query.until)
            more += " AND e.at < :until"
        if query.by is not None:
            values["by"] = query.by
            more += ' AND e."by" = :by'
        values["after"] = after
        where = RANGE.format(e="e") + more
        sure = query.confidence_from is not None or query.confidence_below is not None
        if sure:
            values["sure"] = -1.0 if query.confidence_from is None else query.confidence_from
            values["unsure"] = 2.0 if query.confidence_below is None else query.confidence_below
            where += f" AND {SURE.format(e='e')}"
        narrow = bool(query.types) or (query.definition, query.binding, query.worker) != (None, None, None)
        if query.case is not None or query.last_cases is not None:
            values["cases"] = self.these(self._numbers(query, upto))
            where = f"{self.of_cases} AND {where} AND {self.of_kinds}" if narrow else f"{self.of_cases} AND {where}"
            return Meaning(where, more, values, by_kind=False)
        if sure:
            return Meaning(self.sure_of_kinds(where), more, values, by_kind=False)
        if narrow and len(kinds) <= KINDS_MOST:
            values["mark"] = self._first(_LAST_MARK)
            return Meaning(where, more, values, by_kind=True)
        return Meaning(f"{where} AND {self.of_kinds}", more, values, by_kind=False)

    def _first(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """The first column of the first row; 0 where there is none."""
        row = self.connection.execute(sql, parameters).fetchone()
        return 0 if row is None else int(row[0])

    def _numbers(self, query: EventQuery, upto: int) -> list[int]:
        """The cases that a query names, by the case or by how many started last."""
        numbers: list[int] = []
        if query.last_cases is not None:
            sql = self.cases_sql("no", EVERY_STATUS, query.definition is not None, None)
            values = {"before": upto + 1, "limit": max(query.last_cases, 0), "definition": query.definition}
            numbers = [no for (no,) in self.connection.execute(sql, {"tenant": query.tenant, **values})]
        if query.case is not None:
            number = self._number(query.case, query.tenant)
            numbers = [number] if query.last_cases is None or number in numbers else []
        return numbers

    def _kinds_of(self, query: EventQuery) -> list[int]:
        self._learn()
        asked = (query.tenant, query.types, query.definition, query.binding, query.worker)
        found = self._meant.get(asked)
        if found is None:
            if len(self._meant) >= 256:
                self._meant.clear()
            found = self._meant[asked] = [
                kind.no
                for kind in self._kinds.values()
                if kind.tenant == query.tenant
                and (not query.types or kind.name in query.types)
                and query.definition in (None, kind.definition)
                and query.binding in (None, kind.binding)
                and query.worker in (None, kind.worker)
            ]
        return found

    def _learn(self) -> None:
        """Kinds are only ever added; those of this snapshot that are new since the last question."""
        for row in self.connection.execute(
            "SELECT no, tenant, definition, name, binding, worker FROM kinds WHERE no > ? ORDER BY no",
            (self._last_kind,),
        ).fetchall():
            kind = _Kind(*row)
            self._kinds[kind.no] = kind
            self._last_kind = kind.no
            self._meant.clear()

    def _events(self, where: str, order: str = "ASC", **values: Any) -> Sequence[Event]:
        self._learn()
        rows = self.connection.execute(self.events.format(where=where, order=order), values).fetchall()
        found: list[Event] = []
        envelope = None
        for seq, case, kind_no, version, turn, at, by, cause, body in rows:
            kind = self._kinds[kind_no]
            if envelope is None or envelope.turn != turn or envelope.case != case:
                envelope = Envelope(
                    case=CaseId(case),
                    definition=kind.definition,
                    tenant=kind.tenant,
                    turn=turn,
                    version=version,
                    seq=seq,
                    at=from_micros(at),
                )
            try:
                found.append(decode(kind.name, body, envelope, version, by, cause))
            except (
                ValueError
            ):  # somebody has changed the database: its case is parked, and whoever reads others goes on
                text = body if isinstance(body, str) else bytes(body).decode(errors="replace")
                unknown = UnknownEvent(type=kind.name, body={UNREADABLE: text}, envelope=envelope, version=version)
                unknown.by, unknown.cause = by, cause
                found.append(unknown)
        return found

    # ---- cases, and what else is kept

    def cases_sql(self, columns: str, statuses: tuple[CaseStatus, ...], definition: bool, stalled: bool | None) -> str:
        """The cases that started last: of each status, and then of all, so that an index gives them in their order."""
        where = "tenant = :tenant AND definition = :definition" if definition else "tenant = :tenant"
        if stalled is not None:
            where += f" AND stalled = {stalled:d}"
        if stalled:  # they are few, and have an index of their own
            return LAST_CASES.format(columns=columns, where=f"{where} AND {self.of_statuses(statuses)}")
        if definition and statuses == EVERY_STATUS:
            return LAST_CASES.format(columns=columns, where=where)
        parts = (LAST_CASES.format(columns=columns, where=f"{where} AND status = '{status}'") for status in statuses)
        every = " UNION ALL ".join(f"SELECT * FROM ({part}) AS part" for part in parts)  # noqa: S608 - constants of this module
        return f"{every} ORDER BY no DESC LIMIT :limit"

    def cases(self, query: CaseQuery) -> Sequence[CaseSummary]:
        before = _END
        if query.after is not None:
            before = self._number(query.after, query.tenant)
        statuses = tuple(dict.fromkeys(query.statuses)) or EVERY_STATUS
        sql = self.cases_sql(CASE_COLUMNS, statuses, query.definition is not None, query.stalled)
        values = {
            "tenant": query.tenant,
            "definition": query.definition,
            "before": before,
            "limit": max(query.limit, 0),
        }
        return [summary_of(row) for row in self.connection.execute(sql, values).fetchall()]

    def active(self) -> Sequence[tuple[str, CaseId]]:
        self._learn()
        found = [
            row
            for tenant in dict.fromkeys(kind.tenant for kind in self._kinds.values())
            for row in self.connection.execute(_ACTIVE, (tenant,)).fetchall()
        ]
        return [(tenant, CaseId(case)) for _, tenant, case in sorted(found)]

    def outcome(self, case: CaseId, key: str, tenant: str) -> int | None:
        row = self.connection.execute(_OUTCOME, (tenant, case, key)).fetchone()
        return None if row is None else int(row[0])

    def inputs(self, case: CaseId, tenant: str) -> Mapping[str, int]:
        return {key: int(seq) for key, seq in self.connection.execute(_INPUTS, (tenant, case)).fetchall()}

    def due(self, now: datetime, limit: int) -> Sequence[DueTimer]:
        rows = self.connection.execute(_DUE, (to_micros(now), max(limit, 0))).fetchall()
        return [DueTimer(tenant, CaseId(case), TimerId(timer), from_micros(due)) for tenant, case, timer, due in rows]

    def next_due(self, after: datetime | None) -> datetime | None:
        (due,) = self.connection.execute(_NEXT_DUE, (-_END if after is None else to_micros(after),)).fetchone()
        return None if due is None else from_micros(due)

    def bookmark(self, subscriber: str, tenant: str) -> int:
        return self._first(_BOOKMARK, (tenant, subscriber))


def summary_of(row: Sequence[Any]) -> CaseSummary:
    """A case on a line, of its row: the columns are those of `CASE_COLUMNS`."""
    first, tenant, case, definition, status, stalled, reason, version, seq, started_at, changed_at = row
    return CaseSummary(
        case=CaseId(case),
        definition=definition,
        status=CaseStatus(status),
        version=version,
        seq=seq,
        started_at=from_micros(started_at),
        changed_at=from_micros(changed_at),
        tenant=tenant,
        stalled=bool(stalled),
        reason=reason,
        first=first,
    )
