"""W9: what snapshots save, and what they cost.

A case of ten thousand and of a hundred thousand events is loaded, from its log alone and from a snapshot of its end; the log
is on SQLite, the snapshots in the same file. And a hundred cases at once start, wait for a signal and complete, without
snapshots and with some: in memory, in the same file, in Redis. Whatever is still to be written is waited for.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from benchmarks.measure import Plan, Run, Sample, Table, interleaved, measured, table_of
from casehub import (
    ActivationId,
    CaseDefinition,
    CaseHub,
    CaseId,
    CaseStarted,
    CaseStatus,
    CaseStatusChanged,
    ContextChanged,
    Envelope,
    Event,
    Limits,
    Turn,
    WorkerExecutionCompleted,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.adapters.memory_snapshots import MemorySnapshots
from casehub.adapters.sqlite import SQLiteStore
from casehub.spi import SnapshotStore

FOLDED = "from its log"
KEPT = "from a snapshot"
LOAD = "loading a case"
WAIT = "a case that waits once, CPU"
WAIT_WALL = "a case that waits once, wall time of 100 at once"
NONE = "no snapshots"
CASE = CaseId("long")
STEP = 4
"""Events of a step."""
TOGETHER = 100
"""Cases at once."""
REDIS = os.environ.get("CASEHUB_TEST_REDIS_URL", "")


def definition() -> CaseDefinition:
    waits = CaseDefinition("waits", goal="done", signals={"go": int}, limits=Limits(events=10**9))

    @waits.worker(writes="seen")
    async def see(start: int) -> int:
        return start

    @waits.worker(writes="done")
    async def end(seen: int, go: int) -> int:
        return go

    return waits


def turns(events: int) -> list[Turn]:
    """A case that has done one thing over and over, and waits."""
    made: list[Turn] = []
    at, version = datetime(2030, 1, 1, tzinfo=UTC), 1
    for number in range(1, events // 100 + 1):
        inside: list[Event] = [CaseStarted(), ContextChanged(facts={"start": 1})] if number == 1 else []
        for step in range((100 - len(inside)) // STEP):
            activation = ActivationId(f"{CASE}/see/{number * 100 + step}")
            inside += [
                WorkerScheduled(binding="see", worker="see", activation=activation, stamps={"start": 2}),
                WorkerExecutionStarted(binding="see", worker="see", activation=activation, attempt=1),
                WorkerExecutionCompleted(binding="see", worker="see", activation=activation, attempt=1),
                ContextChanged(facts={f"seen{step}": "x" * 60}, binding="see"),
            ]
        if number == events // 100:
            inside.append(CaseStatusChanged(before=CaseStatus.RUNNING, after=CaseStatus.WAITING))
        envelope = Envelope(
            case=CASE, definition="waits", turn=number, version=version, at=at + timedelta(seconds=number)
        )
        for event in inside:
            event.envelope, event.version = envelope, version
            version += 1
        made.append(Turn(envelope, inside, CaseStatus.WAITING))
    return made


@asynccontextmanager
async def loading(folder: Path, events: int, *, kept: bool) -> AsyncIterator[CaseHub]:
    """A hub over a long case, with a snapshot of it or without."""
    path = folder / f"{events}-{kept}.db"
    store = SQLiteStore(path, synchronous="NORMAL")
    await store.open(lambda turns: None)
    for turn in turns(events):
        await store.commit([turn])
    await store.close()
    url = f"sqlite:///{path}"
    hub = CaseHub(definition(), store=url, snapshots=url if kept else None, checkpoint=1, retention=None)
    async with hub:
        await hub.case(CASE).suspend()
        if kept:
            await hub.snapshots.flushed()
            assert hub.snapshots.saved == 1
        yield hub


async def load(hub: CaseHub, repetitions: int) -> Sample:
    residents = hub._residents_now
    with measured(repetitions) as sample:
        for _ in range(repetitions):
            residents._pumps.clear()
            assert await hub.case(CASE).status() is CaseStatus.SUSPENDED
    return sample


async def wait(folder: Path, snapshots: SnapshotStore | str | None, repetitions: int) -> Sample:
    """`TOGETHER` cases at a time, from start to completion, and all their snapshots."""
    waits = definition()
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        url = f"sqlite:///{inside}/cases.db?synchronous=NORMAL"
        kept = f"sqlite:///{inside}/cases.db" if snapshots == "same" else snapshots
        async with CaseHub(waits, store=url, snapshots=kept, retention=None) as hub:

            async def one() -> None:
                case = await hub.start(waits, start=1)
                await case.quiescent()
                await case.signal(go=2)
                await case.completed()

            with measured(repetitions * TOGETHER) as sample:
                for _ in range(repetitions):
                    await asyncio.gather(*(one() for _ in range(TOGETHER)))
                await hub.snapshots.flushed()
            assert hub.snapshots.saved + hub.snapshots.dropped > 0 or kept is None
            sample.units = repetitions * TOGETHER
    return sample


async def run(plan: Plan) -> Sequence[Table]:
    sizes = (10_000,) if plan.quick else (10_000, 100_000)
    with tempfile.TemporaryDirectory(prefix="casehub-w9-") as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            loads: dict[tuple[str, str], Run] = {}
            for events in sizes:
                for peer in (FOLDED, KEPT):
                    hub = await stack.enter_async_context(loading(folder, events, kept=peer == KEPT))
                    loads[peer, f"{events:,} events"] = partial(load, hub)
            samples = await interleaved(plan, loads, probe=1, most=300)
        figure = table_of("W9", LOAD, "us", "less", FOLDED, samples, lambda each: 1e6 * each.wall / each.units)
        peers: dict[str, SnapshotStore | str | None] = {
            NONE: None, "in memory": MemorySnapshots(), "in the same file": "same", **({"in Redis": REDIS} if REDIS else {})
        }  # fmt: skip
        waits: dict[tuple[str, str], Run] = {
            (peer, "SQLite, NORMAL"): partial(wait, folder, kept) for peer, kept in peers.items()
        }
        cost = await interleaved(plan, waits, probe=1, most=30)
    return [
        figure,
        table_of("W9", WAIT, "us", "less", NONE, cost, lambda each: each.cpu_us),
        table_of("W9", WAIT_WALL, "us", "less", NONE, cost, lambda each: 1e6 * each.wall / each.units),
    ]
