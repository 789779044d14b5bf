"""A case may be started for something else than its definition asks for: a goal or a fact, by name or by type."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pytest

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.goap import GoapStrategy
from casehub import (
    CaseDefinition,
    CaseHub,
    CaseStalledError,
    CaseStarted,
    GoalReached,
    HubClosedError,
    InputRefusedError,
    WorkerScheduled,
    absent,
)
from casehub.testing import CaseTestKit


@dataclass
class Insights:
    text: str


@dataclass
class Note:
    text: str


def study(**options: object) -> CaseDefinition:
    d = CaseDefinition("study", **(options or {"goal": "report"}))  # type: ignore[arg-type]  # as given

    @d.worker(writes="orders")
    async def load(question: str) -> list[int]:
        return [1, 2]

    @d.worker
    async def build(orders: list[int]) -> Insights:
        return Insights(f"{len(orders)} orders")

    @d.worker(writes="first_note")
    async def note(orders: list[int]) -> Note:
        return Note("first")

    @d.worker(writes="second_note")
    async def note_more(first_note: Note) -> Note:
        return Note("second")

    @d.worker(writes="report")
    async def report(insights: Insights, second_note: Note) -> str:
        return insights.text

    d.goal("two notes", when=lambda first_note, second_note: True)
    return d


@pytest.mark.parametrize(
    ("wanted", "named", "without"),
    [
        ("orders", "orders", "insights"),
        (Insights, "insights", "report"),
        ("two notes", "two notes", "report"),
        (None, "report", ""),
    ],
)
async def test_a_case_ends_when_what_it_is_for_is_there(wanted: str | type | None, named: str, without: str) -> None:
    d = study()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, goal=wanted, question="how many?")
        context = await case.completed()
        assert without not in context
        assert (await case.state()).reason == f"goal {named}"
        assert named in [event.goal for event in kit.events(case, GoalReached)]
        (started,) = kit.events(case, CaseStarted)
        assert started.goal == ("" if wanted is None else named)


async def test_a_plan_leads_to_it_and_no_further() -> None:
    d = study()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(GoapStrategy())) as kit:
        case = await kit.start(d, goal=Insights, question="how many?")
        assert (await case.completed())[Insights].text == "2 orders"
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == ["load", "build"]
        case = await kit.start(d, goal="two notes", question="how many?")
        await case.completed()
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == ["load", "note", "note_more"]


async def test_what_is_there_from_the_start_needs_no_work() -> None:
    d = study()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, goal="question", question="how many?")
        await case.completed()
        assert kit.events(case, WorkerScheduled) == []


async def test_it_is_instead_of_what_the_definition_asks_for() -> None:
    for options in ({"at_quiescence": True}, {"done_when": absent("report")}):
        d = study(**options)

        async with CaseTestKit(d) as kit:
            kit.script("build", None)
            case = await kit.start(d, goal=Insights, question="how many?")
            with pytest.raises(CaseStalledError, match=r"goal insights is not reached: present\('insights'\)"):
                await case.completed()


async def test_a_restart_goes_on_to_the_same_end() -> None:
    d = study()
    async with CaseTestKit(d) as kit:
        kit.crash_after("WORKER_EXECUTION_COMPLETED")
        case = await kit.start(d, goal="insights", question="how many?")
        with suppress(HubClosedError):
            await case.completed()
        assert kit.crashed
        await kit.restart()
        assert "report" not in await case.completed()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("insigts", "no goal or fact 'insigts'; did you mean 'insights'"),
        (Note, "2 facts of type Note: first_note, second_note; name one"),
        (bytes, "no fact of type bytes; name one of"),
    ],
)
async def test_what_is_no_goal_and_no_fact_is_refused_and_nothing_has_started(wanted: str | type, said: str) -> None:
    d = study()
    async with CaseHub(d) as hub:
        with pytest.raises(InputRefusedError, match=said):
            await hub.start(d, case_id="c1", goal=wanted, question="how many?")
        assert await hub.cases() == []


async def test_a_fact_of_that_name_is_given_in_a_mapping() -> None:
    d = CaseDefinition("named", goal="echo")

    @d.worker(writes="echo")
    async def echo(goal: str) -> str:
        return goal

    async with CaseHub(d) as hub:
        case = await hub.start(d, {"goal": "win"})
        assert (await case.completed())["echo"] == "win"
