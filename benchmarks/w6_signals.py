"""W6: how long a signal takes while a strategy thinks.

A case takes signals one after the other, each waited for until it is in the log (memory store). Its strategy answers at
once, or takes a second for each answer, so that it thinks all the time; every signal changes what it is asked about. In
the second column the signals go to another case than the one whose strategy thinks.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median, quantiles

from benchmarks.measure import Plan, Table
from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl
from casehub import Answer, Binding, Case, CaseDefinition, CaseHub, CaseView, ChoreographyLoopControl, LoopControl

AT_ONCE = "a strategy that answers at once"
SLOW = "a strategy that takes a second"
CHOREOGRAPHY = "choreography, no strategy"
P99 = "p99 of a signal"
MEDIAN = "median of a signal"
COLUMNS = ("its own case", "another case")

THINKS = 1.0
"""Seconds that the slow strategy takes for an answer."""
SETTLES = 8
"""Rounds of the event loop between two signals."""

Key = tuple[str, str]
"""Peer and column."""


class Thinking:
    """Chooses nothing, after a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.asked += 1
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return ()


def definition() -> CaseDefinition:
    """A case that takes facts for ever, and a worker that would read them."""
    watched = CaseDefinition("watched", goal="end", signals={"fact": int, "end": int})

    @watched.worker(writes="seen", limit=10_000_000)
    async def look(fact: int) -> None: ...

    return watched


@asynccontextmanager
async def watching(peer: str, column: str) -> AsyncIterator[Case]:
    """The case that takes the signals, in a hub of its own, while the strategy of `column` thinks."""
    strategy = Thinking(THINKS if peer == SLOW else 0.0)
    loop: LoopControl = ChoreographyLoopControl() if peer == CHOREOGRAPHY else PlanningStrategyLoopControl(strategy)
    watched = definition()
    async with CaseHub(watched, loop=loop) as hub:
        thinking = await hub.start(watched)
        await thinking.signal(fact=-1)
        case = thinking if column == COLUMNS[0] else await hub.start(watched)
        yield case
        assert peer == CHOREOGRAPHY or strategy.asked > 0
        for each in {thinking, case}:
            await each.kill()


async def latencies(keys: Sequence[Key], signals: int) -> dict[Key, list[float]]:
    """Seconds that each of so many signals took; the peers take turns with every signal, so that all meet the same noise."""
    took: dict[Key, list[float]] = {key: [] for key in keys}
    async with AsyncExitStack() as stack:
        cases = {key: await stack.enter_async_context(watching(*key)) for key in keys}
        gc.collect()
        for number in range(signals):
            for key, case in cases.items():
                began = time.perf_counter()
                await case.signal(fact=number)
                took[key].append(time.perf_counter() - began)
                for _ in range(SETTLES):
                    await asyncio.sleep(0)  # what the signal led to is not the next one's
        for case in cases.values():
            assert (await case.context())["fact"] == signals - 1
    return took


def p99(took: Sequence[float]) -> float:
    """Microseconds that one signal in a hundred exceeds."""
    return 1e6 * quantiles(took, n=100)[-1]


async def run(plan: Plan) -> Sequence[Table]:
    signals = max(200, int(plan.seconds * 5_000))
    tables = [Table("W6", measure, "us", "less", AT_ONCE) for measure in (P99, MEDIAN)]
    keys = [(peer, column) for column in COLUMNS for peer in (AT_ONCE, SLOW, CHOREOGRAPHY)]
    found: list[dict[Key, list[float]]] = []
    for turn in range(plan.rounds):
        first = turn % len(keys)
        found.append(await latencies((*keys[first:], *keys[:first]), signals))
    for peer, column in keys:
        rounds = [took[peer, column] for took in found]
        tables[0].add(peer, column, [p99(took) for took in rounds])
        tables[1].add(peer, column, [1e6 * median(took) for took in rounds])
    return tables
