"""W2: a case from its start to its end, in memory, with the event log and three subscribers of all events."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from benchmarks.loops import IndexedLoop, NaiveLoop
from benchmarks.measure import Plan, Run, Sample, Table, interleaved, measured, table_of, until
from benchmarks.shapes import CHAIN3, SHAPES, Shape
from casehub import CaseHub, Event
from casehub.adapters.memory import MemoryStore

NAIVE = "naive loop (sync, no events)"
INDEXED = "indexed async loop (limit)"
ENGINE = "casehub, log and 3 subscribers"
ALONE = "casehub, log, no subscriber"
COST = "CPU time a step"


class Listener:
    """A subscriber that looks at every event and counts."""

    def __init__(self) -> None:
        self.heard = 0
        self.last = ""

    async def hear(self, event: Event) -> None:
        self.heard += 1
        self.last = event.name


async def naive(shape: Shape, cases: int) -> Sample:
    loop = NaiveLoop(shape)
    loop.run(0)
    with measured(cases * shape.steps) as sample:
        for number in range(cases):
            loop.run(number)
    return sample


async def indexed(shape: Shape, cases: int) -> Sample:
    loop = IndexedLoop(shape)
    await loop.run(0)
    with measured(cases * shape.steps) as sample:
        for number in range(cases):
            await loop.run(number)
    return sample


async def engine(shape: Shape, cases: int, subscribers: int = 3) -> Sample:
    """Cases one after the other, as `start` and `completed`; the last event has reached everybody when it ends."""
    definition = shape.definition()
    listeners = [Listener() for _ in range(subscribers)]
    warm_up = 3
    async with CaseHub(definition) as hub:
        for listener in listeners:
            hub.on(Event)(listener.hear)
        await asyncio.sleep(0)  # the subscribers take their places

        async def run(numbers: range) -> None:
            for number in numbers:
                name, value = shape.given(number)
                case = await hub.start(definition, **{name: value})
                context = await case.completed()
                name, value = shape.expected(number)
                assert context[name] == value, dict(context)

        expected = (warm_up + cases) * shape.events
        await run(range(warm_up))
        with measured(cases * shape.steps) as sample:
            await run(range(cases))
            await until(lambda: all(listener.heard >= expected for listener in listeners))
        assert await hub.log.position() == expected
        assert all(listener.heard == expected for listener in listeners)
        assert all(listener.last == "CASE_COMPLETED" for listener in listeners)
    return sample


async def kept(shape: Shape = CHAIN3, cases: int = 2_000) -> float:
    """Bytes that a finished case keeps in memory when the hub has been left: its log, in the memory store."""
    definition = shape.definition()
    store = MemoryStore()

    async def run(numbers: range) -> None:
        async with CaseHub(definition, store=store) as hub:
            for number in numbers:
                name, value = shape.given(number)
                await (await hub.start(definition, **{name: value})).completed()

    await run(range(50))
    gc.collect()
    tracemalloc.start()
    try:
        await run(range(cases))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / cases
    finally:
        tracemalloc.stop()


async def run(plan: Plan) -> Sequence[Table]:
    peers: dict[str, Callable[[Shape, int], Awaitable[Sample]]] = {
        NAIVE: naive,
        INDEXED: indexed,
        ENGINE: engine,
        ALONE: partial(engine, subscribers=0),
    }
    runs: dict[tuple[str, str], Run] = {
        (name, shape.name): partial(peer, shape) for shape in SHAPES for name, peer in peers.items()
    }
    samples = await interleaved(plan, runs)
    steps = {shape.name: shape.steps for shape in SHAPES}
    cost = table_of("W2", COST, "us", "less", NAIVE, samples, lambda sample: sample.cpu_us)
    rate = Table("W2", "cases in a second of wall time", "cases/s", "more", NAIVE)
    for (peer, shape), found in samples.items():
        rate.add(peer, shape, [sample.per_second / steps[shape] for sample in found])
    if not plan.quick:
        cost.notes.append(f"a finished case of chain3 keeps {await kept() / 1000:.1f} kB in the memory store")
    return [cost, rate]
