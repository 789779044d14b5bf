"""Answers held against a form in JSON Schema: what pydantic makes of types, without the types."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from casehub.forms import misfits
from casehub.values import FactType


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    city: str = Field(min_length=2, max_length=20)
    code: Annotated[str, Field(pattern=r"^\d{4}$")] = "1234"


@dataclass
class Visit:
    when: datetime
    day: date
    at: time
    id: UUID
    people: Annotated[int, Field(ge=1, le=9)]
    share: Annotated[float, Field(gt=0, lt=1)]
    colour: Colour
    mood: Literal["good", "bad"]
    one: Literal["only"]
    address: Address
    notes: Annotated[list[str], Field(min_length=1, max_length=2)]
    pair: tuple[int, str]
    prices: dict[str, float]
    agreed: bool
    second: Address | None = None
    either: int | bool = 3
    free: dict[str, Any] = field(default_factory=dict)


GOOD: dict[str, Any] = {
    "when": "2030-01-31T12:00:00Z",
    "day": "2030-01-31",
    "at": "12:00:00",
    "id": "12345678-1234-5678-1234-567812345678",
    "people": 3,
    "share": 0.5,
    "colour": "red",
    "mood": "good",
    "one": "only",
    "address": {"city": "Delft"},
    "notes": ["a"],
    "pair": [1, "x"],
    "prices": {"tea": 2},
    "agreed": True,
    "second": None,
    "free": {"anything": [1]},
}
FORM = FactType(Visit)


def test_what_fits_the_type_fits_its_form() -> None:
    assert misfits(FORM.schema(), GOOD) == FORM.misfits(GOOD) == {}
    assert misfits(FORM.schema(), {**GOOD, "second": {"city": "Rome", "code": "0001"}, "either": False}) == {}


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("when", "soon", "when"),
        ("day", "2030-13-01", "day"),
        ("at", "noon", "at"),
        ("id", "x", "id"),
        ("people", 0, "people"),
        ("people", 10, "people"),
        ("people", "many", "people"),
        ("people", 2.5, "people"),
        ("share", 0, "share"),
        ("share", 1, "share"),
        ("colour", "green", "colour"),
        ("mood", "fair", "mood"),
        ("one", "other", "one"),
        ("address", {"city": "x"}, "address.city"),
        ("address", {"city": "x" * 21}, "address.city"),
        ("address", {"city": "Delft", "code": "12"}, "address.code"),
        ("address", {"code": "1234"}, "address.city"),
        ("address", "Delft", "address"),
        ("notes", [], "notes"),
        ("notes", ["a", "b", "c"], "notes"),
        ("notes", [1], "notes.0"),
        ("pair", ["x", "x"], "pair.0"),
        ("prices", {"tea": "dear"}, "prices.tea"),
        ("agreed", "perhaps", "agreed"),
        ("second", {"code": "1234"}, "second.city"),
    ],
)
def test_what_does_not_fit_the_type_does_not_fit_its_form_at_the_same_place(name: str, value: Any, path: str) -> None:
    answer = {**GOOD, name: value}
    assert list(misfits(FORM.schema(), answer)) == [path]
    assert any(found.startswith(path) for found in FORM.misfits(answer))


def test_a_field_that_the_form_does_not_have_and_one_that_is_missing_are_named() -> None:
    answer = {name: value for name, value in GOOD.items() if name != "agreed"} | {"agred": True}
    found = misfits(FORM.schema(), answer)
    assert found.keys() == {"agred", "agreed"}
    assert "did you mean 'agreed'" in found["agred"]


def test_what_fits_none_of_several_kinds_says_so() -> None:
    assert misfits(FORM.schema(), {**GOOD, "either": "x"}) == {"either": "fits none of the kinds that the form allows"}


@pytest.mark.parametrize(("kind", "good", "bad"), [(int, 3, "3"), (bool, True, 1), (str, "x", 3), (list[int], [1], 1)])
def test_a_plain_type_is_a_form_too(kind: Any, good: Any, bad: Any) -> None:
    schema = FactType(kind).schema()
    assert misfits(schema, good) == {}
    assert list(misfits(schema, bad)) == [""]


def test_keywords_that_are_not_known_pass() -> None:
    assert misfits({"type": "string", "contentEncoding": "base64", "pattern": "(?<x"}, "anything") == {}
