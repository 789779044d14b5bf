"""A case that waits for people, for time and for other cases, whose process ends between any two of its events.

What its people answer at the same time as something else happens has no order; the story has none of that.
"""

from __future__ import annotations

import pytest

from casehub import (
    CaseDefinition,
    HumanTask,
    after,
)
from tests.scenarios.crashing import Step, between, played, told

visit = CaseDefinition("visit", goal="report")


@visit.worker(writes="route")
async def plan(site: str) -> str:
    return f"to {site}"


@visit.human_task(writes="report")
def report(site: str, route: str) -> HumanTask[str]:
    return HumanTask(f"Go {route}", str, users=["joan"])


loan = CaseDefinition("loan", goal="letter")


@loan.worker(writes="risk")
async def assess(applicant: str) -> float:
    return len(applicant) / 10


@loan.human_task(writes="income")
def check_income(applicant: str) -> HumanTask[int]:
    return HumanTask(f"What does {applicant} earn?", int, users=["ada"], due="1d")


@loan.human_task(writes="identity")
def check_identity(applicant: str) -> HumanTask[bool]:
    return HumanTask(f"Is it {applicant}?", bool, groups=["desk"], expires="9d")


@loan.worker(writes="rates", on=after("2d"))
async def refresh_rates() -> float:
    return 3.5


@loan.sub_case(visit, name="inspect", writes="reports", takes="report")
def inspect(identity: bool, sites: list[str]) -> list[dict[str, str]]:
    return [{"site": site} for site in sites]


@loan.human_task(writes="approval")
def approve(risk: float, income: int, rates: float, reports: list[str]) -> HumanTask[bool]:
    return HumanTask(f"{income} at {rates}: {'; '.join(reports)}", bool, groups=["underwriters"], due="1d")


@loan.worker(writes="letter")
async def write(applicant: str, approval: bool) -> str:
    return f"Dear {applicant}: {'yes' if approval else 'no'}"


STEPS: tuple[Step, ...] = (
    lambda kit: kit.start(loan, case_id="loan", applicant="Grace", sites=["Elm 1", "Oak 2"]),
    lambda kit: kit.hub.tasks.claim("loan/check_identity/1", by="user:bob", groups=["desk"], key="1"),
    lambda kit: kit.advance("1d"),
    lambda kit: kit.hub.tasks.complete("loan/check_income/1", 70_000, by="user:ada", key="2"),
    lambda kit: kit.advance("1d"),
    lambda kit: kit.hub.tasks.complete("loan/check_identity/1", True, by="user:bob", key="3"),
    lambda kit: kit.hub.tasks.complete("loan/inspect/1.2/report/1", "no roof", by="user:joan", key="4"),
    lambda kit: kit.hub.tasks.complete("loan/inspect/1.1/report/1", "fine", by="user:joan", key="5"),
    lambda kit: kit.hub.tasks.complete("loan/approve/1", True, by="user:joan", key="6"),
)


PASSES = (STEPS[2], STEPS[4])


async def test_the_story_ends_as_it_should() -> None:
    logs = await played(loan, STEPS)
    assert list(logs) == ["loan", "loan/inspect/1.1", "loan/inspect/1.2"]
    assert [log[-1].name for log in logs.values()] == ["CASE_COMPLETED"] * 3
    names = [event.name for log in logs.values() for event in log]
    assert names.count("HUMAN_TASK_COMPLETED") == 5
    assert {"HUMAN_TASK_OVERDUE", "TIMER_FIRED", "SUB_CASE_ENDED"} <= set(names)


@pytest.mark.slow
@pytest.mark.parametrize("again", [(), (1,), (2,)], ids=["once", "in its recovery", "further on"])
async def test_restarts_between_any_two_events_leave_the_logs_that_there_are_without_them(
    again: tuple[int, ...],
) -> None:
    whole = await played(loan, STEPS)  # a third crash under one activation has it wait, see tests/resilience
    expected = told(whole)
    for number in between(whole, "loan"):
        crashes = (number, *again)
        assert told(await played(loan, STEPS, crashes, passes=PASSES)) == expected, f"after event {number}"
