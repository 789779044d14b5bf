"""Expressions over facts: what every language of them comes to, as conditions and as workers without code.

An expression that names a fact reads it, as a parameter does: it does not hold, and does not run, while the fact is
missing. A fact that it tests by `present(...)` or `absent(...)` is optional in it, as a parameter with a default is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from casehub.errors import CaseHubError
from casehub.sentry import Facts, Sentry
from casehub.values import FactType, Plain
from casehub.wiring import Parameter, Wires


class ExpressionError(CaseHubError):
    """An expression that could not be evaluated with the facts as they are."""


class Program(Protocol):
    """A compiled expression. `reads`: the facts it names; `optional`: those without which it is evaluated all the same.

    `apart`: another process evaluates it, which may take its time.
    """

    @property
    def apart(self) -> bool: ...

    @property
    def source(self) -> str: ...

    @property
    def reads(self) -> tuple[str, ...]: ...

    @property
    def optional(self) -> frozenset[str]: ...

    def compute(self, facts: Mapping[str, Plain]) -> Plain:
        """Its value. Raises `ExpressionError`."""


def parameters(program: Program) -> tuple[Parameter, ...]:
    """The facts that a program reads, as parameters that get plain values."""
    return tuple(
        Parameter(name, Plain, name in program.optional, target=name, type=FactType()) for name in program.reads
    )


class Later:
    """A program that is compiled once the types of all facts are known."""

    def __init__(self, source: str, reads: tuple[str, ...], optional: frozenset[str]) -> None:
        self.source = source
        self.reads = reads
        self.optional = optional
        self.program: Program | None = None

    @property
    def apart(self) -> bool:
        return self.program is not None and self.program.apart

    def compute(self, facts: Mapping[str, Plain]) -> Plain:
        if self.program is None:
            raise ExpressionError(f"{self.source!r} is not compiled; load the definition that it is of")
        return self.program.compute(facts)


class Condition(Sentry):
    """An expression as a condition."""

    __slots__ = ("_parameters", "program", "source")

    def __init__(self, program: Program, found: tuple[Parameter, ...] | None = None) -> None:
        self.source = " ".join(program.source.split())
        self.program = program
        self._parameters = parameters(program) if found is None else found

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.program.reads)

    def wired(self, wires: Wires) -> Sentry:
        return Condition(self.program, tuple(wires.wire(parameter) for parameter in self._parameters))

    def holds(self, facts: Facts) -> bool:
        given: dict[str, Plain] = {}
        for parameter in self._parameters:
            if facts.visible(parameter.target):
                given[parameter.name] = facts.value(parameter)
            elif not parameter.optional:
                return False
        return truth(self.program, given)

    def __str__(self) -> str:
        return self.source


def truth(program: Program, given: Mapping[str, Plain]) -> bool:
    """Whether it is true. Raises `ExpressionError` for what is neither true nor false."""
    found = program.compute(given)
    if not isinstance(found, bool):
        raise ExpressionError(f"{program.source!r} comes to {found!r}, and a condition is true or false")
    return found


class Computation(ABC):
    """What a worker without code computes: facts in, the facts that its expressions come to out."""

    def __init__(self, name: str, programs: Mapping[str, Program]) -> None:
        self.__name__ = name
        self.programs = dict(programs)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What all its expressions read; required if one of them requires it."""
        found: dict[str, Parameter] = {}
        for program in self.programs.values():
            for parameter in parameters(program):
                known = found.get(parameter.name)
                if known is None or (known.optional and not parameter.optional):
                    found[parameter.name] = parameter
        return tuple(found.values())

    @abstractmethod
    def __call__(self, **facts: Plain) -> Any:
        """The work of a worker."""

    def computed(self, facts: Mapping[str, Plain]) -> dict[str, Plain]:
        """What they come to, by name. Raises `ExpressionError`."""
        return {
            name: program.compute({read: facts[read] for read in program.reads if read in facts})
            for name, program in self.programs.items()
        }

    def __str__(self) -> str:
        return "; ".join(f"{name} = {' '.join(program.source.split())}" for name, program in self.programs.items())


class Inline(Computation):
    """The function of a worker that computes where it is called, as that takes no time."""

    async def __call__(self, **facts: Plain) -> dict[str, Plain]:
        return self.computed(facts)


class Apart(Computation):
    """The function of a worker that waits for another process: it is for a thread, so that the event loop does not."""

    def __call__(self, **facts: Plain) -> dict[str, Plain]:
        return self.computed(facts)
