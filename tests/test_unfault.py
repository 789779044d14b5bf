"""`case.unfault` in a running hub: over restarts, with sub-cases, under the brake, and what it does to dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from blackboard_ext import PlanningStrategyLoopControl, StageCompleted, StageFaulted
from blackboard_ext.strategies import OneAtATime
from casehub import (
    CaseDefinition,
    CaseEndedError,
    CaseFaultedError,
    CaseHub,
    CaseStatus,
    FactError,
    IllegalTransitionError,
    InputRefusedError,
    Retry,
    SubCaseStarted,
)
from casehub.testing import CaseTestKit

down: set[str] = set()


@pytest.fixture(autouse=True)
def all_well() -> None:
    down.clear()


def claim() -> CaseDefinition:
    d = CaseDefinition("claim", goal="risk")

    @d.worker(writes="risk", retry=Retry(1), on_exhausted="fault_case")
    async def assess(amount: int) -> int:
        if down:
            raise OSError("away")
        return amount

    return d


async def test_a_handle_of_a_faulted_case_waits_for_its_completion_again() -> None:
    down.add("all")
    d = claim()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=1)
        with pytest.raises(CaseFaultedError):
            await case.completed()
        down.clear()
        await case.unfault(by="user:ada", reason="it is back")
        assert (await case.completed())["risk"] == 1


async def test_it_is_unfaulted_by_another_process_on_disk(tmp_path: Path) -> None:
    down.add("all")
    url = f"sqlite:///{tmp_path / 'cases.db'}"
    async with CaseHub(claim(), store=url) as hub:
        with pytest.raises(CaseFaultedError):
            await (await hub.start("claim", case_id="x", amount=1)).completed()
    down.clear()
    async with CaseHub(claim(), store=url) as hub:
        await hub.case("x").unfault({"amount": 7})
        assert (await hub.case("x").completed())["risk"] == 7
        assert [case.status for case in await hub.cases()] == [CaseStatus.COMPLETED]


async def test_dead_letters_of_a_faulted_case_are_refused_and_listed_again_when_it_goes_on() -> None:
    down.add("all")
    d = claim()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, case_id="x", amount=1)
        await kit.settle()
        assert await kit.hub.dead_letters.list() == []
        with pytest.raises(CaseEndedError, match="unfault it first: 'casehub case unfault x'"):
            await kit.hub.dead_letters.retry("x/assess/1")
        await case.unfault(retry=False)
        assert [letter.id for letter in await kit.hub.dead_letters.list()] == ["x/assess/1"]
        down.clear()
        await kit.hub.dead_letters.retry("x/assess/1")
        assert (await case.completed())["risk"] == 1


async def test_a_condition_that_raised_is_mended_and_the_case_goes_on_in_the_same_process() -> None:
    d = claim()
    d.goal("late", lambda amount: amount > 1 and bool(down) and 1 / 0 > 0, failure=True)
    async with CaseTestKit(d) as kit:
        down.add("all")
        case = await kit.start(d, amount=2)
        with pytest.raises(CaseFaultedError, match="ZeroDivisionError"):
            await case.completed()
        with pytest.raises(InputRefusedError, match="cannot be unfaulted: goal 'late' raised ZeroDivisionError"):
            await case.unfault()
        down.clear()
        await case.unfault()
        assert (await case.completed())["risk"] == 2


async def test_its_sub_cases_stay_ended_and_new_ones_are_started() -> None:
    child = CaseDefinition("child", goal="report", signals={"report": str})

    @child.worker(writes="plan")
    async def plan(address: str) -> str:
        return address

    d = claim()

    @d.sub_case(child, takes="report", writes="report")
    def visit(address: str) -> Mapping[str, str]:
        return {"address": address}

    down.add("all")
    async with CaseTestKit(d, child) as kit:
        case = await kit.start(d, address="Elm Road", amount=1)
        await kit.settle()
        (first,) = [event.child for event in kit.events(case, SubCaseStarted)]
        assert await kit.hub.case(first).status() is CaseStatus.CANCELLED
        await case.unfault(retry=False)
        await kit.settle()
        second = "claim-1/visit/2"
        assert [event.child for event in kit.events(case, SubCaseStarted)] == [first, second]
        assert [child.id for child in await case.children()] == [second]
        assert await kit.hub.case(first).status() is CaseStatus.CANCELLED
        await kit.hub.case(second).signal(report="seen")
        await kit.settle()
        assert (await case.context())["report"] == "seen"


async def test_a_sub_case_that_has_faulted_is_not_unfaulted_as_its_parent_has_been_told() -> None:
    child = claim()
    d = CaseDefinition("whole", goal="risk")

    @d.sub_case(child, takes="risk", writes="risk", retry=Retry(1))
    def rate(amount: int) -> Mapping[str, int]:
        return {"amount": amount}

    down.add("all")
    async with CaseTestKit(d, child) as kit:
        case = await kit.start(d, case_id="x", amount=1)
        await kit.settle()
        (part,) = [event.child for event in kit.events(case, SubCaseStarted)]
        with pytest.raises(InputRefusedError, match="it is a sub-case, and case 'x' has been told how it ended"):
            await kit.hub.case(part).unfault()
        down.clear()
        await kit.hub.dead_letters.retry("x/rate/1")
        assert (await case.completed())["risk"] == 1


async def test_its_stages_are_what_they_were_also_that_of_the_binding_that_faulted_it() -> None:
    d = claim()
    d.stage("rating", "assess", on_fault="fault")
    down.add("all")
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(OneAtATime())) as kit:
        case = await kit.start(d, amount=1)
        await kit.settle()
        assert await case.status() is CaseStatus.FAULTED
        assert not kit.events(case, StageCompleted)
        assert not kit.events(case, StageFaulted)
        down.clear()
        await case.unfault()
        assert (await case.completed())["risk"] == 1


async def test_under_the_brake_and_with_facts_that_do_not_fit_it_is_refused() -> None:
    down.add("all")
    d = claim()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=1)
        await kit.settle()
        with pytest.raises(InputRefusedError, match=r"no fact 'amout'; did you mean 'amount'\?"):
            await case.unfault({"amout": 2})
        with pytest.raises(FactError):
            await case.unfault({"amount": "much"})
        await kit.hub.brake.pull()
        with pytest.raises(IllegalTransitionError, match="the brake is on"):
            await case.unfault()
        assert await case.status() is CaseStatus.FAULTED
