"""A loop control that awaits, turn by turn: when it is asked, what its answer does, and how it may fail.

What is tested here is the pure core; that deadlines, cancellations and the store keep to it is tested with a hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from casehub import (
    Binding,
    CaseDefinition,
    CaseStalled,
    CaseStatus,
    CaseView,
    ChoreographyLoopControl,
    Defer,
    DeliberationCancelled,
    DeliberationFailed,
    DeliberationFinished,
    DeliberationStarted,
    DeliberationTimedOut,
    Limits,
    Selection,
    SelectionDropped,
    SignalReceived,
    TimerSet,
    WorkerScheduled,
)
from casehub.engine.answers import check_answer
from casehub.errors import LoopControlError
from casehub.events import TimerId
from casehub.inputs import Write
from casehub.spi import LoopControl
from tests.engine.core import Core, names, of


class Slow(ChoreographyLoopControl):
    """Says that it suspends; the tests answer for it."""

    immediate = False


class Says(ChoreographyLoopControl):
    """Answers at once, with what it was made with."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Any:
        return self.answer


def asking(*workers: str, loop: LoopControl | None = None, goal: str = "never", **options: Any) -> Core:
    """A started case in which each of these workers reads `a`."""
    options.setdefault("external", ["never"])
    options.setdefault("signals", ["a", "other"])
    d = CaseDefinition("d", goal=goal, **options)

    async def work(a: int) -> int:
        return a

    for name in workers:
        d.worker(name=name, writes=f"by_{name}")(work)
    core = Core(d, loop=loop or Slow())
    core.start(a=1)
    return core


def test_a_deliberation_starts_when_something_is_eligible() -> None:
    core = asking("x", "y")
    started = of(core.log, DeliberationStarted)
    assert [(e.deliberation, e.eligible) for e in started] == [(1, ("x", "y"))]
    assert core.running == []
    assert core.status is CaseStatus.RUNNING


def test_it_is_as_of_its_own_position_so_that_what_led_to_it_is_seen() -> None:
    core = Core(asking("x").structure.definition, loop=Slow())
    core.start()
    events = core.take(Write(facts={"a": 1}))
    started = of(events, DeliberationStarted)[0]
    started.envelope.seq = 17  # as the store gives it
    assert started.as_of == started.seq == 17 + events.index(started)


def test_what_is_chosen_fires_and_what_is_not_does_not() -> None:
    core = asking("x", "y")
    events = core.answer("y", rationale="cheaper", seconds=1.5)
    finished = of(events, DeliberationFinished)[0]
    assert (finished.chosen, finished.rationale, finished.seconds) == (("y",), "cheaper", 1.5)
    assert core.running == ["y"]


def test_bindings_fire_in_the_order_of_the_answer() -> None:
    core = asking("x", "y", "z")
    core.answer("z", "x")
    assert core.running == ["z", "x"]


def test_facts_are_taken_in_while_it_decides_and_at_most_one_is_under_way() -> None:
    core = asking("x")
    for value in range(5):
        core.signal(other=value)
    assert core.count(SignalReceived) == 5
    assert core.count(DeliberationStarted) == 1


def test_changes_meanwhile_merge_into_one_further_deliberation_and_none_is_lost() -> None:
    core = asking("x")
    core.signal(a=2)
    core.signal(a=3)
    core.answer()
    assert core.count(DeliberationStarted) == 2
    core.answer("x")
    assert core.activation("x").facts["a"].value == 3


def test_what_an_answer_fires_does_not_ask_again_by_itself() -> None:
    core = asking("x", "y")
    core.answer("x")
    assert core.count(DeliberationStarted) == 1
    assert core.state.deliberating is False


def test_a_worker_that_comes_back_asks_again() -> None:
    core = asking("x", "y")
    core.answer("x")
    core.returns("x", 1)
    assert of(core.log, DeliberationStarted)[-1].eligible == ("y",)


def test_nothing_is_asked_while_nothing_is_eligible() -> None:
    core = asking("x")
    core.answer("x")
    core.returns("x", 1)
    core.signal(other=1)
    assert core.count(DeliberationStarted) == 1


def test_a_choice_whose_facts_changed_meanwhile_is_dropped_with_the_reason() -> None:
    core = asking("x", "y")
    seen = core.seen()
    core.signal(a=2)
    events = core.answer("x", stamps=seen)
    dropped = of(events, SelectionDropped)
    assert [e.binding for e in dropped] == ["x"]
    assert "a" in dropped[0].reason.split()[-1]
    assert core.running == []
    assert core.count(DeliberationStarted) == 2


def test_a_choice_that_is_not_eligible_any_more_is_dropped_and_the_rest_stands() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a", "b"])

    async def one(a: int) -> int:
        return a

    async def other(b: int) -> int:
        return b

    d.worker(name="x", writes="by_x")(one)
    d.worker(name="y", writes="by_y")(other)
    core = Core(d, loop=Slow())
    core.start(a=1, b=1)
    core.delete("a")
    events = core.answer("x", "y")
    assert [e.binding for e in of(events, SelectionDropped)] == ["x"]
    assert core.running == ["y"]


def test_a_strict_answer_falls_whole() -> None:
    d = asking("x").structure.definition

    @d.worker(writes="by_other")
    async def y(other: int) -> int:
        return other

    core = Core(d, loop=Slow())
    core.start(a=1, other=1)
    seen = core.seen()
    core.signal(other=2)
    core.answer("x", "y", stamps=seen, strict=True)
    assert core.running == []
    assert {e.binding for e in of(core.log, SelectionDropped)} == {"x", "y"}


def test_after_three_drops_in_a_row_eligibility_alone_decides() -> None:
    core = asking("x")
    for value in range(2, 5):
        seen = core.seen()
        core.signal(a=value)
        core.answer("x", stamps=seen)
        assert core.running == []
    seen = core.seen()
    core.signal(a=9)
    core.answer("x", stamps=seen)
    assert core.running == ["x"]


def test_a_firing_in_between_starts_the_count_of_drops_anew() -> None:
    core = asking("x")
    for number in range(3):
        for value in range(2):
            seen = core.seen()
            core.signal(a=10 * number + value + 2)
            core.answer("x", stamps=seen)
            assert core.running == []
        core.answer("x")
        core.returns("x", 1)
        core.signal(a=100 + number)
    assert core.count(SelectionDropped) == 6


def test_its_own_events_are_in_the_log() -> None:
    core = asking("x")
    note = SelectionDropped(binding="x", reason="a note of the loop control's own")
    events = core.answer(writes=(note,))
    assert of(events, SelectionDropped)[0].reason == note.reason


def test_an_empty_answer_stalls_the_case_as_not_selected_even_if_signals_may_come() -> None:
    core = asking("x")
    events = core.answer(rationale="too dear")
    assert names(events) == ["DELIBERATION_FINISHED", "CASE_STALLED"]
    assert of(events, CaseStalled)[0].reasons[0] == "x: NOT_SELECTED - too dear"
    assert core.status is CaseStatus.RUNNING


def test_an_empty_answer_while_something_runs_stalls_nothing() -> None:
    core = asking("x", "y")
    core.answer("x")
    core.signal(other=1)
    assert core.state.stalled == ()
    assert core.status is CaseStatus.RUNNING


def test_a_deferred_question_is_asked_again_when_its_time_has_come() -> None:
    core = asking("x")
    core.answer(defer_until=core.now + timedelta(hours=1))
    assert core.status is CaseStatus.WAITING
    assert core.state.stalled == ()
    core.pass_time("59m")
    assert core.count(DeliberationStarted) == 1
    core.pass_time("1m")
    assert core.count(DeliberationStarted) == 2
    assert core.status is CaseStatus.RUNNING


def test_a_deferred_question_is_asked_once_and_its_answer_stands() -> None:
    core = asking("x")
    core.answer(defer_until=core.now + timedelta(hours=1))
    core.pass_time("1h")
    core.answer(rationale="still no")
    assert core.count(DeliberationStarted) == 2  # waiting and running again is no change of the case
    assert core.state.stalled


def test_defer_on_an_event_asks_again_when_it_happens() -> None:
    core = asking("x")
    core.answer(defer_on=SignalReceived.name)
    assert core.status is CaseStatus.WAITING
    core.signal(other=1)
    assert core.count(DeliberationStarted) == 2


def test_defer_on_a_base_class_hears_its_subclasses() -> None:
    core = asking("x", "y")
    core.answer("x", defer_on="WORKER_EXECUTION_FINISHED")
    core.returns("x", 1)
    assert core.count(DeliberationStarted) == 2


def test_a_deferred_deliberation_is_asked_for_earlier_by_a_change() -> None:
    core = asking("x")
    core.answer(defer_until=core.now + timedelta(hours=1))
    core.signal(a=2)
    assert core.count(DeliberationStarted) == 2
    core.answer("x")
    core.returns("x", 1)
    assert core.state.timers == {}  # the earlier question took its place


def test_a_deferral_outlives_the_process() -> None:
    core = asking("x")
    core.answer(defer_until=core.now + timedelta(hours=1))
    core.reload()
    core.pass_time("1h")
    assert core.count(DeliberationStarted) == 2


def test_a_deadline_that_passes_fires_nothing_and_asks_again_with_backoff() -> None:
    core = asking("x")
    events = core.answer(timed_out=30.0)
    assert of(events, DeliberationTimedOut)[0].limit == 30.0
    assert of(events, TimerSet)[0].due == core.now + timedelta(seconds=1)
    core.pass_time("0.5s")
    assert core.count(DeliberationStarted) == 1
    core.pass_time("0.5s")
    assert core.count(DeliberationStarted) == 2


@pytest.mark.parametrize("how", [{"timed_out": 30.0}, {"error": ValueError("no model")}])
def test_after_three_failures_in_a_row_the_case_stalls_until_something_changes(how: dict[str, Any]) -> None:
    core = asking("x")
    waits = []
    for _ in range(3):
        events = core.answer(**how)
        waits += [event.due - core.now for event in of(events, TimerSet)]
        core.pass_time("1m")
    assert waits == [timedelta(seconds=1), timedelta(seconds=2)]
    assert core.count(DeliberationStarted) == 3
    assert core.state.stalled[0].startswith("x: NOT_SELECTED - the loop control ")
    core.signal(a=2)
    assert core.count(DeliberationStarted) == 4


def test_an_error_is_in_the_log() -> None:
    core = asking("x")
    failed = of(core.answer(error=ValueError("no model")), DeliberationFailed)[0]
    assert (failed.error, failed.message) == ("ValueError", "no model")
    assert core.running == []


def test_an_answer_starts_the_count_of_failures_anew() -> None:
    core = asking("x", "y")
    core.answer(timed_out=1.0)
    core.pass_time("1m")
    core.answer(timed_out=1.0)
    core.pass_time("1m")
    core.answer("x")
    core.returns("x", 1)
    events = core.answer(timed_out=1.0)
    assert of(events, TimerSet)[0].due == core.now + timedelta(seconds=1)


def test_a_late_answer_is_void() -> None:
    core = asking("x")
    core.answer(timed_out=1.0)
    core.pass_time("1s")
    assert core.answer("x", number=1) == []
    assert core.running == []
    core.answer("x")
    assert core.running == ["x"]


def test_suspending_calls_the_deliberation_off_and_resuming_starts_one() -> None:
    core = asking("x")
    assert names(core.suspend()) == ["CASE_STATUS_CHANGED", "DELIBERATION_CANCELLED"]
    assert core.answer("x", number=1) == []
    events = core.resume()
    assert of(events, DeliberationStarted)[0].deliberation == 2
    core.answer("x")
    assert core.running == ["x"]


def test_the_end_of_the_case_calls_the_deliberation_off() -> None:
    core = asking("x")
    assert names(core.cancel()) == ["DELIBERATION_CANCELLED", "CASE_CANCELLED"]


def test_a_deliberation_that_the_process_took_with_it_is_started_again() -> None:
    core = asking("x")
    events = core.crash()
    assert names(events) == ["DELIBERATION_CANCELLED", "DELIBERATION_STARTED"]
    assert core.answer("x", number=1) == []
    core.answer("x")
    assert core.running == ["x"]


def test_a_change_that_completes_the_case_leaves_nothing_to_fire() -> None:
    core = asking("x", goal="never")
    core.write(facts={"never": 1})
    assert core.status is CaseStatus.COMPLETED
    assert core.answer("x", number=1) == []
    assert core.count(WorkerScheduled) == 0
    assert core.count(DeliberationCancelled) == 1


def test_what_a_limit_holds_back_fires_once_there_is_room_and_it_is_chosen_again() -> None:
    core = asking("x", "y", limits=Limits(concurrency=1))
    core.answer("x", "y")
    assert core.running == ["x"]
    core.returns("x", 1)
    core.answer("y")
    assert core.running == ["y"]


# ---- loop controls that answer at once


def test_an_immediate_answer_is_part_of_the_turn() -> None:
    core = asking("x", "y", loop=ChoreographyLoopControl())
    assert core.running == ["x", "y"]
    assert core.count(DeliberationStarted) == 0
    assert core.turn is not None
    assert core.turn.envelope.turn == 1


class _Never:
    def __await__(self) -> Any:
        yield None


class Suspends(ChoreographyLoopControl):
    """Says that it does not suspend, and does."""

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        await _Never()
        return eligible


def test_an_immediate_loop_control_that_suspends_faults_the_case_with_the_remedy() -> None:
    core = asking("x", loop=Suspends())
    assert core.status is CaseStatus.FAULTED
    assert "Suspends says immediate=True and its select suspended; say immediate=False" in core.state.reason


def test_an_immediate_loop_control_may_defer() -> None:
    core = asking("x", loop=Says(Defer(after="1h")))
    assert core.status is CaseStatus.WAITING
    assert core.state.stalled == ()
    assert core.state.timers == {TimerId("deliberate:defer"): core.now + timedelta(hours=1)}


def test_an_immediate_loop_control_says_why_it_chose_nothing() -> None:
    core = asking("x", loop=Says(Selection(rationale="too dear")))
    assert core.state.stalled[0] == "x: NOT_SELECTED - too dear"


def test_an_immediate_loop_control_writes_events_of_its_own() -> None:
    note = SelectionDropped(binding="x", reason="a note")
    core = asking("x", loop=Says(Selection(writes=(note,))))
    assert core.count(SelectionDropped, reason="a note") == 1


# ---- answers that are none


@pytest.mark.parametrize("answer", [None, "x", 42])
def test_what_is_no_answer_is_refused_and_what_is_one_is_named(answer: Any) -> None:
    with pytest.raises(LoopControlError, match=f"answered {answer!r}; answer with bindings, a Selection or Defer"):
        check_answer(Slow(), [], answer)


def test_a_choice_outside_of_what_is_eligible_is_refused_and_names_what_is() -> None:
    bindings = list(asking("x", "y").structure.bindings.values())
    with pytest.raises(LoopControlError, match=r"chose Binding\('y'\), which is not eligible; only \['x'\] are"):
        check_answer(Slow(), bindings[:1], bindings)


def test_choosing_twice_is_refused() -> None:
    bindings = list(asking("x").structure.bindings.values())
    with pytest.raises(LoopControlError, match="chose 'x' twice"):
        check_answer(Slow(), bindings, bindings * 2)


def test_handles_may_be_empty() -> None:
    assert check_answer(Slow(), [], [])[0] == []
