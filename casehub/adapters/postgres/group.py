"""One transaction of the PostgreSQL store: what it looks up, all at once, and how its rows are written.

A way to the server and back costs more than the rows do: the thread that waits for it also waits for the event loop to let
it go on. So the rows of a table go as one value (JSON) of one statement, and all statements go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_core import to_json

from casehub.adapters import group
from casehub.adapters.group import Group, Key, KnownCase
from casehub.adapters.postgres.connection import Connection
from casehub.adapters.sql_tasks import body_of, due_of
from casehub.adapters.writer import Request
from casehub.adapters.written import Where, Written
from casehub.lifecycle import CaseStatus
from casehub.sharing import outcome_of
from casehub.spi import CommitResult, Committed, Duplicate, Fenced, Turn
from casehub.tasks import Task

PART: Final = 16_777_216
"""Characters of events after which another statement goes on with them."""

Event = tuple[int, int, int, int, int, int, str, int, str, float | None]
"""A row of `events`; the body is the last but one."""

_CASES: Final = """SELECT c.tenant, c.case_id, c.no, c.version, c.seq, c.status, c.stalled, c.reason, c.changed_at, c.epoch,
    CASE WHEN o.boot IS NULL OR o.boot = ? THEN '' ELSE o.name END
FROM json_to_recordset(?) AS w(tenant text, case_id text) JOIN cases AS c USING (tenant, case_id)
LEFT JOIN hubs AS o ON o.boot = c.owner"""
_KEYS: Final = """SELECT i.tenant, i.case_id, i."key", i.seq
FROM json_to_recordset(?) AS w(tenant text, case_id text, "key" text) JOIN inputs AS i USING (tenant, case_id, "key")"""
_EVENT: Final = """INSERT INTO events
SELECT moved(seq), moved(case_no), kind, version, turn, at, "by", cause, body, confidence FROM json_to_recordset(?)
AS r(seq bigint, case_no bigint, kind integer, version integer, turn integer, at bigint, "by" text, cause integer,
    body text, confidence double precision)"""
_APPEND: Final = "SELECT append(?, ?, ?)"
_IS_HUB: Final = "SELECT FROM hubs WHERE boot = ?"
_LAST_KIND: Final = "SELECT no, tenant, definition, name, binding, worker FROM kinds WHERE no > ?"
_KIND: Final = """INSERT INTO kinds
SELECT (SELECT coalesce(max(no), 0) FROM kinds) + row_number() OVER (), r.* FROM json_to_recordset(?)
AS r(tenant text, definition text, name text, binding text, worker text)
WHERE NOT EXISTS (SELECT FROM kinds AS k WHERE (k.tenant, k.definition, k.name, k.binding, k.worker)
    = (r.tenant, r.definition, r.name, r.binding, r.worker))"""
# What comes to other numbers of cases than it should, somebody else has changed: the transaction fails.
_BEGUN: Final = """WITH done AS (
    INSERT INTO cases (no, tenant, case_id, definition, status, stalled, reason, version, seq, started_at, changed_at, owner)
    SELECT moved(r.no), r.tenant, r.case_id, r.definition, r.status, r.stalled, r.reason, r.version, moved(r.seq),
        r.started_at, r.changed_at, r.owner
    FROM json_to_recordset(?) AS r(no bigint, tenant text, case_id text, definition text, status text, stalled integer,
        reason text, version integer, seq bigint, started_at bigint, changed_at bigint, owner text)
    ON CONFLICT (tenant, case_id) DO NOTHING RETURNING no)
SELECT fence(count(*), ?) FROM done"""
_LONGER: Final = """WITH done AS (
    UPDATE cases AS c SET status = r.status, stalled = r.stalled, reason = r.reason, version = r.version,
        seq = moved(r.seq), changed_at = r.changed_at, owner = r.owner
    FROM json_to_recordset(?) AS r(no bigint, status text, stalled integer, reason text, version integer, seq bigint,
        changed_at bigint, owner text, epoch bigint, before integer)
    WHERE c.no = r.no AND c.epoch = r.epoch AND c.version = r.before
        AND (c.owner = ? OR NOT EXISTS (SELECT FROM hubs AS o WHERE o.boot = c.owner))
    RETURNING c.no)
SELECT fence(count(*), ?) FROM done"""
_CONSUMED: Final = """INSERT INTO inputs SELECT tenant, case_id, "key", seq + current_setting('casehub.shift')::bigint
FROM json_to_recordset(?) AS r(tenant text, case_id text, "key" text, seq bigint)"""
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
_ANSWERED: Final = """WITH done AS (
    UPDATE inbox AS i SET outcome = r.outcome FROM json_to_recordset(?) AS r(post text, outcome text)
    WHERE i.post = r.post AND i.outcome IS NULL RETURNING i.post)
SELECT fence(count(*), ?) FROM done"""
_UNANSWERED: Final = "SELECT post FROM inbox WHERE post = ANY(?) AND outcome IS NULL FOR UPDATE"
_MARK: Final = """WITH m AS (SELECT high, seq FROM marks UNION ALL SELECT -4611686018427387904, 0 ORDER BY 1 DESC, 2 DESC LIMIT 1)
INSERT INTO marks SELECT greatest(m.high, max(e.at)), max(e.seq) FROM events AS e, m WHERE e.seq > m.seq
GROUP BY m.high, m.seq HAVING max(e.seq) - m.seq >= ?"""

_OF_CASE: Final = ("tenant", "case_id")
_OF_KEY: Final = (*_OF_CASE, "key", "seq")
_OF_TIMER: Final = (*_OF_CASE, "timer", "due")
_OF_KIND: Final = ("tenant", "definition", "name", "binding", "worker")
_OF_EVENT: Final = ("seq", "case_no", "kind", "version", "turn", "at", "by", "cause", "body", "confidence")
_OF_BEGUN: Final = ("no", *_OF_CASE, "definition", "status", "stalled", "reason", "version", "seq", "started_at", "changed_at", "owner")  # fmt: skip
_OF_LONGER: Final = ("no", "status", "stalled", "reason", "version", "seq", "changed_at", "owner", "epoch", "before")
_OF_TASK: Final = (*_OF_CASE, "task", "definition", "binding", "status", "assignee", "declined", "rank", "due", "body")
_OF_OFFER: Final = ("tenant", "task", "who")
_OF_ANSWER: Final = ("post", "outcome")
_OF_BOOKMARK: Final = ("tenant", "name", "seq")


def _records(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as `json_to_recordset` takes them."""
    return to_json([dict(zip(names, row, strict=False)) for row in rows]).decode()


@dataclass(eq=False, kw_only=True)
class PostgresGroup(Group):
    """The rows of one transaction on a connection, for the hub whose start is called `hub`. `look_up` comes first.

    Positions are counted from those that are known; where others have written meanwhile the server moves them on by
    `shift`.
    """

    connection: Connection
    hub: str
    begun_already: bool = False
    shift: int = 0
    consumed: dict[Key, int] = field(default_factory=dict[Key, int])
    spent: set[str] = field(default_factory=set[str])
    answered: dict[str, str] = field(default_factory=dict[str, str])
    before: dict[Where, int] = field(default_factory=dict[Where, int])

    def begin(self) -> bool:
        """Begin before anything is looked up, so that it stays as it is found; whether the hub is one of the hubs."""
        with self.connection.raw.pipeline():
            self.connection.execute("BEGIN")
            self.connection.execute("SELECT lock_log()")
            found = self.connection.execute(_IS_HUB, (self.hub,))
        self.begun_already = True
        return bool(found.fetchall())

    def look_up(self, requests: Sequence[Request]) -> None:
        """Find out where the cases are and which keys are consumed, in one way, and in none where all is known."""
        every = [turn for request in requests for turn in request.turns if isinstance(turn, Written)]
        self._name_kinds(every)
        turns = [written.turn for written in every]
        whose = {(turn.envelope.tenant, turn.envelope.case): turn for turn in turns}
        unknown = [where for where, turn in whose.items() if not self._is_known(where, turn)]
        keys = [(turn.envelope.tenant, turn.envelope.case, turn.key) for turn in turns if turn.key]
        if self.begun_already and (posts := [turn.post for turn in turns if turn.post]):
            self.spent = set(posts) - {post for (post,) in self.connection.execute(_UNANSWERED, (posts,))}
        if not unknown and not keys:
            return
        cases = consumed = None
        lock = " FOR UPDATE OF c" if self.begun_already else ""
        with self.connection.raw.pipeline():
            if unknown:
                cases = self.connection.execute(_CASES + lock, (self.hub, _records(_OF_CASE, unknown)))
            if keys:
                consumed = self.connection.execute(_KEYS, (_records(_OF_KEY, keys),))
        known = self.known
        for where in unknown:
            known.cases[where] = KnownCase()
        for tenant, case, *rest in cases or ():
            found = known.cases[tenant, case] = KnownCase(*rest)
            known.seq = max(known.seq, found.seq)
        self.consumed = {(tenant, case, key): seq for tenant, case, key, seq in consumed or ()}
        known.seq = max(known.seq, *self.consumed.values(), 0)

    def _is_known(self, where: Where, turn: Turn) -> bool:
        """Whether it is known where a case stands: not when it has been claimed anew since, or is not there yet."""
        case = self.known.cases.get(where)
        return case is not None and case.no > 0 and not case.owner and case.epoch == epoch_of(turn)

    def _name_kinds(self, turns: Sequence[Written]) -> None:
        """Number the kinds that are new. They stay, whatever becomes of the turns."""
        known = self.known.kinds
        new = {row[0]: None for written in turns for row in written.rows if row[0] not in known}
        if not new:
            return
        with self.connection.raw.pipeline():
            if not self.begun_already:
                self.connection.execute("BEGIN")
            self.connection.execute("SELECT lock_log()")
            self.connection.execute(_KIND, (_records(_OF_KIND, new),))
            found = self.connection.execute(_LAST_KIND, (self.known.last_kind,))
            if not self.begun_already:
                self.connection.execute("COMMIT")
        for no, *kind in found:
            known[tuple(kind)] = no
            self.known.last_kind = max(self.known.last_kind, no)

    def decide(self, written: Written, failed: set[Where]) -> CommitResult:
        turn = written.turn
        where = (turn.envelope.tenant, turn.envelope.case)
        case = self.known.cases[where]
        if turn.claim is not None and turn.claim.hub != self.hub:
            return self._fenced(where, case, failed)
        if case.no and (case.owner or case.epoch != epoch_of(turn)):
            return self._fenced(where, case, failed)
        if turn.post and (turn.post in self.spent or turn.post in self.answered):
            failed.add(where)
            return Duplicate(case.seq)  # another turn has answered it
        before = case.version
        result = super().decide(written, failed)
        if isinstance(result, Committed) and turn.post:
            self.answered[turn.post] = to_json(outcome_of(turn)).decode()
        if isinstance(result, Committed) and before:
            self.before.setdefault(where, before)
            self.longer[where] = case  # a turn without events is fenced as others are
        return result

    def _fenced(self, where: Where, case: KnownCase, failed: set[Where]) -> Fenced:
        failed.add(where)
        return Fenced(case.owner)

    def find_case(self, where: Where) -> KnownCase | None:
        return None  # looked up already

    def find_key(self, key: Key) -> int | None:
        return self.consumed.get(key)

    def flush(self) -> None:
        """Write the rows, and commit."""
        number = len(self.events)
        with self.connection.raw.pipeline():
            if not self.begun_already:
                self.connection.execute("BEGIN")
            shift = self.connection.execute(_APPEND, (self.hub, self.known.seq - number, number))
            for sql, names, rows, *values in self._tables():
                if rows:
                    self.connection.execute(sql, (_records(names, rows), *values))
            if self.mark_due:
                self.connection.execute(_MARK, (group.MARK_EVERY,))
                self.known.marked = self.known.seq
            self.connection.execute("COMMIT")
        self.shift = shift.fetchone()[0]

    def move(self, requests: Sequence[Request]) -> None:
        """After the commit: what was numbered behind the position that was known is as much further on."""
        shift = self.shift
        expected = self.known.seq - len(self.events)
        self.known.seq += shift
        for where, case in self.longer.items():
            case.seq += shift
            if where in self.begun:
                case.no += shift
        for request in requests:
            request.results = [_moved(result, expected, shift) for result in request.results]

    def _owner(self, status: Any) -> str:
        """Who has a case from here on: nobody where it has ended."""
        return "" if CaseStatus(status).ended else self.hub

    def settle(self) -> None:
        super().settle()
        for where in [where for where, case in self.known.cases.items() if case.owner]:
            del self.known.cases[where]

    def _tables(self) -> Iterable[tuple[str, Sequence[str], Sequence[Sequence[Any]], *tuple[Any, ...]]]:
        """Each statement with the names of its columns, its rows, and what else it takes."""
        for part in _parts(self.events):
            yield _EVENT, _OF_EVENT, part
        begun = [(*row[:6], _text(row[6]), *row[7:], self._owner(row[4])) for row in self.begun_rows()]
        yield _BEGUN, _OF_BEGUN, begun, len(begun)
        longer = [
            (
                case.no, case.status, case.stalled, _text(case.reason), case.version, case.seq, case.changed_at,
                self._owner(case.status), case.epoch, self.before[where],
            )
            for where, case in self.longer.items()
            if where not in self.begun
        ]  # fmt: skip
        yield _LONGER, _OF_LONGER, longer, self.hub, len(longer)
        yield _CONSUMED, _OF_KEY, [(*key, seq) for key, seq in self.keys.items()]
        yield _TIMER_SET, _OF_TIMER, [(*timer, due) for timer, due in self.timers.items() if due is not None]
        yield _TIMER_GONE, _OF_TIMER, [timer for timer, due in self.timers.items() if due is None]
        yield _TIMERS_GONE, _OF_CASE, self.ended
        tasks = self.tasks.values()
        yield _TASKS, _OF_TASK, [_row_of(task) for task in tasks]
        yield _NO_OFFERS, _OF_OFFER, [(task.tenant, task.id) for task in tasks]
        offers = [(task.tenant, task.id, who) for task in tasks if not task.status.ended for who in task.seen_by]
        yield _OFFERS, _OF_OFFER, offers
        yield _ANSWERED, _OF_ANSWER, list(self.answered.items()), len(self.answered)
        bookmarks = {(tenant, name): seq for tenant, name, seq in self.bookmarks}
        yield _BOOKMARK, _OF_BOOKMARK, [(*whose, seq) for whose, seq in bookmarks.items()]


def epoch_of(turn: Turn) -> int:
    """The epoch that a turn is written in."""
    return 0 if turn.claim is None else turn.claim.epoch


def _moved(result: CommitResult, expected: int, shift: int) -> CommitResult:
    if isinstance(result, Committed):
        return Committed(result.seq + shift)
    if isinstance(result, Duplicate) and result.seq > expected:  # of a turn of this group
        return Duplicate(result.seq + shift)
    return result


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
