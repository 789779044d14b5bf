"""The JSON Schema of definitions in YAML, for editors: made of the vocabulary.

An editor with the YAML language server completes keys and marks mistakes with this line at the top of a file:
`# yaml-language-server: $schema=casehub.schema.json`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from casehub.loader.fact_types import NAMED
from casehub.loader.vocabulary import SECTIONS, Key, Takes

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NAME: Final = {"type": "string", "minLength": 1}
_FACT: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"


def schema() -> dict[str, Any]:
    """The schema of a definition."""
    definitions = {name: _section(name) for name in SECTIONS if name not in ("definition", "condition")}
    definitions["condition"] = {
        "anyOf": [
            {"type": "string", "description": "An expression, such as amount > 1000."},
            {**_section("condition"), "minProperties": 1},
        ]
    }
    definitions["type"] = {
        "anyOf": [
            {"enum": [*NAMED, *(f"{name}?" for name in NAMED)]},
            {"type": "string", "pattern": r"^list\[.+\]\??$"},
            {"type": "string", "pattern": r"^[\w.]+:\w+$", "description": "A class of allowed code."},
            {"$ref": DIALECT},
            {"type": "null"},
        ]
    }
    definitions["goal expression"] = {
        "anyOf": [
            _NAME,
            *(
                {
                    "type": "object",
                    "properties": {
                        join: {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/goal expression"}}
                    },
                    "required": [join],
                    "additionalProperties": False,
                }
                for join in ("all_of", "any_of")
            ),
        ]
    }
    return {
        "$schema": DIALECT,
        "title": "A case definition of CaseHub",
        **_section("definition"),
        "$defs": definitions,
    }


def _section(name: str) -> dict[str, Any]:
    keys = SECTIONS[name]
    found: dict[str, Any] = {
        "type": "object",
        "properties": {key: {"description": value.about, **_value(value)} for key, value in keys.items()},
        "additionalProperties": False,
    }
    if required := [key for key, value in keys.items() if value.required]:
        found["required"] = required
    return found


def _value(key: Key) -> dict[str, Any]:
    full = _KINDS[key.takes](key)
    if key.short is None:
        return full
    if key.takes is Takes.MANY:
        each = {"anyOf": [_KINDS[key.short](key), {"$ref": f"#/$defs/{key.section}"}]}
        return {"type": "object", "additionalProperties": each}
    return {"anyOf": [_KINDS[key.short](key), full]}


def _several(one: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [one, {"type": "array", "items": one}]}


def _by_fact(value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "propertyNames": {"pattern": _FACT}, "additionalProperties": value}


_SPAN: Final = {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d|w)\s*)+$"}
_REFERENCE: Final = {"type": "string", "pattern": r"^[\w.]+:\w+$"}
_KINDS: Final[dict[Takes, Callable[[Key], dict[str, Any]]]] = {
    Takes.TEXT: lambda key: _NAME,
    Takes.NAMES: lambda key: _several(_NAME),
    Takes.INTEGER: lambda key: {"type": "integer"},
    Takes.NUMBER: lambda key: {"type": "number"},
    Takes.FLAG: lambda key: {"type": "boolean"},
    Takes.DURATION: lambda key: _SPAN,
    Takes.WHEN: lambda key: {"anyOf": [_SPAN, {"type": "string", "pattern": r"^\d{4}-?\d\d-?\d\d[T ].+$"}]},
    Takes.CHOICE: lambda key: {"enum": list(key.choices)},
    Takes.REFERENCE: lambda key: _REFERENCE,
    Takes.REFERENCES: lambda key: _several(_REFERENCE),
    Takes.TYPE: lambda key: {"$ref": "#/$defs/type"},
    Takes.SAID: lambda key: {"anyOf": [*_several(_NAME)["anyOf"], {"$ref": "#/$defs/expression"}]},
    Takes.FUNCTIONS: lambda key: _by_fact(_REFERENCE),
    Takes.CONFIDENCES: lambda key: _by_fact({"type": "number", "minimum": 0, "maximum": 1}),
    Takes.TYPES: lambda key: _by_fact({"$ref": "#/$defs/type"}),
    Takes.BROUGHT: lambda key: {"anyOf": [_by_fact({"$ref": "#/$defs/type"}), _several(_NAME)]},
    Takes.CONDITION: lambda key: {"$ref": "#/$defs/condition"},
    Takes.CONDITIONS: lambda key: {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/condition"}},
    Takes.GOAL: lambda key: {"$ref": "#/$defs/goal expression"},
    Takes.EXPRESSIONS: lambda key: {
        **_by_fact({"type": ["string", "number", "boolean", "object"]}),
        "minProperties": 1,
    },
    Takes.SCHEDULES: lambda key: _several({"$ref": "#/$defs/schedule"}),
    Takes.ONE: lambda key: {"$ref": f"#/$defs/{key.section}"},
    Takes.MANY: lambda key: {"type": "object", "additionalProperties": {"$ref": f"#/$defs/{key.section}"}},
}
