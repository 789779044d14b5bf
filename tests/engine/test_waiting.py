"""A case that rests: done, waiting for somebody, or stalled with its reasons."""

from __future__ import annotations

from collections.abc import Sequence

from casehub import (
    Binding,
    CaseDefinition,
    CaseStalled,
    CaseStatus,
    CaseStatusChanged,
    CaseView,
    ChoreographyLoopControl,
    MilestoneSlaViolated,
    WorkerExecutionFailed,
    present,
)
from casehub.policies import Retry
from tests.engine.core import Core, names, of


class Picky(ChoreographyLoopControl):
    """Chooses nothing."""

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        return ()


def chain(**options: object) -> CaseDefinition:
    """a -> b -> c, and c is the goal."""
    d = CaseDefinition("d", goal="c", **options)  # type: ignore[arg-type]  # options by name

    @d.worker(writes="b", retry=Retry(1))
    async def first(a: int) -> int:
        return a

    @d.worker(writes="c")
    async def second(b: int) -> int:
        return b

    return d


def test_a_case_that_signals_may_move_waits() -> None:
    core = Core(chain(signals=["a"]))
    events = core.start()
    assert names(events) == ["CASE_STARTED", "CASE_STATUS_CHANGED"]
    assert core.status is CaseStatus.WAITING
    assert core.state.stalled == ()


def test_what_comes_in_makes_a_waiting_case_run_again() -> None:
    core = Core(chain(signals=["a"]))
    core.start()
    events = core.signal(a=1)
    changed = of(events, CaseStatusChanged)
    assert [(e.before, e.after) for e in changed] == [(CaseStatus.WAITING, CaseStatus.RUNNING)]
    assert core.status is CaseStatus.RUNNING


def test_a_signal_that_starts_nothing_leaves_it_waiting_without_a_change_of_status() -> None:
    core = Core(chain(signals=["a", "other"]))
    core.start()
    core.signal(other=1)
    assert core.status is CaseStatus.WAITING
    assert core.count(CaseStatusChanged) == 2  # its start, and that it waits


def test_a_case_that_waits_after_a_failure_says_what_failed() -> None:
    core = Core(chain(signals=["a"]))
    core.start(a=1)
    core.raises("first", RuntimeError("no line"))
    assert core.status is CaseStatus.WAITING
    assert core.state.reason == "first: WORKER_EXECUTION_FAILED: no line"
    core.signal(a=2)
    assert core.status is CaseStatus.RUNNING
    assert core.state.reason == ""


def test_a_case_without_any_end_waits() -> None:
    d = CaseDefinition("d")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.run()
    assert core.status is CaseStatus.WAITING


def test_a_case_that_nothing_can_move_stalls_and_stays_running() -> None:
    core = Core(chain())
    core.start(a=1)
    events = core.raises("first", OSError("away"))
    assert names(events)[-1] == "CASE_STALLED"
    assert core.status is CaseStatus.RUNNING
    assert core.turn is not None
    assert core.turn.stalled


def test_a_stall_says_what_is_missing_who_would_have_written_it_and_which_goal_is_unmet() -> None:
    core = Core(chain())
    core.start(a=1)
    core.raises("first", OSError("away"))
    reasons = of(core.log, CaseStalled)[0].reasons
    assert reasons == (
        "first: UNCHANGED - has run on these facts (WORKER_EXECUTION_FAILED: away)",
        "second: MISSING_FACTS - needs 'b', which first would write",
        "goal c is not reached: present('c') does not hold",
    )


def test_a_binding_that_has_done_its_work_is_no_reason() -> None:
    d = chain()

    @d.worker(writes="d")
    async def fine(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.returns("fine", 1)
    core.raises("first", OSError("away"))
    assert not any(reason.startswith("fine") for reason in core.state.stalled)


def test_a_binding_whose_trigger_never_came_is_a_reason() -> None:
    d = CaseDefinition("d", goal="report")

    @d.worker(writes="b", on_failed="ignore")
    async def work(a: int) -> int:
        return a

    @d.worker(writes="report", on=WorkerExecutionFailed)
    async def report(a: int) -> str:
        return "failed"

    core = Core(d)
    core.start(a=1)
    core.returns("work", 1)
    assert core.status is CaseStatus.RUNNING
    assert "report: UNCHANGED - what triggers it has not happened" in core.state.stalled


def test_a_stall_is_said_once_and_again_after_something_changed() -> None:
    core = Core(chain())
    core.start(a=1)
    core.raises("first", OSError("away"))
    assert core.count(CaseStalled) == 1
    core.write(facts={"a": 2})  # an operator mends it
    assert core.state.stalled == ()
    assert core.running == ["first"]
    core.raises("first", OSError("away"))
    assert core.count(CaseStalled) == 2


def test_a_suspended_case_is_not_stalled() -> None:
    core = Core(chain())
    core.start(a=1)
    core.suspend()
    core.raises("first", OSError("away"))
    assert core.state.stalled == ()
    core.resume()
    assert core.state.stalled


def test_an_eligible_binding_that_is_not_chosen_stalls_the_case_as_not_selected() -> None:
    core = Core(chain(), loop=Picky())
    core.start(a=1)
    assert core.state.stalled[0].startswith("first: NOT_SELECTED - ")


def test_a_case_that_waits_for_a_retry_neither_waits_nor_stalls() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.raises("work", OSError("away"))
    assert core.status is CaseStatus.RUNNING
    assert core.state.stalled == ()


def test_a_service_level_that_moves_nothing_does_not_keep_a_case_from_stalling() -> None:
    d = chain()
    d.milestone("seen", present("b"), sla="1h")
    core = Core(d)
    core.start(a=1)
    core.raises("first", OSError("away"))
    assert core.state.stalled


def test_a_service_level_that_somebody_listens_to_can_move_a_case_so_it_waits() -> None:
    d = chain()
    d.milestone("seen", present("b"), sla="1h")

    @d.worker(writes="c", on=MilestoneSlaViolated)
    async def escalate() -> int:
        return 0

    core = Core(d)
    core.start(a=1)
    core.raises("first", OSError("away"))
    assert core.state.stalled == ()
    assert core.status is CaseStatus.WAITING
    core.pass_time("1h")
    assert core.running == ["escalate"]
    core.run()
    assert core.status is CaseStatus.COMPLETED


def test_quiescence_does_not_complete_a_case_that_holds_something_back() -> None:
    d = CaseDefinition("d", at_quiescence=True)

    @d.worker(writes="b", budget=None, limit=1, refire="always")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.run()
    assert core.status is CaseStatus.RUNNING
    assert "work: LIMIT - held back by firings_per_binding (1)" in core.state.stalled
