"""Facts that a serializer stores: its name marks them, reading looks it up, and nothing else is ever called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    CaseStatus,
    ContextChanged,
    DefinitionError,
    EntityReference,
    FactError,
    FactSerializer,
    HumanTask,
    HumanTaskCompleted,
    InputRefusedError,
    Retry,
    SettingsError,
    Slot,
    SubCaseEnded,
    SubCaseStarted,
    WorkerExecutionFailed,
    deep_merge,
    first_writer_wins,
)
from casehub.control_verbs import Verbs
from casehub.plain import Plain
from casehub.serialized import Lenses, SerializedType
from casehub.values import FactType, OwnerId, shown
from tests.staging import Kept

C = OwnerId("c", "default")


class Money:
    """A type that pydantic does not know."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return self.cents


class Coins(FactSerializer):
    name = "money"

    def handles(self, fact: str, annotation: Any) -> bool:
        return annotation is Money

    def dump(self, value: Any, slot: Slot) -> Plain:
        if not isinstance(value, Money):
            raise FactError(f"{slot.where}: {value!r} is no Money")
        return value.cents

    def load(self, form: Plain, slot: Slot) -> Money:
        assert isinstance(form, int)
        return Money(form)


class Backwards(FactSerializer):
    """Stores the JSON of facts by their names, told apart by where they stand."""

    secret: ClassVar[bool] = True

    def __init__(self, *facts: str, name: str = "backwards") -> None:
        self.name = name
        self.facts = facts

    def handles(self, fact: str, annotation: Any) -> bool:
        return fact in self.facts

    def dump(self, value: Any, slot: Slot) -> Plain:
        return {"of": f"{slot.tenant}/{slot.case}/{slot.fact}", "is": [slot.plain(value)][::-1]}

    def load(self, form: Any, slot: Slot) -> Any:
        if form["of"] != f"{slot.tenant}/{slot.case}/{slot.fact}":
            raise FactError(f"fact {slot.fact!r} is of another place: {form['of']}")
        return slot.read(form["is"][0])


@dataclass
class Person:
    name: str
    age: int = 0


def stored(name: str, form: Plain) -> Plain:
    return {"$serializer": name, "value": form}


async def log_of(hub: CaseHub, case: str) -> dict[str, Any]:
    """Facts as the log has them."""
    found: dict[str, Any] = {}
    for event in await hub.case(case).log.query(ContextChanged):
        found.update(event.facts)
    return found


# ---- what is stored


def test_a_serializer_stores_a_type_that_nothing_else_knows() -> None:
    kind = Lenses([Coins()]).lens("price", Money)
    form = kind.normalise(Money(5), "fact 'price'", C)
    assert form == {"$serializer": "money", "value": 5}
    assert kind.restore(form, "price", C) == Money(5)
    assert kind.is_a(Money)


def test_the_first_that_handles_a_fact_stores_it_and_json_the_others() -> None:
    lenses = Lenses([Backwards("a", name="one"), Backwards("a", "b", name="two")])
    forms = [lenses.lens(fact, int).normalise(1, "v", C) for fact in "abc"]
    assert [form["$serializer"] if isinstance(form, dict) else form for form in forms] == ["one", "two", 1]


@pytest.mark.parametrize(
    "value",
    [
        {"$serializer": "json", "value": 1},
        {"$serializer": "os.system", "value": "id"},
        {"$serializer": {"$serializer": "json", "value": {}}},
        {"$serializer": None},
    ],
)
@pytest.mark.parametrize("annotation", [Any, dict[str, Any]])
@pytest.mark.parametrize("lenses", [Lenses(), Lenses([Coins()])], ids=["none", "some"])
def test_a_value_that_looks_like_a_serializers_is_stored_and_read_as_it_is(
    value: Any, annotation: Any, lenses: Lenses
) -> None:
    kind = lenses.lens("x", annotation)
    form = kind.normalise(value, "fact 'x'", C)
    assert form == stored("json", value)
    assert kind.restore(form, "x", C) == value
    assert kind.seen_as(Plain).restore(form, "x", C) == value
    assert shown(form) == value
    again = kind.normalise(kind.restore(form, "x", C), "fact 'x'", C)
    assert again == form


def test_within_a_value_the_key_is_a_key_like_any_other() -> None:
    value = {"rows": [{"$serializer": "x", "value": 1}]}
    assert FactType().normalise(value, "v") == value
    assert FactType().restore(value, "v") == value


@pytest.mark.parametrize(
    "form",
    [
        stored("os.system", "id"),
        stored("builtins.eval", "1"),
        {"$serializer": "json"},
        {"$serializer": "json", "value": 1, "more": 2},
        {"$serializer": ["json"], "value": 1},
        {"$serializer": None, "value": 1},
    ],
)
@pytest.mark.parametrize("lenses", [Lenses(), Lenses([Coins()])], ids=["none", "some"])
def test_a_name_that_is_not_registered_is_refused(form: Any, lenses: Lenses) -> None:
    for kind in (
        lenses.lens("x", Any),
        lenses.lens("x", int),
        lenses.lens("x", Money) if lenses.by_name else FactType(),
    ):
        with pytest.raises(FactError, match=r"fact 'x'.*(registered|nothing that a serializer made)"):
            kind.restore(form, "x", C)


def test_what_was_stored_as_json_before_there_was_a_serializer_is_still_read() -> None:
    kind = Lenses([Backwards("who")]).lens("who", Person)
    assert kind.restore({"name": "Ada", "age": 3}, "who", C) == Person("Ada", 3)


def test_what_a_serializer_stored_is_read_though_it_handles_the_fact_no_more() -> None:
    form = Lenses([Backwards("who")]).lens("who", Person).normalise(Person("Ada"), "v", C)
    kind = Lenses([Backwards("other")]).lens("who", Person)
    assert type(kind) is not SerializedType
    assert kind.restore(form, "who", C) == Person("Ada")


def test_a_serializer_that_reads_something_else_back_is_refused_at_the_write() -> None:
    class Lossy(Coins):
        def load(self, form: Plain, slot: Slot) -> Money:
            return Money(1)

    with pytest.raises(FactError, match="serializer 'money' makes something else of what it has read back"):
        Lenses([Lossy()]).lens("price", Money).normalise(Money(5), "fact 'price'", C)


def test_what_a_serializer_raises_is_told_by_its_name_and_of_a_secret_one_nothing_more() -> None:
    class Broken(Coins):
        def dump(self, value: Any, slot: Slot) -> Plain:
            raise KeyError("top secret")

    class Discreet(Broken):
        secret: ClassVar[bool] = True

    for serializer, said in ((Broken(), "raised KeyError: 'top secret'"), (Discreet(), "raised KeyError$")):
        with pytest.raises(FactError, match=f"fact 'price': serializer 'money' {said}"):
            Lenses([serializer]).lens("price", Money).normalise(Money(5), "fact 'price'", C)


def test_a_secret_value_that_does_not_fit_is_not_shown() -> None:
    kind = Lenses([Backwards("age")]).lens("age", int)
    for make in (kind.normalise, kind.accept):
        with pytest.raises(FactError, match="it does not fit int; as it is secret") as caught:
            make("four hundred", "fact 'age'", C)
        assert "four hundred" not in str(caught.value)
        assert caught.value.__cause__ is None
    form = Lenses([Backwards("age")]).lens("age", str).normalise("four hundred", "v", C)
    with pytest.raises(FactError, match="what is stored does not fit int; as it is secret") as caught:
        kind.restore(form, "age", C)
    assert "four hundred" not in str(caught.value)


def test_what_a_serializer_makes_is_json_like_any_other() -> None:
    class Odd(Coins):
        def dump(self, value: Any, slot: Slot) -> Any:
            return {"a": [float("nan")]}

    with pytest.raises(FactError, match=r"fact 'price'\.a\[0\]: nan is not a JSON number"):
        Lenses([Odd()]).lens("price", Money).normalise(Money(5), "fact 'price'", C)


@pytest.mark.parametrize("name", ["json", "", "Money", "os:system", "a b", "x" * 65])
def test_a_serializer_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(SettingsError, match="give it a name of small letters"):
        Lenses([Backwards(name=name)])


def test_two_serializers_of_one_name_are_refused() -> None:
    d = CaseDefinition("d", at_quiescence=True, serializers=[Coins()])
    with pytest.raises(SettingsError, match="two serializers are called 'money'"):
        CaseHub(d, serializers=[Coins()])
    one = Coins()
    CaseHub(CaseDefinition("d", at_quiescence=True, signals={"price": Money}, serializers=[one]), serializers=[one])


def test_a_type_that_no_serializer_takes_is_refused_with_the_remedy() -> None:
    d = CaseDefinition("d", at_quiescence=True, signals={"price": Money})
    with pytest.raises(DefinitionError, match=r"Money cannot be stored .* give CaseHub a serializer for it"):
        CaseHub(d)


def test_a_fact_without_a_serializer_takes_the_same_way_in_every_hub() -> None:
    assert type(Lenses().lens("x", Person)) is FactType
    kind = Lenses([Coins()]).lens("x", Person)
    assert type(kind).normalise is FactType.normalise
    assert type(kind).restore is FactType.restore
    assert type(kind).accept is FactType.accept


@pytest.mark.parametrize("value", [{"a": 1}, {"$serializer": "json", "value": {"$serializer": "x"}}])
def test_the_json_of_what_is_stored_can_be_stored_again(value: Any) -> None:
    for lenses in (Lenses(), Lenses([Coins()]), Lenses([Backwards("x")])):
        kind = lenses.lens("x", dict[str, Any])
        form = kind.normalise(value, "v", C)
        assert kind.as_json(form, "x", C) == value
        assert kind.from_json(value, "v", C) == form
        assert kind.seen_as(Plain).restore(form, "x", C) == value


def test_a_fact_may_change_hands_from_one_serializer_to_another() -> None:
    form = Lenses([Backwards("who")]).lens("who", Person).normalise(Person("Ada"), "v", C)
    people = EntityReference(Person, key=lambda person: person.name, load=Person)
    kind = Lenses([people, Backwards("other")]).lens("who", Person)
    assert kind.restore(form, "who", C) == Person("Ada")
    assert kind.as_json(form, "who", C) == {"name": "Ada", "age": 0}


# ---- in a case


def till(**options: Any) -> CaseDefinition:
    d = CaseDefinition("till", goal="total", signals={"price": Money, "note": dict[str, Any]}, **options)
    d.seen = []  # type: ignore[attr-defined]  # what the tests look at

    @d.worker(writes="total", when=lambda price: price.cents > 1)
    async def add(price: Money) -> Money:
        d.seen.append(price)  # type: ignore[attr-defined]  # as above
        return Money(price.cents * 2)

    return d


async def test_workers_guards_and_readers_get_the_value_and_the_log_has_what_is_stored() -> None:
    d, store = till(serializers=[Coins()]), Kept()
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d)
        await case.signal(price=Money(1))
        assert await case.status() is CaseStatus.WAITING
        await case.signal(Money(3))
        assert (await case.completed())["total"] == Money(6)
        assert await log_of(hub, case.id) == {"price": stored("money", 3), "total": stored("money", 6)}
    assert d.seen == [Money(3)]  # type: ignore[attr-defined]  # of the test
    async with CaseHub(d, store=store) as hub:
        assert (await hub.case(case.id).context())["total"] == Money(6)


async def test_an_equal_value_is_no_change() -> None:
    d = till(serializers=[Coins()])
    async with CaseHub(d) as hub:
        case = await hub.start(d)
        await case.signal(price=Money(1))
        before = (await case.state()).facts["price"].stamp
        await case.signal(price=Money(1))
        assert (await case.state()).facts["price"].stamp == before
        await case.signal(price=Money(0))
        assert (await case.state()).facts["price"].stamp > before
        await case.cancel()


async def test_a_fact_of_another_place_is_not_read() -> None:
    d = CaseDefinition("d", goal="done", signals={"who": Person})

    @d.worker(writes="done", on_failed="fault_item")
    async def greet(who: Person) -> str:
        return who.name

    async with CaseHub(d, serializers=[Backwards("who")], tenant="acme") as hub:
        case = await hub.start(d, case_id="c1")
        await case.signal(Person("Ada"))
        assert (await case.completed())["done"] == "Ada"
        assert await log_of(hub, "c1") == {
            "who": stored("backwards", {"of": "acme/c1/who", "is": [{"name": "Ada", "age": 0}]}),
            "done": "Ada",
        }


@pytest.mark.parametrize(
    ("merge", "result"),
    [
        (first_writer_wins, {"a": 1}),
        (deep_merge, {"a": 1, "b": 2}),
        (lambda theirs, mine: theirs | mine | {"c": 3}, {"a": 1, "b": 2, "c": 3}),
    ],
    ids=["first", "deep", "own"],
)
async def test_a_merge_gets_the_json_of_both_and_its_result_is_stored(
    merge: Callable[[Any, Any], Any], result: Mapping[str, int]
) -> None:
    d = CaseDefinition("d", signals={"go": bool}, external={"found": dict[str, int]})
    begun: list[str] = []

    @d.worker(writes="found", merge=merge)
    async def find(go: bool) -> dict[str, int]:
        await hub.case(begun[0]).signal(found={"a": 1})
        return {"b": 2}

    async with CaseHub(d, serializers=[Backwards("found")]) as hub:
        case = await hub.start(d)
        begun.append(case.id)
        await case.signal(go=True)
        assert (await case.quiescent())["found"] == result
        found = (await log_of(hub, case.id))["found"]
        assert found == stored("backwards", {"of": f"default/{case.id}/found", "is": [dict(result)]})
        await case.cancel()


async def test_what_people_answer_is_in_the_log_as_the_fact_that_it_becomes() -> None:
    d = CaseDefinition("d", goal="who")

    @d.human_task(writes="who", refire="once")
    def ask() -> HumanTask[Person]:
        return HumanTask("Who?", Person)

    async with CaseHub(d, serializers=[Backwards("who")]) as hub:
        case = await hub.start(d)
        (task,) = await hub.tasks.list()
        await hub.tasks.complete(task.id, {"name": "Ada"}, by="user:eve")
        assert (await case.completed())["who"] == Person("Ada")
        (event,) = await case.log.query(HumanTaskCompleted)
        assert event.answer == (await log_of(hub, case.id))["who"]


async def test_what_goes_to_a_sub_case_and_comes_back_is_stored_as_what_it_is_there() -> None:
    part = CaseDefinition("part", goal="told")

    @part.worker(writes="told")
    async def tell(who: Person) -> list[Person]:
        return [Person(who.name, 7)]

    whole = CaseDefinition("whole", goal="told", signals={"name": str})

    @whole.sub_case(part, writes="told")
    def ask(name: str) -> Mapping[str, Any]:
        return {"who": Person(name)}

    async with CaseHub(whole, serializers=[Backwards("who", "told")]) as hub:
        case = await hub.start(whole)
        await case.signal(name="Ada")
        assert (await case.completed())["told"] == [Person("Ada", 7)]
        (started,) = await case.log.query(SubCaseStarted)
        assert started.facts["who"] == stored(
            "backwards", {"of": f"default/{started.child}/who", "is": [{"name": "Ada", "age": 0}]}
        )
        (ended,) = await case.log.query(SubCaseEnded)
        form = {"of": f"default/{started.child}/told", "is": [[{"name": "Ada", "age": 7}]]}
        assert ended.value == stored("backwards", form)
        assert (await log_of(hub, case.id))["told"]["value"]["of"] == f"default/{case.id}/told"


async def test_a_bad_value_fails_its_attempt_and_names_no_secret() -> None:
    d = CaseDefinition("d", goal="age", facts={"age": int})

    @d.worker(writes="age", on_failed="fault_case", refire="once")
    async def guess() -> Any:
        return "four hundred"

    async with CaseHub(d, serializers=[Backwards("age")]) as hub:
        case = await hub.start(d)
        with pytest.raises(Exception, match="has faulted"):
            await case.completed()
        (failed,) = await case.log.query(WorkerExecutionFailed)
        assert "as it is secret" in failed.message
        assert "four hundred" not in failed.message
    taking = CaseDefinition("d", signals={"age": int})
    async with CaseHub(taking, serializers=[Backwards("age")]) as hub:
        with pytest.raises(InputRefusedError, match="as it is secret"):
            await hub.start(taking, age="four hundred")


async def test_faces_show_what_the_log_has_and_a_users_own_value_as_it_was_written() -> None:
    d = CaseDefinition("d", signals={"who": Person, "note": dict[str, Any]})

    @d.worker(writes="done", when=lambda note: note["$serializer"] == "x", on_failed="ignore", retry=Retry(1))
    async def work(who: Person, note: dict[str, Any]) -> int:
        raise ValueError("no")

    async with CaseHub(d, serializers=[Backwards("who")]) as hub:
        case = await hub.start(d, case_id="c1")
        await case.signal(who=Person("Ada"), note={"$serializer": "x"})
        await case.quiescent()
        form = stored("backwards", {"of": "default/c1/who", "is": [{"name": "Ada", "age": 0}]})
        assert await Verbs(hub).context("c1") == {"who": form, "note": {"$serializer": "x"}}
        (said,) = await case.explain()
        assert said.facts == {"who": form, "note": {"$serializer": "x"}}
        await case.cancel()


# ---- after a restart


async def test_a_case_whose_serializer_is_gone_is_parked_and_no_other_is_touched() -> None:
    d, store = till(serializers=[Coins()]), Kept()
    async with CaseHub(d, store=store) as hub:
        lost = await hub.start(d)
        await lost.signal(price=Money(1))
        kept = await hub.start(d)
        await kept.signal(note={"text": "hello"})
    other = CaseDefinition("till", signals={"price": int, "note": dict[str, Any]})
    async with CaseHub(other, store=store) as hub:
        with pytest.raises(InputRefusedError, match="is parked: fact 'price' was stored by serializer 'money'"):
            await hub.case(lost.id).status()
        assert lost.id in hub.parked
        assert (await hub.case(kept.id).context())["note"] == {"text": "hello"}
    async with CaseHub(till(serializers=[Coins()]), store=store) as hub:
        assert (await hub.case(lost.id).context())["price"] == Money(1)
