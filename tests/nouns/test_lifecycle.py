"""Life cycles: one enumeration and one table each."""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from casehub import ActivationStatus, CaseEndedError, CaseStatus, IllegalTransitionError, MilestoneStatus
from casehub.lifecycle import (
    ACTIVATION_TRANSITIONS,
    CASE_TRANSITIONS,
    MILESTONE_TRANSITIONS,
    allows,
    check_case,
)

TABLES: list[tuple[type[StrEnum], Any]] = [
    (CaseStatus, CASE_TRANSITIONS),
    (ActivationStatus, ACTIVATION_TRANSITIONS),
    (MilestoneStatus, MILESTONE_TRANSITIONS),
]


@pytest.mark.parametrize(("statuses", "table"), TABLES)
def test_every_status_has_its_row(statuses: type[StrEnum], table: Any) -> None:
    assert set(table) == set(statuses)
    assert set().union(*table.values()) <= set(statuses)


@pytest.mark.parametrize(("statuses", "table"), TABLES)
def test_no_status_leads_to_itself(statuses: type[StrEnum], table: Any) -> None:
    assert not any(allows(table, status, status) for status in statuses)


@pytest.mark.parametrize(("statuses", "table"), TABLES)
def test_every_status_is_reached_from_the_first(statuses: type[StrEnum], table: Any) -> None:
    reached = {next(iter(statuses))}
    for _ in statuses:
        reached |= {after for before in reached for after in table[before]}
    assert reached == set(statuses)


def test_ended_statuses_lead_nowhere_but_for_a_faulted_case_that_is_let_go_on() -> None:
    for status in CaseStatus:
        onward = {CaseStatus.RUNNING} if status is CaseStatus.FAULTED else set[CaseStatus]()
        assert status.ended is (CASE_TRANSITIONS[status] == onward)


def test_bindings_fire_in_running_and_waiting_cases_alone() -> None:
    assert {status for status in CaseStatus if status.active} == {CaseStatus.RUNNING, CaseStatus.WAITING}


def test_a_suspended_case_cannot_complete() -> None:
    assert not allows(CASE_TRANSITIONS, CaseStatus.SUSPENDED, CaseStatus.COMPLETED)


@pytest.mark.parametrize(("before", "after"), list(product(CaseStatus, CaseStatus)))
def test_a_step_that_the_table_lacks_raises_and_one_that_it_has_does_not(before: CaseStatus, after: CaseStatus) -> None:
    if after in CASE_TRANSITIONS[before]:
        check_case("c", "be moved", before, after)
        return
    with pytest.raises(CaseEndedError if before.ended else IllegalTransitionError) as caught:
        check_case("c", "be moved", before, after)
    assert f"case 'c' cannot be moved: it is {before}" in str(caught.value)


def test_the_message_names_the_statuses_that_would_allow_it() -> None:
    with pytest.raises(IllegalTransitionError, match="only a case that is RUNNING or WAITING or COMPENSATING can"):
        check_case("c", "be suspended", CaseStatus.SUSPENDED, CaseStatus.SUSPENDED)
    with pytest.raises(IllegalTransitionError, match="only a case that is SUSPENDED can"):
        check_case("c", "be resumed", CaseStatus.WAITING, CaseStatus.RUNNING, (CaseStatus.SUSPENDED,))


def test_a_terminal_status_is_called_terminal() -> None:
    with pytest.raises(CaseEndedError, match="it is COMPLETED, a terminal status; start a new case instead"):
        check_case("c", "be cancelled", CaseStatus.COMPLETED, CaseStatus.CANCELLED)
