"""The strategy that plans: after each completion the cheapest way to the goal, anew; what is independent runs together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from blackboard_ext.goap.domain import Domain
from blackboard_ext.goap.search import Bounds
from blackboard_ext.goap.system import Action, Answer, Impossible, Plan, World
from blackboard_ext.plan import CasePlanModel
from casehub.binding import Binding
from casehub.policies import Refire
from casehub.spi import Answer as Choice
from casehub.spi import CaseView, Selection

DOMAINS: Final = 64
"""Structures whose actions are kept ready."""


class GoapStrategy:
    """Goal-oriented action planning over the definition as it is declared.

    Each decision makes the cheapest plan (by `cost` of the bindings) from the facts that there are to one of the ways in
    which the case completes, and fires what of it can be done now. What runs already is taken to come to what it should.
    A binding that may not fire again on what it reads (it has failed, or not brought what it writes) is gone around. Where
    there is no plan, nothing fires and the rationale says what is missing; the case stalls with it unless somebody can
    still bring that.

    `bounds`: of the search for one plan.
    """

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds
        self._domains: dict[str, Domain] = {}

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Choice:
        domain = self._domain(case)
        world = domain.world(case)
        under_way = [domain.actions[name] for name in case.in_flight if name in domain.actions]
        expected = world
        for action in under_way:
            expected = action.after(expected)
        ready = {binding.name: binding for binding in eligible}
        barred = _barred(domain, case, world, ready)
        without = {*barred, *(action.name for action in under_way)}
        answers = [domain.planner.plan(expected, goal, without=without) for goal in domain.goals(case)]
        plans = [answer for answer in answers if isinstance(answer, Plan)]
        if not plans:
            return Selection(rationale=_no_plan(domain, answers, barred))
        best = max(plans, key=lambda each: each.net_value)
        plan.intend(best.goal.name, best.names, cost=best.cost, because=_why(plan, domain, world, barred))
        chosen = [ready[each.name] for each in _now(best, world, expected, ready)]
        return Selection(chosen, rationale=_said(best, chosen, under_way))

    def _domain(self, case: CaseView) -> Domain:
        structure = case.structure
        found = self._domains.get(structure.hash)
        if found is None:
            while len(self._domains) >= DOMAINS:
                del self._domains[next(iter(self._domains))]
            found = self._domains[structure.hash] = Domain(structure, self._bounds)
        return found


def _barred(domain: Domain, case: CaseView, world: World, ready: Collection[str]) -> list[str]:
    """The actions that something else than their needs holds back, or that have fired for the last time."""
    ended = set() if case.plan is None else {item.binding for item in case.plan.ended}
    bindings = case.structure.bindings
    return [
        name
        for name, action in domain.actions.items()
        if name not in ready
        and name not in case.in_flight
        and (action.possible(world) or (name in ended and bindings[name].policy.refire is Refire.ONCE))
    ]


def _now(plan: Plan, world: World, expected: World, ready: Collection[str]) -> list[Action]:
    """The steps that can be done now, together: each could come first, and the others would still lead to the goal."""
    chosen: list[Action] = []
    for place, action in enumerate(plan.actions):
        if action.name not in ready or action in chosen or not action.possible(world):
            continue
        others = [each for n, each in enumerate(plan.actions) if n != place]
        if _leads((action, *others), expected, plan) and all(_apart(action, each) for each in chosen):
            chosen.append(action)
    return chosen


def _leads(actions: Sequence[Action], world: World, plan: Plan) -> bool:
    for action in actions:
        if not action.possible(world):
            return False
        world = action.after(world)
    return plan.goal.reached(world)


def _apart(one: Action, other: Action) -> bool:
    """Whether neither takes away what the other needs or brings."""
    return not any(
        left.get(condition, value) is not value
        for left, right in ((one.needs, other.brings), (one.brings, other.needs), (one.brings, other.brings))
        for condition, value in right.items()
    )


def _no_plan(domain: Domain, answers: Sequence[Answer], barred: Sequence[str]) -> str:
    said = [str(answer) for answer in answers]
    if barred:
        said.append(f"held back: {', '.join(barred)}")
    lacking = {
        missing.condition
        for answer in answers
        if isinstance(answer, Impossible)
        for missing in answer.missing
        if missing.value
    }
    return "; ".join((*said, *filter(None, map(domain.from_outside, sorted(lacking)))))


def _why(plan: CasePlanModel, domain: Domain, world: World, barred: Sequence[str]) -> str:
    """Why there is another plan than before: who ended without what it should have brought, or is held back."""
    if not plan.ended and not plan.intended:
        return "the first plan"
    ends = {item.binding: item.status for item in plan.ended}
    said = [
        f"{name} has ended ({ends[name]}) without {' and '.join(lacking)}" if name in ends else f"{name} is held back"
        for name in barred
        if (
            lacking := [
                what for what, value in domain.actions[name].brings.items() if world.get(what, False) is not value
            ]
        )
    ]
    return "; ".join(said) or "what has come about allows another way"


def _said(best: Plan, chosen: Sequence[Binding], under_way: Sequence[Action]) -> str:
    said = f"{best.goal.name}: {best}, cost {best.cost:g}"
    if not best.proved:
        said += " (not proved to be the cheapest)"
    if under_way and not chosen:
        said += f"; waits for {', '.join(action.name for action in under_way)}"
    return said
