"""The schema of the PostgreSQL store: migrations that run once and whole, and checks that see what is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest

from casehub.adapters import postgres
from casehub.adapters.migrations import Migration
from casehub.adapters.postgres import PostgresStore, schema
from casehub.adapters.postgres.connection import Connection
from casehub.adapters.postgres.schema import MIGRATIONS
from casehub.errors import SchemaError, StoreError, StoreUnavailableError
from casehub.events import CaseStarted, ContextChanged, GoalReached
from casehub.query import EventQuery
from casehub.testing.event_logs import AT, Writing, committed, opened

NEXT = MIGRATIONS[-1].version + 1
SECOND = Migration(NEXT, "labels", "CREATE TABLE labels (name text PRIMARY KEY);\n")
BROKEN = Migration(NEXT, "labels", "CREATE TABLE labels (name text);\nCREATE TABLE labels (name text);\n")


@pytest.fixture
def store(postgres_url: str) -> PostgresStore:
    return PostgresStore(postgres_url)


@pytest.fixture
def connection(store: PostgresStore) -> Iterator[Connection]:
    connection = Connection(store.place)
    yield connection
    connection.close()


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the code know other migrations than it does."""

    def known(*migrations: Migration) -> None:
        monkeypatch.setattr(schema, "MIGRATIONS", migrations)
        monkeypatch.setattr(postgres, "MIGRATIONS", migrations)

    return known


def test_migrations_are_numbered_from_one() -> None:
    assert [step.version for step in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


async def test_only_what_is_missing_is_applied(store: PostgresStore, known: Callable[..., None]) -> None:
    assert store.schema_version() == 0
    async with opened(store):
        await committed(store, Writing("c1").turn(CaseStarted()))
    assert store.schema_version() == NEXT - 1
    reader = PostgresStore(store.place.url + f"&schema={store.place.schema}", read_only=True)
    known(*MIGRATIONS, SECOND)
    assert "CREATE TABLE cases" not in store.schema_sql(NEXT - 1)
    with pytest.raises(
        SchemaError, match=f"is version {NEXT - 1}, and this CaseHub works with {NEXT}; open it with a hub"
    ):
        await reader.open(lambda turns: None)
    async with opened(store):
        assert await store.position() == 1
    assert store.schema_version() == NEXT


async def test_a_reader_of_nothing_makes_nothing(store: PostgresStore) -> None:
    reader = PostgresStore(f"{store.place.url}&schema={store.place.schema}", read_only=True)
    with pytest.raises(StoreUnavailableError, match="there is none of CaseHub's"):
        await reader.open(lambda turns: None)
    assert store.schema_version() == 0


async def test_a_migration_that_fails_changes_nothing(store: PostgresStore, known: Callable[..., None]) -> None:
    async with opened(store):
        pass
    known(*MIGRATIONS, BROKEN)
    with pytest.raises(StoreError, match="already exists; see what this user may do"):
        await store.open(lambda turns: None)
    known(*MIGRATIONS)
    async with opened(store):
        assert await store.position() == 0


async def test_a_newer_database_is_refused(store: PostgresStore, known: Callable[..., None]) -> None:
    known(*MIGRATIONS, SECOND)
    async with opened(store):
        pass
    known(*MIGRATIONS)
    with pytest.raises(SchemaError, match=rf"its schema is version {NEXT} \(labels\).*up to {NEXT - 1}; upgrade"):
        await store.open(lambda turns: None)


async def test_a_schema_of_somebody_else_is_refused_and_left_as_it_is(
    store: PostgresStore, connection: Connection
) -> None:
    connection.run(f"CREATE SCHEMA {store.place.schema}; CREATE TABLE bookmarks (url text)")
    with pytest.raises(SchemaError, match="not CaseHub's; give another one with"):
        await store.open(lambda turns: None)
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = ?", (store.place.schema,))
    assert tables.fetchall() == [("bookmarks",)]


async def test_the_sql_that_is_shown_makes_the_database(store: PostgresStore, connection: Connection) -> None:
    connection.run(store.schema_sql())
    assert store.schema_version() == MIGRATIONS[-1].version
    async with opened(store):
        await committed(store, Writing("c1").turn(CaseStarted()))


async def test_people_find_the_log_spelled_out(store: PostgresStore, connection: Connection) -> None:
    async with opened(store):
        turn = Writing("c1", tenant="acme").turn(ContextChanged(facts={"a": 1}, binding="extract", by="worker:extract"))
        await committed(store, turn)
        row = connection.execute('SELECT seq, tenant, case_id, name, binding, at, "by", body FROM event_log').fetchone()
    assert row[:7] == (1, "acme", "c1", "CONTEXT_CHANGED", "extract", AT, "worker:extract")
    assert row[7].startswith('{"facts":{"a":1}')


async def faults(store: PostgresStore) -> Sequence[str]:
    return [finding.text for finding in await store.check() if finding.fault]


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("DELETE FROM events WHERE seq = 4", "case 'c1' of 'default': version 6, but 5 events from 1 to 6"),
        ("DELETE FROM events WHERE seq = 4", "positions: 8 events and 0 retired ones, and the last position is 9"),
        ("UPDATE events SET version = 9 WHERE seq = 5", "case 'c1' of 'default': version 6, but 6 events from 1 to 9"),
        ("UPDATE cases SET version = 3 WHERE case_id = 'c1'", "case 'c1' of 'default': version 3, but 6 events"),
        ("DELETE FROM cases WHERE case_id = 'c2'", "3 events without a case"),
    ],
)
async def test_a_check_finds(store: PostgresStore, connection: Connection, damage: str, fault: str) -> None:
    async with opened(store):
        one, two = Writing("c1"), Writing("c2")
        for _ in range(3):
            await committed(
                store, one.turn(GoalReached(goal="a"), GoalReached(goal="b")), two.turn(GoalReached(goal="a"))
            )
        assert await faults(store) == []
        connection.run(damage)
        assert any(fault in text for text in await faults(store)), await faults(store)


async def test_a_server_that_does_not_wait_for_its_disk_is_worth_a_word(
    store: PostgresStore, connection: Connection
) -> None:
    async with opened(store):
        (fsync,) = connection.execute("SHOW fsync").fetchone()
        texts = [finding.text for finding in await store.check()]
        assert any("fsync is off" in text for text in texts) is (fsync == "off")


async def test_the_latest_time_is_known_again_after_opening(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 7)
    writing = Writing("c1")
    async with opened(store):
        await committed(store, writing.turn(GoalReached(goal="late"), at=AT + timedelta(hours=10)))
    async with opened(store):
        for _ in range(10):
            await committed(store, writing.turn(GoalReached(goal="early")))
        found = await store.query(EventQuery(since=AT + timedelta(hours=5)))
        assert found == [GoalReached(goal="late", version=1)]
