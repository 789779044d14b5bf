"""The planner: the cheapest way to a goal, and which of several goals is worth its way.

It knows nothing of cases: actions, a world and a goal in, a plan out, the same for the same. What to do about conditions
that are unknown is asked of whoever calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from blackboard_ext.goap.problem import Repertoire
from blackboard_ext.goap.search import Bounds, cheapest
from blackboard_ext.goap.system import Action, Answer, GaveUp, Goal, Impossible, Plan, Undetermined, World
from casehub.errors import SettingsError, did_you_mean

Determine: TypeAlias = Callable[[str], bool | None]
"""Finds out whether a condition holds; None where that cannot be known."""


class Planner:
    """Plans over some actions. `bounds`: of one search.

    Raises `SettingsError` for two actions of one name.
    """

    def __init__(self, actions: Iterable[Action], bounds: Bounds | None = None) -> None:
        self.actions = tuple(actions)
        self.bounds = bounds or Bounds()
        self._repertoire = Repertoire(self.actions)
        if len(self._repertoire.places) < len(self.actions):
            twice = next(each.name for n, each in enumerate(self.actions) if self._repertoire.places[each.name] != n)
            raise SettingsError(f"there are two actions {twice!r}; give each a name of its own")

    def look(
        self, world: World, goal: Goal, *, without: Collection[str] = (), unknowable: Collection[str] = ()
    ) -> Answer | Undetermined:
        """The cheapest plan, or that it relies on what is unknown: whoever asks finds out, and looks again.

        Of plans that cost the same it is the shortest; of those, the one of the more specific actions (with more
        needs); of those, that of the actions declared first. An unknown condition is taken to be as it is needed, so
        only what matters is asked for. `without`: actions that must not be used; `unknowable`: conditions that are
        unknown and will stay so, on which no plan relies. Raises `SettingsError` for an action that is none.
        """
        repertoire = self._repertoire
        for name in without:
            if name not in repertoire.places:
                raise SettingsError(f"there is no action {name!r}; {did_you_mean(name, repertoire.places)}")
        wanted = repertoire.wanted(goal.needs)
        start = repertoire.start(world, wanted, unknowable)
        found = cheapest(repertoire, start, wanted, {repertoire.places[name] for name in without}, self.bounds)
        if found.steps is None:
            return Impossible(goal, found.missing) if found.exhausted else GaveUp(goal, str(self.bounds))
        if found.relied_on:
            return Undetermined(goal, found.relied_on)
        return Plan(goal, tuple([step.action for step in found.steps]), found.exhausted)

    def plan(
        self, world: World, goal: Goal, *, determine: Determine | None = None, without: Collection[str] = ()
    ) -> Answer:
        """The cheapest plan, where `determine` finds out what is unknown, as far as it matters; without it nothing does."""
        world, unknowable = dict(world), set[str]()
        while isinstance(answer := self.look(world, goal, without=without, unknowable=unknowable), Undetermined):
            condition = answer.conditions[0]
            value = None if determine is None else determine(condition)
            if value is None:
                unknowable.add(condition)
            else:
                world[condition] = value
        return answer

    def plans(
        self, world: World, goals: Iterable[Goal], *, determine: Determine | None = None, without: Collection[str] = ()
    ) -> Sequence[Plan]:
        """A plan for each goal that can be reached, the best net value first, then in the order of the goals."""
        known: dict[str, bool | None] = {}

        def once(condition: str) -> bool | None:
            if condition not in known:
                known[condition] = None if determine is None else determine(condition)
            return known[condition]

        answers = [self.plan(world, goal, determine=once, without=without) for goal in goals]
        return sorted((each for each in answers if isinstance(each, Plan)), key=lambda plan: -plan.net_value)
