"""Facts that are kept elsewhere: the log has a key, workers get the entity, whoever reads within a turn the key."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    CaseView,
    ContextChanged,
    DefinitionError,
    EntityReference,
    FactError,
    HumanTask,
    InputRefusedError,
    Reference,
    Retry,
    WorkerExecutionFailed,
    WorkerExecutionStarted,
    first_writer_wins,
)
from casehub.plain import Plain
from casehub.serialized import Lenses
from casehub.values import OwnerId
from tests.staging import Kept

C = OwnerId("c", "default")


@dataclass
class Customer:
    id: str
    name: str = ""


class Premium(Customer):
    pass


class Directory:
    """Where customers are kept. `asked`: the keys that were looked up, in order."""

    def __init__(self, **names: str) -> None:
        self.names = names
        self.asked: list[str] = []

    async def find(self, key: str) -> Customer | None:
        self.asked.append(key)
        return Customer(key, self.names[key]) if key in self.names else None

    @property
    def references(self) -> EntityReference[Customer]:
        return EntityReference(Customer, key=lambda customer: customer.id, load=self.find)


def order(**policy: Any) -> CaseDefinition:
    d = CaseDefinition("order", goal="greeting", signals={"customer": Customer, "go": bool})

    @d.worker(writes="greeting", **policy)
    async def greet(customer: Customer, go: bool) -> str:
        return f"Dear {customer.name}"

    return d


async def test_the_log_has_the_key_and_the_worker_gets_the_entity() -> None:
    directory, d = Directory(c7="Ada"), order()
    async with CaseHub(d, serializers=[directory.references]) as hub:
        case = await hub.start(d)
        await case.signal(Customer("c7", "a name that nobody keeps"), go=True)
        assert (await case.completed())["greeting"] == "Dear Ada"
        changes = await case.log.query(ContextChanged)
        assert changes[0].facts["customer"] == {"$serializer": "customer", "value": "c7"}
        assert "nobody" not in str(await case.log.query(ContextChanged))
    assert directory.asked == ["c7"]


@pytest.mark.parametrize("given", ["c7", Customer("c7"), Premium("c7"), "reference"], ids=str)
async def test_a_key_an_entity_and_a_reference_say_the_same(given: Any) -> None:
    directory, d = Directory(c7="Ada"), order()
    references = directory.references
    if given == "reference":
        given = Reference("customer", "c7", references)
    async with CaseHub(d, serializers=[references]) as hub:
        case = await hub.start(d)
        await case.signal(customer=given, go=True)
        assert (await case.completed())["greeting"] == "Dear Ada"


@pytest.mark.parametrize("given", [None, 1.5, True, ["c7"], {"id": "c7"}, b"c7"])
def test_what_is_no_key_is_refused(given: Any) -> None:
    kind = Lenses([Directory().references]).lens("customer", Customer)
    for make in (kind.normalise, kind.accept):
        if given is None:
            assert make(given, "v", C) == {"$serializer": "customer", "value": None}
        else:
            with pytest.raises(FactError, match=r"v: .* is no key of Customer; give one, its key"):
                make(given, "v", C)


def test_a_reference_of_another_kind_is_refused() -> None:
    other = EntityReference(Path, key=str, load=Path)
    kind = Lenses([Directory().references]).lens("customer", Customer)
    with pytest.raises(FactError, match="Reference is no key of Customer"):
        kind.normalise(Reference("path", "/x", other), "v", C)


async def test_who_reads_within_a_turn_or_from_outside_gets_a_reference() -> None:
    directory = Directory(c7="Ada")
    d = CaseDefinition("d", goal="name", signals={"customer": Customer})
    seen: list[object] = []

    def known(customer: Reference[Customer]) -> bool:
        seen.append(customer.key)
        return customer.key == "c7"

    @d.worker(writes="name", when=known)
    async def look(customer: Reference[Customer], case: CaseView) -> str:
        seen.append(case.context["customer"])
        seen.append(case.context[Customer])
        return (await customer.load()).name

    async with CaseHub(d, serializers=[directory.references]) as hub:
        case = await hub.start(d)
        await case.signal(customer="c7")
        assert (await case.completed())["name"] == "Ada"
        reference = (await case.context())["customer"]
        assert isinstance(reference, Reference)
        assert repr(reference) == "Reference(name='customer', key='c7')"
        assert await reference.load() == Customer("c7", "Ada")
    assert seen == ["c7", reference, reference]


async def test_who_asks_for_json_gets_the_key() -> None:
    d = CaseDefinition("d", goal="key", signals={"customer": Customer})

    @d.worker(writes="key", when=lambda customer: True)
    async def look(customer: Plain) -> str:
        return str(customer)

    wired = CaseDefinition("d", goal="key", signals={"customer": Customer})

    @wired.worker(writes="key")
    async def see(customer: Plain) -> str:
        return str(customer)

    with pytest.raises(DefinitionError, match=r"reads 'customer', whose value is kept elsewhere, .*ask for its key"):
        CaseHub(d, serializers=[Directory().references])
    async with CaseHub(wired, serializers=[Directory().references]) as hub:
        case = await hub.start(wired)
        await case.signal(customer="c7")
        assert (await case.completed())["key"] == "c7"


def test_functions_that_are_called_within_a_turn_cannot_ask_for_the_entity() -> None:
    people = CaseDefinition("d", goal="ok", signals={"customer": Customer})

    @people.human_task(writes="ok")
    def ask(customer: Customer) -> HumanTask[bool]:
        return HumanTask(customer.name, bool)

    cases = CaseDefinition("d", goal="greeting", signals={"customer": Customer})

    @cases.sub_case(order(), writes="greeting")
    def start(customer: Customer) -> Mapping[str, Any]:
        return {"customer": customer}

    for d in (people, cases):
        with pytest.raises(
            DefinitionError, match=r"called within a turn, and customer would have to be fetched; ask for the"
        ):
            CaseHub(d, serializers=[Directory().references])


async def test_each_attempt_loads_it_once_and_nothing_is_cached() -> None:
    directory = Directory()
    d = order(retry=Retry(2, wait="0s"))
    async with CaseHub(d, serializers=[directory.references]) as hub:
        case = await hub.start(d)
        await case.signal(customer="c7", go=True)
        with hub.watch(WorkerExecutionFailed, case=case.id, after=0) as failures:
            async for failed in failures:
                assert failed.message == "customer 'c7' is not there (any more); bring it back, or write another key"
                break
        directory.names["c7"] = "Ada"
        assert (await case.completed())["greeting"] == "Dear Ada"
    assert directory.asked == ["c7", "c7"]


async def test_a_change_of_the_entity_is_no_change_of_the_fact() -> None:
    directory, d = Directory(c7="Ada"), CaseDefinition("d", signals={"customer": Customer}, external={"note": str})

    @d.worker(writes="greeting")
    async def greet(customer: Customer) -> str:
        return f"Dear {customer.name}"

    async with CaseHub(d, serializers=[directory.references]) as hub:
        case = await hub.start(d)
        await case.signal(customer="c7")
        await case.quiescent()
        directory.names["c7"] = "Grace"
        await case.signal(Customer("c7", "Grace"))
        assert (await case.quiescent())["greeting"] == "Dear Ada"
        assert len(await case.log.query(WorkerExecutionStarted)) == 1
        await case.cancel()


async def test_after_a_restart_the_entity_is_fetched_as_it_is_then() -> None:
    directory, d, store = Directory(c7="Ada"), order(), Kept()
    async with CaseHub(d, store=store, serializers=[directory.references]) as hub:
        case = await hub.start(d)
        await case.signal(customer="c7")
    assert directory.asked == []
    directory.names["c7"] = "Grace"
    async with CaseHub(d, store=store, serializers=[directory.references]) as hub:
        await hub.case(case.id).signal(go=True)
        assert (await hub.case(case.id).completed())["greeting"] == "Dear Grace"


async def test_a_sync_loader_is_called_in_a_thread() -> None:
    threads: list[int] = []

    def find(key: str) -> Customer:
        threads.append(threading.get_ident())
        return Customer(key, "Ada")

    d = order()
    async with CaseHub(d, serializers=[EntityReference(Customer, key=lambda c: c.id, load=find)]) as hub:
        case = await hub.start(d)
        await case.signal(customer="c7", go=True)
        assert (await case.completed())["greeting"] == "Dear Ada"
    assert threads != [threading.get_ident()]


async def test_what_is_opened_for_an_attempt_is_closed_after_it() -> None:
    """A handle is stored as what it can be opened by again."""

    class Session:
        def __init__(self, address: str) -> None:
            self.address = address

    told: list[str] = []

    @asynccontextmanager
    async def connect(address: str) -> AsyncIterator[Session]:
        told.append(f"open {address}")
        try:
            yield Session(address)
        finally:
            told.append(f"close {address}")

    d = CaseDefinition("d", goal="answer", signals={"go": bool})

    @d.worker
    async def dial(go: bool) -> Session:
        return Session("db://1")

    @d.worker(writes="answer", on_failed="ignore")
    async def talk(session: Session) -> str:
        told.append(f"talk {session.address}")
        return "fine"

    async with CaseHub(d, serializers=[EntityReference(Session, key=lambda s: s.address, load=connect)]) as hub:
        case = await hub.start(d)
        await case.signal(go=True)
        assert (await case.completed())["answer"] == "fine"
        assert (await case.context())["session"].key == "db://1"
        async with (await case.context())["session"].opened() as session:
            assert session.address == "db://1"
    assert told == ["open db://1", "talk db://1", "close db://1", "open db://1", "close db://1"]


async def test_a_sync_worker_gets_it_too_and_a_missing_optional_one_is_left_out() -> None:
    d = CaseDefinition("d", goal="greeting", signals={"customer": Customer, "go": bool})

    @d.worker(writes="greeting")
    def greet(go: bool, customer: Customer | None = None) -> str:
        return "Dear nobody" if customer is None else f"Dear {customer.name}"

    async with CaseHub(d, serializers=[Directory(c7="Ada").references]) as hub:
        one, other = await hub.start(d), await hub.start(d)
        await one.signal(go=True)
        await other.signal(go=True, customer="c7")
        assert (await one.completed())["greeting"] == "Dear nobody"
        assert (await other.completed())["greeting"] == "Dear Ada"


async def test_a_merge_of_references_may_choose_one_of_both_keys() -> None:
    d = CaseDefinition("d", signals={"go": bool}, external={"customer": Customer})
    begun: list[str] = []

    @d.worker(writes="customer", merge=first_writer_wins)
    async def choose(go: bool) -> Customer:
        await hub.case(begun[0]).signal(customer="theirs")
        return Customer("mine")

    async with CaseHub(d, serializers=[Directory().references]) as hub:
        case = await hub.start(d)
        begun.append(case.id)
        await case.signal(go=True)
        assert (await case.quiescent())["customer"].key == "theirs"
        await case.cancel()


@pytest.mark.parametrize("form", [{"a": 1}, ["c7"], 1.5, True])
async def test_a_key_that_somebody_has_tampered_with_is_refused_and_nothing_is_fetched(form: Any) -> None:
    directory = Directory(c7="Ada")
    kind = Lenses([directory.references]).lens("customer", Customer)
    with pytest.raises(FactError, match=r"fact 'customer': .* is no key of Customer"):
        kind.restore({"$serializer": "customer", "value": form}, "customer", C)
    assert directory.asked == []


async def test_an_unfit_value_from_outside_is_refused_at_the_door() -> None:
    d = order()
    async with CaseHub(d, serializers=[Directory().references]) as hub:
        case = await hub.start(d)
        with pytest.raises(InputRefusedError, match="fact 'customer': dict is no key of Customer"):
            await case.signal(customer={"id": "c7"})
        await case.cancel()
