"""Who may open a SQLite database: one owner, any number of readers, and whoever comes after a crash."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import pytest

from casehub.adapters.sqlite import SQLiteStore
from casehub.adapters.sqlite_log import Session
from casehub.adapters.sqlite_readers import SQLiteReader
from casehub.errors import StoreError, StoreOwnedError, StoreUnavailableError
from casehub.events import CaseId, CaseStarted, GoalReached
from casehub.query import CaseQuery, EventQuery
from casehub.testing.event_logs import Writing, committed, opened

OWNER = """
import asyncio, os, sys
from casehub.adapters.sqlite import SQLiteStore
from casehub.events import CaseStarted
from casehub.testing.event_logs import Writing

async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open(lambda turns: None)
    await store.commit([Writing(f"c{os.getpid()}").turn(CaseStarted())])
    if sys.argv[2] != "fork" or os.fork() == 0:
        print("open", flush=True)
    if sys.argv[2] != "leave":
        sys.stdin.readline()
        await store.close()

asyncio.run(main())
"""

# Forks an engine a line: it imports once, and an engine is there in milliseconds.
ENGINES = """
import asyncio, os, sys
from casehub.adapters.sqlite import SQLiteStore
from casehub.events import CaseId, ContextChanged
from casehub.spi import Committed
from casehub.testing.event_logs import Writing

async def chain(store, case, number):
    writing = Writing(case, version=len(await store.load(CaseId(case))) + 1)
    while True:
        number += 1
        turn = writing.turn(*(ContextChanged(facts={"n": number, "text": "x" * 300}) for _ in range(3)), key=f"k{writing.version}")
        result, = await store.commit([turn])
        assert type(result) is Committed, result
        os.write(1, f"{case} {turn.envelope.version} {result.seq}\\n".encode())

async def engine():
    store = SQLiteStore(sys.argv[1], synchronous=sys.argv[2])
    await store.open(lambda turns: None)
    await asyncio.gather(*(chain(store, f"c{n}", n) for n in range(4)))

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(engine())
        finally:
            os._exit(1)
    os.write(1, f"pid {child}\\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(1, f"ended {os.waitstatus_to_exitcode(status)}\\n".encode())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cases.db"


def files(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir())


@contextmanager
def process(script: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A Python process, what it reads and what it writes; killed at the end."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            yield running, running.stdin, running.stdout
        finally:
            running.kill()


# ---- one owner


async def test_a_full_disk_keeps_nobody_from_owning_and_letting_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        async with opened(SQLiteStore(path)):
            with pytest.raises(StoreOwnedError, match="is owned by process unknown"):
                await SQLiteStore(path).open(lambda turns: None)
    async with opened(SQLiteStore(path)):
        pass


async def test_a_second_store_in_the_same_process_is_refused(path: Path) -> None:
    async with opened(SQLiteStore(path)):
        with pytest.raises(StoreOwnedError, match=rf"cases\.db is owned by process {os.getpid()}; .*cases\.db\.sock"):
            await SQLiteStore(path).open(lambda turns: None)
    async with opened(SQLiteStore(path)):
        pass


async def test_a_link_to_the_file_does_not_make_a_second_owner(path: Path) -> None:
    link = path.with_name("link.db")
    os.symlink(path, link)
    async with opened(SQLiteStore(path)):
        with pytest.raises(StoreOwnedError, match=r"cases\.db is owned"):
            await SQLiteStore(link).open(lambda turns: None)
        reader = SQLiteStore(link, read_only=True)
        async with opened(reader):
            assert await reader.position() == 0


def test_a_second_process_is_refused_until_the_first_is_gone(path: Path) -> None:
    """S083. So no other process's transaction is ever in the way of one that reads and then writes."""

    async def attempt() -> None:
        async with opened(SQLiteStore(path)) as published:
            assert published == []

    with process(OWNER, str(path), "stay") as (owner, _, written):
        assert written.readline() == "open\n"
        with pytest.raises(StoreOwnedError, match=rf"cases\.db is owned by process {owner.pid}; "):
            asyncio.run(attempt())
        owner.kill()
        owner.wait()
        asyncio.run(attempt())


def test_a_child_that_an_owner_forked_does_not_own_the_database_after_it(path: Path) -> None:
    async def attempt() -> int:
        store = SQLiteStore(path)
        async with opened(store):
            return await store.position()

    with process(OWNER, str(path), "fork") as (owner, _, written):
        assert written.readline() == "open\n"
        owner.kill()
        owner.wait()
        assert asyncio.run(attempt()) == 1  # the child waits for a line still


def test_a_process_that_leaves_its_store_open_comes_to_its_end(path: Path) -> None:
    with process(OWNER, str(path), "leave") as (owner, _, _):
        assert owner.wait(240) == 0


# ---- readers


async def test_a_reader_sees_beside_an_owner_what_is_committed(path: Path) -> None:
    owner, reader, writing = SQLiteStore(path), SQLiteStore(path, read_only=True), Writing("c1")
    async with opened(owner):
        await committed(owner, writing.turn(CaseStarted(), key="k"))
        await owner.bookmark("pager", 1)
        async with opened(reader):
            for number in range(2, 5):
                await committed(owner, writing.turn(GoalReached(goal="a")))
                assert await reader.position() == number
                assert len(await reader.load(CaseId("c1"))) == number
            assert await reader.outcome(CaseId("c1"), "k") == 1
            assert await reader.bookmark("pager") == 1
            assert [summary.version for summary in await reader.cases(CaseQuery())] == [4]


async def test_a_reader_writes_nothing_and_makes_no_file(path: Path) -> None:
    async with opened(SQLiteStore(path)) as _:
        pass
    before = files(path)
    reader = SQLiteStore(path, read_only=True)
    async with opened(reader):
        assert await reader.position() == 0
        assert files(path) == before
        for write in (reader.commit([Writing("c1").turn(CaseStarted())]), reader.bookmark("pager", 1)):
            with pytest.raises(
                StoreError, match=r"cases\.db is open read-only; write through the process that owns it"
            ):
                await write
    assert files(path) == before


async def test_a_reader_of_nothing_makes_nothing(path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"cases\.db: .*No such file"):
        await SQLiteStore(path, read_only=True).open(lambda turns: None)
    assert files(path) == []


async def test_a_reader_follows_owners_that_come_and_go(path: Path) -> None:
    writing, seen = Writing("c1"), []
    async with opened(SQLiteStore(path)) as _:
        pass
    reader = SQLiteStore(path, read_only=True)
    async with opened(reader):
        seen.append(await reader.position())
        for _ in range(3):
            owner = SQLiteStore(path)
            async with opened(owner):
                await committed(owner, writing.turn(GoalReached(goal="a")))
                seen.append(await reader.position())
                await committed(owner, writing.turn(GoalReached(goal="a")))
            seen.append(await reader.position())
    assert seen == [0, 1, 2, 3, 4, 5, 6]


async def test_an_answer_from_a_file_that_changed_under_it_is_asked_for_again(path: Path) -> None:
    async with opened(SQLiteStore(path)) as _:
        pass
    answers: list[int] = []

    def question(session: Session) -> int:
        (found,) = session.connection.execute("SELECT count(*) FROM subscribers").fetchone()
        answers.append(found)
        if len(answers) == 1:
            with closing(sqlite3.connect(path)) as other, other:
                other.execute("INSERT INTO subscribers VALUES ('default', 'pager', 1)")
        return answers[-1]

    reader = SQLiteReader(path, owned=False)
    assert reader.answer(question) == 1
    assert answers == [0, 1]
    reader.close()


async def test_a_reader_reads_what_a_killed_owner_left(path: Path) -> None:
    with process(OWNER, str(path), "stay") as (owner, _, written):
        assert await asyncio.to_thread(written.readline) == "open\n"
        owner.kill()
        owner.wait()
    assert "cases.db-wal" in files(path)
    reader = SQLiteStore(path, read_only=True)
    async with opened(reader):
        assert [event.case for event in await reader.query(EventQuery())] == [f"c{owner.pid}"]


# ---- crashes


@pytest.mark.parametrize(
    ("kills", "synchronous"),
    [
        (8, "FULL"),
        pytest.param(60, "FULL", marks=pytest.mark.chaos),
        pytest.param(60, "NORMAL", marks=pytest.mark.chaos),
    ],
)
def test_nothing_that_was_acknowledged_is_lost_to_a_killed_process(path: Path, kills: int, synchronous: str) -> None:
    chance = random.Random(kills)
    acknowledged: list[tuple[str, int, int]] = []
    with process(ENGINES, str(path), synchronous) as (_, told, written):
        for _ in range(kills):
            told.write("one more\n")
            pid = int(written.readline().removeprefix("pid "))
            wanted = chance.randrange(1, 60)
            for line in written:
                if line.startswith("ended"):
                    assert line == f"ended {-signal.SIGKILL}\n"
                    break
                case, version, seq = line.split()
                acknowledged.append((case, int(version), int(seq)))
                wanted -= 1
                if wanted == 0:
                    os.kill(pid, signal.SIGKILL)

    async def found() -> dict[tuple[str, int], int]:
        store = SQLiteStore(path)
        async with opened(store):
            assert [finding.text for finding in await store.check() if finding.fault] == []
            events = await store.query(EventQuery())
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert len(events) % 3 == 0  # turns are whole
            for case, version, seq in acknowledged:
                assert await store.outcome(CaseId(case), f"k{version}") == seq
            return {(event.case, event.version): event.seq for event in events}

    log = asyncio.run(found())
    assert len(acknowledged) >= kills
    lost = [ack for ack in acknowledged if log.get(ack[:2]) != ack[2]]
    assert lost == []
