"""W3: durable chains of twenty steps on SQLite, 1, 10 and 100 cases at once: each step is on disk before the next begins.

The engine writes four events a step. The limit is a bare writer thread that groups whatever waits into one transaction
of four rows a step; beside it stands what is usually written first, a transaction for each step.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from benchmarks.measure import Plan, Run, Sample, Table, interleaved, measured, table_of
from benchmarks.shapes import CHAIN20
from casehub import CaseHub

ONE_BY_ONE = "a transaction a step, in the loop"
GROUPS = "writer thread, groups of 4 rows a step (limit)"
ENGINE = "casehub"
STEPS_A_SECOND = "SQLite {mode}: steps a second"
COST = "SQLite {mode}: CPU time a step"

MODES = ("NORMAL", "FULL")
AT_ONCE = (1, 10, 100)
STEPS = CHAIN20.steps
ROWS = 4
"""Rows a step: as many as the engine has events."""

Case = Callable[[int], Awaitable[None]]
Row = tuple[str, int, str, str]
_INSERT = "INSERT INTO event (case_id, version, type, body) VALUES (?, ?, ?, ?)"


def rows_of(case: int, step: int, value: int) -> list[Row]:
    return [
        (str(case), 4 * step + place, "STEP", json.dumps({"fact": f"k{step + 1}", "value": value, "by": f"s{step}"}))
        for place in range(ROWS)
    ]


def connect(path: Path, mode: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {mode}")
    database.execute("CREATE TABLE event (seq INTEGER PRIMARY KEY, case_id TEXT, version INT, type TEXT, body TEXT)")
    return database


def check(path: Path, cases: int) -> None:
    """Every step of every case is in the file."""
    database = sqlite3.connect(path)
    found = database.execute("SELECT count(*), count(DISTINCT case_id) FROM event").fetchone()
    database.close()
    assert found == (cases * STEPS * ROWS, cases)


class GroupingThread:
    """Writes whatever waits as one transaction, and tells the loop once a transaction."""

    def __init__(self, path: Path, mode: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Row] = []
        self._written: asyncio.Future[None] | None = None
        self._waiting: SimpleQueue[tuple[list[Row], asyncio.Future[None]] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, args=(path, mode))
        self._thread.start()

    def write(self, rows: list[Row]) -> asyncio.Future[None]:
        self._gathered += rows
        if self._written is None:
            self._written = self._loop.create_future()
            self._loop.call_soon(self._hand_over)
        return self._written

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _hand_over(self) -> None:
        rows, written = self._gathered, self._written
        self._gathered, self._written = [], None
        assert written is not None
        self._waiting.put((rows, written))

    def _run(self, path: Path, mode: str) -> None:
        database = connect(path, mode)
        while (first := self._waiting.get()) is not None:
            group = [first]
            while True:
                try:
                    more = self._waiting.get_nowait()
                except Empty:
                    break
                if more is None:
                    self._waiting.put(None)
                    break
                group.append(more)
            database.execute("BEGIN IMMEDIATE")
            for rows, _ in group:
                database.executemany(_INSERT, rows)
            database.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._tell, [written for _, written in group])
        database.close()

    @staticmethod
    def _tell(group: Sequence[asyncio.Future[None]]) -> None:
        for written in group:
            written.set_result(None)


async def increment(value: int) -> int:
    return value + 1


@asynccontextmanager
async def one_by_one(folder: Path, mode: str) -> AsyncIterator[Case]:
    path = folder / "steps.db"
    database = connect(path, mode)
    cases = 0

    async def case(number: int) -> None:
        nonlocal cases
        value = 0
        for step in range(STEPS):
            value = await increment(value)
            database.execute("BEGIN IMMEDIATE")
            database.executemany(_INSERT, rows_of(number, step, value))
            database.execute("COMMIT")
            await asyncio.sleep(0)
        assert value == STEPS
        cases += 1

    yield case
    database.close()
    check(path, cases)


@asynccontextmanager
async def groups(folder: Path, mode: str) -> AsyncIterator[Case]:
    path = folder / "steps.db"
    thread = GroupingThread(path, mode)
    cases = 0

    async def case(number: int) -> None:
        nonlocal cases
        value = 0
        for step in range(STEPS):
            value = await increment(value)
            await thread.write(rows_of(number, step, value))
        assert value == STEPS
        cases += 1

    yield case
    thread.close()
    check(path, cases)


def engine(folder: Path, mode: str) -> AbstractAsyncContextManager[Case]:
    return hub_on(f"sqlite:///{folder / 'cases.db'}?synchronous={mode}")


@asynccontextmanager
async def hub_on(store: str) -> AsyncIterator[Case]:
    """Works chains in a store that nothing else is in."""
    definition = CHAIN20.definition()
    cases = 0
    async with CaseHub(definition, store=store) as hub:

        async def case(number: int) -> None:
            nonlocal cases
            name, value = CHAIN20.given(number)
            started = await hub.start(definition, **{name: value})
            context = await started.completed()
            name, value = CHAIN20.expected(number)
            assert context[name] == value
            cases += 1

        yield case
        assert await hub.log.position() == cases * CHAIN20.events


Peer = Callable[[Path, str], AbstractAsyncContextManager[Case]]
PEERS: dict[str, Peer] = {ONE_BY_ONE: one_by_one, GROUPS: groups, ENGINE: engine}


async def chains(peer: Peer, mode: str, at_once: int, repetitions: int) -> Sample:
    """So many cases for each of those at once, one after the other."""
    numbers = itertools.count()

    async def work(run: Case, cases: int) -> None:
        for _ in range(cases):
            await run(next(numbers))

    with tempfile.TemporaryDirectory(prefix="casehub-w3-") as folder:
        async with peer(Path(folder), mode) as run:
            await work(run, 1)
            with measured(at_once * repetitions * STEPS) as sample:
                await asyncio.gather(*[work(run, repetitions) for _ in range(at_once)])
    return sample


async def run(plan: Plan) -> Sequence[Table]:
    tables = []
    for mode in MODES:
        runs: dict[tuple[str, str], Run] = {
            (name, f"{at_once} at once"): partial(chains, peer, mode, at_once)
            for at_once in AT_ONCE
            for name, peer in PEERS.items()
            if not plan.quick or name != ONE_BY_ONE or at_once == 1  # it is no faster for many, and takes long
        }
        samples = await interleaved(plan, runs, probe=1, most=1_000)
        rate, cost = STEPS_A_SECOND.format(mode=mode), COST.format(mode=mode)
        tables += [
            table_of("W3", rate, "/s", "more", GROUPS, samples, lambda each: each.per_second),
            table_of("W3", cost, "us", "less", GROUPS, samples, lambda each: each.cpu_us),
        ]
    return tables
