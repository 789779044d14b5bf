"""A building permit makes progress: facts change, milestones are met or missed, goals are reached, time passes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from casehub import (
    Binding,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    Defer,
    DefinitionError,
    GoalReached,
    MilestoneReached,
    MilestoneSlaViolated,
    MilestoneStatus,
    SlaStatus,
    WorkerExecutionStarted,
    WorkerScheduled,
    all_of,
    any_of,
    present,
)
from casehub.adapters.clock import VirtualClock
from casehub.spi import Answer
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle


async def test_a_change_shows_what_was_before_and_what_is_after_and_leaves_the_rest_alone() -> None:
    d = CaseDefinition("permit", signals={"status": str, "plot": str})

    @d.worker(writes=["status", "result"], when=lambda status: status == "start")
    async def examine(status: str, plot: str) -> dict[str, object]:
        return {"status": "done", "result": "fine"}

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, status="start", plot="7b")
        await kit.settle()
        assert [fact.value for fact in await case.facts("status").history()] == ["start", "done"]
        assert [fact.value for fact in await case.facts("result").history()] == ["fine"]
        change = kit.events(case, ContextChanged)[-1]
        assert change.facts == {"status": "done", "result": "fine"}
        assert kit.events(case, WorkerScheduled)[0].stamps.keys() == {"status", "plot"}


async def test_all_of_two_goals_is_running_after_one_and_completed_after_both() -> None:
    d = CaseDefinition("permit", goal=all_of("paid", "signed"), signals=["paid", "signed"])
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(paid=True)
        assert not (await case.status()).ended
        await case.signal(signed=True)
        assert await case.status() is CaseStatus.COMPLETED


@pytest.mark.parametrize("brought", [{"refused": 1}, {"granted": 1, "refused": 1}])
async def test_any_of_two_goals_is_completed_by_the_second_and_by_both(brought: dict[str, int]) -> None:
    d = CaseDefinition("permit", goal=any_of("granted", "refused"), signals=["granted", "refused"])
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(brought)
        assert await case.status() is CaseStatus.COMPLETED


@pytest.mark.parametrize("empty", [all_of(), any_of(), all_of("paid", any_of())])
def test_an_empty_expression_does_not_hold_by_itself_but_is_refused(empty: object) -> None:
    with pytest.raises(DefinitionError, match="is empty and would hold at once"):
        CaseHub(CaseDefinition("permit", goal=empty, signals=["paid"]))  # type: ignore[arg-type]  # an expression


async def test_ten_changes_reach_a_goal_once() -> None:
    d = CaseDefinition("permit", goal=all_of("paid", "signed"), signals=["paid", "signed"])
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        for amount in range(10):
            await case.signal(paid=amount)
        assert len(kit.events(case, GoalReached)) == 1


async def test_a_change_that_meets_the_goal_and_a_binding_dispatches_nothing() -> None:
    d = CaseDefinition("permit", goal="signed", signals=["signed"])

    @d.worker(writes="archive")
    async def archive(signed: bool) -> str:
        return "filed"

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(signed=True)
        await kit.settle()
        assert await case.status() is CaseStatus.COMPLETED
        assert kit.events(case, WorkerScheduled) == []


# ---- milestones and their service levels


def permit(sla: str = "2s") -> CaseDefinition:
    d = CaseDefinition("permit", goal="closed", signals=["filed", "examined", "closed"])
    d.milestone("examined in time", present("examined"), entry=present("filed"), sla=sla)
    return d


async def standing(kit: CaseTestKit, case: str = "permit-1") -> tuple[MilestoneStatus, SlaStatus]:
    milestone = (await kit.hub.case(case).state()).milestone("examined in time")
    return milestone.status, milestone.sla


async def test_a_milestone_is_pending_then_active_then_achieved() -> None:
    d = permit()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        assert await standing(kit) == (MilestoneStatus.PENDING, SlaStatus.NOT_STARTED)
        await case.signal(filed=True)
        assert await standing(kit) == (MilestoneStatus.ACTIVE, SlaStatus.ON_TRACK)
        await case.signal(examined=True)
        assert await standing(kit) == (MilestoneStatus.ACHIEVED, SlaStatus.ON_TRACK)


async def test_a_service_level_of_two_seconds_is_breached_once_and_reaching_it_later_is_late() -> None:
    d = permit()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(filed=True)
        await kit.advance("2s")
        assert await standing(kit) == (MilestoneStatus.ACTIVE, SlaStatus.BREACHED)
        await kit.advance("1h")
        assert len(kit.events(case, MilestoneSlaViolated)) == 1
        await case.signal(examined=True)
        assert await standing(kit) == (MilestoneStatus.ACHIEVED, SlaStatus.BREACHED)
        assert kit.events(case, MilestoneReached)[0].late


async def test_a_milestone_reached_in_time_is_never_late() -> None:
    d = permit()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(filed=True)
        await kit.advance("1s")
        await case.signal(examined=True)
        await kit.advance("1h")
        assert kit.events(case, MilestoneSlaViolated) == []


async def test_a_restart_leaves_milestones_and_service_levels_as_they_were() -> None:
    store, clock, d = Kept(), VirtualClock(), permit("1h")
    async with CaseHub(d, store=store, clock=clock) as hub:
        await (await hub.start(d, case_id="x")).signal(filed=True)
    clock.move("30m")
    async with CaseHub(d, store=store, clock=clock) as hub:
        case = hub.case("x")
        milestone = (await case.state()).milestone("examined in time")
        assert (milestone.status, milestone.sla) == (MilestoneStatus.ACTIVE, SlaStatus.ON_TRACK)
        await idle()
        clock.move("30m")
        await idle()
        assert (await case.state()).milestone("examined in time").sla is SlaStatus.BREACHED


async def test_a_milestone_achieved_before_it_was_awaited_is_not_lost() -> None:
    d = permit()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(examined=True)
        await case.signal(filed=True)
        assert (await standing(kit))[0] is MilestoneStatus.ACHIEVED


async def test_a_waiting_case_whose_time_is_up_hears_of_it() -> None:
    d = permit()

    @d.worker(writes="reminder", on=MilestoneSlaViolated)
    async def remind() -> str:
        return "the office is late"

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, filed=True)
        assert await case.status() is CaseStatus.WAITING
        await kit.advance("2s")
        assert (await case.context())["reminder"] == "the office is late"


# ---- delays


class Later(ChoreographyLoopControl):
    """Chooses what has been eligible for a while."""

    immediate = False

    def __init__(self, delay: str) -> None:
        self.delay = delay
        self.asked: dict[str, object] = {}

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        if case.id not in self.asked:
            self.asked[case.id] = case.now
            return Defer(after=self.delay)
        return eligible


def delayed() -> CaseDefinition:
    d = CaseDefinition("delayed", goal="closed", signals=["hold", "go", "closed"])

    @d.worker(writes="letter", when=lambda hold=False: not hold)
    async def send(go: int) -> str:
        return "sent"

    return d


async def test_what_is_delayed_by_two_seconds_runs_not_at_once_and_once_after() -> None:
    d = delayed()
    async with CaseTestKit(d, loop=Later("2s")) as kit:
        case = await kit.start(d, go=1)
        await kit.advance("1.9s")
        assert kit.events(case, WorkerExecutionStarted) == []
        await kit.advance("10s")
        (started,) = kit.events(case, WorkerExecutionStarted)
        assert started.at - kit.events(case)[0].at == timedelta(seconds=2)


@pytest.mark.parametrize(("before", "after", "runs"), [(True, False, 1), (False, True, 0)])
async def test_a_guard_counts_when_the_delay_is_over_and_not_when_it_began(
    before: bool, after: bool, runs: int
) -> None:
    d = delayed()
    async with CaseTestKit(d, loop=Later("2s")) as kit:
        case = await kit.start(d, go=1, hold=before)
        await kit.advance("1s")
        await case.signal(hold=after)
        await kit.advance("10s")
        assert len(kit.events(case, WorkerExecutionStarted)) == runs


async def test_two_delays_in_one_case_end_each_by_itself_and_once() -> None:
    d = CaseDefinition("d", goal="closed", signals=["first", "second", "closed"])
    d.milestone("quick", present("first"), sla="1s")
    d.milestone("slow", present("second"), sla="3s")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        begun = kit.clock.now()
        await kit.advance("1m")
        assert [(e.milestone, (e.at - begun).total_seconds()) for e in kit.events(case, MilestoneSlaViolated)] == [
            ("quick", 1.0),
            ("slow", 3.0),
        ]
