"""What a fact's value may be, and that it comes back as it was."""

from __future__ import annotations

import collections
import enum
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from casehub.errors import FactError, LimitError
from casehub.plain import brief
from casehub.values import (
    ABSENT,
    MAX_DEPTH,
    MAX_SIZE,
    FactType,
    copy,
    is_builtin,
    plain,
    same,
    snake_case,
    type_name,
    without_none,
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Person(BaseModel):
    name: str
    colour: Colour = Colour.RED
    born: date | None = None


class Boss(Person):
    reports: int = 0


@dataclass
class Point:
    x: int
    y: int
    tags: list[str] = field(default_factory=list)


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


class Pair(NamedTuple):
    left: int
    right: str


class Row(TypedDict):
    id: int
    note: str


class Opaque:
    """No type that pydantic knows."""


# ---- plain values


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -5, 1.5, "", "text", "ünï", [], {}, [1, [2, {"a": None}]], {"a": {"b": [True]}}, 10**63, -(10**63)],
)
def test_json_values_stay_as_they_are(value: object) -> None:
    result = plain(value, "v")
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ((1, 2), [1, 2]),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        ([(1,), [2]], [[1], [2]]),
    ],
)
def test_subclasses_and_tuples_become_the_plain_type_at_once(value: object, result: object) -> None:
    found = plain(value, "v")
    assert found == result
    assert type(found) is type(result)


def test_subclasses_of_scalars_become_scalars() -> None:
    class Text(str):
        __slots__ = ()

    class Number(int):
        pass

    assert [type(plain(value, "v")) for value in (Text("a"), Number(3))] == [str, int]


def test_what_is_made_plain_shares_nothing_with_what_it_was_made_of() -> None:
    value: dict[str, Any] = {"a": [1, {"b": 2}]}
    result: Any = plain(value, "v")
    result["a"][1]["b"] = 99
    assert value == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (math.nan, "nan is not a JSON number"),
        (math.inf, "inf is not a JSON number"),
        ([1, {"a": -math.inf}], "-inf is not a JSON number"),
        ("a\0b", "NUL"),
        ({"a": "a\0b"}, "NUL"),
        ({"a\0b": 1}, "NUL"),
        ("\ud800", "lone surrogate at position 0"),
        ({"\ud800": 1}, "lone surrogate"),
        ({1: 2}, "the key 1 is int"),
        ({None: 2}, "the key None is NoneType"),
        (10**64, "store it as text"),
        (-(10**64), "store it as text"),
        (b"bytes", "bytes is no JSON value"),
        ({1, 2}, "set is no JSON value"),
        (Colour.RED, "is an enumeration member"),
        (datetime(2030, 1, 1, tzinfo=UTC), "datetime is no JSON value; annotate"),
        (Opaque(), "Opaque is no JSON value"),
        (ABSENT, "is an enumeration member"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_the_reason(value: object, complaint: str) -> None:
    with pytest.raises(FactError, match=complaint):
        plain(value, "fact 'x'")


def test_an_integer_too_long_to_be_written_in_digits_is_refused_like_any_other() -> None:
    with pytest.raises(FactError, match="store it as text"):
        plain(10**5000, "fact 'x'")


def test_the_message_names_the_place_within_the_value() -> None:
    with pytest.raises(FactError, match=r"^fact 'x'\.rows\[2\]\.price: nan"):
        plain({"rows": [0, 1, {"price": math.nan}]}, "fact 'x'")


def test_what_is_too_deep_or_a_cycle_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert plain(deep, "v") == deep
    with pytest.raises(LimitError, match="nested deeper than"):
        plain([[deep]], "v")
    record: dict[str, Any] = {"a": "text"}
    for _ in range(MAX_DEPTH - 1):
        record = {"a": record}
    assert plain(record, "v") == record
    with pytest.raises(LimitError, match="nested deeper than"):
        plain({"a": record}, "v")
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(LimitError, match="or a cycle"):
        plain(cycle, "v")


@pytest.mark.parametrize(
    "value",
    [
        "x" * (MAX_SIZE + 1),
        ["x" * 1000] * 1100,
        [0] * (MAX_SIZE + 1),
        {"a": "ü" * MAX_SIZE},
        dict.fromkeys(map(str, range(1100)), "x" * 1000),
    ],
    ids=["text", "texts", "numbers", "within", "record"],
)
def test_what_is_too_large_is_refused(value: object) -> None:
    with pytest.raises(LimitError, match="larger than"):
        plain(value, "v")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None)
@given(JSON)
def test_every_json_value_is_stored_and_read_back_equal(value: Any) -> None:
    kind = FactType()
    form = kind.normalise(value, "v")
    assert form == value
    assert kind.restore(form, "v") == value


def test_keys_and_sets_have_no_order_and_numbers_have_a_type() -> None:
    assert same({"a": 1, "b": [{"x": 1, "y": 2}]}, {"b": [{"y": 2, "x": 1}], "a": 1})
    for one, other in ((1, 1.0), (1, True), ([1], [1.0]), ({"a": {"b": 0}}, {"a": {"b": False}}), ([1, 2], [2, 1])):
        assert not same(one, other)


@dataclass(frozen=True)
class Holder:
    names: frozenset[str]
    pairs: tuple[frozenset[int], ...] = ()


@pytest.mark.parametrize(
    ("annotation", "value", "form"),
    [
        (set[str], {"c", "a", "b"}, ["a", "b", "c"]),
        (dict[str, frozenset[int]], {"k": frozenset({3, 1, 2})}, {"k": [1, 2, 3]}),
        (frozenset[frozenset[str]], frozenset({frozenset("ba"), frozenset("a")}), [["a", "b"], ["a"]]),
        (Holder, Holder(frozenset("cab"), (frozenset({2, 1}),)), {"names": ["a", "b", "c"], "pairs": [[1, 2]]}),
        (list[set[str]] | None, [set("cb"), set("a")], [["b", "c"], ["a"]]),
        (set[Colour], {Colour.RED, Colour.BLUE}, ["blue", "red"]),
        (set[date], {date(2031, 1, 1), date(2030, 1, 1)}, ["2030-01-01", "2031-01-01"]),
        (set[Holder], {Holder(frozenset("ba")), Holder(frozenset("a"))}, None),
    ],
)
def test_sets_are_stored_in_one_order(annotation: Any, value: Any, form: Any) -> None:
    kind = FactType(annotation)
    found: Any = kind.normalise(value, "v")
    assert form is None or found == form
    assert kind.restore(found, "v") == value


@pytest.mark.parametrize(
    "value", [10**5000, ["x" * 10**7], [0] * 10**7, object(), {10**5000: 1}], ids=lambda v: type(v).__name__
)
def test_a_value_in_a_message_is_short_whatever_it_is(value: Any) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "Broken" in brief(Broken())
    assert len(brief(value)) <= 60
    for kind in (FactType(str), FactType(list[str]), FactType(Person)):
        with pytest.raises((FactError, LimitError), match=r"^v: ") as caught:
            kind.normalise(value, "v")
        assert len(str(caught.value)) < 300


@given(JSON)
def test_a_copy_is_equal_and_shares_nothing_mutable(value: Any) -> None:
    again = copy(value)
    assert again == value
    assert not (isinstance(value, list | dict) and again is value)


# ---- typed values


@pytest.mark.parametrize(
    ("annotation", "value", "form"),
    [
        (Person, Person(name="Ada", colour=Colour.BLUE), {"name": "Ada", "colour": "blue", "born": None}),
        (list[Person], [Person(name="Ada")], [{"name": "Ada", "colour": "red", "born": None}]),
        (Point, Point(1, 2, ["a"]), {"x": 1, "y": 2, "tags": ["a"]}),
        (Node, Node("a", [Node("b")]), {"name": "a", "children": [{"name": "b", "children": []}]}),
        (Pair, Pair(1, "b"), [1, "b"]),
        (Colour, Colour.BLUE, "blue"),
        (Level, Level.HIGH, 2),
        (Literal["a", "b"], "a", "a"),
        (datetime, datetime(2030, 1, 1, tzinfo=UTC), "2030-01-01T00:00:00Z"),
        (date, date(2030, 1, 1), "2030-01-01"),
        (timedelta, timedelta(hours=1), "PT1H"),
        (Decimal, Decimal("1.10"), "1.10"),
        (UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path, Path("/a/b"), "/a/b"),
        (set[int], {1}, [1]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (dict[str, Point], {"p": Point(1, 2)}, {"p": {"x": 1, "y": 2, "tags": []}}),
        (int | None, None, None),
        (int | str, "5", "5"),
        (Person | Point, Point(1, 2), {"x": 1, "y": 2, "tags": []}),
        (Row, {"id": 1, "note": "x"}, {"id": 1, "note": "x"}),
        (list[str], ["a"], ["a"]),
    ],
)
def test_a_typed_value_is_stored_plain_and_comes_back_as_its_type(annotation: Any, value: object, form: object) -> None:
    kind = FactType(annotation)
    assert kind.normalise(value, "v") == form
    back = kind.restore(form, "v")
    assert back == value
    assert type(back) is type(value)


def test_what_is_read_is_a_fresh_object_each_time() -> None:
    for annotation, form in ((Point, {"x": 1, "y": 2, "tags": ["a"]}), (Any, {"x": [1]}), (list[int], [1])):
        kind = FactType(annotation)
        one, other = kind.restore(form, "v"), kind.restore(form, "v")
        assert one == other
        assert one is not other
        assert one is not form


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(str, 5), (int, "5"), (int, 5.0), (bool, 1), (int, True), (float, "1.5"), (str, None), (type(None), 0)],
)
def test_a_scalar_of_another_type_is_refused_and_named(annotation: Any, value: object) -> None:
    with pytest.raises(FactError, match=f"is {type(value).__name__}, and the fact's type is"):
        FactType(annotation).normalise(value, "fact 'x'")


def test_an_integer_is_a_float() -> None:
    assert FactType(float).normalise(1, "v") == 1


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Person, {"name": "Ada"}),
        (Person, Point(1, 2)),
        (list[int], ["a"]),
        (list[int], (1, 2)),
        (Literal["a"], "b"),
        (Colour, "red"),
        (datetime, "2030-01-01T00:00:00Z"),
        (list[float], [math.nan]),
    ],
)
def test_a_value_that_would_not_come_back_as_it_was_is_refused(annotation: Any, value: object) -> None:
    with pytest.raises(FactError, match="fact 'x'"):
        FactType(annotation).normalise(value, "fact 'x'")


def test_a_subclass_that_would_lose_its_own_fields_is_refused() -> None:
    with pytest.raises(FactError, match="annotate the fact so that Person keeps everything"):
        FactType(Person).normalise(Boss(name="Ada", reports=3), "fact 'x'")


def test_fields_that_are_left_out_of_the_dump_are_noticed() -> None:
    class Secret(BaseModel):
        word: str = Field(default="", exclude=True)

    with pytest.raises(FactError, match="would come back from the store as"):
        FactType(Secret).normalise(Secret(word="x"), "fact 'x'")


def test_a_stored_value_that_does_not_fit_is_refused_at_reading_with_the_place() -> None:
    with pytest.raises(FactError, match=r"fact 'x': the stored value .* does not fit Person: name: Field required"):
        FactType(Person).restore({"nome": "Ada"}, "x")


def test_values_from_outside_are_converted() -> None:
    assert FactType(datetime).accept("2030-01-01T00:00:00Z", "v") == "2030-01-01T00:00:00Z"
    assert FactType(Person).accept({"name": "Ada"}, "v") == {"name": "Ada", "colour": "red", "born": None}
    assert FactType(list[int]).accept((1, 2), "v") == [1, 2]
    assert FactType(Colour).accept("blue", "v") == "blue"


@pytest.mark.parametrize(("annotation", "value"), [(Person, {}), (datetime, "soon"), (list[int], ["a"]), (int, "5")])
def test_values_from_outside_that_do_not_fit_are_refused(annotation: Any, value: object) -> None:
    with pytest.raises(FactError, match="input 'x'"):
        FactType(annotation).accept(value, "input 'x'")


def test_a_type_that_cannot_be_stored_is_refused_with_the_remedy() -> None:
    with pytest.raises(FactError, match=r"type Opaque cannot be stored .*use a dataclass"):
        FactType(Opaque)


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(FactError) as caught:
        FactType(int).normalise("x" * 10_000, "fact 'x'")
    assert len(str(caught.value)) < 200


# ---- names of types


@pytest.mark.parametrize(
    ("annotation", "builtin"),
    [
        (int, True),
        (list[Person], True),
        (dict[str, int], True),
        (Any, True),
        (object, True),
        (int | None, True),
        (Literal["a"], True),
        (collections.abc.Sequence[int], True),
        (Person, False),
        (Colour, False),
        (datetime, False),
    ],
)
def test_builtins_and_their_generics_never_wire_by_type(annotation: Any, builtin: bool) -> None:
    assert is_builtin(annotation) is builtin


@pytest.mark.parametrize(
    ("annotation", "kind", "answer"),
    [(Boss, Person, True), (Person, Person, True), (Person, Boss, False), (list[Person], Person, False), (int, int, False), (Any, Person, False)],
)  # fmt: skip
def test_a_fact_is_of_its_type_and_of_what_that_inherits_from(annotation: Any, kind: type, answer: bool) -> None:
    assert FactType(annotation).is_a(kind) is answer


@pytest.mark.parametrize(
    ("annotation", "rest"),
    [(int | None, int), (Annotated[int | None, "x"], int), (int | str | None, int | str), (int, int), (list[int], list[int])],
)  # fmt: skip
def test_none_is_taken_out_of_a_type(annotation: Any, rest: Any) -> None:
    assert without_none(annotation) == rest


@pytest.mark.parametrize(
    ("name", "snake"),
    [("Risk", "risk"), ("CustomerInsights", "customer_insights"), ("PDFReport", "pdf_report"), ("Form1040", "form1040"), ("HTTPServerError", "http_server_error")],
)  # fmt: skip
def test_a_class_name_becomes_a_facts_name(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@pytest.mark.parametrize(("annotation", "name"), [(Person, "Person"), (list[str], "list[str]"), (Any, "Any"), (int | None, "int | None")])  # fmt: skip
def test_types_are_named_as_people_write_them(annotation: Any, name: str) -> None:
    assert type_name(annotation) == name


def test_absent_is_false_and_is_not_none() -> None:
    assert not ABSENT
    assert ABSENT is not None
    assert repr(ABSENT) == "ABSENT"
