"""Strategies made of strategies: one that steps in for another, one for a stage, one a definition."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from blackboard_ext.plan import CasePlanModel
from blackboard_ext.spi import HearsStalls, PlanningStrategy
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
    return _heard(_Fallback(first, then, None if within is None else duration(within).total_seconds()), first, then)


def within_stage(stage: str, strategy: PlanningStrategy, otherwise: PlanningStrategy | None = None) -> PlanningStrategy:
    """`strategy` decides on the bindings of a stage and the stages in it, `otherwise` on all others.

    Without `otherwise` everything else that is eligible fires. Both write on one plan. Where both defer, the case is asked
    again at the earlier time; of two events that are waited for, the one of `strategy` counts. If one of the answers is
    strict, they fall together.
    """
    rest = otherwise or EverythingEligible()
    return _heard(_WithinStage(stage, strategy, rest), strategy, rest)


def per_definition(
    strategies: Mapping[str, PlanningStrategy], otherwise: PlanningStrategy | None = None
) -> PlanningStrategy:
    """A strategy by the name of the case's definition, and `otherwise` for the others.

    Where neither is, `select` raises `SettingsError` with the nearest name.
    """
    return _heard(_PerDefinition(dict(strategies), otherwise), *strategies.values(), otherwise)


def _heard(whole: PlanningStrategy, *parts: PlanningStrategy | None) -> PlanningStrategy:
    """A composition hears of stalls when one of its parts does; the others are not asked about them."""
    return _Hearing(whole) if any(isinstance(part, HearsStalls) for part in parts) else whole


async def _answer(strategy: PlanningStrategy, plan: CasePlanModel, case: CaseView, part: Sequence[Binding]) -> Answer:
    if not plan.stalled:
        return await strategy.select(plan, case, part)
    return await strategy.stalled(plan, case, part) if isinstance(strategy, HearsStalls) else ()


@dataclass(frozen=True, slots=True)
class _Hearing:
    whole: PlanningStrategy

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return await self.whole.select(plan, case, eligible)

    async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return await self.whole.select(plan, case, eligible)


@dataclass(frozen=True, slots=True)
class _Fallback:
    first: PlanningStrategy
    then: PlanningStrategy
    seconds: float | None

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        draft, bound = plan.draft(), asyncio.timeout(self.seconds)
        try:
            async with bound:
                answer = await _answer(self.first, draft, case, eligible)
            selection = selection_of(self.first, answer, eligible)
        except Exception as error:
            late = f"took longer than {self.seconds:g} s" if bound.expired() else f"failed ({said(error)})"
            why = f"{name_of(self.first)} {late}"
        else:
            if selection.chosen or selection.defer or case.in_flight or not (eligible or plan.stalled):
                plan.adopt(draft)
                return selection
            why = f"{name_of(self.first)} chose nothing ({selection.rationale or 'no reason given'})"
        other = selection_of(self.then, await _answer(self.then, plan, case, eligible), eligible)
        return replace(other, rationale=f"{why}; {name_of(self.then)}: {other.rationale or plan.because}".rstrip(": "))


@dataclass(frozen=True, slots=True)
class _WithinStage:
    stage: str
    strategy: PlanningStrategy
    otherwise: PlanningStrategy

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        inside = [binding for binding in eligible if self._covers(plan, case, binding)]
        outside = [binding for binding in eligible if binding not in inside]
        answers = [
            selection_of(strategy, await _answer(strategy, plan, case, part), part)
            for strategy, part in ((self.strategy, inside), (self.otherwise, outside))
            if part or plan.stalled
        ]
        return Selection(
            chosen=[binding for answer in answers for binding in answer.chosen],
            rationale="; ".join(answer.rationale for answer in answers if answer.rationale),
            writes=[event for answer in answers for event in answer.writes],
            defer=_earlier(case, [answer.defer for answer in answers if answer.defer is not None]),
            strict=any(answer.strict for answer in answers),
        )

    def _covers(self, plan: CasePlanModel, case: CaseView, binding: Binding) -> bool:
        item = plan.item(binding)
        name = "" if item is None else item.stage
        while name and name != self.stage:
            around = None if case.plan is None else case.plan.stages.get(name)
            name = "" if around is None else around.parent
        return bool(name)


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
        return await _answer(strategy, plan, case, eligible)
