"""`examples/pull_request.py`: two approvals of however many, reviews that are passed on, and a merge that is undone."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from casehub import Case, CaseStatus, HumanTaskCancelled, HumanTaskDeclined, HumanTaskRejected, SubCaseCancelled
from casehub.testing import CaseTestKit
from examples.pull_request import Repository, Verdict, pull_request, repository

FILES = ["database/schema.sql", "security/tokens.py"]
DATABASE, SECURITY, STYLE = (f"pull-request-1/have_reviewed/1.{number}/look_at/1" for number in (1, 2, 3))

PRINTED = """\
New login: database: for edsger
New login: security: for ada or grace
New login: style: for joan or barbara
declined by user:ada: not my cipher
pr-7/have_reviewed/1.1 is FAULTED: failure goal 'changes requested' is reached
pr-7/have_reviewed/1.3 is COMPLETED: goal approval
have_reviewed: IN_FLIGHT - waits for sub-case pr-7/have_reviewed/1.2
pr-7/have_reviewed/1.2 is COMPLETED: goal approval
['security looks good', 'style looks good']
New login broke the build and is taken back
"""


async def opened(kit: CaseTestKit) -> Case:
    case = await kit.start(pull_request, title="New login", files=FILES)
    await kit.settle()
    return case


def test_it_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parent.parent.parent / "examples" / "pull_request.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTED


async def test_two_approvals_are_enough_and_the_third_review_is_called_off() -> None:
    async with CaseTestKit(pull_request) as kit:
        main = Repository()
        kit.replace(repository, main)
        case = await opened(kit)
        await kit.hub.tasks.complete(DATABASE, Verdict(True), by="user:edsger")
        await kit.hub.tasks.complete(STYLE, Verdict(True, "nice"), by="user:barbara")
        assert (await case.completed())["released"] == "New login is released"
        assert (await case.context())["approvals"] == ["database looks good", "style nice"]
        assert main.main == ["initial", "New login"]
        await kit.settle()
        assert [event.child for event in kit.events(case, SubCaseCancelled)] == ["pull-request-1/have_reviewed/1.2"]
        assert [event.task for event in kit.events(None, HumanTaskCancelled)] == [SECURITY]


async def test_once_two_approvals_cannot_come_together_the_request_is_closed() -> None:
    async with CaseTestKit(pull_request) as kit:
        case = await opened(kit)
        await kit.hub.tasks.complete(DATABASE, Verdict(False), by="user:edsger")
        await kit.settle()
        assert await case.status() is CaseStatus.WAITING
        await kit.hub.tasks.complete(STYLE, Verdict(False), by="user:joan")
        assert (await case.completed())["closed"] == "New login is closed"
        await kit.settle()
        assert await kit.hub.tasks.list() == []


async def test_a_review_that_everybody_declines_approves_nothing() -> None:
    async with CaseTestKit(pull_request) as kit:
        case = await opened(kit)
        await kit.hub.tasks.decline(SECURITY, "on leave", by="user:ada")
        assert [task.id for task in await kit.hub.tasks.list(user="ada")] == []
        assert [task.id for task in await kit.hub.tasks.list(user="grace")] == [SECURITY]
        await kit.hub.tasks.decline(SECURITY, "on leave too", by="user:grace")
        await kit.settle()
        assert len(kit.events(None, HumanTaskDeclined)) == 2
        assert len(kit.events(None, HumanTaskRejected)) == 1
        await kit.hub.tasks.complete(DATABASE, Verdict(False), by="user:edsger")
        assert (await case.completed())["closed"] == "New login is closed"


async def test_reviews_that_take_more_than_two_weeks_are_called_off() -> None:
    async with CaseTestKit(pull_request) as kit:
        case = await opened(kit)
        await kit.advance("14d")
        assert await kit.hub.tasks.list() == []
        assert await case.status() is CaseStatus.COMPLETED


async def test_a_merge_that_breaks_the_build_is_taken_back() -> None:
    async with CaseTestKit(pull_request) as kit:
        main = Repository(breaks=True)
        kit.replace(repository, main)
        case = await opened(kit)
        await kit.hub.tasks.complete(DATABASE, Verdict(True), by="user:edsger")
        await kit.hub.tasks.complete(SECURITY, Verdict(True), by="user:grace")
        assert "taken back" in (await case.completed())["reverted"]
        assert main.main == ["initial"]
