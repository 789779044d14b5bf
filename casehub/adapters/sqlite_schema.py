"""The schema of the SQLite store: numbered migrations, how they are applied, and what can be checked about a database.

What makes rows small and queries flat: a case is known inside by its number, the position of its first event, so
cases are in the order they started; and what events are asked for by (tenant, definition, name, binding, worker) is
one number, their kind. What is found by kind is sorted in a thousand events at a time, at a *mark*: an index that is
kept with every event would cost a small turn more than its rows do; behind the last mark the log is read along.
`event_log` is the view for people, with everything spelled out.

Times are microseconds since 1970 (UTC).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

from casehub.adapters.group import COUNTED
from casehub.adapters.migrations import Finding, Migration, version_of
from casehub.errors import SchemaError

APPLICATION_ID: Final = 0x43614873
"""Marks a file as a database of CaseHub (`file` and `PRAGMA application_id` show it)."""
SAFE_VERSION: Final = (3, 51, 3)
"""The first SQLite release without the WAL-reset bug."""

MIGRATIONS: Final[Sequence[Migration]] = (
    Migration(
        1,
        "cases, events and what is derived from them",
        """\
CREATE TABLE cases (
    no INTEGER PRIMARY KEY,             -- the position of its first event
    tenant TEXT NOT NULL,
    case_id TEXT NOT NULL,
    definition TEXT NOT NULL,
    status TEXT NOT NULL,
    stalled INTEGER NOT NULL,
    reason TEXT NOT NULL,
    version INTEGER NOT NULL,           -- events in its log
    seq INTEGER NOT NULL,               -- the position of its last event
    started_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    UNIQUE (tenant, case_id)
);
CREATE INDEX cases_by_definition ON cases (tenant, definition);
CREATE INDEX cases_by_status ON cases (tenant, status);
CREATE INDEX cases_by_both ON cases (tenant, definition, status);
CREATE INDEX cases_stalled ON cases (tenant) WHERE stalled = 1;

CREATE TABLE kinds (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    definition TEXT NOT NULL,
    name TEXT NOT NULL,
    binding TEXT NOT NULL,
    worker TEXT NOT NULL,
    UNIQUE (tenant, definition, name, binding, worker)
);

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,            -- dense, in commit order, over all cases
    case_no INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    version INTEGER NOT NULL,           -- dense in its case, from 1
    turn INTEGER NOT NULL,
    at INTEGER NOT NULL,
    "by" TEXT NOT NULL,
    cause INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX events_by_case ON events (case_no, kind);

CREATE TABLE events_by_kind (           -- the index by kind, kept up to the last mark
    kind INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (kind, seq)
) WITHOUT ROWID;

CREATE TABLE marks (                    -- every event up to `seq` happened at `high` or before: a row for a thousand
    high INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (high, seq)
) WITHOUT ROWID;

CREATE TABLE inputs (                   -- keys that turns have consumed
    tenant TEXT NOT NULL,
    case_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, case_id, "key")
) WITHOUT ROWID;

CREATE TABLE timers (
    tenant TEXT NOT NULL,
    case_id TEXT NOT NULL,
    timer TEXT NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (tenant, case_id, timer)
) WITHOUT ROWID;
CREATE INDEX timers_by_due ON timers (due);

CREATE TABLE subscribers (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE VIEW event_log AS
SELECT e.seq, k.tenant, c.case_id, e.version, e.turn, k.name, k.definition, k.binding, k.worker,
    strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000) AS at,
    e."by", e.cause, e.body
FROM events AS e JOIN kinds AS k ON k.no = e.kind JOIN cases AS c ON c.no = e.case_no;
""",
    ),
    Migration(
        2,
        "confidence",
        """\
ALTER TABLE events ADD COLUMN confidence REAL;  -- the lowest that the event carries, 0 to 1; NULL for most
CREATE INDEX events_by_confidence ON events (kind, confidence) WHERE confidence IS NOT NULL;
""",
    ),
    Migration(
        3,
        "human tasks",
        """\
CREATE TABLE tasks (
    no INTEGER PRIMARY KEY,             -- in the order they were created
    tenant TEXT NOT NULL,
    case_id TEXT NOT NULL,
    task TEXT NOT NULL,
    definition TEXT NOT NULL,
    binding TEXT NOT NULL,
    status TEXT NOT NULL,
    assignee TEXT NOT NULL,
    rank INTEGER NOT NULL,              -- the priority, negated: the first comes first
    due INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (tenant, task)
);
CREATE INDEX tasks_by_status ON tasks (tenant, status, rank, due, no);
CREATE INDEX tasks_by_assignee ON tasks (tenant, assignee, status, rank, due, no);
CREATE INDEX tasks_by_case ON tasks (tenant, case_id);

CREATE TABLE offers (                   -- who sees a task that is open
    tenant TEXT NOT NULL,
    who TEXT NOT NULL,
    task_no INTEGER NOT NULL,
    PRIMARY KEY (tenant, who, task_no)
) WITHOUT ROWID;
CREATE INDEX offers_by_task ON offers (task_no);
""",
    ),
    Migration(
        4,
        "retention",
        """\
CREATE TABLE retired (                  -- what is gone, all in all
    tenant TEXT PRIMARY KEY,
    cases INTEGER NOT NULL,
    events INTEGER NOT NULL,
    seq INTEGER NOT NULL,               -- the last position that was one of theirs
    ran_at INTEGER                      -- when retention last ran
) WITHOUT ROWID;

CREATE TABLE retiring (                 -- cases that are gone, whose events are still to be deleted
    no INTEGER PRIMARY KEY
);
""",
    ),
    Migration(
        5,
        "snapshots",
        """\
CREATE TABLE snapshots (                -- the last one of each case that has any
    tenant TEXT NOT NULL,
    case_id TEXT NOT NULL,
    parent TEXT NOT NULL,               -- empty for none
    definition TEXT NOT NULL,
    status TEXT NOT NULL,
    version INTEGER NOT NULL,           -- how many there have been
    position INTEGER NOT NULL,          -- how many events are in it
    content_type TEXT NOT NULL,
    payload BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    metadata TEXT NOT NULL,             -- JSON
    PRIMARY KEY (tenant, case_id)
);
CREATE INDEX snapshots_by_parent ON snapshots (tenant, parent) WHERE parent <> '';
""",
    ),
)

_REGISTER: Final = """\
CREATE TABLE schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    applied_at TEXT NOT NULL
);
"""
_STEP: Final = """\
-- {step.version}: {step.name}
{step.sql}
INSERT INTO schema_migrations
VALUES ({step.version}, '{step.name}', '{step.sha256}', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
"""


def schema_sql(since: int = 0) -> str:
    """The SQL that brings a database from version `since` (0: an empty file) to this one, to read or run by hand."""
    parts = ["BEGIN EXCLUSIVE;\n"]
    if since == 0:
        parts.append(f"PRAGMA application_id = {APPLICATION_ID};\n{_REGISTER}")
    parts.extend(_STEP.format(step=step) for step in MIGRATIONS if step.version > since)
    return "\n".join([*parts, "COMMIT;\n"])


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the database to this version in one exclusive transaction; a connection in autocommit mode is needed.

    Raises `SchemaError` when the database is newer, was made by other migrations, or is not CaseHub's.
    """
    version = schema_version(connection, path)
    if version == MIGRATIONS[-1].version:
        return
    try:
        for statement in _statements(schema_sql(version)):
            connection.execute(statement)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(sql: str) -> Iterator[str]:
    """One statement at a time: `executescript` would end the transaction."""
    waiting = ""
    for line in sql.splitlines(keepends=True):
        waiting += line
        if sqlite3.complete_statement(waiting):
            yield waiting
            waiting = ""


def schema_version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the database's schema, 0 for an empty file. Raises `SchemaError` as `migrate` does."""
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "schema_migrations" not in tables:
            if tables:
                raise SchemaError(f"{path}: a SQLite database, but not one of CaseHub's; use another path")
            return 0
        applied = connection.execute("SELECT version, name, sha256 FROM schema_migrations ORDER BY version").fetchall()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        raise SchemaError(f"{path}: not a SQLite database ({error}); use another path, or restore a backup") from error
    return version_of(applied, MIGRATIONS, path)


def check_database(connection: sqlite3.Connection) -> Sequence[Finding]:
    """Everything that can be seen to be wrong, and what is worth knowing. Reads the whole database."""
    found: list[Finding] = []
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            found.append(Finding(True, f"integrity: {line}"))
    number, gone, last = connection.execute(COUNTED).fetchone()
    if number + gone != last:
        told = f"{number} events and {gone} retired ones, and the last position is {last}; they must be dense from 1"
        found.append(Finding(True, f"positions: {told}"))
    gaps = connection.execute(
        """SELECT c.tenant, c.case_id, c.version, count(e.seq), coalesce(min(e.version), 0), coalesce(max(e.version), 0)
        FROM cases AS c LEFT JOIN events AS e ON e.case_no = c.no GROUP BY c.no
        HAVING c.version <> count(e.seq) OR min(e.version) <> 1 OR max(e.version) <> c.version
            OR count(DISTINCT e.version) <> c.version LIMIT 20"""
    )
    for tenant, case, version, events, low, high in gaps:
        found.append(
            Finding(True, f"case {case!r} of {tenant!r}: version {version}, but {events} events from {low} to {high}")
        )
    (orphans,) = connection.execute(
        """SELECT count(*) FROM events WHERE kind NOT IN (SELECT no FROM kinds)
            OR case_no NOT IN (SELECT no FROM cases UNION ALL SELECT no FROM retiring)"""
    ).fetchone()
    if orphans:
        found.append(Finding(True, f"{orphans} events without a case or a kind"))
    (unsorted,) = connection.execute(
        """SELECT (SELECT count(*) FROM events WHERE seq <= (SELECT coalesce(max(seq), 0) FROM marks))
            - (SELECT count(*) FROM events_by_kind AS i JOIN events AS e ON e.seq = i.seq AND e.kind = i.kind)"""
    ).fetchone()
    if unsorted:
        found.append(Finding(True, f"events_by_kind: {unsorted} events up to the last mark are not in it"))
    if sqlite3.sqlite_version_info < SAFE_VERSION:
        found.append(
            Finding(
                False,
                f"SQLite {sqlite3.sqlite_version} is older than {'.'.join(map(str, SAFE_VERSION))}, the first without the "
                "WAL-reset bug; CaseHub lets only one connection checkpoint, which avoids it; do not write with others",
            )
        )
    return found
