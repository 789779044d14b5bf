"""How attempts end, and what follows: retries with their waits, reroutes, faults, late results."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from casehub import (
    ActivationId,
    CaseDefinition,
    CaseFaulted,
    CaseStatus,
    Declined,
    Permanent,
    TimerSet,
    Verdict,
    WorkerExecutionCompleted,
    WorkerExecutionDeclined,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
    WorkerExecutionStarted,
    WorkerResultDropped,
    WorkerScheduled,
)
from casehub.inputs import Returned
from casehub.policies import Retry
from tests.engine.core import NOON, Core, names, of

PLAIN = Retry(3, wait="1s", jitter=False)


def one_worker(**options: Any) -> Core:
    """A started case whose one worker runs."""
    d = CaseDefinition("d", goal="b")
    options.setdefault("retry", PLAIN)

    @d.worker(writes="b", **options)
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    return core


def several(*names: str, **options: Any) -> Core:
    """A started case with one binding that any of these workers can serve."""
    d = CaseDefinition("d", goal="b")

    async def serve(a: int) -> int:
        return a

    for name in names:
        d.worker(name=name, writes="b", capability="serving")(serve)
    options.setdefault("retry", PLAIN)
    d.binding("served", capability="serving", **options)
    core = Core(d)
    core.start(a=1)
    return core


def test_a_failed_attempt_is_repeated_and_its_result_counts() -> None:
    core = one_worker()
    core.raises("work", OSError("away"))
    assert core.running == []
    assert names(core.pass_time("1s")) == ["TIMER_FIRED", "WORKER_EXECUTION_STARTED"]
    core.returns("work", 5)
    assert core.facts["b"] == 5
    assert core.status is CaseStatus.COMPLETED


def test_four_failures_and_a_success_are_five_attempts() -> None:
    core = one_worker(retry=Retry(5, wait="1s", jitter=False))
    for _ in range(4):
        core.raises("work", OSError("away"))
        core.pass_time("30s")
    core.returns("work", 5)
    assert [e.attempt for e in of(core.log, WorkerExecutionStarted)] == [1, 2, 3, 4, 5]
    assert core.status is CaseStatus.COMPLETED


def test_waits_grow_by_the_factor_up_to_the_maximum() -> None:
    core = one_worker(retry=Retry(8, wait="2s", factor=2, maximum="30s", jitter=False))
    waits = []
    while core.running:
        events = core.raises("work", OSError("away"))
        waits += [event.due - core.now for event in of(events, TimerSet)]
        core.pass_time("30s")
    assert waits == [timedelta(seconds=s) for s in (2, 4, 8, 16, 30, 30, 30)]


def test_a_retry_starts_when_its_wait_is_over_and_not_before() -> None:
    core = one_worker()
    core.raises("work", OSError("away"))
    core.pass_time("0.999s")
    assert core.running == []
    assert core.why("work").verdict is Verdict.RETRY_WAIT
    core.pass_time("0.001s")
    assert core.running == ["work"]


def test_jitter_draws_evenly_from_zero_to_the_wait() -> None:
    retry = Retry(5, wait="10s", factor=1, jitter=True)
    chance = random.Random(7)
    waits = [retry.delay(1, chance).total_seconds() for _ in range(2_000)]
    assert 0 <= min(waits) < 0.1
    assert 9.9 < max(waits) <= 10
    assert 4.7 < sum(waits) / len(waits) < 5.3


def test_jitter_is_drawn_from_the_seed() -> None:
    dues = []
    for seed in (1, 1, 2):
        core = one_worker(retry=Retry(3, wait="10s"))
        core.chance.seed(seed)
        dues.append(of(core.raises("work", OSError()), TimerSet)[0].due)
    assert dues[0] == dues[1] != dues[2]


def test_when_all_attempts_fail_the_activation_is_over_and_the_case_stays_open() -> None:
    core = one_worker()
    for _ in range(3):
        core.raises("work", OSError("away"))
        core.pass_time("1m")
    last = of(core.log, WorkerExecutionFailed)[-1]
    assert (last.attempt, last.settled, last.then) == (3, True, "fault_item")
    assert core.state.activations == {}
    assert not core.status.ended
    assert core.state.stalled


def test_the_attempts_of_an_activation_share_its_id_and_the_facts_it_began_with() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b", retry=PLAIN)
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.raises("work", OSError("away"))
    core.signal(a=2)
    core.pass_time("1s")
    assert core.activation("work").id == "c/work/1"
    assert core.activation("work").facts["a"].value == 1


def test_permanent_is_not_retried() -> None:
    core = one_worker()
    event = core.raises("work", Permanent("no such account"))[0]
    assert isinstance(event, WorkerExecutionFailed)
    assert (event.settled, event.permanent, event.message) == (True, True, "no such account")


def test_an_exception_outside_of_on_is_permanent() -> None:
    core = one_worker(retry=Retry(3, wait="1s", on=(OSError, TimeoutError), jitter=False))
    core.raises("work", ConnectionError("away"))  # an OSError
    core.pass_time("1s")
    event = core.raises("work", ValueError("wrong"))[0]
    assert isinstance(event, WorkerExecutionFailed)
    assert (event.settled, event.permanent) == (True, True)


def test_an_expired_attempt_is_an_outcome_of_its_own_and_is_retried() -> None:
    core = one_worker()
    event = core.expires("work", 60.0)[0]
    assert isinstance(event, WorkerExecutionExpired)
    assert (event.limit, event.settled, event.then) == (60.0, False, "retry")
    core.pass_time("1s")
    assert core.running == ["work"]


def test_an_expiry_is_not_retried_where_on_has_no_timeouts() -> None:
    core = one_worker(retry=Retry(3, on=(ValueError,)))
    event = core.expires("work", 60.0)[0]
    assert isinstance(event, WorkerExecutionExpired)
    assert event.then == "fault_item"


def test_declined_is_no_failure_and_is_not_retried() -> None:
    core = one_worker()
    event = core.raises("work", Declined("not my field"))[0]
    assert isinstance(event, WorkerExecutionDeclined)
    assert (event.reason, event.settled, event.then) == ("not my field", True, "fault_item")
    assert core.count(WorkerExecutionFailed) == 0


@pytest.mark.parametrize(
    ("option", "happens"),
    [
        ("on_failed", lambda core: core.raises("work", OSError("away"))),
        ("on_declined", lambda core: core.raises("work", Declined("no"))),
        ("on_expired", lambda core: core.expires("work")),
    ],
)
class TestEachOutcomeFollowsItsPolicy:
    def test_fault_case(self, option: str, happens: Any) -> None:
        core = one_worker(**{option: "fault_case"})
        happens(core)
        assert core.status is CaseStatus.FAULTED
        assert "worker 'work'" in of(core.log, CaseFaulted)[0].reason

    def test_fault_item(self, option: str, happens: Any) -> None:
        core = one_worker(**{option: "fault_item"})
        happens(core)
        assert core.state.activations == {}
        assert of(core.log, WorkerExecutionFinished)[-1].then == "fault_item"
        assert core.state.stalled

    def test_ignore(self, option: str, happens: Any) -> None:
        core = one_worker(**{option: "ignore"})
        happens(core)
        assert of(core.log, WorkerExecutionFinished)[-1].then == "ignore"
        assert core.state.activations == {}
        assert not any("work" in reason.split(":")[0] for reason in core.state.stalled)

    def test_retry(self, option: str, happens: Any) -> None:
        core = one_worker(**{option: "retry"})
        happens(core)
        core.pass_time("1s")
        assert core.running == ["work"]
        assert core.activation("work").attempt == 2


@pytest.mark.parametrize("exhausted", ["fault_case", "ignore"])
def test_what_follows_when_nothing_is_left_to_try_is_a_policy_too(exhausted: str) -> None:
    core = one_worker(retry=Retry(1), on_exhausted=exhausted)
    core.raises("work", OSError("away"))
    assert of(core.log, WorkerExecutionFailed)[-1].then == exhausted
    assert core.status is (CaseStatus.FAULTED if exhausted == "fault_case" else CaseStatus.RUNNING)


def test_a_declined_activation_is_rerouted_to_another_worker_at_once() -> None:
    core = several("x", "y", on_declined="reroute")
    assert core.activation("served").worker == "x"
    core.raises("served", Declined("not mine"))
    assert core.running == ["served"]
    assert (core.activation("served").worker, core.activation("served").attempt) == ("y", 2)
    core.returns("served", 5)
    assert core.state.facts["b"].author == "y"
    assert core.count(WorkerScheduled) == 1


def test_the_workers_that_declined_are_left_out_until_none_is_left() -> None:
    core = several("x", "y", "z", on_declined="reroute")
    tried = []
    while core.running:
        tried.append(core.activation("served").worker)
        core.raises("served", Declined("not mine"))
    assert tried == ["x", "y", "z"]
    assert of(core.log, WorkerExecutionDeclined)[-1].then == "fault_item"
    assert core.count(WorkerExecutionStarted) == 3


def test_a_new_activation_leaves_nobody_out() -> None:
    d = CaseDefinition("d", signals=["a"])

    async def serve(a: int) -> int:
        return a

    for name in ("x", "y"):
        d.worker(name=name, writes="b", capability="serving")(serve)
    d.binding("served", capability="serving", on_declined="reroute")
    core = Core(d)
    core.start(a=1)
    core.raises("served", Declined("no"))
    core.raises("served", Declined("no"))
    core.signal(a=2)
    assert core.activation("served").worker == "x"


def test_after_a_reroute_retries_stay_with_the_new_worker() -> None:
    core = several("x", "y", on_declined="reroute")
    core.raises("served", Declined("not mine"))
    core.raises("served", OSError("away"))
    core.pass_time("1s")
    assert core.activation("served").worker == "y"


def test_a_reroute_while_the_case_is_suspended_waits_for_it_to_be_resumed() -> None:
    core = several("x", "y", on_declined="reroute")
    core.suspend()
    core.raises("served", Declined("not mine"))
    assert core.running == []
    core.resume()
    assert core.running == ["served"]
    assert core.activation("served").worker == "y"


def test_a_retry_that_comes_due_while_the_case_is_suspended_starts_when_it_is_resumed() -> None:
    core = one_worker()
    core.raises("work", OSError("away"))
    core.suspend()
    core.pass_time("1h")
    assert core.running == []
    core.resume()
    assert core.running == ["work"]


def test_resuming_before_a_retry_is_due_does_not_hurry_it() -> None:
    core = one_worker()
    core.raises("work", OSError("away"))
    core.suspend()
    core.resume()
    assert core.running == []
    core.pass_time("1s")
    assert core.running == ["work"]


def test_a_fault_of_the_case_is_recorded_once_and_nothing_runs_on() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", on_failed="fault_case")
    async def fragile(a: int) -> int:
        return a

    @d.worker(writes="c")
    async def other(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.raises("fragile", OSError("away"))
    assert core.count(CaseFaulted) == 1
    assert core.log[-1].name == "CASE_FAULTED"
    assert core.running == []


def test_a_result_of_an_attempt_that_is_not_the_current_one_is_dropped_with_an_event() -> None:
    core = one_worker()
    core.raises("work", OSError("away"))
    core.pass_time("1s")
    late = Returned(activation=ActivationId("c/work/1"), attempt=1, value=99)
    events = core.take(late)
    assert names(events) == ["WORKER_RESULT_DROPPED"]
    assert "attempt 2 is the current one" in of(events, WorkerResultDropped)[0].reason
    core.returns("work", 5)
    assert core.facts["b"] == 5


def test_a_result_of_an_attempt_that_has_failed_already_is_dropped_while_the_next_one_is_waited_for() -> None:
    core = one_worker()
    core.raises("work", OSError("away"))
    events = core.take(Returned(activation=ActivationId("c/work/1"), attempt=1, value=99))
    assert names(events) == ["WORKER_RESULT_DROPPED"]
    assert of(events, WorkerResultDropped)[0].reason == "attempt 1 had ended, and another one follows"
    core.pass_time("1s")
    core.returns("work", 5)
    assert core.facts["b"] == 5


def test_an_activation_settles_once() -> None:
    core = one_worker()
    core.returns("work", 5)
    assert core.status is CaseStatus.COMPLETED
    assert core.take(Returned(activation=ActivationId("c/work/1"), attempt=1, value=6)) == []
    assert core.count(WorkerExecutionCompleted) == 1
    assert core.facts["b"] == 5


def test_an_exception_without_text_is_named_and_a_huge_one_is_cut() -> None:
    core = one_worker()
    assert core.raises("work", KeyError())[0].message == "KeyError"  # type: ignore[attr-defined]  # a WorkerExecutionFailed
    core.pass_time("1s")
    message = core.raises("work", ValueError("x" * 10_000))[0].message  # type: ignore[attr-defined]  # a WorkerExecutionFailed
    assert len(message) == 2_000


def test_an_exception_with_text_that_cannot_be_stored_is_stored_without_it() -> None:
    core = one_worker()
    message = core.raises("work", ValueError("a\0b\ud800c"))[0].message  # type: ignore[attr-defined]  # a WorkerExecutionFailed
    assert message == "ab?c"


def test_the_time_of_an_outcome_is_the_time_it_came_in() -> None:
    core = one_worker()
    core.pass_time("90s")
    core.returns("work", 1)
    assert of(core.log, WorkerExecutionCompleted)[0].at == NOON + timedelta(seconds=90)
