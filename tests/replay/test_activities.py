"""What activities mean: values by the names of fields, and what a definition may say of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from casehub.activities import Filling, plain_name, recorded, transition_of
from casehub.definition import CaseDefinition
from casehub.errors import DefinitionError, FactError, SettingsError
from casehub.validation import build
from tests.replay.logs import Happened, after


@dataclass
class Claim:
    amount: Decimal
    at: datetime
    resource: str | None = None
    note: str = "none"


class Model(BaseModel):
    budget_number: str
    role: str = ""


class Typed(TypedDict, total=False):
    amount: float


EVENT = Happened("Claimed", after(3), "Ada", "CLERK", {"(case)_Amount": "12.50", "(case)_BudgetNumber": "b 7"})


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("amount", "amount"),
        ("(case)_Amount", "amount"),
        ("(case)_BudgetNumber", "budget_number"),
        ("case:Requested Amount", "requested_amount"),
        ("org:group", "group"),
        ("Cost-centre", "cost_centre"),
    ],
)
def test_an_attribute_has_a_plain_name(key: str, name: str) -> None:
    assert plain_name(key) == name


def test_a_dataclass_is_filled_by_the_names_of_its_fields() -> None:
    assert Filling(Claim, "it")(EVENT) == Claim(Decimal("12.50"), after(3), "Ada")


def test_models_and_typed_dicts_are_filled_too() -> None:
    assert Filling(Model, "it")(EVENT) == Model(budget_number="b 7", role="CLERK")
    assert Filling(Typed, "it")(EVENT) == {"amount": 12.5}


def test_a_key_that_is_the_very_name_goes_before_one_that_comes_to_it() -> None:
    event = Happened("Claimed", after(0), attributes={"case:amount": "1", "amount": "2"})
    assert Filling(Typed, "it")(event) == {"amount": 2.0}


def test_untyped_values_get_everything() -> None:
    assert Filling(Any, "it")(EVENT) == {
        "activity": "Claimed",
        "at": "2017-05-01T09:03:00+00:00",
        "resource": "Ada",
        "role": "CLERK",
        "amount": "12.50",
        "budget_number": "b 7",
    }


def test_what_is_missing_or_does_not_fit_is_named() -> None:
    with pytest.raises(FactError, match="says nothing of amount, which Claim needs; it has activity, at"):
        Filling(Claim, "it")(Happened("Claimed", after(0)))
    with pytest.raises(FactError, match="amount of Claim: "):
        Filling(Claim, "it")(Happened("Claimed", after(0), attributes={"amount": "much"}))


def test_a_type_that_no_event_can_fill_needs_a_function() -> None:
    with pytest.raises(SettingsError, match="a float cannot be filled from an event by names; give value="):
        Filling(float, "activity 'Claimed'")


def test_a_recorded_activity_is_by_whoever_did_it_and_holds_plain_values() -> None:
    event = recorded(Happened("Claimed", after(0), "Ada", None, {"due": after(1), "amount": 2.5}))
    assert (event.by, event.logged_at, event.role) == ("user:Ada", after(0), None)
    assert event.attributes == {"due": "2017-05-01T09:01:00+00:00", "amount": 2.5}


def test_a_step_in_an_activitys_life_is_read_in_any_case() -> None:
    assert transition_of(Happened("a", after(0))) == "complete"
    assert transition_of(Happened("a", after(0), attributes={"lifecycle:transition": "START"})) == "start"


def test_an_activity_is_a_signal_or_a_result_and_not_both() -> None:
    d = CaseDefinition("d", signals={"claim": Claim})
    for options in ({}, {"signal": "claim", "worker": "pay"}):
        with pytest.raises(SettingsError, match="give signal= or worker="):
            d.activity("Claimed", **options)


def test_a_definition_says_which_activities_name_nothing() -> None:
    d = CaseDefinition("d", signals={"claim": Claim})

    @d.worker(writes="payment")
    async def pay(claim: Claim) -> str:
        return "paid"

    d.activity("Claimed", signal="claims")
    d.activity("Paid", worker="pays")
    d.activity("Twice", signal=Claim)
    d.activity("Twice", worker=pay)
    d.flag("paymnt")
    with pytest.raises(DefinitionError) as caught:
        build(d)
    text = str(caught.value)
    assert "activity 'Claimed': is the signal 'claims', which signals= does not declare; did you mean 'claim'?" in text
    assert (
        "activity 'Paid': is the result of 'pays', and no binding runs a worker of this name; did you mean 'pay'?"
        in text
    )
    assert "activity 'Twice': is declared 2 times" in text
    assert "flag 'paymnt': is a fact that no worker writes; did you mean 'payment'?" in text


def test_a_step_in_its_life_makes_another_activity() -> None:
    d = CaseDefinition("d", signals=["begun", "done"])
    d.activity("Work", signal="begun", transition="START")
    d.activity("Work", signal="done")
    build(d)
    assert [each.label for each in d.activities] == ["Work (start)", "Work"]
