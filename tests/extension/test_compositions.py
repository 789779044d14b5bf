"""Strategies made of strategies: what each of them does with the answers of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from blackboard_ext import CasePlanModel, NoteWritten, PlanningStrategy, PlanningStrategyLoopControl
from blackboard_ext.strategies import (
    CheapestFirst,
    EverythingEligible,
    HighestPriority,
    OneAtATime,
    fallback,
    per_definition,
    within_stage,
)
from casehub import (
    Binding,
    CaseDefinition,
    CaseView,
    Defer,
    DeliberationFailed,
    DeliberationFinished,
    Event,
    MilestoneReached,
    Selection,
    SelectionDropped,
    TimerSet,
    WorkerScheduled,
    present,
)
from casehub.spi import Answer
from casehub.testing import CaseTestKit


class Saying:
    """Writes a note, and gives or raises one answer; `choose`: names of bindings, in its place."""

    def __init__(self, answer: Any = None, *, choose: Sequence[str] | None = None, note: str = "") -> None:
        self._answer, self._choose, self._note = answer, choose, note

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        if self._note:
            plan.note(self._note, "was here")
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._choose is not None:
            chosen: Answer = [binding for binding in eligible if binding.name in self._choose]
            return chosen
        return self._answer  # type: ignore[no-any-return]  # also what is no answer


class Never:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await asyncio.Event().wait()
        return ()


def work(name: str = "work") -> CaseDefinition:
    d = CaseDefinition(name, goal="never", signals=["never", "more"])

    @d.worker(writes="a", priority=1, cost=1)
    async def cheap(x: int) -> int:
        return x

    @d.worker(writes="b", priority=2, cost=2)
    async def urgent(x: int) -> int:
        return x

    return d


async def decisions(strategy: PlanningStrategy, d: CaseDefinition | None = None) -> list[Event]:
    d = d or work()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        return kit.events(case)


def of(log: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in log if isinstance(event, kind)]


# ---- fallback


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (Saying(ValueError("no idea")), "Saying failed (ValueError: no idea)"),
        (Saying(None), "Saying failed (LoopControlError: Saying answered None"),
        (Saying(["cheap"]), "Saying failed (LoopControlError: Saying chose 'cheap', which is not eligible)"),
        (Saying(()), "Saying chose nothing (no reason given)"),
        (Saying(Selection(rationale="too early")), "Saying chose nothing (too early)"),
    ],
    ids=["error", "no answer", "outside", "nothing", "nothing, with a reason"],
)
async def test_the_other_one_decides_where_the_first_brings_nothing_and_the_rationale_says_so(
    first: Saying, why: str
) -> None:
    decision = of(await decisions(fallback(first, CheapestFirst())), DeliberationFinished)[0]
    assert decision.chosen == ("cheap",)
    assert decision.rationale.startswith(why)
    assert decision.rationale.endswith("; CheapestFirst")


async def test_the_first_one_decides_where_it_can() -> None:
    decision = of(await decisions(fallback(HighestPriority(), CheapestFirst())), DeliberationFinished)[0]
    assert (decision.chosen, decision.rationale) == (("urgent",), "1 of 2 eligible have it")


async def test_a_first_that_takes_too_long_is_not_waited_for() -> None:
    loop = PlanningStrategyLoopControl(fallback(Never(), CheapestFirst(), within="10ms"))
    d = work()
    async with CaseTestKit(d, loop=loop) as kit:
        case = await kit.start(d, x=1)
        with kit.hub.watch(DeliberationFinished, case=case.id, after=0) as answers:
            assert (await anext(answers)).rationale == "Never took longer than 0.01 s; CheapestFirst"


async def test_an_empty_answer_stands_while_something_runs() -> None:
    d = CaseDefinition("d", goal="never", signals=["never", "more"])
    gate = asyncio.Event()

    @d.worker(writes="a")
    async def slow(x: int) -> int:
        await gate.wait()
        return x

    @d.worker(writes="b")
    async def other(more: int) -> int:
        return more

    strategy = fallback(OneAtATime(), EverythingEligible())
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.signal(more=1)
        await kit.settle()
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == ["slow"]
        gate.set()


async def test_a_deferred_answer_stands() -> None:
    log = await decisions(fallback(Saying(Defer(after="1h")), CheapestFirst()))
    assert [event.deferred for event in of(log, DeliberationFinished)] == [True]


async def test_what_a_failed_first_wrote_is_discarded_and_what_a_good_one_wrote_is_kept() -> None:
    failed = await decisions(fallback(Saying(ValueError("no"), note="first"), Saying(choose=["cheap"], note="then")))
    assert {event.key for event in of(failed, NoteWritten)} == {"then"}
    good = await decisions(fallback(Saying(choose=["cheap"], note="first"), Saying(ValueError("no"))))
    assert {event.key for event in of(good, NoteWritten)} == {"first"}


async def test_a_long_complaint_is_cut_short() -> None:
    decision = of(await decisions(fallback(Saying(ValueError("no " * 1_000)), CheapestFirst())), DeliberationFinished)[
        0
    ]
    assert len(decision.rationale) < 400


async def test_both_failing_is_a_failed_deliberation() -> None:
    log = await decisions(fallback(Saying(ValueError("one")), Saying(ValueError("two"))))
    assert of(log, DeliberationFailed)[0].message == "two"


# ---- within a stage


def staged() -> CaseDefinition:
    d = work("staged")

    @d.worker(writes="c")
    async def outside(x: int) -> int:
        return x

    @d.worker(writes="e")
    async def nested(x: int) -> int:
        return x

    d.stage("inner", "nested")
    d.stage("outer", "cheap", "urgent", "inner")
    return d


@pytest.mark.parametrize(
    ("strategy", "chosen"),
    [
        (within_stage("outer", CheapestFirst()), ("cheap", "outside")),
        (within_stage("outer", HighestPriority(), Saying(())), ("urgent",)),
        (within_stage("outer", Saying(()), OneAtATime()), ("outside",)),
        (within_stage("outer", Saying(choose=["nested"])), ("nested", "outside")),
        (within_stage("inner", Saying(()), Saying(choose=["nested", "cheap"])), ("cheap",)),
        (within_stage("elsewhere", Saying(()), OneAtATime()), ("cheap",)),
    ],
    ids=["in it", "nothing outside", "nothing in it", "a stage in it", "the inner stage alone", "another stage"],
)
async def test_a_stage_has_a_strategy_of_its_own(strategy: PlanningStrategy, chosen: tuple[str, ...]) -> None:
    assert of(await decisions(strategy, staged()), DeliberationFinished)[0].chosen == chosen


async def test_of_two_times_the_earlier_one_counts_and_one_event_is_waited_for() -> None:
    strategy = within_stage("outer", Saying(Defer(after="2h")), Saying(Defer(after="1h", on=MilestoneReached)))
    log = await decisions(strategy, staged())
    (timer,) = of(log, TimerSet)
    assert timer.due - timer.at == timedelta(hours=1)
    d = staged()
    d.milestone("soon", present("more"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.signal(more=1)
        await kit.settle()
        assert len(kit.events(case, DeliberationFinished)) == 2


async def test_reasons_are_told_together_and_writes_kept() -> None:
    inner = Selection(rationale="not yet", writes=[NoteWritten(key="inner", value=1)])
    log = await decisions(within_stage("outer", Saying(inner), Saying(Selection(rationale="nor this"))), staged())
    assert of(log, DeliberationFinished)[0].rationale == "not yet; nor this"
    assert [event.key for event in of(log, NoteWritten)] == ["inner"]


async def test_a_strict_answer_makes_both_strict() -> None:
    class Strict:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            if case.context["x"] == 1:
                await running[0].delete("x")
            return Selection(eligible, strict=True)

    d = CaseDefinition("d", goal="never", signals=["never"])

    @d.worker(writes="a")
    async def inside(x: int) -> int:
        return x

    @d.worker(writes="b")
    async def outside(y: int) -> int:
        return y

    d.signals["x"] = int
    d.stage("s", inside)
    running: list[Any] = []
    loop = PlanningStrategyLoopControl(within_stage("s", Strict()))
    async with CaseTestKit(d, loop=loop) as kit:
        running.append(case := await kit.start(d, step=True, x=1, y=1))
        await kit.step(case)
        assert [event.binding for event in kit.events(case, SelectionDropped)] == ["inside", "outside"]


# ---- per definition


async def test_each_definition_has_its_strategy_and_others_the_other() -> None:
    strategy = per_definition({"one": CheapestFirst(), "two": HighestPriority()}, OneAtATime())
    first = [of(await decisions(strategy, work(name)), DeliberationFinished)[0] for name in ("one", "two", "three")]
    assert [decision.chosen for decision in first] == [("cheap",), ("urgent",), ("cheap",)]
    nobody = of(await decisions(per_definition({"won": CheapestFirst()}), work("one")), DeliberationFailed)[0]
    assert nobody.message == "per_definition has no strategy for 'one' and no otherwise; did you mean 'won'?"


async def test_compositions_compose() -> None:
    strategy = per_definition(
        {"staged": within_stage("outer", fallback(Saying(ValueError("no")), CheapestFirst()), Saying(()))}
    )
    decision = of(await decisions(strategy, staged()), DeliberationFinished)[0]
    assert (decision.chosen, decision.rationale) == (("cheap",), "Saying failed (ValueError: no); CheapestFirst")


# ---- stalls


class Hearing(Saying):
    """Leaves everything alone until the case would stall."""

    async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        plan.note("heard", list(plan.stalled))
        return eligible


@pytest.mark.parametrize(
    ("strategy", "fired"),
    [
        (fallback(Hearing(()), Saying(())), {"cheap", "urgent", "outside", "nested"}),
        (fallback(Saying(()), Hearing(())), {"cheap", "urgent", "outside", "nested"}),
        (within_stage("outer", Hearing(()), Saying(())), {"cheap", "urgent", "nested"}),
        (within_stage("outer", Saying(()), Hearing(())), {"outside"}),
        (per_definition({"staged": Hearing(())}), {"cheap", "urgent", "outside", "nested"}),
        (per_definition({"staged": fallback(Hearing(()), Saying(()))}), {"cheap", "urgent", "outside", "nested"}),
        (per_definition({"staged": Saying(())}, Hearing(())), set()),
    ],
    ids=["first", "then", "in a stage", "outside of it", "of a definition", "nested", "of another definition"],
)
async def test_the_part_that_hears_of_stalls_is_handed_them(strategy: PlanningStrategy, fired: set[str]) -> None:
    log = await decisions(strategy, staged())
    assert {event.binding for event in of(log, WorkerScheduled)} == fired
    assert bool(of(log, NoteWritten)) is bool(fired)


def test_a_composition_hears_of_stalls_only_if_a_part_does() -> None:
    assert not PlanningStrategyLoopControl(fallback(Saying(()), OneAtATime())).hears_stalls
    assert PlanningStrategyLoopControl(fallback(Saying(()), Hearing(()))).hears_stalls


async def test_a_stall_without_anything_eligible_is_handed_on_too() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def only_once(a: int) -> None:
        return None

    for strategy in (within_stage("s", Hearing(())), fallback(OneAtATime(), Hearing(()))):
        async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
            case = await kit.start(d, a=1)
            await kit.settle()
            assert [event.key for event in kit.events(case, NoteWritten)] == ["heard"]
