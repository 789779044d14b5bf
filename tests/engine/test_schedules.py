"""Bindings that time triggers: their timers, what becomes of late occurrences, and what a case says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import make_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl
from casehub import (
    Answer,
    Binding,
    CaseDefinition,
    CaseStalled,
    CaseStatus,
    CaseView,
    ContextChanged,
    LimitReached,
    Retry,
    Schedule,
    Signal,
    TimerCancelled,
    TimerFired,
    TimerSet,
    Verdict,
    WorkerScheduled,
    after,
    at,
    cron,
    every,
    present,
)
from casehub.engine.timekeeping import GRACE, MOST
from casehub.inputs import Adopt, SteerStage
from casehub.lifecycle import MilestoneStatus
from casehub.stage import StageVerb
from casehub.validation import build
from tests.engine.core import NOON, Core, names, of


def timed(*on: Schedule | str | Signal, **options: Any) -> CaseDefinition:
    """A case whose worker is triggered by time and counts how often."""
    d = CaseDefinition("d", goal="done", signals={"done": int, "approval": bool, "deadline": str, "tick": int})
    ran: list[int] = []
    options.setdefault("retry", Retry(1))

    @d.worker(writes="refreshed", on=on, **options)
    async def refresh() -> int:
        ran.append(1)
        return len(ran)

    return d


def started(*on: Schedule | str | Signal, **options: Any) -> Core:
    core = Core(timed(*on, **options))
    core.start()
    return core


def fired_at(core: Core) -> list[str]:
    """When the worker was started, in hours and minutes from the start."""
    return [_span(event.at) for event in core.log if isinstance(event, WorkerScheduled)]


def stands_for(core: Core) -> list[str | None]:
    """The times of the occurrences that the worker was started for."""
    return [None if event.due is None else _span(event.due) for event in core.log if isinstance(event, WorkerScheduled)]


def _span(moment: datetime) -> str:
    minutes, seconds = divmod(int((moment - NOON).total_seconds()), 60)
    return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


def working(core: Core, span: str, step: str = "1m") -> None:
    """Let time pass in steps, and workers come back at once."""
    end = core.now + (timedelta(hours=float(span[:-1])) if span.endswith("h") else timedelta(minutes=float(span[:-1])))
    while core.now < end:
        core.pass_time(step)
        core.run()


def away(core: Core, **span: float) -> None:
    """Nobody works the case for a while."""
    core.now += timedelta(**span)
    core.crash()
    core.pass_time("0s")


# ---- what triggers it


def test_a_case_that_only_waits_for_time_is_waiting() -> None:
    core = Core(timed(after("2d")))
    events = core.start()
    assert names(events) == ["CASE_STARTED", "TIMER_SET", "CASE_STATUS_CHANGED"]
    assert core.status is CaseStatus.WAITING
    (timer,) = of(events, TimerSet)
    assert (timer.timer, timer.due, timer.since) == ("time:refresh:after 2d", NOON + timedelta(days=2), NOON)


def test_without_signals_too_it_waits_and_then_stalls_when_no_time_is_left_to_wait_for() -> None:
    d = CaseDefinition("d", goal="never", strict=False)

    @d.worker(writes="seen", on=after("1h"))
    async def look() -> int:
        return 1

    @d.worker(writes="never")
    async def finish(nothing: int) -> int:
        return nothing

    d.inputs = make_dataclass("Nothing", [])  # nobody brings anything
    core = Core(d)
    core.start()
    assert core.status is CaseStatus.WAITING
    core.pass_time("1h")
    core.run()
    assert core.count(CaseStalled) == 1
    assert core.why("look").text == "after 1h: has no further occurrence"


def test_after_a_span_it_fires_once() -> None:
    core = started(after("2h"))
    working(core, "10h", "10m")
    assert fired_at(core) == ["2:00"]
    assert stands_for(core) == ["2:00"]
    assert core.facts["refreshed"] == 1


def test_every_span_it_fires_again_without_drift() -> None:
    core = started(every("90m"))
    for _ in range(5):
        core.now += timedelta(minutes=90, seconds=30)  # whoever brings the timer is a little later each time
        core.pass_time("0s")
        core.run()
    assert fired_at(core)[-1] == "7:32:30"
    assert stands_for(core) == ["1:30", "3:00", "4:30", "6:00", "7:30"]


def test_a_late_start_does_not_move_the_next_occurrence() -> None:
    core = started(every("1h"))
    core.now += timedelta(minutes=100)
    core.pass_time("0s")
    core.run()
    working(core, "3h", "5m")
    assert fired_at(core) == ["1:40", "2:00", "3:00", "4:00"]
    assert stands_for(core) == ["1:00", "2:00", "3:00", "4:00"]


def test_at_a_moment() -> None:
    core = started(at(NOON + timedelta(hours=3)))
    working(core, "10h", "1h")
    assert fired_at(core) == ["3:00"]


def test_a_moment_that_has_passed_when_the_case_starts_is_made_up_for_at_once() -> None:
    core = started(at(NOON - timedelta(days=1)))
    core.pass_time("0s")
    assert core.running == ["refresh"]
    core = started(at(NOON - timedelta(days=1), catch_up="skip"))
    core.pass_time("1h")
    assert core.running == []
    assert core.count(TimerFired, skipped=True) == 1
    assert core.state.timers == {}


def test_a_cron_expression_in_a_time_zone() -> None:
    core = started(cron("0 2 * * *", tz="Europe/Berlin"))
    working(core, "40h", "30m")
    assert fired_at(core) == ["13:00", "37:00"]


def test_after_a_fact_was_written_and_again_after_it_is_written_anew() -> None:
    core = started(after("2h", since="approval"))
    assert core.why("refresh").text == "after 2h since approval: fact 'approval' is not there"
    working(core, "3h", "30m")
    assert fired_at(core) == []
    core.signal(approval=False)
    working(core, "1h", "30m")
    core.signal(approval=True)  # moves it
    assert core.why("refresh").text == "its next occurrence is due 2030-01-01 18:00:00Z (after 2h since approval)"
    working(core, "5h", "30m")
    assert fired_at(core) == ["6:00"]
    core.signal(approval=False)
    working(core, "5h", "30m")
    assert fired_at(core) == ["6:00", "11:00"]


def test_a_fact_that_is_deleted_cancels_the_timer_that_was_counted_from_it() -> None:
    core = started(after("2h", since="approval"))
    core.signal(approval=True)
    assert of(core.delete("approval"), TimerCancelled)
    assert core.state.timers == {}
    working(core, "3h", "30m")
    assert fired_at(core) == []


def test_after_a_milestone_was_reached() -> None:
    d = timed(after("2h", since="approved"))
    d.milestone("approved", present("approval"))
    core = Core(d)
    core.start()
    assert core.why("refresh").text == "after 2h since approved: milestone 'approved' is not reached"
    core.pass_time("1h")
    core.signal(approval=True)
    assert core.state.milestones["approved"].status is MilestoneStatus.ACHIEVED
    core.pass_time("1h")
    core.signal(approval=False)  # it stays reached, from when it was
    core.pass_time("1h")
    assert fired_at(core) == ["3:00"]


def test_at_the_moment_that_a_fact_holds_wherever_it_moves_to() -> None:
    core = started(at("deadline"))
    core.signal(deadline="2030-01-01T20:00:00+01:00")
    assert set(core.state.timers.values()) == {NOON + timedelta(hours=7)}
    core.signal(deadline="2030-01-01T15:00:00Z")
    working(core, "10h", "30m")
    assert fired_at(core) == ["3:00"]


def test_a_fact_that_is_no_moment_sets_no_timer_and_the_case_says_so() -> None:
    core = started(at("deadline"))
    core.signal(deadline="soon")
    assert core.state.timers == {}
    said = core.why("refresh")
    assert said.verdict is Verdict.UNCHANGED
    assert said.text == "at deadline: fact 'deadline' is 'soon', which is no moment; write ISO 8601 with an offset"
    core.signal(deadline="2030-01-01T15:00:00Z")
    assert len(core.state.timers) == 1


def test_an_occurrence_counts_beside_facts_and_signals_that_trigger_the_same_binding() -> None:
    core = started(every("1h"), "approval", Signal("tick"))
    core.signal(approval=True)
    core.run()
    core.occur("tick")
    core.run()
    working(core, "1h", "30m")
    core.occur("tick")
    core.run()
    assert fired_at(core) == ["0:00", "0:00", "1:00", "1:00"]
    assert stands_for(core) == [None, None, "1:00", None]


@pytest.mark.parametrize(("policy", "runs"), [("skip", 1), ("once", 2)])
def test_an_occurrence_at_its_time_finds_the_worker_busy_for_another_reason(policy: str, runs: int) -> None:
    core = started(every("1h", catch_up=policy), "approval")
    core.pass_time("59m")
    core.signal(approval=True)
    core.pass_time("1m")
    assert core.count(TimerFired) == 1
    core.run()
    assert len(fired_at(core)) == runs


def test_several_schedules_of_one_binding_each_have_their_timer() -> None:
    core = started(every("1h"), after("90m"))
    working(core, "3h", "30m")
    assert fired_at(core) == ["1:00", "1:30", "2:00", "3:00"]


def test_refire_once_takes_one_occurrence() -> None:
    core = started(every("1h"), refire="once")
    working(core, "5h", "30m")
    assert fired_at(core) == ["1:00"]
    assert core.count(TimerFired) == 1
    assert core.state.timers == {}


def test_an_occurrence_stays_until_the_facts_are_there_and_none_is_added_to_it_meanwhile() -> None:
    d = CaseDefinition("d", signals={"rate": int})

    @d.worker(writes="price", on=every("1h"))
    async def price(rate: int) -> int:
        return rate

    core = Core(d)
    core.start()
    core.pass_time("5h")
    assert core.count(TimerFired) == 1
    assert core.why("price").verdict is Verdict.MISSING_FACTS
    core.signal(rate=3)
    assert core.running == ["price"]
    core.run()
    core.pass_time("0s")
    assert stands_for(core) == ["1:00", "5:00"]


def test_a_limit_holds_an_occurrence_back_and_no_more_come() -> None:
    core = started(every("1h"), limit=2)
    working(core, "9h", "30m")
    assert fired_at(core) == ["1:00", "2:00"]
    assert core.count(LimitReached) == 1
    assert core.count(TimerFired) == 3


def test_a_failed_activation_does_not_end_the_schedule() -> None:
    core = started(every("1h"))
    core.pass_time("1h")
    core.raises("refresh", OSError("away"))
    core.pass_time("1h")
    assert core.running == ["refresh"]
    assert fired_at(core) == ["1:00", "2:00"]


def test_a_case_that_ends_has_no_timers() -> None:
    core = started(every("1h"))
    core.signal(done=1)
    assert core.status is CaseStatus.COMPLETED
    assert core.state.timers == {}
    assert core.turn is not None
    assert core.turn.timers == {"time:refresh:every 1h": None}


# ---- catching up


@pytest.mark.parametrize(
    ("policy", "stands", "fell_out"),
    [
        ("skip", ["8:00"], [(3, True), (0, False)]),
        ("once", ["7:00", "8:00"], [(3, False), (0, False)]),
        ("all", ["4:00", "5:00", "6:00", "7:00", "8:00"], [(0, False)] * 5),
    ],
)
def test_what_became_due_while_nobody_worked_the_case(
    policy: str, stands: list[str], fell_out: list[tuple[int, bool]]
) -> None:
    core = started(every("1h", catch_up=policy))
    working(core, "3h", "30m")
    away(core, hours=4, minutes=10)
    working(core, "1h", "5m")
    assert stands_for(core)[3:] == stands
    assert [(event.missed, event.skipped) for event in core.log if isinstance(event, TimerFired)][3:] == fell_out


@pytest.mark.parametrize(("policy", "fires"), [("skip", False), ("once", True)])
def test_a_single_occurrence_that_is_late(policy: str, fires: bool) -> None:
    core = started(after("1h", catch_up=policy))
    away(core, hours=5)
    assert core.running == (["refresh"] if fires else [])
    core.run()
    assert core.state.timers == {}


def test_within_its_grace_an_occurrence_that_is_skipped_when_late_is_not_late() -> None:
    core = started(every("1h", catch_up="skip"))
    away(core, hours=1, seconds=GRACE.total_seconds())
    assert core.running == ["refresh"]
    core.run()
    away(core, hours=1, seconds=1)
    assert core.running == []
    assert core.why("refresh").text == "its next occurrence is due 2030-01-01 15:00:00Z (every 1h)"


def test_all_are_made_up_for_up_to_a_bound_and_the_log_says_how_many_fell_out() -> None:
    core = started(every("1m", catch_up="all"))
    away(core, minutes=MOST + 60)
    for _ in range(MOST + 60):
        core.run()
        core.pass_time("0s")
    assert len(fired_at(core)) == MOST
    assert stands_for(core)[0] == "1:01"
    assert [event.missed for event in core.log if isinstance(event, TimerFired)] == [60] + [0] * (MOST - 1)


@pytest.mark.parametrize(
    ("policy", "stands"),
    [("skip", ["1:00", "5:00"]), ("once", ["1:00", "4:00", "5:00"]), ("all", ["1:00", "2:00", "3:00", "4:00", "5:00"])],
)
def test_what_becomes_due_while_the_worker_is_at_work(policy: str, stands: list[str]) -> None:
    core = started(every("1h", catch_up=policy))
    core.pass_time("4h30m")
    assert core.running == ["refresh"]
    core.run()
    working(core, "1h", "1m")
    assert stands_for(core) == stands


@pytest.mark.parametrize(
    ("policy", "stands"),
    [("skip", ["1:00", "5:00"]), ("once", ["1:00", "4:00", "5:00"]), ("all", ["1:00", "2:00", "3:00", "4:00", "5:00"])],
)
def test_what_becomes_due_while_the_case_is_suspended(policy: str, stands: list[str]) -> None:
    core = started(every("1h", catch_up=policy))
    core.pass_time("1h")
    core.run()
    assert of(core.suspend(), TimerCancelled)
    assert core.state.timers == {}
    core.pass_time("3h30m")
    assert of(core.resume(), TimerSet)
    working(core, "1h", "1m")
    assert stands_for(core) == stands


def test_a_clock_that_was_set_back_fires_nothing_twice() -> None:
    core = started(every("1h"))
    core.pass_time("1h")
    core.run()
    core.now -= timedelta(minutes=30)
    core.pass_time("0s")
    assert core.running == []
    core.pass_time("90m")
    core.run()
    assert stands_for(core) == ["1:00", "2:00"]


# ---- restarts and other versions


def test_a_crash_between_the_occurrence_and_its_end_changes_nothing_but_the_attempt() -> None:
    core = started(every("1h"))
    core.pass_time("1h")
    core.crash()
    assert core.running == ["refresh"]
    assert core.activation("refresh").due == NOON + timedelta(hours=1)
    core.run()
    core.crash()
    working(core, "1h", "30m")
    assert stands_for(core) == ["1:00", "2:00"]


def test_another_version_of_the_definition_has_the_timers_of_its_own_schedules() -> None:
    core = started(every("1h"), after("3h"))
    core.pass_time("30m")
    core.structure = build(timed(every("2h"), after("3h")))
    core.reload()
    events = core.take(Adopt())
    assert [event.timer for event in of(events, TimerCancelled)] == ["time:refresh:every 1h"]
    assert core.state.timers == {
        "time:refresh:after 3h": NOON + timedelta(hours=3),
        "time:refresh:every 2h": NOON + timedelta(hours=2, minutes=30),
    }


# ---- stages


class All:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible


def staged(catch_up: str = "once", **stage: Any) -> Core:
    d = timed(every("1h", catch_up=catch_up))
    d.stage("watch", "refresh", **stage)
    structure = build(d)
    core = Core(d, loop=PlanningStrategyLoopControl(All()).over(structure))
    core.start()
    return core


def test_a_schedule_counts_from_the_entry_of_its_stage() -> None:
    core = staged(entry=present("approval"))
    assert core.state.timers == {}
    waits = "every 1h: its stage 'watch' is PENDING, as its entry criterion present('approval') does not hold"
    assert core.why("refresh").text == waits
    core.pass_time("90m")
    core.signal(approval=True)
    assert set(core.state.timers.values()) == {NOON + timedelta(minutes=150)}


def test_a_stage_that_ends_takes_its_timers_along() -> None:
    core = staged(exit=present("approval"))
    assert len(core.state.timers) == 1
    events = core.signal(approval=True)
    assert of(events, TimerCancelled)
    assert core.state.timers == {}


def test_a_schedule_rests_while_its_stage_is_suspended() -> None:
    core = staged(autocomplete=False)
    core.take(SteerStage(stage="watch", verb=StageVerb.SUSPEND))
    assert core.state.timers == {}
    assert core.why("refresh").text == "every 1h: its stage 'watch' is SUSPENDED; resume it"
    core.pass_time("30m")
    core.take(SteerStage(stage="watch", verb=StageVerb.RESUME))
    assert set(core.state.timers.values()) == {NOON + timedelta(hours=1)}


@pytest.mark.parametrize(("policy", "stands"), [("skip", ["1:00", "5:00"]), ("once", ["1:00", "4:00", "5:00"])])
def test_what_becomes_due_while_the_stage_is_suspended(policy: str, stands: list[str]) -> None:
    core = staged(catch_up=policy, autocomplete=False)
    core.pass_time("1h")
    core.answer("refresh")
    core.run()
    assert of(core.take(SteerStage(stage="watch", verb=StageVerb.SUSPEND)), TimerCancelled)
    core.pass_time("3h30m")
    core.take(SteerStage(stage="watch", verb=StageVerb.RESUME))
    for _ in range(60):
        core.pass_time("1m")
        if core.state.deliberating:
            core.answer("refresh")
        core.run()
    assert stands_for(core) == stands


def test_an_occurrence_reads_and_writes_like_any_activation() -> None:
    core = started(every("1h"))
    events = core.pass_time("1h")
    assert names(events) == ["TIMER_FIRED", "CASE_STATUS_CHANGED", "WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED"]
    fired, _, scheduled, _ = events
    assert isinstance(scheduled, WorkerScheduled)
    assert scheduled.occurrence == fired.version
    events = core.returns("refresh", 7)
    assert names(events) == ["WORKER_EXECUTION_COMPLETED", "CONTEXT_CHANGED", "TIMER_SET", "CASE_STATUS_CHANGED"]
    assert of(events, ContextChanged)[0].facts == {"refreshed": 7}
    assert core.status is CaseStatus.WAITING
    assert datetime(2030, 1, 1, 14, tzinfo=UTC) in core.state.timers.values()
