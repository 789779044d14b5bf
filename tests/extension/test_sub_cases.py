"""Orchestration with sub-cases: what is worked as one is shown as delegated, and is handed out once."""

from __future__ import annotations

import asyncio

import pytest

from blackboard_ext import PlanItemCompleted, PlanningStrategyLoopControl
from blackboard_ext.strategies import OneAtATime
from casehub import (
    ActivationStatus,
    CaseDefinition,
    CaseStatus,
    SubCaseStarted,
    WorkerScheduled,
)
from casehub.testing import CaseTestKit


def loan(refire: str = "on_change") -> CaseDefinition:
    """A loan that is decided on a visit, which somebody reports on, and on a score."""
    visit = CaseDefinition("visit", goal="report", signals={"seen": str})

    @visit.worker(writes="report")
    async def report(address: str, seen: str) -> str:
        return f"{address}: {seen}"

    d = CaseDefinition("loan", goal="decision", signals={"note": str, "address": str, "rate": float})

    @d.sub_case(visit, name="inspect", writes="report", refire=refire)
    def inspect(address: str) -> dict[str, str]:
        return {"address": address}

    @d.worker(writes="score")
    async def score(address: str) -> int:
        return len(address)

    @d.worker(writes="decision")
    async def decide(report: str, score: int) -> str:
        return f"{report}, {score}"

    return d


async def test_what_is_worked_as_a_sub_case_is_delegated_on_the_plan_and_others_go_on() -> None:
    d = loan()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(OneAtATime())) as kit:
        case = await kit.start(d, address="Elm 1", case_id="l")
        await kit.settle()
        plan = await case.plan()
        assert plan is not None
        assert [(item.binding, item.status) for item in plan.delegated] == [("inspect", ActivationStatus.DELEGATED)]
        assert (plan.running, plan.agenda) == ((), ())
        assert [item.binding for item in plan.ended] == ["score"]  # it did not wait for the sub-case
        assert [each.status for each in (await case.state()).activations.values()] == [ActivationStatus.DELEGATED]
        assert await case.status() is CaseStatus.WAITING
        await kit.hub.case("l/inspect/1").signal(seen="a house")
        assert (await case.completed())["decision"] == "Elm 1: a house, 5"
        assert [event.binding for event in kit.events(case, PlanItemCompleted)] == ["score", "inspect", "decide"]


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("refire", ["on_change", "once", "always"])
async def test_what_changes_while_a_sub_case_is_at_work_starts_no_other_one(planned: bool, refire: str) -> None:
    d = loan(refire)
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(OneAtATime()) if planned else None) as kit:
        case = await kit.start(d, case_id="l")
        await asyncio.gather(case.signal(address="Elm 1"), case.signal(address="Elm 2"))
        await kit.settle()
        await asyncio.gather(case.signal(address="Elm 3"), case.signal(note="call first"))
        await kit.settle()
        assert [event.child for event in kit.events(case, SubCaseStarted)] == ["l/inspect/1"]
        assert [each.id for each in await case.children()] == ["l/inspect/1"]
        assert len([event for event in kit.events(case, WorkerScheduled) if event.binding == "inspect"]) == 1
        await case.cancel()
