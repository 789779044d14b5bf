"""The life of a case: suspend, resume, cancel; what each allows and what it leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from casehub import (
    CaseCancelled,
    CaseDefinition,
    CaseEndedError,
    CaseState,
    CaseStatus,
    CaseStatusChanged,
    ChoreographyLoopControl,
    ContextChanged,
    Event,
    IllegalTransitionError,
    InputRefusedError,
    Signal,
    Verdict,
    WorkerExecutionCancelled,
    WorkerResultDropped,
    WorkerScheduled,
)
from casehub.events import TimerId
from casehub.inputs import Start, TimerDue
from tests.engine.core import Core, names, of


def working(**options: Any) -> Core:
    """A started case with one worker that runs for each new `a`; `done` completes it."""
    d = CaseDefinition("d", goal="done", signals=["a", "done"], **options)

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    return core


def test_a_case_is_started_once() -> None:
    core = working()
    with pytest.raises(InputRefusedError, match="has been started"):
        core.take(Start(facts={}))


def test_a_suspended_case_takes_facts_and_fires_nothing() -> None:
    core = working()
    core.run()
    events = core.suspend()
    assert names(events) == ["CASE_STATUS_CHANGED"]
    assert (events[0].before, events[0].after, events[0].by) == (  # type: ignore[attr-defined]  # a CaseStatusChanged
        CaseStatus.WAITING,
        CaseStatus.SUSPENDED,
        "user:ada",
    )
    core.signal(a=2)
    assert core.running == []
    assert core.facts["a"] == 2
    assert core.why("work").verdict is Verdict.SUSPENDED


def test_results_that_come_while_suspended_are_taken() -> None:
    core = working()
    core.suspend()
    core.returns("work", 5)
    assert core.facts["b"] == 5
    assert core.status is CaseStatus.SUSPENDED


def test_resuming_fires_what_has_become_eligible() -> None:
    core = working()
    core.run()
    core.suspend()
    core.signal(a=2)
    core.resume()
    assert core.running == ["work"]
    assert core.status is CaseStatus.RUNNING
    assert of(core.log, CaseStatusChanged)[-1].after is CaseStatus.RUNNING


def test_an_occurrence_that_comes_while_suspended_is_not_lost() -> None:
    d = CaseDefinition("d", signals=["tick"])

    @d.worker(writes="b", on=Signal("tick"))
    async def work() -> int:
        return 1

    core = Core(d)
    core.start()
    core.suspend()
    core.occur("tick")
    assert core.running == []
    core.resume()
    assert core.running == ["work"]


def test_suspending_twice_names_the_statuses_that_can_be() -> None:
    core = working()
    core.suspend()
    with pytest.raises(
        IllegalTransitionError, match="it is SUSPENDED, and only a case that is RUNNING or WAITING or COMPENSATING can"
    ):
        core.suspend()


def test_resuming_a_running_case_names_suspended() -> None:
    core = working()
    with pytest.raises(IllegalTransitionError, match="it is RUNNING, and only a case that is SUSPENDED can"):
        core.resume()


def test_a_suspended_case_completes_when_it_is_resumed() -> None:
    core = working()
    core.suspend()
    core.signal(done=1)
    assert core.status is CaseStatus.SUSPENDED  # the life cycle has no step from there to COMPLETED
    assert core.running == ["work"]
    core.resume()
    assert core.status is CaseStatus.COMPLETED


def test_cancelling_calls_off_what_runs_and_ends_the_case() -> None:
    core = working()
    events = core.cancel("no longer needed")
    assert names(events) == ["WORKER_EXECUTION_CANCELLED", "CASE_CANCELLED"]
    end = of(events, CaseCancelled)[0]
    assert (end.before, end.after, end.reason, end.by) == (
        CaseStatus.RUNNING,
        CaseStatus.CANCELLED,
        "no longer needed",
        "user:ada",
    )
    assert core.state.activations == {}
    assert core.state.ended_by == "user:ada"


def test_a_suspended_case_can_be_cancelled() -> None:
    core = working()
    core.suspend()
    core.cancel()
    assert core.status is CaseStatus.CANCELLED


@pytest.mark.parametrize("end", ["complete", "cancel"])
@pytest.mark.parametrize("verb", ["suspend", "resume", "cancel"])
def test_an_ended_case_refuses_with_the_word_terminal(end: str, verb: str) -> None:
    core = working()
    if end == "complete":
        core.signal(done=1)
    else:
        core.cancel()
    length = len(core.log)
    with pytest.raises(CaseEndedError, match="a terminal status"):
        getattr(core, verb)()
    assert len(core.log) == length


def test_a_late_result_of_an_ended_case_is_not_even_an_event() -> None:
    core = working()
    late = core._result("work", value=9)
    core.cancel()
    assert core.take(late) == []
    assert "b" not in core.facts


def test_a_late_result_of_a_called_off_activation_of_an_open_case_is_dropped_with_an_event() -> None:
    core = working()
    late = core._result("work", value=9)
    core.returns("work", 1)
    assert of(core.take(late), WorkerResultDropped)[0].reason == "its activation had ended"
    assert core.facts["b"] == 1


def test_a_refused_input_records_nothing_and_the_case_goes_on() -> None:
    core = working()
    length, version = len(core.log), core.state.version
    with pytest.raises(IllegalTransitionError):
        core.resume()
    assert (len(core.log), core.state.version) == (length, version)
    core.returns("work", 1)
    assert core.facts["b"] == 1


class Refusing(ChoreographyLoopControl):
    """Refuses when it hears of a change, which is not its business."""

    handles = frozenset({ContextChanged})

    def react(self, state: CaseState, event: Event) -> Iterable[Event]:
        raise InputRefusedError("not today")


def test_a_refusal_after_something_was_recorded_faults_the_case_and_leaves_no_gap_in_the_log() -> None:
    core = Core(CaseDefinition("d", signals=["a"]), loop=Refusing())
    core.start()
    assert names(core.signal(a=1)) == ["SIGNAL_RECEIVED", "CONTEXT_CHANGED", "CASE_FAULTED"]
    assert core.state.reason == "not today"
    assert [event.version for event in core.log] == list(range(1, len(core.log) + 1))


@pytest.mark.parametrize("timer", ["sla:nothing", "retry:c/work/1", "budget:case.calls", "odd"])
def test_a_timer_that_is_not_set_comes_to_nothing(timer: str) -> None:
    core = working()
    assert core.take(TimerDue(timer=TimerId(timer))) == []


def test_all_waiting_activations_are_called_off_in_order() -> None:
    d = CaseDefinition("d", goal="never", external=["never"])

    async def work(a: int) -> int:
        return a

    for name in ("x", "y", "z"):
        d.worker(name=name, writes=f"by_{name}")(work)
    core = Core(d)
    core.start(a=1)
    core.raises("y", OSError("away"))
    core.cancel()
    assert [e.binding for e in of(core.log, WorkerExecutionCancelled)] == ["x", "y", "z"]
    assert core.log[-1].name == "CASE_CANCELLED"
    assert core.state.timers == {}


def test_turns_are_numbered_and_versions_are_dense() -> None:
    core = working()
    core.signal(a=2)
    core.returns("work", 1)
    assert [event.version for event in core.log] == list(range(1, len(core.log) + 1))
    assert [event.turn for event in core.log] == sorted(event.turn for event in core.log)
    assert {event.turn for event in core.log} == {1, 2, 3}


def test_every_event_but_the_first_of_a_turn_has_a_cause_that_came_before_it() -> None:
    core = working()
    core.returns("work", 1)
    core.signal(a=2)
    core.signal(done=1)
    for event in core.log:
        assert 0 <= event.cause < event.version
    end = core.log[-1]
    goal = next(event for event in core.log if event.name == "GOAL_REACHED")
    change = next(event for event in core.log if event.version == goal.cause)
    assert change.name == "CONTEXT_CHANGED"
    assert end.cause
    assert of(core.log, WorkerScheduled)[0].cause == 2  # the facts it started with
