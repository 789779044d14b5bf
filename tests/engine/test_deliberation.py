"""Deliberation: what holds while a loop control takes its time to choose, told in virtual seconds.

The rules are those of `casehub.engine.deliberation`; each loop control here does one thing that the rules are for.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from casehub import (
    Case,
    CaseCancelled,
    CaseDefinition,
    CaseFaulted,
    CaseHub,
    CaseStalled,
    CaseStalledError,
    CaseStatus,
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    Defer,
    DeliberationCancelled,
    DeliberationEvent,
    DeliberationFailed,
    DeliberationFinished,
    DeliberationStarted,
    DeliberationTimedOut,
    Event,
    GoalReached,
    LimitReached,
    Limits,
    Retry,
    Selection,
    SelectionDropped,
    SignalReceived,
    StoreUnavailableError,
    TimerCancelled,
    TimerEvent,
    TimerSet,
    WorkerExecutionFailed,
    WorkerScheduled,
)
from casehub.adapters.clock import VirtualClock
from casehub.adapters.memory import MemoryStore
from casehub.binding import Binding
from casehub.durations import Duration
from casehub.spi import Answer, CommitResult, Turn
from casehub.testing import CaseTestKit

START = datetime(2030, 1, 1, tzinfo=UTC)
Choose = Callable[[CaseView, Sequence[Binding]], Any]


@dataclass(slots=True, kw_only=True)
class ThoughtNoted(Event):
    """A loop control's own event."""

    thought: str


class Thinking(ChoreographyLoopControl):
    """Thinks for a while of the clock that its test gives it, then answers as `choose` says: everything, by default.

    `asked`: the names of what was eligible, each time; `cancelled`: how often it was called off.
    """

    immediate = False

    def __init__(
        self, takes: Duration = "0s", choose: Choose = lambda case, eligible: eligible, deadline: Duration = "1m"
    ) -> None:
        self.takes = takes
        self.choose = choose
        self.deadline = deadline
        self.clock = VirtualClock()
        self.asked: list[tuple[str, ...]] = []
        self.cancelled = 0

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.asked.append(tuple(binding.name for binding in eligible))
        try:
            await self.clock.sleep(self.takes)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        answer: Any = self.choose(case, eligible)
        if isinstance(answer, Awaitable):
            answer = await answer
        chosen: Answer = answer
        return chosen


def kit_of(*definitions: CaseDefinition, loop: Any) -> CaseTestKit:
    """A kit whose clock the loop control thinks by."""
    kit = CaseTestKit(*definitions, loop=loop, start=START)
    for each in loop.values() if isinstance(loop, dict) else [loop]:
        if isinstance(each, Thinking):
            each.clock = kit.clock
    return kit


def trading() -> CaseDefinition:
    """Two workers side by side: `quote` reads the price, `greet` the name; nothing completes it but both."""
    trade = CaseDefinition("trade", goal="deal", signals={"price": int, "name": str, "note": str, "deal": str})

    @trade.worker(writes="offer")
    async def quote(price: int) -> int:
        return price * 2

    @trade.worker(writes="greeting")
    async def greet(name: str) -> str:
        return f"Hello {name}"

    return trade


def one_step(**options: Any) -> CaseDefinition:
    """One worker, `act`, that writes what completes the case; nothing can come from outside."""
    step = CaseDefinition("step", goal="done", **options)

    @step.worker(writes="done")
    async def act(start: int) -> int:
        return start

    return step


def seconds(event: Event) -> float:
    return (event.at - START).total_seconds()


def fired(kit: CaseTestKit, case: Case) -> list[tuple[str, float]]:
    """What fired, and when, in seconds from the start."""
    return [(event.binding, seconds(event)) for event in kit.events(case, WorkerScheduled)]


def dropped(kit: CaseTestKit, case: Case) -> list[str]:
    return [event.binding for event in kit.events(case, SelectionDropped)]


# ---- what a deliberation does not hold up


async def test_a_slow_select_does_not_delay_a_signal_to_its_own_case() -> None:
    trade = trading()
    async with kit_of(trade, loop=Thinking("1s")) as kit:
        case = await kit.start(trade, price=1)
        await kit.advance("0.4s")
        await case.signal(note="urgent")
        assert (await case.context())["note"] == "urgent"
        assert [seconds(event) for event in kit.events(case, SignalReceived)] == [0.4]
        assert fired(kit, case) == []
        await kit.advance("0.6s")
        assert fired(kit, case) == [("quote", 1.0)]


async def test_a_slow_select_does_not_delay_another_case() -> None:
    trade, step = trading(), one_step()
    async with kit_of(trade, step, loop={"trade": Thinking("1s")}) as kit:
        slow = await kit.start(trade, price=1)
        other = await kit.start(trade, price=1)
        quick = await kit.start(step, start=1)
        await kit.settle()
        assert await quick.status() is CaseStatus.COMPLETED
        await kit.advance("1s")
        assert fired(kit, slow) == fired(kit, other) == [("quote", 1.0)]


async def test_a_case_can_be_cancelled_while_it_is_deliberated_on() -> None:
    step, loop = one_step(), Thinking("1h", deadline="2h")
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1s")
        await case.cancel(reason="too late")
        await kit.settle()
        assert loop.cancelled == 1
        assert [type(event) for event in kit.events(case)[-2:]] == [DeliberationCancelled, CaseCancelled]
        await kit.advance("3h")
        assert kit.events(case, DeliberationFinished) == []


async def test_a_worker_that_runs_does_not_keep_the_loop_control_from_being_asked() -> None:
    trade, loop = trading(), Thinking("1s")
    async with kit_of(trade, loop=loop) as kit:

        async def slow(price: int) -> int:
            await kit.clock.sleep("1h")
            return price

        kit.script("quote", slow)
        case = await kit.start(trade, price=1)
        await kit.advance("10s")
        await case.signal(name="Ada")
        await kit.advance("10s")
        assert loop.asked == [("quote",), ("greet",)]
        assert fired(kit, case) == [("quote", 1.0), ("greet", 11.0)]


# ---- when it is due


async def test_changes_that_come_during_a_deliberation_lead_to_one_more() -> None:
    trade, loop = trading(), Thinking("1s")
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        for number in range(10):
            await case.signal(name=f"name {number}")
        await kit.advance("10s")
        assert loop.asked == [("quote",), ("greet",)]
        assert len(kit.events(case, DeliberationStarted)) == 2
        assert fired(kit, case) == [("quote", 1.0), ("greet", 2.0)]


async def test_a_change_that_nothing_eligible_reads_leads_to_none() -> None:
    trade, loop = trading(), Thinking(choose=lambda case, eligible: Defer(after="1h"))
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        await kit.settle()
        for number in range(5):
            await case.signal(note=f"note {number}")
            await kit.advance("1s")
        assert len(loop.asked) == 1


async def test_what_it_leaves_out_is_asked_about_again_when_what_it_chose_has_come_back() -> None:
    trade, loop = trading(), Thinking(choose=lambda case, eligible: eligible[:1])
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1, name="Ada")
        await kit.settle()
        assert loop.asked == [("quote", "greet"), ("greet",)]
        assert [name for name, _ in fired(kit, case)] == ["quote", "greet"]


async def test_what_it_writes_itself_does_not_make_it_due() -> None:
    def note(case: CaseView, eligible: Sequence[Binding]) -> Selection:
        return Selection(writes=[ThoughtNoted(thought="hm")], rationale="not yet")

    step, loop = one_step(), Thinking(choose=note)
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1d")
        assert len(loop.asked) == 1
        assert [event.thought for event in kit.events(case, ThoughtNoted)] == ["hm"]
        assert len(kit.events(case, CaseStalled)) == 1


async def test_what_it_fires_itself_does_not_make_it_due() -> None:
    trade, loop = trading(), Thinking()
    async with kit_of(trade, loop=loop) as kit:

        async def slow(**facts: Any) -> int:
            await kit.clock.sleep("1h")
            return 1

        kit.script("quote", slow)
        await kit.start(trade, price=1)
        await kit.advance("30m")
        assert len(loop.asked) == 1


async def test_facts_that_change_faster_than_it_thinks_still_let_it_get_on() -> None:
    trade, loop = trading(), Thinking("1s")
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=0)
        for price in range(1, 60):
            await kit.advance("0.5s")
            await case.signal(price=price)
        await kit.settle()
        times = [at for name, at in fired(kit, case) if name == "quote"]
        assert len(times) >= 6
        assert max(later - earlier for earlier, later in zip([0.0, *times], times, strict=False)) <= 5


async def test_facts_that_what_was_chosen_does_not_read_may_change_all_the_time() -> None:
    trade = trading()
    async with kit_of(trade, loop=Thinking("1s")) as kit:
        case = await kit.start(trade, price=0)
        for number in range(4):
            await kit.advance("0.25s")
            await case.signal(note=f"note {number}")
        await kit.settle()
        assert fired(kit, case) == [("quote", 1.0)]
        assert dropped(kit, case) == []


# ---- what it sees


async def test_it_sees_the_facts_as_they_were_when_it_was_asked() -> None:
    seen: list[Any] = []

    def look(case: CaseView, eligible: Sequence[Binding]) -> Answer:
        seen.append((case.context["price"], case.now))
        return []

    trade, loop = trading(), Thinking("1s", look)
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        await kit.advance("0.5s")
        await case.signal(price=2)
        await kit.advance("0.5s")
        assert seen == [(1, START)]


async def test_it_sees_what_led_to_it_in_the_log() -> None:
    seen: list[list[str]] = []

    async def look(case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        seen.append([event.binding for event in await case.log.query(WorkerExecutionFailed)])
        return eligible

    pair = CaseDefinition("pair", done_when=lambda b: b > 1)

    @pair.worker(writes="a", retry=Retry(1), on_exhausted="ignore")
    async def first(start: int) -> int:
        raise OSError

    @pair.worker(writes="b", on=WorkerExecutionFailed)
    async def second(start: int) -> int:
        return 2

    async with kit_of(pair, loop=Thinking(choose=look)) as kit:
        case = await kit.start(pair, start=1)
        await kit.settle()
        assert await case.status() is CaseStatus.COMPLETED
    assert seen[-1] == ["first"]


async def test_its_log_is_fixed_at_the_position_it_was_asked_at() -> None:
    counts: list[int] = []

    async def look(case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        counts.append(len(await case.log.query(ContextChanged, across="all")))
        return []

    trade = trading()
    async with kit_of(trade, loop=Thinking("1s", look)) as kit:
        case = await kit.start(trade, price=1)
        await case.signal(note="later")
        await kit.start(trade, price=1)
        await kit.advance("1s")
        (started,) = kit.events(case, DeliberationStarted)
        (finished,) = kit.events(case, DeliberationFinished)
        until = [event for event in kit.events(None, ContextChanged) if event.seq <= started.as_of]
        assert counts[0] == len(until) == 1
        assert finished.as_of == started.as_of


# ---- what fires


async def test_a_choice_whose_facts_have_changed_is_dropped_and_the_rest_stands() -> None:
    trade, loop = trading(), Thinking("1s")
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1, name="Ada")
        await kit.advance("0.5s")
        await case.signal(price=2)
        await kit.advance("0.5s")
        assert fired(kit, case) == [("greet", 1.0)]
        (drop,) = kit.events(case, SelectionDropped)
        assert drop.binding == "quote"
        assert "price" in drop.reason
        await kit.advance("1s")
        assert fired(kit, case) == [("greet", 1.0), ("quote", 2.0)]
        assert (await case.context())["offer"] == 4


async def test_a_choice_that_is_not_eligible_any_more_is_dropped() -> None:
    trade = trading()
    async with kit_of(trade, loop=Thinking("1s")) as kit:
        case = await kit.start(trade, price=1, name="Ada")
        await kit.advance("0.5s")
        await case.delete("price")
        await kit.advance("0.5s")
        assert fired(kit, case) == [("greet", 1.0)]
        assert [(e.binding, e.reason) for e in kit.events(case, SelectionDropped)] == [
            ("quote", "it is not eligible any more")
        ]


async def test_a_strict_answer_falls_whole() -> None:
    trade = trading()
    strict = Thinking("1s", lambda case, eligible: Selection(eligible, strict=True))
    async with kit_of(trade, loop=strict) as kit:
        case = await kit.start(trade, price=1, name="Ada")
        await kit.advance("0.5s")
        await case.signal(price=2)
        await kit.advance("0.5s")
        assert fired(kit, case) == []
        assert sorted(dropped(kit, case)) == ["greet", "quote"]
        await kit.advance("1s")
        assert sorted(fired(kit, case)) == [("greet", 2.0), ("quote", 2.0)]


async def test_a_choice_that_a_limit_holds_back_is_dropped() -> None:
    trade = trading()
    trade.limits = Limits(firings=1)
    async with kit_of(trade, loop=Thinking("1s")) as kit:
        case = await kit.start(trade, price=1, name="Ada")
        await kit.advance("1s")
        assert fired(kit, case) == [("quote", 1.0)]
        (drop,) = kit.events(case, SelectionDropped)
        assert drop.binding == "greet"
        assert "firings" in drop.reason
        assert len(kit.events(case, LimitReached)) == 1


async def test_a_strict_answer_falls_whole_for_a_limit_too() -> None:
    trade = trading()
    trade.limits = Limits(concurrency=1)
    strict = Thinking("1s", lambda case, eligible: Selection(eligible, strict=True))
    async with kit_of(trade, loop=strict) as kit:
        case = await kit.start(trade, price=1, name="Ada")
        await kit.advance("1s")
        assert fired(kit, case) == []
        assert sorted(dropped(kit, case)) == ["greet", "quote"]


async def test_after_three_drops_in_a_row_eligibility_alone_decides_and_the_log_says_so() -> None:
    trade = trading()
    async with kit_of(trade, loop=Thinking("1s")) as kit:
        case = await kit.start(trade, price=0)
        for price in range(1, 5):
            await kit.advance("0.5s")
            await case.signal(price=price)
            await kit.advance("0.5s")
        assert dropped(kit, case) == ["quote"] * 3
        assert fired(kit, case) == [("quote", 4.0)]
        names = [event.name for event in kit.events(case) if seconds(event) == 4.0]
        assert "SELECTION_FORCED" in names
        await kit.advance("0.5s")
        await case.signal(price=9)
        await kit.advance("0.5s")
        await case.signal(price=10)
        await kit.advance("0.5s")
        assert dropped(kit, case) == ["quote"] * 4  # what fired counts from the beginning


async def test_choices_fire_in_the_order_of_the_answer() -> None:
    trade = trading()
    async with kit_of(trade, loop=Thinking(choose=lambda case, eligible: eligible[::-1])) as kit:
        case = await kit.start(trade, price=1, name="Ada")
        await kit.settle()
        assert [name for name, _ in fired(kit, case)] == ["greet", "quote"]


async def test_its_answer_writes_and_firings_are_one_turn() -> None:
    def choose(case: CaseView, eligible: Sequence[Binding]) -> Selection:
        return Selection(eligible, rationale="because", writes=[ThoughtNoted(thought="now")])

    step = one_step()
    async with kit_of(step, loop=Thinking("1s", choose)) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1s")
        (finished,) = kit.events(case, DeliberationFinished)
        assert (finished.chosen, finished.rationale, finished.seconds) == (("act",), "because", 1.0)
        turn = [event.name for event in kit.events(case) if event.turn == finished.turn]
        assert turn == ["DELIBERATION_FINISHED", "THOUGHT_NOTED", "WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED"]


# ---- choosing nothing


async def test_an_empty_answer_with_nothing_in_flight_stalls_the_case() -> None:
    step, loop = one_step(), Thinking(choose=lambda case, eligible: Selection(rationale="too risky"))
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        with pytest.raises(CaseStalledError, match="act: NOT_SELECTED - too risky"):
            await case.completed()
        await kit.advance("1d")
        assert len(loop.asked) == 1


async def test_an_empty_answer_stalls_a_case_that_takes_signals_too() -> None:
    trade = trading()
    async with kit_of(trade, loop=Thinking(choose=lambda case, eligible: [])) as kit:
        case = await kit.start(trade, price=1)
        await kit.settle()
        (stalled,) = kit.events(case, CaseStalled)
        assert any(reason.startswith("quote: NOT_SELECTED") for reason in stalled.reasons)


async def test_an_empty_answer_stalls_nothing_while_something_runs() -> None:
    trade = trading()
    loop = Thinking(choose=lambda case, eligible: [b for b in eligible if b.name == "quote"])
    async with kit_of(trade, loop=loop) as kit:

        async def slow(**facts: Any) -> int:
            await kit.clock.sleep("1m")
            return 1

        kit.script("quote", slow)
        case = await kit.start(trade, price=1, name="Ada")
        await kit.advance("59s")
        assert kit.events(case, CaseStalled) == []
        await kit.advance("1s")
        assert len(loop.asked) == 2
        assert len(kit.events(case, CaseStalled)) == 1


async def test_a_stalled_case_goes_on_when_what_is_eligible_changes() -> None:
    trade = trading()
    loop = Thinking(choose=lambda case, eligible: [b for b in eligible if case.context["price"] > 5])
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        await kit.settle()
        assert (await case.state()).stalled
        await case.signal(price=9)
        await kit.settle()
        assert (await case.context())["offer"] == 18


# ---- asking to be asked again


async def test_it_can_ask_to_be_asked_again_after_a_while() -> None:
    step = one_step()
    loop = Thinking("1s", lambda case, eligible: eligible if len(loop.asked) > 1 else Defer(after="1h"))
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1s")
        (finished,) = kit.events(case, DeliberationFinished)
        assert finished.deferred
        assert await case.status() is CaseStatus.WAITING
        assert kit.events(case, CaseStalled) == []
        await kit.advance("1h")
        assert len(loop.asked) == 2
        await kit.advance("1s")
        assert fired(kit, case) == [("act", 3602.0)]


async def test_a_deferral_counts_from_the_answer() -> None:
    step = one_step()
    loop = Thinking("10m", lambda case, eligible: Defer(after="5m"), deadline="1h")
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("10m")
        (timer,) = kit.events(case, TimerSet)
        assert timer.due == START + timedelta(minutes=15)
        assert len(loop.asked) == 1


async def test_it_can_ask_to_be_asked_again_at_a_time() -> None:
    step = one_step()
    loop = Thinking(
        choose=lambda case, eligible: eligible if len(loop.asked) > 1 else Defer(until=START + timedelta(9))
    )
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("30d")
        assert fired(kit, case) == [("act", 9 * 86400.0)]


async def test_it_can_ask_to_be_asked_again_when_something_happens() -> None:
    trade = trading()
    loop = Thinking(choose=lambda case, eligible: eligible if len(loop.asked) > 1 else Defer(on=SignalReceived))
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        await kit.advance("1d")
        assert (len(loop.asked), await case.status()) == (1, CaseStatus.WAITING)
        await case.signal(note="an event, whatever it brings")
        await kit.settle()
        assert len(loop.asked) == 2
        assert [name for name, _ in fired(kit, case)] == ["quote"]


async def test_a_deferral_is_off_when_it_is_asked_earlier() -> None:
    trade = trading()
    loop = Thinking(choose=lambda case, eligible: eligible if len(loop.asked) > 1 else Defer(after="1h"))
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        await kit.advance("1m")
        await case.signal(price=2)
        await kit.advance("1d")
        assert len(loop.asked) == 2
        assert len(kit.events(case, TimerCancelled)) == 1
        assert [name for name, _ in fired(kit, case)] == ["quote"]


async def left(*arguments: Any, **options: Any) -> None:
    """A hub that starts a case of one step and is left in the middle of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the store lives on
        async with CaseHub(*arguments, **options) as hub:
            case = await hub.start("step", case_id="kept", start=1)
            await asyncio.wait([asyncio.ensure_future(case.quiescent())], timeout=0)


async def test_a_deferral_outlives_the_hub() -> None:
    step, store, clock = one_step(), MemoryStore(), VirtualClock(START)
    await left(step, loop=Thinking(choose=lambda case, eligible: Defer(after="1h")), store=store, clock=clock)
    loop = Thinking()
    async with CaseHub(step, loop=loop, store=store, clock=clock) as hub:
        clock.move("1h")
        assert (await hub.case("kept").completed())["done"] == 1
        timers = [event.name for event in await hub.case("kept").log.query(TimerEvent)]
        assert timers == ["TIMER_SET", "TIMER_FIRED"]


@pytest.mark.parametrize(
    "defer",
    [Defer(), Defer(until=datetime(2031, 1, 1)), Defer(after="soon"), Defer(after=timedelta(-1))],  # noqa: DTZ001 - that is what is wrong with it
    ids=["never", "naive", "no_duration", "negative"],
)
async def test_a_deferral_that_says_no_time_is_a_failed_deliberation(defer: Defer) -> None:
    step, loop = one_step(), Thinking(choose=lambda case, eligible: defer)
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1m")
        assert len(kit.events(case, DeliberationFailed)) == 3
        assert (await case.state()).stalled


# ---- no answer, or a wrong one


async def test_an_answer_past_the_deadline_fires_nothing_and_it_is_asked_again() -> None:
    step = one_step()
    loop = Thinking("1h", deadline="30s")
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("30s")
        (late,) = kit.events(case, DeliberationTimedOut)
        assert (late.limit, seconds(late), loop.cancelled) == (30.0, 30.0, 1)
        loop.takes = "1s"
        await kit.advance("2s")
        assert fired(kit, case) == [("act", 32.0)]


async def test_after_three_failures_in_a_row_the_case_stalls_and_says_why() -> None:
    step = one_step()
    loop = Thinking("1h", deadline="30s")
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1d")
        assert [seconds(event) for event in kit.events(case, DeliberationTimedOut)] == [30.0, 61.0, 93.0]
        (stalled,) = kit.events(case, CaseStalled)
        assert "act: NOT_SELECTED - the loop control did not answer within 30 s" in stalled.reasons
        assert len(loop.asked) == 3


@pytest.mark.parametrize("signals", [{}, {"price": int}], ids=["closed", "open"])
async def test_failures_stall_a_case_whether_it_takes_signals_or_not(signals: dict[str, type]) -> None:
    step = one_step(signals=signals)
    async with kit_of(step, loop=Thinking(choose=lambda case, eligible: 1 / 0)) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1m")
        failed = kit.events(case, DeliberationFailed)
        assert [(event.error, seconds(event)) for event in failed] == [
            ("ZeroDivisionError", 0.0),
            ("ZeroDivisionError", 1.0),
            ("ZeroDivisionError", 3.0),
        ]
        assert len(kit.events(case, CaseStalled)) == 1


async def test_a_case_that_stalled_for_failures_is_asked_about_again_when_something_changes() -> None:
    trade, loop = trading(), Thinking(choose=lambda case, eligible: 1 / 0)
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        await kit.advance("1m")
        loop.choose = lambda case, eligible: eligible
        await case.signal(price=2)
        await kit.settle()
        assert (await case.context())["offer"] == 4


async def test_a_change_does_not_cut_the_backoff_short() -> None:
    trade, loop = trading(), Thinking(choose=lambda case, eligible: 1 / 0)
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        for price in range(2, 6):
            await kit.advance("0.2s")
            await case.signal(price=price)
        await kit.settle()
        assert len(loop.asked) == 1
        await kit.advance("0.2s")
        assert [seconds(event) for event in kit.events(case, DeliberationStarted)] == [0.0, 1.0]


async def test_failures_count_in_a_row_only() -> None:
    trade = trading()

    def sometimes(case: CaseView, eligible: Sequence[Binding]) -> Answer:
        if len(loop.asked) % 3:
            raise OSError("the model is away")
        return []

    loop = Thinking(choose=sometimes)
    async with kit_of(trade, loop=loop) as kit:
        case = await kit.start(trade, price=1)
        await kit.advance("1m")
        await case.signal(price=2)
        await kit.advance("1m")
        assert len(loop.asked) == 6
        assert len(kit.events(case, DeliberationFailed)) == 4


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "act",
        7,
        ["act"],
        [Binding("other", ())],
        lambda eligible: [eligible[0]] * 2,
        iter,
    ],
    ids=["none", "text", "number", "names", "stranger", "twice", "iterator"],
)
async def test_an_answer_outside_of_what_is_eligible_fires_nothing(answer: Any) -> None:
    step = one_step()
    loop = Thinking(choose=lambda case, eligible: answer(eligible) if callable(answer) else answer)
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1m")
        failed = kit.events(case, DeliberationFailed)
        assert [event.error for event in failed] == ["LoopControlError"] * 3
        assert fired(kit, case) == []
        assert (await case.state()).stalled


@pytest.mark.parametrize("wrong", ["text", "recorded", "twice"])
async def test_writes_that_are_no_new_events_are_refused(wrong: str) -> None:
    step, thought = one_step(), ThoughtNoted(thought="hm")

    async def choose(case: CaseView, eligible: Sequence[Binding]) -> Selection:
        writes: dict[str, Any] = {
            "text": ["hm"],
            "recorded": await case.log.query(ContextChanged),
            "twice": [thought, thought],
        }
        return Selection(eligible, writes=writes[wrong])

    async with kit_of(step, loop=Thinking(choose=choose)) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1m")
        assert [event.error for event in kit.events(case, DeliberationFailed)] == ["LoopControlError"] * 3
        assert fired(kit, case) == []


async def test_what_it_wrote_before_it_failed_is_discarded() -> None:
    def choose(case: CaseView, eligible: Sequence[Binding]) -> Any:
        return Selection([Binding("other", ())], writes=[ThoughtNoted(thought="lost")])

    step = one_step()
    async with kit_of(step, loop=Thinking(choose=choose)) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1m")
        assert kit.events(case, ThoughtNoted) == []


async def test_a_late_answer_is_void() -> None:
    class Stubborn(Thinking):
        async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            try:
                return await super().select(case, eligible)
            except asyncio.CancelledError:
                return eligible

    step = one_step()
    async with kit_of(step, loop=Stubborn("1h", deadline="1s")) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1m")
        assert fired(kit, case) == []
        assert [seconds(event) for event in kit.events(case, DeliberationTimedOut)] == [1.0, 3.0, 6.0]


async def test_a_cancellation_from_within_is_a_failure() -> None:
    async def choose(case: CaseView, eligible: Sequence[Binding]) -> Answer:
        raise asyncio.CancelledError("the client went away")

    step = one_step()
    async with kit_of(step, loop=Thinking(choose=choose)) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("1m")
        assert len(kit.events(case, DeliberationFailed)) == 3
        assert (await case.state()).stalled


# ---- suspending


async def test_suspending_cancels_the_deliberation_and_resuming_starts_one() -> None:
    step, loop = one_step(), Thinking("10s")
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.advance("5s")
        await case.suspend(reason="lunch")
        await kit.advance("1h")
        assert loop.cancelled == 1
        assert [type(event) for event in kit.events(case, DeliberationEvent)] == [
            DeliberationStarted,
            DeliberationCancelled,
        ]
        await case.resume()
        await kit.advance("10s")
        assert fired(kit, case) == [("act", 3615.0)]
        assert [event.deliberation for event in kit.events(case, DeliberationStarted)] == [1, 2]


async def test_suspending_twice_in_a_row_cancels_each_deliberation() -> None:
    step, loop = one_step(), Thinking("10s")
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.settle()
        async with asyncio.TaskGroup() as group:
            group.create_task(case.suspend())
            group.create_task(case.resume())
        await kit.settle()
        await case.suspend()
        await kit.advance("1m")
        assert loop.cancelled == 2
        assert fired(kit, case) == []
        await case.resume()
        await kit.advance("10s")
        assert [name for name, _ in fired(kit, case)] == ["act"]


async def test_resuming_asks_again_though_nothing_was_under_way() -> None:
    step = one_step()
    loop = Thinking(choose=lambda case, eligible: eligible if len(loop.asked) > 1 else [])
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.settle()
        await case.suspend()
        await kit.settle()
        assert len(loop.asked) == 1
        await case.resume()
        await kit.settle()
        assert await case.status() is CaseStatus.COMPLETED


async def test_a_deferral_that_came_due_while_suspended_is_made_up_for() -> None:
    step = one_step()
    loop = Thinking(choose=lambda case, eligible: eligible if len(loop.asked) > 1 else Defer(after="1m"))
    async with kit_of(step, loop=loop) as kit:
        case = await kit.start(step, start=1)
        await kit.settle()
        await case.suspend()
        await kit.advance("1h")
        assert len(loop.asked) == 1
        await case.resume()
        await kit.settle()
        assert await case.status() is CaseStatus.COMPLETED


# ---- loop controls that answer at once


async def test_an_immediate_loop_control_can_ask_to_be_asked_again() -> None:
    class Later(ChoreographyLoopControl):
        async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return Defer(until=START + timedelta(hours=1)) if case.now < START + timedelta(hours=1) else eligible

    step = one_step()
    async with kit_of(step, loop=Later()) as kit:
        case = await kit.start(step, start=1)
        await kit.settle()
        assert kit.events(case, CaseStalled) == []
        await kit.advance("1h")
        assert fired(kit, case) == [("act", 3600.0)]


async def test_an_immediate_loop_control_that_suspends_faults_the_case() -> None:
    class Hasty(Thinking):
        immediate = True

    step = one_step()
    async with kit_of(step, loop=Hasty("1s")) as kit:
        case = await kit.start(step, start=1)
        await kit.settle()
        (fault,) = kit.events(case, CaseFaulted)
        assert "say immediate=False" in fault.reason


# ---- when the process or the store goes away


async def test_a_deliberation_of_a_hub_that_was_left_is_started_again() -> None:
    step, store, clock, loop = one_step(), MemoryStore(), VirtualClock(START), Thinking("1h")
    loop.clock = clock
    await left(step, loop=loop, store=store, clock=clock)
    async with CaseHub(step, loop=Thinking(), store=store, clock=clock) as hub:
        case = hub.case("kept")
        assert (await case.completed())["done"] == 1
        kinds = [type(event).__name__ for event in await case.log.query(DeliberationEvent)]
        assert kinds == ["DeliberationStarted", "DeliberationCancelled", "DeliberationStarted", "DeliberationFinished"]


class Unsure(MemoryStore):
    """A store whose commits do not say what became of them, or never happen, when it is told so."""

    __slots__ = ("fail",)

    def __init__(self) -> None:
        super().__init__()
        self.fail: Callable[[Sequence[Turn]], str] = lambda turns: ""

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        how = self.fail(turns)
        if how == "before":
            raise StoreUnavailableError("away")
        results = await super().commit(turns)
        if how == "after":
            raise StoreUnavailableError("gone before it could say so")
        return results


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("kind", [DeliberationStarted, DeliberationFinished])
async def test_a_store_that_is_away_for_a_moment_costs_no_deliberation(how: str, kind: type[Event]) -> None:
    step, store, clock, loop = one_step(), Unsure(), VirtualClock(START), Thinking("1s")
    loop.clock = clock
    failed: list[str] = []

    def once(turns: Sequence[Turn]) -> str:
        if failed or not any(isinstance(event, kind) for turn in turns for event in turn.events):
            return ""
        failed.append(how)
        return how

    store.fail = once
    async with CaseHub(step, loop=loop, store=store, clock=clock) as hub:
        starting = asyncio.create_task(hub.start(step, case_id="kept", start=1))
        for _ in range(200):
            await asyncio.sleep(0)
            if clock.sleepers:
                clock.move_until(clock.sleepers[0])
        case = await starting
        assert (await case.completed())["done"] == 1
        events = await case.log.query(Event)
        assert failed == [how]
        assert [type(event) for event in events if isinstance(event, DeliberationEvent)] == [
            DeliberationStarted,
            DeliberationFinished,
        ]
        assert [event.goal for event in events if isinstance(event, GoalReached)] == ["done"]
