"""Stopping: what runs gets its time, nothing new starts, and the process ends, whatever its workers do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    Retry,
    WorkerExecutionFailed,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.adapters.sqlite import SQLiteStore
from tests.resilience.stubborn import stubborn
from tests.staging import Kept, eventually, idle

ROOT = Path(__file__).parents[2]
LONG = 240.0


def up(folder: Path, *words: str) -> subprocess.Popen[str]:
    running = folder / "running"
    running.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "casehub", "up", *words, "--db", str(folder / "c.db")],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), "RUNNING": str(running)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def seeded(folder: Path) -> None:
    """Ten cases whose workers will not end, five of each kind; nobody works them yet."""

    async def seed() -> None:
        async with CaseHub(stubborn, store=f"sqlite:///{folder / 'c.db'}") as hub:
            hub.runtime.draining = True  # so that nothing runs
            for n in range(10):
                await hub.start(stubborn, kind="sync" if n % 2 else "async", n=n)

    asyncio.run(seed())


@pytest.mark.slow
def test_ten_workers_that_ignore_it_do_not_keep_a_process_from_ending(tmp_path: Path) -> None:
    """The grace time and a second, on a machine that does nothing else."""
    seeded(tmp_path)
    process = up(tmp_path, "tests.resilience.stubborn:both", "--drain-timeout", "1s")
    try:
        asyncio.run(eventually(lambda: len(list((tmp_path / "running").iterdir())) == 10, LONG))
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        said, _ = process.communicate(timeout=LONG)
        took = time.monotonic() - begun
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert took < 60  # a worker would take an hour
    process = up(tmp_path, "tests.resilience.stubborn:both", "--drain-timeout", "1h")
    try:
        asyncio.run(eventually(lambda: len(list((tmp_path / "running").iterdir())) == 10, LONG))
        assert process.stdout is not None
        while "Ctrl-C" not in (line := process.stdout.readline()):
            assert line
        process.send_signal(signal.SIGTERM)
        while "stopping" not in (line := process.stdout.readline()):
            assert line
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 128 + signal.SIGTERM
    finally:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()


async def test_while_a_hub_drains_nothing_new_starts_and_what_was_to_start_does_with_the_next(url: str) -> None:
    """S033. A step that was committed and not begun begins; S095: so do a hundred of them, each once."""
    d, runs, gate = CaseDefinition("d", goal="c"), list[str](), asyncio.Event()

    @d.worker(writes="b")
    async def first(a: int) -> int:
        await gate.wait()
        return a

    @d.worker(writes="c")
    async def second(b: int) -> int:
        runs.append(f"second {b}")
        return b

    async with CaseHub(d, store=url) as hub:
        for n in range(100):
            await hub.start(d, a=n, case_id=f"c{n}")
        draining = asyncio.create_task(hub.drain("60s"))
        await idle()
        gate.set()
        assert await draining
        assert runs == []
    async with CaseHub(d, store=url) as hub:
        for n in range(100):
            case = hub.case(f"c{n}")
            assert (await case.completed())["c"] == n
            assert len(await case.log.query(WorkerScheduled)) == 2
            assert [event.left for event in await case.log.query(WorkerExecutionInterrupted)] == [True]
    assert sorted(runs) == sorted(f"second {n}" for n in range(100))


async def test_what_was_in_flight_is_dispatched_once_by_the_next_hub_and_leaving_that_takes_no_time(url: str) -> None:
    """S023."""
    d, runs = CaseDefinition("d", goal="x"), list[str]()

    def add(name: str) -> None:
        @d.worker(name=name, writes=name)
        async def work(a: int) -> int:
            runs.append(name)
            await asyncio.Event().wait()
            return a

    for name in ("x", "y", "z"):
        add(name)
    async with CaseHub(d, store=url) as hub:
        await hub.start(d, a=1, case_id="c")
        await eventually(lambda: len(runs) == 3)
    async with CaseHub(d, store=url) as hub:
        await eventually(lambda: len(runs) == 6)
        await idle()
        assert sorted(runs) == ["x", "x", "y", "y", "z", "z"]
        assert not await hub.drain("50ms")
        attempts = [event.attempt for event in await hub.case("c").log.query(WorkerExecutionStarted)]
        assert sorted(attempts) == [1, 1, 1, 2, 2, 2]


async def test_a_worker_that_raises_while_the_hub_drains_has_its_error_in_the_log(url: str) -> None:
    """S073."""
    d, begun = CaseDefinition("d", goal="b"), asyncio.Event()

    @d.worker(writes="b", retry=Retry(1))
    async def work(a: int) -> int:
        begun.set()
        try:
            await asyncio.sleep(0.05)
        finally:
            raise ValueError("at the very end")

    async with CaseHub(d, store=url) as hub:
        await hub.start(d, a=1, case_id="c")
        await begun.wait()
        assert await hub.drain("60s")
    async with CaseHub(d, store=url, resume=False) as hub:
        (failed,) = await hub.case("c").log.query(WorkerExecutionFailed)
        assert (failed.error, failed.message) == ("ValueError", "at the very end")


async def test_a_worker_that_raises_as_it_is_called_off_stops_nobody_from_leaving() -> None:
    """S073."""
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("at the very end")

    store = Kept()
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d, a=1)
        await idle()
    events = [event.name for event in await store.load(case.id)]
    assert events[-1] == "WORKER_EXECUTION_INTERRUPTED"


# ---- a start that fails


async def test_a_hub_that_cannot_be_entered_leaves_no_thread_and_no_file_behind(tmp_path: Path) -> None:
    """S087."""
    d = CaseDefinition("d", goal="b")

    @d.resource
    async def broken() -> AsyncIterator[str]:
        raise ConnectionError("it cannot be reached")
        yield ""

    @d.worker(writes="b")
    async def work(a: int, broken: str) -> int:
        return a

    async def enter() -> None:
        async with CaseHub(d, store=SQLiteStore(tmp_path / "c.db")):
            raise AssertionError("it was entered")

    threads = set(threading.enumerate())
    for _ in range(5):
        with pytest.raises(ConnectionError, match="cannot be reached"):
            await enter()
    assert set(threading.enumerate()) == threads
    async with CaseHub(CaseDefinition("e", goal="x", signals=["x"]), store=SQLiteStore(tmp_path / "c.db")) as hub:
        assert await hub.log.position() == 0


def test_a_process_that_cannot_start_ends_with_an_error(tmp_path: Path) -> None:
    """S087."""
    process = up(tmp_path, "tests.resilience.stubborn:broken")
    try:
        said, _ = process.communicate(timeout=LONG)
    finally:
        process.kill()
    assert process.returncode == 1, said
    assert "it cannot be reached" in said
