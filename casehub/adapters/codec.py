"""The JSON form of events: one for stores, streams, files and transports.

A store keeps the *body*, what an event has beyond the envelope: `encode` and `decode`. Everybody else gets the whole
event, envelope included: `as_json` and `from_json`, `{"id": "c1@3", "seq": 7, "case": "c1", "version": 3, "turn": 2,
"definition": "claim", "tenant": "default", "name": "GOAL_REACHED", "at": "2026-11-30T09:00:00Z", "by": "engine",
"cause": 2, "body": {"goal": "decision"}}`.

Nothing in it names a class of Python: names in the log are looked up among the event classes that are loaded. What
cannot become an instance of its class (nobody has loaded it, or it was written by a version that had other fields)
becomes an `UnknownEvent`, which keeps everything and is written again as it was read. A field that is missing takes
the default of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NewType, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, SchemaSerializer, core_schema, to_json
from pydantic_core import from_json as parse_json

from casehub.errors import FactError, SettingsError
from casehub.events import EVENT_TYPES, CaseId, Envelope, Event, UnknownEvent
from casehub.query import mention, name_of
from casehub.values import Plain

_ENVELOPE: Final = frozenset({"envelope", "version", "by", "cause"})
_ANY: Final = core_schema.any_schema()
_AS_THEY_ARE: Final = (str, int, bool, NoneType, Any, object, Plain)

Read = Callable[[Any], Any]
"""Makes a field's value from what JSON has for it; raises `TypeError` or `ValueError` when it cannot."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the events of one class are written and read.

    `name` in the log, empty where each event has its own; `write`: the body as JSON; `reads`: the fields whose values
    JSON changes; `mentions`: binding and worker of an event, None where it has neither; `confident`: it may carry a confidence.
    """

    kind: type[Event]
    name: str
    write: Callable[[Any], bytes]
    reads: tuple[tuple[str, Read], ...]
    mentions: Callable[[Any], tuple[str, str]] | None
    confident: bool


class _Forms(dict[type[Event], Form]):
    """The form of each class, made when it is first asked for. Raises `SettingsError` for annotations that cannot be resolved."""

    def __missing__(self, kind: type[Event]) -> Form:
        self[kind] = found = _form(kind)
        return found


FORMS: Final = _Forms()


def _form(kind: type[Event]) -> Form:
    if kind is UnknownEvent:
        return Form(
            kind, "", _write_unknown, (), lambda event: (mention(event, "binding"), mention(event, "worker")), True
        )
    names = [field.name for field in fields(kind) if field.init and field.name not in _ENVELOPE]
    try:
        hints = get_type_hints(kind, include_extras=True)
        reads = ((name, reading(hints[name])) for name in names)
        wanted = tuple((name, read) for name, read in reads if read is not None)
    except Exception as error:  # an annotation may raise anything
        raise SettingsError(
            f"event class {kind.__name__}: its fields cannot be read back ({error}); annotate them with plain values, "
            "enumerations, datetime and tuples, and import what an annotation names at the top of the module"
        ) from error
    # No type is looked at: what a value is decides how it is written, as in `to_json`, of which this is the fast form.
    schema = core_schema.dataclass_schema(
        kind,
        core_schema.dataclass_args_schema(kind.__name__, [core_schema.dataclass_field(name, _ANY) for name in names]),
        names,
        slots=True,
    )
    write = SchemaSerializer(schema, core_schema.CoreConfig(ser_json_inf_nan="strings")).to_json
    return Form(kind, kind.name, write, wanted, _mentions(names), "confidence" in names)


def _write_unknown(event: UnknownEvent) -> bytes:
    return to_json(event.body, inf_nan_mode="strings")


def _mentions(names: Sequence[str]) -> Callable[[Any], tuple[str, str]] | None:
    if "binding" in names and "worker" in names:
        return attrgetter("binding", "worker")
    if "binding" in names:
        return lambda event: (event.binding, "")
    if "worker" in names:
        return lambda event: ("", event.worker)
    return None


# ---- writing


def encode(event: Event) -> tuple[str, bytes]:
    """Name in the log, and the body as JSON. Raises `FactError` for a value that JSON cannot hold."""
    form = FORMS[type(event)]
    try:
        body = form.write(event)
    except PydanticSerializationError as error:
        raise FactError(
            f"event {name_of(event)} of case {event.case!r} cannot be written: {error}; put plain values into it"
        ) from None
    return form.name or name_of(event), body


def as_json(event: Event) -> bytes:
    """The whole event as one line of JSON. Raises `FactError` for a value that JSON cannot hold."""
    name, body = encode(event)
    envelope = event.envelope
    head = to_json(
        {
            "id": event.id,
            "seq": event.seq,
            "case": envelope.case,
            "version": event.version,
            "turn": envelope.turn,
            "definition": envelope.definition,
            "tenant": envelope.tenant,
            "name": name,
            "at": envelope.at,
            "by": event.by,
            "cause": event.cause,
        }
    )
    return b'%s,"body":%s}' % (head[:-1], body)


def as_dict(event: Event) -> dict[str, Plain]:
    """The whole event in Python's own JSON types; the shape is that of the module's docstring."""
    whole: dict[str, Plain] = parse_json(as_json(event))
    return whole


# ---- reading


def decode(name: str, body: str | bytes, envelope: Envelope, version: int, by: str, cause: int) -> Event:
    """The event that was encoded, or an `UnknownEvent` that has all of it. Raises `ValueError` for what is no JSON."""
    kind = EVENT_TYPES.get(name)
    content = parse_json(body)
    if kind is not None:
        form = FORMS[kind]
        try:
            for field, read in form.reads:
                if field in content:
                    content[field] = read(content[field])
            return kind(**content, envelope=envelope, version=version, by=by, cause=cause)
        except (TypeError, ValueError):
            content = parse_json(body)  # some of it has been read already
    return UnknownEvent(type=name, body=content, envelope=envelope, version=version, by=by, cause=cause)


def from_json(line: str | bytes) -> Event:
    """The event that `as_json` wrote, in an envelope of its own. Raises `FactError` for what is no event."""
    try:
        whole = parse_json(line)
        envelope = Envelope(
            case=CaseId(whole["case"]),
            definition=whole["definition"],
            tenant=whole["tenant"],
            turn=whole["turn"],
            version=whole["version"],
            seq=whole["seq"],
            at=datetime.fromisoformat(whole["at"]).astimezone(UTC),
        )
        body = to_json(whole["body"])
        return decode(whole["name"], body, envelope, whole["version"], whole["by"], whole["cause"])
    except (KeyError, TypeError, ValueError) as error:
        shown = line if len(line) <= 80 else line[:80]
        raise FactError(
            f"{shown!r} is no event in JSON ({type(error).__name__}: {error}); see casehub.adapters.codec"
        ) from None


def reading(hint: Any) -> Read | None:
    """How to bring back a value of this type; None where JSON has it as it was."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if any(hint is kind or hint == kind for kind in _AS_THEY_ARE):
        return None
    if hint is float:
        return _number
    if hint is datetime:
        return datetime.fromisoformat
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin is Union or origin is UnionType:
        return _reading_union(hint, parts)
    if origin is tuple and parts[1:] in ((), (...,)):
        return _reading_items(parts, tuple) or _tuple
    if origin in (list, Sequence):
        return _reading_items(parts, list)
    if origin in (dict, Mapping) and (not parts or parts[0] is str):
        inner = reading(parts[1]) if parts else None
        return partial(_checked, kind=dict) if inner is None else _reading_values(inner)
    return _adapted(hint)


def _reading_union(hint: Any, parts: Sequence[Any]) -> Read | None:
    reads = [reading(part) for part in parts if part is not NoneType]
    if all(read is None for read in reads):
        return None
    inner = reads[0] if len(reads) == 1 and len(parts) == 2 else None
    return _adapted(hint) if inner is None else lambda value: None if value is None else inner(value)


def _reading_items(parts: Sequence[Any], collect: Callable[[Any], Any]) -> Read | None:
    inner = reading(parts[0]) if parts else None
    return None if inner is None else lambda value: collect(map(inner, _checked(value, list)))


def _reading_values(inner: Read) -> Read:
    return lambda value: {key: inner(item) for key, item in _checked(value, dict).items()}


def _adapted(hint: Any) -> Read:
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    return lambda value: adapter.validate_json(to_json(value))


def _number(value: Any) -> Any:
    """Infinity and NaN are text in JSON."""
    return float(value) if type(value) is str else value


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(_checked(value, list))


def _checked(value: Any, kind: type[Any]) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} is no {kind.__name__}")
    return value
