"""What is accepted comes back equal in type and value, now and after a restart; what is refused has changed nothing."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from random import Random
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from casehub import CaseDefinition, CaseHub, CaseHubError, FactError, LimitError
from casehub.adapters.codec import as_json, from_json
from casehub.encryption import Encryption, KeyRing
from casehub.events import CaseId, ContextChanged, Envelope
from casehub.plain import brief, plain
from casehub.serialized import Lenses
from casehub.values import FactType, OwnerId, same
from tests.staging import Kept

C = OwnerId("c", "default")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"
    NO = "no"


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Item:
    colour: Colour
    price: Decimal
    tags: list[Word] = field(default_factory=list[Word])
    pair: Pair | None = None


class Order(BaseModel):
    id: UUID
    at: datetime
    items: list[Item]
    levels: dict[str, Level] = {}
    due: date | None = None
    wait: timedelta = timedelta(0)
    kind: Literal["a", "b"] = "a"
    either: int | str | None = None
    best: Item | None = None


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
WHOLE = st.integers(-(10**63), 10**63)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
LEAF = st.none() | st.booleans() | WHOLE | NUMBER | TEXT
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=15
)
PRICE = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9)
ITEM = st.builds(
    Item, st.sampled_from(Colour), PRICE, st.lists(st.sampled_from(Word), max_size=3), st.none() | st.builds(Pair, WHOLE, TEXT)
)  # fmt: skip
TIME = st.datetimes(timezones=st.just(UTC))
ORDER = st.builds(
    Order,
    id=st.uuids(),
    at=TIME,
    items=st.lists(ITEM, max_size=3),
    levels=st.dictionaries(TEXT, st.sampled_from(Level), max_size=3),
    due=st.none() | st.dates(date(1900, 1, 1), date(2200, 1, 1)),
    wait=st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
    kind=st.sampled_from(["a", "b"]),
    either=st.none() | st.integers(-(10**9), 10**9) | TEXT,
    best=st.none() | ITEM,
)

TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Any, JSON),
    (int, WHOLE), (float, NUMBER), (str, TEXT), (bool, st.booleans()),
    (Colour, st.sampled_from(Colour)), (Level, st.sampled_from(Level)), (Word, st.sampled_from(Word)),
    (datetime, TIME), (Decimal, PRICE), (UUID, st.uuids()), (timedelta, st.timedeltas(timedelta(days=-9), timedelta(days=9))),
    (list[Item], st.lists(ITEM, max_size=4)),
    (dict[str, Item], st.dictionaries(TEXT, ITEM, max_size=4)),
    (Item | None, st.none() | ITEM),
    (Item | list[Item], ITEM | st.lists(ITEM, max_size=3)),
    (list[dict[str, Colour]], st.lists(st.dictionaries(TEXT, st.sampled_from(Colour), max_size=3), max_size=3)),
    (set[int], st.sets(st.integers(-9, 9), max_size=4)), (frozenset[str], st.frozensets(TEXT, max_size=6)),
    (tuple[int, ...], st.lists(WHOLE, max_size=4).map(tuple)),
    (Order, ORDER), (list[Order], st.lists(ORDER, max_size=2)),
]  # fmt: skip
"""Types of facts, and values of them, all of which are accepted."""


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of the same type all the way down."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return all(
            alike(*pair) for pair in zip(sorted(one.items(), key=repr), sorted(other.items(), key=repr), strict=True)
        )
    if isinstance(one, list | tuple):
        return all(alike(*pair) for pair in zip(one, other, strict=True))
    if hasattr(one, "__dict__") and not isinstance(one, Enum):
        return all(alike(value, vars(other)[name]) for name, value in vars(one).items())
    return True


def logged(form: Any) -> Any:
    """What a log gives back of what it was given."""
    event = ContextChanged(
        facts={"x": form}, envelope=Envelope(case=CaseId("c"), definition="d", at=datetime(2030, 1, 1, tzinfo=UTC))
    )
    back = from_json(as_json(event))
    assert isinstance(back, ContextChanged)
    return back.facts["x"]


SEALED = Lenses([Encryption(KeyRing({"k": bytes(32)}), "x")])


def round_trip(annotation: Any, value: Any) -> None:
    kind = FactType(annotation)
    stored = logged(kind.normalise(value, "v"))
    back = kind.restore(stored, "x")
    assert alike(back, value), (annotation, value, back)
    again = kind.normalise(back, "v")
    assert same(again, stored)


@pytest.mark.parametrize(
    ("annotation", "values"), TYPED, ids=lambda part: str(part)[:30] if isinstance(part, type) else None
)
def test_every_value_of_a_type_comes_back_equal_in_type_and_value(
    annotation: Any, values: st.SearchStrategy[Any]
) -> None:
    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(values, min_size=1, max_size=5))
    def each(found: list[Any]) -> None:
        for value in found:
            round_trip(annotation, value)

    each()


@pytest.mark.parametrize(
    ("annotation", "values"), TYPED, ids=lambda part: str(part)[:30] if isinstance(part, type) else None
)
def test_what_is_encrypted_comes_back_so_too(annotation: Any, values: st.SearchStrategy[Any]) -> None:
    kind = SEALED.lens("x", annotation)

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(values)
    def each(value: Any) -> None:
        stored = logged(kind.normalise(value, "v", C))
        assert alike(kind.restore(stored, "x", C), value)

    each()


# ---- what is accepted, and what is not


class Huge(int):
    """An integer that Python refuses to write out."""

    def __repr__(self) -> str:
        return "HUGE"


HUGE = Huge(10**5000)

ODD: list[Any] = [
    math.nan, math.inf, -math.inf, "\ud800", "a\0", 10**64, HUGE, b"x", {1}, Colour.RED, Word.YES, object(), 1j, ..., Decimal(1), date(2030, 1, 1)
]  # fmt: skip
EVEN: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    10**63,
    0.0,
    -0.0,
    5e-324,
    1e308,
    1.0,
    "",
    "ü",
    "\U0001f600",
    "\x1f",
    "\u2028",
    "$serializer",
    [],
    {},
    (),
]
KEYS = ["a", "b", "", "ü", "$serializer", "value", "a.b", "\x01"]
ODD_KEYS: list[Any] = [1, None, "\udfff", "a\0", (), 1.5, b"k"]


def wild(chance: Random, levels: int = 4) -> Any:
    """A value that may be a fact, or may not; about half of them may."""
    kind = chance.random()
    if levels and kind < 0.25:
        return [wild(chance, levels - 1) for _ in range(chance.randrange(4))]
    if levels and kind < 0.5:
        keys = [*KEYS, *ODD_KEYS] if chance.random() < 0.05 else KEYS
        return {chance.choice(keys): wild(chance, levels - 1) for _ in range(chance.randrange(4))}
    if levels and kind < 0.55:
        return tuple(wild(chance, levels - 1) for _ in range(chance.randrange(3)))
    if kind < 0.6:
        return chance.choice(ODD)
    if kind < 0.75:
        return "".join(
            chr(chance.choice((chance.randrange(1, 0xD800), chance.randrange(0x20, 0x7F))))
            for _ in range(chance.randrange(6))
        )
    if kind < 0.85:
        return chance.randrange(-(10**12), 10**12) if chance.random() < 0.5 else chance.uniform(-1e6, 1e6)
    return chance.choice(EVEN)


def normal(value: Any) -> Any:
    """The value with JSON's own types in the place of their likes."""
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    return [normal(item) for item in value] if isinstance(value, list | tuple) else value


def decided(values: list[Any]) -> tuple[int, int]:
    """How many were accepted, and came back, and how many were refused."""
    kind, accepted = FactType(), 0
    for value in values:
        before = brief(value)
        try:
            form = kind.normalise(value, "v")
        except (FactError, LimitError):
            pass
        else:
            accepted += 1
            assert same(kind.restore(logged(form), "x"), normal(value))
            assert same(plain(normal(value), "v"), normal(value))
        assert brief(value) == before
    return accepted, len(values) - accepted


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_any_value_is_accepted_and_comes_back_or_is_refused(chance: Random) -> None:
    decided([wild(chance) for _ in range(100)])


@pytest.mark.chaos
def test_three_hundred_thousand_values_are_accepted_and_come_back_or_are_refused() -> None:
    chance = Random()
    seed = chance.randrange(2**32)
    chance.seed(seed)
    counts = [0, 0]
    for _ in range(3_000):
        for place, count in enumerate(decided([wild(chance) for _ in range(100)])):
            counts[place] += count
    assert min(counts) > 30_000, seed


# ---- in a case


def holding() -> CaseDefinition:
    return CaseDefinition("holding", signals={"x": Any, "order": Order})


async def held(values: list[Any], orders: list[Order]) -> None:
    store, kept = Kept(), list[Any]()
    async with CaseHub(holding(), store=store) as hub:
        case = await hub.start("holding", case_id="c")
        for value in values:
            before = await case.state()
            version, facts = before.version, dict(before.facts)
            try:
                await case.signal(x=value)
            except CaseHubError:
                after = await case.state()
                assert (after.version, dict(after.facts)) == (version, facts)
            else:
                kept.append(normal(value))
                assert same((await case.context())["x"], normal(value))
        for order in orders:
            await case.signal(order)
    async with CaseHub(holding(), store=store) as hub:
        context = await hub.case("c").context()
        if kept:
            assert same(context["x"], kept[-1])
        if orders:
            assert alike(context["order"], orders[-1])
        await hub.case("c").cancel()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.lists(ORDER, max_size=3))
def test_what_a_case_refuses_has_changed_nothing_and_what_it_took_is_there_after_a_restart(
    chance: Random, orders: list[Order]
) -> None:
    asyncio.run(held([wild(chance) for _ in range(50)], orders))
