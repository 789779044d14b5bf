"""Facts of a type that has changed: what is stored is read by the type that there is now."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, Field

from casehub import CaseDefinition, CaseHub, FactError, WorkerExecutionFailed
from casehub.encryption import Encryption, KeyRing, new_key
from casehub.serialized import Lenses
from casehub.values import FactType, OwnerId
from tests.staging import Kept


@dataclass
class Name:
    given: str
    family: str


class Renamed(BaseModel):
    """As `Name`, in another class with another name for a field, and one more."""

    first: str = Field(validation_alias="given")
    family: str
    title: str = ""


def split(old: Any) -> Any:
    given, _, family = old.rpartition(" ")
    return {"given": given, "family": family}


def greeting(kind: Any) -> CaseDefinition:
    d = CaseDefinition("greeting", signals={"name": kind, "go": bool})

    @d.worker(writes="letter", on_failed="ignore")
    async def greet(name: kind, go: bool) -> str:
        return f"Dear {name}"

    return d


@pytest.mark.parametrize("keys", [None, KeyRing({"a": new_key()})], ids=["json", "encrypted"])
async def test_an_upcast_reads_what_was_stored_by_another_type(keys: KeyRing | None) -> None:
    store, serializers = Kept(), [] if keys is None else [Encryption(keys, "name")]
    async with CaseHub(d := greeting(str), store=store, serializers=serializers) as hub:
        case = await hub.start(d, case_id="c1")
        await case.signal(name="Ada Lovelace")
        before = (await case.state()).facts["name"].value
    asked: list[Any] = []
    now = greeting(Name)

    @now.upcast("name")
    def upcast(old: Any) -> Any:
        asked.append(old)
        return split(old)

    if keys is None:
        async with CaseHub(now, store=store, serializers=serializers) as hub:
            assert (await hub.case("c1").context())["name"] == Name("Ada", "Lovelace")
            await hub.case("c1").signal(go=True)
            assert (await hub.case("c1").quiescent())["letter"] == f"Dear {Name('Ada', 'Lovelace')}"
            assert (await hub.case("c1").state()).facts["name"].value == before
            asked.clear()
            await hub.case("c1").signal(name=Name("Grace", "Hopper"))
            assert (await hub.case("c1").quiescent())["name"] == Name("Grace", "Hopper")
            assert asked == []
            await hub.case("c1").cancel()
    else:
        async with CaseHub(now, store=store, serializers=serializers) as hub:
            assert (await hub.case("c1").context())["name"] == Name("Ada", "Lovelace")
            await hub.case("c1").cancel()


async def test_without_one_the_attempt_fails_and_says_what_does_not_fit() -> None:
    store = Kept()
    async with CaseHub(d := greeting(str), store=store) as hub:
        case = await hub.start(d, case_id="c1")
        await case.signal(name="Ada Lovelace")
    async with CaseHub(greeting(Name), store=store) as hub:
        await hub.case("c1").signal(go=True)
        await hub.case("c1").quiescent()
        (failed, *_) = await hub.case("c1").log.query(WorkerExecutionFailed)
        assert failed.message.startswith("fact 'name': the stored value 'Ada Lovelace' does not fit Name:")
        await hub.case("c1").cancel()


@pytest.mark.parametrize(
    ("annotation", "old", "new", "upcast"),
    [
        (int, "5", 5, int),
        (str, 5, "5", str),
        (list[Name], ["Ada Lovelace"], [Name("Ada", "Lovelace")], lambda old: [split(each) for each in old]),
        (Name | None, "Ada Lovelace", Name("Ada", "Lovelace"), split),
    ],
)
def test_any_type_may_have_one(annotation: Any, old: Any, new: Any, upcast: Any) -> None:
    kind = Lenses((), {"x": upcast}).lens("x", annotation)
    assert kind.restore(old, "x") == new
    assert kind.seen_as(annotation).restore(old, "x") == new
    with pytest.raises(FactError, match="does not fit"):
        FactType(annotation).restore(old, "x")


def test_an_upcast_that_mends_nothing_says_both_reasons() -> None:
    kind = Lenses((), {"x": lambda old: {"given": old}}).lens("x", Name)
    with pytest.raises(FactError, match=r"does not fit Name: .*; nor does what its upcast makes of it: family"):
        kind.restore("Ada", "x")
    broken = Lenses((), {"x": lambda old: old["nothing"]}).lens("x", Name)
    with pytest.raises(FactError, match="nor does what its upcast makes of it"):
        broken.restore({"given": "Ada"}, "x")


def test_an_upcast_gets_a_value_of_its_own() -> None:
    stored = {"given": "Ada"}

    def mend(old: dict[str, str]) -> dict[str, str]:
        old["family"] = "Lovelace"
        return old

    assert Lenses((), {"x": mend}).lens("x", Name).restore(stored, "x") == Name("Ada", "Lovelace")  # type: ignore[arg-type]  # a plain value
    assert stored == {"given": "Ada"}


def test_a_renamed_class_and_field_are_read_by_the_model_alone() -> None:
    form = FactType(Name).normalise(Name("Ada", "Lovelace"), "v")
    read = FactType(Renamed).restore(form, "x")
    assert (read.first, read.family, read.title) == ("Ada", "Lovelace", "")


def test_a_member_of_an_enumeration_may_answer_to_its_old_value() -> None:
    class Colour(Enum):
        CRIMSON = "crimson"

        @classmethod
        def _missing_(cls, value: object) -> Colour | None:
            return cls.CRIMSON if value == "red" else None

    assert FactType(Colour).restore("red", "x") is Colour.CRIMSON


def test_a_scalar_of_another_type_is_not_read_as_what_it_is_not() -> None:
    owner = OwnerId("c", "default")
    for annotation, stored in ((int, "5"), (str, 5), (bool, 1), (float, "x"), (type(None), 0)):
        with pytest.raises(FactError, match="does not fit"):
            FactType(annotation).restore(stored, "x", owner)
    assert FactType(float).restore(1, "x") == 1
