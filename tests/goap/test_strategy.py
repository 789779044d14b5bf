"""Cases worked by a plan: over the definition as it is declared, made anew after every completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from blackboard_ext import PlanFormulated, PlanningStrategyLoopControl
from blackboard_ext.goap import Bounds, GoapStrategy
from casehub import (
    ABSENT,
    CaseDefinition,
    CaseStalledError,
    DeliberationFailed,
    DeliberationFinished,
    Permanent,
    Signal,
    WorkerScheduled,
    absent,
    all_of,
    any_of,
    present,
)
from casehub.case import Case
from casehub.testing import CaseTestKit


def kit_of(definition: CaseDefinition, **options: Any) -> CaseTestKit:
    return CaseTestKit(definition, loop=PlanningStrategyLoopControl(GoapStrategy(**options)))


def fired(kit: CaseTestKit, case: Case) -> list[str]:
    return [event.binding for event in kit.events(case, WorkerScheduled)]


def plans(kit: CaseTestKit, case: Case) -> list[str]:
    return [" ".join(event.steps) for event in kit.events(case, PlanFormulated)]


def insights() -> CaseDefinition:
    d = CaseDefinition("insights", goal="insights", signals=["name", "orders"])

    @d.worker(writes="name")
    async def extract(question: str) -> str:
        return question.title()

    @d.worker(writes="orders")
    async def load(name: str) -> list[int]:
        return [1, 2]

    @d.worker(writes="insights")
    async def build(name: str, orders: list[int]) -> str:
        return f"{name}: {len(orders)}"

    @d.worker(writes="gossip")
    async def chat(name: str) -> str:
        return "nothing that is wanted"

    return d


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, ["extract", "load", "build"]),
        ({"name": "Zaphod"}, ["load", "build"]),
        ({"name": "Zaphod", "orders": [1]}, ["build"]),
    ],
)
async def test_what_is_known_need_not_be_found_out_and_what_does_not_help_does_not_fire(
    known: Mapping[str, Any], expected: list[str]
) -> None:
    d = insights()
    async with kit_of(d) as kit:
        case = await kit.start(d, question="zaphod", **known)
        await case.completed()
        assert fired(kit, case) == expected
        assert plans(kit, case) == [" ".join(expected)]  # nothing changes on the way


async def test_what_is_independent_runs_together_and_each_choice_says_its_plan() -> None:
    d = CaseDefinition("diamond", goal="d")

    @d.worker(writes="a")
    async def first(s: int) -> int:
        return s

    @d.worker(writes="b")
    async def left(a: int) -> int:
        return a

    @d.worker(writes="c")
    async def right(a: int) -> int:
        return a

    @d.worker(writes="d")
    async def join(b: int, c: int) -> int:
        return b + c

    async with kit_of(d) as kit:
        case = await kit.start(d, s=1)
        await case.completed()
        answers = [event for event in kit.events(case, DeliberationFinished) if event.chosen]
        assert [event.chosen for event in answers] == [("first",), ("left", "right"), ("join",)]
        assert answers[0].rationale == "d: first -> left -> right -> join, cost 4"
        assert (await case.state()).control.intended == ()


async def test_what_fails_for_good_is_gone_around_and_the_plan_says_why() -> None:
    d = CaseDefinition("around", goal="report")

    @d.worker(writes="score", cost=1)
    async def fast(document: str) -> int:
        raise Permanent("no network")

    @d.worker(writes="score", cost=5)
    async def thorough(document: str) -> int:
        return 7

    @d.worker(writes="report", cost=1)
    async def write(score: int) -> str:
        return str(score)

    async with kit_of(d) as kit:
        case = await kit.start(d, document="x")
        assert (await case.completed())["report"] == "7"
        assert fired(kit, case) == ["fast", "thorough", "write"]
        first, second = kit.events(case, PlanFormulated)
        assert (first.goal, first.steps, first.cost, first.before) == ("report", ("fast", "write"), 2, ())
        assert (second.steps, second.cost, second.before) == (("thorough", "write"), 6, ("write",))
        assert second.because == "fast has ended (FAULTED) without score"


async def test_who_does_not_bring_what_it_writes_is_gone_around() -> None:
    d = CaseDefinition("silent", goal="answer")

    @d.worker(writes="answer", cost=1)
    async def guess(question: str) -> str | None:
        return None

    @d.worker(writes="answer", cost=3)
    async def research(question: str) -> str:
        return "42"

    async with kit_of(d) as kit:
        case = await kit.start(d, question="?")
        assert (await case.completed())["answer"] == "42"
        assert fired(kit, case) == ["guess", "research"]
        assert kit.events(case, PlanFormulated)[1].because == "guess has ended (COMPLETED) without answer"


async def test_without_a_plan_the_case_stalls_with_what_is_missing_and_goes_on_when_that_comes() -> None:
    d = CaseDefinition("lacking", goal="report", signals=["approval"])

    @d.worker(writes="draft")
    async def write(document: str) -> str:
        return document

    @d.worker(writes="report")
    async def publish(draft: str, approval: bool) -> str:
        return draft

    async with kit_of(d) as kit:
        case = await kit.start(d, document="x")
        with pytest.raises(CaseStalledError, match="approval, which nobody brings; a signal may bring approval"):
            await case.completed()
        assert fired(kit, case) == []
        await case.signal(approval=True)
        assert (await case.completed())["report"] == "x"
        assert fired(kit, case) == ["write", "publish"]


async def test_the_cheapest_of_the_ways_to_complete_is_taken() -> None:
    d = CaseDefinition("ways", goal=any_of(all_of("checked", "signed"), "waived"))

    @d.worker(writes="checked", cost=2)
    async def check(x: int) -> int:
        return x

    @d.worker(writes="signed", cost=2)
    async def sign(x: int) -> int:
        return x

    @d.worker(writes="waived", cost=3)
    async def waive(x: int) -> int:
        return x

    async with kit_of(d) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert fired(kit, case) == ["waive"]


async def test_guards_are_needs_and_what_writes_their_facts_may_bring_them() -> None:
    d = CaseDefinition("guarded", goal="decision")

    @d.worker(writes="risk")
    async def assess(amount: int, objection: str = "") -> int:
        return amount // 10

    @d.worker(writes="decision", when=lambda risk: risk < 5, cost=1)
    async def approve(amount: int) -> str:
        return "approved"

    @d.worker(writes="review", when=absent("objection"))
    async def review(risk: int) -> str:
        return "seen"

    @d.worker(writes="decision", when=present("review") & absent("objection"), cost=9)
    async def refer(amount: int) -> str:
        return "referred"

    async with kit_of(d) as kit:
        case = await kit.start(d, amount=10)
        await case.completed()
        assert fired(kit, case) == ["assess", "approve"]
        case = await kit.start(d, amount=100)
        await case.completed()
        assert fired(kit, case) == ["assess", "review", "refer"]
        case = await kit.start(d, amount=100, objection="no")
        with pytest.raises(CaseStalledError, match="refer: GUARD_FALSE"):
            await case.completed()
        assert fired(kit, case) == ["assess"]


async def test_a_goal_that_was_reached_counts_though_its_fact_is_gone() -> None:
    d = CaseDefinition("sticky", goal=all_of("first", "second"))

    @d.worker(writes="first", when=absent("second"))
    async def one(x: int) -> int:
        return x

    @d.worker(writes=("second", "first"))
    async def two(first: int) -> dict[str, Any]:
        return {"second": 2, "first": ABSENT}

    async with kit_of(d) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert fired(kit, case) == ["one", "two"]


async def test_bindings_that_wait_for_an_occurrence_are_no_steps() -> None:
    d = CaseDefinition("occurring", goal="done", signals=["go"])

    @d.worker(writes="done", on=Signal("go"), cost=0)
    async def when_told(x: int) -> int:
        return x

    @d.worker(writes="done", cost=5)
    async def anyway(x: int) -> int:
        return x

    async with kit_of(d) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert fired(kit, case) == ["anyway"]


async def test_a_binding_that_fires_once_is_planned_for_once() -> None:
    d = CaseDefinition("once", goal="out")

    @d.worker(writes="chat")
    async def idle(x: int) -> int:
        return x

    @d.worker(writes=("mid", "token"), refire="once")
    async def make(x: int) -> dict[str, Any]:
        return {"mid": 1, "token": 1}

    @d.worker(writes=("out", "mid"))
    async def spend(mid: int) -> dict[str, Any]:
        return {"mid": ABSENT}

    async with kit_of(d) as kit:
        case = await kit.start(d, x=1)
        with pytest.raises(CaseStalledError, match="held back: make"):
            await case.completed()
        assert fired(kit, case) == ["make", "spend"]


async def test_a_definition_that_wants_nothing_cannot_be_planned_for() -> None:
    d = CaseDefinition("aimless", at_quiescence=True)

    @d.worker(writes="y")
    async def work(x: int) -> int:
        return x

    async with kit_of(d) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        failed = kit.events(case, DeliberationFailed)
        assert failed
        assert "definition 'aimless' has no goal, so there is nothing to plan for" in str(failed[0])


async def test_a_bound_that_is_reached_is_the_reason_of_the_stall() -> None:
    d = CaseDefinition("bounded", goal=all_of("left", "right"))

    @d.worker(writes="left", when=absent("right"))
    async def go_left(x: int) -> int:
        return x

    @d.worker(writes="right", when=absent("left"))
    async def go_right(x: int) -> int:
        return x

    async with kit_of(d, bounds=Bounds(nodes=0)) as kit:
        case = await kit.start(d, x=1)
        with pytest.raises(CaseStalledError, match="no plan within 0 states or 1 s"):
            await case.completed()
    async with kit_of(d) as kit:
        case = await kit.start(d, x=1)
        with pytest.raises(CaseStalledError, match="what it needs cannot hold at the same time"):
            await case.completed()


def orders(found: list[int], *, fallback: bool = True) -> CaseDefinition:
    """Nobody has looked whether the customer is known; the cheap look-up promises orders."""
    d = CaseDefinition("orders", goal="insights")
    d.condition("known")

    @d.condition
    def has_orders(orders: list[int]) -> bool:
        return bool(orders)

    @d.worker(writes="known", brings="known")
    async def recognise(question: str) -> bool:
        return question != "?"

    @d.worker(writes="orders", needs="known", brings=has_orders, cost=1)
    async def look_up(question: str) -> list[int]:
        return found

    if fallback:

        @d.worker(writes="orders", brings=has_orders, cost=5)
        async def search(question: str) -> list[int]:
            return [1, 2, 3]

    @d.worker(writes="insights", needs=has_orders)
    async def build(orders: list[int]) -> str:
        return f"{len(orders)} orders"

    return d


async def test_conditions_are_needed_and_brought_and_one_that_is_unknown_is_found_out_by_who_brings_it() -> None:
    d = orders([1])
    async with kit_of(d) as kit:
        case = await kit.start(d, question="Ada")
        assert (await case.completed())["insights"] == "1 orders"
        assert plans(kit, case) == ["recognise look_up build"]


async def test_who_does_not_bring_the_condition_that_was_promised_is_gone_around() -> None:
    d = orders([])
    async with kit_of(d) as kit:
        case = await kit.start(d, question="Ada")
        assert (await case.completed())["insights"] == "3 orders"
        assert fired(kit, case) == ["recognise", "look_up", "search", "build"]
        assert (
            kit.events(case, PlanFormulated)[1].because == "look_up has ended (COMPLETED) without holds('has_orders')"
        )


async def test_a_condition_that_turns_out_not_to_hold_makes_another_plan() -> None:
    d = orders([1])
    async with kit_of(d) as kit:
        case = await kit.start(d, question="?")
        assert (await case.completed())["insights"] == "3 orders"
        assert fired(kit, case) == ["recognise", "search", "build"]


async def test_where_nobody_else_brings_it_the_stall_names_the_condition() -> None:
    d = orders([], fallback=False)
    async with kit_of(d) as kit:
        case = await kit.start(d, question="Ada")
        with pytest.raises(
            CaseStalledError, match=r"build: GUARD_FALSE - its guard holds\('has_orders'\) does not hold"
        ):
            await case.completed()


async def test_only_who_promises_a_condition_is_counted_on_to_bring_it() -> None:
    d = CaseDefinition("promised", goal="done")
    d.condition("good", when=lambda score: score > 5)

    @d.worker(writes="score", cost=0)
    async def guess(x: int) -> int:
        return 9

    @d.worker(writes="score", brings="good", cost=3)
    async def measure(x: int) -> int:
        return 7

    @d.worker(writes="done", needs="good")
    async def finish(x: int) -> int:
        return x

    async with kit_of(d) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert fired(kit, case) == ["measure", "finish"]


async def test_a_compensation_is_no_step() -> None:
    d = CaseDefinition("undone", goal="refund", signals=["refund"])

    @d.worker(writes="booking")
    async def book(x: int) -> int:
        return x

    @d.worker(writes="refund", compensates=book, cost=0)
    async def cancel(booking: int) -> int:
        return booking

    async with kit_of(d) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert fired(kit, case) == []
