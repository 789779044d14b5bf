"""The schema of the SQLite store: migrations that run once and whole, and checks that see what is broken."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from casehub.adapters import sqlite, sqlite_schema
from casehub.adapters.migrations import Migration
from casehub.adapters.sqlite import SQLiteStore
from casehub.adapters.sqlite_schema import MIGRATIONS, SAFE_VERSION, migrate, schema_sql, schema_version
from casehub.errors import SchemaError
from casehub.events import CaseStarted, ContextChanged, GoalReached
from casehub.testing.event_logs import Writing, committed, opened

NEXT = MIGRATIONS[-1].version + 1
SECOND = Migration(
    NEXT, "labels", "CREATE TABLE labels (name TEXT PRIMARY KEY);\nCREATE INDEX labels_by_name ON labels (name);\n"
)
BROKEN = Migration(NEXT, "labels", "CREATE TABLE labels (name TEXT PRIMARY KEY);\nCREATE TABLE labels (name TEXT);\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cases.db"


@pytest.fixture
def store(path: Path) -> SQLiteStore:
    return SQLiteStore(path, synchronous="NORMAL")


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the code know other migrations than it does."""

    def known(*migrations: Migration) -> None:
        monkeypatch.setattr(sqlite_schema, "MIGRATIONS", migrations)
        monkeypatch.setattr(sqlite, "MIGRATIONS", migrations)

    return known


def shape(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()


# ---- migrations


def test_migrations_are_numbered_from_one() -> None:
    assert [step.version for step in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_a_released_migration_is_never_edited() -> None:
    """Databases remember the hash of what made them: to change one here, add a migration."""
    released = ["7a4466fe1739d5be1b219a02f9eaa172585a08c75d724fcb263498f5f265c206"]
    assert [step.sha256 for step in MIGRATIONS[: len(released)]] == released


def test_an_empty_file_gets_the_whole_schema(connection: sqlite3.Connection) -> None:
    assert schema_version(connection, "x") == 0
    migrate(connection, "x")
    assert schema_version(connection, "x") == MIGRATIONS[-1].version
    rows = connection.execute("SELECT version, name, sha256, applied_at FROM schema_migrations").fetchall()
    assert [row[:3] for row in rows] == [(step.version, step.name, step.sha256) for step in MIGRATIONS]
    assert all(len(row[3]) == len("2026-11-30T09:00:00.000Z") for row in rows)
    before = shape(connection)
    migrate(connection, "x")
    assert shape(connection) == before


def test_the_sql_that_is_shown_makes_the_same_database(connection: sqlite3.Connection) -> None:
    migrate(connection, "x")
    with closing(sqlite3.connect(":memory:")) as other:
        other.executescript(schema_sql())
        assert shape(other) == shape(connection)
        assert schema_version(other, "x") == MIGRATIONS[-1].version


def test_only_what_is_missing_is_applied(connection: sqlite3.Connection, known: Callable[..., None]) -> None:
    migrate(connection, "x")
    known(*MIGRATIONS, SECOND)
    assert "labels" in schema_sql(NEXT - 1)
    assert "CREATE TABLE cases" not in schema_sql(NEXT - 1)
    migrate(connection, "x")
    assert schema_version(connection, "x") == NEXT
    assert ("labels" in dict(shape(connection))) is True


def test_a_migration_that_fails_changes_nothing(connection: sqlite3.Connection, known: Callable[..., None]) -> None:
    migrate(connection, "x")
    before = shape(connection)
    known(*MIGRATIONS, BROKEN)
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(connection, "x")
    assert not connection.in_transaction
    assert shape(connection) == before
    known(*MIGRATIONS, SECOND)
    migrate(connection, "x")
    assert schema_version(connection, "x") == NEXT


async def test_a_database_is_brought_up_to_date_when_it_is_opened(
    store: SQLiteStore, known: Callable[..., None]
) -> None:
    async with opened(store):
        await committed(store, Writing("c1").turn(CaseStarted()))
    reader = SQLiteStore(store.path, read_only=True)
    known(*MIGRATIONS, SECOND)
    with pytest.raises(
        SchemaError, match=f"is version {NEXT - 1}, and this CaseHub works with {NEXT}; open it with a hub"
    ):
        await reader.open(lambda turns: None)
    async with opened(store):
        assert await store.position() == 1
    async with opened(reader):
        assert await reader.position() == 1


async def test_a_newer_database_is_refused_and_left_as_it_is(store: SQLiteStore, known: Callable[..., None]) -> None:
    known(*MIGRATIONS, SECOND)
    async with opened(store):
        await committed(store, Writing("c1").turn(CaseStarted()))
    known(*MIGRATIONS)
    for refused in (store, SQLiteStore(store.path, read_only=True)):
        with pytest.raises(
            SchemaError, match=rf"cases\.db: its schema is version {NEXT} \(labels\).*up to {NEXT - 1}; upgrade"
        ):
            await refused.open(lambda turns: None)
    known(*MIGRATIONS, SECOND)
    async with opened(store):
        assert await store.position() == 1


async def test_a_database_made_by_other_migrations_is_refused(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    migrate(connection, "x")
    connection.execute("UPDATE schema_migrations SET sha256 = 'abc'")
    with pytest.raises(SchemaError, match=r"migration 1 \(.*\) is not the one of this CaseHub"):
        await store.open(lambda turns: None)


async def test_the_database_of_another_program_is_refused_and_left_as_it_is(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(SchemaError, match="not one of CaseHub's; use another path"):
        await store.open(lambda turns: None)
    assert [name for name, _ in shape(connection)] == ["bookmarks"]
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


async def test_the_file_is_marked_as_casehubs(store: SQLiteStore, connection: sqlite3.Connection) -> None:
    async with opened(store):
        assert connection.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"CaHs"),)


async def test_people_find_the_log_spelled_out(store: SQLiteStore, connection: sqlite3.Connection) -> None:
    async with opened(store):
        turn = Writing("c1", tenant="acme").turn(ContextChanged(facts={"a": 1}, binding="extract", by="worker:extract"))
        await committed(store, turn)
        cursor = connection.execute("SELECT * FROM event_log")
        row = dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))
    body = row.pop("body")
    assert body.startswith('{"facts":{"a":1}')
    assert row == {
        "seq": 1, "tenant": "acme", "case_id": "c1", "version": 1, "turn": 1, "name": "CONTEXT_CHANGED", "definition": "claim",
        "binding": "extract", "worker": "", "at": "2026-11-30T09:00:00.123456Z", "by": "worker:extract", "cause": 0,
    }  # fmt: skip


# ---- checks


async def faults(store: SQLiteStore) -> Sequence[str]:
    return [finding.text for finding in await store.check() if finding.fault]


async def test_a_sound_database_has_no_faults(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 5)
    async with opened(store):
        assert await faults(store) == []
        one, two = Writing("c1"), Writing("c2")
        for _ in range(10):
            await committed(
                store, one.turn(GoalReached(goal="a"), GoalReached(goal="b")), two.turn(GoalReached(goal="a"))
            )
        assert await faults(store) == []


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("DELETE FROM events WHERE seq = 4", "case 'c1' of 'default': version 6, but 5 events from 1 to 6"),
        ("DELETE FROM events WHERE seq = 4", "positions: 8 events and 0 retired ones, and the last position is 9"),
        ("UPDATE events SET version = 9 WHERE seq = 5", "case 'c1' of 'default': version 6, but 6 events from 1 to 9"),
        ("UPDATE events SET version = 1 WHERE seq = 5", "case 'c1' of 'default': version 6, but 6 events from 1 to 6"),
        ("UPDATE cases SET version = 3 WHERE case_id = 'c1'", "case 'c1' of 'default': version 3, but 6 events"),
        ("DELETE FROM cases WHERE case_id = 'c2'", "3 events without a case"),
        ("DELETE FROM events_by_kind WHERE seq = 2", "events_by_kind: 1 events up to the last mark are not in it"),
        ("UPDATE events_by_kind SET kind = kind + 1 WHERE seq = 2", "events_by_kind: 1 events"),
    ],
)
async def test_a_check_finds(
    store: SQLiteStore, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, damage: str, fault: str
) -> None:
    monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 5)
    async with opened(store):
        one, two = Writing("c1"), Writing("c2")
        for _ in range(3):
            await committed(
                store, one.turn(GoalReached(goal="a"), GoalReached(goal="b")), two.turn(GoalReached(goal="a"))
            )
    connection.execute(damage)
    reader = SQLiteStore(store.path, read_only=True)
    async with opened(reader):
        assert any(fault in text for text in await faults(reader)), await faults(reader)


async def test_an_old_sqlite_is_worth_a_word(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(store):
        for version, mentioned in ((SAFE_VERSION, False), ((3, 51, 2), True)):
            monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
            found = await store.check()
            assert [finding.fault for finding in found] == [False] * mentioned
            assert all("3.51.3" in finding.text for finding in found)
