"""Strategies that learn from the log: in numbers, each option, and the same answer to the same question."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategy, PlanningStrategyLoopControl
from blackboard_ext.strategies import UCB1, BestObservedOutcome, LeastRecentlyFailed, ThompsonSampling
from blackboard_ext.strategies.rivals import rivals
from blackboard_ext.testing import assert_same_decisions
from casehub import (
    Binding,
    CaseDefinition,
    CaseHub,
    CaseView,
    ContextChanged,
    Declined,
    DeliberationStarted,
    Event,
    Permanent,
    Retry,
    SettingsError,
    WorkerExecutionCompleted,
    WorkerScheduled,
    absent,
)
from casehub.spi import LoopControl
from casehub.testing import CaseTestKit

CASES = 200
LEARNING: dict[str, Any] = {
    "Thompson sampling": ThompsonSampling,
    "UCB1": UCB1,
    "best observed outcome": BestObservedOutcome,
}


def control(strategy: PlanningStrategy) -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(strategy)


def translation(seed: int = 1) -> CaseDefinition:
    """Two workers of one capability; `flaky` fails in 60 of 100 runs, which ones is drawn by the number of the case."""
    d = CaseDefinition("translation", goal="translated")

    @d.worker(writes="translated", when=absent("translated"))
    async def flaky(number: int) -> int:
        if random.Random(f"{seed}/{number}").random() < 0.6:
            raise Permanent("out of order")
        return number

    @d.worker(writes="translated", when=absent("translated"))
    async def steady(number: int) -> int:
        return number

    return d


async def flaky_cases(hub: CaseHub, d: CaseDefinition) -> list[bool]:
    """Of each case in a row of 200 whether the flaky worker ran in it; every one of them completes."""
    ran: list[bool] = []
    for number in range(CASES):
        case = await hub.start(d, number=number, case_id=f"{number}")  # draws depend on it
        assert (await case.completed())["translated"] == number
        ran.append("flaky" in [event.binding for event in await case.log.query(WorkerScheduled)])
    return ran


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", LEARNING)
async def test_the_flaky_worker_gets_less_than_15_of_the_last_100_cases(name: str, seed: int) -> None:
    d = translation(seed)
    async with CaseHub(d, loop=control(LEARNING[name]())) as hub:
        ran = await flaky_cases(hub, d)
    assert any(ran)
    assert sum(ran[-100:]) < 15


async def test_choreography_runs_the_flaky_worker_in_every_case() -> None:
    d = translation()
    async with CaseHub(d) as hub:
        assert sum(await flaky_cases(hub, d)) == CASES


async def test_what_was_learnt_is_in_the_log_of_a_durable_store(tmp_path: Path) -> None:
    d = translation()
    url = f"sqlite:///{tmp_path / 'learnt.db'}?synchronous=NORMAL"
    loop = control(ThompsonSampling())
    async with CaseHub(d, loop=loop, store=url) as hub:
        ran = await flaky_cases(hub, d)
    assert sum(ran[-100:]) < 15
    async with CaseHub(d, loop=loop, store=url) as hub:
        again = [await hub.start(d, number=number, case_id=f"{number}") for number in range(CASES, CASES + 20)]
        for case in again:
            await case.completed()
        fired = Counter([e.binding for case in again for e in await case.log.query(WorkerScheduled)])
    assert fired["flaky"] < 3


# ---- rivals


def test_bindings_that_write_a_fact_in_common_are_rivals_also_by_way_of_a_third() -> None:
    d = CaseDefinition("d", goal="a")

    @d.worker(writes="a")
    async def one(x: int) -> int:
        return x

    @d.worker(writes="b")
    async def two(x: int) -> int:
        return x

    @d.worker
    async def silent(x: int) -> None:
        return None

    @d.worker(writes="c")
    async def alone(x: int) -> int:
        return x

    @d.worker(writes=("a", "b"))
    async def both(x: int) -> dict[str, int]:
        return {"a": x, "b": x}

    bindings = list(CaseHub(d).structures["d"].bindings.values())
    assert [[b.name for b in group] for group in rivals(bindings)] == [["one", "two", "both"], ["silent"], ["alone"]]


@pytest.mark.parametrize("name", LEARNING)
async def test_nobody_is_started_beside_a_rival_that_runs(name: str) -> None:
    d = CaseDefinition("d", goal="never", signals=["more", "never"])
    gates: list[Any] = []

    @d.worker(writes="done", when=absent("done"))
    async def first(x: int) -> int:
        await gates[0].wait()
        return x

    @d.worker(writes="done", when=absent("done"))
    async def second(x: int) -> int:
        await gates[0].wait()
        return x

    @d.worker(writes="seen")
    async def look(more: int) -> int:
        return more

    gates.append(asyncio.Event())
    async with CaseTestKit(d, loop=control(LEARNING[name]())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.signal(more=1)  # a new deliberation while one of the rivals runs
        await kit.settle()
        fired = [event.binding for event in kit.events(case, WorkerScheduled)]
        assert len(fired) == 2
        assert fired[1] == "look"
        gates[0].set()


# ---- options


async def tried(d: CaseDefinition, strategy: PlanningStrategy, numbers: range, pause: str = "1m") -> list[str]:
    """What fired first in each of some cases in a row."""
    async with CaseTestKit(d, loop=control(strategy)) as kit:
        first: list[str] = []
        for number in numbers:
            case = await kit.start(d, number=number)
            await kit.settle()
            first.append(kit.events(case, WorkerScheduled)[0].binding)
            await kit.advance(pause)
        return first


def broken() -> CaseDefinition:
    """The first worker never succeeds, and the second always does."""
    d = CaseDefinition("broken", goal="done")

    @d.worker(writes="done", when=absent("done"))
    async def bad(number: int) -> int:
        raise Permanent("no")

    @d.worker(writes="done", when=absent("done"))
    async def good(number: int) -> int:
        return number

    return d


@pytest.mark.parametrize(
    "strategy", [UCB1(), BestObservedOutcome(), LeastRecentlyFailed()], ids=lambda s: type(s).__name__
)
async def test_a_run_that_expires_has_failed(strategy: Any) -> None:
    d = CaseDefinition("late", goal="done")

    @d.worker(writes="done", when=absent("done"), timeout="1s", retry=Retry(1))
    async def bad(number: int) -> int:
        await asyncio.Event().wait()
        return number

    @d.worker(writes="done", when=absent("done"))
    async def good(number: int) -> int:
        return number

    assert (await tried(d, strategy, range(8))).count("bad") < 3


async def test_draws_differ_from_one_decision_of_a_case_to_the_next() -> None:
    d = CaseDefinition("d", goal="never", signals=["x", "never"])

    @d.worker(writes="done")
    async def one(x: int) -> int:
        return x

    @d.worker(writes="done")
    async def two(x: int) -> int:
        return -x

    firsts: set[str] = set()
    async with CaseTestKit(d, loop=control(ThompsonSampling(since="1s"))) as kit:
        case = await kit.start(d, x=0)
        for x in range(1, 10):
            await kit.advance("1m")  # what happened before is forgotten
            before = len(kit.events(case, WorkerScheduled))
            await case.signal(x=x)
            await kit.settle()
            firsts.add(kit.events(case, WorkerScheduled)[before].binding)
    assert firsts == {"one", "two"}


async def test_the_seed_decides_what_thompson_sampling_tries() -> None:
    runs = [await tried(broken(), ThompsonSampling(seed), range(12)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


async def test_exploring_less_looks_back_less_often() -> None:
    counts = [(await tried(broken(), UCB1(explore), range(40))).count("bad") for explore in (0, 1, 5)]
    assert counts[0] == 1 < counts[1] < counts[2]


@pytest.mark.parametrize("kind", [ThompsonSampling, UCB1])
async def test_a_span_of_time_makes_a_bandit_forget(kind: Any) -> None:
    remembers = await tried(broken(), kind(), range(30), "1h")
    forgets = await tried(broken(), kind(since="90m"), range(30), "1h")
    assert forgets.count("bad") > remembers.count("bad") + 3


async def test_the_number_of_cases_says_after_how_long_a_binding_is_tried_again() -> None:
    assert (await tried(broken(), BestObservedOutcome(cases=3), range(9))).count("bad") > 2
    assert (await tried(broken(), BestObservedOutcome(cases=20), range(9))).count("bad") == 1


@pytest.mark.parametrize(
    ("make", "complaint"),
    [(lambda: BestObservedOutcome(0), "at least 1"), (lambda: UCB1(-1), "not below 0")],
)
def test_an_option_that_makes_no_sense_is_refused(make: Any, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        make()


# ---- what changed


class Peeking(BestObservedOutcome):
    """Keeps the records that it was shown last."""

    seen: str = ""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Any) -> Any:
        self.seen = "; ".join(sorted(f"{name}: {record}" for name, record in (await self.records(case)).items()))
        return eligible


async def test_a_run_changed_the_context_when_a_change_follows_from_its_completion() -> None:
    d = CaseDefinition("d", goal="never", signals=["x", "never"])

    @d.worker(writes="double")
    async def doubles(x: int) -> int:
        return 2 * abs(x)

    @d.worker(writes="nothing")
    async def says_nothing(x: int) -> int | None:
        return None

    @d.worker(writes="failure")
    async def fails(x: int) -> int:
        raise Permanent("no")

    @d.worker(writes="declined")
    async def declines(x: int) -> int:
        raise Declined("no")

    strategy = Peeking()
    async with CaseTestKit(d, loop=control(strategy)) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.signal(x=-1)  # the double of it is there already
        await kit.settle()
        await case.signal(x=3)
        await kit.settle()
        assert strategy.seen.split("; ") == [
            "doubles: 1 changed the context, 1 left it unchanged, 0 failed",
            "fails: 0 changed the context, 0 left it unchanged, 2 failed",
            "says_nothing: 0 changed the context, 2 left it unchanged, 0 failed",
        ]
        log = {event.version: event for event in kit.events(case)}
        changes = [event for event in kit.events(case, ContextChanged) if event.binding]
        completed = [event for event in kit.events(case, WorkerExecutionCompleted) if event.wrote]
        assert [_completion(log, change) for change in changes] == completed
        assert [change.turn for change in changes] == [each.turn for each in completed]


def _completion(log: dict[int, Event], change: Event) -> Event:
    while not isinstance(change, WorkerExecutionCompleted):
        change = log[change.cause]
    return change


# ---- again


@pytest.mark.parametrize("name", LEARNING)
async def test_a_past_decision_asked_again_as_of_its_position_is_the_same(name: str) -> None:
    """Also by another instance, later, when the log has more to tell."""
    d = translation()
    asked: list[tuple[Any, CaseView, list[Binding], list[str]]] = []

    class Keeping:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Any) -> Any:
            fresh = plan.draft()
            answer = await LEARNING[name]().select(plan, case, eligible)
            asked.append((fresh, case, list(eligible), [binding.name for binding in answer]))
            return answer

    async with CaseTestKit(d, loop=control(Keeping())) as kit:
        for number in range(30):
            await kit.start(d, number=number)
            await kit.settle()
        assert len({chosen[0] for *_, chosen in asked}) == 2
        for plan, view, eligible, chosen in asked:
            again = await LEARNING[name]().select(plan, view, eligible)
            assert [binding.name for binding in again] == chosen


@pytest.mark.parametrize("name", LEARNING)
async def test_a_replay_of_the_decisions_of_past_cases_finds_no_difference(name: str) -> None:
    d = translation()
    async with CaseTestKit(d, loop=control(LEARNING[name]())) as kit:
        cases = [await kit.start(d, number=number) for number in range(20)]
        await kit.settle()
        for case in cases:
            await assert_same_decisions(case, LEARNING[name]())


async def test_a_replay_with_another_seed_finds_a_difference() -> None:
    d = translation()
    async with CaseTestKit(d, loop=control(ThompsonSampling(seed=1))) as kit:
        cases = [await kit.start(d, number=number) for number in range(20)]
        await kit.settle()
        other = control(ThompsonSampling(seed=2))
        assert any([(await case.replay_decisions(other)).difference for case in cases])


async def test_the_version_that_draws_depend_on_is_that_of_the_deliberation() -> None:
    versions: list[int] = []

    class Looking:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Any) -> Any:
            versions.append(case.version)
            return eligible

    loop: LoopControl = control(Looking())
    d = translation()
    async with CaseTestKit(d, loop=loop) as kit:
        case = await kit.start(d, number=1)
        await kit.settle()
        started = kit.events(case, DeliberationStarted)
        turns = {event.turn: event.version for event in kit.events(case)}  # the last of each turn
        assert versions == [turns[event.turn] for event in started]
