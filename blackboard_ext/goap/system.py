"""A planning system: what could be done, what each action needs and brings, and what is wanted.

The terms are those of STRIPS planning with negative conditions (Fikes & Nilsson 1971) and of goal-oriented action
planning (Orkin 2003). A condition is a name that holds, does not hold, or is unknown; one that nobody has named does
not hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from casehub.errors import SettingsError

World: TypeAlias = Mapping[str, bool | None]
"""Which conditions hold; None for unknown. A condition that is not in it does not hold."""
Needs: TypeAlias = Mapping[str, bool]
"""Conditions and whether they have to hold."""
UNIT: Final = 1_000_000
"""Costs are counted in millionths, so that sums are exact whatever their order."""
COST_AT_MOST: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that can be done: possible where `needs` holds, after which `brings` holds.

    `cost`: a weight without unit, at least 0; `value`: what doing it is worth, which ranks goals and never the ways to
    one. Raises `SettingsError` for costs and values that are none.
    """

    name: str
    needs: Needs = field(default_factory=dict[str, bool])
    brings: Needs = field(default_factory=dict[str, bool])
    cost: float = 0.0
    value: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.cost <= COST_AT_MOST:
            raise SettingsError(f"action {self.name!r}: cost {self.cost!r}; from 0 to {COST_AT_MOST:,.0f}")
        if not math.isfinite(self.value):
            raise SettingsError(f"action {self.name!r}: value {self.value!r} is no number to add up")

    @property
    def net_value(self) -> float:
        return self.value - self.cost

    def possible(self, world: World) -> bool:
        """Whether it could be done now; what is unknown is not enough."""
        return met(self.needs, world)

    def after(self, world: World) -> World:
        """The world once it is done."""
        return {**world, **self.brings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is wanted: that `needs` holds. `value`: what reaching it is worth."""

    name: str
    needs: Needs
    value: float = 0.0

    def reached(self, world: World) -> bool:
        return met(self.needs, world)


def met(needs: Needs, world: World) -> bool:
    """Whether conditions are known to be as needed."""
    return all(world.get(condition, False) is value for condition, value in needs.items())


# ---- what a planner answers


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in an order in which each is possible, after which the goal is reached; none if it is reached already.

    `proved`: whether no plan is cheaper; else a bound was reached before that was known.
    """

    goal: Goal
    actions: tuple[Action, ...] = ()
    proved: bool = True

    @property
    def cost(self) -> float:
        return sum(round(action.cost * UNIT) for action in self.actions) / UNIT

    @property
    def net_value(self) -> float:
        """The goal's value and those of the actions, less their costs."""
        return self.goal.value + sum(action.value for action in self.actions) - self.cost

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(action.name for action in self.actions)

    def __str__(self) -> str:
        return " -> ".join(self.names) or f"{self.goal.name} is reached"


@dataclass(frozen=True, slots=True)
class Missing:
    """A condition that cannot come to be as it is needed. `brought_by`: who would bring it, and lacks something; in words by `str`."""

    condition: str
    value: bool
    brought_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = self.condition if self.value else f"not {self.condition}"
        if not self.brought_by:
            return f"{what}, which nobody brings"
        return f"{what}, which {' or '.join(self.brought_by)} would bring"


@dataclass(frozen=True, slots=True)
class Impossible:
    """No order of actions reaches the goal. `missing`: the goal's own conditions first, then what those would need.

    Nothing is missing where each condition can come to be, but not all that are needed at the same time.
    """

    goal: Goal
    missing: tuple[Missing, ...] = ()

    def __str__(self) -> str:
        if not self.missing:
            return f"{self.goal.name} cannot be reached: what it needs cannot hold at the same time"
        return f"{self.goal.name} cannot be reached: it lacks {'; '.join(map(str, self.missing))}"


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A bound was reached before a plan was found, or it was known that there is none. `bound`: which, in words."""

    goal: Goal
    bound: str

    def __str__(self) -> str:
        return f"{self.goal.name}: no plan within {self.bound}"


@dataclass(frozen=True, slots=True)
class Undetermined:
    """The cheapest plan relies on conditions that are unknown: find out about the first one, and plan again."""

    goal: Goal
    conditions: tuple[str, ...]


Answer: TypeAlias = Plan | Impossible | GaveUp
