"""How cases that have ended leave a database: found with their families, hidden at once, deleted a few rows at a time.

In one transaction a case loses its row, and everything that is kept of it by its id; from then on nobody sees it, and its
id is free. Its events stay until they are swept, so that no transaction is long and the writer is never held up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from casehub.adapters.group import Connection, Known
from casehub.adapters.sql_log import CASE_COLUMNS, LogSession, summary_of
from casehub.adapters.written import from_micros, to_micros
from casehub.envelope import CaseId
from casehub.lifecycle import CaseStatus
from casehub.query import CaseSummary
from casehub.spi import Retired

BY_ID: Final = ("inputs", "timers", "tasks", "snapshots")
"""Tables that keep something of a case by its id; what is kept of an ended case goes with it."""
WITH_THEM: Final = ("cases", "events", "events_by_kind", "offers", "marks", "retiring")
"""Tables whose rows go with a case, with its events, or with its tasks."""
EXEMPT: Final = {
    "kinds": "a row for each kind of event that definitions lead to, however many cases there are",
    "subscribers": "a row for each durable subscriber and each brake",
    "retired": "a row for each tenant",
    "schema_migrations": "a row for each version of the schema",
    "hubs": "a row for each hub",
    "leads": "a row for each durable subscriber",
    "inbox": "answered rows go after a while, others with their answer",
}
"""Tables that retention leaves alone, and why they do not grow with the cases."""
SIDE_ROWS: Final = 1_000
"""Rows of a table that are deleted by a case's id in one transaction; a case that has more takes several."""
PAGE: Final = 200
"""Cases that are looked at at a time."""

_ENDED: Final = ", ".join(f"'{status}'" for status in CaseStatus if status.ended)
_EXPIRED: Final = (
    f"SELECT no, case_id FROM cases WHERE tenant = ? AND status IN ({_ENDED}) AND changed_at < ? AND no > ? "  # noqa: S608 - statuses
    "ORDER BY no LIMIT ?"
)
_CASE: Final = f"SELECT {CASE_COLUMNS} FROM cases WHERE tenant = ? AND case_id = ?"  # noqa: S608 - names of columns
_SUB_CASES: Final = f"SELECT {CASE_COLUMNS} FROM cases WHERE tenant = ? AND {{id}} > ? AND {{id}} < ? ORDER BY no DESC"  # noqa: S608
_BYTES: Final = "SELECT count(*), coalesce(sum(length(body)), 0) FROM events WHERE case_no = ?"
_ROWS: Final = "SELECT count(*) FROM {table} WHERE tenant = ? AND case_id = ?"
_RETIRED: Final = "SELECT cases, events, ran_at FROM retired WHERE tenant = ?"

_STANDS: Final = f"SELECT no FROM cases WHERE tenant = ? AND case_id = ? AND version = ? AND status IN ({_ENDED})"  # noqa: S608
_NO_OFFERS: Final = "DELETE FROM offers WHERE task_no IN (SELECT no FROM tasks WHERE tenant = ? AND case_id = ?)"
_NO_ROWS: Final = (
    "DELETE FROM {table} WHERE (tenant, case_id, {key}) IN "
    "(SELECT tenant, case_id, {key} FROM {table} WHERE tenant = ? AND case_id = ? LIMIT ?)"
)
_KEYS: Final = {"inputs": '"key"', "timers": "timer", "tasks": "task", "snapshots": "version"}
_HIDE: Final = "INSERT INTO retiring VALUES (?)"
_NO_CASE: Final = "DELETE FROM cases WHERE no = ?"
_SUM: Final = """INSERT INTO retired VALUES (?, 1, ?, ?, NULL) ON CONFLICT (tenant) DO UPDATE SET
cases = retired.cases + 1, events = retired.events + excluded.events,
seq = CASE WHEN retired.seq > excluded.seq THEN retired.seq ELSE excluded.seq END"""
_RAN: Final = """INSERT INTO retired VALUES (?, 0, 0, 0, ?)
ON CONFLICT (tenant) DO UPDATE SET ran_at = excluded.ran_at"""
_NEXT: Final = "SELECT no FROM retiring ORDER BY no LIMIT 1"
_NO_EVENTS: Final = (
    "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE case_no = ? ORDER BY kind, seq LIMIT ?)"
)
_NO_KINDS: Final = """DELETE FROM events_by_kind WHERE (kind, seq) IN
(SELECT kind, seq FROM events WHERE case_no = ? ORDER BY kind, seq LIMIT ?)"""
_SWEPT: Final = "DELETE FROM retiring WHERE no = ?"
_NO_MARKS: Final = """DELETE FROM marks WHERE seq < (SELECT max(seq) FROM marks)
AND NOT EXISTS (SELECT 1 FROM events WHERE events.seq <= marks.seq)"""


# ---- asking


def expired(session: LogSession, before: datetime, tenant: str, limit: int) -> Sequence[Sequence[CaseSummary]]:
    """Families of which every case ended before a time, each with the case that has no parent last."""
    return list(islice(_families(session, to_micros(before), tenant), max(limit, 0)))


def _families(session: LogSession, before: int, tenant: str) -> Iterator[Sequence[CaseSummary]]:
    seen: set[str] = set()
    page = [(0, "")]
    while page := session.connection.execute(_EXPIRED, (tenant, before, page[-1][0], PAGE)).fetchall():
        for _, case in page:
            root = case.partition("/")[0]
            if root in seen:
                continue
            if root != case:
                seen.add(root)  # of others it is the only one to be found
            rows = session.connection.execute(
                _SUB_CASES.format(id=session.ordered),
                (tenant, f"{root}/", f"{root}0"),  # "0" comes right behind "/"
            ).fetchall()
            if rows:
                seen.add(root)
            rows += session.connection.execute(_CASE, (tenant, root)).fetchall()
            family = [summary_of(row) for row in rows]
            if all(each.status.ended and to_micros(each.changed_at) < before for each in family):
                yield family


def weigh(session: LogSession, cases: Sequence[CaseSummary]) -> tuple[int, int]:
    """Rows, and bytes in the bodies of events."""
    rows = size = 0
    for case in cases:
        events, bodies = session.connection.execute(_BYTES, (case.first,)).fetchone()
        rows += 1 + events
        size += bodies
        for table in BY_ID:
            rows += session.connection.execute(_ROWS.format(table=table), (case.tenant, case.case)).fetchone()[0]
    return rows, size


def retired(session: LogSession, tenant: str) -> Retired:
    """What has been retired so far."""
    row = session.connection.execute(_RETIRED, (tenant,)).fetchone()
    if row is None:
        return Retired()
    cases, events, ran_at = row
    return Retired(cases, events, None if ran_at is None else from_micros(ran_at))


# ---- writing, within a transaction that is open


def retire(connection: Connection, known: Known, cases: Sequence[CaseSummary]) -> Sequence[CaseId]:
    """Hide these cases, where they stand as they are given; those that are gone."""
    gone: list[CaseId] = []
    for case in cases:
        where = (case.tenant, case.case)
        row = connection.execute(_STANDS, (*where, case.version)).fetchone()
        if row is None:
            continue
        connection.execute(_NO_OFFERS, where)
        deleted = [
            connection.execute(_NO_ROWS.format(table=table, key=_KEYS[table]), (*where, SIDE_ROWS)).rowcount
            for table in BY_ID
        ]
        if max(deleted) >= SIDE_ROWS:
            continue  # there may be more of them: the next transaction goes on
        connection.execute(_NO_CASE, row)
        connection.execute(_HIDE, row)
        connection.execute(_SUM, (case.tenant, case.version, case.seq))
        known.cases.pop(where, None)
        gone.append(case.case)
    return gone


def ran(connection: Connection, known: Known, tenant: str, at: datetime) -> None:
    """Keep when retention ran."""
    connection.execute(_RAN, (tenant, to_micros(at)))


def sweep(connection: Connection, known: Known, rows: int, *, by_kind: bool) -> int:
    """Delete events of hidden cases. `by_kind`: there is an index by kind to keep up. How many rows are gone."""
    done = 0
    while done < rows and (found := connection.execute(_NEXT).fetchone()) is not None:
        (no,) = found
        most = rows - done
        if by_kind:
            connection.execute(_NO_KINDS, (no, most))
        deleted = connection.execute(_NO_EVENTS, (no, most)).rowcount
        done += deleted
        if deleted < most:
            connection.execute(_SWEPT, (no,))
            done += 1
    if done and connection.execute(_NEXT).fetchone() is None:
        connection.execute(_NO_MARKS)
    return done
