"""Events: names computed from classes, the class tree as the topic tree, positions from the envelope."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime

import pytest

import casehub.events as events
from casehub import (
    CaseCompleted,
    CaseEnded,
    CaseFaulted,
    CaseId,
    CaseStarted,
    CaseStatusChanged,
    ContextChanged,
    Envelope,
    Event,
    GoalReached,
    UnknownEvent,
    WorkerEvent,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerExecutionDeclined,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
    WorkerExecutionInterrupted,
    WorkerScheduled,
)
from casehub.envelope import subtypes
from casehub.events import EVENT_TYPES
from casehub.query import concrete

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ContextChanged, "CONTEXT_CHANGED"),
        (WorkerExecutionFinished, "WORKER_EXECUTION_FINISHED"),
        (CaseStatusChanged, "CASE_STATUS_CHANGED"),
        (events.MilestoneSlaViolated, "MILESTONE_SLA_VIOLATED"),
        (CaseFaulted, "CASE_FAULTED"),
    ],
)
def test_a_name_is_computed_from_the_class(kind: type[Event], name: str) -> None:
    assert kind.name == name
    assert EVENT_TYPES[name] is kind


def test_every_event_class_has_a_name_of_its_own_and_is_exported() -> None:
    kinds = [kind for kind in subtypes(Event) if kind.__module__ == "casehub.events"]
    assert len({kind.name for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", kind.name)
        assert kind.__name__ in events.__all__


def test_one_base_class_brings_every_outcome() -> None:
    assert set(concrete([WorkerExecutionFinished])) >= {
        kind.name
        for kind in (
            WorkerExecutionCompleted,
            WorkerExecutionFailed,
            WorkerExecutionDeclined,
            WorkerExecutionExpired,
            WorkerExecutionCancelled,
            WorkerExecutionInterrupted,
        )
    }


def test_the_base_of_all_means_no_filter() -> None:
    assert concrete([Event]) == ()
    assert concrete([GoalReached]) == ("GOAL_REACHED",)
    assert concrete([GoalReached, CaseEnded]) == (
        "CASE_CANCELLED",
        "CASE_COMPLETED",
        "CASE_ENDED",
        "CASE_FAULTED",
        "GOAL_REACHED",
    )


def test_the_ends_of_a_case_are_changes_of_its_status() -> None:
    assert issubclass(CaseCompleted, CaseEnded)
    assert issubclass(CaseEnded, CaseStatusChanged)
    assert issubclass(CaseStarted, CaseStatusChanged)


def test_every_event_of_a_worker_names_its_binding_activation_and_worker() -> None:
    for kind in subtypes(WorkerEvent):
        assert {"binding", "activation", "worker"} <= {field.name for field in fields(kind)}


def test_positions_are_dense_within_a_turn() -> None:
    envelope = Envelope(case=CaseId("c"), definition="d", tenant="t", turn=4, version=11, seq=100, at=NOON)
    event = GoalReached(goal="g", envelope=envelope, version=13, by="worker:extract")
    assert (event.seq, event.id, event.turn, event.at, event.case) == (102, "c@13", 4, NOON, "c")
    assert (event.definition, event.tenant, event.author) == ("d", "t", "extract")


def test_an_event_that_is_not_committed_has_no_position() -> None:
    event = GoalReached(goal="g", envelope=Envelope(case=CaseId("c"), version=11), version=13)
    assert event.seq == 0


def test_events_are_equal_by_what_they_say_whatever_envelope_they_are_in() -> None:
    one = GoalReached(goal="g", envelope=Envelope(case=CaseId("a")), version=1)
    other = GoalReached(goal="g", envelope=Envelope(case=CaseId("b")), version=1)
    assert one == other
    assert one != GoalReached(goal="h", version=1)


def test_events_are_slotted_and_take_keywords_alone() -> None:
    with pytest.raises(AttributeError):
        GoalReached(goal="g").remark = "x"  # type: ignore[attr-defined]  # on purpose
    with pytest.raises(TypeError):
        GoalReached("g")  # type: ignore[misc]  # on purpose
    assert WorkerScheduled.__slots__


def test_an_unknown_event_keeps_its_type_and_body() -> None:
    event = UnknownEvent(type="STAGE_FROZEN", body={"stage": "x", "depth": [1]})
    assert (event.type, event.body) == ("STAGE_FROZEN", {"stage": "x", "depth": [1]})
