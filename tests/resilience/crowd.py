"""A crowd of waiting cases in a store, and what a hub over it costs: run as a program, so that its memory is its own.

`python -m tests.resilience.crowd PATH COUNT` starts COUNT cases in an empty SQLite file; with `open` for COUNT it opens
the file again. Either wakes cases of every kind, and says on one line of JSON what that came to (MB, seconds, steps).
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from casehub import CaseDefinition, CaseHub, at
from casehub.adapters.clock import VirtualClock
from casehub.humantask import HumanTask
from casehub.query import EventQuery
from tests.staging import eventually, idle

TOGETHER = 250
"""Cases that are started at the same time."""
EACH = 20
"""Cases that are woken of each kind."""
BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
STEP = 100
"""Instructions of SQLite's machine between two counts."""


def crowd() -> CaseDefinition:
    """A definition of which each case waits for a signal, a time, a person or a sub-case, as its fact says."""
    child = CaseDefinition("child", goal="made", signals=["make"])
    d = CaseDefinition("crowd", goal="done", signals=["go", "moment", "ask", "delegate"])

    @child.worker(writes="made")
    async def make_it(make: int) -> int:
        return make

    @d.worker(writes="done")
    async def signalled(go: int) -> int:
        return go

    @d.worker(writes="done", on=at("moment"))
    async def timed(moment: str) -> int:
        return 1

    @d.human_task(writes="done")
    def answered(ask: str) -> HumanTask[int]:
        return HumanTask(ask, int)

    @d.sub_case(child, writes="done", takes="made")
    def delegated(delegate: int) -> dict[str, Any]:
        return {}

    return d


def memory() -> float:
    """What this process has of the machine's memory, in MB."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1_024


@contextmanager
def counted_steps() -> Iterator[list[int]]:
    """Counts what SQLite does, in steps of its virtual machine, over all connections made meanwhile."""
    steps, connect = [0], sqlite3.connect

    def step() -> None:
        steps[0] += STEP

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_progress_handler(step, STEP)
        return connection

    sqlite3.connect = counting  # type: ignore[assignment]  # for a while
    try:
        yield steps
    finally:
        sqlite3.connect = connect


async def timed(waking: Any) -> tuple[float, float]:
    """Seconds that it takes, and those of processor time that this process, with all its threads, has meanwhile."""
    begun, busy = time.perf_counter(), time.process_time()
    await waking
    return time.perf_counter() - begun, time.process_time() - busy


async def wakings(hub: CaseHub, clock: VirtualClock, some: list[str]) -> dict[str, list[tuple[float, float]]]:
    """How long cases that have left memory take from what wakes them to what follows from it, by what wakes them."""
    took: dict[str, list[tuple[float, float]]] = {"signal": [], "timer": [], "task": [], "child": []}
    for case in some:
        took["signal"].append(await timed(hub.case(case).signal(go=1)))
    for n in range(EACH):
        kinds: dict[str, Any] = {"moment": (clock.now() + timedelta(hours=1)).isoformat(), "ask": "?", "delegate": 1}
        ids = {name: f"{name}-{time.time_ns()}-{n}" for name in kinds}
        for name, value in kinds.items():
            await hub.start("crowd", {name: value}, case_id=ids[name])
        waiting = hub.case(f"{ids['delegate']}/delegated/1")
        await eventually(partial(hub.store.load, waiting.id))
        await leave(hub, clock)
        took["child"].append(await timed(asyncio.gather(waiting.signal(make=1), hub.case(ids["delegate"]).completed())))
        await leave(hub, clock)
        took["task"].append(await timed(hub.tasks.complete(f"{ids['ask']}/answered/1", 1, by="user:ada")))
        await leave(hub, clock)
        with hub.watch(case=ids["moment"]) as events:
            clock.move("1h")
            took["timer"].append(await timed(anext(events)))
    return took


async def leave(hub: CaseHub, clock: VirtualClock) -> None:
    """Let cases rest for so long that they leave memory."""
    for _ in range(1_000):
        if not hub._residents_now.resident:
            return
        await asyncio.sleep(0.001)
        clock.move("1m")
    raise AssertionError(f"{hub._residents_now.resident} cases do not leave")


async def fill(path: str, count: int) -> dict[str, Any]:
    d, clock = crowd(), VirtualClock(BEGAN)
    async with CaseHub(d, store=f"sqlite:///{path}", clock=clock) as hub:
        await (await hub.start(d, go=1)).completed()
        before = memory()
        for begin in range(0, count, TOGETHER):
            numbers = range(begin, min(begin + TOGETHER, count))
            await asyncio.gather(*(hub.start(d, case_id=f"c{n}") for n in numbers))
        crowded, resident = memory(), hub._residents_now.resident
        await leave(hub, clock)
        return {"grown": crowded - before, "resident": resident, "grown_later": memory() - before}


async def reopen(path: str) -> dict[str, Any]:
    d = crowd()
    async with CaseHub(d, store=f"sqlite:///{path}-empty", clock=VirtualClock(BEGAN)) as hub:
        await (await hub.start(d, go=1)).completed()
        before = memory()
    clock = VirtualClock(BEGAN + timedelta(days=1))
    with counted_steps() as steps:
        begun = time.perf_counter()
        async with CaseHub(d, store=f"sqlite:///{path}", clock=clock) as hub:
            opened = time.perf_counter() - begun
            await idle()
            resident, started = hub._residents_now.resident, steps[0]
            grown = memory() - before
            counts = await hub.log.count(EventQuery(types=("CASE_STARTED",)), "name")
            some = random.Random(1).sample(range(sum(counts.values()) - 1), EACH)
            took = await wakings(hub, clock, [f"c{n}" for n in some])
            return {
                "grown": grown, "grown_later": memory() - before, "opened": opened, "steps": started,
                "resident": resident, "woken": took,
            }  # fmt: skip


if __name__ == "__main__":
    _, path, count = sys.argv
    said = asyncio.run(reopen(path) if count == "open" else fill(path, int(count)))
    sys.stdout.write(json.dumps(said))
