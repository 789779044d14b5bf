"""The plan as plain data: what a strategy reads and what faces show, of one version."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl, StageStatus
from blackboard_ext.strategies import EverythingEligible
from casehub import Binding, CaseDefinition, CaseHub, CaseStatus, CaseView, Defer, MilestoneStatus, present
from casehub.lifecycle import ActivationStatus
from casehub.plan import PlanItem, PlanView, StageView
from casehub.spi import Answer
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle


def staged() -> CaseDefinition:
    """A stage that a signal opens within one that is open, and a worker that a signal makes eligible."""
    d = CaseDefinition("d", goal="done", signals=["a", "b"])

    @d.worker(writes="seen")
    async def see(a: int) -> int:
        return a

    @d.worker(writes="done", priority=3)
    async def finish(b: int, seen: int) -> int:
        return b

    d.stage("outer", see, "inner")
    d.stage("inner", finish, entry=present("b"))
    d.milestone("ready", present("b"), entry=present("a"))
    return d


class Looking:
    """Notes what it sees, and answers with everything, or with `answer`."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.plans: list[CasePlanModel] = []
        self.cases: list[CaseView] = []
        self._answer = answer

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.plans.append(plan)
        self.cases.append(case)
        return eligible if self._answer is None else self._answer


async def test_a_strategy_sees_the_plan_of_the_version_that_its_case_view_has() -> None:
    d, looking = staged(), Looking()
    async with CaseHub(d, loop=PlanningStrategyLoopControl(looking), store=Kept()) as hub:
        case = await hub.start(d)
        async with asyncio.TaskGroup() as both:  # two turns of one commit: the second is taken before select is called
            both.create_task(case.signal(a=1))
            both.create_task(case.signal(b=2))
        await case.completed()
    plan, seen = looking.plans[0], looking.cases[0]
    assert dict(seen.context) == {"a": 1}
    assert plan.stages == {"outer": StageStatus.ACTIVE, "inner": StageStatus.PENDING}
    assert plan.milestones == seen.milestones == {"ready": MilestoneStatus.ACTIVE}
    assert [item.binding for item in plan.agenda] == ["see"]


async def test_a_case_that_waited_runs_in_the_view_of_the_deliberation_that_moves_it() -> None:
    d, looking = staged(), Looking()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(looking)) as kit:
        case = await kit.start(d)
        assert await case.status() is CaseStatus.WAITING
        await case.signal(a=1)
        await kit.settle()
        assert [each.status for each in looking.cases] == [CaseStatus.RUNNING]


async def test_the_view_shows_every_part_of_a_plan() -> None:
    class Writes:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            plan.focus("finishing", because="it is late")
            plan.note("list", [1])
            plan.set_aside("tokens", 5.0)
            return Defer(after="1h") if "b" in case.context else eligible

    d = staged()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Writes())) as kit:
        case = await kit.start(d)
        empty = await case.plan()
        assert empty is not None
        assert empty.milestones == {"ready": MilestoneStatus.PENDING}
        await case.signal(a=1)
        await kit.settle()
        await case.signal(b=2)
        await kit.settle()
        plan = await case.plan()
        assert plan is not None
        (item,) = plan.agenda
        assert (item.binding, item.priority, item.stage, item.status) == ("finish", 3, "inner", "PENDING")
        assert [(item.binding, item.status) for item in plan.ended] == [("see", ActivationStatus.COMPLETED)]
        assert plan.stages == {"outer": StageView("ACTIVE"), "inner": StageView("ACTIVE", parent="outer")}
        assert plan.milestones == {"ready": MilestoneStatus.ACHIEVED}
        assert (plan.focus, plan.because) == ("finishing", "it is late")
        assert (plan.notes, plan.resources) == ({"list": [1]}, {"tokens": 5.0})


async def test_a_view_does_not_change_with_the_case_nor_the_case_with_it() -> None:
    class Waits:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            plan.note("list", [1])
            return Defer(after="1h") if "b" not in case.context else eligible

    d = staged()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Waits())) as kit:
        case = await kit.start(d)
        await case.signal(a=1)
        await kit.settle()
        before = await case.plan()
        assert before is not None
        notes: Any = before.notes["list"]
        notes.append(2)
        assert (await case.state()).control.notes == {"list": [1]}
        await case.signal(b=2)
        await kit.advance("1h")
        await case.completed(timeout="1s")
        assert [item.binding for item in before.agenda] == ["see"]
        assert before.agenda[0].status is ActivationStatus.PENDING
        assert before.ended == ()


async def test_choreography_has_no_plan() -> None:
    d = CaseDefinition("d", signals=["a"])
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        assert await case.plan() is None


async def test_what_runs_is_running_in_the_view() -> None:
    d = CaseDefinition("d", goal="b")
    gate = asyncio.Event()

    @d.worker(writes="b")
    async def work(a: int) -> int:
        await gate.wait()
        return a

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, a=1)
        await idle()
        plan = await case.plan()
        assert plan is not None
        assert [(item.binding, item.status) for item in plan.running] == [("work", ActivationStatus.RUNNING)]
        assert plan.agenda == ()
        gate.set()
        await case.completed()


def test_a_plan_model_without_a_loop_control_reads_what_it_is_given() -> None:
    items = (PlanItem("c/low/1", "low", priority=1, since=3), PlanItem("c/late/1", "late", priority=9, since=5))
    plan = CasePlanModel(PlanView(agenda=items, stages={"s": StageView("ACTIVE")}, notes={"n": 1}))
    assert [item.binding for item in plan.agenda] == ["late", "low"]
    plan.prioritise("low", 10)
    assert [item.binding for item in plan.top(1)] == ["low"]
    assert plan.get("n", int) == 1
    assert items[0].priority == 1
