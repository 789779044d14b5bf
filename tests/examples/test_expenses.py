"""`examples/expenses.py`: one declaration lived through, the rules on their own, and the small log beside it."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from casehub import CaseStatus, ContextChanged, MilestoneSlaViolated, Verdict
from casehub.adapters.xes import read_traces
from casehub.events import CaseId
from casehub.folding import fold
from casehub.query import EventQuery
from casehub.replay import replay
from casehub.testing import CaseTestKit
from examples.expenses import Approval, Payment, Rejection, Submission, declaration
from tests.staging import Kept

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
MONDAY = datetime(2020, 1, 6, 9, tzinfo=UTC)

PRINTED = """\
declaration 7 was sent back by supervisor: correct it and submit it again
paid 24.50: receipt 1 for declaration 7
  grace wrote 'rejection'
  send_back wrote 'correction'
  ada wrote 'submission'
  joan wrote 'administration_check'
  grace wrote 'final_approval'
  request_payment wrote 'payment_order'
  handle_payment wrote 'payment'
"""


def on(day: float) -> datetime:
    return MONDAY + timedelta(days=day)


def submitted(day: float, amount: str = "10") -> Submission:
    return Submission(Decimal(amount), "declaration 1", on(day))


def test_it_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "expenses.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTED


async def test_an_approved_declaration_is_paid_once() -> None:
    async with CaseTestKit(declaration) as kit:
        case = await kit.start(declaration)
        await case.signal(submission=submitted(0, "10.005"))
        assert (await case.explain("request_payment"))[0].verdict is Verdict.GUARD_FALSE
        await case.signal(final_approval=Approval("SUPERVISOR", on(1)), wait="quiescent")
        facts = await case.completed()
        assert facts[Payment].amount == Decimal("10.00")
        assert "receipt 1 for declaration 1" in facts[Payment].receipt
        assert "flag" not in facts


async def test_a_rejection_leads_back_to_the_employee_and_only_a_new_submission_leads_on() -> None:
    async with CaseTestKit(declaration) as kit:
        case = await kit.start(declaration)
        await case.signal(submission=submitted(0))
        await case.signal(rejection=Rejection("BUDGET OWNER", on(1)), wait="quiescent")
        assert "sent back by budget owner" in (await case.context())["correction"]
        assert await case.status() is CaseStatus.WAITING
        await case.signal(final_approval=Approval("SUPERVISOR", on(0.5)), wait="quiescent")  # it was given before
        assert (await case.explain("request_payment"))[0].verdict is Verdict.GUARD_FALSE
        await case.signal(submission=submitted(2), wait="quiescent")
        assert (await case.explain("request_payment"))[0].verdict is Verdict.GUARD_FALSE
        await case.signal(final_approval=Approval("SUPERVISOR", on(3)))
        await case.completed()


async def test_a_declaration_that_is_not_paid_within_four_weeks_is_late() -> None:
    async with CaseTestKit(declaration) as kit:
        case = await kit.start(declaration)
        await case.signal(submission=submitted(0))
        await kit.advance("27d")
        assert await case.log.query(MilestoneSlaViolated) == []
        await kit.advance("2d")
        assert [event.milestone for event in await case.log.query(MilestoneSlaViolated)] == ["paid"]


@pytest.fixture
def log() -> list[Any]:
    return list(read_traces(EXAMPLES / "expenses.xes"))


async def test_the_small_log_has_one_of_each_kind(log: list[Any]) -> None:
    store = Kept()
    summary = await replay(declaration, log, store=store, strict=True)
    assert (summary.cases, summary.events) == (12, 73)
    assert summary.by_status == {"COMPLETED": 11, "WAITING": 1}
    assert (summary.refused, summary.out_of_order, summary.flagged) == (0, 1, {"flag": ["d-08"]})
    resubmitted = [
        trace.case for trace in log if [e.activity for e in trace.events].count(log[0].events[0].activity) > 1
    ]
    assert resubmitted == ["d-04", "d-05", "d-10", "d-11"]
    late = await store.log.query(EventQuery(types=(MilestoneSlaViolated.name,)))
    assert [(event.case, event.at.year) for event in late] == [("d-07", 2024), ("d-09", 2024)]
    states = {trace.case: fold(CaseId(trace.case), await store.load(CaseId(trace.case))) for trace in log}
    assert [case for case, state in states.items() if state.status is CaseStatus.WAITING] == ["d-07"]
    assert all("correction" in states[case].facts for case in (*resubmitted, "d-08"))


async def test_the_payment_without_an_approval_is_flagged_as_soon_as_it_is_requested(log: list[Any]) -> None:
    store = Kept()
    await replay(declaration, log, store=store)
    events = await store.load(CaseId("d-08"))
    flag = next(event for event in events if isinstance(event, ContextChanged) and "flag" in event.facts)
    order = next(event for event in events if isinstance(event, ContextChanged) and "payment_order" in event.facts)
    paid = next(event for event in events if isinstance(event, ContextChanged) and "payment" in event.facts)
    assert (flag.by, flag.at) == ("worker:flag_payment", order.at)
    assert flag.version < paid.version
    assert flag.facts["flag"] == "150.0 requested for declaration 8 without a final approval"
