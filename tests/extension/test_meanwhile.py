"""While a strategy thinks: signals, other cases and changing facts go on, and what it writes does not ask it again."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from blackboard_ext import CasePlanModel, FocusChanged, NoteWritten, PlanningStrategyLoopControl, StageEvent
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    Binding,
    CaseDefinition,
    CaseHub,
    CaseView,
    ContextChanged,
    Defer,
    DeliberationFinished,
    DeliberationStarted,
    Event,
    SelectionForced,
    WorkerScheduled,
    present,
)
from casehub.spi import Answer
from casehub.testing import CaseTestKit, VirtualClock


class Slow:
    """Takes a second for each answer, and then chooses everything. `asked`: how often it was."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.asked = 0

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.asked += 1
        await self.clock.sleep("1s")
        return eligible


def thinking(strategy: Slow, *definitions: CaseDefinition) -> CaseTestKit:
    """A kit by whose clock the strategy thinks."""
    kit = CaseTestKit(*definitions, loop={definitions[0].name: PlanningStrategyLoopControl(strategy)})
    strategy.clock = kit.clock
    return kit


def priced() -> CaseDefinition:
    d = CaseDefinition("priced", goal="deal", signals={"price": int, "note": str, "deal": str})

    @d.worker(writes="offer")
    async def quote(price: int) -> int:
        return price * 2

    return d


async def test_a_strategy_of_a_second_delays_no_signal_to_its_own_case() -> None:
    async with thinking(Slow(), d := priced()) as kit:
        case = await kit.start(d, price=1)
        began = kit.clock.monotonic()
        await case.signal(note="hello")
        assert kit.clock.monotonic() == began
        assert (await case.state()).deliberating
        assert (await case.context())["note"] == "hello"
        assert not kit.events(case, DeliberationFinished)
        await kit.advance("1s")
        assert (await case.context())["offer"] == 2
        await case.kill()


async def test_a_strategy_of_a_second_delays_no_other_case() -> None:
    other = CaseDefinition("other", goal="done")

    @other.worker(writes="done")
    async def work(x: int) -> int:
        return x

    async with thinking(Slow(), d := priced(), other) as kit:
        case = await kit.start(d, price=1)
        began = kit.clock.monotonic()
        assert (await (await kit.start(other, x=3)).completed())["done"] == 3
        assert kit.clock.monotonic() == began
        assert (await case.state()).deliberating
        await case.kill()


async def test_a_fact_every_half_second_and_a_strategy_of_a_second_still_get_on() -> None:
    strategy = Slow()
    async with thinking(strategy, d := priced()) as kit:
        case = await kit.start(d, price=0)
        for price in range(1, 40):
            await kit.advance("0.5s")
            await case.signal(price=price)
        fired = kit.events(case, WorkerScheduled)
        assert len(fired) >= 4  # every fourth answer fires, whatever has changed since
        assert kit.events(case, SelectionForced)
        assert strategy.asked <= 21  # one question a second: changes merge
        assert (await case.context())["offer"] >= 2 * 25
        await kit.advance("3s")
        assert (await case.context())["offer"] == 2 * 39
        await case.kill()


@pytest.mark.parametrize("chooses", [False, True])
async def test_a_strategy_that_writes_a_note_every_time_is_not_asked_for_ever(chooses: bool) -> None:
    class Noting:
        asked = 0

        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            self.asked += 1
            plan.note("asked", self.asked)
            plan.focus(f"question {self.asked}")
            for binding in eligible:
                plan.prioritise(binding, self.asked)
            return eligible[:1] if chooses else Defer(after="10d")

    strategy = Noting()
    async with CaseTestKit(d := priced(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, price=1)
        await kit.settle()  # and no longer: a case that left memory is asked about once more when it is back
        assert strategy.asked == 1
        assert len(kit.events(case, NoteWritten)) == len(kit.events(case, FocusChanged)) == 1
        await case.signal(note="nobody reads it")
        await kit.settle()
        assert strategy.asked == 1
        await case.signal(price=2)
        await kit.settle()
        assert strategy.asked == 2
        await case.kill()


# ---- who listens


def claims() -> CaseDefinition:
    d = CaseDefinition("claims", goal="c")

    @d.worker(writes="a")
    async def one(x: int) -> int:
        return x

    @d.worker(writes="b")
    async def two(x: int) -> int:
        return x

    @d.worker(writes="c")
    async def three(a: int, b: int) -> int:
        return a + b

    d.milestone("half", present("a"))
    d.stage("first", one, two)
    d.stage("second", three, entry=present("a", "b"))
    return d


LISTENED: Sequence[type[Event]] = (Event, StageEvent, ContextChanged, DeliberationStarted, ContextChanged)


async def trace(seed: int) -> tuple[list[str], list[list[str]]]:
    """The log of a case, and what each subscriber heard, whoever subscribed first."""
    order = list(range(len(LISTENED)))
    random.Random(seed).shuffle(order)
    heard: list[list[str]] = [[] for _ in LISTENED]
    hub = CaseHub(claims(), loop=PlanningStrategyLoopControl(EverythingEligible()))
    for place in order:
        hub.on(LISTENED[place])(_listener(heard[place]))
    async with hub:
        case = await hub.start("claims", case_id="c", x=1)
        await case.completed()
        log = [f"{event.version} {event.name} {event.turn}" for event in await case.log.query(Event)]
    return log, heard


def _listener(heard: list[str]) -> Callable[[Event], Awaitable[None]]:
    async def hear(event: Event) -> None:
        heard.append(f"{event.version} {event.name}")

    return hear


async def test_two_subscribers_to_one_class_each_get_all_of_it() -> None:
    log, heard = await trace(1)
    everything, stages, changes, _, again = heard
    assert everything == [" ".join(line.split()[:2]) for line in log]
    assert changes == again == [line for line in everything if "CONTEXT_CHANGED" in line]
    assert stages == [line for line in everything if "STAGE_" in line]
    assert len(changes) == len(stages) == 4


PORTIONS = [range(start, start + 50) for start in range(0, 1_000, 50)]
"""A thousand orders in portions, so that none of these tests takes long on a machine that is busy."""


@pytest.mark.parametrize(
    "seeds",
    [PORTIONS[0], *(pytest.param(seeds, marks=pytest.mark.slow) for seeds in PORTIONS[1:])],
    ids=lambda seeds: f"{seeds.start} to {seeds.stop - 1}",
)
async def test_many_orders_of_subscribing_give_one_trace(seeds: range) -> None:
    first = await trace(-1)
    for seed in seeds:
        assert await trace(seed) == first, seed
