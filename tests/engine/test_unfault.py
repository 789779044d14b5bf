"""A case that has faulted goes on: what happens again, what stays ended, and what is refused."""

from __future__ import annotations

import pytest

from casehub import (
    CaseDefinition,
    CaseEndedError,
    CaseStatus,
    CaseUnfaulted,
    DefinitionAdopted,
    GoalReached,
    IllegalTransitionError,
    InputRefusedError,
    Limits,
    MilestoneReached,
    MilestoneSlaViolated,
    Retry,
    Verdict,
    WorkerScheduled,
    present,
)
from casehub.inputs import RetryLetter, Unfault, Write
from casehub.lifecycle import MilestoneStatus
from casehub.values import Plain
from tests.engine.core import Core, names, of


def claim(**options: object) -> CaseDefinition:
    """amount -> risk, which is the goal, and beside it a slow check."""
    d = CaseDefinition("d", goal="risk", signals={"amount": int}, **options)  # type: ignore[arg-type]  # options by name

    @d.worker(writes="risk", retry=Retry(1), on_exhausted="fault_case")
    async def assess(amount: int) -> int:
        return amount

    @d.worker(writes="seen")
    async def check(amount: int) -> int:
        return amount

    return d


def faulted(d: CaseDefinition | None = None) -> Core:
    core = Core(d or claim())
    core.start(amount=3)
    core.raises("assess", OSError("away"))
    assert core.status is CaseStatus.FAULTED
    return core


def unfault(core: Core, *, retry: bool = True, **facts: Plain) -> list[str]:
    core.reload()
    return names(core.take(Unfault(facts=facts, retry=retry, by="user:ada", reason="it is back")))


def test_what_faulted_it_and_what_was_called_off_run_again_and_the_case_completes() -> None:
    core = faulted()
    assert unfault(core) == [
        "CASE_UNFAULTED", "DEAD_LETTER_RETRIED",
        "WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED", "WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED",
    ]  # fmt: skip
    (event,) = of(core.log, CaseUnfaulted)
    assert (event.before, event.after) == (CaseStatus.FAULTED, CaseStatus.RUNNING)
    assert (event.by, event.reason) == ("user:ada", "it is back")
    assert [a.id for a in core.state.activations.values()] == ["c/assess/2", "c/check/2"]
    core.run()
    assert core.status is CaseStatus.COMPLETED


def test_what_faulted_it_may_be_left_a_dead_letter_and_be_retried_later() -> None:
    core = faulted()
    assert "DEAD_LETTER_RETRIED" not in unfault(core, retry=False)
    assert core.running == ["check"]
    assert "WORKER_EXECUTION_FAILED: away" in core.why("assess").text
    core.take(RetryLetter(activation=of(core.log, WorkerScheduled)[0].activation))
    assert core.running == ["check", "assess"]


def test_facts_that_mend_it_are_brought_with_it() -> None:
    core = faulted()
    unfault(core, amount=5)
    core.run()
    assert core.facts["risk"] == 5
    assert core.state.facts["amount"].author == "ada"


def test_before_that_a_dead_letter_of_it_is_refused_with_the_way_on_and_explain_says_it_too() -> None:
    core = faulted()
    with pytest.raises(CaseEndedError, match="casehub case unfault c"):
        core.take(RetryLetter(activation=of(core.log, WorkerScheduled)[0].activation))
    assert core.why("assess").verdict is Verdict.ENDED
    assert "casehub case unfault" in core.why("assess").text


def test_cases_in_other_statuses_are_refused() -> None:
    core = Core(claim())
    core.start(amount=3)
    with pytest.raises(IllegalTransitionError, match="it is RUNNING, and only a case that is FAULTED can"):
        unfault(core)
    core.cancel()
    with pytest.raises(CaseEndedError, match="it is CANCELLED"):
        unfault(core)


def failing() -> CaseDefinition:
    d = CaseDefinition("d", signals={"amount": int})

    @d.worker(writes="risk")
    async def assess(amount: int) -> int:
        return amount

    d.goal("risk", present("risk"))
    d.goal("too_much", lambda amount: amount > 10, failure=True)
    return d


def test_a_failure_goal_that_still_holds_refuses_it_and_facts_that_end_this_do_not() -> None:
    core = Core(failing())
    core.start(amount=11)
    assert core.status is CaseStatus.FAULTED
    with pytest.raises(InputRefusedError, match=r"failure goal 'too_much' still holds .*bring the facts"):
        unfault(core)
    with pytest.raises(InputRefusedError, match="still holds"):
        unfault(core, amount=12)
    assert core.status is CaseStatus.FAULTED
    unfault(core, amount=9)
    assert core.status is CaseStatus.RUNNING
    assert core.state.goals == {}
    core.take(Write(signals=("amount",), facts={"amount": 20}))  # it can be reached again
    assert core.count(GoalReached, goal="too_much") == 2
    assert core.status is CaseStatus.FAULTED


def test_a_case_at_its_limit_of_events_is_refused_until_the_limit_is_raised() -> None:
    core = Core(claim(limits=Limits(events=8)))
    core.start(amount=3)
    core.returns("check", 3)
    assert core.status is CaseStatus.FAULTED
    with pytest.raises(InputRefusedError, match=r"cannot be unfaulted: its log has .* events and the limit is 8"):
        unfault(core)


def test_it_goes_on_under_the_definition_that_there_is_now_and_milestones_are_tested_anew() -> None:
    core = faulted()
    mended = claim()
    mended.milestone("known", when=lambda amount: amount > 0)
    core.structure = Core(mended).structure
    assert unfault(core)[:2] == ["DEFINITION_ADOPTED", "CASE_UNFAULTED"]
    assert core.count(DefinitionAdopted) == 1
    assert core.count(MilestoneReached, milestone="known") == 1


def test_a_service_level_counts_on_from_where_it_began() -> None:
    d = claim()
    d.milestone("rated", when=lambda risk: risk > 0, sla="1h")
    core = Core(d)
    core.start(amount=3)
    core.pass_time("30m")
    core.raises("assess", OSError("away"))
    core.pass_time("20m")
    unfault(core)
    assert core.state.milestone("rated").status is MilestoneStatus.ACTIVE
    core.pass_time("9m")
    assert core.count(MilestoneSlaViolated) == 0
    core.pass_time("1m")
    assert core.count(MilestoneSlaViolated) == 1
