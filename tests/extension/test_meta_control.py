"""Meta-control: what a strategy hears of a case that stalls, goes round, or has spent its budget, and what it can do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from blackboard_ext import (
    CasePlanModel,
    HearsStalls,
    NoteWritten,
    OscillationDetected,
    PlanItemAdded,
    PlanItemObsolete,
    PlanningStrategyLoopControl,
)
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    ABSENT,
    Binding,
    Budget,
    BudgetExhausted,
    CaseCompleted,
    CaseDefinition,
    CaseHub,
    CaseStalled,
    CaseStalledError,
    CaseView,
    Confident,
    Defer,
    DeliberationCancelled,
    DeliberationFailed,
    DeliberationStarted,
    Event,
    LoopControl,
    Permanent,
    Selection,
    SelectionDropped,
    WorkerScheduled,
    confident,
    present,
)
from casehub.spi import Answer
from casehub.stepping import Stepper
from casehub.testing import CaseTestKit, LoopControlContract
from tests.staging import Kept, idle

# ---- a stall


def broken() -> CaseDefinition:
    """A worker that always fails, and one that nothing but a strategy's second thoughts would run."""
    d = CaseDefinition("broken", goal="done")

    @d.worker(writes="done")
    async def usual(x: int) -> int:
        raise Permanent("out of order")

    @d.worker(writes="done")
    async def costly(x: int) -> int:
        return x

    return d


class UsualOnly:
    """Leaves `costly` alone; what it does about a stall is `answer`. `heard`: what it was handed, in order."""

    def __init__(self, answer: Any = ()) -> None:
        self.answer = answer
        self.heard: list[tuple[tuple[str, ...], list[str]]] = []
        self.asked = 0

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        assert plan.stalled == ()
        self.asked += 1
        return [binding for binding in eligible if binding.name == "usual"]

    async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.heard.append((plan.stalled, [binding.name for binding in eligible]))
        answer: Answer = self.answer(plan, eligible) if callable(self.answer) else self.answer
        return answer


async def test_a_strategy_is_handed_the_reasons_before_the_case_stalls_and_may_get_it_moving() -> None:
    strategy = UsualOnly(lambda plan, eligible: list(eligible))
    async with CaseTestKit(d := broken(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=7)
        assert (await case.completed())["done"] == 7
        ((reasons, eligible),) = strategy.heard
        assert eligible == ["costly"]
        assert any("costly" in reason and "the loop control has not chosen it" in reason for reason in reasons)
        assert any("out of order" in reason for reason in reasons)
        assert not kit.events(case, CaseStalled)
        (about,) = [event for event in kit.events(case, DeliberationStarted) if event.stalled]
        assert about.stalled == reasons


def noting(plan: CasePlanModel, eligible: Sequence[Binding]) -> Answer:
    plan.note("stalls", (plan.get("stalls", int) or 0) + 1)
    plan.focus("help", because=plan.stalled[0])
    return ()


async def test_an_answer_that_moves_nothing_lets_the_case_stall_and_what_it_wrote_stays() -> None:
    strategy = UsualOnly(noting)
    async with CaseTestKit(d := broken(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=7)
        with pytest.raises(CaseStalledError):
            await case.completed()
        assert len(strategy.heard) == 1
        names = [event.name for event in kit.events(case, Event)]
        assert names[-1] == "CASE_STALLED"
        assert names.index("NOTE_WRITTEN") < names.index("CASE_STALLED")
        assert (await case.state()).control.focus == "help"


async def test_a_stall_is_handed_over_once_and_the_next_one_again() -> None:
    strategy = UsualOnly(noting)
    async with CaseTestKit(d := broken(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=7)
        await kit.settle()
        await kit.advance("30d")
        assert (len(strategy.heard), len(kit.events(case, CaseStalled))) == (1, 1)
        await case.suspend()
        await case.resume()
        await kit.settle()
        assert (len(strategy.heard), len(kit.events(case, CaseStalled))) == (2, 2)
        assert [event.value for event in kit.events(case, NoteWritten)] == [1, 2]


async def test_a_stall_with_nothing_eligible_is_handed_over_too() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def usual(a: int) -> int:
        raise Permanent("out of order")

    strategy = UsualOnly(noting)
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        ((_, eligible),) = strategy.heard
        assert eligible == []
        assert [event.name for event in kit.events(case, Event)][-4:] == [
            "DELIBERATION_FINISHED",
            "NOTE_WRITTEN",
            "FOCUS_CHANGED",
            "CASE_STALLED",
        ]


async def test_a_stall_may_be_put_off_and_comes_back_when_its_time_is_up() -> None:
    strategy = UsualOnly(lambda plan, eligible: Defer(after="1h") if len(strategy.heard) < 3 else ())
    async with CaseTestKit(d := broken(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=7)
        await kit.settle()
        assert (await case.status(), kit.events(case, CaseStalled)) == ("WAITING", [])
        await kit.advance("59m")
        assert len(strategy.heard) == 1
        await kit.advance("1m")
        assert len(strategy.heard) == 2
        await kit.advance("1h")
        assert len(strategy.heard) == 3
        assert len(kit.events(case, CaseStalled)) == 1


async def test_a_strategy_that_fails_about_a_stall_is_asked_three_times_and_then_the_case_stalls() -> None:
    def fail(plan: CasePlanModel, eligible: Sequence[Binding]) -> Answer:
        plan.note("half", "done")
        raise ValueError("no idea")

    strategy = UsualOnly(fail)
    async with CaseTestKit(d := broken(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=7)
        await kit.advance("1h")
        assert len(kit.events(case, DeliberationFailed)) == len(strategy.heard) == 3
        assert len(kit.events(case, CaseStalled)) == 1
        assert not kit.events(case, NoteWritten)


async def test_a_strategy_that_hears_of_no_stalls_is_not_asked_about_them() -> None:
    class UsualAlone:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return [binding for binding in eligible if binding.name == "usual"]

    assert not isinstance(UsualAlone(), HearsStalls)
    async with CaseTestKit(d := broken(), loop=PlanningStrategyLoopControl(UsualAlone())) as kit:
        case = await kit.start(d, x=7)
        with pytest.raises(CaseStalledError):
            await case.completed()
        assert [event.stalled for event in kit.events(case, DeliberationStarted)] == [(), ()]


async def test_a_process_that_ends_while_a_stall_is_handed_over_hands_it_over_again() -> None:
    class Slow(UsualOnly):
        async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            await super().stalled(plan, case, eligible)
            await asyncio.Event().wait()
            return ()

    store, d = Kept(), broken()
    first, second = Slow(), UsualOnly(noting)
    async with CaseHub(d, loop=PlanningStrategyLoopControl(first), store=store) as hub:
        case = await hub.start(d, x=7)
        await idle()
        assert len(first.heard) == 1
    async with CaseHub(d, loop=PlanningStrategyLoopControl(second), store=store) as hub:
        await idle()
        events = await hub.case(case.id).log.query(Event)
        assert len(second.heard) == 1
        assert [event.name for event in events if isinstance(event, CaseStalled | DeliberationCancelled)] == [
            "DELIBERATION_CANCELLED",
            "CASE_STALLED",
        ]


async def test_a_case_that_waits_for_somebody_hands_nothing_over() -> None:
    d = CaseDefinition("d", goal="b", signals=["a"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    strategy = UsualOnly()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d)
        await kit.settle()
        assert await case.status() == "WAITING"
        assert strategy.heard == []


# ---- oscillation


def seesaw() -> CaseDefinition:
    d = CaseDefinition("seesaw", goal="end", signals={"ping": int, "end": int})

    @d.worker(writes=("ping", "pong"), when=present("ping"))
    async def to_pong(ping: int) -> dict[str, object]:
        return {"ping": ABSENT, "pong": ping + 1}

    @d.worker(writes=("ping", "pong"), when=present("pong"))
    async def to_ping(pong: int) -> dict[str, object]:
        return {"pong": ABSENT, "ping": pong + 1}

    @d.worker(writes="end", when=present("pong") | present("ping"))
    async def give_up(ping: int = 0, pong: int = 0) -> int:
        return ping + pong

    @d.worker(writes="log", when=present("pong") | present("ping"), refire="always")
    async def look(ping: int = 0, pong: int = 0) -> int:
        return ping + pong

    return d


class RoundAndRound:
    """Goes round; when it hears that it does, it does what `then` says. `seen`: `plan.oscillating` at each question."""

    def __init__(self, then: str = "") -> None:
        self.then = then
        self.seen: list[tuple[str, ...]] = []

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.seen.append(plan.oscillating)
        wanted = (self.then,) if plan.oscillating and self.then else ("to_ping", "to_pong")
        return [binding for binding in eligible if binding.name in wanted]


async def test_a_strategy_sees_that_the_case_goes_round_and_can_break_the_cycle() -> None:
    strategy = RoundAndRound("give_up")
    async with CaseTestKit(d := seesaw(), loop=PlanningStrategyLoopControl(strategy, rounds=3)) as kit:
        case = await kit.start(d, ping=1)
        await kit.settle()
        (found,) = kit.events(case, OscillationDetected)
        assert kit.events(case, CaseCompleted)
        assert set(strategy.seen[-1]) == {"to_ping", "to_pong"} == set(found.cycle)
        assert strategy.seen[:6] == [()] * 6


class OneLook(RoundAndRound):
    """Looks once whenever it hears that it goes round, then goes round again."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.seen.append(plan.oscillating)
        wanted = ("look",) if plan.oscillating else ("to_ping", "to_pong")
        return [binding for binding in eligible if binding.name in wanted]


async def test_a_cycle_that_another_binding_breaks_is_over_and_may_be_found_again() -> None:
    d = seesaw()
    strategy = OneLook()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy, rounds=3)) as kit:
        case = await kit.start(d, ping=1)
        await kit.settle()
        fired = [event.binding for event in kit.events(case, WorkerScheduled)]
        assert fired[:6] == ["to_pong", "to_ping"] * 3
        assert fired[6] == "look"
        assert fired[7:13] == ["to_pong", "to_ping"] * 3
        assert fired[13] == "look"
        assert strategy.seen[:14] == [*[()] * 6, ("to_pong", "to_ping"), *[()] * 6, ("to_pong", "to_ping")]


async def test_a_decision_can_be_deferred_until_the_case_goes_round() -> None:
    class Patient(RoundAndRound):
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            self.seen.append(plan.oscillating)
            if plan.oscillating:
                return [binding for binding in eligible if binding.name == "give_up"]
            going = [binding for binding in eligible if binding.name in ("to_ping", "to_pong")]
            return Selection(going, defer=Defer(on=OscillationDetected))

    strategy = Patient()
    async with CaseTestKit(d := seesaw(), loop=PlanningStrategyLoopControl(strategy, rounds=3)) as kit:
        case = await kit.start(d, ping=1)
        await kit.settle()
        assert kit.events(case, CaseCompleted)
        numbers = [type(event) for event in kit.events(case, OscillationDetected, DeliberationStarted, WorkerScheduled)]
        assert (
            numbers[numbers.index(OscillationDetected) + 1] is DeliberationStarted
        )  # at once, not when the worker is back


# ---- an exhausted budget


def dear(per: str | None = None) -> CaseDefinition:
    """Two ways to the goal; the dear one has a budget of one call, and its first call brings nothing."""
    d = CaseDefinition("dear", goal="done", signals={"again": int})

    @d.worker(writes="done", budget=Budget(calls=1, per=per))  # type: ignore[arg-type]  # a parameter of the test
    async def expert(question: str, again: int = 0) -> int | None:
        return again if again > 1 else None

    @d.worker(writes="done")
    async def novice(question: str, again: int) -> int:
        return 0

    return d


class ExpertFirst:
    """Wants the expert, and does without where it hears that there is no budget left. `seen`: `plan.exhausted`."""

    def __init__(self, otherwise: str = "novice") -> None:
        self.otherwise = otherwise
        self.seen: list[tuple[str, ...]] = []

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.seen.append(plan.exhausted)
        wanted = self.otherwise if "expert.calls" in plan.exhausted else "expert"
        return [binding for binding in eligible if binding.name == wanted]


async def test_a_strategy_is_asked_again_when_a_budget_is_exhausted_and_can_do_without() -> None:
    strategy = ExpertFirst()
    async with CaseTestKit(d := dear(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, question="why?")
        await kit.settle()
        await case.signal(again=1)
        assert (await case.completed())["done"] == 0
        assert strategy.seen == [(), ("expert.calls",)]
        assert not kit.events(case, SelectionDropped)  # it is not offered what the budget holds back
        assert [event.scope for event in kit.events(case, BudgetExhausted)] == ["expert"]
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == ["expert", "novice"]


async def test_a_strategy_that_insists_on_an_exhausted_budget_is_not_asked_for_ever() -> None:
    strategy = ExpertFirst(otherwise="expert")
    async with CaseTestKit(d := dear(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, question="why?")
        await kit.settle()
        await case.signal(again=1)
        await kit.advance("1h")
        assert strategy.seen == [(), ("expert.calls",)]


async def test_a_budget_of_the_day_is_exhausted_no_more_when_the_next_day_begins() -> None:
    strategy = ExpertFirst(otherwise="nobody")
    async with CaseTestKit(d := dear("day"), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, question="why?")
        await kit.settle()
        await case.signal(again=2)
        await kit.settle()
        assert (await case.state()).control.exhausted == ("expert.calls",)
        await kit.advance("1d")
        assert (await case.completed())["done"] == 2
        assert (await case.state()).control.exhausted == ()


async def test_a_decision_can_be_deferred_until_a_budget_is_exhausted() -> None:
    d = CaseDefinition("d", goal="end", signals={"go": int, "end": int})

    @d.worker(writes="a", budget=Budget(calls=2))
    async def one(go: int) -> int:
        return go

    @d.worker(writes="b")
    async def two(x: int) -> int:
        return x

    class Waiting:
        def __init__(self) -> None:
            self.seen: list[tuple[str, ...]] = []

        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            self.seen.append(plan.exhausted)
            chosen = [binding for binding in eligible if binding.name == "one"]
            return Selection(chosen, defer=Defer(on=BudgetExhausted))

    strategy = Waiting()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=1)
        for number in range(3):
            await case.signal(go=number)
            await kit.settle()
        assert kit.events(case, BudgetExhausted)
        assert strategy.seen[-1] == ("one.calls",)
        assert strategy.seen[:-1] == [()] * (len(strategy.seen) - 1)


# ---- the agenda


async def test_an_item_leaves_the_agenda_in_the_turn_in_which_nothing_is_eligible_any_more() -> None:
    class Later:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return Defer(after="1h")

    d = CaseDefinition("d", goal="b", signals=["x"])

    @d.worker(writes="b")
    async def work(x: int) -> int:
        return x

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Later())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        (added,) = kit.events(case, PlanItemAdded)
        asked = len(kit.events(case, DeliberationStarted))
        await case.delete("x")
        (gone,) = kit.events(case, PlanItemObsolete)
        assert gone.item == added.item
        assert gone.turn == kit.events(case, Event)[-1].turn
        assert len(kit.events(case, DeliberationStarted)) == asked
        assert (await case.state()).control.agenda() == []


async def test_the_agenda_of_a_case_that_has_ended_is_empty() -> None:
    d = CaseDefinition("d", goal="a")

    @d.worker(writes="a")
    async def one(x: int) -> int:
        return x

    @d.worker(writes="b")
    async def two(x: int) -> int:
        return x

    class First:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return eligible[:1] if not case.in_flight else ()

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(First())) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert [event.binding for event in kit.events(case, PlanItemObsolete)] == ["two"]
        assert [event.name for event in kit.events(case, Event)][-1] == "CASE_COMPLETED"
        assert (await case.state()).control.agenda() == []


@pytest.mark.parametrize(("before", "after"), [([1], [True]), ({"a": 1}, {"a": 1.0}), (1, True)])
async def test_a_note_that_changes_the_type_of_a_value_is_written(before: Any, after: Any) -> None:
    class Noting:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            plan.note("n", before)
            plan.note("n", before)
            plan.note("n", after)
            return eligible

    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def work(x: int) -> int:
        return x

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Noting())) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert [repr(event.value) for event in kit.events(case, NoteWritten)] == [repr(before), repr(after)]


# ---- confidence


async def test_a_stage_may_wait_until_a_fact_is_sure_enough() -> None:
    d = CaseDefinition("d", goal="end", signals={"risk": float, "end": int})

    @d.worker(writes="end")
    async def work(risk: float) -> int:
        return 1

    d.stage("act", work, entry=confident("risk", 0.7))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d)
        await case.signal(risk=Confident(0.1, 0.5))
        await kit.settle()
        assert (await case.state()).control.stage("act") == "PENDING"
        await case.signal(risk=Confident(0.1, 0.75))
        assert (await case.completed())["end"] == 1


async def test_a_stepped_case_has_the_same_agenda() -> None:
    strategy = UsualOnly(lambda plan, eligible: list(eligible))
    d = CaseDefinition("d", goal="done")

    @d.worker(writes="done")
    async def usual(x: int) -> int:
        return x

    @d.worker(writes="more")
    async def costly(x: int) -> int:
        return x

    async with CaseHub(d, loop=PlanningStrategyLoopControl(strategy)) as hub:
        stepper = Stepper(hub)
        case = await stepper.start(d, x=1)
        while await stepper.step(case) is not None:
            pass
        await case.completed()
        assert [event.binding for event in await case.log.query(PlanItemObsolete)] == ["costly"]


class Noting(EverythingEligible):
    """Runs everything, and notes each stall."""

    async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return noting(plan, eligible)


class TestTheContract(LoopControlContract):
    """A loop control that hears of stalls keeps the contract of all loop controls."""

    def loop_control(self) -> LoopControl:
        return PlanningStrategyLoopControl(Noting())
