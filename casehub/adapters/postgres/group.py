"""One transaction of the PostgreSQL store: what it looks up, all at once, and how its rows are written.

A way to the server and back costs more than the rows do: the thread that waits for it also waits for the event loop to let
it go on. So the rows of a table go as one value (JSON) of one statement, and all statements go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_core import to_json

from casehub.adapters.group import Group, Key, KnownCase
from casehub.adapters.postgres.connection import Connection
from casehub.adapters.sql_tasks import body_of, due_of
from casehub.adapters.writer import Request
from casehub.adapters.written import Where, Written
from casehub.tasks import Task

PART: Final = 16_777_216
"""Characters of events after which another statement goes on with them."""

Event = tuple[int, int, int, int, int, int, str, int, str, float | None]
"""A row of `events`; the body is the last but one."""

_CASES: Final = """SELECT c.tenant, c.case_id, c.no, c.version, c.seq, c.status, c.stalled, c.reason
FROM json_to_recordset(?) AS w(tenant text, case_id text) JOIN cases AS c USING (tenant, case_id)"""
_KEYS: Final = """SELECT i.tenant, i.case_id, i."key", i.seq
FROM json_to_recordset(?) AS w(tenant text, case_id text, "key" text) JOIN inputs AS i USING (tenant, case_id, "key")"""
_EVENT: Final = """INSERT INTO events SELECT * FROM json_to_recordset(?)
AS r(seq bigint, case_no bigint, kind integer, version integer, turn integer, at bigint, "by" text, cause integer,
    body text, confidence double precision)"""
_KIND: Final = """INSERT INTO kinds SELECT * FROM json_to_recordset(?)
AS r(no integer, tenant text, definition text, name text, binding text, worker text)"""
_BEGUN: Final = """INSERT INTO cases SELECT * FROM json_to_recordset(?)
AS r(no bigint, tenant text, case_id text, definition text, status text, stalled integer, reason text,
    version integer, seq bigint, started_at bigint, changed_at bigint)"""
_LONGER: Final = """UPDATE cases AS c SET status = r.status, stalled = r.stalled, reason = r.reason, version = r.version,
    seq = r.seq, changed_at = r.changed_at
FROM json_to_recordset(?) AS r(no bigint, status text, stalled integer, reason text, version integer, seq bigint,
    changed_at bigint) WHERE c.no = r.no"""
_CONSUMED: Final = """INSERT INTO inputs SELECT * FROM json_to_recordset(?)
AS r(tenant text, case_id text, "key" text, seq bigint)"""
_TIMER_SET: Final = """INSERT INTO timers SELECT * FROM json_to_recordset(?)
AS r(tenant text, case_id text, timer text, due bigint)
ON CONFLICT (tenant, case_id, timer) DO UPDATE SET due = excluded.due"""
_TIMER_GONE: Final = """DELETE FROM timers AS t USING json_to_recordset(?) AS r(tenant text, case_id text, timer text)
WHERE (t.tenant, t.case_id, t.timer) = (r.tenant, r.case_id, r.timer)"""
_TIMERS_GONE: Final = """DELETE FROM timers AS t USING json_to_recordset(?) AS r(tenant text, case_id text)
WHERE (t.tenant, t.case_id) = (r.tenant, r.case_id)"""
_TASKS: Final = """INSERT INTO tasks
    (tenant, case_id, task, definition, binding, status, assignee, declined, rank, due, body)
SELECT * FROM json_to_recordset(?) AS r(tenant text, case_id text, task text, definition text, binding text,
    status text, assignee text, declined text[], rank integer, due bigint, body text)
ON CONFLICT (tenant, task) DO UPDATE SET status = excluded.status, assignee = excluded.assignee,
    declined = excluded.declined, rank = excluded.rank, due = excluded.due, body = excluded.body"""
_NO_OFFERS: Final = """DELETE FROM offers AS o USING tasks AS t, json_to_recordset(?) AS r(tenant text, task text)
WHERE (t.tenant, t.task) = (r.tenant, r.task) AND o.task_no = t.no"""
_OFFERS: Final = """INSERT INTO offers SELECT t.tenant, r.who, t.no
FROM json_to_recordset(?) AS r(tenant text, task text, who text) JOIN tasks AS t USING (tenant, task)"""
_BOOKMARK: Final = """INSERT INTO subscribers SELECT * FROM json_to_recordset(?)
AS r(tenant text, name text, seq bigint) ON CONFLICT (tenant, name) DO UPDATE SET seq = excluded.seq"""
_MARK: Final = "INSERT INTO marks VALUES (?, ?)"

_OF_CASE: Final = ("tenant", "case_id")
_OF_KEY: Final = (*_OF_CASE, "key", "seq")
_OF_TIMER: Final = (*_OF_CASE, "timer", "due")
_OF_KIND: Final = ("no", "tenant", "definition", "name", "binding", "worker")
_OF_EVENT: Final = ("seq", "case_no", "kind", "version", "turn", "at", "by", "cause", "body", "confidence")
_OF_BEGUN: Final = ("no", *_OF_CASE, "definition", "status", "stalled", "reason", "version", "seq", "started_at", "changed_at")  # fmt: skip
_OF_LONGER: Final = ("no", "status", "stalled", "reason", "version", "seq", "changed_at")
_OF_TASK: Final = (*_OF_CASE, "task", "definition", "binding", "status", "assignee", "declined", "rank", "due", "body")
_OF_OFFER: Final = ("tenant", "task", "who")
_OF_BOOKMARK: Final = ("tenant", "name", "seq")


def _records(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as `json_to_recordset` takes them."""
    return to_json([dict(zip(names, row, strict=False)) for row in rows]).decode()


@dataclass(eq=False, kw_only=True)
class PostgresGroup(Group):
    """The rows of one transaction on a connection. `look_up` comes first."""

    connection: Connection
    consumed: dict[Key, int] = field(default_factory=dict)

    def look_up(self, requests: Sequence[Request]) -> None:
        """Find out where the cases are and which keys are consumed, in one way, and in none where all is known."""
        turns = [turn.turn for request in requests for turn in request.turns if isinstance(turn, Written)]
        whose = {(turn.envelope.tenant, turn.envelope.case): turn for turn in turns}
        unknown = [where for where in whose if where not in self.known.cases]
        keys = [(turn.envelope.tenant, turn.envelope.case, turn.key) for turn in turns if turn.key]
        if not unknown and not keys:
            return
        cases = consumed = None
        with self.connection.raw.pipeline():
            if unknown:
                cases = self.connection.execute(_CASES, (_records(_OF_CASE, unknown),))
            if keys:
                consumed = self.connection.execute(_KEYS, (_records(_OF_KEY, keys),))
        for where in unknown:
            self.known.cases[where] = KnownCase()
        for tenant, case, *rest in cases or ():
            self.known.cases[tenant, case] = KnownCase(*rest)
        self.consumed = {(tenant, case, key): seq for tenant, case, key, seq in consumed or ()}

    def find_case(self, where: Where) -> KnownCase | None:
        return None  # looked up already

    def find_key(self, key: Key) -> int | None:
        return self.consumed.get(key)

    def flush(self) -> None:
        """Write the rows, and commit."""
        with self.connection.raw.pipeline():
            self.connection.execute("BEGIN")
            for sql, names, rows in self._tables():
                if rows:
                    self.connection.execute(sql, (_records(names, rows),))
            if self.mark_due:
                self.connection.execute(_MARK, (self.known.high, self.known.seq))
                self.known.marked = self.known.seq
            self.connection.execute("COMMIT")

    def _tables(self) -> Iterable[tuple[str, Sequence[str], Sequence[Sequence[Any]]]]:
        """Each statement with the names of its columns and its rows."""
        yield _KIND, _OF_KIND, self.kinds
        for part in _parts(self.events):
            yield _EVENT, _OF_EVENT, part
        yield _BEGUN, _OF_BEGUN, [(*row[:6], _text(row[6]), *row[7:]) for row in self.begun_rows()]
        longer = [
            (case.no, case.status, case.stalled, _text(case.reason), case.version, case.seq, case.changed_at)
            for where, case in self.longer.items()
            if where not in self.begun
        ]
        yield _LONGER, _OF_LONGER, longer
        yield _CONSUMED, _OF_KEY, [(*key, seq) for key, seq in self.keys.items()]
        yield _TIMER_SET, _OF_TIMER, [(*timer, due) for timer, due in self.timers.items() if due is not None]
        yield _TIMER_GONE, _OF_TIMER, [timer for timer, due in self.timers.items() if due is None]
        yield _TIMERS_GONE, _OF_CASE, self.ended
        tasks = self.tasks.values()
        yield _TASKS, _OF_TASK, [_row_of(task) for task in tasks]
        yield _NO_OFFERS, _OF_OFFER, [(task.tenant, task.id) for task in tasks]
        offers = [(task.tenant, task.id, who) for task in tasks if not task.status.ended for who in task.seen_by]
        yield _OFFERS, _OF_OFFER, offers
        bookmarks = {(tenant, name): seq for tenant, name, seq in self.bookmarks}
        yield _BOOKMARK, _OF_BOOKMARK, [(*whose, seq) for whose, seq in bookmarks.items()]


def _parts(events: Sequence[Event]) -> Iterable[Sequence[Event]]:
    """Events in values that the server takes: it has an end at 1 GiB."""
    part: list[Event] = []
    size = 0
    for event in events:
        part.append(event)
        size += len(event[8])
        if size > PART:
            yield part
            part, size = [], 0
    yield part


def _text(reason: str | int) -> str:
    """PostgreSQL's text cannot hold NUL; the event has the reason as it is."""
    return str(reason).replace("\0", "\ufffd")


def _row_of(task: Task) -> Sequence[Any]:
    return (
        task.tenant, task.case, task.id, task.definition, task.binding, task.status, task.assignee, task.declined_by,
        -task.priority, due_of(task), body_of(task),
    )  # fmt: skip
