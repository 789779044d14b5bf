"""A store that is away, or does not answer: callers hear of it in time, nothing is lost or done twice, it mends by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import structlog

from casehub import (
    CaseDefinition,
    CaseHub,
    CaseStatus,
    ContextChanged,
    Event,
    WorkerExecutionCompleted,
    WorkerExecutionStarted,
    every,
)
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.postgres.connection import Connection, Place
from casehub.adapters.sqlite import SQLiteStore
from casehub.errors import CaseNotFoundError, FactsChangedError, StoreUnavailableError
from casehub.events import TimerFired
from casehub.query import EventQuery
from casehub.spi import CommitResult, TooLarge, Turn
from deploy.packages import MissingServiceError
from deploy.services import Postgres, private_postgres
from tests.staging import Kept, eventually, idle

SHORT = "100ms"
"""The patience of hubs here."""


@pytest.fixture(autouse=True)
def _quiet_logs() -> Any:
    with structlog.testing.capture_logs() as said:
        yield said


@pytest.fixture
def server(postgres: str) -> Iterator[Postgres]:
    """A server that the test may stop, kill and freeze, where there may be one at all."""
    try:
        with private_postgres(durable=True) as found:
            yield found
    except MissingServiceError as error:
        pytest.skip(f"no PostgreSQL: {error}")


def definition(runs: list[int]) -> CaseDefinition:
    d = CaseDefinition("d", goal="b", signals=["a", "note"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        runs.append(a)
        return a

    return d


class Hung(Kept):
    """A store that does not answer what is asked of it while `hangs` is set; what was asked is done when it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs: set[str] = set()
        self.refuses = False
        self.over = asyncio.Event()

    async def _wait(self, method: str) -> None:
        if method in self.hangs:
            await self.over.wait()

    def mend(self) -> None:
        self.hangs.clear()
        self.over.set()

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        await self._wait("commit")
        if self.refuses:
            return [TooLarge("CASE_STARTED", 2, 1) for _ in turns]
        return await super().commit(turns)

    async def load(self, case: Any, tenant: str = "default") -> Sequence[Event]:
        await self._wait("load")
        return await super().load(case, tenant)

    async def outcome(self, case: Any, key: str, tenant: str = "default") -> int | None:
        await self._wait("outcome")
        return await super().outcome(case, key, tenant)


async def test_who_waits_for_a_commit_that_hangs_is_told_in_time_and_what_was_posted_is_committed_later() -> None:
    """S009. The caller has 'unknown', asks again with the same key, and learns what became of it: once, not twice."""
    store, d = Hung(), definition([])
    async with CaseHub(d, store=store, patience=SHORT) as hub:
        case = await hub.start(d)
        store.hangs = {"commit"}
        with pytest.raises(StoreUnavailableError, match=r"has not answered for .* ask again with the same key="):
            await case.signal(note=1, key="k")
        with pytest.raises(StoreUnavailableError):
            await case.context()  # what is not committed is not shown
        store.mend()
        assert (await case.signal(note=1, key="k"))["note"] == 1
        assert len(await case.log.query(ContextChanged)) == 1
        assert hub.runtime.outage.waiting == 0


async def test_a_write_that_comes_late_does_not_undo_a_newer_one() -> None:
    """S009. What was posted is taken in its order; who asks again is answered, and who decides on what is no more, refused."""
    store, d = Hung(), definition([])
    async with CaseHub(d, store=store, patience=SHORT) as hub:
        case = await hub.start(d)
        seen = (await case.context()).version
        store.hangs = {"commit"}
        for note in (1, 2):
            with pytest.raises(StoreUnavailableError):
                await case.signal(note=note, key=f"k{note}")
        store.mend()
        assert (await case.signal(note=2, key="k2"))["note"] == 2
        assert (await case.signal(note=1, key="k1"))["note"] == 2
        with pytest.raises(FactsChangedError, match="'note'"):
            await case.signal(note=1, key="k3", expected=seen)
        assert [event.facts["note"] for event in await case.log.query(ContextChanged)] == [1, 2]


async def test_a_log_that_takes_long_is_waited_for_while_the_store_answers_other_questions() -> None:
    class Slow(Hung):
        """Has the log of a case once the hub has asked it something else, twice."""

        asked = 0

        async def position(self) -> int:
            self.asked += 1
            if self.asked > 2:
                self.mend()
            return await self.store.position()

        @property
        def log(self) -> Any:
            return SimpleNamespace(position=self.position, query=self.store.query)

    store, d = Slow(), definition([])
    async with CaseHub(d, store=store, patience=SHORT) as hub:
        await hub.start(d, case_id="c")
    async with CaseHub(d, store=store, patience=SHORT, resume=False) as hub:
        store.hangs, store.asked = {"load"}, 0
        assert await hub.case("c").status() is CaseStatus.WAITING
        assert store.asked == 3
        assert hub.runtime.outage.told == 0


@pytest.mark.parametrize("method", ["load", "outcome"])
async def test_who_asks_a_store_that_hangs_is_told_in_time(method: str) -> None:
    store, d = Hung(), definition([])
    async with CaseHub(d, store=store, patience=SHORT) as hub:
        case = await hub.start(d, case_id="c")
    async with CaseHub(d, store=store, patience=SHORT, resume=False) as hub:
        store.hangs = {method}
        with pytest.raises(StoreUnavailableError, match="has not answered"):
            await hub.case("c").signal(note=1, key="k")
        store.mend()
        assert (await hub.case("c").signal(note=1, key="k"))["note"] == 1
        assert case.id == "c"


async def test_a_start_whose_commit_hangs_says_that_it_is_unknown_and_happens_once() -> None:
    store, d = Hung(), definition([])
    async with CaseHub(d, store=store, patience=SHORT) as hub:
        store.hangs = {"commit"}
        with pytest.raises(StoreUnavailableError, match="whether case 'c' has started is unknown"):
            await hub.start(d, case_id="c", a=1)
        store.mend()
        assert (await hub.case("c").completed())["b"] == 1
        assert len(await hub.case("c").log.query(WorkerExecutionStarted)) == 1


async def test_a_patience_that_is_longer_waits_longer() -> None:
    store, d = Hung(), definition([])
    async with CaseHub(d, store=store, patience="1h") as hub:
        case = await hub.start(d)
        store.hangs = {"commit"}
        signalling = asyncio.create_task(case.signal(note=1))
        await asyncio.sleep(0.5)
        assert not signalling.done()
        store.mend()
        assert (await signalling)["note"] == 1


@pytest.mark.parametrize("method", ["commit", "outcome"])
async def test_who_asks_a_store_that_hangs_is_told_after_two_seconds_unless_the_hub_says_otherwise(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock in place of the machine's, as the machine is not the one to say how long a test takes."""
    store, d, loop = Hung(), definition([]), asyncio.get_running_loop()
    began = float(round(loop.time()) + 1)
    now = [began]
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d)
        await idle()
        with monkeypatch.context() as patched:
            patched.setattr("casehub.engine.outage.time", SimpleNamespace(monotonic=lambda: now[0]))
            patched.setattr(loop, "time", lambda: now[0])
            hub.runtime.outage._looked = now[0]
            store.hangs = {method}
            signalling = asyncio.create_task(case.signal(note=1, key="k"))
            await idle()
            told = list[float]()
            for _ in range(12):
                now[0] += 0.25
                hub.runtime.outage.look()  # as the hub does, several times a second
                await asyncio.sleep(0)
                await idle()
                if signalling.done():
                    told.append(now[0] - began)
            with pytest.raises(StoreUnavailableError, match=r"the store has not answered for 2 s"):
                await signalling
            assert min(told) == 2
            store.mend()
            await idle()
        assert (await case.signal(note=1, key="k"))["note"] == 1


async def test_who_waits_for_an_outcome_goes_on_waiting_while_the_store_is_away() -> None:
    store, d = Hung(), definition([])
    async with CaseHub(d, store=store, patience=SHORT) as hub:
        case = await hub.start(d)
        waiting = asyncio.create_task(case.completed())
        await idle()
        store.hangs = {"commit"}
        with pytest.raises(StoreUnavailableError):
            await case.signal(a=1)
        assert not waiting.done()
        store.mend()
        assert (await waiting)["b"] == 1


async def test_a_start_that_the_store_refuses_after_nobody_waits_any_more_leaves_nothing_in_memory() -> None:
    store, d = Hung(), definition([])
    async with CaseHub(d, store=store, patience=SHORT) as hub:
        store.hangs = {"commit"}
        with pytest.raises(StoreUnavailableError):
            await hub.start(d, case_id="c", a=1)
        store.refuses = True
        store.mend()
        await eventually(lambda: not hub._residents_now.resident)
        store.refuses = False
        with pytest.raises(CaseNotFoundError):
            await hub.case("c").context()
        assert (await (await hub.start(d, case_id="c", a=2)).completed())["b"] == 2


async def test_a_caller_who_is_cancelled_during_a_commit_finds_by_its_key_what_became_of_it(url: str) -> None:
    """S085. At any moment of it; and whoever writes next does."""
    d = definition([])
    async with CaseHub(d, store=url) as hub:
        case = await hub.start(d)
        for n in range(60):
            signalling = asyncio.create_task(case.signal(note=n, key=f"k{n}"))
            for _ in range(n % 20):
                await asyncio.sleep(0)
            signalling.cancel()
            with suppress(asyncio.CancelledError):
                await signalling
            assert (await case.signal(note=n, key=f"k{n}"))["note"] == n
        values = [event.facts["note"] for event in await case.log.query(ContextChanged)]
        assert values == list(range(60))


# ---- PostgreSQL


async def test_a_connection_that_was_closed_while_nothing_was_asked_costs_no_caller_an_error(postgres_url: str) -> None:
    """S011."""
    d, store = definition([]), PostgresStore(postgres_url)
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d)
        for n in range(5):
            await asyncio.to_thread(end_sessions, postgres_url)
            for m in range(20):
                assert (await case.signal(note=20 * n + m))["note"] == 20 * n + m
        values = [event.facts["note"] for event in await case.log.query(ContextChanged)]
        assert values == list(range(100))


def end_sessions(url: str) -> None:
    with psycopg.connect(url.split("?", maxsplit=1)[0], autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'casehub' AND datname = current_database()"
        )


async def outage(server: Postgres, down: Any, up: Any, seconds: float) -> None:
    """A hub at work while its server is away: what callers hear, and what is in the log when it is back."""
    runs: list[int] = []
    d = definition(runs)
    ticking = CaseDefinition("ticking", goal="never", external=["never"])

    @ticking.worker(writes="tick", on=every("1s"))
    async def tick(start: int) -> int:
        return 1

    async with CaseHub(d, ticking, store=PostgresStore(server.url)) as hub:
        clock = await hub.start(ticking, start=1)
        cases = [await hub.start(d) for _ in range(20)]
        await eventually(lambda: clock.log.query(TimerFired))
        down()
        slowest, refused = 0.0, 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for n, case in enumerate(cases):
                begun = time.monotonic()
                try:
                    async with asyncio.timeout(60):
                        await case.signal(a=n, key="a")
                except StoreUnavailableError:
                    refused += 1
                slowest = max(slowest, time.monotonic() - begun)
                if time.monotonic() > end:
                    break
        up()
        for n, case in enumerate(cases):
            await eventually(lambda case=case, n=n: acknowledged(case, n))  # type: ignore[misc]  # read at once
            assert (await case.completed())["b"] == n
            assert len(await case.log.query(WorkerExecutionCompleted)) == 1
            assert len(await case.log.query(WorkerExecutionStarted)) == 1
            versions = [event.version for event in await case.log.query(Event)]
            assert versions == list(range(1, len(versions) + 1))
        position = await hub.log.position()
        await eventually(lambda: after(hub, position))
        assert refused > 0
        assert slowest < 30  # two seconds, on a machine that does nothing else
    assert sorted(runs) == list(range(20))


async def acknowledged(case: Any, n: int) -> bool:
    try:
        await case.signal(a=n, key="a")
    except StoreUnavailableError:
        return False
    return True


async def after(hub: CaseHub, position: int) -> Any:
    """Timers that fired behind a position."""
    return await hub.log.query(EventQuery(types=("TIMER_FIRED",), after=position))


def freeze(server: Postgres) -> None:
    for pid in processes(server):
        os.kill(pid, signal.SIGSTOP)


def thaw(server: Postgres) -> None:
    for pid in processes(server):
        os.kill(pid, signal.SIGCONT)


def processes(server: Postgres) -> list[int]:
    """The server's process, and those that it has started."""
    assert server._process is not None
    found = [server._process.pid]
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, _, rest = status.read_text().partition(" (")
            if int(rest.rpartition(") ")[2].split()[1]) == server._process.pid:
                found.append(int(pid))
    return found


LONG = pytest.param(60.0, marks=[pytest.mark.slow, pytest.mark.chaos])


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4.0, LONG])
async def test_a_server_that_is_stopped_costs_callers_a_moment_and_nothing_else(
    server: Postgres, seconds: float
) -> None:
    """S034. Timers go on by themselves, too."""
    await outage(server, server.stop, server.start, seconds)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4.0, LONG])
async def test_a_server_that_is_killed_costs_callers_a_moment_and_nothing_else(
    server: Postgres, seconds: float
) -> None:
    await outage(server, lambda: server.stop(signal.SIGQUIT), server.start, seconds)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4.0, pytest.param(15.0, marks=pytest.mark.chaos), LONG])
async def test_a_server_that_is_frozen_costs_callers_a_moment_and_nothing_else(
    server: Postgres, seconds: float
) -> None:
    await outage(server, lambda: freeze(server), lambda: thaw(server), seconds)


async def test_a_server_that_is_there_and_says_nothing_is_not_waited_for(server: Postgres) -> None:
    connection = Connection(Place.of(server.url), silence=0.3)
    await asyncio.to_thread(connection.execute, "SELECT 1")
    freeze(server)
    try:
        with pytest.raises(Exception, match=r"the server has not answered for 0\.3 s"):
            await asyncio.to_thread(connection.execute, "SELECT 1")
    finally:
        thaw(server)
        connection.close()


async def test_sqlite_threads_and_files_are_at_their_start_after_openings_that_were_cancelled(tmp_path: Any) -> None:
    """S084."""
    store = SQLiteStore(tmp_path / "c.db")
    await store.open(lambda turns: None)
    await store.close()
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for n in range(200):
        opening = asyncio.create_task(store.open(lambda turns: None))
        for _ in range(n % 10):
            await asyncio.sleep(0)
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        await store.close()
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == files
