"""A case that waits for people, for time and for other cases, whose process ends between any two of its events.

What its people answer at the same time as something else happens has no order; the story has none of that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from casehub import (
    CaseDefinition,
    CaseExistsError,
    Event,
    HubClosedError,
    HumanTask,
    WorkerExecutionInterrupted,
    after,
)
from casehub.adapters.codec import as_dict
from casehub.testing import CaseTestKit

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


Step = Callable[[CaseTestKit], Awaitable[Any]]
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


async def played(*crashes: int) -> dict[str, list[Event]]:
    """The logs of the story's cases, by case. `crashes`: after how many events each hub dies, from its start on."""
    left = list(crashes)
    async with CaseTestKit(loan) as kit:
        for step in STEPS:
            if left and step is STEPS[0]:
                kit.crash_after(Event, left.pop(0))
            await taken(step, kit)
            while kit.crashed:
                await kit.restart()
                if left:
                    kit.crash_after(Event, left.pop(0))
                await kit.settle()
                if not kit.crashed and step not in PASSES:
                    await taken(step, kit)
        return {case: kit.events(case) for case in dict.fromkeys(event.case for event in kit.events())}


PLACES = ("attempt", "stamps", "occurrence")
"""Fields that say where in its log something is."""
CALLS = "calls"
"""Charges that a restart adds to: what it runs again is called again."""
PASSES = (STEPS[2], STEPS[4])
"""Time that has passed does not pass again."""


async def taken(step: Step, kit: CaseTestKit) -> None:
    with suppress(HubClosedError, CaseExistsError):
        await step(kit)  # whoever asked asks again, and is not taken twice
    await kit.settle()


def told(logs: dict[str, list[Event]]) -> dict[str, list[Any]]:
    """What logs say, but for places in them and for what only a restart leaves."""
    return {case: [line for event in log for line in told_of(event)] for case, log in logs.items()}


def told_of(event: Event) -> list[Any]:
    if isinstance(event, WorkerExecutionInterrupted):
        return []
    whole = as_dict(event)
    body = {name: value for name, value in whole["body"].items() if name not in PLACES}
    if body.get("charges"):
        body["charges"] = {unit: amount for unit, amount in body["charges"].items() if unit != CALLS}
    if event.name == "WORKER_EXECUTION_STARTED" and whole["body"]["attempt"] > 1:
        return []  # there is no other retry in the story
    return [(event.name, event.by, event.at, body)]


async def test_the_story_ends_as_it_should() -> None:
    logs = await played()
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
    whole = await played()  # a third crash under one activation has it wait, see tests/resilience
    expected = told(whole)
    last = whole["loan"][-1]
    ending = sum(event.turn == last.turn for event in whole["loan"])  # nothing comes after the turn that ends it
    for number in range(1, sum(map(len, whole.values())) - ending + 1):
        assert told(await played(number, *again)) == expected, f"after event {number}"
