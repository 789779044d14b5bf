"""Rivals: bindings of one capability, of which one is enough.

Two bindings are rivals when they write a fact in common, directly or through a third one; a binding that writes nothing
has no rivals. Strategies that learn choose one of each group of rivals. Guard them with `absent("fact")`: then the
others are eligible no more when one has supplied the fact, and step in when it has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blackboard_ext.plan import CasePlanModel
from casehub.binding import Binding
from casehub.spi import CaseView

WRITES = "writes"
"""The note that says which facts the bindings write that the strategy has seen."""


def rivals(eligible: Sequence[Binding]) -> list[list[Binding]]:
    """The groups, each in order of declaration, by their first members."""
    groups: list[list[Binding]] = []
    for binding in eligible:
        facts = set(binding.writes)
        related = [group for group in groups if any(facts.intersection(other.writes) for other in group)]
        groups = [group for group in groups if group not in related]
        groups.append([*(other for group in related for other in group), binding])
    place = {binding.name: number for number, binding in enumerate(eligible)}
    for group in groups:
        group.sort(key=lambda binding: place[binding.name])
    groups.sort(key=lambda group: place[group[0].name])
    return groups


def best_rivals(
    plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding], score: Callable[[Binding], float]
) -> list[Binding]:
    """Of each group the binding of the highest score, of equals the first; none while a rival of the group runs.

    What runs is not among the eligible, so what it writes is kept in a note on the plan.
    """
    known = {**(plan.get(WRITES, dict) or {}), **{binding.name: list(binding.writes) for binding in eligible}}
    if eligible:
        plan.note(WRITES, known)
    underway = {fact for name in case.in_flight for fact in known.get(name, ())}
    free = [group for group in rivals(eligible) if not any(underway.intersection(each.writes) for each in group)]
    return [max(group, key=score) for group in free]
