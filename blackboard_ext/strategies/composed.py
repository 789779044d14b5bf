"""Strategies made of strategies: one that steps in for another, one for a stage, one a definition."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from blackboard_ext.plan import CasePlanModel
from blackboard_ext.spi import PlanningStrategy
from blackboard_ext.strategies.answers import name_of, said, selection_of
from blackboard_ext.strategies.simple import EverythingEligible
from casehub.binding import Binding
from casehub.durations import Duration, duration
from casehub.errors import SettingsError, did_you_mean
from casehub.spi import Answer, CaseView, Defer, Selection


def fallback(first: PlanningStrategy, then: PlanningStrategy, *, within: Duration | None = None) -> PlanningStrategy:
    """Ask `first`, and `then` where that brings nothing; the rationale says so.

    `then` is asked when `first` raises, answers outside of `eligible`, takes longer than `within` (None: as long as the
    loop control's deadline allows), or chooses nothing, defers nothing and nothing runs: the case would stall. While
    something runs, an empty answer means to wait for it, and stands. What a `first` that failed wrote on the plan is
    discarded.
    """
    return _Fallback(first, then, None if within is None else duration(within).total_seconds())


def within_stage(
    stage: str | Sequence[str], strategy: PlanningStrategy, otherwise: PlanningStrategy | None = None
) -> PlanningStrategy:
    """`strategy` decides on the bindings of a stage, `otherwise` (without it: everything eligible) on all others.

    A binding belongs to the innermost stage that it is declared in; name a nested stage beside its parent to have both.
    Both write on one plan. Where both defer, the case is asked again at the earlier time; of two events that are waited
    for, the one of `strategy` counts. If one of the answers is strict, they fall together.
    """
    stages = frozenset((stage,) if isinstance(stage, str) else stage)
    return _WithinStage(stages, strategy, otherwise or EverythingEligible())


def per_definition(
    strategies: Mapping[str, PlanningStrategy], otherwise: PlanningStrategy | None = None
) -> PlanningStrategy:
    """A strategy by the name of the case's definition, and `otherwise` for the others.

    Where neither is, `select` raises `SettingsError` with the nearest name.
    """
    return _PerDefinition(dict(strategies), otherwise)


@dataclass(frozen=True, slots=True)
class _Fallback:
    first: PlanningStrategy
    then: PlanningStrategy
    seconds: float | None

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        draft, bound = plan.draft(), asyncio.timeout(self.seconds)
        try:
            async with bound:
                answer = await self.first.select(draft, case, eligible)
            selection = selection_of(self.first, answer, eligible)
        except Exception as error:
            late = f"took longer than {self.seconds:g} s" if bound.expired() else f"failed ({said(error)})"
            why = f"{name_of(self.first)} {late}"
        else:
            if selection.chosen or selection.defer or case.in_flight or not eligible:
                plan.adopt(draft)
                return selection
            why = f"{name_of(self.first)} chose nothing ({selection.rationale or 'no reason given'})"
        other = selection_of(self.then, await self.then.select(plan, case, eligible), eligible)
        return replace(other, rationale=f"{why}; {name_of(self.then)}: {other.rationale or plan.because}".rstrip(": "))


@dataclass(frozen=True, slots=True)
class _WithinStage:
    stages: frozenset[str]
    strategy: PlanningStrategy
    otherwise: PlanningStrategy

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        inside = [b for b in eligible if (item := plan.item(b)) is not None and item.stage in self.stages]
        outside = [b for b in eligible if b not in inside]
        answers = [
            selection_of(strategy, await strategy.select(plan, case, part), part)
            for strategy, part in ((self.strategy, inside), (self.otherwise, outside))
            if part
        ]
        return Selection(
            chosen=[binding for answer in answers for binding in answer.chosen],
            rationale="; ".join(answer.rationale for answer in answers if answer.rationale),
            writes=[event for answer in answers for event in answer.writes],
            defer=_earlier(case, [answer.defer for answer in answers if answer.defer is not None]),
            strict=any(answer.strict for answer in answers),
        )


def _earlier(case: CaseView, defers: Sequence[Defer]) -> Defer | None:
    if len(defers) < 2:
        return defers[0] if defers else None
    times = [case.now + duration(d.after) if d.after is not None else d.until for d in defers]
    until = min((time for time in times if time is not None), default=None)
    return Defer(until=until, on=next((d.on for d in defers if d.on is not None), None))


@dataclass(frozen=True, slots=True)
class _PerDefinition:
    strategies: Mapping[str, PlanningStrategy]
    otherwise: PlanningStrategy | None

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        strategy = self.strategies.get(case.definition, self.otherwise)
        if strategy is None:
            nearest = did_you_mean(case.definition, self.strategies)
            raise SettingsError(f"per_definition has no strategy for {case.definition!r} and no otherwise; {nearest}")
        return await strategy.select(plan, case, eligible)
