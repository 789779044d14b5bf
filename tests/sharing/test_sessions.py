"""The sessions of several hubs on one database: a caller is cancelled inside a transaction, they are ended again and again,
they are slow."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
import pytest
import structlog

from casehub import (
    CaseDefinition,
    CaseHub,
    CaseStarted,
    CaseStatus,
    SignalReceived,
    WorkerExecution,
    WorkerExecutionCompleted,
)
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.postgres.connection import Connection, Place
from casehub.events import CaseId
from casehub.query import EventQuery
from casehub.sharing import Elsewhere
from casehub.spi import Claim
from casehub.testing.event_logs import Writing, committed, opened
from tests.sharing.hubs import PATIENCE, Gate, frozen, hub, until
from tests.sharing.process import started

SOON: Final = 8.0
"""Seconds for what takes a moment: more than any machine needs, less than a session gets that does not answer."""
LATCH: Final = 77
"""The lock that a transaction waits for in its midst."""
PAUSE: Final = 2.0
"""Seconds from one recycling of all sessions to the next."""
SLOW: Final = 1.0
"""Seconds that a transaction takes which writes events."""
LONG: Final = 180.0
"""Seconds that something gets which takes half a minute."""
LEASE: Final = 2.0
"""Seconds, which workers outlast."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
def url(postgres_url: str) -> str:
    """A database whose sessions can be told from those of other tests."""
    return f"{postgres_url}&application_name=hubs{os.getpid()}"


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    """A session that is none of the hubs'."""
    connection = Connection(PostgresStore(postgres_url).place)
    yield connection
    connection.close()


def store_of(hub: CaseHub) -> PostgresStore:
    assert isinstance(hub.store, PostgresStore)
    return hub.store


def two_steps(work: Callable[[WorkerExecution], Awaitable[None]]) -> CaseDefinition:
    d = CaseDefinition("steps", goal="c", signals=["a"])

    @d.worker(writes="b")
    async def first(a: int, execution: WorkerExecution) -> int:
        await work(execution)
        return a

    @d.worker(writes="c")
    async def second(b: int, execution: WorkerExecution) -> int:
        await work(execution)
        return b

    return d


async def at_once(_: WorkerExecution) -> None:
    """A worker that has nothing to do."""


async def applied_once(hub: CaseHub, cases: int) -> None:
    """Every case has ended, each result is in the log once, and the log is whole."""
    found = await hub.cases(limit=10_000)
    assert Counter(each.status for each in found) == {CaseStatus.COMPLETED: cases}
    done = await hub.log.query(EventQuery(types=(WorkerExecutionCompleted.name,), limit=100_000))
    results = Counter(str(getattr(each, "activation", "")) for each in done)
    assert results == {f"{each.case}/{step}/1": 1 for each in found for step in ("first", "second")}
    assert [finding for finding in await store_of(hub).check() if finding.fault] == []


async def _ended(hub: CaseHub, number: int) -> bool:
    return len(await hub.cases(status=CaseStatus.COMPLETED, limit=10_000)) >= number


# ---- cancelled inside a transaction


@contextmanager
def latched(connection: Connection, trigger: str) -> Iterator[None]:
    """Transactions wait in their midst, with the locks they have, until this ends."""
    connection.run(
        f"CREATE FUNCTION latch() RETURNS trigger LANGUAGE plpgsql AS "
        f"'BEGIN PERFORM pg_advisory_xact_lock({LATCH}); RETURN NULL; END'"
    )
    connection.run(f"CREATE TRIGGER latch AFTER {trigger} EXECUTE FUNCTION latch()")
    connection.execute("SELECT pg_advisory_lock(?)", (LATCH,))
    try:
        yield
    finally:
        connection.execute("SELECT pg_advisory_unlock(?)", (LATCH,))


async def _inside(connection: Connection) -> bool:
    waiting = connection.execute(
        "SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid = ? AND NOT granted", (LATCH,)
    )
    return waiting.fetchone() is not None


async def cancelled_inside(connection: Connection, trigger: str, call: Callable[[], Awaitable[object]]) -> None:
    """Call something, and cancel it when its transaction is in its midst."""
    with latched(connection, trigger):
        task = asyncio.ensure_future(call())
        await until(lambda: _inside(connection))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert await _inside(connection), "the transaction has ended before its caller was cancelled"


async def test_who_is_cancelled_inside_a_commit_holds_up_no_other_hub(url: str, connection: Connection) -> None:
    """S080. The log and the row of the case are locked when it happens."""
    definition = two_steps(at_once)
    async with hub(url, definition, lease=60) as one, hub(url, definition, lease=60) as other:
        case = await one.start(definition, case_id="w")
        await cancelled_inside(connection, "INSERT ON events", lambda: case.signal(a=1, key="k"))
        async with asyncio.timeout(SOON):
            assert (await (await other.start(definition, a=2)).completed())["c"] == 2
            assert (await other.case("w").completed())["c"] == 1  # what was asked for is done all the same
        assert len(await case.log.query(SignalReceived)) == 1
        await applied_once(one, 2)


async def test_a_store_ends_the_commit_of_who_is_cancelled_inside_it(url: str, connection: Connection) -> None:
    """S080. Nothing that it has locked stays so."""
    one, other = (PostgresStore(f"{url}&lease=60") for _ in range(2))
    async with opened(one), opened(other):
        turn = Writing("c1").turn(CaseStarted())
        await cancelled_inside(connection, "INSERT ON events", lambda: one.commit([turn]))
        async with asyncio.timeout(SOON):
            await committed(other, Writing("c2").turn(CaseStarted()))
            await one.release(CaseId("c1"), Claim(one.hub))
            assert await other.claim(CaseId("c1")) == Claim(other.hub, 1)


async def test_who_is_cancelled_inside_a_claim_leaves_the_case_to_the_other_hub(
    url: str, connection: Connection
) -> None:
    """S080. Nobody hears what was claimed: it is given back."""
    definition = two_steps(at_once)
    async with hub(url, definition, lease=60) as one:
        await one.start(definition, case_id="w")
    async with hub(url, definition, lease=60) as one, hub(url, definition, lease=60) as other:
        await cancelled_inside(connection, "UPDATE OF owner ON cases", lambda: one.case("w").signal(a=1))
        async with asyncio.timeout(SOON):
            await until(lambda: _is_free(other, "w"))
            assert (await other.case("w").signal(a=7))["a"] == 7
            assert (await other.case("w").completed())["c"] == 7
        assert one._residents_now.resident == 0  # type: ignore[reportPrivateUsage]  # what it has
        await applied_once(one, 1)


async def test_who_is_cancelled_while_a_case_is_read_leaves_it_to_the_other_hub(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S080. It had been claimed."""
    definition, reading = two_steps(at_once), asyncio.Event()

    async def load(case: CaseId, tenant: str = "default") -> Sequence[object]:
        reading.set()
        await asyncio.Event().wait()
        return []

    async with hub(url, definition, lease=60) as one:
        await one.start(definition, case_id="w")
    async with hub(url, definition, lease=60) as one, hub(url, definition, lease=60) as other:
        monkeypatch.setattr(one.store, "load", load)
        task = asyncio.ensure_future(one.case("w").signal(a=1))
        await asyncio.wait_for(reading.wait(), PATIENCE)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        monkeypatch.undo()
        async with asyncio.timeout(SOON):
            await until(lambda: _is_free(other, "w"))
            assert (await other.case("w").signal(a=7))["a"] == 7


async def _is_free(hub: CaseHub, case: str) -> bool:
    """Whether a hub gets a case, which it then has."""
    claim = await store_of(hub).claim(CaseId(case))
    assert isinstance(claim, Claim | Elsewhere)
    return isinstance(claim, Claim)


# ---- ended again and again


def recycle(place: Place) -> int:
    """End every session of the hubs on the server; how many there were."""
    with psycopg.connect(place.url, application_name="the test", autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s",
            (f"hubs{os.getpid()}",),
        )
        return len(ended.fetchall())


async def recycled(url: str, times: int) -> None:
    """Two hubs at work whose sessions are all ended each two seconds; some cases are in a worker all the time."""
    gate, calls = Gate(), Counter[str]()

    async def work(execution: WorkerExecution) -> None:
        calls[execution.idempotency_key] += 1
        if execution.idempotency_key.startswith("held"):
            await gate.open.wait()

    definition = two_steps(work)
    number = ended = 0
    async with hub(url, definition) as one, hub(url, definition) as other:
        hubs = (one, other)
        boots = {store_of(each).hub for each in hubs}
        for turn in range(10):
            await started(hubs[turn % 2], definition, f"held{turn}", turn)
        for turn in range(times):
            began = time.monotonic()
            starting = [
                asyncio.ensure_future(started(each, definition, f"t{turn}-{index}-{of}", of))
                for index, each in enumerate(hubs)
                for of in range(5)
            ]
            number += len(starting)
            ended += await asyncio.to_thread(recycle, store_of(one).place)
            await asyncio.gather(*starting)
            await asyncio.sleep(max(0.0, began + PAUSE - time.monotonic()))
        gate.open.set()
        await until(lambda: _all_ended(one, number + 10), LONG)
        await applied_once(one, number + 10)
        if boots == {
            each.boot for each in await store_of(one).hubs()
        }:  # nobody was put out: each owner stayed the one it was
            assert set(calls.values()) == {1}
        assert sorted(calls) == sorted(f"{each.case}/{step}/1" for each in await one.cases(limit=10_000) for step in ("first", "second"))  # fmt: skip
    assert ended >= 2 * times


async def _all_ended(hub: CaseHub, number: int) -> bool:
    found = await hub.cases(limit=10_000)
    return len(found) == number and all(each.status.ended for each in found)


@pytest.mark.slow
async def test_hubs_whose_sessions_are_all_recycled_take_each_result_once(url: str) -> None:
    """S091."""
    await recycled(url, 4)


@pytest.mark.chaos
@pytest.mark.timeout(1_800)
async def test_hubs_whose_sessions_are_all_recycled_for_five_minutes_take_each_result_once(url: str) -> None:
    """S091."""
    await recycled(url, 150)


# ---- slow


@pytest.mark.slow
async def test_workers_and_commits_that_outlast_the_lease_are_applied_once(url: str, connection: Connection) -> None:
    """S093. One of two hubs stands still until the other has taken its cases over, and comes too late with each."""
    gate, calls = Gate(), Counter[str]()

    async def held(execution: WorkerExecution) -> None:
        calls[execution.idempotency_key] += 1
        await gate.wait(execution.idempotency_key)

    async def long(execution: WorkerExecution) -> None:
        calls[execution.idempotency_key] += 1
        await asyncio.sleep(1.25 * LEASE)

    definition, same = two_steps(held), two_steps(long)
    number = 10
    async with hub(url, definition, lease=LEASE) as one, hub(url, same, lease=LEASE) as other:
        hubs = {"a": (one, definition), "b": (other, same)}
        connection.run(
            f"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep({SLOW}); RETURN NULL; END'"
        )
        connection.run("CREATE TRIGGER slow AFTER INSERT ON events EXECUTE FUNCTION slow()")
        await asyncio.gather(
            *(started(*where, f"{name}{of}", of) for name, where in hubs.items() for of in range(number))
        )  # fmt: skip
        await until(lambda: _came(gate, number), LONG)
        boot = store_of(one).hub
        with frozen(one):
            await until(lambda: _second(calls, number), LONG)
            gate.open.set()  # what its workers bring was another hub's to do long since
            await until(lambda: _fenced(one), LONG)
        await until(lambda: _all_ended(other, 2 * number), LONG)
        assert store_of(one).hub != boot
        await applied_once(other, 2 * number)
    for of in range(number):
        assert calls[f"a{of}/first/1"] >= 2  # under one key
    assert len(calls) == 4 * number


async def _came(gate: Gate, number: int) -> bool:
    return len(gate.came) >= number


async def _second(calls: Counter[str], number: int) -> bool:
    return all(calls[f"a{of}/first/1"] >= 2 for of in range(number))


async def _fenced(hub: CaseHub) -> bool:
    return hub.runtime.standing is not None and hub.runtime.standing.fenced > 0
