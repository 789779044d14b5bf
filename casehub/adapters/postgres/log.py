"""How PostgreSQL is asked for events: the statements that need its own SQL, and the connection they go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, TypeVar

import psycopg

from casehub.adapters.postgres.connection import LOST, READING, Connection, Place
from casehub.adapters.readers import Reader
from casehub.adapters.sql_log import COUNT, SURE, LogSession, Meaning
from casehub.adapters.written import from_micros, to_micros
from casehub.errors import StoreUnavailableError
from casehub.events import CaseId, TimerId
from casehub.lifecycle import CaseStatus
from casehub.spi import DueTimer

_KIND: Final = "e.kind = ANY(:kinds::integer[])"
# The first of each kind, and of these the first: to sort all there are would cost the log. Arrays and pairs are there for
# the planner, which would rather read the whole log along its positions until it has enough.
_FIRST_OF_KINDS: Final = (
    "e.seq = ANY(ARRAY(SELECT i.seq FROM unnest(:kinds::integer[]) AS k(kind) CROSS JOIN LATERAL "
    "(SELECT e.seq FROM events AS e WHERE (e.kind, e.seq) > (k.kind, :after) AND (e.kind, e.seq) <= (k.kind, :upto) "
    "AND {where} ORDER BY e.kind {order}, e.seq {order} LIMIT :limit) AS i))"
)
_SURE_OF_KINDS: Final = (
    "e.seq = ANY(ARRAY(SELECT s.seq FROM events AS s WHERE s.kind = ANY(:kinds::integer[]) AND {sure}))"
)

_MINE: Final = """JOIN cases AS c USING (tenant, case_id)
WHERE (c.owner = :hub OR NOT EXISTS (SELECT FROM hubs AS o WHERE o.boot = c.owner))"""
_DUE: Final = f"SELECT tenant, case_id, timer, due FROM timers {_MINE} AND due <= :now ORDER BY due LIMIT :limit"  # noqa: S608 - the clauses above
_NEXT_DUE: Final = f"SELECT due FROM timers {_MINE} AND due > :now ORDER BY due LIMIT 1"  # noqa: S608 - the clauses above

T = TypeVar("T")


class Session(LogSession):
    """Asks a PostgreSQL database."""

    connection: Connection
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    events = (
        'SELECT e.seq, c.case_id, e.kind, e.version, e.turn, e.at, e."by", e.cause, e.body '
        "FROM events AS e JOIN cases AS c ON c.no = e.case_no WHERE {where} ORDER BY e.seq {order} LIMIT :limit"
    )
    of_kinds = _KIND
    of_cases = "e.case_no = ANY(:cases::bigint[])"
    ordered = "position('/' in case_id) > 0 AND case_id COLLATE \"C\""
    offered = "no IN (SELECT task_no FROM offers WHERE tenant = :tenant AND who = ANY(:who::text[]))"
    mine = "(assignee = :user OR (assignee = '' AND NOT :user = ANY(declined)))"

    def due_of(self, hub: str, now: datetime, limit: int) -> Sequence[DueTimer]:
        """As `due`, but for the cases that other hubs have."""
        values = {"hub": hub, "now": to_micros(now), "limit": max(limit, 0)}
        rows = self.connection.execute(_DUE, values).fetchall()
        return [DueTimer(tenant, CaseId(case), TimerId(timer), from_micros(due)) for tenant, case, timer, due in rows]

    def next_due_of(self, hub: str, after: datetime | None) -> datetime | None:
        """As `next_due`, but for the cases that other hubs have."""
        values = {"hub": hub, "now": -(2**62) if after is None else to_micros(after)}
        row = self.connection.execute(_NEXT_DUE, values).fetchone()
        return None if row is None else from_micros(row[0])

    def give_up(self) -> None:
        with suppress(psycopg.Error):  # nothing was written
            self.connection.execute("ROLLBACK")

    def these(self, values: Sequence[int] | Sequence[str]) -> Any:
        return list(values)

    def of_statuses(self, statuses: Sequence[CaseStatus]) -> str:
        named = ", ".join(f"'{status}'" for status in statuses)
        return f"status IN ({named})"

    def first_of_kinds(self, meaning: Meaning, order: str) -> str:
        return _FIRST_OF_KINDS.format(where=meaning.where, order=order)

    def count_of_kinds(self, meaning: Meaning, group: str) -> str:
        return COUNT.format(group=f"e.{group}", where=f"{_KIND} AND {meaning.where}")

    def sure_of_kinds(self, where: str) -> str:
        return f"{_SURE_OF_KINDS.format(sure=SURE.format(e='s'))} AND {where}"


class PostgresReader(Reader[Session]):
    """One session on the server, made when it is needed and again when it has ended."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._session: Session | None = None

    def answer(self, question: Callable[[Session], T]) -> T:
        """What was lost while nothing was asked is no reason to fail: the question is asked once more."""
        try:
            try:
                return self._ask(question)
            except LOST:
                if self._session is None:
                    raise
                self.close()
                return self._ask(question)
        except LOST as error:
            self.close()
            said = " ".join(str(error).split())
            raise StoreUnavailableError(
                f"{self._place}: {said}; see that the server runs and can be reached"
            ) from error

    def _ask(self, question: Callable[[Session], T]) -> T:
        if self._session is None:
            self._session = Session(Connection(self._place, read_only=True, silence=READING))
        return self._session.ask(question)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.connection.close()
