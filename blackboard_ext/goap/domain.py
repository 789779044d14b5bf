"""A definition as a planning system: nothing is declared twice.

A binding is an action: it needs the facts that its workers require and what its guard says, and brings the facts that
they write. A fact that is visible is a condition that holds, and named conditions are conditions. A guard that cannot be
taken apart (a function of facts, an either-or) is one of its own: it holds where it does, and whoever writes a fact that it
reads may bring it about. So may they a named condition, unless somebody declares to bring that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from blackboard_ext.goap.planner import Planner
from blackboard_ext.goap.search import Bounds
from blackboard_ext.goap.system import Action, Goal, World
from casehub.condition import Holds
from casehub.errors import SettingsError
from casehub.goals import GoalExpression, Joined, OneGoal
from casehub.purpose import criterion
from casehub.sentry import Every, Not, Present, Sentry
from casehub.spi import CaseView
from casehub.structure import Structure

WAYS: Final = 64
"""Ways of joining goals that are planned for, at most."""
DONE: Final = "done_when"


class Domain:
    """What can be done in the cases of a definition, and what is wanted.

    `planner`: over its bindings, by their names, but for those that wait for an event, a signal or a time, since nobody can
    choose when these come up, and those that undo.
    """

    def __init__(self, structure: Structure, bounds: Bounds | None = None) -> None:
        self._structure = structure
        self._opaque: dict[str, Sentry] = {}
        bringers = {name for binding in structure.bindings.values() for name in binding.policy.brings}
        self._promised = frozenset(str(Holds(name)) for name in bringers)
        needs = {name: self._needs_of(structure, name) for name in structure.bindings}
        self._ways = [*_ways(structure)] if structure.completion or structure.done_when else None
        for way in self._ways or ():
            for name in way:
                self._wanted(name)
        for goal in structure.goals:
            self._wanted(goal)
        self.planner = Planner(
            (
                Action(
                    name=name,
                    needs=needs[name],
                    brings=self._brought(structure, name),
                    cost=binding.cost,
                    value=binding.policy.value,
                )
                for name, binding in structure.bindings.items()
                if not binding.on.occurs and not binding.compensates
            ),
            bounds,
        )
        self.actions = {action.name: action for action in self.planner.actions}

    def world(self, case: CaseView) -> World:
        """Which conditions hold in a case."""
        world: dict[str, bool | None] = dict.fromkeys(case.context, True)
        world.update({name: case.truth(sentry) for name, sentry in self._opaque.items()})
        return world

    def goals(self, case: CaseView) -> list[Goal]:
        """The ways to complete a case, without the goals that are reached already; those that contradict themselves are none.

        Raises `SettingsError` for a case that is for nothing in particular.
        """
        found: list[Goal] = []
        for way in self._asked_for(case):
            needs: dict[str, bool] = {}
            asked = [(name, self._wanted(name)) for name in way if name not in case.goals]
            if all(_join(needs, each) for _, each in asked):
                found.append(Goal(name=" and ".join(name for name, _ in asked) or "completed", needs=needs))
        return found

    def _asked_for(self, case: CaseView) -> Sequence[tuple[str, ...]]:
        if case.purpose:
            return [(case.purpose,)]
        if self._ways is None:
            raise SettingsError(
                f"definition {self._structure.name!r} has no goal, so there is nothing to plan for; give it goal= or "
                "done_when=, or start the case with goal="
            )
        return self._ways

    def from_outside(self, condition: str) -> str:
        """Who may still bring a condition, beside the bindings: a signal, in words; empty for nobody."""
        if condition in self._structure.brought:
            return f"a signal may bring {condition}"
        return ""

    def _wanted(self, goal: str) -> dict[str, bool]:
        structure = self._structure
        sentry = structure.done_when if goal == DONE else criterion(structure, goal)
        return self._taken_apart(sentry) if sentry is not None else {}

    def _needs_of(self, structure: Structure, name: str) -> dict[str, bool]:
        binding = structure.bindings[name]
        needs = dict.fromkeys(binding.requires, True)
        if binding.when is not None and not _join(needs, self._taken_apart(binding.when)):
            needs[str(binding.when)] = True  # it reads what must not be there, so it can never fire
        return needs

    def _brought(self, structure: Structure, name: str) -> dict[str, bool]:
        writes = structure.bindings[name].writes
        brings = dict.fromkeys(writes, True)
        touched = {
            each for each, sentry in self._opaque.items() if not sentry.reads.isdisjoint(writes)
        } - self._promised
        promised = [str(Holds(each)) for each in structure.bindings[name].policy.brings]
        return brings | dict.fromkeys((*sorted(touched), *promised), True)

    def _taken_apart(self, sentry: Sentry) -> dict[str, bool]:
        """A condition as needs; what cannot be taken apart, or contradicts itself, as a condition of its own."""
        needs: dict[str, bool] = {}
        if all(_join(needs, each) for each in self._parts(sentry)):
            return needs
        return self._own(sentry)

    def _parts(self, sentry: Sentry) -> Iterator[dict[str, bool]]:
        match sentry:
            case Present(fact):
                yield {fact: True}
            case Not(Present(fact)):
                yield {fact: False}
            case Not(Holds(name, when)) if when is not None:
                yield dict.fromkeys(self._own(Holds(name, when)), False)
            case Every(parts):
                for part in parts:
                    yield from self._parts(part)
            case _:
                yield self._own(sentry)

    def _own(self, sentry: Sentry) -> dict[str, bool]:
        name = str(sentry)
        while self._opaque.setdefault(name, sentry) != sentry:
            name += "'"  # two functions of one name
        return {name: True}


def _join(needs: dict[str, bool], more: dict[str, bool]) -> bool:
    """Add needs to others; False where they contradict each other."""
    return all(needs.setdefault(condition, value) is value for condition, value in more.items())


def _ways(structure: Structure) -> Iterator[tuple[str, ...]]:
    """The sets of goals each of which completes a case, in document order. Raises `SettingsError` for too many."""
    if structure.completion is not None:
        yield from _joined(structure.name, structure.completion)
    else:
        yield (DONE,)


def _joined(definition: str, expression: GoalExpression) -> Collection[tuple[str, ...]]:
    match expression:
        case OneGoal(goal):
            return [(goal,)]
        case Joined(parts, every):
            parted = [_joined(definition, part) for part in parts]
            ways = [*_products(parted)] if every else [way for each in parted for way in each]
            if len(ways) > WAYS:
                raise SettingsError(
                    f"definition {definition!r}: its goals can be joined in more than {WAYS} ways; plan for fewer"
                )
            return ways
        case _:
            raise SettingsError(f"definition {definition!r}: {expression} is no expression that can be planned for")


def _products(parted: Iterable[Collection[tuple[str, ...]]]) -> Iterable[tuple[str, ...]]:
    ways: list[tuple[str, ...]] = [()]
    for part in parted:
        ways = [tuple(dict.fromkeys((*way, *other))) for way in ways for other in part][: WAYS + 1]
    return ways
