"""The JSON Schema for editors takes what the loader takes, and marks what it can of the mistakes."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from casehub.loader import schema
from casehub.loader.vocabulary import SECTIONS
from tests.loader.test_loading import CLAIM, EXPENSES, RATED, STAGED
from tests.loader.test_mistakes import MISTAKES

CHECK = Draft202012Validator(schema())

MARKED = (
    "no name",
    "a misspelt key",
    "a misspelt key of a worker",
    "a misspelt key of a retry",
    "a number for a name",
    "text for a number",
    "a number in quotes",
    "a fraction for a whole number",
    "no for false",
    "a list for a mapping",
    "a number for a duration",
    "a duration without a unit",
    "a choice that is none",
    "a type that is none",
    "a fact with a hyphen",
    "a boolean for a condition",
    "a list for a condition",
    "a part of a condition that is none",
    "a reference that is none",
    "an empty goal",
    "a catch-up that is none",
)


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("text", [CLAIM, STAGED, EXPENSES, RATED])
def test_it_takes_what_the_loader_takes(text: str) -> None:
    assert [error.message for error in CHECK.iter_errors(YAML(typ="safe", pure=True).load(text))] == []


@pytest.mark.parametrize("name", MARKED)
def test_it_marks_a_mistake(name: str) -> None:
    text = MISTAKES[name][0].replace("^", "", 1)
    assert list(CHECK.iter_errors(YAML(typ="safe", pure=True).load(text)))


def test_every_key_is_in_it_with_what_it_means() -> None:
    found = schema()
    for name, keys in SECTIONS.items():
        part = found if name == "definition" else found["$defs"][name]
        properties = part["anyOf"][1]["properties"] if name == "condition" else part["properties"]
        assert {key: each["description"] for key, each in properties.items()} == {
            key: value.about for key, value in keys.items()
        }
