"""A loan application under orchestration: stages, a milestone between them, three strategies, and an abort."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from blackboard_ext import (
    CasePlanModel,
    PlanItemCancelled,
    PlanningStrategy,
    PlanningStrategyLoopControl,
    StageEvent,
)
from casehub import (
    Binding,
    CaseDefinition,
    CaseFaultedError,
    CaseHub,
    CaseView,
    Event,
    MilestoneReached,
    WorkerExecutionCancelled,
    WorkerScheduled,
    present,
    reached,
)
from casehub.spi import Answer
from casehub.testing import CaseTestKit


class All:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible


class OneAtATime:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible[:1]


class ByPriority:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        first = plan.agenda[0]
        plan.focus(first.binding, because="highest priority")
        return [binding for binding in eligible if binding.name == first.binding]


def loan(gate: asyncio.Event | None = None) -> CaseDefinition:
    d = CaseDefinition("loan", goal="decision", signals=["abort"])

    @d.worker(writes="text")
    async def extract_text(document: str) -> str:
        return document.upper()

    @d.worker(writes="entities")
    async def extract_entities(text: str) -> list[str]:
        return text.split()

    @d.worker(writes="credit")
    async def check_credit(entities: list[str]) -> int:
        if gate is not None:
            await gate.wait()
        return len(entities)

    @d.worker(writes="decision")
    async def decide(credit: int) -> str:
        return "approve"

    d.milestone("intake done", present("entities"))
    d.stage("intake", extract_text, extract_entities)
    d.stage("underwriting", check_credit, decide, entry=reached("intake done"), exit=present("abort"))
    d.goal("aborted", present("abort"), failure=True)
    return d


def control(strategy: PlanningStrategy) -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(strategy)


@pytest.mark.parametrize("strategy", [All(), OneAtATime(), ByPriority()], ids=lambda each: type(each).__name__)
async def test_two_stages_follow_each_other_and_the_goal_completes_the_case(strategy: PlanningStrategy) -> None:
    d = loan()
    async with CaseTestKit(d, loop=control(strategy)) as kit:
        case = await kit.start(d, document="ada lovelace")
        assert (await case.completed())["decision"] == "approve"
        stages = [(event.name, event.stage) for event in kit.events(case, StageEvent)]
        assert stages == [
            ("STAGE_ACTIVATED", "intake"),
            ("STAGE_COMPLETED", "intake"),
            ("STAGE_ACTIVATED", "underwriting"),
            ("STAGE_COMPLETED", "underwriting"),
        ]
        assert [event.milestone for event in kit.events(case, MilestoneReached)] == ["intake done"]


async def test_a_binding_of_a_stage_that_is_not_active_does_not_fire() -> None:
    d = CaseDefinition("d", goal="b", signals=["go"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    d.stage("later", work, entry=present("go"))
    async with CaseTestKit(d, loop=control(All())) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        assert not kit.events(case, WorkerScheduled)
        assert "its stage 'later' is PENDING" in str((await case.explain("work"))[0])
        await case.signal(go=True)
        assert (await case.completed())["b"] == 1


async def test_an_abort_in_the_middle_of_a_worker_calls_it_off_and_faults_the_case() -> None:
    gate = asyncio.Event()
    d = loan(gate)
    async with CaseTestKit(d, loop=control(All())) as kit:
        case = await kit.start(d, document="ada")
        await kit.settle()
        await case.signal(abort=True)
        with pytest.raises(CaseFaultedError, match="failure goal 'aborted'"):
            await case.completed()
        names = [event.name for event in kit.events(case, Event)]
        assert names.index("STAGE_TERMINATED") < names.index("CASE_FAULTED")
        (cancelled,) = kit.events(case, WorkerExecutionCancelled)
        assert (cancelled.binding, cancelled.reason) == ("check_credit", "stage 'underwriting' is TERMINATED")
        assert [event.binding for event in kit.events(case, PlanItemCancelled)] == ["check_credit"]


async def test_a_log_is_read_with_the_classes_of_the_extension_by_whoever_opens_it(tmp_path: Path) -> None:
    d = loan()
    path = tmp_path / "loans.db"
    async with CaseHub(d, loop=control(All()), store=f"sqlite:///{path}") as hub:
        case = await hub.start(d, document="ada")
        await case.completed()
    look = (
        "import sys; from casehub.lookup import store_of; from casehub.envelope import EVENT_TYPES; "
        "assert 'STAGE_ACTIVATED' not in EVENT_TYPES; store_of(sys.argv[1], read_only=True); "
        "assert 'STAGE_ACTIVATED' in EVENT_TYPES"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", look, f"sqlite:///{path}"], check=True)
