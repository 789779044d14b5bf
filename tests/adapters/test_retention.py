"""The stores let go of ended cases, and of every row that there is of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from casehub.adapters import sql_retention
from casehub.adapters.memory import MemoryStore
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.sql_retention import BY_ID, EXEMPT, WITH_THEM
from casehub.adapters.sqlite import SQLiteStore
from casehub.events import CaseStarted, TimerId
from casehub.testing.event_logs import AT, Writing, committed, opened
from casehub.testing.retention import DAY, RetentionContract, retire, sweep, whole
from casehub.testing.task_lists import made_task

COVERED = {*BY_ID, *WITH_THEM, *EXEMPT}


class TestMemoryStore(RetentionContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestSQLiteStore(RetentionContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")


class TestSQLiteStoreWithMarksEverywhere(RetentionContract):
    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SQLiteStore:
        monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 5)
        monkeypatch.setattr("casehub.adapters.sql_log.TAIL_BATCH", 4)
        monkeypatch.setattr("casehub.adapters.sql_retention.PAGE", 1)
        return SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")


class TestPostgresStore(RetentionContract):
    @pytest.fixture
    def store(self, postgres_url: str) -> PostgresStore:
        return PostgresStore(postgres_url)


class TestPostgresStoreWithMarksEverywhere(RetentionContract):
    @pytest.fixture
    def store(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
        monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 5)
        monkeypatch.setattr("casehub.adapters.sql_log.TAIL_BATCH", 4)
        monkeypatch.setattr("casehub.adapters.sql_retention.PAGE", 1)
        return PostgresStore(postgres_url)


# ---- every table


def sqlite_rows(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


def postgres_rows(store: PostgresStore) -> dict[str, int]:
    with psycopg.connect(store.place.url, autocommit=True) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (store.place.schema,))
        return {
            name: connection.execute(f"SELECT count(*) FROM {store.place.schema}.{name}".encode()).fetchone()[0]  # type: ignore[index]  # count gives a row
            for (name,) in found.fetchall()
        }


async def with_something_everywhere(store: SQLiteStore | PostgresStore) -> None:
    """A case of which every table has rows that retention covers, but for those of open cases."""
    turns = whole("c1", long=12)
    ended, offered = made_task(2, case="c1"), made_task(0, case="c1")
    turns[1].tasks |= {ended.id: ended, offered.id: offered}
    turns[1].timers[TimerId("late")] = AT
    await committed(store, *turns)


async def test_every_table_of_sqlite_is_covered_by_retention(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "cases.db")
    async with opened(store):
        await with_something_everywhere(store)
        rows = sqlite_rows(store.path)
        assert set(rows) <= COVERED, (
            f"say in sql_retention how {set(rows) - COVERED} loses what it has of retired cases"
        )
        await retire(store)
        await sweep(store)
        rows = sqlite_rows(store.path)
        assert {name for name in rows if rows[name] and name not in EXEMPT} == set()
        assert not [each for each in await store.check() if each.fault]


async def test_every_table_of_postgresql_is_covered_by_retention(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    async with opened(store):
        await with_something_everywhere(store)
        rows = postgres_rows(store)
        assert set(rows) <= COVERED, (
            f"say in sql_retention how {set(rows) - COVERED} loses what it has of retired cases"
        )
        await retire(store)
        await sweep(store)
        rows = postgres_rows(store)
        assert {name for name in rows if rows[name] and name not in EXEMPT} == set()
        assert not [each for each in await store.check() if each.fault]


# ---- what a check knows of it


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> SQLiteStore | PostgresStore:
    if request.param == "sqlite":
        return SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")
    return PostgresStore(request.getfixturevalue("postgres_url"))


async def faults(store: SQLiteStore | PostgresStore) -> Sequence[str]:
    return [each.text for each in await store.check() if each.fault]


async def test_a_check_finds_nothing_wrong_before_while_and_after_cases_are_swept(
    database: SQLiteStore | PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 5)
    async with opened(database):
        await committed(database, *whole("c1", long=9), Writing("kept").turn(CaseStarted()), *whole("c2", long=9))
        assert await faults(database) == []
        await retire(database)
        assert await faults(database) == []
        await database.sweep(3)
        assert await faults(database) == []
        await sweep(database)
        assert await faults(database) == []


async def test_a_check_still_finds_an_event_that_is_lost(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "cases.db")
    async with opened(store):
        await committed(store, Writing("kept").turn(CaseStarted()), *whole("c1"))
        await retire(store)
        await sweep(store)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DELETE FROM events")
        connection.commit()
    async with opened(store):
        found = await faults(store)
        assert any("0 events and 4 retired ones, and the last position is 5" in each for each in found)
        assert any(each.startswith("case 'kept'") for each in found)


async def test_a_case_with_more_keys_than_one_transaction_takes_goes_in_several(
    database: SQLiteStore | PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_retention, "SIDE_ROWS", 3)
    async with opened(database):
        await committed(database, *whole("c1", long=7))
        ((case,),) = await database.expired(AT + DAY)
        answers = [list(await database.retire([case])) for _ in range(4)]
        assert answers == [[], [], ["c1"], []]


async def test_marks_in_front_of_the_first_event_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 5)
    store = SQLiteStore(tmp_path / "cases.db")
    async with opened(store):
        for number in range(20):
            await committed(store, *whole(f"c{number}"))
        assert sqlite_rows(store.path)["marks"] >= 10
        await retire(store)
        await sweep(store)
        assert sqlite_rows(store.path)["marks"] == 1
        await committed(store, *whole("late", days=9))
        assert await faults(store) == []


async def test_the_room_of_retired_cases_is_used_again(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")
    sizes: list[int] = []
    for round in range(6):
        async with opened(store):
            for number in range(150):
                await committed(store, *whole(f"r{round}-{number}", long=10))
            await retire(store)
            await sweep(store, 500)
        sizes.append(store.path.stat().st_size)
    assert sizes[-1] <= sizes[1] * 1.05, sizes
