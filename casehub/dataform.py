"""Dataclasses as plain data and back, by what their fields are annotated with.

What is read back decides nothing: the classes are those of the annotations, and no name in the data is looked up. A
field that has its default is left out. What was written of another shape is refused, since `DataForm.shape` says what
a form was made of: whoever keeps data keeps that beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from casehub.errors import FactError
from casehub.plain import Plain
from casehub.values import ABSENT, Absent

Dump = Callable[[Any], Any]
Load = Callable[[Any], Any]

_SCALARS: Final = (str, int, bool)
_ANYTHING: Final = (Any, object, Plain)


@dataclass(frozen=True, slots=True)
class DataForm:
    """How the values of one type are written and read.

    `dump`: None where they are plain as they are. `load`: of what `dump` gave, parsed from JSON; raises `FactError` for
    anything else. `shape`: the type in words, fields and defaults included.
    """

    dump: Dump | None
    load: Load
    shape: str

    def plain(self, value: Any) -> Any:
        """The value as plain data, which may share parts with it. Raises `FactError` for one of another class."""
        return value if self.dump is None else self.dump(value)


def form_of(hint: Any) -> DataForm:
    """The form of a dataclass, or of what a field of one may be.

    Scalars, enumerations, `datetime`, plain values, and lists, tuples, sets and mappings of these. Raises `TypeError` for
    any other type: say then how it is to be written.
    """
    while hasattr(hint, "__supertype__"):  # a NewType
        hint = hint.__supertype__
    if any(hint is each or hint == each for each in _ANYTHING):
        return DataForm(None, _as_it_is, "plain")
    if hint in _SCALARS:
        return DataForm(None, _checking(hint), hint.__name__)
    if hint is float:
        return DataForm(None, _number, "float")
    if hint is datetime:
        return DataForm(datetime.isoformat, _time, "datetime")
    if isinstance(hint, type) and issubclass(hint, Enum):
        return DataForm(lambda member: member.value, _member_of(hint), hint.__name__)
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint)
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return _union(hint, parts)
    if origin in (dict, Mapping):
        return _mapping(*(map(form_of, parts or (str, Any))), text=_is_text(parts[0]) if parts else True)
    if origin is tuple and parts[1:] != (...,):
        return _record([form_of(part) for part in parts])
    if origin in _COLLECTED:
        return _items(form_of(parts[0] if parts else Any), _COLLECTED[origin])
    raise TypeError(
        f"{hint!r} has no form as plain data; use scalars, enumerations, times, dataclasses and collections"
    )


_COLLECTED: Final[Mapping[Any, type]] = {list: list, Sequence: list, tuple: tuple, set: set, frozenset: frozenset}


def _is_text(hint: Any) -> bool:
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint is str


def _dataclass(kind: type) -> DataForm:
    hints = get_type_hints(kind)
    forms = {field.name: form_of(hints[field.name]) for field in fields(kind)}
    parts: list[tuple[str, Dump | None, Any]] = []
    for field in fields(kind):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        parts.append((field.name, forms[field.name].dump, default))

    def dump(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise FactError(f"{type(value).__name__} is written as no {kind.__name__}; say how it is to be")
        data: dict[str, Any] = {}
        for name, inner, default in parts:
            item = getattr(value, name)
            if default is MISSING or type(item) is not type(default) or item != default:
                data[name] = item if inner is None else inner(item)
        return data

    def load(data: Any) -> Any:
        try:
            return kind(**{name: forms[name].load(item) for name, item in _checked(data, dict).items()})
        except (KeyError, TypeError) as error:
            raise FactError(f"what is kept is no {kind.__name__}: {error}") from None

    told = ", ".join(f"{name}: {forms[name].shape}{'' if d is MISSING else f' = {d!r}'}" for name, _, d in parts)
    return DataForm(dump, load, f"{kind.__name__}({told})")


def _union(hint: Any, parts: Sequence[Any]) -> DataForm:
    if Absent in parts:  # a fact's value: the tombstone is no value that a fact may have
        return DataForm(
            lambda value: [] if value is ABSENT else [value],
            lambda data: ABSENT if data == [] else _checked(data, list)[0],
            "plain or absent",
        )
    rest = [part for part in parts if part is not NoneType]
    if len(rest) == len(parts) or len(rest) > 1:
        raise TypeError(f"{hint!r} has no form as plain data: of several types, it does not say which one it is")
    inner = form_of(rest[0])
    dump, load = inner.dump, inner.load
    return DataForm(
        None if dump is None else lambda value: None if value is None else dump(value),
        lambda data: None if data is None else load(data),
        f"{inner.shape} or none",
    )


def _mapping(key: DataForm, value: DataForm, *, text: bool) -> DataForm:
    """An object of JSON where the keys are text, else a list of pairs."""
    dump, load, shape = value.dump, value.load, f"{{{key.shape}: {value.shape}}}"
    if text:
        return DataForm(
            None if dump is None else lambda items: {name: dump(item) for name, item in items.items()},
            lambda data: {name: load(item) for name, item in _checked(data, dict).items()},
            shape,
        )
    pair = _record([key, value])
    return DataForm(
        lambda items: [pair.plain(each) for each in items.items()],
        lambda data: dict(map(pair.load, _checked(data, list))),
        shape,
    )


def _record(parts: Sequence[DataForm]) -> DataForm:
    """A tuple of so many values."""

    def load(data: Any) -> tuple[Any, ...]:
        if len(_checked(data, list)) != len(parts):
            raise FactError(f"{len(data)} values are kept, and there have to be {len(parts)}")
        return tuple(part.load(item) for part, item in zip(parts, data, strict=True))

    return DataForm(
        lambda items: [part.plain(item) for part, item in zip(parts, items, strict=True)],
        load,
        f"({', '.join(part.shape for part in parts)})",
    )


def _items(part: DataForm, collect: type) -> DataForm:
    dump, load = part.dump, part.load
    return DataForm(
        list if dump is None else lambda items: [dump(item) for item in items],
        lambda data: collect(map(load, _checked(data, list))),
        f"{collect.__name__} of {part.shape}",
    )


def _as_it_is(data: Any) -> Any:
    return data


def _checking(kind: type) -> Load:
    return lambda data: _checked(data, kind)


def _number(data: Any) -> Any:
    """JSON has whole numbers and others, and a float may have been given as either."""
    return data if type(data) is int else _checked(data, float)


def _time(data: Any) -> datetime:
    try:
        return datetime.fromisoformat(_checked(data, str))
    except ValueError as error:
        raise FactError(f"what is kept is no time: {error}") from None


def _member_of(kind: type[Enum]) -> Load:
    def load(data: Any) -> Any:
        try:
            return kind(data)
        except ValueError as error:
            raise FactError(f"what is kept is no {kind.__name__}: {error}") from None

    return load


def _checked(data: Any, kind: type) -> Any:
    if type(data) is not kind:
        raise FactError(f"{type(data).__name__} is kept where {kind.__name__} has to be")
    return data
