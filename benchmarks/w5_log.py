"""W5: questions to the event log while it grows from ten thousand to a million events, on SQLite.

Cases of twenty kinds, twenty events each, by fifty workers. Asked through the async API, as a strategy asks: the last
five cases of a kind, and how often each worker's output changed the context in the hundred cases that started last.
The limit is a bare table with the two indexes that these questions want, asked in the caller's thread.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from benchmarks.measure import Plan, Run, Sample, Table, interleaved, measured, table_of
from benchmarks.shapes import CHAIN3
from casehub import (
    ActivationId,
    CaseCompleted,
    CaseHub,
    CaseId,
    CaseLog,
    CaseStarted,
    CaseStatus,
    ContextChanged,
    Envelope,
    Event,
    Turn,
    WorkerExecutionCompleted,
    WorkerExecutionStarted,
)
from casehub.adapters.sqlite import SQLiteStore

LIMIT = "bare SQLite, own thread (limit)"
ENGINE = "casehub, async API"

LAST = "last 5 cases of a kind"
CHANGES = "changes by worker, last 100 cases"
EVENTS_A_CASE = 20
STEPS_A_CASE = 6
KIND = "type7"
CASES = 100
BATCH = 100
"""Cases written in one transaction when a log is made."""

Answer = tuple[list[str], dict[str, int]]
Ask = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Made:
    """One case of the made-up log: what it is and who wrote in it."""

    id: str
    kind: str
    workers: tuple[str, ...]


def made(events: int) -> Iterator[Made]:
    chance = random.Random(1)
    for number in range(events // EVENTS_A_CASE):
        workers = tuple(f"w{chance.randrange(50)}" for _ in range(STEPS_A_CASE))
        yield Made(f"case-{number}", f"type{chance.randrange(20)}", workers)


def truth(events: int) -> Answer:
    """What the two questions are to be answered with: cases of the kind, latest first, and changes by worker."""
    cases = list(made(events))
    latest = [case.id for case in reversed(cases) if case.kind == KIND][:5]
    return latest, dict(Counter(worker for case in cases[-CASES:] for worker in case.workers))


def turn_of(case: Made, number: int) -> Turn:
    at = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    envelope = Envelope(case=CaseId(case.id), definition=case.kind, turn=1, at=at)
    events: list[Event] = [CaseStarted()]
    for step, worker in enumerate(case.workers):
        activation = ActivationId(f"{case.id}/{worker}/{step}")
        by = f"worker:{worker}"
        events += [
            WorkerExecutionStarted(binding=worker, activation=activation, worker=worker, attempt=1),
            WorkerExecutionCompleted(binding=worker, activation=activation, worker=worker, attempt=1, by=by),
            ContextChanged(facts={f"k{step}": "x" * 60}, binding=worker, by=by),
        ]
    events.append(CaseCompleted(before=CaseStatus.RUNNING, reason="goal"))
    for version, event in enumerate(events, 1):
        event.envelope, event.version = envelope, version
    return Turn(envelope, events, CaseStatus.COMPLETED)


async def write_log(path: Path, events: int) -> float:
    """Make a log through the store's own commits; events a second."""
    store = SQLiteStore(path, synchronous="NORMAL")
    await store.open(lambda turns: None)
    began = time.perf_counter()
    numbered = enumerate(made(events))
    while batch := [turn_of(case, number) for number, case in islice(numbered, BATCH)]:
        await store.commit(batch)
    took = time.perf_counter() - began
    await store.close()
    return events / took


def write_bare(path: Path, events: int) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(
        "CREATE TABLE event (seq INTEGER PRIMARY KEY, run INT, kind TEXT, type TEXT, worker TEXT, body TEXT)"
    )
    database.execute("BEGIN")
    body = '{"value": "' + "x" * 60 + '"}'
    database.executemany(
        "INSERT INTO event (run, kind, type, worker, body) VALUES (?, ?, ?, ?, ?)",
        (
            (run, case.kind, type, worker, body)
            for run, case in enumerate(made(events))
            for type, worker in (
                ("CASE_STARTED", None),
                *(
                    (type, worker)
                    for worker in case.workers
                    for type in ("WORKER_EXECUTION_STARTED", "WORKER_EXECUTION_COMPLETED", "CONTEXT_CHANGED")
                ),
                ("CASE_COMPLETED", None),
            )
        ),
    )
    database.execute("CREATE INDEX event_by_run ON event (run, type, worker)")
    database.execute("CREATE INDEX starts_by_kind ON event (kind, seq) WHERE type = 'CASE_STARTED'")
    database.execute("CREATE INDEX starts ON event (seq) WHERE type = 'CASE_STARTED'")
    database.execute("COMMIT")
    database.execute("ANALYZE")
    database.close()


@asynccontextmanager
async def bare(folder: Path, events: int) -> AsyncIterator[tuple[Ask, Ask]]:
    path = folder / f"bare{events}.db"
    database = sqlite3.connect(path, isolation_level=None)

    async def last() -> list[str]:
        found = database.execute(
            "SELECT run FROM event WHERE type = 'CASE_STARTED' AND kind = ? ORDER BY seq DESC LIMIT 5", (KIND,)
        )
        return [f"case-{run}" for (run,) in found]

    async def changes() -> dict[str, int]:
        found = database.execute(
            "WITH last AS (SELECT run FROM event WHERE type = 'CASE_STARTED' ORDER BY seq DESC LIMIT ?) "
            "SELECT e.worker, count(*) FROM last CROSS JOIN event AS e ON e.run = last.run "
            "WHERE e.type = 'CONTEXT_CHANGED' GROUP BY e.worker",
            (CASES,),
        )
        return dict(found.fetchall())

    yield last, changes
    database.close()


@asynccontextmanager
async def engine(folder: Path, events: int) -> AsyncIterator[tuple[Ask, Ask]]:
    async with CaseHub(CHAIN3.definition(), store=f"sqlite:///{folder / f'log{events}.db'}") as hub:
        log = CaseLog(hub.log, CaseId("case-0"), KIND)

        async def last() -> list[str]:
            return [summary.case for summary in await log.cases(last=5)]

        async def changes() -> dict[str, int]:
            return dict(await log.count(ContextChanged, by="binding", across="all", cases=CASES))

        yield last, changes


async def latency(ask: Ask, expected: object, repetitions: int) -> Sample:
    """One question after the other; `wall` is the median answer's, times their number."""
    assert await ask() == expected
    took = []
    with measured(repetitions) as sample:
        for _ in range(repetitions):
            began = time.perf_counter()
            await ask()
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0)
    sample.wall = median(took) * repetitions
    return sample


async def run(plan: Plan) -> Sequence[Table]:
    sizes = (10_000, 100_000) if plan.quick else (10_000, 100_000, 1_000_000)
    tables: list[Table] = []
    with tempfile.TemporaryDirectory(prefix="casehub-w5-") as name:
        folder = Path(name)
        rates = []
        for events in sizes:
            rates.append(await write_log(folder / f"log{events}.db", events))
            await asyncio.to_thread(write_bare, folder / f"bare{events}.db", events)
        for place, question in enumerate((LAST, CHANGES)):
            runs: dict[tuple[str, str], Run] = {}
            async with _opened(folder, sizes) as asked:
                for (peer, events), asks in asked.items():
                    runs[peer, f"{events:,} events"] = partial(latency, asks[place], truth(events)[place])
                samples = await interleaved(plan, runs, probe=20, most=3_000)
            table = table_of("W5", question, "us", "less", LIMIT, samples, lambda each: 1e6 * each.wall / each.units)
            first, most = (table.value(ENGINE, f"{events:,} events") for events in (sizes[0], sizes[-1]))
            table.notes.append(f"flatness, {sizes[-1]:,} events against {sizes[0]:,}: {most / first:.2f}")
            tables.append(table)
    tables[0].notes.append(f"the log of {sizes[-1]:,} events was written with {rates[-1]:,.0f} events/s")
    return tables


@asynccontextmanager
async def _opened(folder: Path, sizes: Sequence[int]) -> AsyncIterator[dict[tuple[str, int], tuple[Ask, Ask]]]:
    """Every log of every peer, open at once."""
    async with AsyncExitStack() as stack:
        asked: dict[tuple[str, int], tuple[Ask, Ask]] = {}
        for events in sizes:
            asked[LIMIT, events] = await stack.enter_async_context(bare(folder, events))
            asked[ENGINE, events] = await stack.enter_async_context(engine(folder, events))
        yield asked
