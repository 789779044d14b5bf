"""The JSON form of inputs, for those that one hub sends to another: `{"kind": "Write", "facts": {"a": 1}, "by": "user:ada"}`.

What has its default is left out. Facts are plain already; an answer of people is written as what it is made of, and read
by the form where the case is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, Final, get_type_hints

from pydantic_core import PydanticSerializationError, to_json
from pydantic_core import from_json as parse_json

from casehub import inputs
from casehub.adapters.codec import Read, reading
from casehub.errors import FactError
from casehub.inputs import Input

SENT: Final[Mapping[str, type[Input]]] = {
    each.__name__: each
    for each in (
        inputs.Write, inputs.Suspend, inputs.Resume, inputs.Unfault, inputs.RetryLetter, inputs.DiscardLetter, inputs.Reroute,
        inputs.ReleaseWorker, inputs.Cancel, inputs.SteerStage, inputs.ChildEnded, inputs.Claim, inputs.Release, inputs.Assign,
        inputs.Delegate, inputs.Complete, inputs.Decline, inputs.Comment,
    )
}  # fmt: skip
"""What others post to a case. The rest is said by the hub that works it."""
HERE: Final = ("form", "post", "at")
"""Fields that mean something in one process only, and the time, which is that of the hub that takes it."""


def encode_input(input: Input) -> str:
    """Raises `FactError` for an input that cannot be sent."""
    kind = type(input)
    if kind.__name__ not in SENT:
        raise FactError(f"{kind.__name__} cannot be sent to the hub that works the case; do it there")
    found: dict[str, Any] = {"kind": kind.__name__}
    for field in fields(kind):
        value = getattr(input, field.name)
        if field.name not in HERE and value != _default(field):
            found[field.name] = value
    if found.get("notes"):
        raise FactError("an input with events to record cannot be sent to the hub that works the case; do it there")
    try:
        return to_json(found, inf_nan_mode="strings").decode()
    except (PydanticSerializationError, ValueError) as error:
        raise FactError(f"{kind.__name__} cannot be sent to another hub: {error}; give plain values") from None


def decode_input(text: str) -> Input:
    """Raises `FactError` for what is no input that can be sent."""
    found: dict[str, Any] = parse_json(text)
    kind = SENT.get(found.pop("kind", ""))
    if kind is None:
        raise FactError(f"{text[:80]!r} is no input that this hub knows; let all hubs be of one release")
    try:
        for name, read in _reads(kind.__name__):
            if name in found:
                found[name] = read(found[name])
        return kind(**found)
    except (TypeError, ValueError) as error:
        raise FactError(f"{text[:80]!r} is no {kind.__name__}: {error}; let all hubs be of one release") from None


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


@cache
def _reads(kind: str) -> Sequence[tuple[str, Read]]:
    hints = get_type_hints(SENT[kind])
    reads = (
        (field.name, reading(hints[field.name])) for field in fields(SENT[kind]) if field.name not in (*HERE, "notes")
    )
    return [(name, read) for name, read in reads if read is not None]
