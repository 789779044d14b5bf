"""Wiring: how the parameters of a user's function find what they stand for.

A parameter is, in this order: the execution or the view of the case (by its type), a resource (by its type), a fact by
its name, a fact by its type. Builtins and their generics never wire by type. A parameter with a default is optional:
it is read when it is there and does not block when it is not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, get_type_hints

from casehub.values import FactType, Plain, is_builtin, without_confidence, without_none

_PLAIN: Final = without_none(Plain)


class Source(StrEnum):
    """Where a parameter's value comes from."""

    EXECUTION = "EXECUTION"
    VIEW = "VIEW"
    RESOURCE = "RESOURCE"
    FACT = "FACT"
    ACTION = "ACTION"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a worker or predicate. `target`: the fact or resource it stands for, once it is wired."""

    name: str
    annotation: Any
    optional: bool = False
    source: Source = Source.FACT
    target: str = ""
    type: FactType = FactType()

    @property
    def fact(self) -> str | None:
        """The fact it reads, if it reads one; by its own name as long as it is not wired."""
        return (self.target or self.name) if self.source is Source.FACT else None


class WiringError(ValueError):
    """A signature that cannot be wired; the message says why, `remedy` what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(reason)


def namespace_of_caller(depth: int = 2) -> Mapping[str, Any]:
    """The local names of a function up the stack, in which annotations may name classes; 2 is the caller's caller."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = None if frame is None else frame.f_back
    return {} if frame is None else frame.f_locals


def signature_of(
    function: Callable[..., Any], namespace: Mapping[str, Any] | None = None
) -> tuple[tuple[Parameter, ...], Any]:
    """The parameters of a function and its return annotation (`Any` where it has none).

    `namespace` resolves annotations that name classes of an enclosing function. Raises `WiringError`.
    """
    name = getattr(function, "__name__", "function")
    try:
        hints = get_type_hints(_annotated(function), localns=dict(namespace or {}), include_extras=True)
    except NameError as error:
        raise WiringError(
            f"the annotation {error.name!r} of {name} cannot be resolved", "import it at the top of the module"
        ) from None
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise WiringError(
                f"{name} takes {'*' if parameter.kind is parameter.VAR_POSITIONAL else '**'}{parameter.name}, which names no fact",
                "name each fact that it reads as a parameter",
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise WiringError(f"{name} takes {parameter.name} by position only", "remove the '/' of its signature")
        if without_confidence(hint := hints.get(parameter.name, Any)) != hint:
            raise WiringError(
                f"the parameter {parameter.name!r} of {name} asks for a confidence, and a worker gets the value alone",
                "ask for the value, and for a CaseView: case.context.fact(name).confidence",
            )
        optional = parameter.default is not parameter.empty
        parameters.append(Parameter(parameter.name, without_none(hint), optional))
    returned = without_confidence(hints.get("return", Any))
    return tuple(parameters), type(None) if returned is None else returned


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """What carries the annotations of something that can be called."""
    if isinstance(function, partial):
        return _annotated(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


@dataclass(frozen=True, slots=True)
class Wires:
    """What there is to wire to: facts and resources by name, and the types that stand for the engine's own objects.

    `lens`: the type of a fact that nobody declares; `conditions`: the named ones that are wired already.
    """

    facts: Mapping[str, FactType]
    resources: Mapping[str, Any]
    execution: type
    view: type
    lens: Callable[[str, Any], FactType] = lambda fact, annotation: FactType(annotation)
    conditions: dict[str, Any] = field(default_factory=dict[str, Any])

    def wire(self, parameter: Parameter) -> Parameter:
        """The parameter with its source found. Raises `WiringError` when two candidates fit by type."""
        annotation = parameter.annotation
        if isinstance(annotation, type):
            if annotation is self.execution:
                return replace(parameter, source=Source.EXECUTION)
            if annotation is self.view:
                return replace(parameter, source=Source.VIEW)
        if not is_builtin(annotation):
            fitting = [name for name, offered in self.resources.items() if _offers(offered, annotation)]
            if len(fitting) > 1:
                raise _ambiguous(parameter, "resources", fitting)
            if fitting:
                return replace(parameter, source=Source.RESOURCE, target=fitting[0])
        target = parameter.name
        if target not in self.facts and isinstance(annotation, type) and not is_builtin(annotation):
            fitting = [name for name, offered in self.facts.items() if offered.is_a(annotation)]
            if len(fitting) > 1:
                raise _ambiguous(parameter, "facts", fitting)
            if fitting:
                target = fitting[0]
        return replace(parameter, target=target, type=self._lens(target, annotation))

    def _lens(self, fact: str, annotation: Any) -> FactType:
        """The narrower of what the fact is and what its reader asks for."""
        if annotation == _PLAIN:  # as it is once `None` has been taken out
            annotation = Plain
        declared = self.facts.get(fact)
        if declared is None:
            declared = self.lens(fact, Any if annotation is Plain else annotation)
            return declared.seen_as(Plain) if annotation is Plain else declared
        if (
            annotation is Any
            or declared.annotation == annotation
            or (isinstance(annotation, type) and declared.is_a(annotation))
        ):
            return declared
        return declared.seen_as(annotation)


def _offers(offered: Any, wanted: Any) -> bool:
    if offered == wanted:
        return True
    return isinstance(offered, type) and isinstance(wanted, type) and issubclass(offered, wanted)


def _ambiguous(parameter: Parameter, what: str, names: list[str]) -> WiringError:
    return WiringError(
        f"the parameter {parameter.name!r} fits {len(names)} {what} by its type: {', '.join(names)}",
        "name the parameter after the one that is meant",
    )
