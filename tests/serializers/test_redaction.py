"""What is masked is gone from the moment at which it is written: for the log, for workers, for ever."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from casehub import CaseDefinition, CaseHub, ContextChanged, FactError, Redaction, SettingsError
from casehub.adapters.codec import as_json
from casehub.events import Event
from casehub.plain import Plain
from casehub.serialized import Lenses
from casehub.values import OwnerId

C = OwnerId("c", "default")


def text_in(folder: Path) -> str:
    """Everything that its files hold."""
    return "".join(path.read_bytes().decode("latin-1") for path in folder.iterdir())


class Card(BaseModel):
    number: str
    limit: int | None = None


@dataclass
class Payment:
    card: Card
    amount: float
    notes: dict[str, str]
    others: list[Card]


PAYMENT = Payment(
    Card(number="4111", limit=5), 9.5, {"a": "x", "b": "y"}, [Card(number="42"), Card(number="43", limit=1)]
)


def last_two(value: Any) -> Plain:
    return f"**{value[-2:]}"


def stored(redaction: Redaction, annotation: Any, value: Any, fact: str = "pay") -> Any:
    form = Lenses([redaction]).lens(fact, annotation).normalise(value, f"fact {fact!r}", C)
    assert isinstance(form, dict)
    assert form["$serializer"] == redaction.name
    return form["value"]


@pytest.mark.parametrize(
    ("path", "place", "mask"),
    [
        ("pay.card.number", ("card", "number"), "[redacted]"),
        ("pay.card.limit", ("card", "limit"), None),
        ("pay.notes.a", ("notes", "a"), "[redacted]"),
        ("pay.notes.*", ("notes",), {"a": "[redacted]", "b": "[redacted]"}),
        ("pay.others.*.number", ("others", 1), {"number": "[redacted]", "limit": 1}),
    ],
)
def test_a_field_is_masked_by_its_path(path: str, place: tuple[Any, ...], mask: Any) -> None:
    found = stored(Redaction(path), Payment, PAYMENT)
    plain = stored(Redaction("pay.nothing"), Payment, PAYMENT)
    assert plain["card"] == {"number": "4111", "limit": 5}
    for step in place:
        found = found[step]
    assert found == mask


def test_a_whole_fact_is_masked_and_none_stays_none() -> None:
    assert stored(Redaction("pay"), str, "4111") == "[redacted]"
    assert stored(Redaction("pay"), str | None, None) is None
    assert stored(Redaction("pay"), Any, {"a": 1}) is None
    assert stored(Redaction("pay.card.limit"), Payment, Payment(Card(number="1"), 1.0, {}, []))["card"]["limit"] is None


def test_a_mask_of_ones_own_keeps_something() -> None:
    kind = Lenses([Redaction("pay.card.number", mask=last_two)]).lens("pay", Payment)
    form = kind.normalise(PAYMENT, "v", C)
    read = kind.restore(form, "pay", C)
    assert read.card == Card(number="**11", limit=5)
    assert kind.normalise(read, "v", C) == form


def test_a_mask_that_no_longer_fits_the_type_is_refused_with_the_remedy() -> None:
    with pytest.raises(FactError, match=r"once it is masked it does not fit .*give Redaction a mask=") as caught:
        stored(Redaction("pay"), Annotated[str, Field(pattern="^[0-9]+$")], "4111")
    assert "4111" not in str(caught.value)


def test_a_mask_that_is_masked_again_is_the_same_or_is_refused() -> None:
    longer = Redaction("pay", mask=lambda value: value + "*")
    with pytest.raises(FactError, match="makes something else of what it has read back"):
        stored(longer, str, "4111")


@pytest.mark.parametrize("path", ["", ".", "pay..card", "pay."])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match="is no path"):
        Redaction(path)


async def test_the_value_is_nowhere_and_the_worker_gets_the_mask_before_and_after_a_restart(tmp_path: Path) -> None:
    def shop() -> CaseDefinition:
        d = CaseDefinition("shop", goal="receipt", signals={"pay": Card, "go": bool})

        @d.worker
        async def check(pay: Card, go: bool) -> Checked:
            return Checked(pay.number, "swordfish-2")

        @d.worker(writes="receipt")
        async def write(checked: Checked) -> str:
            return f"{checked.number}/{checked.word}"

        return d

    secrets = [Redaction("pay.number", "checked.word")]
    url = f"sqlite:///{tmp_path / 'cases.db'}"
    d = shop()
    async with CaseHub(d, store=url, serializers=secrets) as hub:
        case = await hub.start(d)
        await case.signal(pay=Card(number="swordfish-1"))
    d = shop()
    async with CaseHub(d, store=url, serializers=secrets) as hub:
        again = hub.case(case.id)
        stamp = (await again.state()).facts["pay"].stamp
        await again.signal(pay=Card(number="swordfish-9"))  # nobody could tell it from the first
        assert (await again.state()).facts["pay"].stamp == stamp
        await again.signal(go=True)
        assert (await again.completed())["receipt"] == "[redacted]/[redacted]"
        assert (await again.context())["pay"] == Card(number="[redacted]")
        text = b"".join([as_json(event) for event in await again.log.query(Event)]).decode()
        explained = json.dumps([str(each) for each in await again.explain()])
        (first, *_) = await again.log.query(ContextChanged)
        assert first.facts["pay"] == {"$serializer": "redacted", "value": {"number": "[redacted]", "limit": None}}
    everything = text + explained + text_in(tmp_path)
    assert "[redacted]" in everything
    assert "swordfish" not in everything


@dataclass
class Checked:
    number: str
    word: str
