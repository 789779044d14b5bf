"""Goals, milestones, and what completes a case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from casehub.sentry import Sentry


@dataclass(frozen=True, slots=True)
class Goal:
    """Reached once, when its criterion holds for the first time. A `failure` goal faults the case."""

    name: str
    when: Sentry
    failure: bool = False


@dataclass(frozen=True, slots=True)
class Milestone:
    """Achieved once, when its criterion holds (CMMN: a milestone).

    `entry`: from when on it is awaited (None: from the start); `sla`: how long it may take from there.
    """

    name: str
    when: Sentry
    entry: Sentry | None = None
    sla: timedelta | None = None


class GoalExpression(ABC):
    """Names of goals, joined. `goals`: those it mentions, in document order."""

    __slots__ = ()

    @property
    @abstractmethod
    def goals(self) -> tuple[str, ...]: ...

    @abstractmethod
    def satisfied(self, reached: Collection[str]) -> bool:
        """Whether the reached goals satisfy it; more than enough is enough."""

    @property
    def empty(self) -> bool:
        """Whether it, or a part of it, names no goal at all."""
        return False


@dataclass(frozen=True, slots=True)
class OneGoal(GoalExpression):
    """A single goal."""

    goal: str

    @property
    def goals(self) -> tuple[str, ...]:
        return (self.goal,)

    def satisfied(self, reached: Collection[str]) -> bool:
        return self.goal in reached

    def __str__(self) -> str:
        return self.goal


@dataclass(frozen=True, slots=True)
class Joined(GoalExpression):
    """`all_of` or `any_of`."""

    parts: tuple[GoalExpression, ...]
    every: bool

    @property
    def goals(self) -> tuple[str, ...]:
        return tuple(goal for part in self.parts for goal in part.goals)

    def satisfied(self, reached: Collection[str]) -> bool:
        return (all if self.every else any)(part.satisfied(reached) for part in self.parts)

    @property
    def empty(self) -> bool:
        return not self.parts or any(part.empty for part in self.parts)

    def __str__(self) -> str:
        return f"{'all_of' if self.every else 'any_of'}({', '.join(map(str, self.parts))})"


def all_of(*goals: str | GoalExpression) -> GoalExpression:
    """Satisfied when all of these are; an empty one is refused when the hub is built."""
    return Joined(tuple(as_expression(goal) for goal in goals), every=True)


def any_of(*goals: str | GoalExpression) -> GoalExpression:
    """Satisfied when one of these is; an empty one is refused when the hub is built."""
    return Joined(tuple(as_expression(goal) for goal in goals), every=False)


def as_expression(goal: str | GoalExpression) -> GoalExpression:
    """A goal's name as an expression; an expression as it is."""
    return OneGoal(goal) if isinstance(goal, str) else goal
