"""Named conditions: three values, what guards with them, what they make of a definition."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    DefinitionError,
    PostconditionFailed,
    SettingsError,
    UnknownNameError,
    Verdict,
    WorkerScheduled,
    absent,
    holds,
    present,
)
from casehub.condition import truth
from casehub.structure import Structure
from casehub.testing import CaseTestKit
from casehub.validation import build
from tests.nouns.test_sentry import Given

VALUES = (True, False, None)


def both() -> CaseDefinition:
    """Two conditions that signals set, and what can be joined of them."""
    d = CaseDefinition("both", at_quiescence=True, signals={"one": bool, "other": bool})
    d.condition("one")
    d.condition("other")
    d.condition("every", when=holds("one", "other"))
    d.condition("either", when=holds("one") | holds("other"))
    d.condition("neither", when=~holds("either"))

    @d.condition
    def large(amount: int) -> bool | None:
        return None if amount == 0 else amount > 10

    @d.worker(writes="amount")
    async def count(x: int) -> int:
        return x

    return d


def known(structure: Structure, name: str, **facts: object) -> bool | None:
    given = Given(**{fact: value for fact, value in facts.items() if value is not None})
    return truth(structure.condition(name), given)  # type: ignore[arg-type]  # as much of facts as is asked for


@pytest.mark.parametrize(("one", "other"), list(product(VALUES, VALUES)))
def test_joined_conditions_are_kleenes(one: bool | None, other: bool | None) -> None:
    structure = build(both())
    every = False if False in (one, other) else None if None in (one, other) else True
    either = True if True in (one, other) else None if None in (one, other) else False
    neither = None if either is None else not either
    for name, expected in (("every", every), ("either", either), ("neither", neither)):
        assert known(structure, name, one=one, other=other) is expected
        guard = structure.condition(name)
        facts = Given(**{n: v for n, v in (("one", one), ("other", other)) if v is not None})
        if name != "neither":  # a guard has two values, and what is not known to hold does not
            assert guard.holds(facts) is (expected is True)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(("amount", "expected"), [(None, None), (0, None), (5, False), (11, True)])
def test_a_function_is_unknown_where_it_cannot_be_asked_and_where_it_says_so(
    amount: int | None, expected: bool | None
) -> None:
    assert known(build(both()), "large", amount=amount) is expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, None), (True, True), (False, False), ("yes", False), (1, False)]
)
def test_a_bare_name_is_what_the_fact_of_its_name_says(value: object, expected: bool | None) -> None:
    assert known(build(both()), "one", one=value) is expected


def test_present_and_absent_are_always_known() -> None:
    d = both()
    d.condition("seen", when=present("one") & absent("other"))
    structure = build(d)
    assert known(structure, "seen", one=False) is True
    assert known(structure, "seen") is False


def test_a_condition_that_is_none_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no condition 'larg'; did you mean 'large'"):
        build(both()).condition("larg")


def claims(*, empty: bool = False, brings: str = "found", needs: str = "known") -> CaseDefinition:
    d = CaseDefinition("claims", goal="report")

    @d.condition
    def known(customer: str) -> bool:
        return customer != "?"

    @d.condition
    def found(orders: list[int]) -> bool:
        return bool(orders)

    @d.worker(writes="orders", needs=needs, brings=brings)
    async def load(customer: str) -> list[int]:
        return [] if empty else [1]

    @d.worker(writes="report", needs=[known, found])
    async def write(orders: list[int]) -> str:
        return str(len(orders))

    return d


async def test_a_worker_waits_for_the_conditions_that_it_needs() -> None:
    d = claims()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, customer="Ada")
        assert (await case.completed())["report"] == "1"
        case = await kit.start(d, customer="?")
        await kit.settle()
        (said,) = await case.explain("load")
        assert said.verdict is Verdict.GUARD_FALSE
        assert "holds('known') does not hold" in said.text
        assert kit.events(case, WorkerScheduled) == []


async def test_what_a_worker_should_have_brought_and_has_not_is_an_event_after_what_it_wrote() -> None:
    d = claims(empty=True)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, customer="Ada")
        await kit.settle()
        (failed,) = kit.events(case, PostconditionFailed)
        assert (failed.binding, failed.condition, failed.activation) == ("load", "found", f"{case.id}/load/1")
        cause = next(event for event in kit.events(case) if event.version == failed.cause)
        assert cause.name == "CONTEXT_CHANGED"
    d = claims()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, customer="Ada")
        await case.completed()
        assert kit.events(case, PostconditionFailed) == []


def test_conditions_that_nobody_declares_are_named_with_the_nearest() -> None:
    with pytest.raises(DefinitionError) as caught:
        CaseHub(claims(brings="fund", needs="knwn"))
    assert "binding 'load': brings 'fund', which is no condition; did you mean 'found'" in str(caught.value)
    assert "binding 'load': there is no condition 'knwn'; did you mean 'known'" in str(caught.value)


def test_a_condition_that_can_never_be_known_is_refused() -> None:
    d = claims()
    d.condition("signed")
    d.condition("found")
    d.condition("early", when=holds("late"))
    d.condition("late", when=present("orders"))
    with pytest.raises(DefinitionError) as caught:
        CaseHub(d)
    said = str(caught.value)
    assert "condition 'signed': reads 'signed', which nobody writes" in said
    assert "condition 'found': is declared 2 times" in said
    assert "condition 'early': there is no condition 'late'" in said


def test_needs_and_brings_take_names_and_functions_alone() -> None:
    d = CaseDefinition("wrong", goal="y")

    async def work(x: int) -> int:
        return x

    wrong: Any = {"needs": 7}
    with pytest.raises(SettingsError, match="needs=7: give the names of conditions, or their functions"):
        d.worker(writes="y", **wrong)(work)


def test_what_conditions_say_is_part_of_the_version() -> None:
    plain = claims()
    other = claims()
    other.condition("more", when=present("report"))
    silent = claims(brings="known")
    assert len({build(each).hash for each in (plain, other, silent)}) == 3
    assert build(plain).hash == build(claims()).hash
