"""What runs beside the cases: no task vanishes, and no exception does."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from casehub import CaseCompleted, CaseDefinition, CaseHub, TimerFired, after
from casehub.adapters.clock import VirtualClock
from casehub.adapters.memory import MemoryStore
from casehub.bus import Subscription
from casehub.checkpoints import Checkpoints
from casehub.engine.timers import TimerWheel
from casehub.events import Event
from casehub.family import Ear
from casehub.residents import Residents
from tests.staging import Kept, idle


def failing(function: Callable[..., Any], times: int = 2) -> Callable[..., Any]:
    """A function that raises what nobody expects, so many times."""
    left = [times]

    async def fails(*arguments: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise KeyError("a mistake that the test put there")
        return await function(*arguments, **options)

    return fails


def family_of() -> CaseDefinition:
    child = CaseDefinition("child", goal="made", signals=["make"])

    @child.worker(writes="made")
    async def make_it(make: int) -> int:
        return make

    d = CaseDefinition("d", goal="done", signals=["a"])

    @d.worker(writes="late", on=after("1h"))
    async def late(a: int) -> int:
        return a

    @d.sub_case(child, writes="parts", takes="made")
    def delegated(a: int) -> dict[str, Any]:
        return {"make": a}

    @d.worker(writes="done")
    async def work(late: int, parts: int) -> int:
        return late + parts

    return d


PLACES: dict[str, tuple[type[Any], str]] = {
    "timers, looking": (TimerWheel, "_bring"),
    "timers, delivering": (Residents, "timer_due"),
    "subscriber note": (Subscription, "batch"),
    "subscriber casehub:families": (Ear, "hand_on"),
    "checkpoints": (Checkpoints, "run"),
    "resumption": (Residents, "resume"),
}
"""A place in each of the tasks that a hub has beside its cases."""


@pytest.mark.parametrize("place", PLACES)
async def test_a_mistake_in_a_task_beside_the_cases_is_said_and_counted_and_the_task_begins_again(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, method = PLACES[place]
    monkeypatch.setattr(kind, method, failing(getattr(kind, method)))
    clock, d, heard = VirtualClock(), family_of(), list[str]()
    with structlog.testing.capture_logs() as said:
        async with CaseHub(d, store=Kept(), clock=clock) as hub:

            @hub.on(CaseCompleted)
            async def note(event: CaseCompleted) -> None:
                heard.append(event.definition)

            case = await hub.start(d, a=1)
            for _ in range(200):
                clock.move("1m")
                await idle()
            assert (await case.completed())["done"] == 2
            assert len(await case.log.query(TimerFired)) == 1
            faults = hub.runtime.faults
    assert sorted(heard) == ["child", "d"] or (place == "subscriber note" and set(heard) <= {"child", "d"})
    lines = [each for each in said if each["event"] == "background.failed"]
    assert len(lines) == 2
    assert sum(faults.values()) == 2
    assert all(place.startswith(task) or task.startswith("subscriber") for task in faults)
    assert all(each["again_in"] <= 2 for each in lines)


async def test_a_live_subscriber_that_is_begun_again_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    d, heard, clock = CaseDefinition("d", goal="a", signals=["a", "b"]), list[int](), VirtualClock()
    batch, broken = Subscription.batch, [False]

    async def fails(self: Any) -> Any:
        if broken[0]:
            raise KeyError("a mistake that the test put there")
        return await batch(self)

    monkeypatch.setattr(Subscription, "batch", fails)
    with structlog.testing.capture_logs():
        async with CaseHub(d, store=Kept(), clock=clock) as hub:

            @hub.on(Event)
            async def note(event: Event) -> None:
                heard.append(event.seq)

            case = await hub.start(d)
            await idle()
            broken[0] = True
            for n in range(10):
                await case.signal(b=n)
                await idle()
            broken[0] = False
            await case.signal(a=1)
            for _ in range(10):
                clock.move("30s")
                await idle()
            assert heard == list(range(1, await hub.log.position() + 1))


async def test_a_mistake_of_a_store_where_nobody_expects_one_ends_no_hub() -> None:
    class Odd(Kept):
        def __init__(self) -> None:
            super().__init__(MemoryStore())
            self.times = 3

        async def due(self, now: Any, limit: int = 100) -> Any:
            if self.times:
                self.times -= 1
                raise ZeroDivisionError
            return await super().due(now, limit)

    clock, d, store = VirtualClock(), CaseDefinition("d", goal="b"), Odd()

    @d.worker(writes="b", on=after("1m"))
    async def work(a: int) -> int:
        return a

    with structlog.testing.capture_logs() as said:
        async with CaseHub(d, store=store, clock=clock) as hub:
            case = await hub.start(d, a=1)
            for _ in range(30):
                clock.move("10s")
                await idle()
            assert (await case.completed())["b"] == 1
    assert [each["task"] for each in said if each["event"] == "background.failed"] == ["timers"] * 3


async def test_what_a_hub_runs_survives_the_garbage_collector(tmp_path: Path) -> None:
    """S076. Hundreds of workers beside each other, while it collects all the time."""
    d, over = CaseDefinition("d", goal="b"), threading.Event()

    @d.worker(writes="b")
    async def work(a: int) -> int:
        for _ in range(3):
            await asyncio.sleep(0.001)
        return a

    def collect() -> None:
        while not over.wait(0.01):
            gc.collect()

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        async with CaseHub(d, store=f"sqlite:///{tmp_path / 'c.db'}") as hub:
            cases = [await hub.start(d, a=n) for n in range(300)]
            for n, case in enumerate(cases):
                assert (await case.completed())["b"] == n
    finally:
        over.set()
        collector.join()
