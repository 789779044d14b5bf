"""Conditions over the context: what they read, when they hold, how they are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casehub import Sentry, absent, present
from casehub.sentry import as_sentry
from casehub.values import ABSENT, FactType
from casehub.wiring import Parameter, Wires


class Given:
    """Facts for a sentry."""

    def __init__(self, **facts: object) -> None:
        self.facts = facts

    def visible(self, name: str) -> bool:
        return name in self.facts

    def value(self, parameter: Parameter) -> Any:
        return self.facts.get(parameter.target, ABSENT)


def wired(sentry: Sentry) -> Sentry:
    return sentry.wired(Wires({name: FactType() for name in "abc"}, {}, type("E", (), {}), type("V", (), {})))


def test_present_holds_while_all_its_facts_are_there() -> None:
    assert present("a").holds(Given(a=None))
    assert not present("a").holds(Given(b=1))
    assert present("a", "b").holds(Given(a=1, b=2))
    assert not present("a", "b").holds(Given(a=1))


def test_absent_holds_while_none_of_its_facts_is_there() -> None:
    assert absent("a").holds(Given())
    assert not absent("a").holds(Given(a=1))
    assert absent("a", "b").holds(Given(c=1))
    assert not absent("a", "b").holds(Given(b=1))


SENTRIES = st.recursive(
    st.sampled_from("abc").map(present),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=8,
)


@given(SENTRIES, st.sets(st.sampled_from("abc")))
def test_joined_sentries_mean_what_python_means(sentry: Sentry, facts: set[str]) -> None:
    given_facts = Given(**dict.fromkeys(facts, 1))
    text = str(sentry).replace("&", "and").replace("|", "or").replace("~", "not ")
    scope = {"present": lambda name: name in facts, "absent": lambda name: name not in facts}
    assert sentry.holds(given_facts) is eval(text, scope)


@given(SENTRIES, st.sampled_from("abc"))
def test_what_a_sentry_does_not_read_cannot_change_its_answer(sentry: Sentry, fact: str) -> None:
    if fact in sentry.reads:
        return
    others = dict.fromkeys(set("ab") - {fact}, 1)
    assert sentry.holds(Given(**others)) is sentry.holds(Given(**others, **{fact: 1}))


def test_reads_are_the_facts_of_all_parts() -> None:
    assert (present("a") & ~(absent("b") | present("c"))).reads == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("sentry", "text"),
    [
        (present("a"), "present('a')"),
        (absent("a"), "absent('a')"),
        (present("a") & absent("b"), "(present('a') & absent('b'))"),
        (~(present("a") | present("b")), "~(present('a') | present('b'))"),
    ],
)
def test_sentries_are_written_as_people_write_them(sentry: Sentry, text: str) -> None:
    assert str(sentry) == text


@pytest.mark.parametrize(
    "wrong", [lambda: present("a") and present("b"), lambda: not present("a"), lambda: bool(absent("a"))]
)
def test_and_or_not_are_refused_with_the_operators_that_are_right(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"join sentries by & \| ~ instead of 'and', 'or', 'not'"):
        wrong()


def test_a_function_of_facts_is_a_sentry() -> None:
    def large(a: int, b: int) -> bool:
        return a + b > 10

    sentry = wired(as_sentry(large))
    assert sentry.reads == {"a", "b"}
    assert sentry.holds(Given(a=6, b=5))
    assert not sentry.holds(Given(a=1, b=5))
    assert str(sentry) == "large(a, b)"


def test_a_function_does_not_hold_while_a_fact_it_requires_is_missing_and_is_not_called() -> None:
    calls = []
    sentry = wired(as_sentry(lambda a, b: calls.append((a, b)) or True))
    assert not sentry.holds(Given(a=1))
    assert calls == []


def test_a_parameter_with_a_default_is_not_required() -> None:
    sentry = wired(as_sentry(lambda a, b=100: a + b > 50))
    assert sentry.holds(Given(a=1))
    assert not sentry.holds(Given(a=1, b=1))


def test_functions_and_sentries_are_joined() -> None:
    sentry = wired(as_sentry(lambda a: a > 1) & absent("b"))
    assert sentry.holds(Given(a=2))
    assert not sentry.holds(Given(a=2, b=1))
    assert sentry.reads == {"a", "b"}


def test_whatever_a_function_returns_counts_as_true_or_false() -> None:
    sentry = wired(as_sentry(lambda a: a))
    assert sentry.holds(Given(a=[1])) is True
    assert sentry.holds(Given(a=[])) is False


def test_what_a_function_raises_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        wired(as_sentry(lambda a: 1 / a)).holds(Given(a=0))
