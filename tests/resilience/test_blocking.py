"""Workers that block: on the event loop they are named, in threads they hold up nobody but themselves."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
import structlog

from casehub import (
    CaseDefinition,
    CaseHub,
    Retry,
    WorkerExecutionCompleted,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionStarted,
)
from casehub.adapters.clock import VirtualClock
from casehub.engine.executor import LocalExecutor
from casehub.engine.threads import Threads
from casehub.engine.watchdog import Watchdog
from casehub.errors import LimitError
from casehub.query import EventQuery, concrete
from tests.staging import Kept, eventually, idle

LONG = 120.0
"""Seconds after which what should have happened never will."""


def busy(while_true: Any) -> None:
    """Hold the loop up as long as something holds, two minutes at most."""
    given_up = time.monotonic() + LONG
    while while_true() and time.monotonic() < given_up:
        time.sleep(0.005)


async def test_an_async_worker_that_blocks_is_named_with_its_case_and_its_stack_and_others_get_on() -> None:
    """S038."""
    d = CaseDefinition("d", goal="done")
    hubs, blocked_for = list[CaseHub](), list[float]()

    def deep_inside() -> None:
        begun = time.monotonic()
        busy(lambda: not hubs[0].runtime.watchdog.blocked)
        blocked_for.append(time.monotonic() - begun)

    @d.worker(writes="done")
    async def greedy(a: int) -> int:
        if a == 0:
            deep_inside()
        return a

    with structlog.testing.capture_logs() as said:
        async with CaseHub(d, store=Kept()) as hub:
            hubs.append(hub)
            bad = await hub.start(d, a=0, case_id="bad-case")
            others = [await hub.start(d, a=n) for n in range(1, 50)]
            for case in (*others, bad):
                await case.completed()
            assert hub.runtime.watchdog.blocked == {"greedy": 1}
            assert (
                len(await hub.log.query(EventQuery(types=concrete((WorkerExecutionStarted,))))) == 50
            )  # nothing was run again for it
    (line,) = [each for each in said if each["event"] == "loop.blocked"]
    assert (line["worker"], line["case"]) == ("greedy", "bad-case")
    assert "busy" in line["at"]
    assert any("greedy" in frame for frame in line["frames"])
    assert line["seconds"] < 1 or blocked_for[0] > 1  # within a second, unless the machine was slow
    assert line["frames"][-1] == line["at"]


async def test_code_of_nobodys_that_blocks_is_named_by_its_place_and_said_again_while_it_lasts() -> None:
    d = CaseDefinition("d", goal="done", signals=["done"])
    with structlog.testing.capture_logs() as said:
        async with CaseHub(d, store=Kept()) as hub:
            busy(lambda: len(said) < 2)
            assert hub.runtime.watchdog.blocked == {"": 1}
            assert hub.runtime.watchdog.last is not None
    lines = [each for each in said if each["event"] == "loop.blocked"]
    assert [(line["worker"], line["case"]) for line in lines] == [("", "")] * 2
    assert lines[1]["seconds"] > 3 * lines[0]["seconds"]


async def test_a_watchdog_whose_log_cannot_be_written_watches_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*words: Any, **named: Any) -> None:
        raise OSError("the disk is full")

    watchdog = Watchdog(patience=0.3)
    monkeypatch.setattr("casehub.engine.watchdog.log", type("Log", (), {"error": fails}))
    watchdog.start()
    try:
        for n in range(2):
            busy(lambda n=n: watchdog.blocked.get("", 0) == n)  # type: ignore[misc]  # read at once
            await asyncio.sleep(0.2)
        busy(lambda: watchdog.blocked.get("", 0) < 2)
    finally:
        watchdog.stop()
    assert "the disk is full" in capsys.readouterr().err


# ---- threads


async def test_ten_sync_workers_that_block_hold_up_no_other_and_their_places_come_back() -> None:
    """S038."""
    gate, blocking = threading.Event(), threading.Semaphore(0)
    bad, good = CaseDefinition("bad", goal="done"), CaseDefinition("good", goal="done")

    @bad.worker(writes="done")
    def block(a: int) -> int:
        blocking.release()
        assert gate.wait(LONG)
        return a

    @good.worker(writes="half")
    async def first(a: int) -> int:
        return a

    @good.worker(writes="done")
    def second(half: int) -> int:
        return half

    executor = LocalExecutor(threads=4)
    async with CaseHub(bad, good, store=Kept(), executor=executor) as hub:
        blocked = [await hub.start(bad, a=n) for n in range(10)]
        for _ in range(4):
            await asyncio.to_thread(blocking.acquire)
        for n in range(50):
            assert (await (await hub.start(good, a=n)).completed())["done"] == n
        assert executor.threads.running == 4
        gate.set()
        for case in blocked:
            await case.completed()
        assert executor.threads.running == 0


async def test_a_thread_that_is_abandoned_gives_its_place_back_and_what_it_returns_late_is_refused() -> None:
    """S040. Past its time limit the work is done elsewhere, and one result counts."""
    begun, gate, runs = threading.Semaphore(0), threading.Event(), list[int]()
    clock, d = VirtualClock(), CaseDefinition("d", goal="done", signals=["note"])

    @d.worker(writes="done", timeout="30s", retry=Retry(2, wait="0s"))
    def work(a: int) -> int:
        runs.append(a)
        if len(runs) == 1:
            begun.release()
            assert gate.wait(LONG)
            return 99
        return a

    executor = LocalExecutor(threads=2)
    async with CaseHub(d, store=Kept(), clock=clock, executor=executor) as hub:
        case = await hub.start(d, a=1)
        await asyncio.to_thread(begun.acquire)
        await idle()
        with hub.watch(WorkerExecutionExpired, after=0) as events:
            clock.move("30s")
            await anext(events)
        assert executor.threads.abandoned == 1
        gate.set()
        await eventually(lambda: not executor.threads.abandoned)
        assert (await case.completed())["done"] == 1
        assert len(await case.log.query(WorkerExecutionCompleted)) == 1
    assert len(runs) == 2


async def test_an_async_worker_that_ignores_its_cancellation_and_ends_late_counts_as_expired() -> None:
    """S040."""
    clock, d, runs = VirtualClock(), CaseDefinition("d", goal="done"), list[int]()

    @d.worker(writes="done", timeout="30s", retry=Retry(2, wait="0s"))
    async def work(a: int) -> int:
        runs.append(a)
        if len(runs) == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                return 99
        return a

    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        case = await hub.start(d, a=1)
        await idle()
        for _ in range(3):
            clock.move("30s")
            await idle()
        assert (await case.completed())["done"] == 1
        assert len(await case.log.query(WorkerExecutionExpired)) == 1
        assert len(await case.log.query(WorkerExecutionCompleted)) == 1


async def test_a_sync_worker_all_of_whose_threads_hang_fails_and_does_not_wait_for_ever() -> None:
    """As many as may run at once are left behind, never more; another worker has a thread all the while."""
    gate = threading.Event()
    clock, bad, good = VirtualClock(), CaseDefinition("bad", goal="done"), CaseDefinition("good", goal="done")
    begun = threading.Semaphore(0)

    @bad.worker(writes="done", timeout="30s", retry=Retry(1))
    def hang(a: int) -> int:
        begun.release()
        assert gate.wait(LONG)
        return a

    @good.worker(writes="done")
    def work(a: int) -> int:
        return a

    executor = LocalExecutor(threads=2)
    async with CaseHub(bad, good, store=Kept(), clock=clock, executor=executor) as hub:
        for n in range(2):
            await hub.start(bad, a=n)
            await asyncio.to_thread(begun.acquire)
            await idle()
            with hub.watch(WorkerExecutionExpired) as events:
                clock.move("30s")
                await anext(events)
        assert executor.threads.abandoned == 2
        third = await hub.start(bad, a=3)
        await third.quiescent()
        (failed,) = await third.log.query(WorkerExecutionFailed)
        assert failed.error == "LimitError"
        assert "hang" in failed.message
        assert "have not come back" in failed.message
        assert (await (await hub.start(good, a=1)).completed())["done"] == 1
        gate.set()
        await eventually(lambda: not executor.threads.abandoned)
        assert (await (await hub.start(bad, a=4)).completed())["done"] == 4


def answers(value: int) -> Any:
    def function() -> int:
        return value

    return function


async def test_threads_are_bounded_and_each_function_has_one_in_any_event() -> None:
    threads, gate, most = Threads(3), threading.Event(), [0]
    lock, now = threading.Lock(), [0]

    def work() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        assert gate.wait(LONG)
        with lock:
            now[0] -= 1

    one, two = answers(1), answers(2)
    running = [asyncio.create_task(threads.run(one, work)) for _ in range(8)]
    await eventually(lambda: now[0] == 3)
    assert await threads.run(two, two) == 2
    assert (threads.running, threads.abandoned) == (3, 0)
    gate.set()
    await asyncio.gather(*running)
    assert most == [3]
    assert (threads.running, threads.abandoned, threads._lanes) == (0, 0, {})


async def test_who_is_cancelled_while_waiting_for_a_thread_takes_none() -> None:
    threads, gate, begun = Threads(1), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert gate.wait(LONG)

    one = answers(1)
    first = asyncio.create_task(threads.run(one, work))
    await eventually(begun.is_set)
    waiting = [asyncio.create_task(threads.run(one, one)) for _ in range(3)]
    await idle()
    waiting[1].cancel()
    await idle()
    gate.set()
    await first
    assert [await waiting[0], await waiting[2]] == [1, 1]
    with pytest.raises(asyncio.CancelledError):
        await waiting[1]
    assert threads._lanes == {}


async def test_who_is_cancelled_at_any_moment_leaves_no_thread_counted() -> None:
    """A thousand times, at moments that nobody chooses: before it begins, while it runs, as it ends."""
    threads, one = Threads(4), answers(1)
    tasks = [asyncio.create_task(threads.run(one, lambda: time.sleep(0.0002))) for _ in range(1_000)]
    for n, task in enumerate(tasks):
        if n % 3:
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait(tasks)
    await eventually(lambda: threads._lanes == {})
    assert threads.running == 0
    assert await threads.run(one, one) == 1


async def test_a_function_that_hangs_for_ever_is_refused_more_threads() -> None:
    threads, gate, begun = Threads(1), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert gate.wait(LONG)

    one = answers(1)
    first = asyncio.create_task(threads.run(one, work))
    await eventually(begun.is_set)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(LimitError, match="have not come back"):
        await threads.run(one, one)
    gate.set()
    await eventually(lambda: not threads.abandoned)
    assert await threads.run(one, one) == 1
