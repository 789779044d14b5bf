"""Cases that wait for time, under a hub: on the kit's clock, under a strategy, and over the end of the process."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl
from casehub import (
    Answer,
    Binding,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    CaseView,
    TimerFired,
    WorkerExecution,
    WorkerExecutionInterrupted,
    WorkerScheduled,
    after,
    cron,
    every,
    present,
)
from casehub.adapters.clock import VirtualClock
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle

START = datetime(2030, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parent.parent


class All:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible


def dossier(catch_up: str = "once") -> CaseDefinition:
    """It is refreshed every night in Berlin until it is closed, and somebody is reminded after two days."""
    d = CaseDefinition("dossier", goal="closed", signals={"closed": str})

    @d.worker(writes="refreshed", on=cron("0 2 * * *", tz="Europe/Berlin", catch_up=catch_up))
    async def refresh(name: str, execution: WorkerExecution) -> str:
        assert execution.due is not None
        return f"{name} at {execution.due:%d %H:%M}"

    @d.worker(writes="reminded", on=after("2d"))
    async def remind(refreshed: str) -> str:
        return refreshed

    return d


async def test_advancing_the_kit_fires_every_occurrence_on_the_way_at_its_time() -> None:
    d = dossier()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="file")
        assert await case.status() is CaseStatus.WAITING
        await kit.advance("3d")
        assert [event.at for event in kit.events(case, TimerFired)] == [
            START + timedelta(hours=hours) for hours in (1, 25, 48, 49)
        ]
        facts = await case.context()
        assert (facts["refreshed"], facts["reminded"]) == ("file at 03 01:00", "file at 02 01:00")
        await case.signal(closed="done")
        await kit.advance("3d")
        assert len(kit.events(case, TimerFired)) == 4


async def test_a_strategy_is_asked_when_an_occurrence_makes_a_binding_eligible() -> None:
    d = dossier()
    d.stage("watch", "refresh", "remind", exit=present("closed"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(All())) as kit:
        case = await kit.start(d, name="file")
        await kit.advance("26h")
        assert len(kit.events(case, WorkerScheduled)) == 2
        assert [said.text for said in await case.explain("refresh")] == [
            "its next occurrence is due 2030-01-03 01:00:00Z (cron 0 2 * * * Europe/Berlin)"
        ]


async def test_a_case_that_waits_for_time_leaves_memory_and_comes_back_at_its_time() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", on=after("30d"))
    async def work(a: int) -> int:
        return a

    store, clock = Kept(), VirtualClock(START)
    async with CaseHub(d, store=store, clock=clock, resident=1) as hub:
        cases = [await hub.start(d, a=number) for number in range(20)]
        await idle()
        assert hub._residents_now.resident < 5
        clock.move("30d")
        await idle()
        assert [await case.status() for case in cases] == [CaseStatus.COMPLETED] * 20


def hourly(catch_up: str, started: asyncio.Event | None = None) -> CaseDefinition:
    d = CaseDefinition("hourly", goal="never", signals=["never"])

    @d.worker(writes="report", on=every("1h", catch_up=catch_up))
    async def report(execution: WorkerExecution) -> str:
        if started is not None:
            started.set()
            await asyncio.Event().wait()
        return f"{execution.due:%H:%M}"

    return d


KILLED = """
import asyncio, os, signal, sys
sys.path.insert(0, sys.argv[3])
from datetime import timedelta
from casehub import CaseHub
from casehub.adapters.clock import VirtualClock
from tests.test_schedules import START, hourly

async def main():
    started, clock = asyncio.Event(), VirtualClock(START)
    async with CaseHub(hourly(sys.argv[2], started), store=f"sqlite:///{sys.argv[1]}", clock=clock) as hub:
        await hub.start("hourly", case_id="x")
        clock.move("1h")
        await started.wait()
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("catch_up", "stands"),
    [("skip", ["1:00", "5:00"]), ("once", ["1:00", "4:00", "5:00"]), ("all", ["1:00", "2:00", "3:00", "4:00", "5:00"])],
)
async def test_killed_in_an_occurrence_it_is_run_again_and_what_was_missed_is_caught_up(
    tmp_path: Path, catch_up: str, stands: list[str]
) -> None:
    database = tmp_path / "cases.db"
    ended = subprocess.run(  # noqa: ASYNC221 - nothing else runs meanwhile
        [sys.executable, "-c", KILLED, str(database), catch_up, str(ROOT)],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    clock = VirtualClock(START + timedelta(hours=4, minutes=30))
    async with CaseHub(hourly(catch_up), store=f"sqlite:///{database}", clock=clock) as hub:
        case = hub.case("x")
        await case.quiescent()
        await until(case.explain, "due 2030-01-01 05:00:00Z")
        clock.move("30m")
        await until(case.explain, "due 2030-01-01 06:00:00Z")
        scheduled = await case.log.query(WorkerScheduled)
        assert [f"{event.due:%-H:%M}" for event in scheduled if event.due] == stands
        assert len(await case.log.query(WorkerExecutionInterrupted)) == 1
        assert (await case.context())["report"] == "05:00"
        await case.kill()


async def until(explain: object, text: str) -> None:
    """Let the store's thread and the loop go on until a case says so."""
    async with asyncio.timeout(120):
        while text not in str((await explain())[0]):  # type: ignore[operator]  # a bound method
            await asyncio.sleep(0.001)
            await idle()
