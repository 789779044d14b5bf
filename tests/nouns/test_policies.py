"""Policies: their defaults, and what is refused when they are written."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from casehub import Budget, Limits, OnOutcome, Refire, Retry, SettingsError, last_writer_wins
from casehub.policies import Outcomes, Policy, policy_of


def test_the_defaults() -> None:
    assert policy_of({}) == Policy()
    policy = Policy()
    assert policy.refire is Refire.ON_CHANGE
    assert policy.merge is last_writer_wins
    assert policy.outcomes == Outcomes(OnOutcome.RETRY, OnOutcome.FAULT_ITEM, OnOutcome.RETRY, OnOutcome.FAULT_ITEM)
    assert (policy.timeout, policy.limit, policy.budget, policy.estimate) == (None, None, None, None)
    assert (policy.priority, policy.cost) == (0, 1.0)


def test_every_option_ends_up_in_the_policy() -> None:
    retry, budget, estimate = Retry(5), Budget(calls=1), Budget(tokens=1)

    def merge(theirs: Any, mine: Any) -> Any:
        return mine

    policy = policy_of(
        {
            "refire": "always",
            "limit": 7,
            "merge": merge,
            "retry": retry,
            "timeout": "2m",
            "on_failed": "fault_case",
            "on_declined": "reroute",
            "on_expired": "ignore",
            "on_exhausted": "fault_case",
            "priority": 3,
            "cost": 2.5,
            "estimate": estimate,
            "budget": budget,
        }
    )
    assert policy == Policy(
        refire=Refire.ALWAYS,
        limit=7,
        merge=merge,
        retry=retry,
        timeout=timedelta(minutes=2),
        outcomes=Outcomes(OnOutcome.FAULT_CASE, OnOutcome.REROUTE, OnOutcome.IGNORE, OnOutcome.FAULT_CASE),
        priority=3,
        cost=2.5,
        estimate=estimate,
        budget=budget,
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"merge": "last_writer_wins"}, "merge='last_writer_wins': give a function, such as casehub.last_writer_wins"),
        ({"priority": "high"}, "priority='high': give a whole number"),
        ({"limit": "3"}, "limit='3': give a whole number"),
        ({"cost": "5 EUR"}, "cost='5 EUR': give a number"),
        ({"retry": 3}, "retry=3: give Retry(...)"),
        ({"budget": 3}, "budget=3: give Budget(...)"),
        ({"estimate": 3}, "estimate=3: give Budget(...)"),
        ({"quarantine": 3}, "quarantine=3: give Quarantine(...)"),
    ],
)
def test_a_value_of_another_kind_is_refused_where_it_is_written(options: Any, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        policy_of(options)
    assert str(caught.value) == told


@pytest.mark.parametrize("option", ["refire", "on_failed", "on_declined", "on_expired", "on_exhausted"])
def test_a_word_that_is_none_of_the_allowed_ones_is_refused(option: str) -> None:
    with pytest.raises(SettingsError, match=f"{option}='sometimes': there is no such choice; known: "):
        policy_of({option: "sometimes"})  # type: ignore[misc]  # by name


@pytest.mark.parametrize(("option", "meant"), [("wen", "when"), ("retries", "retry"), ("time_out", "timeout")])
def test_an_option_that_is_none_is_refused_and_the_nearest_named(option: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"no option '{option}'; did you mean '{meant}'"):
        policy_of({option: 1})  # type: ignore[misc]  # by name


@pytest.mark.parametrize("word", ["retry", "reroute"])
def test_exhausted_leaves_nothing_to_try(word: str) -> None:
    with pytest.raises(SettingsError, match="nothing is left to try; say fault_item, fault_case or ignore"):
        policy_of({"on_exhausted": word})


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Retry(0), r"Retry\(attempts=0\): the first attempt counts, so at least 1"),
        (lambda: Retry(factor=0.5), r"Retry\(factor=0.5\): at least 1"),
        (lambda: Retry(wait="soon"), "duration 'soon' is not one"),
        (lambda: Retry(maximum="never"), "duration 'never' is not one"),
        (Budget, "bounds nothing"),
        (lambda: Budget(calls=1, per="week"), "either None, for the whole case, or 'day'"),
        (lambda: policy_of({"timeout": "5 minutes"}), "duration '5 minutes' is not one"),
        *[
            (lambda name=name: Limits(**{name: 0}), rf"Limits\({name}=0\): at least 1")
            for name in ("firings_per_binding", "firings", "events", "concurrency", "inbox")
        ],
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make: Any, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        make()


def test_a_limit_of_a_binding_is_at_least_one() -> None:
    with pytest.raises(SettingsError, match=r"limit=0: at least 1"):
        policy_of({"limit": 0})


@pytest.mark.parametrize("budget", [{"calls": -1}, {"tokens": -0.5}, {"money": -1.0}])
def test_a_budget_below_zero_is_refused(budget: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="cannot be negative"):
        Budget(**budget)


@pytest.mark.parametrize(
    ("retry", "waits"),
    [
        (Retry(wait="1s", factor=2, maximum="30s", jitter=False), [1, 2, 4, 8, 16, 30, 30]),
        (Retry(wait="5s", factor=1, jitter=False), [5, 5, 5]),
        (Retry(wait="1m", jitter=False), [60, 60]),
        (Retry(wait="1m", maximum="30s", jitter=False), [30, 30]),
        (Retry(wait="0s", jitter=False), [0, 0]),
    ],
)
def test_waits(retry: Retry, waits: list[float]) -> None:
    chance = random.Random(1)
    assert [retry.delay(n + 1, chance).total_seconds() for n in range(len(waits))] == waits


def test_a_wait_never_overflows_however_many_attempts_there_were() -> None:
    assert Retry(10_000, wait="1s", jitter=False).delay(9_999, random.Random(1)) == timedelta(seconds=30)


def test_a_budget_lists_what_it_bounds() -> None:
    assert Budget(calls=5, money=2.5).units() == {"calls": 5.0, "money": 2.5}
