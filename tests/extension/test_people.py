"""Orchestration with people: what they have is shown as delegated, and holds up nothing but itself."""

from __future__ import annotations

from blackboard_ext import CasePlanModel, PlanItemCompleted, PlanItemRejected, PlanningStrategyLoopControl
from blackboard_ext.strategies import OneAtATime
from casehub import ActivationStatus, CaseDefinition, CaseStatus, HumanTask, WorkerExecution
from casehub.plan import PlanView
from casehub.testing import CaseTestKit


def review() -> CaseDefinition:
    d = CaseDefinition("review", goal="letter")

    @d.human_task(writes="approval")
    def approve(applicant: str) -> HumanTask[bool]:
        return HumanTask(applicant, bool)

    @d.worker(writes="score")
    async def score(applicant: str) -> int:
        return 3

    @d.worker(writes="letter")
    async def write(approval: bool, score: int) -> str:
        return f"{approval} {score}"

    return d


async def test_what_people_have_is_delegated_on_the_plan_and_others_go_on() -> None:
    d = review()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(OneAtATime())) as kit:
        case = await kit.start(d, applicant="Ada")
        await kit.settle()
        plan = await case.plan()
        assert plan is not None
        assert [(item.binding, item.status) for item in plan.delegated] == [("approve", ActivationStatus.DELEGATED)]
        assert (plan.running, plan.agenda) == ((), ())
        assert [item.binding for item in plan.ended] == ["score"]  # it did not wait for the person
        assert await case.status() is CaseStatus.WAITING
        model = CasePlanModel(plan)
        assert [item.binding for item in model.delegated] == ["approve"]
        assert (model.running, model.item("approve")) == ([], plan.delegated[0])
        await kit.hub.tasks.complete("review-1/approve/1", True, by="user:ada")
        assert (await case.completed())["letter"] == "True 3"
        assert [event.binding for event in kit.events(case, PlanItemCompleted)] == ["score", "approve", "write"]


async def test_a_declined_task_is_a_rejected_item() -> None:
    d = review()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(OneAtATime())) as kit:
        case = await kit.start(d, applicant="Ada")
        await kit.settle()
        await kit.hub.tasks.decline("review-1/approve/1", "no", by="user:ada")
        await kit.settle()
        (rejected,) = kit.events(case, PlanItemRejected)
        assert (rejected.binding, rejected.detail) == ("approve", "no")


async def test_a_worker_that_asks_is_delegated_until_it_has_all_its_answers() -> None:
    d = CaseDefinition("d", goal="sum")

    @d.worker(writes="sum")
    async def add(name: str, execution: WorkerExecution) -> int:
        return await execution.ask(int) + await execution.ask(int)

    async def plan() -> PlanView:
        found = await case.plan()
        assert found is not None
        return found

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(OneAtATime())) as kit:
        case = await kit.start(d, name="x")
        for number in (1, 2):
            await kit.settle()
            assert len((await plan()).delegated) == 1
            await kit.hub.tasks.complete(f"d-1/add/1/ask-{number}", number, by="user:ada")
        assert (await case.completed())["sum"] == 3
        assert (await plan()).delegated == ()
