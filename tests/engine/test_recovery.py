"""A process ends and another one goes on: what ran runs again, what waited waits, nothing happens twice."""

from __future__ import annotations

import pytest

from casehub import (
    CaseDefinition,
    CaseStatus,
    DefinitionAdopted,
    Signal,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.errors import Declined
from casehub.inputs import Adopt, Leave
from casehub.policies import Retry
from tests.engine.core import Core, names, of


def working(**options: object) -> Core:
    """A started case whose one worker runs."""
    d = CaseDefinition("d", goal="b", signals=["a"])

    @d.worker(writes="b", **options)  # type: ignore[call-overload]  # options by name
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    return core


def test_work_that_had_started_runs_again_under_the_same_activation() -> None:
    core = working()
    events = core.crash()
    assert names(events) == ["WORKER_EXECUTION_INTERRUPTED", "WORKER_EXECUTION_STARTED"]
    assert core.count(WorkerScheduled) == 1
    assert [(e.activation, e.attempt) for e in of(core.log, WorkerExecutionStarted)] == [
        ("c/work/1", 1),
        ("c/work/1", 2),
    ]


def test_it_runs_again_with_the_facts_that_it_had() -> None:
    core = working()
    core.signal(a=2)
    core.crash()
    assert core.activation("work").facts["a"].value == 1


def test_a_result_of_the_interrupted_attempt_does_not_count_any_more() -> None:
    core = working()
    late = core._result("work", value=99)
    core.crash()
    assert names(core.take(late)) == ["WORKER_RESULT_DROPPED"]
    core.returns("work", 1)
    assert core.facts["b"] == 1


def test_interruptions_do_not_use_up_attempts() -> None:
    core = working(retry=Retry(2, wait="1s", jitter=False))
    core.crash()
    core.crash()
    core.raises("work", OSError("away"))  # the first failure
    core.pass_time("1s")
    assert core.running == ["work"]
    core.raises("work", OSError("away"))
    core.pass_time("1m")
    assert core.running == []


def test_waits_count_failures_and_not_interruptions() -> None:
    core = working(retry=Retry(5, wait="1s", jitter=False))
    core.crash()
    core.crash()
    core.raises("work", OSError("away"))
    core.pass_time("1s")
    assert core.running == ["work"]


@pytest.mark.parametrize(
    ("options", "crashes"), [({}, 10), ({"retry": Retry(crashes=3)}, 3), ({"retry": Retry(crashes=1)}, 1)]
)
def test_an_activation_that_takes_the_process_with_it_each_time_is_given_up(
    options: dict[str, object], crashes: int
) -> None:
    core = working(**options)
    for _ in range(crashes):
        assert core.running == ["work"]
        core.crash()
        core.pass_time("30s")
    assert core.running == []
    assert core.count(WorkerExecutionStarted) == crashes
    last = of(core.log, WorkerExecutionInterrupted)[-1]
    assert (last.settled, last.then) == (True, "fault_item")


def test_an_activation_that_is_given_up_is_exhausted() -> None:
    core = working(on_exhausted="fault_case")
    for _ in range(10):
        core.crash()
        core.pass_time("30s")
    assert core.status is CaseStatus.FAULTED


def test_the_first_crashes_cost_no_time_and_the_further_ones_wait_as_failures_do() -> None:
    core = working(retry=Retry(wait="10s", jitter=False))
    assert names(core.crash())[-1] == names(core.crash())[-1] == "WORKER_EXECUTION_STARTED"
    for wait in ("10s", "20s", "30s", "30s"):
        assert names(core.crash()) == ["WORKER_EXECUTION_INTERRUPTED", "TIMER_SET"]
        assert core.running == []
        assert core.crash() == []  # nothing ran that it could have crashed
        core.pass_time(wait)
        assert core.running == ["work"]


def test_a_process_that_is_stopped_in_peace_is_no_crash() -> None:
    core = working(retry=Retry(crashes=1))
    for _ in range(20):
        assert names(core.take(Leave())) == ["WORKER_EXECUTION_INTERRUPTED"]
        assert core.running == []
        assert names(core.crash()) == ["WORKER_EXECUTION_STARTED"]
        assert core.running == ["work"]
    assert core.activation("work").attempt == 21
    core.crash()
    assert core.running == []


def test_an_attempt_that_fails_after_crashes_is_counted_as_a_failure_alone() -> None:
    core = working(retry=Retry(2, wait="1s", jitter=False, crashes=3))
    core.crash()
    core.raises("work", OSError("away"))
    core.pass_time("1s")
    core.crash()
    assert core.running == ["work"]
    core.crash()
    assert core.running == []
    assert of(core.log, WorkerExecutionInterrupted)[-1].settled


def test_a_retry_that_was_waited_for_still_waits_its_time() -> None:
    core = working(retry=Retry(3, wait="10s", jitter=False))
    core.raises("work", OSError("away"))
    assert core.crash() == []
    core.pass_time("9s")
    assert core.running == []
    core.pass_time("1s")
    assert core.running == ["work"]


def test_a_suspended_case_is_not_worked_after_a_restart_until_it_is_resumed() -> None:
    core = working()
    core.suspend()
    assert names(core.crash()) == ["WORKER_EXECUTION_INTERRUPTED"]
    assert core.running == []
    core.resume()
    assert core.running == ["work"]
    assert core.activation("work").attempt == 2


def test_workers_that_declined_stay_left_out_over_a_restart() -> None:
    d = CaseDefinition("d", goal="b")

    async def serve(a: int) -> int:
        return a

    for name in ("x", "y"):
        d.worker(name=name, writes="b", capability="serving")(serve)
    d.binding("served", capability="serving", on_declined="reroute")
    core = Core(d)
    core.start(a=1)
    core.raises("served", Declined("no"))
    core.crash()
    assert core.activation("served").worker == "y"
    core.raises("served", Declined("no"))
    assert core.running == []


def test_what_was_eligible_and_held_back_is_eligible_after_a_restart() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start()
    core.suspend()
    core.signal(a=1)
    core.crash()
    core.resume()
    assert core.running == ["work"]


def test_an_occurrence_before_the_restart_is_not_lost() -> None:
    d = CaseDefinition("d", signals=["tick"])

    @d.worker(writes="b", on=Signal("tick"))
    async def work() -> int:
        return 1

    core = Core(d)
    core.start()
    core.suspend()
    core.occur("tick")
    core.crash()
    core.resume()
    assert core.running == ["work"]


def test_what_has_fired_does_not_fire_again_after_a_restart() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.run()
    core.crash()
    assert core.running == []
    assert core.status is CaseStatus.WAITING


def test_taking_up_a_case_twice_starts_nothing_twice() -> None:
    core = working()
    core.crash()
    core.reload()
    core.crash()
    assert core.count(WorkerScheduled) == 1
    assert len(core.running) == 1


@pytest.mark.parametrize("same", [True, False])
def test_another_structure_is_adopted_with_an_event(same: bool) -> None:
    core = working()
    core.reload()
    if not same:
        core.live.structure.hash = "other"
    events = core.take(Adopt())
    assert len(of(events, DefinitionAdopted)) == (not same)
    assert core.state.structure == core.structure.hash
