"""Ready strategies that look at bindings, the agenda and a budget: each option changes what fires."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategy, PlanningStrategyLoopControl
from blackboard_ext.strategies import (
    Budgeted,
    CheapestFirst,
    ControlSource,
    EverythingEligible,
    FirstReady,
    FocusOfAttention,
    HighestPriority,
    LeastRecentlyFailed,
    OneAtATime,
    ThompsonSampling,
)
from casehub import (
    Binding,
    Budget,
    BudgetExhausted,
    CaseDefinition,
    CaseView,
    DeliberationFinished,
    DeliberationStarted,
    LimitReached,
    Limits,
    Permanent,
    SelectionDropped,
    SettingsError,
    WorkerScheduled,
    absent,
)
from casehub.spi import Answer
from casehub.testing import CaseTestKit
from tests.staging import idle


def control(strategy: PlanningStrategy) -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(strategy)


def three(goal: str = "never", cost: float = 1.0) -> CaseDefinition:
    """Three independent workers of different priority and cost; `late` reads a fact that `early` writes."""
    d = CaseDefinition("three", goal=goal, signals=["never", "more"])

    @d.worker(writes="a", priority=1, cost=3 * cost)
    async def early(x: int) -> int:
        return x

    @d.worker(writes="b", priority=5, cost=2 * cost)
    async def late(a: int) -> int:
        return a

    @d.worker(writes="c", priority=3, cost=1 * cost)
    async def other(x: int) -> int:
        return x

    return d


async def fired(d: CaseDefinition, strategy: PlanningStrategy, **facts: Any) -> list[str]:
    async with CaseTestKit(d, loop=control(strategy)) as kit:
        case = await kit.start(d, **facts)
        await kit.settle()
        return [event.binding for event in kit.events(case, WorkerScheduled)]


async def test_first_ready_takes_who_waits_longest_and_one_at_a_time_who_is_declared_first() -> None:
    d = three()
    assert await fired(d, FirstReady(), x=1) == ["early", "other", "late"]
    assert await fired(d, OneAtATime(), x=1) == ["early", "late", "other"]


# ---- budgeted


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (Budgeted(0), []),
        (Budgeted(1), ["other"]),
        (Budgeted(4), ["other", "early"]),
        (Budgeted(6), ["other", "early", "late"]),
        (Budgeted(1, per="step"), ["other"]),
        (Budgeted(4, per="step"), ["other", "early", "late"]),
    ],
    ids=["nothing", "one", "two", "all", "one a step", "four a step"],
)
async def test_a_budget_bounds_what_fires_in_a_case_or_a_step(budget: Budgeted, expected: list[str]) -> None:
    assert await fired(three(), budget, x=1) == expected


async def test_costs_that_add_up_to_the_budget_are_within_it() -> None:
    assert await fired(three(cost=0.1), Budgeted(0.6), x=1) == ["other", "early", "late"]


async def test_what_is_left_is_on_the_plan_and_what_is_too_dear_is_the_reason_of_the_stall() -> None:
    d = three()
    async with CaseTestKit(d, loop=control(Budgeted(4.5, resource="coins"))) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert (await case.state()).control.resources == {"coins": 0.5}
        assert "0.5 of 4.5 coins is left; the cheapest costs 2" in str((await case.explain("late"))[0])


async def test_what_was_chosen_and_did_not_fire_has_cost_nothing() -> None:
    d = CaseDefinition("d", goal="never", signals=["x", "never"])

    @d.worker(writes="a", cost=2)
    async def work(x: int) -> int:
        return x

    class Slow(Budgeted):
        """Is overtaken by a new fact the first time."""

        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Any) -> Any:
            answer = await super().select(plan, case, eligible)
            if case.context["x"] == 1:
                await running["case"].signal(x=2)
            return answer

    running: dict[str, Any] = {}
    async with CaseTestKit(d, loop=control(Slow(2))) as kit:
        running["case"] = case = await kit.start(d, step=True, x=1)
        for _ in range(2):
            await kit.step(case)
        assert [event.binding for event in kit.events(case, SelectionDropped)] == ["work"]
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == ["work"]
        assert (await case.state()).control.resources == {"cost": 0}


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(SettingsError, match="cannot be negative"):
        Budgeted(-1)


# ---- focus of attention


def dear(plan: CasePlanModel, case: CaseView, binding: Binding) -> float:
    return binding.cost


def urgent(plan: CasePlanModel, case: CaseView, binding: Binding) -> float:
    return binding.priority


@pytest.mark.parametrize(
    ("strategy", "first"),
    [
        (FocusOfAttention(ControlSource("dear", dear)), ["early"]),
        (FocusOfAttention(ControlSource("dear", dear), ControlSource("urgent", urgent, weight=2)), ["other"]),
        (FocusOfAttention(ControlSource("dear", dear, weight=-1)), ["other"]),
        (FocusOfAttention(ControlSource("dear", dear), count=2), ["early", "other"]),
        (FocusOfAttention(ControlSource("dear", dear, operative=lambda plan, case: "a" in case.context)), ["other"]),
        (FocusOfAttention(), ["other"]),
    ],
    ids=["one source", "weights", "against", "count", "not operative", "none"],
)
async def test_control_sources_weights_and_count_decide_what_is_attended_to(
    strategy: FocusOfAttention, first: list[str]
) -> None:
    d = three()
    async with CaseTestKit(d, loop=control(strategy)) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert list(kit.events(case, DeliberationFinished)[0].chosen) == first


async def test_the_focus_is_the_source_that_spoke_most_for_the_choice() -> None:
    d = three(goal="c")
    sources = ControlSource("dear", dear), ControlSource("urgent", urgent, weight=2)
    async with CaseTestKit(d, loop=control(FocusOfAttention(*sources))) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        plan = (await case.state()).control
        assert (plan.focus, plan.because) == ("urgent", "other: dear 1 + urgent 6; ratings: other 7, early 5")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: FocusOfAttention(count=0), "at least 1"),
        (lambda: FocusOfAttention(ControlSource("a", dear), ControlSource("a", urgent)), "one name"),
    ],
)
def test_a_focus_that_can_never_work_is_refused(make: Any, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        make()


# ---- least recently failed


async def test_the_one_whose_failure_is_the_longest_ago_is_tried_first_and_older_failures_are_forgotten() -> None:
    d = CaseDefinition("d", goal="done")

    @d.worker(writes="done", when=absent("done"))
    async def one(x: int) -> int:
        if x in (1, 3):
            raise Permanent("no")
        return x

    @d.worker(writes="done", when=absent("done"))
    async def two(x: int) -> int:
        if x == 2:
            raise Permanent("no")
        return x

    async with CaseTestKit(d, loop=control(LeastRecentlyFailed(since="1h"))) as kit:
        tried: list[list[str]] = []
        for x in (1, 2, 3):
            case = await kit.start(d, x=x)
            await kit.settle()
            tried.append([event.binding for event in kit.events(case, WorkerScheduled)])
        assert tried == [["one", "two"], ["two", "one"], ["one", "two"]]
        case = await kit.start(d, x=0)
        await kit.settle()
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == ["two"]
        await kit.advance("2h")
        case = await kit.start(d, x=0)
        await kit.settle()
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == ["one"]


# ---- what a limit or a budget holds back is not offered


@pytest.mark.parametrize(
    "strategy",
    [
        EverythingEligible(),
        OneAtATime(),
        FirstReady(),
        HighestPriority(),
        CheapestFirst(),
        Budgeted(50),
        LeastRecentlyFailed(),
        FocusOfAttention(),
        ThompsonSampling(),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
@pytest.mark.parametrize(
    ("options", "said"),
    [({"limit": 3}, LimitReached), ({"budget": Budget(calls=3)}, BudgetExhausted)],
    ids=["limit", "budget"],
)
async def test_no_strategy_insists_on_what_a_limit_or_a_budget_holds_back(
    strategy: PlanningStrategy, options: dict[str, Any], said: Any
) -> None:
    d = CaseDefinition("d", goal="done")

    @d.worker(writes="seen", refire="always", priority=5, **options)
    async def look(x: int) -> int:
        return x

    @d.worker(writes="done", cost=5)
    async def finish(seen: int) -> int:
        return seen

    async with CaseTestKit(d, loop=control(strategy)) as kit:
        case = await kit.start(d, x=1)
        assert (await case.completed())["done"] == 1
        assert not kit.events(case, SelectionDropped)
        told = kit.events(case, said)
        held = [
            event.eligible
            for event in kit.events(case, DeliberationStarted)
            if told and event.version > told[0].version
        ]
        assert len(told) <= 1
        assert not any("look" in names for names in held)


async def test_a_strategy_is_not_asked_while_there_is_no_room_for_what_it_would_choose() -> None:
    d = three(goal="b")
    d.limits = Limits(concurrency=1)
    async with CaseTestKit(d, loop=control(OneAtATime())) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert [event.eligible for event in kit.events(case, DeliberationStarted)][:2] == [
            ("early", "other"),
            ("late", "other"),
        ]
        assert not kit.events(case, SelectionDropped)


async def test_what_a_limit_holds_back_does_not_have_a_strategy_asked_about_its_own_answer() -> None:
    d = CaseDefinition("d", goal="done", signals=["done"])

    @d.worker(writes="seen", refire="always", limit=1)
    async def look(x: int) -> int:
        return x

    @d.worker(writes="done")
    async def finish(x: int) -> int:
        await asyncio.Event().wait()
        return x

    @d.worker(writes="spare")
    async def spare(x: int) -> int:
        return x

    asked: list[list[str]] = []

    class InOrder:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            asked.append([binding.name for binding in eligible])
            return eligible[:1]

    async with CaseTestKit(d, loop=control(InOrder())) as kit:
        case = await kit.start(d, x=1)
        for _ in range(5):
            await idle()
        assert asked == [["look", "finish", "spare"], ["finish", "spare"]]
        await case.signal(done=1)
        await case.completed()
