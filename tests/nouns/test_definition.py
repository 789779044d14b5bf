"""Definitions collect what decorators say, and change no function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NotRequired

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from casehub import (
    CaseDefinition,
    InputRefusedError,
    OnOutcome,
    Refire,
    Retry,
    SettingsError,
    Signal,
    WorkerExecutionFailed,
    absent,
    all_of,
)
from casehub.binding import Worker
from casehub.structure import started_with
from casehub.validation import build
from casehub.values import OwnerId


@dataclass
class Finding:
    text: str


class Applicant(BaseModel):
    name: str
    age: int = 18


@dataclass
class Claim:
    amount: int
    note: str = ""


def worker_of(definition: CaseDefinition) -> Worker:
    return definition.workers[0]


def test_decorators_return_the_function_unchanged() -> None:
    d = CaseDefinition("d")

    async def bare(a: int) -> None: ...

    def sync(a: int) -> int:
        return a

    async def opener() -> AsyncIterator[Finding]:
        yield Finding("x")

    assert d.worker(bare) is bare
    assert d.worker(writes="b")(sync) is sync
    assert d.resource(opener) is opener
    assert sync(3) == 3


def test_a_worker_is_named_after_its_function_or_by_name() -> None:
    d = CaseDefinition("d")

    async def work(a: int) -> None: ...

    d.worker(work)
    d.worker(name="other")(work)
    assert [worker.name for worker in d.workers] == ["work", "other"]
    assert [binding.name for binding in d.bindings] == ["work", "other"]


def test_writes_names_one_fact_or_the_facts_of_a_mapping() -> None:
    d = CaseDefinition("d")

    async def work(a: int) -> Any: ...

    d.worker(name="one", writes="b")(work)
    d.worker(name="many", writes=["b", "c"])(work)
    d.worker(name="single", writes=["b"])(work)
    assert [(w.writes, w.mapping) for w in d.workers] == [(("b",), False), (("b", "c"), True), (("b",), True)]


@pytest.mark.parametrize(
    ("returned", "writes"),
    [(Finding, ("finding",)), (Finding | None, ("finding",)), (None, ()), (Applicant, ("applicant",))],
)
def test_without_writes_a_returned_class_is_the_fact_of_its_name(returned: Any, writes: tuple[str, ...]) -> None:
    d = CaseDefinition("d")

    async def work(a: int): ...  # type: ignore[no-untyped-def]  # annotated below

    work.__annotations__["return"] = returned
    d.worker(work)
    assert worker_of(d).writes == writes
    assert d.problems == []


def test_async_workers_are_told_from_sync_ones() -> None:
    class Model:
        async def __call__(self, a: int) -> Finding:
            return Finding(str(a))

    d = CaseDefinition("d")

    def sync(a: int) -> None: ...

    async def coroutine(a: int) -> None: ...

    d.worker(sync)
    d.worker(coroutine)
    d.worker(Model())
    assert [worker.is_async for worker in d.workers] == [False, True, True]
    assert d.problems == []


def test_options_become_the_bindings_policy() -> None:
    d = CaseDefinition("d")

    @d.worker(
        writes="b", when=absent("b"), on=["a", Signal("tick"), WorkerExecutionFailed], refire="once", timeout="5s",
        retry=Retry(2), on_failed="ignore", priority=4, cost=0.5,
    )  # fmt: skip
    async def work(a: int) -> int:
        return a

    binding = d.bindings[0]
    assert str(binding.when) == "absent('b')"
    assert (binding.on.facts, binding.on.signals, binding.on.events) == (("a",), ("tick",), (WorkerExecutionFailed,))
    assert binding.policy.refire is Refire.ONCE
    assert binding.policy.timeout == timedelta(seconds=5)
    assert binding.policy.outcomes.failed is OnOutcome.IGNORE
    assert (binding.priority, binding.cost, binding.worker.name) == (4, 0.5, "work")


@pytest.mark.parametrize("wrong", [[42], [None], int])
def test_what_is_no_trigger_is_refused(wrong: Any) -> None:
    d = CaseDefinition("d")
    with pytest.raises(
        SettingsError,
        match=r"is no trigger: give a fact's name, an event class, Signal\(name\), Faulted\(binding\), or a schedule",
    ):
        d.worker(writes="b", on=wrong)(lambda a: a)


def test_workers_of_a_capability_share_one_binding_in_order_of_declaration() -> None:
    d = CaseDefinition("d")

    async def work(a: int) -> int:
        return a

    for name in ("x", "y"):
        d.worker(name=name, writes="b", capability="serving")(work)
    assert d.bindings == []
    d.binding("served", capability="serving", on_declined="reroute")
    assert [worker.name for worker in d.bindings[0].workers] == ["x", "y"]
    assert d.bindings[0].writes == ("b",)


def test_adding_a_fourth_worker_touches_none_of_the_three() -> None:
    def three() -> CaseDefinition:
        d = CaseDefinition("d", goal="c")

        async def work(a: int) -> int:
            return a

        for name in ("one", "two", "three"):
            d.worker(name=name, writes=name)(work)

        @d.worker(writes="c")
        async def last(one: int) -> int:
            return one

        return d

    before = build(three())
    d = three()

    @d.worker(writes="four")
    async def four(two: int) -> int:
        return two

    after = build(d)
    assert {name: (b.requires, b.writes) for name, b in after.bindings.items() if name != "four"} == {
        name: (b.requires, b.writes) for name, b in before.bindings.items()
    }


# ---- the structure


def test_a_fact_that_workers_read_and_nothing_writes_is_an_input() -> None:
    d = CaseDefinition("d", signals=["later"], external=["outside"])

    @d.worker(writes="b")
    async def work(a: int, extra: int = 0, later: int = 0, outside: int = 0) -> int:
        return a

    @d.worker(writes="c")
    async def more(b: int) -> int:
        return b

    assert build(d).inputs == {"a": True, "extra": False, "later": False}


def test_a_declared_model_is_the_inputs() -> None:
    d = CaseDefinition("d", inputs=Claim)

    @d.worker(writes="b")
    async def work(amount: int) -> int:
        return amount

    assert build(d).inputs == {"amount": True, "note": False}


def started(definition: CaseDefinition, **facts: Any) -> dict[str, Any]:
    return started_with(build(definition), facts, OwnerId("c", "default"))


def reading(**options: Any) -> CaseDefinition:
    d = CaseDefinition("d", **options)

    @d.worker(writes="b")
    async def work(amount: int, note: str = "") -> int:
        return amount

    return d


def test_starting_refuses_missing_inputs_and_names_them() -> None:
    with pytest.raises(InputRefusedError, match="definition 'd' needs the input 'amount'; give it to start"):
        started(reading(), note="x")


def test_starting_refuses_unknown_inputs_and_names_the_nearest() -> None:
    with pytest.raises(InputRefusedError, match="takes no input 'amuont'; did you mean 'amount'"):
        started(reading(), amuont=5)


def test_starting_refuses_facts_that_workers_write() -> None:
    with pytest.raises(InputRefusedError, match="takes no input 'b'; known: amount, note"):
        started(reading(), amount=1, b=2)


def test_an_input_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(InputRefusedError, match="input 'amount'"):
        started(reading(), amount="five")


class ClaimModel(BaseModel):
    amount: int
    note: str = ""


class ClaimRow(TypedDict):
    amount: int
    note: NotRequired[str]


@pytest.mark.parametrize("model", [Claim, ClaimModel, ClaimRow])
def test_an_inputs_model_converts_and_fills_in_its_defaults(model: type) -> None:
    facts = started(reading(inputs=model), amount="5")
    assert facts["amount"] == 5
    assert facts.get("note", "") == ""


def test_an_inputs_model_says_what_is_wrong_with_which_field() -> None:
    with pytest.raises(InputRefusedError, match="definition 'd' cannot start: amount: Input should be a valid integer"):
        started(reading(inputs=Claim), amount="five")
    with pytest.raises(InputRefusedError, match="amount: Field required"):
        started(reading(inputs=Claim))


def test_facts_of_a_class_are_started_with_as_objects_or_as_plain_data() -> None:
    d = CaseDefinition("d")

    @d.worker(writes="b")
    async def work(applicant: Applicant) -> int:
        return applicant.age

    assert started(d, applicant=Applicant(name="Ada")) == {"applicant": {"name": "Ada", "age": 18}}
    assert started(d, applicant={"name": "Ada"}) == {"applicant": {"name": "Ada", "age": 18}}


def test_the_index_leads_from_a_fact_to_what_reads_it() -> None:
    d = CaseDefinition("d", goal="g", signals=["a", "b", "c"])
    d.goal("g", lambda c: c)
    d.milestone("m", absent("a"), entry=lambda b: b)

    @d.worker(writes="x", when=absent("b"), on="c")
    async def work(a: int) -> int:
        return a

    structure = build(d)
    assert {fact: [b.name for b in readers] for fact, readers in structure.readers.items()} == {
        "a": ["work"],
        "b": ["work"],
        "c": ["work"],
    }
    assert set(structure.milestones_of) == {"a", "b"}
    assert set(structure.goals_of) == {"c"}
    assert structure.bindings["work"].watches == ("c",)
    assert structure.bindings["work"].requires == ("a",)


def test_the_hash_is_of_the_structure_and_not_of_bodies() -> None:
    def version(*, body: int = 1, writes: str = "b", **options: Any) -> str:
        d = CaseDefinition("d", goal="b")

        async def one(a: int) -> int:
            return a

        async def other(a: int) -> int:
            return a + 1

        d.worker(name="work", writes=writes, **options)(one if body == 1 else other)
        if writes != "b":
            d.worker(name="goal", writes="b")(one)
        return build(d).hash

    assert version() == version()
    assert version(body=2) == version()
    changed = [
        version(writes="c"),
        version(limit=3),
        version(when=absent("b")),
        version(timeout="5s"),
        version(retry=Retry(1)),
    ]
    assert len({version(), *changed}) == 6


def test_types_of_facts_come_from_writers_inputs_and_signals() -> None:
    d = CaseDefinition("d", goal=all_of("b", "finding"), signals={"s": float}, external={"e": str})

    @d.worker
    async def work(a: int, s: float, e: str) -> Finding:
        return Finding("x")

    @d.worker(writes="b")
    async def rows(finding: Finding) -> Sequence[int]:
        return [1]

    @d.worker(writes=["x", "y"])
    async def pair(a: int) -> Mapping[str, Any]:
        return {}

    types = {name: kind.annotation for name, kind in build(d).types.items()}
    assert types == {"finding": Finding, "b": Sequence[int], "x": Any, "y": Any, "s": float, "e": str, "a": int}


def test_two_writers_of_different_types_make_a_fact_either() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def one(a: int) -> int:
        return a

    @d.worker(writes="b")
    async def other(a: int) -> str:
        return "a"

    assert build(d).types["b"].annotation == int | str


def test_resources_are_kept_with_the_type_that_they_offer() -> None:
    d = CaseDefinition("d")

    @d.resource
    async def client() -> AsyncIterator[Finding]:
        yield Finding("x")

    assert d.resources == {"client": (Finding, client)}


def test_a_signal_given_as_a_class_is_named_after_it() -> None:
    d = CaseDefinition("d", signals=[Finding, "other"])
    assert d.signals == {"finding": Finding, "other": Any}
    assert CaseDefinition("d", signals="alone").signals == {"alone": Any}


def test_the_goal_is_a_declared_goal_or_a_fact() -> None:
    d = CaseDefinition("d", goal=all_of("rich", "b"))
    d.goal("rich", lambda a: a > 5)

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    goals = build(d).goals
    assert list(goals) == ["rich", "b"]
    assert str(goals["b"].when) == "present('b')"


def test_a_definition_is_looked_up_by_a_key_that_no_metadata_changes() -> None:
    d = CaseDefinition("d", title="Old")
    structure = build(d)
    d.title = "New"
    assert structure.definition is d
    assert structure.name == "d"
    assert repr(d) == "CaseDefinition('d')"


def test_a_returned_typed_dictionary_is_one_fact_and_not_several() -> None:
    d = CaseDefinition("d")

    class Bill(TypedDict):
        total: int

    @d.worker
    async def price(order: int) -> Bill:
        return {"total": order}

    (worker,) = d.workers
    assert (worker.writes, worker.mapping) == (("bill",), False)
