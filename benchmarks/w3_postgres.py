"""W3 on PostgreSQL: the same chains of twenty durable steps, each of them flushed to the server's disk (fsync on).

The limit is a bare session that copies whatever waits into one table, four rows a step, in one transaction.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread

import psycopg

from benchmarks.measure import Plan, Run, Sample, Skipped, Table, interleaved, measured, table_of
from benchmarks.w3_durable import AT_ONCE, STEPS, Case, Row, hub_on, increment, rows_of
from deploy.packages import MissingServiceError
from deploy.services import private_postgres

GROUPS = "one session, groups by COPY, 4 rows a step (limit)"
ENGINE = "casehub"
STEPS_A_SECOND = "PostgreSQL, fsync on: steps a second"
COST = "PostgreSQL, fsync on: CPU time of the client a step"

_schemas = itertools.count(1)
_Waiting = tuple[list[Row], "asyncio.Future[None]"]


class GroupingSession:
    """Copies whatever waits in one transaction, and tells the loop once a transaction."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = Thread(target=self._run, args=(url,))
        self._thread.start()

    def write(self, rows: list[Row]) -> asyncio.Future[None]:
        written: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((rows, written))
        return written

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _all(self) -> Iterator[_Waiting]:
        """What waits, but for the end."""
        entry = self._waiting.get()
        while entry is not None:
            yield entry
            try:
                entry = self._waiting.get_nowait()
            except Empty:
                return
        self._waiting.put(None)

    def _run(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS step")
            connection.execute(
                "CREATE TABLE step (seq bigserial PRIMARY KEY, case_id text, version int, type text, body text)"
            )
            while group := list(self._all()):
                connection.execute("BEGIN")
                with (
                    connection.cursor() as cursor,
                    cursor.copy("COPY step (case_id, version, type, body) FROM STDIN") as copy,
                ):
                    for rows, _ in group:
                        for row in rows:
                            copy.write_row(row)
                connection.execute("COMMIT")
                self._loop.call_soon_threadsafe(self._tell, [written for _, written in group])

    @staticmethod
    def _tell(group: Sequence[asyncio.Future[None]]) -> None:
        for written in group:
            written.set_result(None)


@asynccontextmanager
async def groups(url: str) -> AsyncIterator[Case]:
    session = GroupingSession(url)

    async def case(number: int) -> None:
        value = 0
        for step in range(STEPS):
            value = await increment(value)
            await session.write(rows_of(number, step, value))
        assert value == STEPS

    yield case
    session.close()


def engine(url: str) -> AbstractAsyncContextManager[Case]:
    return hub_on(f"{url}?schema=w3_{next(_schemas)}")


Peer = Callable[[str], AbstractAsyncContextManager[Case]]
PEERS: dict[str, Peer] = {GROUPS: groups, ENGINE: engine}


async def chains(url: str, peer: Peer, at_once: int, repetitions: int) -> Sample:
    """So many cases for each of those at once, one after the other."""
    numbers = itertools.count()

    async def work(run: Case, cases: int) -> None:
        for _ in range(cases):
            await run(next(numbers))

    async with peer(url) as run:
        await work(run, 1)
        with measured(at_once * repetitions * STEPS) as sample:
            await asyncio.gather(*[work(run, repetitions) for _ in range(at_once)])
    return sample


async def run(plan: Plan) -> Sequence[Table | Skipped]:
    try:
        with private_postgres(durable=True) as server:
            runs: dict[tuple[str, str], Run] = {
                (name, f"{at_once} at once"): partial(chains, server.url, peer, at_once)
                for at_once in AT_ONCE
                for name, peer in PEERS.items()
            }
            samples = await interleaved(plan, runs, probe=1, most=1_000)
    except MissingServiceError as error:
        return [Skipped("W3P", f"no PostgreSQL: {error}")]
    return [
        table_of("W3P", STEPS_A_SECOND, "/s", "more", GROUPS, samples, lambda each: each.per_second),
        table_of("W3P", COST, "us", "less", GROUPS, samples, lambda each: each.cpu_us),
    ]
