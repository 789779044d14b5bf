"""Clocks that jump: spans are by the monotonic clock, dates by the wall clock, and each timer fires once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    Retry,
    TimerFired,
    WorkerExecutionExpired,
    WorkerExecutionStarted,
    after,
    cron,
    every,
)
from casehub.adapters.clock import VirtualClock
from tests.staging import Kept, idle

START = datetime(2030, 3, 31, 0, 30, tzinfo=UTC)
"""Half an hour before Berlin's clocks go forward."""


class Jumping(VirtualClock):
    """A clock whose wall may be set, as people and time servers do; its monotonic side knows nothing of that."""

    def __init__(self, now: datetime = START) -> None:
        super().__init__(now)
        self.offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset

    def jump(self, span: timedelta) -> None:
        self.offset += span


async def pass_time(clock: Jumping, seconds: int, step: int = 1) -> None:
    for _ in range(0, seconds, step):
        clock.move(timedelta(seconds=step))
        await idle()


@pytest.mark.parametrize("jump", [timedelta(hours=1), timedelta(hours=-1), timedelta(days=30)])
async def test_a_limit_of_time_is_a_span_whatever_the_wall_clock_does(jump: timedelta) -> None:
    d, clock = CaseDefinition("d", goal="b"), Jumping()

    @d.worker(writes="b", timeout="60s", retry=Retry(1))
    async def work(a: int) -> int:
        await asyncio.Event().wait()
        return a

    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        case = await hub.start(d, a=1)
        await idle()
        clock.jump(jump)
        await pass_time(clock, 59)
        assert not await case.log.query(WorkerExecutionExpired)
        await pass_time(clock, 2)
        assert len(await case.log.query(WorkerExecutionExpired)) == 1


@pytest.mark.parametrize(("jump", "fired"), [(timedelta(hours=1), 30), (timedelta(hours=-1), 3_600 + 60)])
async def test_a_retry_comes_once_when_the_wall_clock_is_set(jump: timedelta, fired: int) -> None:
    """It is kept as a date, as it outlives the process: set forward it comes within half a minute, set back it comes later."""
    d, clock = CaseDefinition("d", goal="b"), Jumping()
    runs = list[datetime]()

    @d.worker(writes="b", retry=Retry(2, wait="60s", jitter=False))
    async def work(a: int) -> int:
        runs.append(clock.now())
        if len(runs) == 1:
            raise ConnectionError
        return a

    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        case = await hub.start(d, a=1)
        await idle()
        clock.jump(jump)
        await pass_time(clock, fired + 60, step=10)
        assert (await case.completed())["b"] == 1
        assert len(await case.log.query(WorkerExecutionStarted)) == 2
        assert len(await case.log.query(TimerFired)) == 1


@pytest.mark.parametrize("jumps", [[1], [-1], [1, -1], [-1, 1], [1, 1, -2]], ids=str)
async def test_a_timer_that_is_due_fires_once_whatever_the_wall_clock_does(jumps: list[int]) -> None:
    d, clock = CaseDefinition("d", goal="b", signals=["other"]), Jumping()

    @d.worker(writes="b", on=after("90m"))
    async def work(a: int) -> int:
        return a

    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        case = await hub.start(d, a=1)
        for hours in jumps:
            clock.jump(timedelta(hours=hours))
            await pass_time(clock, 120, step=30)
        await pass_time(clock, 3 * 3_600, step=60)
        assert (await case.completed())["b"] == 1
        assert len(await case.log.query(TimerFired)) == 1


async def test_a_daily_time_over_a_change_to_summer_time_comes_once_a_day() -> None:
    """The hour that there is not is made up for, the one that there is twice counts once."""
    for start, times in ((START, 4), (datetime(2030, 10, 26, 12, tzinfo=UTC), 3)):
        d, clock = CaseDefinition("d", goal="never", external=["never"]), Jumping(start)

        @d.worker(writes="n", on=cron("30 2 * * *", tz="Europe/Berlin"), refire="always")
        async def work(a: int) -> int:
            return a

        async with CaseHub(d, store=Kept(), clock=clock) as hub:
            case = await hub.start(d, a=1)
            await pass_time(clock, 3 * 86_400, step=600)
            due = [event.due for event in await case.log.query(TimerFired)]
        assert len(due) == times
        assert len({moment.date() for moment in due if moment}) == times


@pytest.mark.parametrize(("catch_up", "taken"), [("once", 1), ("skip", 0), ("all", 6)])
async def test_a_machine_that_was_suspended_catches_up_by_the_policy(catch_up: Any, taken: int) -> None:
    """S105. Every five minutes, asleep for 32; and the next time is on the grid."""
    d, clock = CaseDefinition("d", goal="never", external=["never"]), Jumping(datetime(2030, 1, 1, tzinfo=UTC))

    @d.worker(writes="n", on=every("5m", catch_up=catch_up), refire="always")
    async def work(a: int) -> int:
        return a

    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        case = await hub.start(d, a=1)
        await pass_time(clock, 300, step=10)
        before = len(await case.log.query(WorkerExecutionStarted))
        assert before == 1
        clock.jump(timedelta(minutes=32))  # the monotonic clock stood still
        await pass_time(clock, 60, step=10)
        assert len(await case.log.query(WorkerExecutionStarted)) == before + taken
        await pass_time(clock, 300, step=10)
        last = (await case.log.query(TimerFired))[-1]
        assert last.due is not None
        assert last.due.minute % 5 == 0
        assert last.due.second == 0


async def test_a_hub_that_was_down_catches_up_once_and_goes_on_by_the_grid() -> None:
    """S105."""
    d, store = CaseDefinition("d", goal="never", external=["never"]), Kept()

    @d.worker(writes="n", on=every("5m"), refire="always")
    async def work(a: int) -> int:
        return a

    start = datetime(2030, 1, 1, tzinfo=UTC)
    async with CaseHub(d, store=store, clock=Jumping(start)) as hub:
        case = await hub.start(d, a=1, case_id="c")
    clock = Jumping(start + timedelta(minutes=32))
    async with CaseHub(d, store=store, clock=clock) as hub:
        await pass_time(clock, 30, step=10)
        assert len(await hub.case(case.id).log.query(WorkerExecutionStarted)) == 1
        await pass_time(clock, 200, step=10)
        due = [event.due for event in await hub.case(case.id).log.query(TimerFired)]
        assert due == [start + timedelta(minutes=30), start + timedelta(minutes=35)]
