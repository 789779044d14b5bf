"""Answers checked against a form in JSON Schema: for a process that has the form from the log and not its type.

What pydantic writes for types is understood (draft 2020-12: `$ref`, `anyOf`, `enum`, bounds, `pattern`, formats of
times); keywords that are not pass. Where the type is at hand, `FactType.misfits` says more, and decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final
from uuid import UUID

from casehub.errors import did_you_mean
from casehub.values import Plain

Misfits = Iterator[tuple[str, str]]
_TYPES: Final[Mapping[str, Callable[[Plain], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_FORMATS: Final[Mapping[str, Callable[[str], object]]] = {
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
    "time": time.fromisoformat,
    "uuid": UUID,
}
_BOUNDS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, bound: value >= bound, "at least"),
    "maximum": (lambda value, bound: value <= bound, "at most"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "more than"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "less than"),
}
_SIZES: Final = {"minLength": 1, "maxLength": -1, "minItems": 1, "maxItems": -1}


def misfits(form: Mapping[str, Any], value: Plain) -> dict[str, str]:
    """What keeps an answer from fitting a form, by the path to it (`address.city`), all of it."""
    return dict(_walk(form, value, "", form))


def _walk(schema: Mapping[str, Any], value: Plain, path: str, form: Mapping[str, Any]) -> Misfits:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        yield from _walk(form.get("$defs", {}).get(name, {}), value, path, form)
    for part in schema.get("allOf", ()):
        yield from _walk(part, value, path, form)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        found = [list(_walk(choice, value, path, form)) for choice in choices]
        if all(found):
            objects = [each for each, choice in zip(found, choices, strict=True) if choice.get("type") != "null"]
            yield from objects[0] if len(objects) == 1 else ((path, "fits none of the kinds that the form allows"),)
            return
    if "enum" in schema and value not in schema["enum"]:
        yield path, f"must be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        yield path, f"must be {schema['const']!r}"
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _TYPES and not _TYPES[kind](value):
        yield path, f"must be of type {kind}"
    elif isinstance(value, dict):
        yield from _object(schema, value, path, form)
    elif isinstance(value, list):
        yield from _sized(schema, value, path)
        for place, item in enumerate(value):
            yield from _walk(_item(schema, place), item, f"{path}.{place}" if path else str(place), form)
    elif isinstance(value, str):
        yield from _sized(schema, value, path)
        yield from _text(schema, value, path)
    elif isinstance(value, int | float):
        for name, (fits, words) in _BOUNDS.items():
            if name in schema and not fits(value, schema[name]):
                yield path, f"must be {words} {schema[name]}"


def _object(schema: Mapping[str, Any], value: dict[str, Any], path: str, form: Mapping[str, Any]) -> Misfits:
    fields, others = schema.get("properties", {}), schema.get("additionalProperties", "properties" not in schema)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}" if path else name, "Field required"
    for name, item in value.items():
        where = f"{path}.{name}" if path else name
        if name in fields:
            yield from _walk(fields[name], item, where, form)
        elif isinstance(others, Mapping):
            yield from _walk(others, item, where, form)
        elif not others and (fields or "properties" in schema):
            yield where, f"the form has no such field; {did_you_mean(name, fields)}"


def _item(schema: Mapping[str, Any], place: int) -> Mapping[str, Any]:
    own = schema.get("prefixItems", ())
    found = own[place] if place < len(own) else schema.get("items", {})
    return found if isinstance(found, Mapping) else {}


def _sized(schema: Mapping[str, Any], value: str | list[Any], path: str) -> Misfits:
    unit = "characters" if isinstance(value, str) else "items"
    for name, sign in _SIZES.items():
        if (
            name in schema
            and name.endswith("Length") is isinstance(value, str)
            and sign * (len(value) - schema[name]) < 0
        ):
            yield path, f"must have {'at least' if sign > 0 else 'at most'} {schema[name]} {unit}"


def _text(schema: Mapping[str, Any], value: str, path: str) -> Misfits:
    reads = _FORMATS.get(schema.get("format", ""))
    try:
        if reads is not None:
            reads(value)
    except ValueError:
        yield path, f"must be a {schema['format']}, such as 2030-01-31T12:00:00Z without what it has no need of"
    try:
        fits = "pattern" not in schema or re.search(schema["pattern"], value) is not None
    except re.error:
        fits = True  # a pattern of another dialect: whoever has the type decides
    if not fits:
        yield path, f"must match {schema['pattern']}"
