"""Limits and budgets: what holds a binding back that is eligible, and the events that say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from casehub.binding import Binding
from casehub.engine.quarantine import locked
from casehub.engine.staging import inactive
from casehub.events import BudgetExhausted, Event, LimitReached, TimerId, TimerSet
from casehub.explanation import Verdict
from casehub.policies import Budget
from casehub.spi import LoopControl
from casehub.state import CaseState
from casehub.structure import Structure

FAMILY: Final = "family"
"""The scope of what a sub-case may spend of what its parent has left."""


def hold(
    state: CaseState, structure: Structure, loop: LoopControl, binding: Binding
) -> tuple[Verdict, str, float] | None:
    """What else holds an eligible binding back: a stage, a gate, a quarantine, a limit, a budget. With what it is and its bound."""
    if structure.stages and (outside := inactive(state, structure, loop, binding)) is not None:
        return Verdict.STAGE_INACTIVE, outside, 0
    gated = loop.gate(state, binding)
    if gated is not None:
        return Verdict.GATED, gated, 0
    if state.quarantined and (why := locked(state, binding)) is not None:
        return Verdict.QUARANTINED, why, 0
    limits = structure.definition.limits
    firing = state.firings.get(binding.name)
    bound = binding.policy.limit or limits.firings_per_binding
    if firing is not None and firing.count >= bound:
        return Verdict.LIMIT, "firings_per_binding", bound
    if state.fired >= limits.firings:
        return Verdict.LIMIT, "firings", limits.firings
    if len(state.activations) >= limits.concurrency:
        return Verdict.LIMIT, "concurrency", limits.concurrency
    for scope, budget in _budgets(state, structure, binding):
        spent = overspent(state, structure, scope, budget, binding)
        if spent is not None:
            return Verdict.BUDGET, f"{scope}.{spent[0]}", spent[1]
    return None


def _budgets(state: CaseState, structure: Structure, binding: Binding) -> Sequence[tuple[str, Budget]]:
    """The budgets that an attempt of a binding spends from, by what they count."""
    overall, own, inherited = structure.definition.budget, binding.policy.budget, state.spending.inherited
    if overall is None and own is None and inherited is None:
        return ()
    family = None if inherited is None else _bounds(inherited)
    return [(s, each) for s, each in ((FAMILY, family), ("case", overall), (binding.name, own)) if each is not None]


def _bounds(inherited: Mapping[str, float]) -> Budget:
    calls = inherited.get("calls")
    return Budget(
        calls=None if calls is None else int(calls), tokens=inherited.get("tokens"), money=inherited.get("money")
    )


def left_over(state: CaseState, structure: Structure, binding: Binding) -> dict[str, float] | None:
    """What is left of the budgets that a sub-case of a binding spends from, but for those of a day; None without any."""
    left: dict[str, float] = {}
    for scope, budget in _budgets(state, structure, binding):
        if budget.per is None:
            for unit, bound in budget.units().items():
                rest = max(0.0, bound - state.spending.spent("case" if scope == FAMILY else scope, unit))
                left[unit] = min(rest, left.get(unit, rest))
    return left or None


def free(state: CaseState, structure: Structure, loop: LoopControl, eligible: Sequence[Binding]) -> list[Binding]:
    """Those of the eligible bindings that nothing else holds back: what there is to choose from."""
    return [binding for binding in eligible if hold(state, structure, loop, binding) is None]


def held_up(state: CaseState, structure: Structure, loop: LoopControl, eligible: Sequence[Binding]) -> Iterator[Event]:
    """The events that say what holds the others back, each once."""
    for binding in eligible:
        held = hold(state, structure, loop, binding)
        if held is not None:
            yield from withheld(state, structure, binding, held)


def held_back(held: tuple[Verdict, str, float]) -> str:
    """What `hold` said, in words."""
    verdict, what, bound = held
    return (
        what
        if verdict in (Verdict.STAGE_INACTIVE, Verdict.GATED, Verdict.QUARANTINED)
        else f"held back by {what} ({bound:g})"
    )


def withheld(
    state: CaseState, structure: Structure, binding: Binding, held: tuple[Verdict, str, float]
) -> Iterator[Event]:
    """The event that says what holds a binding back, once."""
    verdict, what, bound = held
    if verdict is Verdict.LIMIT and what != "concurrency":
        subject = binding.name if what == "firings_per_binding" else "case"
        if (subject, what) not in state.held:
            yield LimitReached(limit=what, subject=subject, value=int(bound))
    elif verdict is Verdict.BUDGET:
        scope, _, unit = what.rpartition(".")
        if (scope, unit) not in state.held:
            yield BudgetExhausted(scope=scope, unit=unit, limit=bound)
            budget = dict(_budgets(state, structure, binding)).get(scope)
            if budget is not None and budget.per == "day":
                yield TimerSet(timer=TimerId(f"budget:{what}"), due=state.spending.midnight)


def overspent(
    state: CaseState, structure: Structure, scope: str, budget: Budget, binding: Binding
) -> tuple[str, float] | None:
    """The unit and bound of a budget that one more attempt of `binding` would break, estimates in flight included."""
    reserved: dict[str, float] = {}
    scope = "case" if scope == FAMILY else scope
    flying = [structure.bindings[a.binding] for a in state.activations.values() if a.binding in structure.bindings]
    for planned in (*(b for b in flying if scope in ("case", b.name)), binding):
        if planned.policy.estimate is not None:
            for unit, amount in planned.policy.estimate.units().items():
                reserved[unit] = reserved.get(unit, 0.0) + amount
    reserved["calls"] = 1.0
    for unit, bound in budget.units().items():
        spent = state.spending.spent(scope, unit, today=budget.per == "day")
        if spent >= bound or spent + reserved.get(unit, 0.0) > bound:
            return unit, bound
    return None
