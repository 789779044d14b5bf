"""`examples/money_laundering.py`: who is asked and when, what is reported, what is late, what is tried again."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from casehub import CaseStatus, ContextChanged, HumanTaskCreated, MilestoneSlaViolated, WorkerExecutionStarted
from casehub.testing import CaseTestKit
from examples.money_laundering import (
    Alert,
    Gateway,
    Opinion,
    Review,
    control,
    gateway,
    investigation,
    release_report,
)

PRINTED = """\
STAGE_ACTIVATED intake
STAGE_COMPLETED intake
STAGE_ACTIVATED investigation
STAGE_COMPLETED investigation
STAGE_ACTIVATED decision
for senior analysts: Is Senator Example suspicious?
STAGE_COMPLETED decision
STAGE_ACTIVATED filing
for compliance: Report 'Senator Example: 41 deposits just below 10000; Senator Example under inquiry'?
for compliance: Report 'Senator Example: 41 deposits just below 10000; Senator Example under inquiry (41 deposits in 9 days)'?
for reporting officers: File the report about Senator Example
file_report, attempt 2: the gateway does not answer
file_report, attempt 3: the gateway does not answer
dead letter alert-7/file_report/1: ConnectionError: the gateway does not answer
for reporting officers: File the report about Senator Example
SAR-1
"""


def test_it_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parent.parent.parent / "examples" / "money_laundering.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTED


async def test_an_alert_without_substance_is_cleared_by_nobody_but_workers() -> None:
    async with CaseTestKit(investigation, loop=control()) as kit:
        case = await kit.start(investigation, alert=Alert("NL-1"))
        assert (await case.completed())["cleared"] == "Acme Bakery: nothing to report"
        assert kit.events(case, HumanTaskCreated) == []


async def test_patterns_and_news_are_looked_at_side_by_side() -> None:
    async with CaseTestKit(investigation, loop=control()) as kit:
        case = await kit.start(investigation, alert=Alert("NL-1"))
        await kit.settle()
        happened = [
            event
            for event in kit.events(case, WorkerExecutionStarted, ContextChanged)
            if event.binding in ("analyse_patterns", "screen_news")
        ]
        assert [type(event) for event in happened[:2]] == [WorkerExecutionStarted] * 2


async def test_a_customer_with_a_history_is_judged_before_anybody_knows_who_it_is_and_not_again() -> None:
    async with CaseTestKit(investigation, loop=control()) as kit:
        case = await kit.start(investigation, alert=Alert("NL-2", history=True))
        await kit.settle()
        (task,) = kit.events(case, HumanTaskCreated)
        assert (task.title, task.shows) == ("Is NL-2 suspicious?", ("alert",))
        assert "verdict" not in await case.context()  # all is found, and the analyst is waited for
        await kit.hub.tasks.complete(task.task, Opinion(False, "an inheritance"), by="user:ada")
        assert "nothing to report" in (await case.completed())["cleared"]
        assert len(kit.events(case, HumanTaskCreated)) == 1


async def test_a_report_that_waits_for_compliance_for_30_days_is_late() -> None:
    async with CaseTestKit(investigation, loop=control()) as kit:
        case = await kit.start(investigation, alert=Alert("NL-2"))
        await kit.settle()
        await kit.hub.tasks.complete(f"{case.id}/judge_findings/1", Opinion(True, "odd"), by="user:ada")
        await kit.advance("29d")
        assert kit.events(case, MilestoneSlaViolated) == []
        await kit.advance("1d")
        assert [event.milestone for event in kit.events(case, MilestoneSlaViolated)] == ["decided by compliance"]
        await kit.hub.tasks.complete(f"{case.id}/approve_report/1", Review(True), by="user:joan")
        await kit.settle()
        await release_report(kit.hub)
        assert (await case.completed())["receipt"] == "SAR-1"


async def test_a_report_that_could_not_be_filed_is_filed_once_the_gateway_is_up() -> None:
    async with CaseTestKit(investigation, loop=control()) as kit:
        authority = Gateway(down=True)
        kit.replace(gateway, authority)
        case = await kit.start(investigation, alert=Alert("NL-2"))
        await kit.settle()
        await kit.hub.tasks.complete(f"{case.id}/judge_findings/1", Opinion(True, "odd"), by="user:ada")
        await kit.settle()
        await kit.hub.tasks.complete(f"{case.id}/approve_report/1", Review(True), by="user:joan")
        await kit.settle()
        await release_report(kit.hub)
        await kit.advance("1d")
        assert await case.status() is not CaseStatus.COMPLETED
        (letter,) = await kit.hub.dead_letters.list()
        authority.down = False
        await kit.hub.dead_letters.retry(letter.id, by="user:edsger")
        await kit.settle()
        await release_report(kit.hub)
        assert (await case.completed())["receipt"] == "SAR-1"
        assert len(authority.received) == 1


async def test_a_report_that_the_reporting_officer_does_not_release_is_never_sent() -> None:
    async with CaseTestKit(investigation, loop=control()) as kit:
        authority = Gateway()
        kit.replace(gateway, authority)
        case = await kit.start(investigation, alert=Alert("NL-2"))
        await kit.settle()
        await kit.hub.tasks.complete(f"{case.id}/judge_findings/1", Opinion(True, "odd"), by="user:ada")
        await kit.settle()
        await kit.hub.tasks.complete(f"{case.id}/approve_report/1", Review(True), by="user:joan")
        await kit.settle()
        assert authority.received == {}  # approved by compliance, and held
        (task,) = await kit.hub.tasks.list(user="grace", groups=["reporting officers"])
        answer = {"approved": False, "reason": "the inquiry would be warned"}
        await kit.hub.tasks.complete(task.id, answer, by="user:grace")
        await kit.settle()
        assert (await case.context())["cleared"] == "Senator Example: kept on record, not reported"
        assert await case.status() is CaseStatus.COMPLETED
        assert authority.received == {}
