"""The contract of strategies: every ready one keeps it, and the suite finds what breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from blackboard_ext import CasePlanModel, PlanningStrategy
from blackboard_ext.goap import GoapStrategy
from blackboard_ext.strategies import (
    UCB1,
    BestObservedOutcome,
    Budgeted,
    CheapestFirst,
    ControlSource,
    EverythingEligible,
    FirstReady,
    FocusOfAttention,
    HighestPriority,
    LeastRecentlyFailed,
    OneAtATime,
    RoundsToConsensus,
    ThompsonSampling,
    Volunteers,
    fallback,
    per_definition,
    within_stage,
)
from blackboard_ext.strategies.language_model import LanguageModel
from blackboard_ext.testing import StrategyContract
from casehub import Binding, CaseView, DeliberationStarted
from casehub.spi import Answer


async def as_many_as_facts(case: CaseView) -> float:
    return len(case.context)


async def first_line(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that chooses the first of the eligible that it is shown."""
    prompt: Any = messages[-1].parts[-1].content  # type: ignore[union-attr]  # a prompt of the user
    name = prompt.split("\n- ")[1].partition(":")[0]
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"chosen": [name], "because": "first"})])


WORKERS = ("one", "two", "three", "go_left", "go_straight", "go_right", "go_back", "join", "write", "look", "finish")
READY: dict[str, PlanningStrategy] = {
    "everything eligible": EverythingEligible(),
    "one at a time": OneAtATime(),
    "highest priority": HighestPriority(),
    "cheapest first": CheapestFirst(),
    "least recently failed": LeastRecentlyFailed(),
    "first ready": FirstReady(),
    "budgeted": Budgeted(7),
    "budgeted a step": Budgeted(2, per="step"),
    "best observed outcome": BestObservedOutcome(),
    "Thompson sampling": ThompsonSampling(seed=7),
    "UCB1": UCB1(),
    "focus of attention": FocusOfAttention(ControlSource("urgent", lambda plan, case, binding: binding.priority)),
    "volunteers": Volunteers(dict.fromkeys(WORKERS, as_many_as_facts)),
    "volunteers, few": fallback(Volunteers({"one": as_many_as_facts}), OneAtATime()),
    "rounds to consensus": RoundsToConsensus("finish", cleaner="go_back", resolver="join", rounds=5),
    "language model": LanguageModel(FunctionModel(first_line)),
    "fallback": fallback(HighestPriority(), CheapestFirst(), within="5s"),
    "within a stage": within_stage("none", OneAtATime(), CheapestFirst()),
    "goal-oriented planning": GoapStrategy(),
    "per definition": per_definition({"row": OneAtATime()}, EverythingEligible()),
}
PROMISES = [name for name in dir(StrategyContract) if name.startswith("test_")]


def suite(strategy: PlanningStrategy) -> StrategyContract:
    class Suite(StrategyContract):
        def strategy(self) -> PlanningStrategy:
            return strategy

    return Suite()


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("name", READY)
def test_a_ready_strategy_keeps_the_contract(name: str, promise: str) -> None:
    getattr(suite(READY[name]), promise)()


class Nothing:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Any:
        return None


class Twice:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return [*eligible, *eligible]


class Outside:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Any:
        return [binding.name for binding in eligible]


class First:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return [eligible[0]]


class Stubborn:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            await asyncio.sleep(1.5)
        return eligible


class Emptying:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        given: Any = eligible
        chosen = list(given)
        given.clear()
        return chosen


class Meddling:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        case.control.notes["mine"] = case.version
        return eligible


class Recording:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        plan.writes.extend(await case.log.query(DeliberationStarted))
        return eligible


class AtOnce:
    def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Any:
        return eligible


class Fickle:
    def __init__(self) -> None:
        self.asked = 0

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.asked += 1
        plan.note("asked", self.asked)
        return eligible


class Raising:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        raise ValueError("no")


class Helpless(EverythingEligible):
    async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Any:
        return ["one"]


@pytest.mark.parametrize(
    ("strategy", "promise", "complaint"),
    [
        (Nothing(), "test_it_answers_with_some", "select answered None"),
        (Twice(), "test_it_answers_with_some", "chose a binding twice"),
        (Outside(), "test_it_answers_with_some", "'one', which is not among"),
        (Emptying(), "test_it_answers_with_some", "changed what it was given"),
        (Meddling(), "test_it_answers_with_some", "notes.mine was not there"),
        (Recording(), "test_it_answers_with_some", "recorded already"),
        (Helpless(), "test_it_answers_with_some", "stalled chose 'one', which is not among"),
        (First(), "test_it_takes_an_empty_list", "select raised IndexError"),
        (AtOnce(), "test_what_it_gives_can_be_awaited", "cannot be awaited"),
        (Stubborn(), "test_it_ends_promptly", "still runs 1 s after it was cancelled"),
        (Fickle(), "test_asked_the_same_again", "did not do the same: what it wrote"),
        (Raising(), "test_cases_are_worked", "ValueError"),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else "",
)
def test_the_suite_finds_what_breaks_the_contract(strategy: Any, promise: str, complaint: str) -> None:
    name = next(each for each in PROMISES if each.startswith(promise))
    with pytest.raises(AssertionError, match=complaint):
        getattr(suite(strategy), name)()
