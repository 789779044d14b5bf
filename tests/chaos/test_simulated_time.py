"""A month of timers in which clocks are set forward and back, daylight saving begins or ends and processes are killed:
each occurrence comes once, at its time, and none is missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from casehub import CaseDefinition, WorkerExecution, after, cron, every
from casehub.events import WorkerExecutionCompleted, WorkerScheduled
from casehub.testing import CaseTestKit

DAYS = 30
BERLIN = ZoneInfo("Europe/Berlin")
STEPS = {5: 1, 9: -1, 14: -1, 20: 1}
"""On which days the wall clock is set, by how many hours."""
SPRING = datetime(2030, 3, 12, tzinfo=UTC)
AUTUMN = datetime(2030, 10, 12, tzinfo=UTC)


def watch(hours: int) -> CaseDefinition:
    definition = CaseDefinition("watch", goal="closed", signals={"closed": bool})

    @definition.worker(writes="hour", on=every(f"{hours}h"))
    async def regular(site: str, execution: WorkerExecution) -> str:
        return str(execution.due)

    @definition.worker(writes="night", on=cron("30 2 * * *", tz="Europe/Berlin"))
    async def nightly(site: str, execution: WorkerExecution) -> str:
        return str(execution.due)

    @definition.worker(writes="middle", on=after("15d"))
    async def halfway(site: str) -> str:
        return site

    return definition


async def month(start: datetime, cases: int, hours: int) -> int:
    """Let a month pass over so many cases with something to do every so many hours; how many occurrences there were."""
    occurrences = 0
    async with CaseTestKit(watch(hours), start=start) as kit:
        started = [await kit.start("watch", site=f"site {number}") for number in range(cases)]
        for day in range(DAYS):
            if day in STEPS:
                kit.clock.step(timedelta(hours=STEPS[day]))
            if day % 7 == 3:
                await kit.restart()
            await kit.advance("1d")
        assert kit.clock.now() == start + timedelta(days=DAYS)  # what was set forward was set back
        for case in started:
            scheduled = kit.events(case, WorkerScheduled)
            assert len(scheduled) == len(kit.events(case, WorkerExecutionCompleted))
            due = {
                name: [event.due for event in scheduled if event.binding == name]
                for name in ("regular", "nightly", "halfway")
            }
            assert due["regular"] == [start + timedelta(hours=hour) for hour in range(hours, 24 * DAYS + 1, hours)]
            nights = [moment.astimezone(BERLIN) for moment in due["nightly"] if moment is not None]
            assert [night.date() for night in nights] == [
                (start + timedelta(days=day)).date()
                for day in range(1 if nights[0].date() != start.date() else 0, DAYS)
            ]
            assert {night.strftime("%H:%M") for night in nights} <= {"02:30", "03:00"}
            assert due["halfway"] == [start + timedelta(days=15)]
            late = [event.at - event.due for event in scheduled if event.due is not None]
            assert all(timedelta(0) <= each <= timedelta(hours=1) for each in late)
            occurrences += len(scheduled)
            await case.kill()
    return occurrences


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", [SPRING, AUTUMN], ids=["spring", "autumn"])
async def test_in_a_month_of_timers_each_comes_once_whatever_clocks_do(start: datetime) -> None:
    assert await month(start, cases=1, hours=6) > 4 * DAYS


@pytest.mark.chaos
@pytest.mark.timeout(3_000)
async def test_in_a_month_of_ten_thousand_timers_each_comes_once() -> None:
    assert await month(SPRING, cases=76, hours=7) > 10_000
