"""Encrypted facts: unreadable without the key, readable in their place alone, and otherwise facts like any other."""

from __future__ import annotations

import base64
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from casehub import (
    CaseDefinition,
    CaseHub,
    ContextChanged,
    Declined,
    DefinitionError,
    EntityReference,
    FactError,
    InputRefusedError,
    Retry,
    SettingsError,
    WorkerExecutionDeclined,
    WorkerExecutionFailed,
    WorkerScheduled,
    at,
)
from casehub.encryption import Encryption, KeyRing, new_key
from casehub.loader import loads
from casehub.plain import Plain
from casehub.serialized import Lenses
from casehub.testing import CaseTestKit
from casehub.values import OwnerId
from tests.staging import Kept

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
C = OwnerId("c", "default")


def text_in(folder: Path) -> str:
    """Everything that its files hold."""
    return "".join(path.read_bytes().decode("latin-1") for path in folder.iterdir())


class Passport(BaseModel):
    number: str
    stamps: list[int] = []


@dataclass
class Visit:
    place: str


def ring(*ids: str) -> KeyRing:
    return KeyRing({id: {"old": OLD, "new": NEW}[id] for id in ids})


def kind_of(keys: KeyRing, fact: str = "passport", annotation: Any = Passport) -> Any:
    return Lenses([Encryption(keys, "passport", Visit)]).lens(fact, annotation)


def test_what_is_encrypted_comes_back_equal_in_type_and_value() -> None:
    kind = kind_of(ring("old"))
    form = kind.normalise(Passport(number="X1", stamps=[1, 2]), "v", C)
    assert form["$serializer"] == "encrypted"
    assert form["value"].keys() == {"key", "box"}
    assert b"X1" not in base64.b64decode(form["value"]["box"])
    assert kind.restore(form, "passport", C) == Passport(number="X1", stamps=[1, 2])


def test_an_equal_value_in_the_same_place_gives_the_same_text_and_elsewhere_another() -> None:
    kind, other = kind_of(ring("old")), Lenses([Encryption(ring("old"), "other")]).lens("other", Passport)
    value = Passport(number="X1")
    one = kind.normalise(value, "v", C)
    assert kind.normalise(value, "v", C) == one
    assert kind.normalise(Passport(number="X2"), "v", C) != one
    places = [
        one,
        kind.normalise(value, "v", OwnerId("d", "default")),
        kind.normalise(value, "v", OwnerId("c", "acme")),
    ]
    boxes = {base64.b64decode(each["value"]["box"])[:12] for each in (*places, other.normalise(value, "v", C))}
    assert len(boxes) == 4


@pytest.mark.parametrize(
    ("fact", "case", "tenant"), [("other", "c", "default"), ("passport", "d", "default"), ("passport", "c", "acme"), ("passport", "c,default", "")]
)  # fmt: skip
def test_what_is_encrypted_cannot_be_read_in_another_place(fact: str, case: str, tenant: str) -> None:
    form = kind_of(ring("old")).normalise(Passport(number="X1"), "v", C)
    elsewhere = Lenses([Encryption(ring("old"), "passport", "other")]).lens(fact, Passport)
    with pytest.raises(FactError, match="cannot be decrypted with key 'old': it was encrypted for another"):
        elsewhere.restore(form, fact, OwnerId(case, tenant))


def test_a_new_key_encrypts_and_the_old_one_still_reads() -> None:
    value = Passport(number="X1")
    form = kind_of(ring("old")).normalise(value, "v", C)
    both = kind_of(ring("old", "new"))
    assert both.restore(form, "passport", C) == value
    again = both.normalise(value, "v", C)
    assert again["value"]["key"] == "new"
    assert both.alike(form, again, C)
    assert not both.alike(form, both.normalise(Passport(number="X2"), "v", C), C)


def test_a_key_that_is_missing_is_named() -> None:
    form = kind_of(ring("old")).normalise(Passport(number="X1"), "v", C)
    with pytest.raises(FactError, match=r"is encrypted with key 'old', which the key ring lacks \(it has new\)"):
        kind_of(ring("new")).restore(form, "passport", C)


@pytest.mark.parametrize(
    "form",
    [
        None,
        "text",
        {"key": "old"},
        {"key": "old", "box": "AAAA"},
        {"key": "old", "box": "no base64!"},
        {"key": "old", "box": 5},
        {"key": ["old"], "box": "AAAA"},
        {"key": "old", "box": base64.b64encode(bytes(64)).decode()},
        {"key": "old", "box": "", "more": 1},
    ],
)
def test_what_somebody_has_tampered_with_is_refused(form: Plain) -> None:
    with pytest.raises(FactError, match="fact 'passport'"):
        kind_of(ring("old")).restore({"$serializer": "encrypted", "value": form}, "passport", C)


def test_facts_are_encrypted_by_name_and_by_type() -> None:
    lenses = Lenses([Encryption(ring("old"), "passport", Visit)])

    class Stay(Visit):
        pass

    asked = [("passport", int), ("x", Visit), ("x", Visit | None), ("x", Stay), ("x", int), ("visit", list[Visit])]
    assert [lenses.lens(*each).__class__.__name__ for each in asked] == ["SerializedType"] * 4 + ["RegisteredType"] * 2


@pytest.mark.parametrize("keys", [{}, {"a": b"short"}, {"a": "short"}, {"a": "ü" * 44}, {"a": OLD + b"x"}])
def test_what_is_no_key_is_refused_and_not_shown(keys: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"no keys|key 'a' is none: give 32 bytes") as caught:
        KeyRing(keys)
    assert "short" not in str(caught.value)


def test_a_new_key_is_a_key_and_a_ring_shows_none() -> None:
    key = new_key()
    assert key != new_key()
    assert repr(KeyRing({"a": key, "b": OLD})) == "KeyRing(a, b)"
    assert key not in str(vars(KeyRing({"a": key})))


# ---- in a case


def border(seen: list[Any] | None = None) -> CaseDefinition:
    d = CaseDefinition("border", signals={"passport": Passport, "go": bool})

    @d.worker(writes="passed", when=lambda passport: passport.number.startswith("swordfish"))
    async def stamp(passport: Passport, go: bool) -> int:
        (seen if seen is not None else []).append(passport)
        return len(passport.stamps)

    return d


async def test_guards_workers_and_handles_read_it_and_no_file_or_event_shows_it(tmp_path: Path) -> None:
    seen: list[Any] = []
    d, url = border(seen), f"sqlite:///{tmp_path / 'cases.db'}"
    async with CaseHub(d, store=url, serializers=[Encryption(ring("old"), "passport")]) as hub:
        case = await hub.start(d, case_id="c1")
        await case.signal(passport={"number": "swordfish", "stamps": [1, 2]}, go=True)
        assert (await case.quiescent())["passed"] == 2
        assert seen == [Passport(number="swordfish", stamps=[1, 2])]
        assert (await case.context())[Passport].number == "swordfish"
        (fact,) = await case.facts("passport").history()
        assert "swordfish" not in str(fact)
        assert "swordfish" not in str(await case.explain())
    assert "swordfish" not in text_in(tmp_path)


async def test_an_equal_value_is_no_change_whatever_key_it_was_encrypted_with() -> None:
    store = Kept()
    for keys in (ring("old"), ring("old", "new")):
        d = border()
        async with CaseHub(d, store=store, serializers=[Encryption(keys, "passport")]) as hub:
            case = hub.case("c1") if await hub.cases() else await hub.start(d, case_id="c1")
            await case.signal(passport=Passport(number="swordfish"), go=True)
            await case.quiescent()
            assert len(await case.log.query(WorkerScheduled)) == 1
            assert len([e for e in await case.log.query(ContextChanged) if "passport" in e.facts]) == 1
    async with CaseHub(border(), store=store, serializers=[Encryption(ring("old", "new"), "passport")]) as hub:
        case = hub.case("c1")
        await case.signal(passport=Passport(number="swordfish", stamps=[1]))
        assert (await case.quiescent())["passed"] == 1
        assert (await case.state()).facts["passport"].value["value"]["key"] == "new"  # type: ignore[index, call-overload]  # a dictionary
        await case.cancel()


async def test_a_case_whose_key_is_missing_is_parked_until_it_is_back_and_no_other_is_touched() -> None:
    store = Kept()
    for id, key in (("c1", "old"), ("c2", "new")):
        d = border()
        async with CaseHub(d, store=store, serializers=[Encryption(ring(key), "passport")], resume=False) as hub:
            case = await hub.start(d, case_id=id)
            await case.signal(passport=Passport(number="swordfish"))
    async with CaseHub(border(), store=store, serializers=[Encryption(ring("new"), "passport")]) as hub:
        with pytest.raises(
            InputRefusedError, match=r"case 'c1' is parked: fact 'passport' is encrypted with key 'old'"
        ):
            await hub.case("c1").signal(go=True)
        await hub.case("c2").signal(go=True)
        assert (await hub.case("c2").quiescent())["passed"] == 0
    async with CaseHub(border(), store=store, serializers=[Encryption(ring("old", "new"), "passport")]) as hub:
        await hub.case("c1").signal(go=True)
        assert (await hub.case("c1").quiescent())["passed"] == 0
        for id in ("c1", "c2"):
            await hub.case(id).cancel()


async def test_values_that_are_swapped_between_cases_park_both(tmp_path: Path) -> None:
    path = tmp_path / "cases.db"
    async with CaseHub(border(), store=f"sqlite:///{path}", serializers=[Encryption(ring("old"), "passport")]) as hub:
        for id in ("c1", "c2", "c3"):
            case = await hub.start("border", case_id=id)
            await case.signal(passport=Passport(number=f"swordfish of {id}"))
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT seq, body FROM events WHERE body LIKE '%encrypted%' ORDER BY seq").fetchall()
        assert len(rows) == 3
        for (seq, _), (_, body) in zip(rows[:2], reversed(rows[:2]), strict=True):
            database.execute("UPDATE events SET body = ? WHERE seq = ?", (body, seq))
    database.close()
    async with CaseHub(border(), store=f"sqlite:///{path}", serializers=[Encryption(ring("old"), "passport")]) as hub:
        for id in ("c1", "c2"):
            with pytest.raises(InputRefusedError, match="encrypted for another fact, case or tenant"):
                await hub.case(id).status()
        assert (await hub.case("c3").context())["passport"].number == "swordfish of c3"


async def test_what_a_worker_says_when_it_fails_has_no_secret_in_it() -> None:
    d = CaseDefinition("d", signals={"passport": Passport, "pin": int, "open": str}, facts={"done": int})

    @d.worker(writes="done", on_failed="ignore", retry=Retry(1))
    async def check(passport: Passport, pin: int, open: str) -> int:
        raise ValueError(f"{passport!r} with pin {pin} of {open}")

    @d.worker(name="other", writes="done", on_declined="ignore")
    async def decline(passport: Passport, pin: int, open: str) -> int:
        raise Declined(f"not {passport.number}")

    async with CaseHub(d, serializers=[Encryption(ring("old"), "passport", "pin")]) as hub:
        case = await hub.start(d)
        await case.signal(passport=Passport(number="swordfish"), pin=98765, open="Paris")
        await case.quiescent()
        (failed,) = await case.log.query(WorkerExecutionFailed)
        assert failed.message == "Passport(number='[secret]', stamps=[]) with pin [secret] of Paris"
        (declined,) = await case.log.query(WorkerExecutionDeclined)
        assert declined.reason == "not [secret]"
        assert "swordfish" not in str(await case.explain())
        await case.cancel()


async def test_expressions_in_yaml_get_the_value_and_of_a_reference_the_key() -> None:
    text = """
case: visit
signals: {diagnosis: string, customer: string}
workers:
  advise:
    set: {advice: "'rest, ' + customer + ', of ' + diagnosis"}
    when: diagnosis == 'flu' && customer == 'c-42'
goal: advice
"""
    d = loads(text)
    customers = Named("customer")
    async with CaseHub(d, serializers=[Encryption(ring("old"), "diagnosis"), customers]) as hub:
        case = await hub.start(d)
        await case.signal(diagnosis="flu", customer="c-42")
        assert (await case.completed())["advice"] == "rest, c-42, of flu"
        assert (await case.state()).facts["customer"].value == {"$serializer": "customer", "value": "c-42"}


class Named(EntityReference[str]):
    """References by the name of the fact, as a file names no classes."""

    def __init__(self, fact: str) -> None:
        super().__init__(str, key=str, load=str, name=fact)

    def handles(self, fact: str, annotation: Any) -> bool:
        return fact == self.name


def test_a_moment_that_is_encrypted_starts_no_schedule() -> None:
    d = CaseDefinition("d", signals={"due": datetime})

    @d.worker(writes="told", on=at("due"))
    async def tell() -> int:
        return 1

    CaseHub(d)
    with pytest.raises(DefinitionError, match=r"takes the moment from fact 'due', which is stored by a serializer"):
        CaseHub(d, serializers=[Encryption(ring("old"), "due")])


async def test_a_fork_has_encrypted_facts_of_its_own() -> None:
    d = border()
    async with CaseTestKit(d, serializers=[Encryption(ring("old"), "passport")]) as kit:
        case = await kit.start(d)
        await case.signal(passport=Passport(number="swordfish"))
        fork = await kit.hub.fork(case.id)
        assert (await fork.context())["passport"] == Passport(number="swordfish")
        one, other = [(await each.state()).facts["passport"].value for each in (case, fork)]
        assert one != other
