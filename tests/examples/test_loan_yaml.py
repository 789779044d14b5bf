"""`examples/loan.yaml`: lived through by its module, by the rehearsals beside it, and in its corners."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from casehub import (
    CaseDefinition,
    CaseStatus,
    HumanTaskEscalated,
    MilestoneSlaViolated,
    SubCaseCancelled,
    load_definition,
)
from casehub.loader import rehearsal_of
from casehub.testing import CaseTestKit
from examples.loan_workers import control

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PRINTED = """\
for north surveyors: Visit 12 Elm Road
for east surveyors: Visit 12 Elm Road
for west surveyors: Visit 12 Elm Road
for underwriters: Lend Grace 5000?
valued at [7000.0, 6500.0]
Dear Grace, your loan of 5000 is approved.
"""
PAPERS = ["passport.pdf", "payslip-may.pdf"]


@pytest.fixture
def loan() -> CaseDefinition:
    return load_definition(EXAMPLES / "loan.yaml", allow_code=["examples.loan_workers"])


def test_it_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "loan_workers.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTED


async def test_its_rehearsals_are_as_expected(loan: CaseDefinition) -> None:
    for rehearsed in await rehearsal_of(EXAMPLES / "loan.test.yaml").play(loan, control()):
        assert rehearsed.problems == [], rehearsed.name


async def test_the_nightly_refresh_goes_on_until_the_underwriter_decides(loan: CaseDefinition) -> None:
    async with CaseTestKit(loan, loop=control()) as kit:
        case = await kit.start(loan, applicant={"name": "Grace", "income": 40_000}, amount=5_000)
        await case.signal(documents=PAPERS, wait="quiescent")
        await kit.advance("2d")
        fired = [event.binding for event in kit.events(case) if event.name == "WORKER_SCHEDULED"]
        assert fired.count("nightly_refresh") == 2
        (task,) = await kit.hub.tasks.list(user="ada", groups=["underwriters"])
        await kit.hub.tasks.claim(task.id, by="user:ada", groups=["underwriters"])
        await kit.hub.tasks.complete(task.id, {"approved": False}, by="user:ada")
        assert (await case.completed())["decision"] == "rejected"


async def test_documents_that_are_late_violate_the_service_level(loan: CaseDefinition) -> None:
    async with CaseTestKit(loan, loop=control()) as kit:
        case = await kit.start(loan, applicant={"name": "Ada", "income": 60_000}, amount=5_000)
        await kit.advance("3d")
        assert [event.milestone for event in kit.events(case, MilestoneSlaViolated)] == ["documents read"]
        assert await case.status() is CaseStatus.WAITING
        await case.signal(documents=PAPERS)
        assert (await case.completed())["decision"] == "approved"


async def test_two_visits_of_three_are_enough_and_the_third_is_called_off(loan: CaseDefinition) -> None:
    async with CaseTestKit(loan, loop=control()) as kit:
        ada = {"name": "Ada", "income": 60_000}
        case = await kit.start(loan, applicant=ada, amount=5_000, property="12 Elm Road", case_id="loan-7")
        await case.signal(documents=PAPERS)
        await kit.settle()
        for office, value in (("west", 6_000), ("east", 9_000)):
            assert "decision" not in await case.context()
            (task,) = await kit.hub.tasks.list(user="mary", groups=[f"{office} surveyors"])
            await kit.hub.tasks.complete(task.id, value, by="user:mary", groups=[f"{office} surveyors"])
            await kit.settle()
        facts = await case.completed()
        assert (facts["valuations"], facts["decision"]) == ([9_000, 6_000], "approved")
        assert [event.child for event in kit.events(case, SubCaseCancelled)] == ["loan-7/site_visits/1.1"]
        assert await kit.hub.tasks.list() == []


async def test_what_is_worth_less_than_the_loan_is_for_an_underwriter(loan: CaseDefinition) -> None:
    async with CaseTestKit(loan, loop=control()) as kit:
        ada = {"name": "Ada", "income": 60_000}
        case = await kit.start(loan, applicant=ada, amount=5_000, property="12 Elm Road", case_id="loan-7")
        await case.signal(documents=PAPERS)
        await kit.settle()
        for number, value in ((1, 6_000), (3, 4_000)):
            await kit.hub.tasks.complete(f"loan-7/site_visits/1.{number}/visit/1", value, by="user:mary")
        await kit.settle()
        (task,) = await kit.hub.tasks.list(user="joan", groups=["underwriters"])
        assert (await kit.hub.tasks.get(task.id)).facts["valuations"] == [6_000, 4_000]
        await kit.hub.tasks.complete(task.id, {"approved": False, "comment": "not covered"}, by="user:joan")
        assert (await case.completed())["letter"] == "Dear Ada, your loan of 5000 is rejected."


async def test_visits_that_nobody_makes_are_escalated_and_end_with_a_withdrawal(loan: CaseDefinition) -> None:
    async with CaseTestKit(loan, loop=control()) as kit:
        ada = {"name": "Ada", "income": 60_000}
        case = await kit.start(loan, applicant=ada, amount=5_000, property="12 Elm Road", case_id="loan-7")
        await case.signal(documents=PAPERS)
        await kit.advance("6d")
        assert [event.groups for event in kit.events(None, HumanTaskEscalated)] == [("head office",)] * 3
        await case.signal(withdrawal="found another bank")
        await kit.settle()
        assert await case.status() is CaseStatus.COMPLETED
        assert await kit.hub.tasks.list() == []
