"""What was reported of others and is to be right here: cancelling, retrying one thing, many that end at once."""

from __future__ import annotations

import asyncio

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.events import StageCompleted
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    CaseDefinition,
    CaseHub,
    CaseStatus,
    Limits,
    Retry,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerExecutionStarted,
)
from casehub.events import Event
from tests.staging import Kept, eventually, idle


async def test_cancelling_keeps_what_has_come_back_and_says_what_was_called_off(url: str) -> None:
    """S007. And so it is for the next process."""
    d = CaseDefinition("d", goal="both")

    @d.worker(writes="quick")
    async def fast(a: int) -> int:
        return a

    @d.worker(writes="never")
    async def slow(a: int) -> int:
        await asyncio.Event().wait()
        return a

    @d.worker(writes="both")
    async def join(quick: int, never: int) -> int:
        return quick + never

    async def used() -> None:
        async with CaseHub(d, store=url) as hub:
            case = await hub.start(d, a=1, case_id="c")
            await eventually(lambda: case.log.query(WorkerExecutionCompleted))
            await case.cancel()

    await used()
    async with CaseHub(d, store=url) as hub:
        case = hub.case("c")
        assert await case.status() is CaseStatus.CANCELLED
        assert (await case.context())["quick"] == 1
        assert [event.worker for event in await case.log.query(WorkerExecutionCancelled)] == ["slow"]


async def test_what_failed_is_tried_again_by_hand_and_nothing_else_with_it(url: str) -> None:
    """S029."""
    d, runs = CaseDefinition("d", goal="c", signals=["key"]), list[str]()

    @d.worker(writes="b")
    async def first(a: int) -> int:
        runs.append("first")
        return a

    @d.worker(writes="c", retry=Retry(1))
    async def second(b: int, key: str = "") -> int:
        runs.append("second")
        if not key:
            raise KeyError("key")
        return b

    async with CaseHub(d, store=url) as hub:
        await hub.start(d, a=1, case_id="c")
        await eventually(hub.dead_letters.list)
    async with CaseHub(d, store=url) as hub:
        (letter,) = await hub.dead_letters.list()
        await hub.dead_letters.retry(letter.id, {"key": "there"}, by="user:ada")
        assert (await hub.case("c").completed())["c"] == 1
    assert runs == ["first", "second", "second"]


async def test_a_long_worker_hears_at_once_that_its_case_is_cancelled() -> None:
    """S041. Without a heartbeat; how each of them ended stands in the log."""
    d, heard = CaseDefinition("d", goal="b", signals=["x"]), list[str]()

    @d.worker(writes="b")
    async def long(a: int) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise
        return a

    async with CaseHub(d, store=Kept()) as hub:
        cases = [await hub.start(d, a=n) for n in range(100)]
        await idle()
        for case in cases:
            await case.cancel()
            assert await case.status() is CaseStatus.CANCELLED
            assert len(await case.log.query(WorkerExecutionCancelled)) == 1
        assert heard == ["cancelled"] * 100
        assert hub.runtime.working == 0


async def test_fifty_workers_of_a_stage_that_end_at_once_complete_it_once(url: str) -> None:
    """S094. Nobody is run again for a conflict."""
    d, gate = CaseDefinition("d", goal="end", signals=["end"]), asyncio.Event()
    runs = list[str]()

    def add(name: str) -> None:
        @d.worker(name=name, writes=f"{name}_done")
        async def work(a: int) -> int:
            runs.append(name)
            await gate.wait()
            return a

    names = [f"w{n}" for n in range(50)]
    for name in names:
        add(name)
    d.stage("all", *names)
    async with CaseHub(d, store=url, loop=PlanningStrategyLoopControl(EverythingEligible())) as hub:
        case = await hub.start(d, a=1)
        await eventually(lambda: len(runs) == 50)
        gate.set()
        await eventually(lambda: case.log.query(StageCompleted))
        await case.signal(end=True)
        await case.completed()
        events = [event.name for event in await case.log.query(Event)]
        assert events.count("STAGE_COMPLETED") == 1
        assert events.count("WORKER_EXECUTION_COMPLETED") == 50
        assert len(await case.log.query(WorkerExecutionStarted)) == 50


async def test_one_case_that_does_one_thing_at_a_time_holds_up_no_other() -> None:
    """S096. A hundred of them, one by one, and fifty cases beside."""
    busy, other = CaseDefinition("busy", goal="w99_done", limits=Limits(concurrency=1)), CaseDefinition("o", goal="b")
    now, most = [0], [0]

    def add(name: str) -> None:
        @busy.worker(name=name, writes=f"{name}_done")
        async def work(a: int) -> int:
            now[0] += 1
            most[0] = max(most[0], now[0])
            await asyncio.sleep(0)
            now[0] -= 1
            return a

    for n in range(100):
        add(f"w{n}")

    @other.worker(writes="b")
    async def work(a: int) -> int:
        return a

    async with CaseHub(busy, other, store=Kept()) as hub:
        one = await hub.start(busy, a=1)
        for n in range(50):
            assert (await (await hub.start(other, a=n)).completed())["b"] == n
        await one.completed()
    assert most == [1]
