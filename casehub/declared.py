"""What a function declares when it becomes a worker: what it reads, what it writes, who does the work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args, get_origin

from casehub.binding import Worker
from casehub.errors import FactError
from casehub.gate import Gate, Planned
from casehub.humantask import HumanTask, form_of
from casehub.subcase import SubCase
from casehub.values import FactType, snake_case, type_name, without_none
from casehub.wiring import Parameter, Source, WiringError, signature_of


@dataclass(frozen=True, slots=True)
class Declared:
    """A worker as its function declares it. `returns`: the type of the one fact that it writes; `Any` where it is not
    said; `unsaid`: neither `writes=` nor its return annotation says which facts it writes."""

    worker: Worker
    returns: Any
    unsaid: bool = False


def declared(
    function: Callable[..., Any],
    name: str | None,
    writes: str | Sequence[str] | None,
    capability: str,
    namespace: Mapping[str, Any],
    *,
    people: bool = False,
    sub_case: Callable[[Any], SubCase] | None = None,
    gate: Gate[Any] | None = None,
) -> Declared:
    """The worker that a function is. `people`: they do the work; `sub_case`: what does it, by the return annotation; `gate`:
    what stands between what it plans and its being done.

    Raises `WiringError` for a signature that cannot be wired.
    """
    name = name or name_of(function)
    parameters, returned = signature_of(function, namespace)
    form = form_of(name, returned) if people else None
    cases = None if sub_case is None else sub_case(returned)
    if form is not None:
        returned = form.annotation
    elif cases is not None:
        returned = Any
    elif HumanTask in (returned, get_origin(returned)):
        raise WiringError(
            "returns a HumanTask, which asks nobody when a worker returns it",
            "declare it with human_task instead of worker",
        )
    performer, returned = _performed(returned, gate, namespace)
    mapping = not people and _is_mapping(without_none(returned))
    unsaid = False
    if isinstance(writes, str):
        facts: tuple[str, ...] = (writes,)
        mapping = False
    elif writes is not None:
        facts = tuple(writes)
        mapping = True
    elif returned in (None, type(None)) or cases is not None:
        facts = ()
    elif isinstance(written := without_none(returned), type) and not mapping:
        facts = (snake_case(written.__name__),)
    else:
        facts = ()
        unsaid = True
    worker = Worker(
        name,
        function,
        parameters,
        facts,
        mapping,
        capability,
        _is_async(function),
        form=form,
        sub_case=cases,
        gate=gate,
        performer=performer,
    )
    return Declared(worker, Any if mapping else without_none(returned), unsaid)


def _performed(returned: Any, gate: Gate[Any] | None, namespace: Mapping[str, Any]) -> tuple[Worker | None, Any]:
    """What carries out the actions that a worker plans, and what that returns. Raises `WiringError`."""
    plan = without_none(returned)
    action = get_args(plan)[0] if get_origin(plan) is Planned else None
    if gate is None:
        if action is not None or plan is Planned:
            raise WiringError(
                "it plans an action, and nothing says who may approve it and what carries it out",
                "give gate=Gate(carry_out, ...)",
            )
        return None, returned
    if action is None:
        raise WiringError(
            "it has a gate, and its return annotation names no planned action",
            "annotate it with Planned[Action] and return Planned(action, title)",
        )
    name = name_of(gate.perform)
    first, *others = _of_actions(gate.perform, "carries out", action, namespace)
    if inspect.isfunction(gate.risk):
        _of_actions(gate.risk, "judges", action, namespace)
    try:
        first = replace(first, source=Source.ACTION, type=FactType(action))
    except FactError as error:
        raise WiringError(f"its action: {error}", "use a dataclass, a pydantic model or a plain type") from None
    result = signature_of(gate.perform, namespace)[1]
    return Worker(name, gate.perform, (first, *others), (), is_async=_is_async(gate.perform)), result


def _of_actions(
    function: Callable[..., Any], verb: str, action: Any, namespace: Mapping[str, Any]
) -> tuple[Parameter, ...]:
    """The parameters of a function of actions. Raises `WiringError` where the first is no such action."""
    parameters, name = signature_of(function, namespace)[0], name_of(function)
    if not parameters:
        raise WiringError(f"{name} {verb} its actions and takes none", "let its first parameter be the action")
    wanted = parameters[0].annotation
    if wanted not in (Any, object, action) and not _is_a(action, wanted):
        raise WiringError(
            f"it plans {type_name(action)}, and {name} {verb} {type_name(wanted)}",
            f"let the first parameter of {name} be the action",
        )
    return parameters


def _is_a(kind: Any, other: Any) -> bool:
    return isinstance(kind, type) and isinstance(other, type) and issubclass(kind, other)


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called; of an object that can be called, its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - an object with an async __call__


def _is_mapping(returned: Any) -> bool:
    origin = get_origin(returned) or returned
    return isinstance(origin, type) and issubclass(origin, Mapping) and not hasattr(returned, "__required_keys__")


def offered_by(opener: Callable[..., Any], namespace: Mapping[str, Any]) -> Any:
    """The type of what an opener yields. Raises `WiringError` where its annotation does not say it."""
    offered = get_args(signature_of(opener, namespace)[1])[:1]
    if not offered:
        raise WiringError(
            "its return annotation names no type to wire it by", "annotate it with AsyncIterator[Type] and yield one"
        )
    return offered[0]


def named_types(given: Iterable[str | type] | Mapping[str, Any]) -> dict[str, Any]:
    """Types by name: of a mapping, of names alone (`Any`), of types alone (their snake_case names)."""
    if isinstance(given, Mapping):
        return {str(name): kind for name, kind in cast("Mapping[str, Any]", given).items()}
    if isinstance(given, str):
        return {given: Any}
    return {
        entry if isinstance(entry, str) else snake_case(entry.__name__): Any if isinstance(entry, str) else entry
        for entry in given
    }
