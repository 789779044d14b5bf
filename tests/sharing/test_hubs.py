"""Several hubs on one database: who works a case, who takes it over, and what becomes of who comes too late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import pytest
import structlog

from casehub import (
    CaseDefinition,
    CaseElsewhereError,
    CaseExistsError,
    CaseHub,
    CaseStatus,
    Event,
    Retry,
    StoreUnavailableError,
    SubCaseStarted,
    WorkerExecution,
    WorkerExecutionCompleted,
    after,
)
from casehub.adapters.clock import SystemClock
from casehub.adapters.postgres import PostgresStore
from casehub.events import CaseId, TimerFired
from casehub.query import EventQuery
from tests.sharing.hubs import Gate, frozen, hub, moved, status_of, until

Said = list[structlog.typing.EventDict]


@pytest.fixture(autouse=True)
def said() -> Iterator[Said]:
    with structlog.testing.capture_logs() as said:
        yield said


def gated(gate: Gate) -> CaseDefinition:
    d = CaseDefinition("gated", goal="c", signals=["a"])

    @d.worker(writes="b")
    async def first(a: int, execution: WorkerExecution) -> int:
        await gate.wait(execution.idempotency_key)
        return a

    @d.worker(writes="c")
    async def second(b: int) -> int:
        return b

    return d


async def logged(hub: CaseHub, kind: type[Event], case: str | None = None) -> Sequence[Event]:
    return await hub.log.query(EventQuery(types=(kind.name,), case=None if case is None else CaseId(case)))


# ---- one at a time


async def test_each_hub_works_the_cases_that_it_starts(postgres_url: str) -> None:
    gate = Gate()
    definition = gated(gate)
    gate.open.set()
    async with hub(postgres_url, definition) as one, hub(postgres_url, definition) as other:
        cases = [await (one, other)[number % 2].start(definition, a=number) for number in range(20)]
        assert [(await case.completed("30s"))["c"] for case in cases] == list(range(20))
        waiting = await one.start(definition, case_id="w")
        with pytest.raises(CaseExistsError, match="'w' is there already"):
            await other.start(definition, case_id="w")
        assert await waiting.status() is CaseStatus.WAITING
        assert await other.case(cases[0].id).status() is CaseStatus.COMPLETED  # nobody has it any more
        assert len(await logged(one, WorkerExecutionCompleted)) == 40


async def test_of_two_hubs_that_start_a_case_under_one_id_one_does(postgres_url: str) -> None:
    definition = CaseDefinition("d", goal="b", signals=["a"])

    @definition.worker(writes="b")
    async def work(a: int) -> int:
        return a

    async with hub(postgres_url, definition) as one, hub(postgres_url, definition) as other:
        for number in range(20):
            found = await asyncio.gather(
                *(each.start(definition, case_id=f"c{number}") for each in (one, other)), return_exceptions=True
            )
            assert sorted(type(each).__name__ for each in found) == ["Case", "CaseExistsError"], found


async def test_a_case_that_leaves_memory_is_anybodys(postgres_url: str) -> None:
    gate = Gate()
    definition = gated(gate)
    gate.open.set()
    async with hub(postgres_url, definition, resident=1) as one, hub(postgres_url, definition) as other:
        first = await one.start(definition, case_id="first")
        await one.start(definition, case_id="second")  # there is room for one
        await moved(lambda: other.case("first").signal(a=7))
        assert (await other.case("first").completed("30s"))["c"] == 7
        assert await first.status() is CaseStatus.COMPLETED


# ---- taking over


async def test_what_a_hub_leaves_undone_is_taken_over_at_once(postgres_url: str) -> None:
    gate = Gate()
    definition = gated(gate)
    async with hub(postgres_url, definition, lease=60) as other:
        async with hub(postgres_url, definition, lease=60) as one:
            cases = [await one.start(definition, a=number) for number in range(5)]
            await until(lambda: _came(gate, 5))
        gate.open.set()
        for number, case in enumerate(cases):
            context = await moved(lambda case=case: other.case(case.id).completed("30s"))
            assert context["c"] == number
    assert sorted(gate.came) == sorted(2 * [f"{case.id}/first/1" for case in cases])


async def _came(gate: Gate, number: int) -> bool:
    return len(gate.came) >= number


async def test_a_frozen_hub_is_put_out_and_nothing_it_brings_is_taken_any_more(postgres_url: str, said: Said) -> None:
    gate, late = Gate(), Gate()
    definition, same = gated(gate), gated(late)
    late.open.set()
    async with hub(postgres_url, definition) as one:
        cases = [await one.start(definition, a=number) for number in range(5)]
        await until(lambda: _came(gate, 5))
        boot = one.store.hub if isinstance(one.store, PostgresStore) else ""
        async with hub(postgres_url, same) as other:
            with frozen(one):
                await until(lambda: _ended(other, 5))
                gate.open.set()  # its workers come back with results of long ago
                standing = one.runtime.standing
                assert standing is not None
                await until(lambda: _fenced(one))
                fenced = standing.fenced
            assert fenced >= 1
            assert await until(lambda: _joined_again(one, boot))
            for number, case in enumerate(cases):
                assert (await one.case(case.id).completed("30s"))["c"] == number
            started = await one.start(definition, a=99)  # it is a hub like any other again
            assert (await started.completed("30s"))["c"] == 99
        done = await logged(one, WorkerExecutionCompleted)
        assert sorted(str(getattr(each, "activation", "")) for each in done) == sorted(
            f"{case.id}/{binding}/1" for case in [*cases, started] for binding in ("first", "second")
        )
    events = [each["event"] for each in said]
    for expected in ("hub.put_out", "hub.put_out_by_others", "hub.joined_again"):
        assert expected in events


async def _ended(hub: CaseHub, number: int) -> bool:
    return len(await hub.cases(status=CaseStatus.COMPLETED)) >= number


async def _fenced(hub: CaseHub) -> bool:
    return hub.runtime.standing is not None and hub.runtime.standing.fenced > 0


async def _joined_again(hub: CaseHub, before: str) -> bool:
    store = hub.store
    return isinstance(store, PostgresStore) and store.held and store.hub != before


async def test_a_hub_whose_lease_has_lapsed_begins_nothing_until_it_is_renewed(postgres_url: str, said: Said) -> None:
    gate = Gate()
    definition = gated(gate)
    gate.open.set()
    async with hub(postgres_url, definition) as one:
        waiting = await one.start(definition, case_id="w")
        with frozen(one):
            await until(lambda: _lapsed(one, said))
            await waiting.signal(a=3)  # nobody has put it out: this is the only hub
            await asyncio.sleep(0.1)
            assert gate.came == []
        assert (await waiting.completed("30s"))["c"] == 3
        assert gate.came == ["w/first/1"]
    assert [each["event"] for each in said if "lapsed" in each["event"] or "regained" in each["event"]] == [
        "hub.lease_lapsed",
        "hub.lease_regained",
    ]


async def _lapsed(hub: CaseHub, said: Said) -> bool:
    assert hub.runtime.standing is not None
    return not hub.runtime.standing.held and any(each["event"] == "hub.lease_lapsed" for each in said)


async def test_whoever_waits_at_a_hub_that_is_put_out_hears_how_it_ends_elsewhere(postgres_url: str) -> None:
    gate, late = Gate(), Gate()
    late.open.set()
    async with hub(postgres_url, gated(gate)) as one:
        case = await one.start("gated", a=1)
        waiting = asyncio.ensure_future(case.completed("60s"))
        await until(lambda: _came(gate, 1))
        async with hub(postgres_url, gated(late)):
            with frozen(one):
                await until(lambda: _ended(one, 1))
        assert (await waiting)["c"] == 1
        assert one.runtime.standing is not None


class Skewed(SystemClock):
    """A wall clock that is wrong."""

    def __init__(self) -> None:
        self.wrong = timedelta()

    def now(self) -> datetime:
        return super().now() + self.wrong


async def renewed(hub: CaseHub, times: int) -> None:
    """Wait until a hub has renewed its lease so often: three times in its length."""
    store, last = hub.store, 0.0
    assert isinstance(store, PostgresStore)
    while times:
        (mine,) = [each for each in await store.hubs() if each.boot == store.hub]
        times -= mine.left > last + 0.05
        last = mine.left
        await asyncio.sleep(0.02)


async def test_a_worker_that_takes_longer_than_the_lease_runs_once_as_the_lease_is_renewed(postgres_url: str) -> None:
    """S056. What its hub does alone, whatever the worker does."""
    gate = Gate()
    d = gated(gate)
    async with hub(postgres_url, d) as one, hub(postgres_url, d) as other:
        case = await one.start(d, a=1)
        await until(lambda: _came(gate, 1))
        await renewed(one, 7)
        assert await status_of(other, case.id) == "RUNNING"
        gate.open.set()
        assert (await case.completed("30s"))["c"] == 1
        assert len(gate.came) == 1


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_hub_whose_wall_clock_is_set_keeps_its_lease_and_puts_nobody_out(
    postgres_url: str, said: Said, hours: int
) -> None:
    """S130. Leases are of the database's time, and what a hub makes of its own of the monotonic clock."""
    gate, clock = Gate(), Skewed()
    d = gated(gate)
    async with hub(postgres_url, d, clock=clock) as one, hub(postgres_url, d) as other:
        cases = [await each.start(d, a=1) for each in (one, other)]
        await until(lambda: _both(gate))
        clock.wrong = timedelta(hours=hours)
        await asyncio.gather(renewed(one, 4), renewed(other, 4))
        gate.open.set()
        for case in cases:
            await case.completed("30s")
        assert len(gate.came) == 2
        assert not [each for each in said if each["event"].startswith("hub.put_out")]


async def _both(gate: Gate) -> bool:
    return len(gate.came) == 2


async def test_a_hub_whose_task_is_cancelled_renews_no_lease_and_its_cases_are_free(postgres_url: str) -> None:
    """S072."""
    gate = Gate()
    d = gated(gate)
    started = asyncio.Event()

    async def serve() -> None:
        async with hub(postgres_url, d) as mine:
            await mine.start(d, case_id="c", a=1)
            started.set()
            await asyncio.Event().wait()

    async with hub(postgres_url, d) as other:
        serving = asyncio.create_task(serve())
        await started.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert isinstance(other.store, PostgresStore)
        assert [each.boot for each in await other.store.hubs()] == [other.store.hub]
        assert [thread.name for thread in threading.enumerate()].count("casehub-postgres-lease") == 1  # the other one's
        gate.open.set()
        assert (await moved(lambda: other.case("c").completed("30s")))["c"] == 1


async def test_a_hub_that_drains_takes_nothing_up_and_the_next_one_goes_on(postgres_url: str) -> None:
    gate = Gate()
    definition = gated(gate)
    async with hub(postgres_url, definition) as one:
        await one.start(definition, case_id="runs", a=1)
        await until(lambda: _came(gate, 1))
        async with hub(postgres_url, definition) as other:
            await other.start(definition, case_id="rests")
            draining = asyncio.ensure_future(one.drain("30s"))
            await until(lambda: _drains(other))
        with pytest.raises(CaseElsewhereError, match="the hub is being left; try again"):
            await one.case("rests").signal(a=2)
        gate.open.set()
        assert await draining
        async with hub(postgres_url, definition) as third:
            await third.case("rests").signal(a=2)
            assert (await third.case("rests").completed("30s"))["c"] == 2
            assert await status_of(third, "runs") == CaseStatus.RUNNING  # the first hub has it still
    async with hub(postgres_url, definition) as last:
        assert (await last.case("runs").completed("30s"))["c"] == 1


async def _drains(hub: CaseHub) -> bool:
    store = hub.store
    return isinstance(store, PostgresStore) and any(each.draining for each in await store.hubs())


async def test_a_case_is_not_worked_where_claiming_it_fails(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    definition = gated(gate)
    gate.open.set()
    async with hub(postgres_url, definition) as one:
        await one.start(definition, case_id="w")

    async def fail(*of: object, **how: object) -> None:
        raise StoreUnavailableError("claims fail")

    async with hub(postgres_url, definition) as other:
        monkeypatch.setattr(other.store, "claim", fail)
        with pytest.raises(StoreUnavailableError, match="claims fail"):
            await other.case("w").signal(a=1)
        assert other.runtime.standing is not None
        assert gate.came == []
        monkeypatch.undo()
        await other.case("w").signal(a=1)
        assert (await other.case("w").completed("30s"))["c"] == 1


# ---- time


async def test_timers_fire_once_whoever_has_the_case_and_when_nobody_has_it(postgres_url: str) -> None:
    definition = CaseDefinition("timed", goal="done", signals=["go"])

    @definition.worker(on=after(timedelta(seconds=1)), writes="done")
    async def finish() -> bool:
        return True

    async with hub(postgres_url, definition, resident=1) as one, hub(postgres_url, definition, resident=1) as other:
        cases = [await (one, other)[number % 2].start(definition) for number in range(10)]
        await until(lambda: _ended(one, 10))
        for case in cases:
            assert len(await logged(one, TimerFired, case.id)) == 1


# ---- hearing each other


async def test_events_of_other_hubs_reach_those_who_watch(postgres_url: str) -> None:
    gate = Gate()
    definition = gated(gate)
    gate.open.set()
    async with hub(postgres_url, definition) as one, hub(postgres_url, definition) as other:
        with one.watch(Event) as events:
            cases = [await (one, other)[number % 2].start(definition, a=number) for number in range(10)]
            for case in cases:
                await case.completed("30s")
            last = await one.log.position()
            seen: list[int] = []
            while not seen or seen[-1] < last:
                seen += [event.seq for event in await asyncio.wait_for(events.batch(), 30)]
        assert seen == list(range(seen[0], last + 1))
        assert seen[0] == 1


async def test_a_durable_subscriber_hears_at_one_hub_what_all_of_them_do_and_goes_on_at_another(
    postgres_url: str,
) -> None:
    gate = Gate()
    definition = gated(gate)
    gate.open.set()
    heard: list[tuple[str, int]] = []

    def listening(name: str) -> CaseHub:
        made = hub(postgres_url, definition)

        @made.on(WorkerExecutionCompleted, durable="pager")
        async def note(event: WorkerExecutionCompleted) -> None:
            heard.append((name, event.seq))

        return made

    async with listening("other") as other:
        async with listening("one") as one:
            for number in range(6):
                await (await (one, other)[number % 2].start(definition, a=number)).completed("30s")
            await until(lambda: _heard(heard, 12))
            assert len({name for name, _ in heard}) == 1
            await asyncio.sleep(0)
        await (await other.start(definition, a=7)).completed("30s")
        await until(lambda: _heard(heard, 14))
    async with hub(postgres_url, definition) as last:
        assert [seq for _, seq in heard] == [event.seq for event in await logged(last, WorkerExecutionCompleted)]


async def _heard(heard: Sequence[object], number: int) -> bool:
    return len(heard) >= number


async def test_what_ended_at_one_hub_and_goes_on_at_another_is_seen_at_the_first(postgres_url: str) -> None:
    definition = CaseDefinition("faulty", goal="b", signals=["a"])

    @definition.worker(writes="b", retry=Retry(1), on_exhausted="fault_case")
    async def work(a: int) -> int:
        if a < 0:
            raise ValueError("negative")
        return a

    async with hub(postgres_url, definition) as one, hub(postgres_url, definition) as other:
        case = await one.start(definition, case_id="c", a=-1)
        await until(lambda: _is(one, "c", CaseStatus.FAULTED))
        assert await case.status() is CaseStatus.FAULTED
        await other.case("c").unfault({"a": 1})
        assert (await other.case("c").completed("30s"))["b"] == 1

        async def seen() -> bool:
            return await case.status() is CaseStatus.COMPLETED

        assert await until(seen)


async def _is(hub: CaseHub, case: str, status: CaseStatus) -> bool:
    return await status_of(hub, case) == status


async def test_a_case_and_its_sub_cases_are_worked_at_whatever_hub_is_there(postgres_url: str) -> None:
    child = CaseDefinition("child", goal="twice")

    @child.worker(writes="twice")
    async def double(n: int) -> int:
        return 2 * n

    parent = CaseDefinition("parent", goal="total")

    @parent.sub_case(child, name="each", writes="parts", takes="twice")
    def each(numbers: list[int]) -> list[dict[str, int]]:
        return [{"n": n} for n in numbers]

    @parent.worker(writes="total")
    async def add(parts: list[int]) -> int:
        return sum(parts)

    async with hub(postgres_url, parent, child) as one:
        case = await one.start(parent, numbers=[1, 2, 3])
        assert (await case.completed("30s"))["total"] == 12
        async with hub(postgres_url, parent, child) as other:
            again = await other.start(
                parent, numbers=[4, 5]
            )  # the first hub follows the log for both: sub-cases are there
            assert (await again.completed("30s"))["total"] == 18
        assert len(await logged(one, SubCaseStarted)) == 5
