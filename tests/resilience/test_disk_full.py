"""A disk that is full or fails: the write is refused, reads work, and it goes on by itself once there is room."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog

from casehub import CaseDefinition, CaseHub, ContextChanged, WorkerExecutionCompleted, WorkerExecutionStarted
from casehub.adapters.sqlite import SQLiteStore
from casehub.adapters.sqlite_writer import SQLiteDatabase
from casehub.adapters.writer import Request
from casehub.errors import StoreUnavailableError
from tests.staging import eventually

ROOT = Path(__file__).parents[2]
LARGE = "x" * 20_000


@pytest.fixture
def said() -> Iterator[Any]:
    with structlog.testing.capture_logs() as lines:
        yield lines


class Room:
    """How many pages a database may have; None: as many as it likes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages: int | None = None
        transact = SQLiteDatabase.transact

        def bounded(database: SQLiteDatabase, requests: Sequence[Request]) -> None:
            connection, _ = database.connect()
            connection.execute(f"PRAGMA max_page_count = {self.pages or 1_000_000}")
            transact(database, requests)

        monkeypatch.setattr(SQLiteDatabase, "transact", bounded)


def definition(runs: list[int]) -> CaseDefinition:
    d = CaseDefinition("d", goal="done", signals=["note", "go"])

    @d.worker(writes="done")
    async def work(go: int) -> int:
        runs.append(go)
        return go

    return d


async def test_a_full_disk_refuses_writes_and_answers_questions_and_all_goes_on_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    room, runs, path = Room(monkeypatch), list[int](), tmp_path / "c.db"
    d = definition(runs)
    async with CaseHub(d, store=f"sqlite:///{path}", patience="200ms") as hub:
        cases = [await hub.start(d, case_id=f"c{n}") for n in range(5)]
        room.pages = 60  # of 4 KiB
        accepted = list[tuple[int, int]]()
        refused = None
        for n in range(1_000):
            try:
                await cases[n % 5].signal(note=f"{n} {LARGE}", key=f"k{n}")
            except StoreUnavailableError as error:
                refused = error
                break
            accepted.append((n % 5, n))
        assert refused is not None
        last = len(accepted)
        with pytest.raises(StoreUnavailableError):  # of any case
            await cases[(last + 1) % 5].signal(note=3 * LARGE)
        assert len(await hub.cases()) == 5
        assert await hub.log.position() > 10
        assert "database or disk is full" in hub.runtime.outage.trouble
        assert any(line["event"] == "store.unavailable" and "disk is full" in line["reason"] for line in said)
        room.pages = None
        await eventually(lambda: said_yes(cases[last % 5], last))
        assert hub.runtime.outage.trouble == ""
        for case in cases:
            await case.signal(go=1)
            assert (await case.completed())["done"] == 1
            assert len(await case.log.query(WorkerExecutionStarted)) == 1
            assert len(await case.log.query(WorkerExecutionCompleted)) == 1
        for number, n in accepted:
            notes = [str(event.facts.get("note")).split()[0] for event in await cases[number].log.query(ContextChanged)]
            assert notes.count(str(n)) == 1
    assert runs == [1] * 5
    assert sound(path)


async def said_yes(case: Any, n: int) -> bool:
    with suppress(StoreUnavailableError):
        await case.signal(note=f"{n} {LARGE}", key=f"k{n}")
        return True
    return False


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        (integrity,) = connection.execute("PRAGMA integrity_check").fetchone()
    return bool(integrity == "ok")


@pytest.mark.parametrize("after", [False, True], ids=["not written", "written, and said not to be"])
async def test_an_error_of_the_disk_in_a_commit_leaves_nothing_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any, after: bool
) -> None:
    """The outcome is unknown, so it is looked up: what was written counts, what was not is written again."""
    runs, fails, transact = list[int](), [0], SQLiteDatabase.transact

    def failing(database: SQLiteDatabase, requests: Sequence[Request]) -> None:
        if fails[0] and not after:
            fails[0] -= 1
            raise sqlite3.OperationalError("disk I/O error")
        transact(database, requests)
        if fails[0]:
            fails[0] -= 1
            raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(SQLiteDatabase, "transact", failing)
    d = definition(runs)
    async with CaseHub(d, store=f"sqlite:///{tmp_path / 'c.db'}", patience="60s") as hub:
        for n in range(10):
            case = await hub.start(d)
            fails[0] = 1 + n % 3
            assert (await case.signal(note=n, key="k"))["note"] == n
            fails[0] = n % 2
            await case.signal(go=n)
            assert (await case.completed())["done"] == n
            changes = await case.log.query(ContextChanged)
            assert sum("note" in change.facts for change in changes) == 1
            assert len(await case.log.query(WorkerExecutionStarted)) == 1
    assert sorted(runs) == list(range(10))
    assert any("disk I/O error" in str(line.get("reason")) for line in said)


async def test_a_database_whose_disk_is_full_can_be_opened_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, path = Room(monkeypatch), tmp_path / "c.db"
    d = definition([])
    async with CaseHub(d, store=f"sqlite:///{path}") as hub:
        await hub.start(d, case_id="c", note="before")
    room.pages = 1  # fewer than there are: nothing can be added
    async with CaseHub(d, store=f"sqlite:///{path}", patience="200ms") as hub:
        assert (await hub.case("c").context())["note"] == "before"
        with pytest.raises(StoreUnavailableError):
            await hub.case("c").signal(note=LARGE)
        assert (await hub.case("c").context())["note"] == "before"
        room.pages = None
        await eventually(lambda: said_yes(hub.case("c"), 1))
    async with SQLiteReading(path) as store:
        assert await store.position() > 3


class SQLiteReading:
    """A store that is open for reading alone."""

    def __init__(self, path: Path) -> None:
        self.store = SQLiteStore(path, read_only=True)

    async def __aenter__(self) -> SQLiteStore:
        await self.store.open(lambda turns: None)
        return self.store

    async def __aexit__(self, *exc: object) -> None:
        await self.store.close()


@pytest.mark.slow
@pytest.mark.chaos
def test_a_file_system_that_is_full_loses_nothing_and_needs_no_repair(tmp_path: Path) -> None:
    """A real one, of 6 MB in memory; the write-ahead log is on it too."""
    command = (
        f"mount -t tmpfs -o size=6m tmpfs {tmp_path} && exec {sys.executable} -m tests.resilience.full_disk {tmp_path}"
    )
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    if ran.returncode and "permitted" in ran.stderr:
        pytest.skip("only root may mount a file system here")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["accepted"] > 10
    assert (found["lost"], found["twice"], found["integrity"]) == ([], 0, "ok")
    assert found["refused"] == found["accepted"]
    assert "full" in found["trouble"] or "I/O" in found["trouble"]
    assert found["reads"][0] == 1
    assert found["reads"][1] > found["accepted"]
