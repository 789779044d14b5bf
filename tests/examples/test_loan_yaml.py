"""`examples/loan.yaml`: lived through by its module, by the rehearsals beside it, and in its corners."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from casehub import CaseDefinition, CaseStatus, MilestoneSlaViolated, load_definition
from casehub.loader import rehearsal_of
from casehub.testing import CaseTestKit
from examples.loan_workers import control

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PAPERS = ["passport.pdf", "payslip-may.pdf"]


@pytest.fixture
def loan() -> CaseDefinition:
    return load_definition(EXAMPLES / "loan.yaml", allow_code=["examples.loan_workers"])


def test_it_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "loan_workers.py"), run_name="__main__")
    assert capsys.readouterr().out == "Lend Grace 5000?\nDear Grace, your loan of 5000 is approved.\n"


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
