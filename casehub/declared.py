"""What a function declares when it becomes a worker: what it reads, what it writes, who does the work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args, get_origin

from casehub.binding import Worker
from casehub.humantask import form_of
from casehub.subcase import SubCase
from casehub.values import snake_case, without_none
from casehub.wiring import WiringError, signature_of


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
) -> Declared:
    """The worker that a function is. `people`: they do the work; `sub_case`: what does it, by the return annotation.

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
        name, function, parameters, facts, mapping, capability, _is_async(function), form=form, sub_case=cases
    )
    return Declared(worker, Any if mapping else without_none(returned), unsaid)


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
