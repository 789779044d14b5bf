"""`examples/adverse_event.py`: deadlines from awareness, regrading, escalation, breach, and follow-up that finds nothing."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from casehub import CaseStatus, HumanTaskCreated, HumanTaskEscalated, HumanTaskExpired, HumanTaskOverdue
from casehub.testing import CaseTestKit
from examples.adverse_event import Duty, Report, Review, Submission, adverse_event

START = datetime(2030, 3, 1, 9, tzinfo=UTC)

PRINTED = """\
01 Mar 09:00 HUMAN_TASK_CREATED assess: Did the medicine cause the rash (grade 2) of P-017?
01 Mar 11:00 HUMAN_TASK_COMPLETED assess by user:ada
01 Mar 11:00 its next occurrence is due 2030-03-31 11:00:00Z (after 30d since review)
04 Mar 11:00 HUMAN_TASK_CREATED assess: Did the medicine cause the toxic epidermal necrolysis (grade 4) of P-017?
04 Mar 11:00 HUMAN_TASK_COMPLETED assess by user:ada
04 Mar 11:00 HUMAN_TASK_CREATED submit: Submit the toxic epidermal necrolysis of P-017 to the regulator
04 Mar 11:00 7 days from awareness: until 08 Mar 09:00
06 Mar 09:00 HUMAN_TASK_OVERDUE submit by timer:task-due:adverse-event-1/submit/1
07 Mar 09:00 HUMAN_TASK_ESCALATED submit by timer:task-escalation:adverse-event-1/submit/1
07 Mar 11:00 HUMAN_TASK_COMPLETED submit by user:grace
EV-2030-118
"""


def reported(grade: int, *, expected: bool = False) -> Report:
    return Report("P-001", "syncope", grade, expected, START)


def test_it_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parent.parent.parent / "examples" / "adverse_event.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTED


@pytest.mark.parametrize(("grade", "days"), [(3, 15), (4, 7), (5, 7)])
async def test_the_deadline_counts_from_awareness_however_late_the_review(grade: int, days: int) -> None:
    async with CaseTestKit(adverse_event, start=START) as kit:
        case = await kit.start(adverse_event, report=reported(grade))
        await kit.advance("3d")
        assert [event.binding for event in kit.events(case, HumanTaskOverdue)] == ["assess"]
        await kit.hub.tasks.complete(f"{case.id}/assess/1", Review(suspected=True), by="user:ada")
        await kit.settle()
        (task,) = [event for event in kit.events(case, HumanTaskCreated) if event.binding == "submit"]
        assert task.expires == START + timedelta(days=days)
        assert (await case.context())[Duty] == Duty(days, START + timedelta(days=days))
        await kit.hub.tasks.complete(task.task, Submission("EV-1"), by="user:grace")
        assert await case.status() is CaseStatus.COMPLETED


async def test_who_submits_nothing_is_escalated_and_then_in_breach() -> None:
    async with CaseTestKit(adverse_event, start=START) as kit:
        case = await kit.start(adverse_event, report=reported(5))
        await kit.hub.tasks.complete(f"{case.id}/assess/1", Review(suspected=True), by="user:ada")
        await kit.advance("8d")
        (escalated,) = kit.events(case, HumanTaskEscalated)
        (expired,) = kit.events(case, HumanTaskExpired)
        assert (escalated.at, expired.at) == (START + timedelta(days=6), START + timedelta(days=7))
        assert await case.status() is CaseStatus.FAULTED
        assert (await case.context())["breach"] == "not submitted by 08 March, 7 days after awareness"


@pytest.mark.parametrize(
    ("report", "suspected"), [(reported(2), True), (reported(4, expected=True), True), (reported(4), False)]
)
async def test_what_need_not_be_reported_is_closed_after_the_follow_up(report: Report, suspected: bool) -> None:
    async with CaseTestKit(adverse_event, start=START) as kit:
        case = await kit.start(adverse_event, report=report)
        await kit.hub.tasks.complete(f"{case.id}/assess/1", Review(suspected=suspected), by="user:ada")
        await kit.advance("29d")
        assert await case.status() is CaseStatus.WAITING
        await kit.advance("1d")
        assert "no duty to report" in (await case.completed())["closed"]


async def test_a_regrading_asks_the_physician_again() -> None:
    async with CaseTestKit(adverse_event, start=START) as kit:
        case = await kit.start(adverse_event, report=reported(2))
        await kit.hub.tasks.complete(f"{case.id}/assess/1", Review(suspected=True), by="user:ada")
        await case.signal(report=reported(4), by="laboratory")
        await kit.settle()
        assert [event.binding for event in kit.events(case, HumanTaskCreated)] == ["assess", "assess", "submit"]
