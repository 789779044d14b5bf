"""Bounds of a case: firings, events, concurrency; and budgets."""

from __future__ import annotations

from typing import Any

import pytest

from casehub import (
    Budget,
    BudgetExhausted,
    CaseDefinition,
    CaseFaulted,
    CaseStatus,
    LimitReached,
    Limits,
    Verdict,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.policies import Retry
from tests.engine.core import Core, of


def looping(**options: Any) -> Core:
    """A case with two bindings that feed each other."""
    d = CaseDefinition("d", goal="never", external=["never"], signals=["ping"], **options)

    @d.worker(writes="pong")
    async def one(ping: int) -> int:
        return ping + 1

    @d.worker(writes="ping")
    async def other(pong: int) -> int:
        return pong + 1

    core = Core(d)
    core.start(ping=0)
    return core


def test_a_binding_fires_up_to_its_limit_and_says_so_once() -> None:
    core = looping(limits=Limits(firings_per_binding=3))
    core.run()
    assert core.count(WorkerScheduled, binding="one") == 3
    reached = of(core.log, LimitReached)
    assert [(e.limit, e.subject, e.value) for e in reached] == [("firings_per_binding", "one", 3)]
    core.signal(ping=1000)
    core.signal(ping=2000)
    assert core.running == []
    assert core.count(LimitReached) == 1
    said = core.why("one")
    assert said.verdict is Verdict.LIMIT
    assert "firings_per_binding (3)" in said.text


def test_a_bindings_own_limit_comes_before_that_of_the_case() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"], limits=Limits(firings_per_binding=9))

    @d.worker(writes="b", refire="always", limit=2)
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    assert core.run() == ["work", "work"]


def test_a_case_fires_up_to_its_limit() -> None:
    core = looping(limits=Limits(firings=5))
    core.run()
    assert core.count(WorkerScheduled) == 5
    assert [(e.limit, e.subject) for e in of(core.log, LimitReached)] == [("firings", "case")]


def test_a_log_that_is_too_long_faults_the_case_with_the_reason() -> None:
    core = looping(limits=Limits(events=30))
    core.run()
    assert core.status is CaseStatus.FAULTED
    assert "the limit is 30" in of(core.log, CaseFaulted)[0].reason
    assert len(core.log) < 40


def test_no_more_activations_than_the_limit_are_in_flight_and_the_rest_follow() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], limits=Limits(concurrency=2))

    async def work(a: int) -> int:
        return a

    for number in range(5):
        d.worker(name=f"w{number}", writes=f"out{number}")(work)
    core = Core(d)
    core.start(a=1)
    assert core.running == ["w0", "w1"]
    assert core.why("w4").verdict is Verdict.LIMIT
    assert core.count(LimitReached) == 0  # held for a moment, not for good
    core.returns("w1", 1)
    assert core.running == ["w0", "w2"]
    core.run()
    assert {f"out{n}" for n in range(5)} <= core.facts.keys()


def test_a_waiting_retry_counts_as_in_flight() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], limits=Limits(concurrency=1))

    async def work(a: int) -> int:
        return a

    for name in ("x", "y"):
        d.worker(name=name, writes=f"by_{name}", retry=Retry(2, jitter=False))(work)
    core = Core(d)
    core.start(a=1)
    core.raises("x", OSError("away"))
    assert core.running == []
    core.pass_time("1s")
    core.returns("x", 1)
    assert core.running == ["y"]


def spending(budget: Budget | None = None, **options: Any) -> Core:
    """A case whose one worker runs for each new `a`."""
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"], budget=budget)

    @d.worker(writes="b", retry=Retry(3, wait="1s", jitter=False), **options)
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=0)
    return core


def test_calls_are_counted_by_attempt() -> None:
    core = spending(Budget(calls=3))
    core.raises("work", OSError("away"))
    core.pass_time("1s")
    core.returns("work", 1)
    core.signal(a=1)
    core.returns("work", 2)
    core.signal(a=2)
    assert core.running == []
    assert core.count(WorkerExecutionStarted) == 3
    said = core.why("work")
    assert said.verdict is Verdict.BUDGET
    assert "case.calls (3)" in said.text


def test_what_an_attempt_charges_is_spent_whatever_its_outcome() -> None:
    core = spending(Budget(tokens=100))
    core.returns("work", 1, charges={"tokens": 60.0})
    core.signal(a=1)
    assert core.running == ["work"]
    core.returns("work", 1, charges={"tokens": 40.0})
    core.signal(a=2)
    assert core.running == []
    exhausted = of(core.log, BudgetExhausted)
    assert [(e.scope, e.unit, e.limit) for e in exhausted] == [("case", "tokens", 100.0)]


def test_exhaustion_is_said_once() -> None:
    core = spending(Budget(calls=1))
    core.returns("work", 1)
    for a in range(1, 5):
        core.signal(a=a)
    assert core.count(BudgetExhausted) == 1


def test_a_bindings_budget_holds_it_alone_back() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"])

    @d.worker(writes="b", budget=Budget(calls=1))
    async def dear(a: int) -> int:
        return a

    @d.worker(writes="c")
    async def free(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=0)
    core.run()
    core.signal(a=1)
    assert core.run() == ["free"]
    assert [(e.scope, e.unit) for e in of(core.log, BudgetExhausted)] == [("dear", "calls")]


def test_an_estimate_is_reserved_before_the_work_and_settled_by_what_it_charged() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], budget=Budget(tokens=100), signals=["a"])

    async def work(a: int) -> int:
        return a

    for name in ("x", "y"):
        d.worker(name=name, writes=f"by_{name}", estimate=Budget(tokens=60))(work)
    core = Core(d)
    core.start(a=0)
    assert core.running == ["x"]  # 60 are reserved, 60 more would break 100
    assert core.why("y").verdict is Verdict.BUDGET
    core.returns("x", 1, charges={"tokens": 10.0})
    assert core.running == ["y"]  # 10 are spent, 60 fit


def test_an_estimate_larger_than_the_budget_never_fires() -> None:
    core = spending(Budget(tokens=100), estimate=Budget(tokens=101))
    assert core.running == []
    assert core.why("work").verdict is Verdict.BUDGET


def test_a_daily_budget_is_spent_by_day() -> None:
    core = spending(Budget(calls=2, per="day"))
    core.returns("work", 1)
    core.signal(a=1)
    core.returns("work", 1)
    core.signal(a=2)
    assert core.running == []
    core.pass_time("12h")  # midnight, UTC
    core.signal(a=3)
    assert core.running == ["work"]


def test_a_daily_budget_lets_the_case_go_on_at_midnight_by_itself() -> None:
    core = spending(Budget(calls=1, per="day"))
    core.returns("work", 1)
    core.signal(a=1)
    assert core.running == []
    assert core.state.stalled == ()
    core.pass_time("11h 59m 59s")
    assert core.running == []
    core.pass_time("1s")
    assert core.running == ["work"]


def test_a_daily_budget_says_each_day_that_it_is_exhausted() -> None:
    core = spending(Budget(calls=1, per="day"))
    for day in range(3):
        core.returns("work", 1)
        core.signal(a=day + 1)
        assert core.count(BudgetExhausted) == day + 1
        core.pass_time("1d")


def test_money_may_be_fractions() -> None:
    core = spending(Budget(money=1.0))
    core.returns("work", 1, charges={"money": 0.75})
    core.signal(a=1)
    core.returns("work", 1, charges={"money": 0.5})
    core.signal(a=2)
    assert core.running == []
    assert core.state.spending.spent("case", "money") == pytest.approx(1.25)


def test_a_case_without_a_budget_spends_what_it_likes() -> None:
    core = spending()
    for a in range(1, 20):
        core.returns("work", 1, charges={"tokens": 1e9})
        core.signal(a=a)
    assert core.running == ["work"]
    assert core.count(BudgetExhausted) == 0
