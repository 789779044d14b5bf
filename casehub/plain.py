"""Plain values: JSON in Python's own types, and what keeps a value from being one.

Whatever goes into the log passes `plain`: one normaliser, before any store, so that all of them give the same answer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Set
from enum import Enum
from reprlib import Repr
from typing import Any, Final

from pydantic_core import to_json

from casehub.errors import CaseHubError, FactError, LimitError

Plain = None | bool | int | float | str | list[Any] | dict[str, Any]
"""A JSON value in Python's own types."""

MAX_DEPTH: Final = 64
"""Deepest nesting of a value."""
MAX_INTEGER: Final = 10**64
"""Integers of a larger magnitude are refused: other systems that read the log could not."""
MAX_SIZE: Final = 1_048_576
"""Largest value, in bytes of JSON (UTF-8)."""
MAX_ITEMS: Final = 65_536
"""Most items of the lists and objects of a value, together: what the event loop can take in at once."""

TAG: Final = "$serializer"
"""The key that marks a stored value as what a serializer made of one; see `casehub.serialized`."""

TELLING: Final = 4
"""Characters from which on a text in a message is more than a coincidence."""
SHOWN: Final = 60
"""Characters of a value in a message."""
_SURELY: Final = MAX_SIZE // 8
"""Characters that are no more than `MAX_SIZE` bytes of JSON, however they are written."""
_EACH: Final = 10
"""As many of them as a number and what is around an item come to, at most."""

_LARGE: Final = f"larger than {MAX_SIZE:,} bytes of JSON; store it elsewhere and keep a reference"
_MANY: Final = f"larger than {MAX_ITEMS:,} items, or a cycle; store it elsewhere and keep a reference"


class _Misfit(Exception):  # noqa: N818 - it is raised and caught in this module alone
    """What is wrong; `path` to it grows on the way out, so that a value that is fine pays nothing for it."""

    def __init__(self, kind: type[CaseHubError], text: str) -> None:
        self.kind = kind
        self.text = text
        self.path = ""


def plain(value: object, where: str) -> Plain:
    """`value` in Python's own JSON types, freshly made.

    Subclasses of `dict`, `list`, `str`, `int` and `float` become these; a tuple becomes a list. Raises `FactError`
    naming `where` for what JSON cannot hold (NaN, lone surrogates, NUL, other types, keys that are no strings,
    cycles) and `LimitError` for what is too deep or too large, with the path within the value: `fact 'x'.rows[2]: ...`.
    """
    kind = type(value)
    if kind is str and value.isascii() and len(value) < _SURELY and "\0" not in value:  # type: ignore[attr-defined, arg-type, operator]  # `kind` has narrowed it
        return value  # type: ignore[return-value]  # a str
    if kind is bool or value is None or (kind is int and -MAX_INTEGER < value < MAX_INTEGER):  # type: ignore[operator]  # as above
        return value  # type: ignore[return-value]  # a bool, None or an int
    left = [MAX_SIZE, MAX_ITEMS]
    try:
        result = _walk(value, 0, left)
        if MAX_SIZE - left[0] + (MAX_ITEMS - left[1]) * _EACH > _SURELY and len(to_json(result)) > MAX_SIZE:
            raise _Misfit(LimitError, _LARGE)
        return result
    except _Misfit as misfit:
        path = misfit.path if len(misfit.path) <= 200 else f"{misfit.path[:90]}...{misfit.path[-90:]}"
        raise misfit.kind(f"{where}{path}: {misfit.text}") from None


def _walk(value: object, depth: int, left: list[int]) -> Plain:
    if depth > MAX_DEPTH:
        raise _Misfit(
            LimitError, f"nested deeper than {MAX_DEPTH} levels, or a cycle; store a flatter value or a reference"
        )
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        raise _Misfit(
            FactError,
            f"{brief(value)} is an enumeration member; annotate the fact with {type(value).__name__}, or store its value",
        )
    if isinstance(value, str):
        return _text(value, left)
    if isinstance(value, int):
        if not -MAX_INTEGER < value < MAX_INTEGER:
            raise _Misfit(FactError, f"an integer of {value.bit_length() * 0.30103:.0f} or so digits; store it as text")
        return int.__int__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _Misfit(FactError, f"{float.__repr__(value)} is not a JSON number; store None or text instead")
        return float.__float__(value)
    if isinstance(value, Mapping):
        return _object(value, depth, left)
    if isinstance(value, (list, tuple)):
        return _array(value, depth, left)
    raise _Misfit(FactError, _no_json(value))


def _no_json(value: object) -> str:
    name = type(value).__name__
    if any(
        hasattr(value, verb) for verb in ("fileno", "__enter__", "__aenter__", "__next__", "__await__", "__anext__")
    ):
        return (
            f"{name} is open in this process alone; share it with @definition.resource, store what it can be opened by "
            "again (a path, an address), or give CaseHub a serializer for its type"
        )
    return (
        f"{name} is no JSON value; annotate the fact with its type (a dataclass, a pydantic model, datetime, Decimal ...) "
        "so that it can be stored and read back, or give CaseHub a serializer for it"
    )


def _array(value: list[Any] | tuple[Any, ...], depth: int, left: list[int]) -> list[Plain]:
    """The items of a list; a short way for those that most lists are made of."""
    _count(value, left)
    result: list[Plain] = []
    for item in value:
        kind = type(item)
        if kind is int:
            if -MAX_INTEGER < item < MAX_INTEGER and depth < MAX_DEPTH:
                result.append(item)
                continue
        elif kind is str and item.isascii() and "\0" not in item and depth < MAX_DEPTH:
            left[0] -= len(item)
            if left[0] >= 0:
                result.append(item)
                continue
        try:
            result.append(_walk(item, depth + 1, left))
        except _Misfit as misfit:
            misfit.path = f"[{len(result)}]{misfit.path}"
            raise
    return result


def _object(value: Mapping[Any, Any], depth: int, left: list[int]) -> dict[str, Plain]:
    """The items of a mapping; a short way for plain text under plain keys, of which most records are made."""
    _count(value, left)
    result: dict[str, Plain] = {}
    for key, item in value.items():
        if type(key) is str and key.isascii() and "\0" not in key:
            name = key
        elif isinstance(key, str) and not isinstance(key, Enum):
            name = _text(key, [MAX_SIZE, 0])
        else:
            raise _Misfit(
                FactError, f"the key {brief(key)} is {type(key).__name__}, and JSON keys are strings; convert it"
            )
        left[0] -= len(name)
        if left[0] < 0:
            raise _Misfit(LimitError, _LARGE)
        kind = type(item)
        if kind is str and item.isascii() and "\0" not in item and depth < MAX_DEPTH:
            left[0] -= len(item)
            if left[0] >= 0:
                result[name] = item
                continue
        elif kind is int and -MAX_INTEGER < item < MAX_INTEGER and depth < MAX_DEPTH:
            result[name] = item
            continue
        try:
            result[name] = _walk(item, depth + 1, left)
        except _Misfit as misfit:
            misfit.path = f".{name:.60}{misfit.path}"
            raise
    return result


def _count(value: Collection[object], left: list[int]) -> None:
    """Take the items of a container off before any of them is looked at: too many cost nothing."""
    left[1] -= len(value)
    if left[1] < 0:
        raise _Misfit(LimitError, _MANY)


def _text(value: str, left: list[int]) -> str:
    left[0] -= len(value)
    if left[0] < 0:
        raise _Misfit(LimitError, _LARGE)
    if "\0" in value:
        raise _Misfit(FactError, "text with a NUL character; remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Misfit(
            FactError, f"text with a lone surrogate at position {error.start}; it is no valid Unicode"
        ) from None
    return str.__str__(value)


def check_size(value: object, where: str) -> None:
    """Raise `LimitError` for an object that would be too large, before anybody makes JSON of it.

    It counts what lists, mappings and the attributes of objects hold, and stops where it is too much.
    """
    characters, items, waiting = MAX_SIZE, MAX_ITEMS, [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is str or kind is bytes:
            characters -= len(item)  # type: ignore[arg-type]  # as `kind` says
        elif kind in _NO_SIZE:
            continue
        elif isinstance(item, Mapping):
            items -= len(item)
            if items >= 0:
                waiting += item.values()
        elif isinstance(item, (list, tuple, Set, deque)):
            items -= len(item)
            if items >= 0:
                waiting += item
        elif (held := getattr(item, "__dict__", None)) and not isinstance(item, Enum):
            items -= len(held)
            waiting += held.values()
        elif slots := getattr(kind, "__slots__", None):
            items -= len(slots)
            waiting += [getattr(item, name, None) for name in slots]
        if characters < 0 or items < 0:
            raise LimitError(f"{where}: {_MANY if items < 0 else _LARGE}")


_NO_SIZE: Final = frozenset({int, float, bool, type(None)})


def sorted_sets(form: Any, value: object) -> Any:
    """The JSON of a value with the items of its sets in order."""
    if isinstance(form, list):
        if isinstance(value, Set):
            return sorted((sorted_sets(item, each) for item, each in zip(form, value, strict=True)), key=to_json)
        if isinstance(value, list | tuple | deque) and len(value) == len(form):
            return [sorted_sets(item, each) for item, each in zip(form, value, strict=True)]
    elif isinstance(form, dict):
        if isinstance(value, Mapping):
            held = list(value.values())
        else:
            slots = getattr(type(value), "__slots__", ())
            held = (
                list(vars(value).values()) if hasattr(value, "__dict__") else [getattr(value, n, None) for n in slots]
            )
        if len(held) == len(form):  # fields stand in the order of their declaration, under names of their own
            return {key: sorted_sets(item, each) for (key, item), each in zip(form.items(), held, strict=True)}
    return form


class _Brief(Repr):
    """Of containers their first items, of text its beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxset, self.maxdict = 3, 8, 8, 8, 8
        self.maxstring, self.maxother = SHOWN, SHOWN


_BRIEF: Final = _Brief()


def brief(value: object) -> str:
    """A value for a message, in `SHOWN` characters at most; it costs little, however large it is, and never raises."""
    try:
        check_size(value, "")
        text = _BRIEF.repr(value)
    except Exception:  # its __repr__ is user code, and an integer may be too long to be written
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def copy(value: Plain) -> Plain:
    """A plain value that shares nothing mutable with `value`."""
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value


def texts_in(value: Plain) -> Iterator[str]:
    """The texts and numbers in a value that are long enough to be told apart from others, as they would be written."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str | int | float) and len(text := str(item)) >= TELLING and not isinstance(item, bool):
            yield text


def same(one: object, other: object) -> bool:
    """Whether two plain values (or `ABSENT`) are one and the same JSON: 1, 1.0 and true are three; keys have no order."""
    if type(one) is not type(other) or one != other:
        return False
    return not isinstance(one, list | dict) or to_json(one) == to_json(other) or _same_types(one, other)


def _same_types(one: Any, other: Any) -> bool:
    """Whether two equal values are made of the same types."""
    if isinstance(one, dict):
        return all(type(item) is type(other[key]) and _same_types(item, other[key]) for key, item in one.items())
    if isinstance(one, list):
        return all(type(a) is type(b) and _same_types(a, b) for a, b in zip(one, other, strict=True))
    return True
