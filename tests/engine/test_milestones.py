"""Milestones: pending, active, achieved; and their service levels beside them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from casehub import (
    CaseDefinition,
    CaseStatus,
    DefinitionError,
    MilestoneActivated,
    MilestoneReached,
    MilestoneSlaViolated,
    MilestoneStatus,
    SlaStatus,
    TimerCancelled,
    TimerSet,
    absent,
    present,
    reached,
)
from casehub.explanation import Verdict
from casehub.sentry import Sentry
from casehub.validation import build
from tests.engine.core import NOON, Core, names, of


def tracked(**options: object) -> Core:
    """A started case with the milestone `decided`."""
    d = CaseDefinition("d", signals=["phase", "decision"])
    d.milestone("decided", present("decision"), **options)  # type: ignore[arg-type]  # options by name
    core = Core(d)
    core.start()
    return core


def stand(core: Core) -> tuple[MilestoneStatus, SlaStatus]:
    milestone = core.state.milestone("decided")
    return milestone.status, milestone.sla


def test_a_milestone_waits_for_its_entry_then_for_its_criterion() -> None:
    core = tracked(entry=present("phase"), sla="2s")
    assert stand(core) == (MilestoneStatus.PENDING, SlaStatus.NOT_STARTED)
    core.signal(phase=1)
    assert stand(core) == (MilestoneStatus.ACTIVE, SlaStatus.ON_TRACK)
    core.signal(decision=1)
    assert stand(core) == (MilestoneStatus.ACHIEVED, SlaStatus.ON_TRACK)


def test_without_an_entry_it_is_active_from_the_start() -> None:
    core = tracked()
    assert stand(core)[0] is MilestoneStatus.ACTIVE
    assert core.count(MilestoneActivated, milestone="decided") == 1


def test_its_criterion_before_its_entry_reaches_it_when_it_becomes_active() -> None:
    core = tracked(entry=present("phase"))
    core.signal(decision=1)
    assert stand(core)[0] is MilestoneStatus.PENDING
    events = core.signal(phase=1)
    assert names(events)[-2:] == ["MILESTONE_ACTIVATED", "MILESTONE_REACHED"]


def test_it_is_achieved_once_and_for_good() -> None:
    core = tracked()
    core.signal(decision=1)
    core.signal(decision=2)
    core.delete("decision")
    core.signal(decision=3)
    assert core.count(MilestoneReached) == 1
    assert stand(core)[0] is MilestoneStatus.ACHIEVED


def test_an_unmet_service_level_is_breached_once_and_the_milestone_stays_active() -> None:
    core = tracked(sla="2s")
    assert of(core.log, TimerSet)[0].due == NOON + timedelta(seconds=2)
    core.pass_time("1.9s")
    assert stand(core) == (MilestoneStatus.ACTIVE, SlaStatus.ON_TRACK)
    events = core.pass_time("1h")
    assert of(events, MilestoneSlaViolated)[0].by == "timer:sla:decided"
    assert core.count(MilestoneSlaViolated) == 1
    assert stand(core) == (MilestoneStatus.ACTIVE, SlaStatus.BREACHED)


def test_reached_after_the_breach_it_is_late() -> None:
    core = tracked(sla="2s")
    core.pass_time("3s")
    assert of(core.signal(decision=1), MilestoneReached)[0].late
    assert stand(core) == (MilestoneStatus.ACHIEVED, SlaStatus.BREACHED)


def test_reached_in_time_it_never_violates_its_service_level() -> None:
    core = tracked(sla="2s")
    events = core.signal(decision=1)
    assert not of(events, MilestoneReached)[0].late
    assert of(events, TimerCancelled)[0].timer == "sla:decided"
    assert core.state.timers == {}
    assert core.turn is not None
    assert core.turn.timers == {"sla:decided": None}
    assert core.pass_time("1h") == []


def test_the_service_level_counts_from_the_entry() -> None:
    core = tracked(entry=present("phase"), sla="2s")
    core.pass_time("1h")
    core.signal(phase=1)
    assert core.state.timers["sla:decided"] == core.now + timedelta(seconds=2)  # type: ignore[index]  # a TimerId


def test_two_service_levels_run_beside_each_other() -> None:
    d = CaseDefinition("d", signals=["a", "b"])
    d.milestone("first", present("a"), sla="1h")
    d.milestone("second", present("b"), sla="2h")
    core = Core(d)
    core.start()
    core.pass_time("90m")
    core.signal(b=1)
    core.pass_time("1d")
    assert [e.milestone for e in of(core.log, MilestoneSlaViolated)] == ["first"]


def test_the_facts_a_case_starts_with_are_there_when_its_milestones_are_first_tested() -> None:
    d = CaseDefinition("d", signals=["owner"])
    d.milestone("orphaned", absent("owner"))
    core = Core(d)
    core.start(owner="ada")
    assert core.count(MilestoneReached) == 0
    core.delete("owner")
    assert core.count(MilestoneReached) == 1


def test_a_criterion_that_holds_without_any_fact_is_reached_at_the_start() -> None:
    d = CaseDefinition("d", signals=["owner"])
    d.milestone("orphaned", absent("owner"))
    core = Core(d)
    core.start()
    assert core.count(MilestoneReached) == 1


def test_an_entry_that_holds_without_any_fact_activates_at_the_start() -> None:
    core = tracked(entry=absent("phase"), sla="2s")
    assert stand(core) == (MilestoneStatus.ACTIVE, SlaStatus.ON_TRACK)


def test_a_restart_leaves_milestones_and_service_levels_as_they_were() -> None:
    core = tracked(sla="2s")
    core.pass_time("3s")
    core.crash()
    assert stand(core) == (MilestoneStatus.ACTIVE, SlaStatus.BREACHED)
    other = tracked(entry=present("phase"), sla="2s")
    other.signal(phase=1)
    other.crash()
    assert stand(other) == (MilestoneStatus.ACTIVE, SlaStatus.ON_TRACK)
    assert other.count(MilestoneActivated) == 1
    other.pass_time("2s")
    assert stand(other)[1] is SlaStatus.BREACHED


def test_a_predicate_over_two_facts_is_tested_when_either_changes() -> None:
    d = CaseDefinition("d", signals=["paid", "price"])

    def covered(paid: int, price: int) -> bool:
        return paid >= price

    d.milestone("covered", covered)
    core = Core(d)
    core.start(price=10)
    core.signal(paid=5)
    assert core.count(MilestoneReached) == 0
    core.signal(price=5)
    assert core.count(MilestoneReached) == 1


@pytest.mark.parametrize("guard", [reached("ready"), present("a") & reached("ready"), ~~reached("ready")], ids=str)
def test_a_guard_may_wait_for_a_milestone(guard: Sentry) -> None:
    d = CaseDefinition("d", signals=["phase", "other"], done_when=reached("ready") & present("b"))

    @d.worker(writes="b", when=guard)
    async def work(a: int) -> int:
        return a

    d.milestone("ready", present("phase"))
    core = Core(d)
    core.start(a=1)
    core.signal(other=1)
    assert core.why("work").verdict is Verdict.GUARD_FALSE
    core.signal(phase=1)
    core.reload()
    assert core.run() == ["work"]
    assert core.status is CaseStatus.COMPLETED


def test_a_guard_may_hold_until_a_milestone_is_reached() -> None:
    d = CaseDefinition("d", signals=["phase", "a"])

    @d.worker(writes="b", when=~reached("ready"))
    async def work(a: int) -> int:
        return a

    d.milestone("ready", present("phase"))
    core = Core(d)
    core.start()
    core.signal(a=1)
    assert core.run() == ["work"]
    core.signal(a=2, phase=1)
    assert core.run() == []


@pytest.mark.parametrize(
    "when", [reached("ready"), reached("ready") | present("other"), present("phase") & reached("ready")], ids=str
)
def test_a_goal_may_wait_for_a_milestone_and_is_reached_once(when: Sentry) -> None:
    d = CaseDefinition("d", goal="done", signals=["phase", "other"])
    d.milestone("ready", present("phase"))
    d.goal("done", when)
    core = Core(d)
    core.start()
    assert names(core.signal(phase=1, other=1))[2:] == ["MILESTONE_REACHED", "GOAL_REACHED", "CASE_COMPLETED"]


def test_a_milestone_may_wait_for_others_and_is_reached_once() -> None:
    d = CaseDefinition("d", signals=["phase", "other"])
    d.milestone("first", present("phase"))
    d.milestone("second", reached("first"))
    d.milestone("third", reached("first") & reached("second"))
    d.milestone("either", present("phase") | reached("third"))
    d.milestone("later", present("other"), entry=reached("third"))
    core = Core(d)
    core.start()
    core.signal(phase=1)
    assert sorted(e.milestone for e in of(core.log, MilestoneReached)) == ["either", "first", "second", "third"]
    assert core.state.milestone("later").status is MilestoneStatus.ACTIVE
    core.signal(other=1)
    assert core.count(MilestoneReached, milestone="later") == 1


def test_what_waits_for_a_milestone_that_is_reached_at_the_start_is_reached_then() -> None:
    d = CaseDefinition("d", goal="done", signals=["phase"])
    d.goal("done", reached("ready"))
    d.milestone("ready", present("phase"))
    core = Core(d)
    core.start(phase=1)
    assert core.status is CaseStatus.COMPLETED


def test_a_goal_that_waits_for_a_milestone_that_is_none_is_refused() -> None:
    d = CaseDefinition("d", goal="done", signals=["phase"])
    d.goal("done", reached("raedy"))
    d.milestone("ready", present("phase"))
    with pytest.raises(DefinitionError, match="goal 'done': waits for the milestone 'raedy'; did you mean 'ready'"):
        build(d)


def test_a_guard_that_waits_for_a_milestone_that_is_none_is_refused() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", when=reached("raedy"))
    async def work(a: int) -> int:
        return a

    d.milestone("ready", present("b"))
    with pytest.raises(DefinitionError, match="binding 'work': waits for the milestone 'raedy'; did you mean 'ready'"):
        build(d)


@pytest.mark.parametrize("part", ["when", "entry"])
def test_a_raising_condition_faults_the_case_visibly(part: str) -> None:
    def broken(phase: int) -> bool:
        return 1 / phase > 0

    d = CaseDefinition("d", signals=["phase", "other"])
    if part == "when":
        d.milestone("odd", broken)
    else:
        d.milestone("odd", present("other"), entry=broken)
    core = Core(d)
    core.start()
    core.signal(phase=0)
    assert core.status.ended
    assert "milestone 'odd' raised ZeroDivisionError" in core.state.reason
