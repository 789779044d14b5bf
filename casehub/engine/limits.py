"""Limits and budgets: what holds a binding back that is eligible, and the events that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from casehub.binding import Binding
from casehub.engine.quarantine import locked
from casehub.engine.staging import inactive
from casehub.events import BudgetExhausted, Event, LimitReached, TimerId, TimerSet
from casehub.explanation import Verdict
from casehub.policies import Budget
from casehub.spi import LoopControl
from casehub.state import CaseState
from casehub.structure import Structure


def hold(
    state: CaseState, structure: Structure, loop: LoopControl, binding: Binding
) -> tuple[Verdict, str, float] | None:
    """What else holds an eligible binding back: a stage, a gate, a quarantine, a limit, a budget. With what it is and its bound."""
    outside = inactive(state, structure, loop, binding)
    if outside is not None:
        return Verdict.STAGE_INACTIVE, outside, 0
    gated = loop.gate(state, binding)
    if gated is not None:
        return Verdict.GATED, gated, 0
    if (why := locked(state, binding)) is not None:
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
    overall, own = structure.definition.budget, binding.policy.budget
    if overall is None and own is None:
        return None
    for scope, budget in (("case", overall), (binding.name, own)):
        if budget is not None:
            spent = overspent(state, structure, scope, budget, binding)
            if spent is not None:
                return Verdict.BUDGET, f"{scope}.{spent[0]}", spent[1]
    return None


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
            budget = structure.definition.budget if scope == "case" else binding.policy.budget
            if budget is not None and budget.per == "day":
                yield TimerSet(timer=TimerId(f"budget:{what}"), due=state.spending.midnight)


def overspent(
    state: CaseState, structure: Structure, scope: str, budget: Budget, binding: Binding
) -> tuple[str, float] | None:
    """The unit and bound of a budget that one more attempt of `binding` would break, estimates in flight included."""
    reserved: dict[str, float] = {}
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
