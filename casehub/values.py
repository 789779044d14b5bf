"""What a fact's value may be, and how it becomes JSON and comes back.

The context and the event log hold *plain* values: `None`, `bool`, `int`, `float`, `str`, lists and string-keyed
dictionaries of these. Types are a lens at the edges: a `FactType` turns what a worker returns into a plain value
(checked by decoding it again and comparing) and a plain value into a fresh object for whoever reads it. So what is
read is never shared with what is stored, and nothing in a log names a class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar, Union, get_args, get_origin

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from casehub.errors import FactError, LimitError, did_you_mean
from casehub.plain import MAX_DEPTH as MAX_DEPTH  # noqa: PLC0414 - what a fact's value may be is asked of this module
from casehub.plain import MAX_SIZE as MAX_SIZE  # noqa: PLC0414
from casehub.plain import TAG, brief, check_size, sorted_sets
from casehub.plain import Plain as Plain  # noqa: PLC0414
from casehub.plain import copy as copy  # noqa: PLC0414
from casehub.plain import plain as plain  # noqa: PLC0414
from casehub.plain import same as same  # noqa: PLC0414

T_co = TypeVar("T_co", covariant=True)

_SCALARS: Final = frozenset({str, int, float, bool, NoneType})


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "ABSENT"

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent.ABSENT
"""A fact that is not there. Returned for a name, it deletes the fact; it is not `None`, which is a value."""


def check_confidence(given: object) -> float:
    """The same as a number. Raises `FactError` for what is none from 0 to 1."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise FactError(f"confidence {given!r} is none; give a number from 0 (not at all sure) to 1 (certain)")
    return float(given)


@dataclass(frozen=True, slots=True)
class Confident(Generic[T_co]):
    """A value, and how sure its author is of it: `confidence` from 0 (not at all) to 1.

    A worker returns it, for its fact or for each of several; a signal and a start may bring it. Raises `FactError` for
    what is no such number.
    """

    value: T_co
    confidence: float

    def __post_init__(self) -> None:
        check_confidence(self.confidence)


def apart(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """Values by name without their confidence, and the confidence of those that have one."""
    sure = {name: float(value.confidence) for name, value in values.items() if isinstance(value, Confident)}
    return {name: value.value if isinstance(value, Confident) else value for name, value in values.items()}, sure


def without_confidence(annotation: Any) -> Any:
    """`X` for `Confident[X]`, in a union too; everything else as it is."""
    if annotation is Confident:
        return Any
    if get_origin(annotation) is Confident:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        parts = tuple(without_confidence(part) for part in get_args(annotation))
        return Any if Any in parts else Union[parts]  # noqa: UP007 - built from parts at run time
    return annotation


JSON: Final = "json"
"""The name under which a value of a user's own is stored that looks like what a serializer makes."""


class Owner(Protocol):
    """Whose a fact is: a case of a tenant."""

    @property
    def id(self) -> str: ...
    @property
    def tenant(self) -> str: ...


@dataclass(frozen=True, slots=True)
class OwnerId:
    """A case by its id, where nothing else of it is at hand."""

    id: str
    tenant: str


def tagged(name: str, form: Plain) -> Plain:
    """What a serializer of this name made, as it is stored."""
    return {TAG: name, "value": form}


def shown(value: Any) -> Any:
    """A stored value for people: one that only looks like a serializer's is as its author wrote it, others are as they are."""
    return value["value"] if type(value) is dict and value.get(TAG) == JSON else value


class FactType:
    """The type of one fact, or of one reader of it: makes its values plain and brings them back.

    `annotation` is any type that pydantic can take: builtins and their generics, dataclasses, models, `Literal`,
    enumerations, `datetime`, `Decimal`, unions. `Any` (and `object`) means plain values as they are.
    `upcast` is asked about a stored value that does not fit it. `loads`: what `restore` gives is to be opened first;
    `secret`: no message may show a value.
    Raises `FactError` when pydantic cannot take it.
    """

    __slots__ = ("_adapter", "_exact", "_has_sets", "_schema", "annotation", "upcast")
    loads: bool = False
    secret: bool = False

    def __init__(self, annotation: Any = Any) -> None:
        self.annotation = annotation
        self.upcast: Callable[[Any], Any] | None = None
        self._exact = annotation if annotation in _SCALARS else None
        self._adapter: TypeAdapter[Any] | None = None
        self._schema: dict[str, Any] | None = None
        self._has_sets = False
        if annotation is not Any and annotation is not object and self._exact is None:
            try:
                self._adapter = TypeAdapter(annotation)
                self._has_sets = _has_sets(self._adapter.core_schema)
            except (PydanticSchemaGenerationError, PydanticUserError) as error:
                raise FactError(
                    f"type {type_name(annotation)} cannot be stored ({str(error).splitlines()[0]}); use a dataclass, "
                    "a pydantic model or a type that pydantic knows; share what is open in this process alone with "
                    "@definition.resource, or give CaseHub a serializer for it"
                ) from None

    def __repr__(self) -> str:
        return f"FactType({type_name(self.annotation)})"

    def seen_as(self, annotation: Any) -> FactType:
        """The same fact as a reader with this annotation gets it; `Plain`: its JSON."""
        if annotation is Plain:
            return FactType()
        seen = FactType(annotation)
        seen.upcast = self.upcast
        return seen

    # ---- to what is stored

    def normalise(self, value: object, where: str, owner: Owner | None = None) -> Plain:
        """What is stored of `value`, proved to come back equal. Raises `FactError` or `LimitError` naming `where`.

        `owner`: whose fact it is; a serializer wants to know.
        """
        exact = self._exact
        if exact is not None:
            if type(value) is exact or (exact is float and type(value) is int):
                return plain(value, where)
            raise FactError(
                f"{where}: {brief(value)} is {type(value).__name__}, and the fact's type is {exact.__name__}"
            )
        if self._adapter is None:
            form = plain(value, where)
            return tagged(JSON, form) if type(form) is dict and TAG in form else form
        try:
            # Not `dump_python` and `validate_json`: they do no more than this, and half the time goes to doing it.
            adapter = self._adapter
            check_size(value, where)
            form = plain(adapter.serializer.to_python(value, mode="json", by_alias=True, warnings="error"), where)
            if self._has_sets:  # in one order, whatever the hash seed of the process is
                form = sorted_sets(form, value)
            back = adapter.validator.validate_json(to_json(form))
        except (
            PydanticSerializationError,
            ValueError,
            UserWarning,
            RecursionError,
        ) as error:  # a ValidationError is a ValueError
            raise FactError(
                f"{where}: {brief(value)} does not fit {type_name(self.annotation)}: {_first(error)}"
            ) from None
        if back != value or type(back) is not type(value):
            raise FactError(
                f"{where}: {brief(value)} would come back from the store as {brief(back)}; "
                f"annotate the fact so that {type_name(self.annotation)} keeps everything"
            )
        return tagged(JSON, form) if type(form) is dict and TAG in form else form

    def accept(self, value: object, where: str, owner: Owner | None = None) -> Plain:
        """What is stored of a value from outside (a signal, an input): text such as dates and numbers is converted."""
        if self._adapter is None:
            return self.normalise(value, where)
        try:
            check_size(value, where)
            return self.normalise(self._adapter.validate_python(value), where)
        except ValidationError as error:
            raise FactError(
                f"{where}: {brief(value)} does not fit {type_name(self.annotation)}: {_first(error)}"
            ) from None

    def from_json(self, value: Plain, where: str, owner: Owner | None = None) -> Plain:
        """What is stored of a value whose JSON this is. Raises `FactError` when it does not fit the type."""
        return self.normalise(self._read(value, where), where)

    # ---- and back

    def restore(self, value: Plain, fact: str, owner: Owner | None = None) -> Any:
        """A fresh object for what is stored of a fact. Raises `FactError` when that does not fit the type."""
        if type(value) is dict and TAG in value:
            name = value[TAG]
            if value.keys() != {TAG, "value"} or type(name) is not str:
                raise FactError(f"fact {fact!r}: what is stored, {brief(value)}, is nothing that a serializer made")
            return (
                self._serialised(name, value["value"], fact, owner)
                if name != JSON
                else self._read(value["value"], fact)
            )
        if type(value) is self._exact or (self._adapter is None and type(value) in _SCALARS and self._exact is None):
            return value
        return self._read(value, fact)

    def as_json(self, value: Plain, fact: str, owner: Owner | None = None) -> Plain:
        """The JSON of what is stored of a fact, for who reads it without its type."""
        return copy(shown(value))

    def alike(self, one: Plain, other: Plain, owner: Owner | None = None) -> bool:
        """Whether two stored values that are not the same stand for one; of JSON there are none."""
        return False

    def _serialised(self, name: str, form: Plain, fact: str, owner: Owner | None) -> Any:
        """The value of what a serializer made; here there is none."""
        raise FactError(
            f"fact {fact!r} was stored by serializer {name!r}, and none is registered; give it to CaseHub(serializers=[...])"
        )

    def _read(self, value: Plain, fact: str) -> Any:
        try:
            return self._validated(value)
        except (ValidationError, FactError) as error:
            problem = _first(error)
        try:
            if self.upcast is not None:
                return self._validated(plain(self.upcast(copy(value)), f"fact {fact!r}"))
        except Exception as error:  # it is user code
            problem += f"; nor does what its upcast makes of it: {_first(error)}"
        raise FactError(
            f"fact {fact!r}: the stored value {brief(value)} does not fit {type_name(self.annotation)}: {problem}"
        )

    def _validated(self, value: Plain) -> Any:
        """An object of the type for its JSON. Raises `ValidationError`, or `FactError` for a scalar of another type."""
        if self._adapter is not None:
            return self._adapter.validator.validate_json(to_json(value))
        exact = self._exact
        if exact is None or type(value) is exact or (exact is float and type(value) is int):
            return copy(value)
        raise FactError(f"it is {type(value).__name__}")

    def misfits(self, value: object) -> dict[str, str]:
        """What keeps a value from outside from being accepted, by the path to it (`address.city`), all of it.

        Names that an object of this type does not have are among it: whoever wrote them meant something.
        """
        found: dict[str, str] = {}
        properties = self.schema().get("properties")
        if (
            isinstance(value, Mapping)
            and isinstance(properties, dict)
            and not self.schema().get("additionalProperties")
        ):
            by_name = getattr(self.annotation, "model_fields", {})  # a model may take these beside its aliases
            found = {
                str(name): f"the form has no such field; {did_you_mean(str(name), properties)}"
                for name in value
                if name not in properties and name not in by_name
            }
        try:
            if self._adapter is not None:
                self._adapter.validate_python(value)
            self.accept(value, "")
        except ValidationError as error:
            found |= {".".join(map(str, e["loc"])): e["msg"] for e in error.errors(include_url=False)}
        except (FactError, LimitError) as error:  # what is wrong stands behind the path to it
            path, _, why = str(error).partition(": ")
            found[path.removeprefix(".")] = why
        except Exception as error:  # validators are user code
            found[""] = str(error) or type(error).__name__
        return found

    def schema(self) -> dict[str, Any]:
        """The JSON Schema (draft 2020-12) of its values. Raises `FactError` for a type that has none."""
        if self._schema is None:
            try:
                adapter = self._adapter or TypeAdapter(self.annotation)
                self._schema = adapter.json_schema()
            except PydanticUserError as error:
                raise FactError(
                    f"type {type_name(self.annotation)} has no JSON Schema: {str(error).splitlines()[0]}"
                ) from None
        return self._schema

    def is_a(self, kind: type) -> bool:
        """Whether facts of this type are instances of `kind`; builtins and their generics never match by type."""
        mine = self.annotation
        return isinstance(mine, type) and get_origin(mine) is None and not is_builtin(mine) and issubclass(mine, kind)


def _has_sets(schema: object) -> bool:
    """Whether a schema of pydantic's has sets in it."""
    waiting, seen = [schema], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            if part.get("type") in ("set", "frozenset"):
                return True
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
    return False


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        detail = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in detail["loc"])
        return f"{place}: {detail['msg']}" if place else detail["msg"]
    return str(error).strip().splitlines()[-1].strip() if str(error) else type(error).__name__


def is_builtin(annotation: Any) -> bool:
    """Whether the type is one of Python's own, which never wires by type."""
    origin = get_origin(annotation) or annotation
    return origin in (Any, object, Union, UnionType) or getattr(origin, "__module__", "") in (
        "builtins",
        "typing",
        "collections.abc",
    )


def without_none(annotation: Any) -> Any:
    """`X` for `X | None` and for `Annotated[X, ...]`; everything else as it is."""
    if get_origin(annotation) is Annotated:
        return without_none(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        rest = [part for part in get_args(annotation) if part is not NoneType]
        return rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007 - built from parts at run time
    return annotation


def type_name(annotation: Any) -> str:
    """The type as a person wrote it: `Risk`, `list[str]`."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__name__
    return str(annotation).replace("typing.", "")


def snake_case(name: str) -> str:
    """`CustomerInsights` as a fact's name: `customer_insights`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
