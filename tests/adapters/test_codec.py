"""Events become JSON and come back as what they were, whatever version wrote them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blackboard_ext import StageEvent
from casehub.adapters.codec import as_dict, as_json, decode, encode, from_json
from casehub.envelope import subtypes
from casehub.errors import FactError, SettingsError
from casehub.events import (
    EVENT_TYPES,
    ActivationId,
    CaseId,
    CaseStarted,
    ContextChanged,
    Envelope,
    Event,
    GoalReached,
    TimerId,
    TimerSet,
    UnknownEvent,
    WorkerExecutionCompleted,
)
from casehub.lifecycle import CaseStatus
from casehub.values import Plain

GOLDEN = Path(__file__).parent.parent / "golden" / "events.ndjson"
ENVELOPE = Envelope(case=CaseId("c1"), definition="claim", tenant="acme", turn=3, version=7, seq=41, at=datetime(2026, 11, 30, 9, 0, 0, 123_456, tzinfo=UTC))  # fmt: skip
SHARED = frozenset({"envelope", "version", "by", "cause"})
KINDS = sorted(
    (
        kind
        for kind in EVENT_TYPES.values()
        if kind.__module__.partition(".")[0] in ("casehub", "blackboard_ext") and kind is not UnknownEvent
    ),
    key=lambda kind: kind.name,
)

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
floats = st.floats(allow_nan=False, allow_infinity=False)
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**63), 10**63) | floats | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
times = st.datetimes().map(lambda at: at.replace(tzinfo=UTC, fold=0))


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type; a type that this does not know fails the test, so that it is looked at."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if hint == Plain or hint is Any:
        return plain
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: text, int: st.integers(-(10**63), 10**63), float: floats, bool: st.booleans(), datetime: times, type(None): st.none(),
        timedelta: st.timedeltas(min_value=timedelta(days=-10_000), max_value=timedelta(days=10_000)),
    }  # fmt: skip
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, parts))
    if origin is Literal:
        return st.sampled_from(parts)
    if origin is tuple and parts[1:] == (...,):
        return st.lists(values(parts[0]), max_size=3).map(tuple)
    if origin in (Mapping, dict):
        return st.dictionaries(values(parts[0]), values(parts[1]), max_size=3)
    if origin in (list, Sequence):
        return st.lists(values(parts[0]), max_size=3)
    raise AssertionError(f"no values for {hint}: teach this test about it")


def instances(kind: type[Event]) -> st.SearchStrategy[Event]:
    hints = get_type_hints(kind)
    own = {one.name: values(hints[one.name]) for one in fields(kind) if one.name not in SHARED}
    return st.builds(
        kind, envelope=st.just(ENVELOPE), version=st.integers(1, 2**40), by=text, cause=st.integers(0, 2**40), **own
    )


def again(event: Event) -> Event:
    name, body = encode(event)
    return decode(name, body, event.envelope, event.version, event.by, event.cause)


def same(one: Event, other: Event) -> bool:
    """Equal, and of the same types all the way down: a list is no tuple here and 1 is not 1.0."""
    return type(one) is type(other) and repr(one) == repr(other) and one == other


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_kind_of_event_comes_back_as_it_was(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(instances(kind))
    assert same(again(event), event)
    whole = from_json(as_json(event))
    assert same(whole, event)
    assert (whole.id, whole.case, whole.turn, whole.tenant, whole.definition, whole.at) == (
        event.id, "c1", 3, "acme", "claim", ENVELOPE.at,
    )  # fmt: skip
    assert whole.seq == event.seq


@settings(max_examples=200, deadline=None)
@given(plain)
def test_every_plain_value_comes_back_as_it_was(value: Any) -> None:
    event = ContextChanged(facts={"fact": value})
    found = again(event)
    assert same(found, event)
    json.loads(encode(event)[1])  # and others can read it


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(text, plain, max_size=5), text.filter(lambda name: name not in EVENT_TYPES))
def test_an_unknown_event_is_written_again_as_it_was_read(body: dict[str, Any], name: str) -> None:
    event = UnknownEvent(type=name, body=body, envelope=ENVELOPE, version=7, by="user:ada", cause=2)
    assert same(again(event), event)
    assert encode(again(event)) == encode(event)
    assert same(from_json(as_json(event)), event)


def test_every_kind_is_named_once() -> None:
    assert len(KINDS) > 30
    assert set(subtypes(StageEvent)) <= set(KINDS)
    for kind in KINDS:
        assert EVENT_TYPES[kind.name] is kind


# ---- the golden log: what was written once can be read for ever


def golden() -> list[str]:
    return GOLDEN.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", golden(), ids=lambda line: json.loads(line)["name"])
def test_the_golden_log_is_read_as_it_was_written(line: str) -> None:
    event = from_json(line)
    stored = json.loads(line)
    assert type(event) is EVENT_TYPES[stored["name"]], f"{stored['name']} is read as {type(event).__name__}"
    written: dict[str, Any] = as_dict(event)
    for name in set(written["body"]) - set(stored["body"]):  # fields that came later, with their defaults
        del written["body"][name]
    assert written == stored


def test_the_golden_log_has_every_kind() -> None:
    known = {json.loads(line)["name"] for line in golden()}
    missing = [as_json(sample(kind)).decode() for kind in KINDS if kind.name not in known]
    assert not missing, "append to tests/golden/events.ndjson:\n" + "\n".join(missing)


def sample(kind: type[Event]) -> Event:
    """An instance with something in every field, always the same."""
    hints = get_type_hints(kind)
    own = {one.name: _sample(hints[one.name], one.name) for one in fields(kind) if one.name not in SHARED}
    return kind(**own, envelope=ENVELOPE, version=9, by="worker:extract", cause=8)


def _sample(hint: Any, name: str) -> Any:
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if hint == Plain:
        return [1, 2.5, None, True, {"é": "漢"}]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)[-1]
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _sample(parts[0], name)
    if origin is tuple:
        return (_sample(parts[0], f"{name}1"), _sample(parts[0], f"{name}2"))
    if origin is Mapping:
        return {name: _sample(parts[1], name)}
    return {str: name, int: 3, float: 1.5, bool: True, datetime: datetime(2026, 12, 1, 8, 30, 0, 1, tzinfo=UTC)}[hint]


# ---- other versions


def body_of(event: Event, **changes: Any) -> bytes:
    fields_: dict[str, Any] = json.loads(encode(event)[1])
    return json.dumps({name: value for name, value in (fields_ | changes).items() if value is not ...}).encode()


def read(name: str, body: bytes | str) -> Event:
    return decode(name, body, ENVELOPE, 7, "engine", 6)


def test_a_field_that_is_missing_takes_the_default_of_the_class() -> None:
    event = WorkerExecutionCompleted(binding="b", activation=ActivationId("c1/b/1"), worker="w", attempt=1)
    found = read(event.name, body_of(event, wrote=..., settled=..., charges=...))
    assert found == WorkerExecutionCompleted(
        binding="b", activation=ActivationId("c1/b/1"), worker="w", attempt=1, version=7, cause=6
    )


@pytest.mark.parametrize(
    "body",
    [
        body_of(GoalReached(goal="g"), weight=3),  # a newer version has another field
        body_of(GoalReached(goal="g"), goal=...),  # an older one had not this field, which has no default
        body_of(GoalReached(goal="g"), version=3),  # a field that is now the envelope's
        b"{}",
        b"[1, 2]",
        b'"text"',
    ],
)
def test_what_does_not_fit_its_class_becomes_an_unknown_event_that_has_everything(body: bytes) -> None:
    found = read("GOAL_REACHED", body)
    assert isinstance(found, UnknownEvent)
    assert (found.type, found.body) == ("GOAL_REACHED", json.loads(body))
    assert (found.version, found.cause, found.turn) == (7, 6, 3)
    name, again = encode(found)
    assert (name, json.loads(again)) == ("GOAL_REACHED", json.loads(body))


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (CaseStarted(), {"after": "PAUSED"}),
        (CaseStarted(), {"after": 3}),
        (TimerSet(timer=TimerId("t"), due=ENVELOPE.at), {"due": "tomorrow"}),
        (TimerSet(timer=TimerId("t"), due=ENVELOPE.at), {"due": 5}),
        (ContextChanged(facts={}), {"deleted": "abc"}),
        (ContextChanged(facts={}), {"confidence": [1]}),
    ],
)
def test_a_value_that_does_not_fit_its_field_makes_the_event_unknown(event: Event, changes: dict[str, Any]) -> None:
    body = body_of(event, **changes)
    found = read(event.name, body)
    assert isinstance(found, UnknownEvent)
    assert found.body == json.loads(body)


def test_a_body_that_is_no_json_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"EOF|expected"):
        read("GOAL_REACHED", b'{"goal": ')


# ---- values that JSON does not have


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    HIGH = 3


@dataclass(frozen=True, slots=True)
class Money:
    amount: Decimal
    currency: str


@dataclass(slots=True, kw_only=True)
class EverythingHappened(Event):
    """Of each kind of annotation one; an extension may use any of them."""

    span: timedelta = timedelta(0)
    day: date = date.min
    colour: Colour = Colour.RED
    level: Level | None = None
    levels: tuple[Level, ...] = ()
    pair: tuple[str, datetime] = ("", ENVELOPE.at)
    spans: Mapping[str, timedelta] = field(default_factory=dict)
    when: datetime | None = None
    whens: list[datetime] = field(default_factory=list)
    amount: Decimal = Decimal(0)
    money: Money | None = None
    limit: float = 0.0
    limits: Mapping[str, float] | None = None
    names: frozenset[str] = frozenset()
    mode: Literal["a", "b"] = "a"
    either: int | str | None = None
    mixed: datetime | bool | None = None
    anything: Any = None
    untyped: tuple = ()  # type: ignore[type-arg]


def test_values_of_other_types_come_back_as_what_they_were() -> None:
    event = EverythingHappened(
        span=timedelta(days=-3, microseconds=1),
        day=date(2026, 2, 28),
        level=Level.HIGH,
        levels=(Level.HIGH, Level.HIGH),
        pair=("x", datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
        spans={"a": timedelta(microseconds=1), "b": timedelta(days=400)},
        when=datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        whens=[ENVELOPE.at],
        amount=Decimal("0.10"),
        money=Money(Decimal("1e-30"), "EUR"),
        names=frozenset({"a"}),
        mode="b",
        either="5",
        mixed=True,
        anything=[1, {"a": None}],
        untyped=(1, "a"),
    )
    found = again(event)
    assert found == event
    assert type(found) is EverythingHappened
    assert again(EverythingHappened(mixed=ENVELOPE.at)) == EverythingHappened(mixed=ENVELOPE.at)
    assert EVENT_TYPES["EVERYTHING_HAPPENED"] is EverythingHappened


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_without_a_json_form_are_text_in_it(value: float) -> None:
    event = EverythingHappened(limit=value, limits={"calls": value})
    body = json.loads(encode(event)[1], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert isinstance(body["limit"], str)
    found = again(event)
    assert isinstance(found, EverythingHappened)
    assert repr((found.limit, found.limits)) == repr((value, {"calls": value}))


@pytest.mark.parametrize("value", [object(), "\ud800", {"deep": [object()]}])
def test_what_json_cannot_hold_is_refused_with_the_name_of_the_event(value: Any) -> None:
    event = ContextChanged(facts={"a": value}, envelope=ENVELOPE, version=7)
    for write in (encode, as_json, as_dict):
        with pytest.raises(FactError, match=r"CONTEXT_CHANGED.*'c1'.*put plain values"):
            write(event)


def test_annotations_that_cannot_be_resolved_are_named() -> None:
    @dataclass(slots=True, kw_only=True)
    class Vague(Event):
        what: NoSuchName = None  # type: ignore[name-defined]  # noqa: F821 - the point of the test

    with pytest.raises(SettingsError, match=r"Vague.*NoSuchName"):
        encode(Vague())
    del EVENT_TYPES["VAGUE"]


# ---- the form for everybody else


def test_the_whole_event_is_one_line_with_the_envelope_first() -> None:
    event = GoalReached(goal="decision\n", envelope=ENVELOPE, version=9, by="user:ada", cause=8)
    line = as_json(event)
    assert b"\n" not in line
    assert json.loads(line) == as_dict(event)
    assert list(as_dict(event).items()) == [
        ("id", "c1@9"), ("seq", 43), ("case", "c1"), ("version", 9), ("turn", 3), ("definition", "claim"), ("tenant", "acme"),
        ("name", "GOAL_REACHED"), ("at", "2026-11-30T09:00:00.123456Z"), ("by", "user:ada"), ("cause", 8),
        ("body", {"goal": "decision\n"}),
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", "{", '{"id": "c1@1"}', b"\xff"])
def test_a_line_that_is_no_event_is_refused(line: str | bytes) -> None:
    with pytest.raises(FactError, match="is no event in JSON"):
        from_json(line)


def test_statuses_are_written_as_their_names() -> None:
    written = b'{"before":"STARTING","after":"RUNNING","reason":"","structure":"","budget":null,"goal":"","trace":"","deadline":null}'
    assert encode(CaseStarted())[1] == written
    assert type(read("CASE_STARTED", b"{}")) is CaseStarted
    assert read("CASE_STARTED", b"{}").after is CaseStatus.RUNNING  # type: ignore[attr-defined]
