"""A database is copied while a hub writes to it, and the copy is one that a hub goes on with."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from casehub import CaseDefinition, CaseHub, CaseStatus, FileError
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.sqlite import SQLiteStore
from casehub.adapters.whole_file import whole_file

relay = CaseDefinition("relay", goal="third", signals={"go": bool})


@relay.worker(writes="first")
async def one(text: str) -> str:
    await asyncio.sleep(0)
    return text


@relay.worker(writes="second")
async def two(first: str) -> str:
    return first


@relay.worker(writes="third")
async def three(second: str, go: bool) -> str:
    return second


async def loaded(hub: CaseHub, done: asyncio.Event) -> int:
    """Start cases, and let every other one go on to its end, until it is told to stop; how many it were."""
    number = 0
    while not done.is_set():
        case = await hub.start(relay, case_id=f"c{number}", text="x" * 500)
        if number % 2:
            await case.signal(go=True)
        number += 1
    return number


async def long_enough(hub: CaseHub, events: int) -> None:
    """Wait until the log has so many events."""
    with hub.watch(after=0) as news:
        async for event in news:
            if event.seq >= events:
                return


def names(folder: Path) -> set[str]:
    return set(os.listdir(folder))


async def resumed(store: SQLiteStore | PostgresStore) -> None:
    """Open a copy with a hub, let every case in it come to its end, and look it over."""
    async with CaseHub(relay, store=store, retention=None) as hub:
        cases = await hub.cases(limit=100_000)
        assert len(cases) > 3
        for summary in cases:
            case = hub.case(summary.case)
            await case.quiescent("60s")
            if await case.status() is CaseStatus.WAITING:
                await case.signal(go=True, wait="quiescent", timeout="60s")
            assert await case.status() is CaseStatus.COMPLETED
        assert not [each.text for each in await store.check() if each.fault]


async def test_a_sqlite_database_is_copied_while_a_hub_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("casehub.adapters.sqlite_backup.STEP", 5)
    store = SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")
    done, steps = asyncio.Event(), list[tuple[int, int]]()
    async with CaseHub(relay, store=store) as hub:
        loading = asyncio.create_task(loaded(hub, done))
        await long_enough(hub, 500)
        before = await hub.log.position()
        reader = SQLiteStore(store.path, read_only=True)
        await reader.open(lambda turns: None)
        with whole_file(tmp_path / "copy.db") as part:
            found = await reader.backup(part, tmp_path / "copy.db", lambda *told: steps.append(told))
        await reader.close()
        after = await hub.log.position()
        done.set()
        await loading
    assert [each.text for each in found if each.fault] == []
    assert len(steps) > 3
    assert steps[-1][0] == steps[-1][1]
    assert len({all for _, all in steps}) == 1  # it has not begun again, though it was written to
    copy = SQLiteStore(tmp_path / "copy.db", read_only=True)
    await copy.open(lambda turns: None)
    position = await copy.position()
    await copy.close()
    assert before <= position <= after
    assert after > before
    assert {name for name in names(tmp_path) if "copy" in name} == {"copy.db"}
    await resumed(SQLiteStore(tmp_path / "copy.db"))


async def test_a_copy_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "cases.db")
    await store.open(lambda turns: None)

    def give_up(done: int, all: int) -> None:
        raise RuntimeError("given up")

    async def copied() -> None:
        with whole_file(tmp_path / "copy.db") as part:
            await store.backup(part, tmp_path / "copy.db", give_up)

    with pytest.raises(RuntimeError, match="given up"):
        await copied()
    await store.close()
    assert names(tmp_path) == {"cases.db", "cases.db.lock"}


def test_a_disk_that_is_full_is_named_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left on device"), whole_file(tmp_path / "a.txt") as part:
        part.write_text("half")
    assert names(tmp_path) == set()


def test_a_file_that_comes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def written() -> None:
        with whole_file(tmp_path / "a.txt") as part:
            part.write_text("mine")
            (tmp_path / "a.txt").write_text("another's")

    with pytest.raises(FileError, match="meanwhile"):
        written()
    assert (tmp_path / "a.txt").read_text() == "another's"
    assert names(tmp_path) == {"a.txt"}


@pytest.fixture
async def elsewhere(postgres: str) -> AsyncIterator[str]:
    """The URL of another database of the same server, to restore into."""
    name = f"restored_{os.getpid()}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        parts = urlsplit(postgres)
        yield parts._replace(path=f"/{name}").geturl()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.skipif(shutil.which("pg_dump") is None, reason="pg_dump is not installed")
async def test_a_postgresql_database_is_dumped_while_a_hub_writes_and_put_back(
    postgres_url: str, elsewhere: str, tmp_path: Path
) -> None:
    store = PostgresStore(postgres_url)
    done = asyncio.Event()
    async with CaseHub(relay, store=store) as hub:
        loading = asyncio.create_task(loaded(hub, done))
        await long_enough(hub, 100)
        with whole_file(tmp_path / "copy.dump") as part:
            assert await store.backup(part, tmp_path / "copy.dump", lambda done, all: None) == []
        done.set()
        await loading
    restoring = await asyncio.create_subprocess_exec("pg_restore", f"--dbname={elsewhere}", str(tmp_path / "copy.dump"))
    assert await restoring.wait() == 0
    joint = "&" if "?" in elsewhere else "?"
    await resumed(PostgresStore(f"{elsewhere}{joint}schema={store.place.schema}"))
