"""What keeps a value from being JSON, where in it that is, and that a large one costs little to refuse."""

from __future__ import annotations

import collections
import io
import math
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from casehub.errors import FactError, LimitError
from casehub.plain import MAX_ITEMS, MAX_SIZE, check_size, plain
from casehub.values import FactType


class Item(BaseModel):
    id: int
    name: str = ""


@dataclass(slots=True)
class Slotted:
    rows: list[int] = field(default_factory=list[int])


class Unread(list[int]):
    """A list that nobody may look into."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("it was looked into")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "v"),
        ([0, math.nan], r"v\[1\]"),
        ({"rows": [0, {"price": math.inf}]}, r"v\.rows\[1\]\.price"),
        ([[["\ud800"]]], r"v\[0\]\[0\]\[0\]"),
        ({"a": {"b": "x\0"}}, r"v\.a\.b"),
        ([0, 10**64], r"v\[1\]"),
        ((0, (b"",)), r"v\[1\]\[0\]"),
        ({"a": [{1: 2}]}, r"v\.a\[0\]"),
        ({"ü": {"\ud800": 2}}, r"v\.ü"),
    ],
)
def test_a_refusal_has_the_path_within_the_value(value: object, path: str) -> None:
    with pytest.raises(FactError, match=f"^{path}: "):
        plain(value, "v")


def test_the_path_into_a_typed_value_is_told_too() -> None:
    with pytest.raises(FactError, match=r"^v\.a\[1\]: nan is not a JSON number"):
        FactType(dict[str, list[float]]).normalise({"a": [1.0, math.nan]}, "v")


def test_too_many_items_are_refused_before_any_of_them_is_looked_at() -> None:
    many = Unread([0] * (MAX_ITEMS + 1))
    with pytest.raises(LimitError, match=r"^v\.rows: larger than 65,536 items"):
        plain({"rows": many}, "v")
    with pytest.raises(LimitError, match="larger than 65,536 items"):
        check_size(many, "v")
    assert len(plain([0] * MAX_ITEMS, "v")) == MAX_ITEMS  # type: ignore[arg-type]  # a list


def test_items_are_counted_over_the_whole_value() -> None:
    half = [0] * (MAX_ITEMS // 2)
    assert plain([half, half[:-2]], "v") == [half, half[:-2]]
    with pytest.raises(LimitError, match=r"^v\[1\]: larger than 65,536 items"):
        plain([half, half], "v")


def test_text_is_refused_by_its_length_alone() -> None:
    text = "x" * (MAX_SIZE // 2)
    with pytest.raises(LimitError, match=r"^v\[2\]: larger than 1,048,576 bytes of JSON"):
        plain([text, text, "x"], "v")
    with pytest.raises(LimitError, match=r"^v\.b: larger than 1,048,576 bytes of JSON"):
        plain({"a": text, "b": text}, "v")  # the keys count
    for record in ({"x" * (MAX_SIZE + 1): 1}, {text: 1, f"{text}x": True}):
        with pytest.raises(LimitError, match="larger than 1,048,576 bytes of JSON"):
            plain(record, "v")
    with pytest.raises(LimitError, match="larger than 1,048,576 bytes of JSON"):
        plain("\ud800" + "x" * MAX_SIZE, "v")


def test_a_large_typed_value_is_refused_before_json_is_made_of_it() -> None:
    class Costly(BaseModel):
        id: int

        @field_serializer("id")
        def dump(self, value: int) -> int:
            raise AssertionError("JSON was made of it")

    items = [Costly(id=1)] * (MAX_ITEMS + 1)
    with pytest.raises(LimitError, match="larger than 65,536 items"):
        FactType(list[Costly]).normalise(items, "v")


@pytest.mark.parametrize(
    "value",
    [
        [Item(id=1, name="x" * 1024)] * 1025,
        {str(index): "x" * 1024 for index in range(1025)},
        Slotted([0] * (MAX_ITEMS + 1)),
        [Slotted([0] * 1024) for _ in range(65)],
        {1, *range(MAX_ITEMS + 1)},
        collections.deque([b"x" * MAX_SIZE, b"x"]),
    ],
    ids=["models", "mapping", "slots", "nested", "set", "bytes"],
)
def test_the_size_of_objects_is_counted_in_what_they_hold(value: object) -> None:
    with pytest.raises(LimitError, match=r"^v: larger than"):
        check_size(value, "v")


def test_an_object_that_holds_itself_is_too_large() -> None:
    slotted = Slotted()
    slotted.rows.append(slotted)  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(LimitError, match="or a cycle"):
        check_size(slotted, "v")


def test_a_subclass_says_nothing_about_what_it_holds() -> None:
    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "something else"

    class Number(int):
        def __int__(self) -> int:
            return 7

    class Ratio(float):
        def __float__(self) -> float:
            return 7.5

    found = plain([Text("a"), Number(3), Ratio(1.5)], "v")
    assert found == ["a", 3, 1.5]
    assert [type(item) for item in found] == [str, int, float]


async def pending() -> None:
    """A coroutine to store by mistake."""


def test_what_is_open_in_this_process_alone_is_refused_with_the_remedy() -> None:
    coroutine = pending()
    handles: list[Any] = [io.StringIO(), socket.socket(), iter([1]), (x for x in [1]), threading.Lock(), coroutine]
    for handle in handles:
        with pytest.raises(
            FactError, match=r"^v\[0\]: .* is open in this process alone; share it with @definition\.res"
        ):
            plain([handle], "v")
    handles[1].close()
    coroutine.close()
