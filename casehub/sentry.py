"""Sentries (CMMN): conditions over the context, as data.

`present("draft") & ~present("final")` is built of leaves joined by `&`, `|` and `~`; a plain function of facts is a
leaf too. A sentry names the facts it reads, so a change is tested against the conditions that read it and no others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from casehub.context import Fact
from casehub.lifecycle import MilestoneStatus
from casehub.state import CaseState
from casehub.values import ABSENT, check_confidence
from casehub.wiring import Parameter, Source, Wires, WiringError, namespace_of_caller, signature_of


class Facts(Protocol):
    """What a sentry is tested against. `value`: of the fact that a parameter stands for, `ABSENT` where it has none."""

    def visible(self, name: str) -> bool: ...
    def value(self, parameter: Parameter) -> Any: ...
    def reached(self, milestone: str) -> bool: ...
    def confidence(self, name: str) -> float | None: ...


class HeldFacts:
    """Facts, and where milestones stand, as sentries read them. `owner`: whose facts they are."""

    __slots__ = ("_facts", "_milestones", "_owner")

    def __init__(
        self, facts: Mapping[str, Fact], milestones: Mapping[str, MilestoneStatus], owner: CaseState | None
    ) -> None:
        self._facts = facts
        self._milestones = milestones
        self._owner = owner

    def visible(self, name: str) -> bool:
        fact = self._facts.get(name)
        return fact is not None and fact.value is not ABSENT and not fact.hidden

    def value(self, parameter: Parameter) -> Any:
        fact = self._facts.get(parameter.target)
        if fact is None or fact.value is ABSENT or fact.hidden:
            return ABSENT
        return parameter.type.restore(fact.value, fact.name, self._owner)

    def reached(self, milestone: str) -> bool:
        return self._milestones.get(milestone) is MilestoneStatus.ACHIEVED

    def confidence(self, name: str) -> float | None:
        fact = self._facts.get(name)
        return None if fact is None else fact.confidence


class StateFacts(HeldFacts):
    """Those of a state, as they are whenever they are asked for."""

    __slots__ = ("_state",)

    def __init__(self, state: CaseState) -> None:
        self._facts = state.facts
        self._owner = self._state = state

    def reached(self, milestone: str) -> bool:
        found = self._state.milestones.get(milestone)
        return found is not None and found.status is MilestoneStatus.ACHIEVED


class Sentry(ABC):
    """A condition. `reads`: the facts whose change can change its answer."""

    __slots__ = ()

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]: ...

    @abstractmethod
    def holds(self, facts: Facts) -> bool:
        """Whether it holds now. What a function in it raises comes through."""

    def wired(self, wires: Wires) -> Sentry:
        """The same condition with the parameters of its functions wired. Raises `WiringError`."""
        return self

    @property
    def facts(self) -> frozenset[str]:
        """The facts that it names itself, not through a function's parameters."""
        return frozenset()

    def __and__(self, other: Guard) -> Sentry:
        return Every((self, as_sentry(other, namespace_of_caller())))

    def __rand__(self, other: Guard) -> Sentry:
        return Every((as_sentry(other, namespace_of_caller()), self))

    def __or__(self, other: Guard) -> Sentry:
        return Either((self, as_sentry(other, namespace_of_caller())))

    def __ror__(self, other: Guard) -> Sentry:
        return Either((as_sentry(other, namespace_of_caller()), self))

    def __invert__(self) -> Sentry:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            f"a sentry has no truth of its own: join sentries by & | ~ instead of 'and', 'or', 'not' ({self})"
        )


@dataclass(frozen=True, slots=True)
class Present(Sentry):
    """A visible fact of this name is there."""

    fact: str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.fact})

    def holds(self, facts: Facts) -> bool:
        return facts.visible(self.fact)

    @property
    def facts(self) -> frozenset[str]:
        return frozenset({self.fact})

    def __str__(self) -> str:
        return f"present({self.fact!r})"


@dataclass(frozen=True, slots=True)
class Sure(Sentry):
    """A visible fact of this name is there, and its author is at least so sure of it; one without a confidence is not."""

    fact: str
    least: float

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.fact})

    def holds(self, facts: Facts) -> bool:
        confidence = facts.confidence(self.fact) if facts.visible(self.fact) else None
        return confidence is not None and confidence >= self.least

    @property
    def facts(self) -> frozenset[str]:
        return frozenset({self.fact})

    def __str__(self) -> str:
        return f"confident({self.fact!r}, {self.least:g})"


@dataclass(frozen=True, slots=True)
class Every(Sentry):
    """All parts hold."""

    parts: tuple[Sentry, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.reads for part in self.parts))

    def holds(self, facts: Facts) -> bool:
        return all(part.holds(facts) for part in self.parts)

    def wired(self, wires: Wires) -> Sentry:
        return Every(tuple(part.wired(wires) for part in self.parts))

    @property
    def facts(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.facts for part in self.parts))

    def __str__(self) -> str:
        return f"({' & '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Either(Sentry):
    """At least one part holds."""

    parts: tuple[Sentry, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.reads for part in self.parts))

    def holds(self, facts: Facts) -> bool:
        return any(part.holds(facts) for part in self.parts)

    def wired(self, wires: Wires) -> Sentry:
        return Either(tuple(part.wired(wires) for part in self.parts))

    @property
    def facts(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.facts for part in self.parts))

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Not(Sentry):
    """The part does not hold."""

    part: Sentry

    @property
    def reads(self) -> frozenset[str]:
        return self.part.reads

    def holds(self, facts: Facts) -> bool:
        return not self.part.holds(facts)

    def wired(self, wires: Wires) -> Sentry:
        return Not(self.part.wired(wires))

    @property
    def facts(self) -> frozenset[str]:
        return self.part.facts

    def __str__(self) -> str:
        return f"absent({self.part.fact!r})" if isinstance(self.part, Present) else f"~{self.part}"


@dataclass(frozen=True, slots=True)
class Reached(Sentry):
    """A milestone of this name is achieved."""

    milestone: str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()

    def holds(self, facts: Facts) -> bool:
        return facts.reached(self.milestone)

    def __str__(self) -> str:
        return f"reached({self.milestone!r})"


class Predicate(Sentry):
    """A function of facts, wired like a worker; it does not hold while a fact that it requires is missing."""

    __slots__ = ("function", "parameters")

    def __init__(self, function: Callable[..., bool | None], parameters: tuple[Parameter, ...]) -> None:
        self.function = function
        self.parameters = parameters

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(parameter.fact for parameter in self.parameters if parameter.fact is not None)

    def wired(self, wires: Wires) -> Sentry:
        parameters = tuple(wires.wire(parameter) for parameter in self.parameters)
        for parameter in parameters:
            if parameter.source is not Source.FACT:
                raise WiringError(
                    f"the parameter {parameter.name!r} of the condition {self} stands for no fact",
                    "let a worker look at it and write what it finds",
                )
            if parameter.type.loads:
                raise WiringError(
                    f"the condition {self} reads {parameter.fact!r}, whose value is kept elsewhere, and a condition waits for nothing",
                    f"ask for its key ({parameter.name}: Reference[...]), or let a worker write what it finds",
                )
        return Predicate(self.function, parameters)

    def holds(self, facts: Facts) -> bool:
        return bool(self.answer(facts))

    def answer(self, facts: Facts) -> bool | None:
        """What the function says, None where it cannot be asked."""
        given: dict[str, Any] = {}
        for parameter in self.parameters:
            value = facts.value(parameter)
            if value is not ABSENT:
                given[parameter.name] = value
            elif not parameter.optional:
                return None
        said = self.function(**given)
        return None if said is None else bool(said)

    def __str__(self) -> str:
        return f"{getattr(self.function, '__name__', 'predicate')}({', '.join(p.name for p in self.parameters)})"


Guard = (
    Sentry
    | Callable[[Any], bool]
    | Callable[[Any, Any], bool]
    | Callable[[Any, Any, Any], bool]
    | Callable[[Any, Any, Any, Any], bool]
    | Callable[[Any, Any, Any, Any, Any], bool]
    | Callable[[Any, Any, Any, Any, Any, Any], bool]
)
"""What `when=` takes: a sentry, or a function of facts. Spelt out by numbers, as type checkers know the parameters of a
lambda only so."""


def present(*facts: str) -> Sentry:
    """A sentry that holds while all these facts are there."""
    return Present(facts[0]) if len(facts) == 1 else Every(tuple(Present(fact) for fact in facts))


def confident(fact: str, least: float) -> Sentry:
    """A sentry that holds while a fact is there whose author is at least so sure of it (0 to 1).

    It does not for a fact without a confidence. Raises `FactError` for what is no confidence.
    """
    return Sure(fact, check_confidence(least))


def reached(milestone: str) -> Sentry:
    """A sentry that holds once a milestone is achieved."""
    return Reached(milestone)


def absent(*facts: str) -> Sentry:
    """A sentry that holds while none of these facts is there."""
    return Not(Present(facts[0])) if len(facts) == 1 else Every(tuple(Not(Present(fact)) for fact in facts))


def as_sentry(guard: Guard, namespace: Mapping[str, Any] | None = None) -> Sentry:
    """A sentry as it is; a function as a `Predicate`. Raises `WiringError` for a signature that cannot be wired."""
    if isinstance(guard, Sentry):
        return guard
    if not callable(guard):
        raise TypeError(f"{guard!r} is no condition: give present(...), absent(...) or a function of facts")
    return Predicate(guard, signature_of(guard, namespace)[0])


def unmet(sentry: Sentry, facts: Facts) -> str:
    """In words, that a condition does not hold; with the facts that are not there and of which it does not say so itself."""
    missing = sorted(name for name in sentry.reads - sentry.facts if not facts.visible(name))
    if not missing:
        return f"{sentry} does not hold"
    return f"{sentry} does not hold; not there: {', '.join(map(repr, missing))}"


def milestones_in(sentry: Sentry) -> frozenset[str]:
    """The milestones that a condition waits for."""
    match sentry:
        case Reached(milestone):
            return frozenset({milestone})
        case Every(parts) | Either(parts):
            return frozenset[str]().union(*(milestones_in(part) for part in parts))
        case Not(part):
            return milestones_in(part)
        case _:
            return frozenset()
