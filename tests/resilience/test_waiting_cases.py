"""Cases that wait cost disk and no memory: they leave after a while, start-up does not read them, and any of them wakes."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from casehub import CaseDefinition, CaseHub, CaseStatus, WorkerExecution
from casehub.adapters.clock import VirtualClock
from casehub.humantask import HumanTask
from tests.resilience.crowd import crowd, leave
from tests.staging import Kept, eventually, idle

ROOT = Path(__file__).parents[2]


def resident(hub: CaseHub) -> int:
    return hub._residents_now.resident


@pytest.mark.parametrize(("linger", "stays", "leaves"), [("1m", "59s", "1s"), ("2h", "119m", "1m")])
async def test_a_case_that_waits_leaves_memory_when_its_time_is_over(linger: str, stays: str, leaves: str) -> None:
    clock, d = VirtualClock(), crowd()
    async with CaseHub(d, store=Kept(), clock=clock, linger=linger) as hub:
        case = await hub.start(d)
        assert await case.status() is CaseStatus.WAITING
        clock.move(stays)
        await idle()
        assert resident(hub) == 1
        clock.move(leaves)
        await idle()
        assert resident(hub) == 0
        assert (await case.signal(go=5))["done"] == 5


async def test_a_case_that_is_at_work_or_waited_for_stays() -> None:
    clock, d = VirtualClock(), CaseDefinition("d", goal="done", signals=["go"])
    gate = asyncio.Event()

    @d.worker(writes="done")
    async def work(go: int) -> int:
        await gate.wait()
        return go

    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        working, awaited = await hub.start(d, go=1), await hub.start(d)
        waiting = asyncio.create_task(awaited.completed())
        await idle()
        clock.move("1h")
        await idle()
        assert resident(hub) == 2
        gate.set()
        await working.completed()
        await awaited.signal(go=2)
        assert (await waiting)["done"] == 2
        clock.move("1h")
        await idle()
        assert resident(hub) == 0


async def test_each_case_leaves_when_its_own_time_is_over() -> None:
    clock, d = VirtualClock(), crowd()
    async with CaseHub(d, store=Kept(), clock=clock, linger="1m") as hub:
        left = []
        for _ in range(4):
            await hub.start(d)
            clock.move("20s")
            await idle()
            left.append(resident(hub))
        assert left == [1, 2, 2, 2]
        clock.move("1m")
        await idle()
        assert resident(hub) == 0


async def test_too_many_that_wait_leave_at_once() -> None:
    clock, d = VirtualClock(), crowd()
    async with CaseHub(d, store=Kept(), clock=clock, resident=3) as hub:
        for _ in range(10):
            await hub.start(d)
        assert resident(hub) <= 4


async def test_a_worker_that_waits_for_people_does_not_lose_its_place_to_time() -> None:
    """S022. It would run again from its top; a crowd of them still leaves, as memory is bounded."""
    clock, d, runs = VirtualClock(), CaseDefinition("d", goal="done", signals=["other"]), list[str]()

    @d.worker(writes="done")
    async def ask(name: str, execution: WorkerExecution) -> int:
        runs.append(name)
        return await execution.ask(HumanTask(name, int))

    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        case = await hub.start(d, name="x", case_id="c")
        await idle()
        for n in range(5):
            clock.move("1h")
            await case.signal(other=n)
        await hub.tasks.complete("c/ask/1/ask-1", 7, by="user:ada")
        assert (await case.completed())["done"] == 7
    assert runs == ["x"]


async def test_what_a_suspended_coroutine_cleans_up_is_done_in_its_own_case_and_writes_nothing() -> None:
    """S037. A case leaves memory under a worker that waits for people: its `finally` runs, and what it returns is void."""
    d, cleaned = CaseDefinition("d", goal="done"), list[tuple[str, str]]()

    @d.worker(writes="done")
    async def ask(name: str, execution: WorkerExecution) -> int:
        try:
            return await execution.ask(HumanTask(name, int))
        finally:
            cleaned.append((name, execution.activation.split("/")[0]))

    store = Kept()
    async with CaseHub(d, store=store, clock=VirtualClock(), resident=1) as hub:
        written = list[int]()
        for name in ("a", "b", "c"):
            await (await hub.start(d, name=name, case_id=name)).quiescent()
            written.append(len(await store.load(hub.case(name).id)))
        await idle()
        gc.collect()
        assert resident(hub) == 1
        assert cleaned == [("a", "a"), ("b", "b")]
        assert [len(await store.load(hub.case(name).id)) for name in ("a", "b", "c")] == written
        await hub.tasks.complete("a/ask/1/ask-1", 1, by="user:ada")
        assert (await hub.case("a").completed())["done"] == 1


async def test_any_case_that_has_left_wakes_by_a_signal_a_time_a_person_and_a_sub_case(tmp_path: Path) -> None:
    """S021. What had run before is not run again."""
    clock, d = VirtualClock(), crowd()
    async with CaseHub(d, store=f"sqlite:///{tmp_path / 'c.db'}", clock=clock) as hub:
        moment = "2030-01-01T00:00:00+00:00"
        signal = await hub.start(d)
        task = await hub.start(d, ask="how many?", case_id="task")
        timed = await hub.start(d, moment=moment)
        parent = await hub.start(d, delegate=1, case_id="parent")
        await eventually(partial(hub.store.load, hub.case("parent/delegated/1").id))
        await leave(hub, clock)
        await signal.signal(go=1)
        assert (await signal.completed())["done"] == 1
        await hub.tasks.complete("task/answered/1", 2, by="user:ada")
        assert (await task.completed())["done"] == 2
        await hub.case("parent/delegated/1").signal(make=3)
        assert (await parent.completed())["done"] == 3
        clock.move("36500d")
        assert (await timed.completed())["done"] == 1


# ---- crowds


def told(*words: str) -> Mapping[str, Any]:
    """What the program says of a crowd."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.resilience.crowd", *words],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=1_200,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    said: Mapping[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return said


def summary(count: int, filled: Mapping[str, Any], opened: Mapping[str, Any]) -> str:
    """What a crowd comes to, as the lines of a table."""
    lines = [
        f"| memory over an empty hub, {count:,} cases wait | {opened['grown']:.1f} MB |",
        f"| the same, of the hub that has started them | {filled['grown']:.1f} MB |",
        f"| opening the hub | {1e3 * opened['opened']:.0f} ms |",
    ]
    for name, wakened in opened["woken"].items():
        took, busy = (sorted(1e3 * each for each in one) for one in zip(*wakened, strict=True))
        lines.append(
            f"| waking one by a {name}: median, slowest, median of processor time "
            f"| {median(took):.1f} ms, {took[-1]:.1f} ms, {median(busy):.1f} ms |"
        )
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.chaos])])
def test_a_crowd_of_waiting_cases_costs_a_hub_neither_memory_nor_a_slower_start(count: int, tmp_path: Path) -> None:
    """20 MB at most over an empty hub, also for the hub that has started them; start-up reads none of them.

    What it comes to is printed: `pytest -s` shows it, and `docs/reliability.md` has it of a hundred thousand.
    """
    few, many = str(tmp_path / "few.db"), str(tmp_path / "many.db")
    told(few, "1000")
    filled = told(many, str(count))
    base, opened = told(few, "open"), told(many, "open")
    sys.stdout.write(summary(count, filled, opened))
    assert filled["grown"] <= 20
    assert filled["resident"] <= 1_001
    assert opened["grown"] <= 20
    assert opened["grown_later"] <= 20
    assert opened["resident"] == 0
    assert opened["steps"] <= base["steps"] + 1_000  # of SQLite's machine: to read a thousand rows takes more
    for wakened in opened["woken"].values():
        assert len(wakened) == 20
        took, busy = (median(each) for each in zip(*wakened, strict=True))
        assert busy < 0.05  # what it costs, whatever else the machine does
        assert took < 2  # with the disk, and with what others do: 50 ms where they do nothing
