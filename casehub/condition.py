"""Named conditions over the facts, in three values: one holds, does not hold, or that is unknown (Kleene 1938).

A function of facts is a condition that is unknown while a fact that it requires is missing, or while it returns None; a
bare name is a condition that a worker sets by a fact of that name; a sentry is one that is joined of others. Workers say
that they need conditions, which guards them, and which ones they bring, which planners count on and the engine checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from casehub.errors import did_you_mean
from casehub.sentry import Either, Every, Facts, Not, Predicate, Sentry
from casehub.values import ABSENT
from casehub.wiring import Parameter, Wires, WiringError


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition by its name."""

    name: str
    when: Sentry


@dataclass(frozen=True, slots=True)
class Affirmed(Sentry):
    """A fact says yes: it is there and is True; one that is False says no, and one that is not there nothing."""

    fact: str
    parameter: Parameter | None = field(default=None, compare=False)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.fact})

    def wired(self, wires: Wires) -> Sentry:
        return Affirmed(self.fact, wires.wire(Parameter(self.fact, Any)))

    def holds(self, facts: Facts) -> bool:
        return self.answer(facts) is True

    def answer(self, facts: Facts) -> bool | None:
        """What the fact says; None where it is not there."""
        value = ABSENT if self.parameter is None else facts.value(self.parameter)
        return None if value is ABSENT else value is True

    @property
    def facts(self) -> frozenset[str]:
        return frozenset({self.fact})

    def __str__(self) -> str:
        return f"affirmed({self.fact!r})"


@dataclass(frozen=True, slots=True)
class Holds(Sentry):
    """A condition of this name holds. `when`: what that is, once it is wired."""

    condition: str
    when: Sentry | None = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if self.when is None else self.when.reads

    def holds(self, facts: Facts) -> bool:
        return self.when is not None and self.when.holds(facts)

    def wired(self, wires: Wires) -> Sentry:
        found = wires.conditions.get(self.condition)
        if found is None:
            raise WiringError(
                f"there is no condition {self.condition!r}", did_you_mean(self.condition, wires.conditions)
            )
        return Holds(self.condition, found)

    def __str__(self) -> str:
        return f"holds({self.condition!r})"


def holds(*conditions: str) -> Sentry:
    """A sentry that holds while all these conditions do; what is unknown does not."""
    return Holds(conditions[0]) if len(conditions) == 1 else Every(tuple(map(Holds, conditions)))


def guarded_by(guard: Sentry | None, needs: Sequence[str]) -> Sentry | None:
    """A guard that asks for these conditions too."""
    parts = [*(() if guard is None else (guard,)), *map(Holds, needs)]
    return parts[0] if len(parts) == 1 else Every(tuple(parts)) if parts else None


def truth(sentry: Sentry, facts: Facts) -> bool | None:
    """Whether a sentry holds, or None where that is unknown. What a function in it raises comes through."""
    match sentry:
        case Holds(_, when) if when is not None:
            return truth(when, facts)
        case Predicate() | Affirmed():
            return sentry.answer(facts)
        case Not(part):
            found = truth(part, facts)
            return None if found is None else not found
        case Every(parts) | Either(parts):
            decisive = isinstance(sentry, Either)
            answers = [truth(part, facts) for part in parts]
            if decisive in answers:
                return decisive
            return None if None in answers else not decisive
        case _:
            return sentry.holds(facts)
