"""Types of facts as definitions write them: `string`, `list[number]`, a JSON Schema, or a class of allowed code."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as fields_of
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

from cel_expr_python import cel
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from pydantic import AfterValidator, BaseModel, WithJsonSchema
from pydantic_core import to_json

from casehub.errors import FactError, LimitError
from casehub.loader.document import Mapping, Node, Scalar
from casehub.loader.mistakes import Mistakes, instead
from casehub.values import ABSENT, FactType

NAMED: Final[dict[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict[str, Any],
    "list": list[Any],
    "datetime": datetime,
    "date": date,
    "any": Any,
}
_LIST = re.compile(r"list\[(.*)\]")
_OWN: Final = ("default", "optional")
"""Keys of a type that are no JSON Schema."""
_KEYWORDS: Final = frozenset(
    [
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "contains",
        "dependentRequired",
        "description",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "prefixItems",
        "properties",
        "propertyNames",
        "required",
        "title",
        "type",
        "uniqueItems",
    ]
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a JSON Schema demands; hangs on an annotation. `known`: names of fields, None where any may come."""

    schema: Mapped[str, Any]

    def __str__(self) -> str:
        return to_json(self.schema).decode()

    def __hash__(self) -> int:  # annotations have to have one
        return hash(repr(self.schema))

    def __call__(self, value: Any) -> Any:
        """The value, if it is valid. Raises `ValueError` with the field and what is wrong with it."""
        error = best_match(Draft202012Validator(self.schema).iter_errors(value))
        if isinstance(error, ValidationError):
            where = ".".join(str(part) for part in error.absolute_path)
            raise ValueError(f"{where}: {error.message}" if where else error.message)
        return value

    @property
    def known(self) -> frozenset[str] | None:
        properties = self.schema.get("properties")
        if not properties or self.schema.get("additionalProperties") not in (None, False):
            return None
        return frozenset(properties)


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared type. `default`: what an input is that is left out, `ABSENT` where it is not there then."""

    annotation: Any
    required: bool = True
    default: Any = ABSENT


class TypeReader:
    """Reads types. `code`: finds a class by `module:Class`, or notes why not."""

    def __init__(self, mistakes: Mistakes, code: Callable[[Scalar, str], Any]) -> None:
        self._mistakes = mistakes
        self._code = code

    def declared(self, node: Node, subject: str) -> Declared:
        """The type that a node says; `Any` where it says none."""
        if isinstance(node, Mapping):
            return self._schema(node, subject)
        if isinstance(node, Scalar) and isinstance(node.value, str):
            text = node.value.replace(" ", "")
            optional = text.endswith("?")
            return Declared(self._named(node, text.removesuffix("?"), subject), not optional)
        if isinstance(node, Scalar) and node.value is None:
            return Declared(Any)
        self._mistakes.note(
            node.place,
            subject,
            f"is {node.kind}, and a type was expected",
            f"one of: {', '.join(NAMED)}, list[...], or a JSON Schema",
        )
        return Declared(Any)

    def _named(self, node: Scalar, text: str, subject: str) -> Any:
        if text in NAMED:
            return NAMED[text]
        if match := _LIST.fullmatch(text):
            return list[self._named(node, match[1], subject)]  # type: ignore[misc]  # made at run time
        if ":" in text:
            found = self._code(node, subject)
            return Any if found is None else found
        self._mistakes.note(node.place, subject, f"{text!r} is no type", instead(text, (*NAMED, "list[...]")))
        return Any

    def _schema(self, node: Mapping, subject: str) -> Declared:
        for key, _ in node.entries():
            if key.text not in _KEYWORDS and key.text not in _OWN:
                self._mistakes.note(
                    key.place,
                    subject,
                    f"{key.text!r} is no key of a type",
                    instead(key.text, sorted(_KEYWORDS | set(_OWN))),
                )
        kind = node.values.get("type")
        optional = node.values.get("optional")
        if optional is not None and not (isinstance(optional, Scalar) and isinstance(optional.value, bool)):
            self._mistakes.note(
                optional.place,
                f"{subject}.optional",
                f"is {optional.kind}, and true or false was expected",
                "write true or false",
            )
            optional = None
        schema: dict[str, Any] = {
            name: each.plain() for name, each in node.values.items() if name not in _OWN and name in _KEYWORDS
        }
        base: Any = Any
        if isinstance(kind, Scalar) and isinstance(kind.value, str):
            base = self._named(kind, kind.value.replace(" ", ""), f"{subject}.type")
            if kind.value not in ("string", "integer", "number", "boolean", "object"):
                schema.pop("type")
        if schema.get("type") == "array" or ("items" in schema and base is Any):
            base = list[Any]
        annotation = base
        if set(schema) - {"type", "title", "description"}:
            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                place = node.place
                inner: Node | None = node
                for part in error.absolute_path:
                    inner = inner.values.get(str(part)) if isinstance(inner, Mapping) else None
                    place = place if inner is None else inner.place
                self._mistakes.note(
                    place, subject, f"is no JSON Schema: {error.message}", "see https://json-schema.org"
                )
            else:
                annotation = Annotated[base, AfterValidator(Shape(schema)), WithJsonSchema(schema)]
        default: Any = ABSENT
        given = node.values.get("default")
        required = given is None and not (isinstance(optional, Scalar) and optional.value)
        if given is not None:
            default = given.plain()
            try:
                FactType(annotation).accept(default, "it")
            except (FactError, LimitError) as error:
                self._mistakes.note(
                    given.place, f"{subject}.default", f"does not fit its own type: {error}", "make the two agree"
                )
        return Declared(annotation, required, default)


def cel_type(annotation: Any) -> cel.Type:
    """The type of a fact's plain value as CEL knows it."""
    if get_origin(annotation) is Annotated:
        return cel_type(get_args(annotation)[0])
    simple: dict[Any, cel.Type] = {
        str: cel.Type.STRING, bool: cel.Type.BOOL, int: cel.Type.INT, float: cel.Type.DOUBLE, datetime: cel.Type.TIMESTAMP,
        date: cel.Type.STRING,
    }  # fmt: skip
    if isinstance(annotation, type) and annotation in simple:
        return simple[annotation]
    if get_origin(annotation) is list:
        return cel.Type.List(cel_type(get_args(annotation)[0]))
    if get_origin(annotation) is Literal:
        kinds = {type(value) for value in get_args(annotation)}
        return cel_type(kinds.pop()) if len(kinds) == 1 else cel.Type.DYN
    if get_origin(annotation) is dict or annotation is dict or fields_in(annotation) is not None:
        return cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        kinds = {type(member.value) for member in annotation}
        return cel_type(kinds.pop()) if len(kinds) == 1 else cel.Type.DYN
    return cel.Type.DYN


def fields_in(annotation: Any) -> frozenset[str] | None:
    """The fields that a fact of this type has, where it can have no others."""
    if get_origin(annotation) is Annotated:
        return next(
            (
                each.func.known
                for each in get_args(annotation)[1:]
                if isinstance(each, AfterValidator) and isinstance(each.func, Shape)
            ),
            None,
        )
    if not isinstance(annotation, type):
        return None
    if is_dataclass(annotation):
        return frozenset(each.name for each in fields_of(annotation))
    if issubclass(annotation, BaseModel):
        return frozenset(
            info.serialization_alias or info.alias or name for name, info in annotation.model_fields.items()
        )
    return frozenset(get_type_hints(annotation)) if is_typeddict(annotation) else None
