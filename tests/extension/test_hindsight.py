"""Another strategy over the decisions of a past case: what it sees, and where it decides otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategy, PlanningStrategyLoopControl
from blackboard_ext.strategies import (
    UCB1,
    BestObservedOutcome,
    CheapestFirst,
    EverythingEligible,
    FirstReady,
    HighestPriority,
    LeastRecentlyFailed,
    OneAtATime,
    ThompsonSampling,
)
from blackboard_ext.testing import assert_same_decisions
from casehub import (
    Binding,
    CaseDefinition,
    CaseHub,
    CaseStarted,
    CaseStatus,
    CaseView,
    Defer,
    DeliberationFailed,
    Permanent,
    Selection,
    UnknownNameError,
    WorkerExecutionFailed,
    WorkerScheduled,
)
from casehub.hindsight import replay_decisions
from casehub.spi import Answer
from casehub.testing import CaseTestKit
from casehub.validation import build


def steps(last: str = "third") -> CaseDefinition:
    """Three workers that are eligible at once."""
    d = CaseDefinition("steps", goal="c")

    @d.worker(writes="a")
    async def first(x: int) -> int:
        return x

    @d.worker(writes="b")
    async def second(x: int) -> int:
        return x

    @d.worker(writes="c", name=last)
    async def third(x: int, a: int, b: int) -> int:
        return x

    return d


class Scripted:
    """Chooses the bindings of these names, a decision each, and keeps what it saw."""

    def __init__(self, *choices: str) -> None:
        self._choices = list(choices)
        self.plans: list[CasePlanModel] = []
        self.cases: list[CaseView] = []

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.plans.append(plan)
        self.cases.append(case)
        names = self._choices[len(self.plans) - 1].split()
        plan.note("mine", len(self.plans))
        plan.focus(" ".join(names), because=f"it is number {len(self.plans)}")
        return [binding for binding in eligible if binding.name in names]


async def test_the_same_strategy_takes_every_decision_again() -> None:
    d = steps()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(OneAtATime())) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        replay = await case.replay_decisions(PlanningStrategyLoopControl(OneAtATime()))
        assert replay.agrees
        assert (replay.compared, replay.skipped) == (len(await case.decisions()), 0)
        assert replay.compared > 2
        await assert_same_decisions(case, OneAtATime())


def rival_steps() -> CaseDefinition:
    """Two ways to one fact, one of which fails, and a step behind it."""
    d = CaseDefinition("rival-steps", goal="c")

    @d.worker(writes="a", cost=2)
    async def flaky(x: int) -> int:
        raise Permanent("out of order")

    @d.worker(writes="a", priority=1)
    async def steady(x: int) -> int:
        return x

    @d.worker(writes="c")
    async def last(a: int) -> int:
        return a

    return d


@pytest.mark.parametrize(
    "make",
    [
        EverythingEligible,
        OneAtATime,
        FirstReady,
        HighestPriority,
        CheapestFirst,
        LeastRecentlyFailed,
        BestObservedOutcome,
        ThompsonSampling,
        UCB1,
    ],
)
async def test_a_ready_strategy_takes_its_own_decisions_again_when_it_knows_more(
    make: Callable[[], PlanningStrategy], tmp_path: Path
) -> None:
    d = rival_steps()
    loop = PlanningStrategyLoopControl(make())
    async with CaseHub(d, loop=loop, store=f"sqlite:///{tmp_path}/cases.db") as hub:
        cases = [await hub.start(d, x=number) for number in range(6)]
        for case in cases:
            await case.completed(wait_through_stall=True, timeout="20s")
        for case in cases:
            await assert_same_decisions(case, make())


async def test_a_decision_about_a_stall_is_put_as_one() -> None:
    class Reluctant:
        def __init__(self) -> None:
            self.reasons: list[tuple[str, ...]] = []

        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return ()

        async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            self.reasons.append(plan.stalled)
            return eligible

    d, live, again = steps(), Reluctant(), Reluctant()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(live)) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        await assert_same_decisions(case, again)
        assert again.reasons == live.reasons
        assert [each.stalled for each in await case.decisions() if each.stalled] == live.reasons
        assert live.reasons


async def test_the_first_difference_is_shown_and_nothing_is_asked_behind_it() -> None:
    d = steps()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Scripted("first", "second", "third"))) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        other = Scripted("first", "", "third")
        replay = await case.replay_decisions(PlanningStrategyLoopControl(other))
        assert (replay.compared, len(other.plans)) == (2, 2)
        assert replay.difference is not None
        assert replay.difference.recorded == (await case.decisions())[1]
        assert str(replay.difference) == (
            "decision 2 (version 15) of second:\n"
            "  recorded: second (it is number 2)\n"
            "  replayed: nothing (it is number 2)"
        )
        with pytest.raises(AssertionError, match=r"Scripted decides case .* otherwise; decision 2 \(version 15\)"):
            await assert_same_decisions(case, Scripted("first", "", "third"))


async def test_a_strategy_sees_the_case_and_the_plan_as_they_were_then() -> None:
    d = steps()
    recorded, again = Scripted("first", "second", "third"), Scripted("first", "second", "third")
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(recorded)) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert (await case.replay_decisions(PlanningStrategyLoopControl(again))).agrees
        for then, now in zip(recorded.cases, again.cases, strict=True):
            assert dict(now.context) == dict(then.context)
            assert (now.version, now.now, now.upto, now.status) == (then.version, then.now, then.upto, then.status)
            assert (now.in_flight, now.milestones, now.plan) == (then.in_flight, then.milestones, then.plan)
        assert [dict(each.context) for each in again.cases] == [{"x": 1}, {"x": 1, "a": 1}, {"x": 1, "a": 1, "b": 1}]


async def test_what_it_writes_goes_nowhere_and_what_was_written_is_there() -> None:
    class Writes(EverythingEligible):
        def __init__(self, word: str) -> None:
            self._word = word
            self.read: list[str | None] = []

        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            self.read.append(plan.get("word", str))
            plan.note("word", self._word)
            return eligible[:1]

    d = steps()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Writes("recorded"))) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        before = await kit.hub.log.position()
        other = Writes("other")
        await assert_same_decisions(case, other)
        assert other.read == [None, *["recorded"] * (len(other.read) - 1)]
        assert len(other.read) > 1
        assert await kit.hub.log.position() == before


def rivals() -> CaseDefinition:
    d = CaseDefinition("rivals", goal="done")

    @d.worker(writes="done")
    async def flaky(x: int) -> int:
        if x:
            raise Permanent("out of order")
        return x

    @d.worker(writes="done")
    async def steady(x: int) -> int:
        return x

    return d


async def test_queries_are_answered_as_of_the_position_that_was_recorded(tmp_path: Path) -> None:
    class Asks:
        """Everything that can be asked of past cases."""

        def __init__(self) -> None:
            self.heard: list[object] = []

        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            log = case.log
            failures = await log.count(WorkerExecutionFailed, by="binding", across="definition", since="7d")
            starts = await log.query(CaseStarted, across="definition", cases=2)
            last = await log.query(WorkerScheduled, across="all", events=1)
            rows = [(row.case, row.status, row.version) for row in await log.cases(last=2)]
            done = [row.case for row in await log.cases(status=CaseStatus.COMPLETED, last=2)]
            tail = [event.seq async for event in log.tail(WorkerScheduled, across="definition")]
            self.heard.append((dict(failures), [e.case for e in starts], [e.seq for e in last], rows, done, tail))
            return [min(eligible, key=lambda binding: failures.get(binding.name, 0))]

    d, live, again = rivals(), Asks(), Asks()
    async with CaseHub(d, loop=PlanningStrategyLoopControl(live), store=f"sqlite:///{tmp_path}/cases.db") as hub:
        early = await hub.start(d, case_id="early", x=0)
        await early.completed()
        heard = list(live.heard)
        for number in (1, 2):
            await (await hub.start(d, case_id=f"late-{number}", x=1)).completed()
        replay = await early.replay_decisions(PlanningStrategyLoopControl(again))
        assert replay.agrees, replay.difference
        assert again.heard == heard
        await (await hub.start(d, case_id="now", x=0)).completed()
        await assert_same_decisions(early, LeastRecentlyFailed())
        asked_now = await hub.start(d, case_id="fresh", x=0)
        await asked_now.completed()
        assert (await asked_now.decisions())[0].chosen == ("steady",)  # what history says now
        assert (await early.decisions())[0].chosen == ("flaky",)


async def test_decisions_without_an_answer_are_passed_over() -> None:
    class Stumbles(OneAtATime):
        def __init__(self) -> None:
            self.times = 0

        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            self.times += 1
            if self.times == 1:
                raise ValueError("no idea yet")
            return await super().select(plan, case, eligible)

    d = steps()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Stumbles())) as kit:
        case = await kit.start(d, x=1)
        await kit.advance("1s")
        await case.completed()
        assert len(kit.events(case, DeliberationFailed)) == 1
        replay = await case.replay_decisions(PlanningStrategyLoopControl(OneAtATime()))
        assert (replay.agrees, replay.skipped, replay.compared) == (True, 1, len(await case.decisions()) - 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ValueError("out of ideas"), "failed: ValueError: out of ideas"),
        (None, "failed: LoopControlError: select of"),
        (asyncio.Event, "failed: no answer within 10ms"),
        (asyncio.CancelledError(), "failed: LoopControlError: it was cancelled from within"),
        (Defer(after="0s"), "nothing, to be asked again"),
        (Selection(rationale="not today"), "nothing (not today)"),
    ],
    ids=["error", "no answer", "too late", "cancelled", "deferral", "nothing"],
)
async def test_what_is_no_answer_or_another_is_a_difference(answer: object, words: str) -> None:
    class Other:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            if isinstance(answer, BaseException):
                raise answer
            if answer is asyncio.Event:
                await asyncio.Event().wait()
            return answer  # type: ignore[return-value]  # some of them are none

    d = steps()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        replay = await case.replay_decisions(PlanningStrategyLoopControl(Other(), deadline="10ms"))
        assert words in str(replay.difference)


async def test_the_order_of_a_choice_counts() -> None:
    class Backwards:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return eligible[::-1]

    d = steps()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        replay = await case.replay_decisions(PlanningStrategyLoopControl(Backwards()))
        assert replay.difference is not None
        assert replay.difference.chosen == ("second", "first")


async def test_a_binding_that_the_definition_has_no_more_is_named() -> None:
    d = steps()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        changed, loop = build(steps("thrid")), PlanningStrategyLoopControl(EverythingEligible())
        with pytest.raises(UnknownNameError, match=r"no binding 'third'; did you mean 'thrid'"):
            await replay_decisions(kit.events(case), changed, loop, kit.hub.log, {})


async def test_a_case_without_decisions_compares_nothing_and_says_so() -> None:
    d = steps()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        with pytest.raises(AssertionError, match="no decision that was answered, so EverythingEligible was not asked"):
            await assert_same_decisions(case, EverythingEligible())
