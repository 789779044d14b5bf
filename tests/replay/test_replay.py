"""Replaying made-up logs: what each activity comes to, on whose time, and how a replay goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from casehub import (
    CaseExistsError,
    CaseHub,
    CaseStatus,
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    DeliberationFinished,
    Event,
    InputRefusedError,
    MilestoneReached,
    MilestoneSlaViolated,
    SettingsError,
    SignalReceived,
    TimerFired,
    WorkerExecutionCompleted,
    WorkerExecutionFailed,
    WorkerScheduled,
)
from casehub.activities import ActivityRecorded
from casehub.adapters.clock import VirtualClock
from casehub.binding import Binding
from casehub.definition import CaseDefinition
from casehub.events import CaseId
from casehub.folding import fold
from casehub.query import CaseQuery
from casehub.replay import replay
from casehub.spi import Answer
from tests.replay.logs import WHOLE, Happened, Order, Shop, Told, after, events_of, log_of, made_up, told
from tests.staging import Away, Kept


def at(events: list[Event], kind: type[Event]) -> list[Any]:
    return [event.at for event in events if type(event) is kind]


async def status_of(store: Kept, case: str) -> CaseStatus:
    return fold(CaseId(case), await events_of(store, case)).status


async def test_signals_are_sent_and_results_are_told_without_running_the_worker() -> None:
    shop, store = Shop(), Kept()
    summary = await shop.replay([told("a", *WHOLE, amount=3.0)], store)
    assert shop.ran == []
    events = await events_of(store, "a")
    state = fold(CaseId("a"), events)
    assert state.status is CaseStatus.COMPLETED
    assert {name: fact.author for name, fact in state.facts.items()} == {
        "order": "Ada",
        "paid": "Ada",
        "box": "pack",
        "parcel": "send",
    }
    assert state.facts["order"].value == {"at": "2017-05-01T09:00:00Z", "amount": 3.0}
    assert at(events, WorkerExecutionCompleted) == [after(10), after(20)]
    assert at(events, SignalReceived) == [after(0), after(5)]
    assert (summary.events, summary.fed, summary.signals, summary.results) == (4, 4, 2, 2)
    assert (summary.cases, summary.by_status, summary.started) == (1, {"COMPLETED": 1}, 1)
    assert (summary.refused, summary.out_of_order, summary.timers) == (0, 0, 0)
    assert (summary.first, summary.last) == (after(0), after(20))


async def test_every_activity_is_in_the_log_of_its_case_as_it_was_logged() -> None:
    store = Kept()
    await Shop().replay([told("a", *WHOLE, amount=3.0)], store)
    found = [event for event in await events_of(store, "a") if isinstance(event, ActivityRecorded)]
    assert [(each.activity, each.logged_at, each.resource, each.role) for each in found] == [
        (name, after(minute), "Ada", "CLERK") for name, minute in WHOLE
    ]
    assert [each.by for each in found] == ["user:Ada", "user:Ada", "worker:pack", "worker:send"]
    assert all(each.attributes == {"amount": 3.0} for each in found)


async def test_a_binding_that_the_log_tells_of_never_fires_by_itself() -> None:
    shop, store = Shop(), Kept()
    await shop.replay([told("a", ("Ordered", 0), ("Paid", 5))], store)
    assert shop.ran == []
    assert await status_of(store, "a") is CaseStatus.WAITING


async def test_what_nothing_in_the_case_called_for_is_a_fact_all_the_same() -> None:
    shop, store = Shop(), Kept()
    summary = await shop.replay([told("a", ("Ordered", 0), ("Packed", 3), ("Sent", 5))], store)
    events = await events_of(store, "a")
    packed = next(event for event in events if isinstance(event, ContextChanged) and "box" in event.facts)
    assert (packed.by, packed.binding, packed.at) == ("worker:pack", "", after(3))
    assert [event.binding for event in events if isinstance(event, WorkerScheduled)] == ["send"]
    assert (summary.out_of_order, summary.disorders, summary.results) == (1, [("a", "Packed")], 2)
    assert summary.by_status == {"COMPLETED": 1}


async def test_what_comes_after_the_end_of_a_case_is_refused_and_named() -> None:
    summary = await Shop().replay([told("a", *WHOLE, ("Paid", 30), ("Sent", 31)), told("b", *WHOLE)])
    assert summary.refused == 2
    assert [(case, activity) for case, activity, _ in summary.refusals] == [("a", "Paid"), ("a", "Sent")]
    assert "COMPLETED" in summary.refusals[0][2]
    assert (summary.fed, summary.signals, summary.results) == (10, 4, 4)


async def test_other_workers_really_run_at_the_time_of_what_they_follow_from() -> None:
    shop, store = Shop(), Kept()
    summary = await shop.replay([told("a", *WHOLE, amount=500.0), told("b", *WHOLE, amount=5.0)], store)
    events = await events_of(store, "a")
    alarm = next(event for event in events if isinstance(event, ContextChanged) and "alarm" in event.facts)
    assert shop.ran == ["warn"]
    assert (alarm.at, alarm.facts) == (after(0), {"alarm": "500.0 is a lot"})
    assert summary.flagged == {"alarm": ["a"]}
    assert [event.at for event in events] == sorted(event.at for event in events)


async def test_retries_come_due_in_the_years_of_the_log() -> None:
    shop, store = Shop(failures=2), Kept()
    summary = await shop.replay([told("a", ("Ordered", 0), ("Paid", 15), ("Packed", 60), amount=500.0)], store)
    events = await events_of(store, "a")
    assert at(events, WorkerExecutionFailed) == [after(0), after(10)]
    assert at(events, TimerFired) == [after(10), after(30)]
    order = [type(event) for event in events if type(event) in (SignalReceived, TimerFired)]
    assert order == [SignalReceived, TimerFired, SignalReceived, TimerFired]
    assert (summary.timers, summary.flagged) == (2, {"alarm": ["a"]})


async def test_a_service_level_passes_before_the_events_that_come_later() -> None:
    store = Kept()
    summary = await Shop().replay(
        [
            told("late", ("Ordered", 0), ("Paid", 119), ("Packed", 121), ("Sent", 500)),
            told("just", ("Ordered", 0), ("Paid", 10), ("Packed", 20), ("Sent", 119)),
            told("never", ("Ordered", 100)),
            told("open", ("Ordered", 450)),
        ],
        store,
    )
    events = await events_of(store, "late")
    kinds = [type(event) for event in events if type(event) in (ActivityRecorded, MilestoneSlaViolated)]
    assert kinds == [ActivityRecorded, ActivityRecorded, MilestoneSlaViolated, ActivityRecorded, ActivityRecorded]
    assert at(events, MilestoneSlaViolated) == [after(120)]
    assert next(event for event in events if isinstance(event, MilestoneReached)).late
    assert at(await events_of(store, "just"), MilestoneSlaViolated) == []
    assert at(await events_of(store, "never"), MilestoneSlaViolated) == [after(220)]
    assert at(await events_of(store, "open"), MilestoneSlaViolated) == []  # the log ends before
    assert summary.timers == 2
    assert [timer.due for timer in await store.due(after(10_000))] == [after(570)]


async def test_cases_are_fed_in_the_order_of_time_over_all() -> None:
    store = Kept()
    await Shop().replay(
        [told("late", ("Ordered", 60), ("Paid", 90)), told("early", ("Ordered", 0), ("Paid", 75))], store
    )
    summaries = await store.log.cases(CaseQuery())
    assert [each.case for each in summaries] == ["late", "early"]  # the latest started first


async def test_an_event_dated_back_keeps_its_place_and_its_own_time() -> None:
    store = Kept()
    await Shop().replay([told("a", ("Ordered", 30), ("Paid", 10))], store)
    found = [event for event in await events_of(store, "a") if isinstance(event, ActivityRecorded)]
    assert [(each.activity, each.at, each.logged_at) for each in found] == [
        ("Ordered", after(30), after(30)),
        ("Paid", after(30), after(10)),
    ]


async def test_what_fits_no_type_is_kept_as_an_activity_and_counted_as_refused() -> None:
    shop, store = Shop(), Kept()
    summary = await shop.replay(
        [told("a", ("Ordered", 0), amount="much"), told("b", ("Ordered", 1), ("Paid", 2), amount=1)], store
    )
    assert [(case, activity) for case, activity, _ in summary.refusals] == [("a", "Ordered")]
    assert "amount of Order: " in summary.refusals[0][2]
    kinds = [type(event).__name__ for event in await events_of(store, "a")]
    assert kinds == ["CaseStarted", "CaseStatusChanged", "ActivityRecorded"]
    assert (summary.signals, summary.refused, summary.fed) == (2, 1, 3)


async def test_a_value_function_decides_and_one_that_raises_is_named() -> None:
    d = CaseDefinition("d", signals={"size": int})
    d.activity("Measured", signal="size", value=lambda event: int(event.attributes["cm"]) * 10)
    store = Kept()
    traces = [
        Told("a", [Happened("Measured", after(0), attributes={"cm": "7"})]),
        Told("b", [Happened("Measured", after(0))]),
    ]
    summary = await replay(d, traces, store=store)
    assert fold(CaseId("a"), await events_of(store, "a")).facts["size"].value == 70
    assert summary.refusals == [("b", "Measured", "value= raised KeyError: 'cm'")]


async def test_a_result_that_fits_no_fact_fails_its_activation_or_is_kept_as_an_activity() -> None:
    d = CaseDefinition("d", signals={"begin": Any})

    @d.worker(writes="size")
    async def measure(begin: Any) -> int:
        raise AssertionError("it is told")

    d.activity("Begun", signal="begin")
    d.activity("Measured", worker=measure, value=lambda event: event.attributes["cm"])

    def measured(case: str, *names: str) -> Told:
        return Told(case, [Happened(name, after(n), attributes={"cm": "x"}) for n, name in enumerate(names)])

    store = Kept()
    summary = await replay(
        d, [measured("called", "Begun", "Measured"), measured("not", "Measured", "Begun")], store=store
    )
    assert sorted((case, activity) for case, activity, _ in summary.refusals) == [
        ("called", "Measured"),
        ("not", "Measured"),
    ]
    called = await events_of(store, "called")
    assert [event.permanent for event in called if isinstance(event, WorkerExecutionFailed)] == [True]
    recorded = [event.activity for event in await events_of(store, "not") if isinstance(event, ActivityRecorded)]
    assert recorded == ["Measured", "Begun"]
    assert (summary.fed, summary.signals, summary.results) == (4, 2, 0)


async def test_a_case_starts_with_what_its_trace_says_of_its_inputs() -> None:
    d = CaseDefinition("d", signals=["go"])

    @d.worker(writes="done")
    async def work(go: Any, customer: str, amount: float) -> str:
        return f"{customer} {amount}"

    d.activity("Gone", signal="go")
    store = Kept()
    trace = Told("a", [Happened("Gone", after(0), attributes={"(case)_Amount": 2.5})], {"Customer": "Grace"})
    await replay(d, [trace], store=store)
    assert fold(CaseId("a"), await events_of(store, "a")).facts["done"].value == "Grace 2.5"
    with pytest.raises(InputRefusedError, match=r"case 'b' of the log cannot start: .*needs the input 'amount'"):
        await replay(d, [Told("b", [Happened("Gone", after(0))], {"Customer": "Grace"})], store=Kept())


async def test_unmapped_activities_are_passed_over_and_named() -> None:
    store = Kept()
    summary = await Shop().replay([told("a", ("Ordered", 0), ("Lost", 1), ("Lost", 2))], store)
    assert summary.unmapped == {"Lost": 2}
    assert (summary.events, summary.fed) == (3, 1)
    with pytest.raises(SettingsError, match="'Lost'"):
        await Shop().replay([told("a", ("Lost", 1))], strict=True)


async def test_a_limit_takes_the_first_cases_of_the_log() -> None:
    summary = await Shop().replay([told(name, *WHOLE) for name in "abcde"], limit=2)
    assert (summary.cases, summary.events) == (2, 8)


async def test_progress_says_how_far_it_has_got() -> None:
    seen: list[tuple[str, int, int | None]] = []
    await Shop().replay([told(f"c{n}", *WHOLE) for n in range(200)], progress=lambda *told: seen.append(told))
    assert seen[-1] == ("feeding", 800, 800)
    assert ("reading", 800, None) in seen
    feeding = [done for phase, done, _ in seen if phase == "feeding"]
    assert feeding == sorted(feeding)
    assert len(feeding) >= 3


async def test_cases_that_are_there_already_are_an_error_that_says_how_to_go_on() -> None:
    shop, store = Shop(), Kept()
    await shop.replay([told("a", *WHOLE)], store)
    with pytest.raises(
        CaseExistsError, match=r"1 of the 2 cases of the log are in this store, 'a' among them; .*--resume"
    ):
        await shop.replay([told("a", *WHOLE), told("b", *WHOLE)], store)
    other = CaseDefinition("other", signals={"paid": Any})
    other.activity("Paid", signal="paid")
    with pytest.raises(CaseExistsError, match="1 cases of the log are cases of another definition"):
        await replay(other, [told("a", *WHOLE)], store=store, resume=True)


async def test_resuming_takes_only_what_has_not_been_taken() -> None:
    shop, store, whole = Shop(), Kept(), Kept()
    log = [told("a", *WHOLE), told("b", ("Ordered", 1), ("Paid", 50)), told("c", *WHOLE, ("Paid", 99))]
    shorter = [Told(each.case, each.events[:2]) for each in log[:2]]
    await shop.replay(shorter, store)
    summary = await shop.replay(log, store, resume=True)
    assert (summary.skipped, summary.fed, summary.started) == (4, 7, 1)
    assert (summary.cases, summary.by_status, summary.refused) == (3, {"COMPLETED": 2, "WAITING": 1}, 1)
    await Shop().replay(log, whole)
    for case in "abc":
        assert await log_of(store, case) == await log_of(whole, case)
    again = await shop.replay(log, store, resume=True)
    assert (again.skipped, again.fed, again.refused) == (10, 1, 1)  # what is refused is refused again


class KilledError(Exception):
    """The process is killed here."""


@pytest.mark.parametrize("commits", range(1, 30, 4))
async def test_a_replay_that_was_killed_goes_on_to_the_same_end(commits: int) -> None:
    log, whole, store = made_up(7), Kept(), Kept()
    expected = await Shop(failures=2).replay(log, whole, window=16)

    def count_down(turns: Any) -> None:
        nonlocal commits
        commits -= 1
        if commits < 0:
            raise KilledError

    store.before = count_down
    shop = Shop(failures=2)
    with pytest.raises((KilledError, ExceptionGroup)):  # from a worker's own turn it comes in a group
        await shop.replay(log, store, window=16)
    store.before = None
    summary = await Shop().replay(log, store, window=16, resume=True)
    assert (summary.by_status, summary.refused) == (expected.by_status, expected.refused)
    assert summary.skipped + summary.fed == expected.fed
    for trace in log:
        activities = [
            (event.activity, event.logged_at)
            for event in await events_of(store, trace.case)
            if isinstance(event, ActivityRecorded)
        ]
        assert activities == [
            (event.activity, event.logged_at)
            for event in await events_of(whole, trace.case)
            if isinstance(event, ActivityRecorded)
        ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("window", [4, 64])
async def test_a_case_has_the_same_log_however_many_others_are_fed_beside_it(seed: int, window: int) -> None:
    log, together = made_up(seed), Kept()
    summary = await Shop(failures=0).replay(log, together, window=window)
    timers = refused = out_of_order = 0
    end = max(event.at for trace in log for event in trace.events)
    for trace in log:
        alone = Kept()
        own = await Shop().replay([trace, Told("clock", [Happened("Paid", end)])], alone)  # the log ends then
        timers, refused, out_of_order = timers + own.timers, refused + own.refused, out_of_order + own.out_of_order
        assert await log_of(together, trace.case) == await log_of(alone, trace.case), trace.case
    assert (summary.timers, summary.refused, summary.out_of_order) == (timers, refused, out_of_order)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_store_that_is_away_for_a_while_changes_nothing(lost: bool) -> None:
    log, whole, away = made_up(3), Kept(), Away(3, lost=lost)
    expected = await Shop().replay(log, whole)
    summary = await Shop().replay(log, away)
    assert (summary.by_status, summary.refused, summary.fed) == (expected.by_status, expected.refused, expected.fed)
    for trace in log:
        assert await log_of(away, trace.case) == await log_of(whole, trace.case)


class Pondering(ChoreographyLoopControl):
    """Takes its time for every decision."""

    immediate = False

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await asyncio.sleep(0)
        return list(eligible)


async def test_a_loop_control_that_awaits_decides_in_the_years_of_the_log() -> None:
    store = Kept()
    log = [told(f"c{n}", *((name, minute + 7 * n) for name, minute in WHOLE), amount=500.0) for n in range(20)]
    summary = await Shop().replay(log, store, loop=Pondering())
    assert summary.by_status == {"COMPLETED": 20}
    assert summary.flagged == {"alarm": sorted(f"c{n}" for n in range(20))}
    for n in range(20):
        events = await events_of(store, f"c{n}")
        assert at(events, DeliberationFinished)[0] == after(7 * n)
        assert [event.at for event in events] == sorted(event.at for event in events)


async def test_timers_that_were_set_before_a_replay_was_cut_off_come_due_after_it() -> None:
    shop, store = Shop(), Kept()
    log = [told("a", ("Ordered", 0), ("Paid", 300)), told("b", ("Ordered", 10))]
    await shop.replay([Told("a", log[0].events[:1]), log[1]], store)
    summary = await shop.replay(log, store, resume=True)
    assert summary.timers == 2
    assert at(await events_of(store, "a"), MilestoneSlaViolated) == [after(120)]
    assert at(await events_of(store, "b"), MilestoneSlaViolated) == [after(130)]


async def test_other_cases_of_the_store_are_left_alone() -> None:
    shop, store = Shop(), Kept()
    async with CaseHub(shop.definition, store=store, clock=VirtualClock(after(0))) as hub:
        await (await hub.start("shop", case_id="live")).signal(order=Order(after(0), 5.0))
    before = await log_of(store, "live")
    summary = await shop.replay([told("a", *WHOLE), told("b", ("Ordered", 900))], store)
    assert (summary.cases, summary.by_status) == (2, {"COMPLETED": 1, "WAITING": 1})
    assert await log_of(store, "live") == before


async def test_the_time_limit_of_a_worker_is_a_span_of_this_machine() -> None:
    d = CaseDefinition("d", signals={"go": Any})

    @d.worker(writes="seen", timeout="30s")
    async def look(go: Any) -> str:
        return "seen"

    d.activity("Gone", signal="go")
    store = Kept()
    minutes = timedelta(days=1) / timedelta(minutes=1)
    await replay(d, [told(f"c{n}", ("Gone", n * minutes)) for n in range(50)], store=store)
    for n in range(50):
        assert "seen" in fold(CaseId(f"c{n}"), await events_of(store, f"c{n}")).facts


async def test_what_the_store_can_never_do_ends_the_replay_with_its_own_error() -> None:
    store = Kept()

    def broken(turns: Any) -> None:
        raise OSError("no space left")

    store.before = broken
    with pytest.raises(OSError, match="no space left"):
        await Shop().replay([told("a", *WHOLE)], store)
