"""Measuring on a machine that others use too: interleaved rounds, medians, ratios within a round, CPU beside wall time."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

Better = Literal["less", "more"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured. `seconds`: what one sample should take; `rounds`: samples of each figure."""

    quick: bool = False
    rounds: int = 5
    seconds: float = 0.4


QUICK = Plan(quick=True, rounds=3, seconds=0.08)
FULL = Plan()


@dataclass(slots=True)
class Sample:
    """What a stretch of work took. `units`: how much work it was, filled in by whoever did it."""

    units: float = 0.0
    cpu: float = 0.0
    wall: float = 0.0

    @property
    def cpu_us(self) -> float:
        """CPU time a unit, in microseconds, of all threads of this process."""
        return 1e6 * self.cpu / self.units

    @property
    def per_second(self) -> float:
        """Units in a second of wall time."""
        return self.units / self.wall

    @property
    def per_cpu_second(self) -> float:
        """Units in a second of CPU time."""
        return self.units / self.cpu


@contextmanager
def measured(units: float = 0.0) -> Iterator[Sample]:
    """Take the times of a block, with what lay around collected before."""
    sample = Sample(units)
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield sample
    finally:
        sample.cpu = time.process_time() - cpu
        sample.wall = time.perf_counter() - wall


Run = Callable[[int], Awaitable[Sample]]
"""Does that many repetitions of something and says what they took; what is wrong with the result raises."""


async def repetitions(run: Run, seconds: float, probe: int = 3, most: int = 100_000) -> int:
    """How many repetitions fit into so many seconds."""
    took = (await run(probe)).wall
    return max(probe, min(most, int(seconds * probe / max(took, 1e-9))))


async def interleaved(
    plan: Plan, runs: Mapping[Any, Run], *, probe: int = 3, most: int = 100_000
) -> dict[Any, list[Sample]]:
    """Samples of every run, a round of all of them at a time, each round beginning with another one."""
    number = {key: await repetitions(run, plan.seconds, probe, most) for key, run in runs.items()}
    samples: dict[Any, list[Sample]] = {key: [] for key in runs}
    keys = list(runs)
    for turn in range(plan.rounds):
        first = turn % len(keys)
        for key in (*keys[first:], *keys[:first]):
            samples[key].append(await runs[key](number[key]))
    return samples


async def until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    """Let the loop go round until something is so. Raises `TimeoutError` when it never is."""
    async with asyncio.timeout(seconds):
        while not done():  # noqa: ASYNC110 - an event for each subscriber would be measured too
            await asyncio.sleep(0)


@dataclass(slots=True)
class Table:
    """Figures of one measure: peers in rows, shapes or sizes in columns, the rounds' values in each cell.

    `reference`: the peer that the others are compared with, round by round; `better` says which way is good.
    """

    benchmark: str
    measure: str
    unit: str
    better: Better
    reference: str
    notes: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, peer: str, column: str, values: Sequence[float]) -> None:
        self.cells.setdefault(peer, {})[column] = list(values)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column for row in self.cells.values() for column in row))

    def value(self, peer: str, column: str) -> float:
        """The median over the rounds."""
        return median(self.cells[peer][column])

    def ratio(self, peer: str, column: str) -> float | None:
        """The median of the rounds' ratios to the reference; None where there is no reference."""
        mine, theirs = self.cells[peer].get(column), self.cells.get(self.reference, {}).get(column)
        if not mine or not theirs:
            return None
        return median(one / other for one, other in zip(mine, theirs, strict=False))


@dataclass(slots=True)
class Skipped:
    """A benchmark that could not run here, and why."""

    benchmark: str
    reason: str


def table_of(
    benchmark: str,
    measure: str,
    unit: str,
    better: Better,
    reference: str,
    samples: Mapping[tuple[str, str], Sequence[Sample]],
    figure: Callable[[Sample], float],
) -> Table:
    """A table from samples by peer and column."""
    table = Table(benchmark, measure, unit, better, reference)
    for (peer, column), found in samples.items():
        table.add(peer, column, [figure(sample) for sample in found])
    return table
