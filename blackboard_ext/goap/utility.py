"""One step at a time by what it is worth now, where no end is in sight: utility, and utility that knows when it is done.

Plans of one step at most. They reach a goal where one action does; `NIRVANA` is the goal that is never reached, for
which the best action there is always does something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from blackboard_ext.goap.system import Action, Goal, Plan, World

NIRVANA: Final = Goal(name="nirvana", needs={"nirvana": True})
"""Wanted for ever: nothing brings it."""


def possible_now(actions: Iterable[Action], world: World) -> Sequence[Action]:
    """The actions that could be done now, the best net value first, then in the order of declaration."""
    return sorted((each for each in actions if each.possible(world)), key=lambda action: -action.net_value)


def best_step(
    actions: Iterable[Action], world: World, goals: Iterable[Goal], *, satisfied: bool = False
) -> Plan | None:
    """The plan of one step with the best net value, for the first goal of those that share it; None where there is none.

    `satisfied`: a goal that is reached needs no step, and its plan without one is weighed like the others; else the best
    action is done even so (hybrid and utility, in the words of planners for agents).
    """
    ranked = possible_now(actions, world)
    plans = [plan for goal in goals if (plan := _step_to(goal, ranked, world, satisfied)) is not None]
    return max(plans, key=lambda plan: plan.net_value, default=None)


def _step_to(goal: Goal, ranked: Sequence[Action], world: World, satisfied: bool) -> Plan | None:
    if satisfied and goal.reached(world):
        return Plan(goal)
    reaching = (each for each in ranked if goal is NIRVANA or goal.reached(each.after(world)))
    return next((Plan(goal, (each,)) for each in reaching), None)
