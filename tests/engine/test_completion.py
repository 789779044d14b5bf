"""Goals, expressions over them, and what completes a case; in which order."""

from __future__ import annotations

import pytest

from casehub import (
    CaseCompleted,
    CaseDefinition,
    CaseFaulted,
    CaseStatus,
    GoalExpression,
    GoalReached,
    WorkerExecutionCancelled,
    WorkerScheduled,
    absent,
    all_of,
    any_of,
    present,
)
from tests.engine.core import Core, names, of


def with_goal(goal: str | GoalExpression) -> Core:
    """A started case that waits for signals `a`, `b`, `c`."""
    core = Core(CaseDefinition("d", goal=goal, signals=["a", "b", "c"]))
    core.start()
    return core


def test_a_fact_named_as_the_goal_completes_the_case() -> None:
    core = with_goal("a")
    assert names(core.signal(a=1))[-2:] == ["GOAL_REACHED", "CASE_COMPLETED"]
    assert core.log[-1].reason == "goal a"  # type: ignore[attr-defined]  # a CaseCompleted


def test_all_of_needs_them_all() -> None:
    core = with_goal(all_of("a", "b"))
    core.signal(a=1)
    assert not core.status.ended
    core.signal(b=1)
    assert core.status is CaseStatus.COMPLETED


def test_any_of_needs_one() -> None:
    core = with_goal(any_of("a", "b"))
    core.signal(b=1)
    assert core.status is CaseStatus.COMPLETED


def test_more_than_enough_is_enough() -> None:
    core = with_goal(any_of("a", "b"))
    core.signal(a=1, b=1)
    assert core.status is CaseStatus.COMPLETED
    assert core.count(GoalReached) == 2
    assert core.count(CaseCompleted) == 1


@pytest.mark.parametrize(
    ("signals", "done"),
    [(["a"], False), (["b"], False), (["a", "b"], True), (["c"], True), (["a", "c"], True)],
)
def test_expressions_nest(signals: list[str], done: bool) -> None:
    core = with_goal(any_of(all_of("a", "b"), "c"))
    core.signal(**dict.fromkeys(signals, 1))
    assert (core.status is CaseStatus.COMPLETED) is done


def test_a_goal_is_reached_once_whatever_changes_afterwards() -> None:
    core = with_goal(all_of("a", "b"))
    for value in range(10):
        core.signal(a=value)
    core.delete("a")
    core.signal(a=99)
    assert core.count(GoalReached, goal="a") == 1
    core.signal(b=1)
    assert core.status is CaseStatus.COMPLETED


def test_a_declared_goal_has_a_condition() -> None:
    d = CaseDefinition("d", goal="rich", signals={"money": int})
    d.goal("rich", lambda money: money > 100)
    core = Core(d)
    core.start(money=5)
    assert not core.status.ended
    core.signal(money=101)
    assert core.status is CaseStatus.COMPLETED


def test_a_goal_that_holds_without_any_fact_is_reached_at_the_start() -> None:
    d = CaseDefinition("d", goal="quiet", signals=["noise"])
    d.goal("quiet", absent("noise"))
    core = Core(d)
    core.start()
    assert core.status is CaseStatus.COMPLETED
    other = Core(d)
    other.start(noise=1)
    assert not other.status.ended


def test_a_failure_goal_faults_the_case() -> None:
    d = CaseDefinition("d", goal="good", signals=["good", "fraud"])
    d.goal("bad", present("fraud"), failure=True)
    core = Core(d)
    core.start()
    core.signal(fraud=True)
    assert core.status is CaseStatus.FAULTED
    assert "failure goal 'bad'" in of(core.log, CaseFaulted)[0].reason


def test_success_comes_before_failure_where_one_change_brings_both() -> None:
    d = CaseDefinition("d", goal="good", signals=["good", "fraud"])
    d.goal("bad", present("fraud"), failure=True)
    core = Core(d)
    core.start()
    core.signal(fraud=True, good=True)
    assert core.status is CaseStatus.COMPLETED


def test_done_when_completes_the_case() -> None:
    core = Core(CaseDefinition("d", done_when=present("a") & absent("b"), signals=["a", "b"]))
    core.start(b=1)
    core.signal(a=1)
    assert not core.status.ended
    core.delete("b")
    assert core.status is CaseStatus.COMPLETED
    assert "done_when" in core.state.reason


def test_at_quiescence_completes_the_case_when_nothing_is_left_to_do() -> None:
    d = CaseDefinition("d", at_quiescence=True)

    @d.worker(writes="b")
    async def one(a: int) -> int:
        return a

    @d.worker(writes="c")
    async def two(b: int) -> int:
        return b

    core = Core(d)
    core.start(a=1)
    core.returns("one", 1)
    assert not core.status.ended
    core.returns("two", 1)
    assert core.status is CaseStatus.COMPLETED
    assert core.state.reason == "quiescent"


def test_goals_are_tested_before_anything_is_dispatched() -> None:
    d = CaseDefinition("d", goal="a", signals=["a"])

    @d.worker(writes="b")
    async def wasted(a: int) -> int:
        return a

    core = Core(d)
    core.start()
    core.signal(a=1)
    assert core.status is CaseStatus.COMPLETED
    assert core.count(WorkerScheduled) == 0


def test_a_case_may_be_complete_when_it_starts() -> None:
    core = Core(CaseDefinition("d", goal="a", signals=["a"]))
    events = core.start(a=1)
    assert names(events) == ["CASE_STARTED", "CONTEXT_CHANGED", "GOAL_REACHED", "CASE_COMPLETED"]


def test_milestones_settle_before_the_case_completes() -> None:
    d = CaseDefinition("d", goal="a", signals=["a"])
    d.milestone("seen", present("a"))
    core = Core(d)
    core.start()
    assert names(core.signal(a=1)) == [
        "SIGNAL_RECEIVED",
        "CONTEXT_CHANGED",
        "MILESTONE_REACHED",
        "GOAL_REACHED",
        "CASE_COMPLETED",
    ]


def test_what_runs_when_the_case_completes_is_called_off_before_its_end() -> None:
    d = CaseDefinition("d", goal="a", signals=["a"])

    @d.worker(writes="c")
    async def slow(b: int) -> int:
        return b

    core = Core(d)
    core.start(b=1)
    assert core.running == ["slow"]
    events = core.signal(a=1)
    assert names(events)[-2:] == ["WORKER_EXECUTION_CANCELLED", "CASE_COMPLETED"]
    assert of(events, WorkerExecutionCancelled)[0].reason == "the case is COMPLETED"
    assert core.state.activations == {}


def test_timers_of_a_case_that_ends_go_with_it() -> None:
    d = CaseDefinition("d", goal="a", signals=["a", "b"])
    d.milestone("late", present("b"), sla="1h")
    core = Core(d)
    core.start()
    core.signal(a=1)
    assert core.state.timers == {}
    assert core.turn is not None
    assert core.turn.timers == {"sla:late": None}


@pytest.mark.parametrize("where", ["goal", "done_when"])
def test_a_raising_condition_faults_the_case_and_says_where(where: str) -> None:
    def broken(a: int) -> bool:
        raise LookupError("no such rate")

    d = CaseDefinition("d", goal="b" if where == "done_when" else "good", signals=["a", "b"])
    if where == "goal":
        d.goal("good", broken)
    else:
        d.done_when = CaseDefinition("other", done_when=broken).done_when
    core = Core(d)
    core.start()
    core.signal(a=1)
    assert core.status is CaseStatus.FAULTED
    assert "raised LookupError: no such rate" in core.state.reason
    assert where in core.state.reason
    assert core.count(CaseFaulted) == 1


def test_a_raising_guard_faults_the_case_and_names_the_binding() -> None:
    d = CaseDefinition("d", goal="b", signals=["a"])

    @d.worker(writes="b", when=lambda a: a["x"] > 1)
    async def work(a: dict[str, int]) -> int:
        return 1

    core = Core(d)
    core.start()
    events = core.signal(a={})
    assert names(events) == ["SIGNAL_RECEIVED", "CONTEXT_CHANGED", "CASE_FAULTED"]
    assert "the guard of binding 'work' raised KeyError" in core.state.reason


def test_a_case_that_faults_at_its_start_has_both_in_its_log() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", when=lambda a: a / 0)
    async def work(a: int) -> int:
        return 1

    core = Core(d)
    assert names(core.start(a=1)) == ["CASE_STARTED", "CONTEXT_CHANGED", "CASE_FAULTED"]
