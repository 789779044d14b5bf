"""The schema of the PostgreSQL store: numbered migrations, how they are applied, and what can be checked about a database.

The tables are those of the SQLite store (`sqlite_schema` says what makes rows small and queries flat), but that
PostgreSQL keeps its index by kind itself. They lie in a schema of their own. `event_log` is the view for people.

Times are microseconds since 1970 (UTC).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import psycopg

from casehub.adapters.group import COUNTED
from casehub.adapters.migrations import Finding, Migration, version_of
from casehub.adapters.postgres.connection import Connection, Place
from casehub.errors import SchemaError, StoreOwnedError

MIGRATIONS: Final[Sequence[Migration]] = (
    Migration(
        1,
        "cases, events and what is derived from them",
        """\
CREATE TABLE ownership (                -- one row: who writes, and how often that has changed
    epoch bigint NOT NULL,
    owner text NOT NULL,
    since timestamptz NOT NULL
);
INSERT INTO ownership VALUES (0, 'nobody', now());

CREATE TABLE cases (
    no bigint PRIMARY KEY,              -- the position of its first event
    tenant text NOT NULL,
    case_id text NOT NULL,
    definition text NOT NULL,
    status text NOT NULL,
    stalled integer NOT NULL,
    reason text NOT NULL,
    version integer NOT NULL,           -- events in its log
    seq bigint NOT NULL,                -- the position of its last event
    started_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    UNIQUE (tenant, case_id)
) WITH (fillfactor = 70);               -- room for the next version of a row beside it, which then costs no index
CREATE INDEX cases_by_definition ON cases (tenant, definition, no);
CREATE INDEX cases_by_status ON cases (tenant, status, no);
CREATE INDEX cases_by_both ON cases (tenant, definition, status, no);
CREATE INDEX cases_stalled ON cases (tenant, no) WHERE stalled = 1;

CREATE TABLE kinds (
    no integer PRIMARY KEY,
    tenant text NOT NULL,
    definition text NOT NULL,
    name text NOT NULL,
    binding text NOT NULL,
    worker text NOT NULL,
    UNIQUE (tenant, definition, name, binding, worker)
);

CREATE TABLE events (
    seq bigint PRIMARY KEY,             -- dense, in commit order, over all cases
    case_no bigint NOT NULL,
    kind integer NOT NULL,
    version integer NOT NULL,           -- dense in its case, from 1
    turn integer NOT NULL,
    at bigint NOT NULL,
    "by" text NOT NULL,
    cause integer NOT NULL,
    body text NOT NULL,                 -- JSON; jsonb refuses some of what JSON may hold
    confidence double precision         -- the lowest that the event carries, 0 to 1; NULL for most
);
CREATE INDEX events_by_case ON events (case_no, kind);
CREATE INDEX events_by_kind ON events (kind, seq);
CREATE INDEX events_by_confidence ON events (kind, confidence) WHERE confidence IS NOT NULL;

CREATE TABLE marks (                    -- every event up to `seq` happened at `high` or before: a row for a thousand
    high bigint NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (high, seq)
);

CREATE TABLE inputs (                   -- keys that turns have consumed
    tenant text NOT NULL,
    case_id text NOT NULL,
    "key" text NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (tenant, case_id, "key")
);

CREATE TABLE timers (
    tenant text NOT NULL,
    case_id text NOT NULL,
    timer text NOT NULL,
    due bigint NOT NULL,
    PRIMARY KEY (tenant, case_id, timer)
);
CREATE INDEX timers_by_due ON timers (due);

CREATE TABLE subscribers (
    tenant text NOT NULL,
    name text NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE tasks (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- in the order they were created
    tenant text NOT NULL,
    case_id text NOT NULL,
    task text NOT NULL,
    definition text NOT NULL,
    binding text NOT NULL,
    status text NOT NULL,
    assignee text NOT NULL,
    declined text[] NOT NULL,           -- by whom
    rank integer NOT NULL,              -- the priority, negated: the first comes first
    due bigint NOT NULL,
    body text NOT NULL,
    UNIQUE (tenant, task)
);
CREATE INDEX tasks_by_status ON tasks (tenant, status, rank, due, no);
CREATE INDEX tasks_by_assignee ON tasks (tenant, assignee, status, rank, due, no);
CREATE INDEX tasks_by_case ON tasks (tenant, case_id);

CREATE TABLE offers (                   -- who sees a task that is open
    tenant text NOT NULL,
    who text NOT NULL,
    task_no bigint NOT NULL,
    PRIMARY KEY (tenant, who, task_no)
);
CREATE INDEX offers_by_task ON offers (task_no);

CREATE VIEW event_log AS
SELECT e.seq, k.tenant, c.case_id, e.version, e.turn, k.name, k.definition, k.binding, k.worker,
    timestamptz 'epoch' + e.at * interval '1 microsecond' AS at, e."by", e.cause, e.body
FROM events AS e JOIN kinds AS k ON k.no = e.kind JOIN cases AS c ON c.no = e.case_no;
""",
    ),
    Migration(
        2,
        "retention",
        """\
CREATE TABLE retired (                  -- what is gone, all in all
    tenant text PRIMARY KEY,
    cases bigint NOT NULL,
    events bigint NOT NULL,
    seq bigint NOT NULL,                -- the last position that was one of theirs
    ran_at bigint                       -- when retention last ran
);

CREATE TABLE retiring (                 -- cases that are gone, whose events are still to be deleted
    no bigint PRIMARY KEY
);
CREATE INDEX cases_of_family ON cases (tenant, case_id COLLATE "C") WHERE position('/' in case_id) > 0;
""",
    ),
    Migration(
        3,
        "snapshots",
        """\
CREATE TABLE snapshots (                -- the last one of each case that has any
    tenant text NOT NULL,
    case_id text NOT NULL,
    parent text NOT NULL,               -- empty for none
    definition text NOT NULL,
    status text NOT NULL,
    version integer NOT NULL,           -- how many there have been
    position bigint NOT NULL,           -- how many events are in it
    content_type text NOT NULL,
    payload bytea NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    metadata text NOT NULL,             -- JSON
    PRIMARY KEY (tenant, case_id)
);
CREATE INDEX snapshots_by_parent ON snapshots (tenant, parent) WHERE parent <> '';
""",
    ),
    Migration(
        4,
        "several hubs",
        """\
DROP TABLE ownership;

CREATE TABLE hubs (                     -- who works cases; one whose row is gone writes nothing more
    boot text PRIMARY KEY,              -- new at each start
    name text NOT NULL,
    joined timestamptz NOT NULL,
    expires timestamptz NOT NULL,       -- by the server's clock, as are all times here
    draining boolean NOT NULL,          -- it takes up no more cases
    pid integer NOT NULL,               -- its session that renews
    began timestamptz NOT NULL,
    missed timestamptz                  -- since when another hub has found that session ended
);

ALTER TABLE cases
    ADD COLUMN owner text NOT NULL DEFAULT '',   -- the hub that may write it, for as long as that is one
    ADD COLUMN epoch bigint NOT NULL DEFAULT 0;  -- how often it has been taken up

CREATE TABLE leads (                    -- the one hub that follows the log for all, for each durable subscriber
    tenant text NOT NULL,
    name text NOT NULL,
    owner text NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE inbox (                    -- inputs for cases that other hubs work
    post text PRIMARY KEY,
    tenant text NOT NULL,
    case_id text NOT NULL,
    input text NOT NULL,                -- JSON
    outcome text,                       -- JSON; NULL until it has been taken or refused
    posted timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX inbox_open ON inbox (tenant, case_id) WHERE outcome IS NULL;
CREATE INDEX inbox_answered ON inbox (posted) WHERE outcome IS NOT NULL;

CREATE FUNCTION channel() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'casehub_' || (hashtextextended(current_schema(), 0) & x'7fffffffffffffff'::bigint)
$$;

CREATE FUNCTION lock_log() RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('casehub log ' || current_schema(), 0))
$$;

-- Positions are given here, under a lock that is kept until the transaction is seen by all: so in commit order.
-- `expected`: the position that the writer has numbered its events behind; what that is off by is `casehub.shift`.
CREATE FUNCTION append(hub text, expected bigint, number bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
BEGIN
    PERFORM lock_log();
    IF NOT EXISTS (SELECT FROM hubs WHERE boot = hub) THEN
        RAISE EXCEPTION 'hub % is none of the hubs any more', hub USING ERRCODE = 'CH001';
    END IF;
    SELECT greatest((SELECT max(seq) FROM events), (SELECT max(seq) FROM retired), 0) INTO last;
    PERFORM set_config('casehub.expected', expected::text, true);
    PERFORM set_config('casehub.shift', (last - expected)::text, true);
    IF EXISTS (SELECT FROM hubs WHERE boot <> hub) THEN
        PERFORM pg_notify(channel(), 'log ' || hub || ' ' || (last + number));
    END IF;
    RETURN last - expected;
END
$$;

CREATE FUNCTION moved(seq bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT seq + CASE WHEN seq > current_setting('casehub.expected')::bigint
        THEN current_setting('casehub.shift')::bigint ELSE 0 END
$$;

CREATE FUNCTION fence(there bigint, wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF there <> wanted THEN
        RAISE EXCEPTION '% cases are not as they were for the hub', wanted - there USING ERRCODE = 'CH002';
    END IF;
END
$$;
""",
    ),
)

_REGISTER: Final = """\
CREATE SCHEMA IF NOT EXISTS {schema};
SET LOCAL search_path TO {schema};
CREATE TABLE schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL
);
"""
_STEP: Final = """\
-- {step.version}: {step.name}
{step.sql}
INSERT INTO schema_migrations VALUES ({step.version}, '{step.name}', '{step.sha256}', now());
"""
_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended(?, 0))"
_UNLOCK: Final = "SELECT pg_advisory_unlock(hashtextextended(?, 0))"
_LOCK_WAIT: Final = 10.0
"""Seconds that another process gets to bring the schema up to date."""
_LOCK_STEP: Final = 0.05
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = ?"
_APPLIED: Final = "SELECT version, name, sha256 FROM schema_migrations ORDER BY version"


def schema_sql(schema: str, since: int = 0) -> str:
    """The SQL that brings a database from version `since` (0: nothing of ours) to this one, to read or run by hand."""
    start = _REGISTER.format(schema=schema) if since == 0 else f"SET LOCAL search_path TO {schema};\n"
    steps = (_STEP.format(step=step) for step in MIGRATIONS if step.version > since)
    return "\n".join(["BEGIN;\n" + start, *steps, "COMMIT;\n"])


def migrate(connection: Connection, place: Place) -> None:
    """Bring the database to this version in one transaction; who comes second waits for it.

    Raises `SchemaError` when the database is newer, was made by other migrations, or its schema is somebody else's, and
    `StoreOwnedError` while the lock is held by others: CaseHub before version 4 of the schema held it for its life.
    """
    if schema_version(connection, place) == MIGRATIONS[-1].version:
        return
    name = (f"casehub {place.schema}",)
    end = time.monotonic() + _LOCK_WAIT
    while not connection.execute(_LOCK, name).fetchone()[0]:
        if time.monotonic() > end:
            raise StoreOwnedError(
                f"{place}: its schema has to be brought up to date, and is held by {_holder(connection)}; stop that first"
            )
        time.sleep(_LOCK_STEP)
    version = schema_version(connection, place)
    if version < MIGRATIONS[-1].version:
        connection.run(schema_sql(place.schema, version))
    connection.execute(_UNLOCK, name)


def _holder(connection: Connection) -> str:
    try:
        return str(connection.execute("SELECT owner FROM ownership").fetchone()[0])
    except psycopg.errors.UndefinedTable:
        return "a process that does so"


def schema_version(connection: Connection, place: Place) -> int:
    """The version of the database's schema, 0 where there is none. Raises `SchemaError` as `migrate` does."""
    found = tables(connection, place)
    if "schema_migrations" not in found:
        if found:
            raise SchemaError(
                f"{place}: there are tables in its schema, but not CaseHub's; give another one with ?schema="
            )
        return 0
    return version_of(connection.execute(_APPLIED).fetchall(), MIGRATIONS, str(place))


def tables(connection: Connection, place: Place) -> list[str]:
    """The tables that there are in the schema."""
    return [name for (name,) in connection.execute(_TABLES, (place.schema,))]


def check_database(connection: Connection) -> Sequence[Finding]:
    """Everything that can be seen to be wrong, and what is worth knowing. Reads the whole log."""
    found: list[Finding] = []
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
        """SELECT count(*) FROM events AS e WHERE NOT EXISTS (SELECT FROM kinds AS k WHERE k.no = e.kind)
            OR NOT EXISTS (SELECT FROM cases AS c WHERE c.no = e.case_no) AND e.case_no NOT IN (SELECT no FROM retiring)"""
    ).fetchone()
    if orphans:
        found.append(Finding(True, f"{orphans} events without a case or a kind"))
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        (value,) = connection.execute(f"SHOW {setting}").fetchone()
        if value == "off":
            found.append(Finding(False, f"{setting} is off: a crash of the machine may take the last turns, or more"))
    return found
