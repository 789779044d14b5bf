"""Strategies as their authors write and combine them: passes strict type checkers without casts or ignores."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_ext import CasePlanModel, PlanningStrategy, PlanningStrategyLoopControl
from blackboard_ext.strategies import (
    UCB1,
    BestObservedOutcome,
    Budgeted,
    ControlSource,
    FirstReady,
    FocusOfAttention,
    RoundsToConsensus,
    Spaces,
    ThompsonSampling,
    Volunteers,
    fallback,
    per_definition,
    within_stage,
)
from blackboard_ext.strategies.language_model import LanguageModel
from blackboard_ext.testing import StrategyContract
from casehub import Binding, CaseContext, CaseView
from casehub.spi import Answer


def cheap(plan: CasePlanModel, case: CaseView, binding: Binding) -> float:
    return -binding.cost


async def bid(case: CaseView) -> float | None:
    return case.context.last(float)


async def selector(spaces: Spaces, candidates: Sequence[Binding]) -> Sequence[str]:
    return [binding.name for binding in candidates if binding.name not in spaces.private][: spaces.round]


def conflict(context: CaseContext) -> Sequence[str]:
    return list(context) if len(context) > 1 else ()


class Mine:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        plan.note("asked", (plan.get("asked", int) or 0) + 1)
        return eligible[:1]


class TestMine(StrategyContract):
    def strategy(self) -> PlanningStrategy:
        return Mine()


attention = FocusOfAttention(
    ControlSource("cheap", cheap, weight=2), ControlSource("any", lambda p, c, b: 1.0), count=2
)
combined = per_definition(
    {
        "loan": within_stage("intake", fallback(Volunteers({"ask": bid}), Mine(), within="5s"), otherwise=attention),
        "study": RoundsToConsensus("decide", selector=selector, conflict=conflict),
        "claim": LanguageModel("openai:gpt-5-mini", otherwise=Budgeted(5, per="step"), facts=("document",)),
    },
    otherwise=fallback(ThompsonSampling(seed=1, since="30d"), fallback(UCB1(0.5), BestObservedOutcome(cases=10))),
)
loop = PlanningStrategyLoopControl(fallback(combined, FirstReady()), deadline="10s")
