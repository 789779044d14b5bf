"""The contract of loop controls: the suite on those that keep it, and on some that break it in one way each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pytest

from casehub import (
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    Defer,
    DeliberationStarted,
    Event,
    LoopControl,
    Selection,
    WorkerExecutionFailed,
    WorkerScheduled,
)
from casehub.binding import Binding
from casehub.spi import Answer
from casehub.state import CaseState
from casehub.testing import LoopControlContract
from casehub.testing.occasions import invented, recorded


class OneByOne(ChoreographyLoopControl):
    """Awaits, counts in its control state what it has scheduled, and takes the first by priority."""

    immediate = False
    handles: frozenset[type[Event]] = frozenset({WorkerScheduled, WorkerExecutionFailed})

    def initial(self) -> dict[str, int]:
        return {}

    def apply(self, control: dict[str, int], event: Any) -> dict[str, int]:
        return {**control, event.binding: control.get(event.binding, 0) + 1}

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        failures = await case.log.count(WorkerExecutionFailed, by="binding")
        await asyncio.sleep(0)
        if not eligible:
            return Defer(after="1m")
        best = min(eligible, key=lambda binding: (failures.get(binding.name, 0), -binding.priority))
        return Selection([best], rationale="first by priority")


class TestChoreography(LoopControlContract):
    def loop_control(self) -> LoopControl:
        return ChoreographyLoopControl()


class TestOneByOne(LoopControlContract):
    def loop_control(self) -> LoopControl:
        return OneByOne()


class KeptOneByOne(OneByOne):
    """The same, whose cases may have snapshots."""

    control_form = "how often each binding was scheduled"

    def dump_control(self, control: Any) -> Any:
        return control

    def load_control(self, data: Any) -> Any:
        return data


class TestKeptOneByOne(LoopControlContract):
    def loop_control(self) -> LoopControl:
        return KeptOneByOne()


class Forgetful(KeptOneByOne):
    def load_control(self, data: Any) -> Any:
        return dict.fromkeys(data, 1)


def test_a_control_state_that_does_not_come_back_is_found() -> None:
    class Suite(LoopControlContract):
        def loop_control(self) -> LoopControl:
            return Forgetful()

    with pytest.raises(AssertionError, match="what its snapshots and the rest of its log come to"):
        Suite().test_its_control_state_comes_back_from_a_snapshot()


# ---- what the suite is for


def broken(**parts: Any) -> LoopControlContract:
    """The contract of a loop control that has these parts instead of its own."""
    kind: Any = type("Broken", (OneByOne,), parts)

    class Suite(LoopControlContract):
        def loop_control(self) -> LoopControl:
            made: LoopControl = kind()
            return made

    return Suite()


async def answer_none(self: Any, case: CaseView, eligible: Sequence[Binding]) -> Any:
    return None


async def answer_twice(self: Any, case: CaseView, eligible: Sequence[Binding]) -> Answer:
    return [eligible[0], eligible[0]] if eligible else []


class Memory(OneByOne):
    """Chooses what it was offered last time."""

    seen: ClassVar[list[Binding]] = []

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.seen.extend(eligible)
        return self.seen[:1]


async def fail_on_nothing(self: Any, case: CaseView, eligible: Sequence[Binding]) -> Answer:
    return [eligible[0]]


async def sort_in_place(self: Any, case: CaseView, eligible: Any) -> Answer:
    eligible.reverse()
    return Selection(eligible)


async def meddle_with_facts(self: Any, case: CaseView, eligible: Sequence[Binding]) -> Answer:
    case._facts.pop("start", None)  # type: ignore[attr-defined]  # that is the crime
    return eligible


async def hold_out(self: Any, case: CaseView, eligible: Sequence[Binding]) -> Answer:
    try:
        for _ in range(3):
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        await asyncio.Event().wait()
    return eligible


async def give_up(self: Any, case: CaseView, eligible: Sequence[Binding]) -> Answer:
    raise ZeroDivisionError


async def wrap_the_cancellation(self: Any, case: CaseView, eligible: Sequence[Binding]) -> Answer:
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        raise ValueError("something went wrong") from None
    return eligible


def count_in_itself(self: Any, control: Any, event: Event) -> Any:
    self.count = getattr(self, "count", 0) + 1
    return {"count": self.count}


def share(self: Any) -> Any:
    return type(self).shared


def add_to_what_is_shared(self: Any, control: Any, event: Event) -> Any:
    control[event.name] = control.get(event.name, 0) + 1
    return control


def look_up(self: Any, control: Any, event: Any) -> Any:
    return {**control, event.binding: {"go_left": 1, "one": 2}[event.binding]}


def meddle_with_an_event(self: Any, control: Any, event: Any) -> Any:
    event.by = "loop"
    return control


def gate_by_truth(self: Any, state: CaseState, binding: Binding) -> Any:
    return False


def react_with_text(self: Any, state: CaseState, event: Event) -> Iterable[Any]:
    return ["GATE_OPENED"]


CHOOSES = "test_it_chooses_out_of_what_is_eligible_and_changes_nothing"


@pytest.mark.parametrize(
    ("parts", "test", "complaint"),
    [
        ({"select": answer_none}, CHOOSES, "answered None"),
        ({"select": answer_twice}, CHOOSES, "chose a binding twice"),
        ({"select": Memory.select, "seen": []}, CHOOSES, "which is not among"),
        ({"select": sort_in_place}, CHOOSES, "changed what it was given"),
        ({"select": meddle_with_facts}, CHOOSES, "changed what it was given"),
        ({"gate": gate_by_truth}, CHOOSES, "gate said False"),
        ({"select": fail_on_nothing}, "test_select_takes_an_empty_list", "IndexError"),
        ({"immediate": True}, "test_select_never_suspends_where_it_says_so", "select suspended"),
        ({"select": hold_out}, "test_select_ends_promptly_when_it_is_cancelled", "still runs"),
        ({"select": wrap_the_cancellation}, "test_select_ends_promptly_when_it_is_cancelled", "raised ValueError"),
        ({"apply": look_up}, "test_apply_takes_any_log", "KeyError"),
        ({"apply": count_in_itself}, "test_apply_gives_the_same_each_time", "count was"),
        ({"apply": count_in_itself}, "test_apply_keeps_cases_apart", "count was"),
        (
            {"initial": share, "apply": add_to_what_is_shared, "shared": {}},
            "test_apply_gives_the_same_each_time",
            "WORKER_SCHEDULED",
        ),
        ({"apply": meddle_with_an_event}, "test_apply_leaves_events_as_they_are", "apply changed"),
        ({"handles": {WorkerScheduled}}, "test_it_says_what_the_engine_has_to_know", "no frozenset"),
        ({"immediate": None}, "test_it_says_what_the_engine_has_to_know", "no bool"),
        ({"deadline": "0s"}, "test_it_says_what_the_engine_has_to_know", "no time at all"),
        ({"react": react_with_text}, CHOOSES, "GATE_OPENED"),
        ({"select": give_up}, "test_cases_are_worked_until_they_rest", "ZeroDivisionError"),
    ],
)
def test_the_suite_finds(parts: dict[str, Any], test: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.testing.selecting.PROMPT", 0.01)
    found = ""
    try:
        getattr(broken(**parts), test)()
    except BaseException as error:  # an error of a loop control may come through as it is, or in a group
        found = "".join(map(repr, _flat(error))) + str(error)
    assert complaint in found


def _flat(error: BaseException) -> list[BaseException]:
    return (
        [each for inner in error.exceptions for each in _flat(inner)]
        if isinstance(error, BaseExceptionGroup)
        else [error]
    )


def test_the_suite_is_abstract() -> None:
    with pytest.raises(TypeError, match="loop_control"):
        LoopControlContract()  # type: ignore[abstract]  # that is what is tested


def test_the_recorded_logs_have_what_loop_controls_meet() -> None:
    names = {event.name for log in recorded() for event in log}
    assert names >= {
        "CASE_CANCELLED",
        "CASE_COMPLETED",
        "CONTEXT_CHANGED",
        "DELIBERATION_CANCELLED",
        "DELIBERATION_FINISHED",
        "MILESTONE_REACHED",
        "SIGNAL_RECEIVED",
        "TIMER_FIRED",
        "WORKER_EXECUTION_DECLINED",
        "WORKER_EXECUTION_FAILED",
    }
    kinds = {type(event) for event in invented()}
    assert {ContextChanged, DeliberationStarted} <= kinds
