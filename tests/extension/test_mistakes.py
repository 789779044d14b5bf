"""What authors of strategies get wrong: it is refused where it is made, or it is in the log with a remedy; no case breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from blackboard_ext import CasePlanModel, PlanItemAdded, PlanningStrategyLoopControl, PlanRevised, StageActivated
from blackboard_ext.strategies import OneAtATime
from casehub import (
    Binding,
    CaseCompleted,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    CaseView,
    ContextChanged,
    DeliberationFailed,
    Selection,
    SettingsError,
)
from casehub.spi import Answer
from casehub.testing import CaseTestKit


def two() -> CaseDefinition:
    """Two workers side by side; one of them completes the case."""
    d = CaseDefinition("two", goal="done")

    @d.worker(writes="note")
    async def write(x: int) -> int:
        return x

    @d.worker(writes="done")
    async def finish(x: int) -> int:
        return x

    return d


class Narrow:
    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible


class NoStrategy:
    async def choose(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: PlanningStrategyLoopControl(OneAtATime), r"give it a strategy, not its class: OneAtATime\(\)"),
        (lambda: PlanningStrategyLoopControl(NoStrategy()), "a NoStrategy is no strategy; give it async def select"),
        (lambda: PlanningStrategyLoopControl(Narrow()), r"the select of Narrow cannot be asked .*select\(self, plan, case"),  # type: ignore[arg-type]  # on purpose
        (lambda: PlanningStrategyLoopControl(lambda plan, case, eligible: eligible), "a function is no strategy"),
        (lambda: PlanningStrategyLoopControl(OneAtATime(), deadline="soon"), "'soon'"),
        (lambda: PlanningStrategyLoopControl(OneAtATime(), deadline="0s"), "more than nothing"),
        (lambda: CaseHub(two(), loop=OneAtATime()), r"no loop control.*PlanningStrategyLoopControl\(strategy\)"),
        (lambda: CaseHub(two(), loop={"two": OneAtATime()}), "no loop control"),
        (lambda: CaseHub(two(), loop=PlanningStrategyLoopControl), "no loop control; give an instance"),
    ],
)  # fmt: skip
def test_what_is_no_strategy_is_refused_before_anything_runs(make: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        make()


class Says:
    """Answers as a function says, which may write on the plan first."""

    def __init__(self, says: Callable[[CasePlanModel, Sequence[Binding]], Any]) -> None:
        self.says = says

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Any:
        return self.says(plan, eligible)


class Forgetful:
    def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Any:
        return eligible


class Revised(PlanRevised):
    """A strategy's own event."""


@pytest.mark.parametrize(
    ("strategy", "complaint"),
    [
        (Forgetful(), "cannot be awaited; write async def select"),
        (Says(lambda plan, eligible: None), r"select of PlanningStrategyLoopControl\(Says\) answered None"),
        (Says(lambda plan, eligible: [each.name for each in eligible]), "'write', which is no binding"),
        (Says(lambda plan, eligible: plan.prioritise(eligible[1], "high")), "a priority is a whole number"),  # type: ignore[arg-type]  # the mistake
        (Says(lambda plan, eligible: plan.prioritise(eligible[1], True)), "a priority is a whole number"),
        (Says(lambda plan, eligible: plan.prioritise("finsh", 1)), "did you mean 'finish'"),
        (Says(lambda plan, eligible: plan.focus(3)), "both are text"),  # type: ignore[arg-type]  # the mistake
        (Says(lambda plan, eligible: plan.focus("f", because={})), "both are text"),  # type: ignore[arg-type]  # the mistake
        (Says(lambda plan, eligible: plan.set_aside("cpu", "much")), "an amount is a finite number"),  # type: ignore[arg-type]  # the mistake
        (Says(lambda plan, eligible: plan.set_aside("cpu", float("nan"))), "an amount is a finite number"),
        (Says(lambda plan, eligible: plan.note("n", object())), "note 'n'"),  # type: ignore[arg-type]  # the mistake
    ],
)  # fmt: skip
async def test_a_mistake_fires_nothing_is_in_the_log_with_a_remedy_and_faults_nothing(
    strategy: Any, complaint: str
) -> None:
    async with CaseTestKit(d := two(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=1)
        await kit.advance("10s")
        failed = kit.events(case, DeliberationFailed)
        assert len(failed) == 3
        assert complaint.replace("\\", "") in failed[0].message
        state = await case.state()
        assert (state.status, state.control.resources, state.fired) == (CaseStatus.RUNNING, {}, 0)
        assert complaint.replace("\\", "") in state.stalled[0]


@pytest.mark.parametrize(
    "write",
    [
        lambda: ContextChanged(facts={"done": 5}),
        lambda: CaseCompleted(before=CaseStatus.RUNNING),
        lambda: StageActivated(stage="s"),
        lambda: PlanItemAdded(binding="finish", item="i"),
    ],
)
async def test_a_strategy_writes_on_the_plan_and_neither_facts_nor_what_the_case_does(write: Callable[[], Any]) -> None:
    strategy = Says(lambda plan, eligible: Selection(eligible, writes=[write()]))
    async with CaseTestKit(d := two(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        (failed,) = kit.events(case, DeliberationFailed)
        assert "derive from PlanRevised" in failed.message
        assert "done" not in (await case.state()).facts


async def test_a_strategy_writes_events_of_its_own_that_revise_the_plan() -> None:
    strategy = Says(lambda plan, eligible: Selection(eligible, writes=[Revised()]))
    async with CaseTestKit(d := two(), loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, x=1)
        assert (await case.completed())["done"] == 1
        assert len(kit.events(case, Revised)) == 1
