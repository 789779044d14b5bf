"""Time: durable timers and alarms on one injected clock, whatever the wall clock does and whoever is away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from casehub import (
    CaseDefinition,
    CaseHub,
    MilestoneSlaViolated,
    Retry,
    TimerFired,
    WorkerExecutionStarted,
    present,
)
from casehub.adapters.clock import SystemClock, VirtualClock
from casehub.adapters.memory import MemoryStore
from casehub.engine.timers import HORIZON, TimerWheel
from casehub.errors import StoreUnavailableError
from casehub.events import CaseId, Event
from casehub.spi import DueTimer
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle


def with_sla(span: str = "1h", name: str = "d") -> CaseDefinition:
    """A definition whose cases wait, and are late after a while."""
    d = CaseDefinition(name, goal="done", signals=["done", "note"])
    d.milestone("done in time", present("done"), sla=span)
    return d


async def violations(hub: CaseHub, case: str) -> int:
    return len(await hub.case(case).log.query(MilestoneSlaViolated))


async def test_a_timer_comes_due_at_its_time_and_is_stamped_with_it() -> None:
    d = with_sla()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        begun = kit.clock.now()
        await kit.advance("59m 59s")
        assert kit.events(case, TimerFired) == []
        await kit.advance("1s")
        fired = kit.events(case, TimerFired)[0]
        assert fired.at - begun == timedelta(hours=1)
        assert fired.by == "timer:sla:done in time"


async def test_timers_of_many_cases_come_due_in_their_order() -> None:
    d = with_sla()
    async with CaseTestKit(d) as kit:
        cases = []
        for _ in range(250):
            cases.append(await kit.start(d))
            await kit.advance("1s")
        await kit.advance("2h")
        late = [event.case for event in kit.events(None, MilestoneSlaViolated)]
        assert late == [case.id for case in cases]
        assert kit.hub.runtime.wheel.fired == 250


async def test_a_timer_that_is_set_later_and_due_earlier_comes_first() -> None:
    slow, quick = with_sla("10h", "slow"), with_sla("10m", "quick")
    async with CaseTestKit(slow, quick) as kit:
        await kit.start(slow)
        await kit.advance("1m")
        case = await kit.start(quick)
        begun = kit.clock.now()
        await kit.advance("1d")
        late = kit.events(None, MilestoneSlaViolated)
        assert [event.definition for event in late] == ["quick", "slow"]
        assert late[0].at - begun == timedelta(minutes=10)
        assert late[0].case == case.id


async def test_a_timer_outlives_the_hub_and_comes_due_while_none_is_open() -> None:
    store, clock, d = Kept(), VirtualClock(), with_sla()
    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.start(d, case_id="x")
    clock.move("2h")
    async with CaseHub(d, store=store, clock=clock) as hub:
        await idle()
        assert await violations(hub, "x") == 1


async def test_a_retry_outlives_the_hub() -> None:
    store, clock = Kept(), VirtualClock()
    attempts: list[int] = []
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", retry=Retry(3, wait="1m", maximum="1m", jitter=False))
    async def work(a: int) -> int:
        attempts.append(a)
        if len(attempts) < 2:
            raise OSError("away")
        return a

    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.start(d, case_id="x", a=1)
        await idle()
    clock.move("30s")
    async with CaseHub(d, store=store, clock=clock) as hub:
        await idle()
        assert len(attempts) == 1
        clock.move("30s")
        await idle()
        assert (await hub.case("x").context())["b"] == 1
        started = await hub.case("x").log.query(WorkerExecutionStarted)
        assert [event.attempt for event in started] == [1, 2]


async def test_a_timer_of_a_case_that_has_left_memory_brings_it_back() -> None:
    store, clock, d = Kept(), VirtualClock(), with_sla()
    async with CaseHub(d, store=store, clock=clock, resident=1) as hub:
        for number in range(20):
            await hub.start(d, case_id=f"x{number}")
        await idle()
        assert hub._residents_now.resident < 5
        clock.move("1h")
        await idle()
        assert sum([await violations(hub, f"x{number}") for number in range(20)]) == 20


async def test_a_step_of_the_wall_clock_changes_no_span_and_fires_nothing_twice() -> None:
    store, clock, d = Kept(), VirtualClock(), with_sla()
    attempts: list[float] = []
    tried = CaseDefinition("tried", goal="b")

    @tried.worker(writes="b", timeout="10m", retry=Retry(1))
    async def work(a: int) -> int:
        attempts.append(clock.monotonic())
        await clock.sleep("9m")
        return a

    async with CaseHub(d, tried, store=store, clock=clock) as hub:
        await hub.start(d, case_id="x")
        case = await hub.start(tried, a=1)
        await idle()
        for step in (timedelta(hours=-3), timedelta(hours=1), timedelta(hours=2)):
            clock.step(step)
            clock.move("1s")
            await idle()
        clock.move("9m")
        await idle()
        assert (await case.context())["b"] == 1  # its time limit counts what passed, not what the wall says
        clock.move("2h")
        await idle()
        assert await violations(hub, "x") == 1
        events = await hub.case("x").log.query(Event)
        assert [event.at for event in events] == sorted(event.at for event in events)


async def test_a_wall_clock_that_is_put_forward_is_noticed_within_the_horizon() -> None:
    store, clock, d = Kept(), VirtualClock(), with_sla()
    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.start(d, case_id="x")
        await idle()
        clock.step(timedelta(hours=2))
        clock.move(timedelta(seconds=HORIZON))
        await idle()
        assert await violations(hub, "x") == 1


async def test_a_timer_that_cannot_be_delivered_holds_no_other_back() -> None:
    store, clock = Kept(), VirtualClock()
    lost, good = with_sla("30m", "lost"), with_sla("1h", "good")
    async with CaseHub(lost, good, store=store, clock=clock) as hub:
        await hub.start(lost, case_id="lost")
        await hub.start(good, case_id="good")
    with structlog.testing.capture_logs() as said:
        async with CaseHub(good, store=store, clock=clock) as hub:
            await idle()
            clock.move("30m")
            await idle()
            clock.move("30m")
            await idle()
            assert await violations(hub, "good") == 1
    assert [entry["case"] for entry in said if entry["event"] == "timer.undeliverable"] == ["lost"]
    async with CaseHub(lost, good, store=store, clock=clock) as hub:
        await idle()
        assert await violations(hub, "lost") == 1


class Moody(Kept):
    """A store that is away for some calls."""

    away: frozenset[str] = frozenset()

    def _check(self, what: str) -> None:
        if what in self.away:
            raise StoreUnavailableError("away")

    async def due(self, now: Any, limit: int = 100) -> Sequence[DueTimer]:
        self._check("due")
        return await super().due(now, limit)

    async def next_due(self, *after: Any) -> Any:
        self._check("next_due")
        return await super().next_due(*after)

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        self._check("load")
        return await super().load(case, tenant)

    async def active(self) -> Sequence[tuple[str, CaseId]]:
        self._check("active")
        return await super().active()


@pytest.mark.parametrize("away", ["due", "next_due", "load"])
async def test_a_store_that_is_away_when_a_timer_comes_due_is_asked_again(away: str) -> None:
    store, clock, d = Moody(), VirtualClock(), with_sla()
    async with CaseHub(d, store=store, clock=clock, resident=1) as hub:
        for name in ("x", "y"):  # one of them leaves memory
            await hub.start(d, case_id=name)
        await idle()
        with structlog.testing.capture_logs():
            store.away = frozenset({away})
            clock.move("1h")
            await idle()
            clock.move("5s")
            await idle()
            store.away = frozenset()
            clock.move("5s")
            await idle()
        assert [await violations(hub, name) for name in ("x", "y")] == [1, 1]


@pytest.mark.parametrize("away", ["active", "load"])
async def test_a_store_that_is_away_when_a_hub_takes_up_its_cases_parks_none_of_them(away: str) -> None:
    store, clock = Moody(), VirtualClock()
    d = CaseDefinition("d", goal="b")
    gate = asyncio.Event()

    @d.worker(writes="b")
    async def work(a: int) -> int:
        await gate.wait()
        return a

    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.start(d, case_id="x", a=1)
        await idle()
    gate.set()
    store.away = frozenset({away})
    with structlog.testing.capture_logs():
        async with CaseHub(d, store=store, clock=clock) as hub:
            await idle()
            store.away = frozenset()
            clock.move("10s")
            await idle()
            assert not hub.parked
            assert (await hub.case("x").context())["b"] == 1


# ---- alarms


async def open_wheel() -> tuple[TimerWheel, VirtualClock]:
    store, clock = MemoryStore(), VirtualClock()
    await store.open(lambda turns: None)
    return TimerWheel(clock, store), clock


async def nobody(timer: DueTimer) -> None:
    raise AssertionError("no timer is set")


async def test_alarms_go_off_in_order_and_once() -> None:
    wheel, clock = await open_wheel()
    rang: list[str] = []
    turning = asyncio.create_task(wheel.run(nobody))
    await idle()
    for name, seconds in (("late", 5.0), ("soon", 1.0), ("middle", 3.0), ("never", 4.0)):
        alarm = wheel.alarm(seconds, lambda name=name: rang.append(name))
        if name == "never":
            alarm.cancel()
    for _ in range(10):
        clock.move("1s")
        await idle()
    assert rang == ["soon", "middle", "late"]
    turning.cancel()
    await asyncio.gather(turning, return_exceptions=True)


async def test_an_alarm_that_is_moved_goes_off_then_and_not_before() -> None:
    wheel, clock = await open_wheel()
    rang: list[float] = []
    turning = asyncio.create_task(wheel.run(nobody))
    await idle()
    alarm = wheel.alarm(5.0, lambda: rang.append(clock.monotonic()))
    for _ in range(4):
        clock.move("4s")
        wheel.move(alarm, 5.0)
        await idle()
    for _ in range(10):
        clock.move("1s")
        await idle()
    assert rang == [21.0]
    turning.cancel()
    await asyncio.gather(turning, return_exceptions=True)


async def test_alarms_that_are_called_off_do_not_pile_up_however_far_off_they_were() -> None:
    wheel, _ = await open_wheel()
    kept = [wheel.alarm(3600.0, lambda: None) for _ in range(10)]
    for _ in range(10_000):
        wheel.alarm(86_400.0, lambda: None).cancel()
    assert len(wheel._alarms) < 500
    assert all(any(entry[2] is alarm for entry in wheel._alarms) for alarm in kept)


async def test_workers_with_long_time_limits_leave_no_alarms_behind() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"])

    @d.worker(writes="b", timeout="30d")
    async def work(a: int) -> int:
        return a

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        for a in range(500):
            await case.signal(a=a, wait="quiescent", timeout="30d")
        assert len(kit.hub.runtime.wheel._alarms) < 300


# ---- clocks


async def test_a_virtual_clock_moves_by_itself_never() -> None:
    clock = VirtualClock()
    before = (clock.now(), clock.monotonic())
    await asyncio.sleep(0)
    assert (clock.now(), clock.monotonic()) == before
    clock.move("90s")
    assert (clock.now() - before[0], clock.monotonic() - before[1]) == (timedelta(seconds=90), 90.0)


async def test_sleepers_of_a_virtual_clock_wake_when_their_time_has_passed() -> None:
    clock = VirtualClock()
    woken: list[str] = []

    async def sleeper(name: str, span: str) -> None:
        await clock.sleep(span)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(name, span)) for name, span in (("b", "2m"), ("a", "1m"), ("c", "3m"))]
    await idle()
    clock.move("2m")
    await idle()
    assert woken == ["a", "b"]
    clock.move("1m")
    await asyncio.gather(*tasks)


async def test_a_moment_that_has_passed_moves_no_clock() -> None:
    clock = VirtualClock()
    clock.move("1h")
    now = clock.now()
    clock.move_to(now - timedelta(minutes=5))
    assert clock.now() == now
    clock.move_to(now + timedelta(minutes=5))
    assert clock.now() - now == timedelta(minutes=5)


async def test_the_machines_clock_is_aware_and_steady() -> None:
    clock = SystemClock()
    assert isinstance(clock.now(), datetime)
    assert clock.now().utcoffset() == timedelta(0)
    before = clock.monotonic()
    await clock.sleep_until(before - 5)  # it has passed
    assert clock.monotonic() >= before
