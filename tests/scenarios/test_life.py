"""A loan application is held, resumed and withdrawn: what each status allows."""

from __future__ import annotations

import pytest

from casehub import (
    CaseCancelled,
    CaseDefinition,
    CaseEndedError,
    CaseNotFoundError,
    CaseStatus,
    CaseStatusChanged,
    IllegalTransitionError,
    WorkerExecutionStarted,
)
from casehub.testing import CaseTestKit

runs: list[str] = []


def loan() -> CaseDefinition:
    """An application is scored when it is there, and decided by a person's signal."""
    runs.clear()
    d = CaseDefinition("loan", goal="decision", signals={"income": int, "decision": str})

    @d.worker(writes="score")
    async def score(income: int) -> float:
        runs.append("score")
        return income / 1000

    return d


async def test_a_running_case_that_is_cancelled_is_cancelled_and_the_log_says_so() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, income=50_000)
        await case.cancel(by="user:ada", reason="withdrawn")
        assert await case.status() is CaseStatus.CANCELLED
        (end,) = kit.events(case, CaseCancelled)
        assert (end.by, end.reason) == ("user:ada", "withdrawn")
        assert kit.events(case)[-1] is end


async def test_a_suspended_case_that_is_cancelled_is_cancelled() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.suspend()
        await case.cancel()
        assert await case.status() is CaseStatus.CANCELLED


async def test_a_completed_case_cannot_be_cancelled_because_its_status_is_terminal() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(decision="approve")
        with pytest.raises(CaseEndedError, match="it is COMPLETED, a terminal status"):
            await case.cancel()


@pytest.mark.parametrize("verb", ["cancel", "suspend", "resume"])
async def test_a_case_that_never_was_is_not_found(verb: str) -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        with pytest.raises(CaseNotFoundError, match="there is no case 'loan-77'"):
            await getattr(kit.hub.case("loan-77"), verb)()


async def test_a_case_is_suspended_once_and_a_second_time_is_an_error_that_names_running() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, income=1)
        await case.suspend()
        assert await case.status() is CaseStatus.SUSPENDED
        with pytest.raises(IllegalTransitionError, match="RUNNING"):
            await case.suspend()


async def test_a_suspended_case_that_is_signalled_runs_its_worker_zero_times_until_it_is_resumed() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.suspend()
        await case.signal(income=50_000)
        await kit.advance("1d")
        assert runs == []
        await case.resume()
        await kit.settle()
        assert runs == ["score"]


async def test_a_running_case_cannot_be_resumed_and_a_good_resume_is_in_the_log() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, income=1)
        with pytest.raises(IllegalTransitionError, match="SUSPENDED"):
            await case.resume()
        await case.suspend()
        await case.resume(by="user:ada", reason="papers came in")
        resumed = [e for e in kit.events(case, CaseStatusChanged) if e.before is CaseStatus.SUSPENDED]
        assert [(e.after, e.by, e.reason) for e in resumed] == [
            (CaseStatus.RUNNING, "user:ada", "papers came in"),
        ]


async def test_of_two_cases_of_one_definition_the_end_of_one_leaves_the_other_as_it_was() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        ada, grace = await kit.start(d, income=10_000), await kit.start(d, income=20_000)
        await kit.settle()
        before = (dict(await grace.context()), (await grace.state()).version, await grace.status())
        await ada.signal(decision="refer")
        assert await ada.status() is CaseStatus.COMPLETED
        assert (dict(await grace.context()), (await grace.state()).version, await grace.status()) == before


async def test_a_withdrawn_application_takes_nothing_more() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.cancel()
        before = len(kit.events(case))
        with pytest.raises(CaseEndedError, match="terminal"):
            await case.signal(income=5)
        assert len(kit.events(case)) == before
        assert kit.events(case, WorkerExecutionStarted) == []
