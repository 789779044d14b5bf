"""A case that ends otherwise than well undoes what it did: in which order, on which facts, and what may come in between."""

from __future__ import annotations

from typing import Any

import pytest

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    ABSENT,
    Budget,
    CaseCancelled,
    CaseCompensating,
    CaseDefinition,
    CaseEndedError,
    CaseFaulted,
    CaseStatus,
    Compensation,
    CompensationEnabled,
    CompensationStarted,
    ContextChanged,
    DeadLetterRetried,
    Declined,
    GoalReached,
    IllegalTransitionError,
    InputRefusedError,
    Limits,
    MilestoneReached,
    Permanent,
    Retry,
    TimerCancelled,
    Verdict,
    WorkerExecutionCancelled,
    WorkerExecutionFailed,
    WorkerScheduled,
    all_of,
    present,
)
from casehub.engine.brake import Brake, Pull
from casehub.engine.choreography import ChoreographyLoopControl
from casehub.engine.keeping import bring_back, keep
from casehub.events import ActivationId
from casehub.folding import apply, fold
from casehub.inputs import (
    Cancel,
    Compensate,
    Hold,
    HoldWorkers,
    ReleaseWorker,
    Reroute,
    RetryLetter,
    Suspend,
    Unfault,
)
from casehub.state import CaseState
from casehub.validation import build
from tests.engine.core import Core, names, of


def trip(**options: Any) -> CaseDefinition:
    """trip -> flight -> hotel -> paid, which is the goal; flight and hotel can be undone."""
    d = CaseDefinition("trip", goal="paid", signals={"trip": str}, **options)

    @d.worker(writes="flight")
    async def book_flight(trip: str) -> str:
        return f"flight to {trip}"

    @d.worker(writes="hotel")
    async def book_hotel(flight: str) -> str:
        return f"hotel for {flight}"

    @d.worker(writes="paid", retry=Retry(1), on_exhausted="fault_case")
    async def pay(hotel: str) -> bool:
        return True

    @d.worker(writes="refund", compensates="book_flight", retry=Retry(2, wait="1m", jitter=False))
    async def cancel_flight(flight: str, trip: str) -> str:
        return f"{flight} ({trip}) is off"

    @d.worker(compensates=book_hotel, retry=Retry(1))
    async def cancel_hotel(hotel: str, flight: str) -> None: ...

    return d


def booked(**options: Any) -> Core:
    core = Core(trip(**options))
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    core.returns("book_hotel", "H1")
    assert core.running == ["pay"]
    return core


def compensating(**options: Any) -> Core:
    core = booked(**options)
    core.raises("pay", OSError("no money"))
    assert core.status is CaseStatus.COMPENSATING
    return core


def test_a_case_that_faults_undoes_what_it_did_the_newest_first_one_at_a_time() -> None:
    core = booked()
    assert names(core.raises("pay", OSError("no money"))) == [
        "WORKER_EXECUTION_FAILED", "CASE_COMPENSATING",
        "COMPENSATION_STARTED", "WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED",
    ]  # fmt: skip
    assert core.status is CaseStatus.COMPENSATING
    assert core.running == ["cancel_hotel"]
    (began,) = of(core.log, CaseCompensating)
    assert (began.before, began.end, began.reason) == ("RUNNING", "FAULTED", "worker 'pay': no money")
    core.returns("cancel_hotel")
    assert core.running == ["cancel_flight"]
    assert names(core.returns("cancel_flight", "R1"))[-2:] == ["CONTEXT_CHANGED", "CASE_FAULTED"]
    assert core.status is CaseStatus.FAULTED
    assert core.state.reason == "worker 'pay': no money"
    assert core.facts["refund"] == "R1"
    started = of(core.log, CompensationStarted)
    assert [(each.activation, each.undone_by) for each in started] == [
        ("c/book_hotel/1", "c/cancel_hotel/1"), ("c/book_flight/1", "c/cancel_flight/1"),
    ]  # fmt: skip


def test_a_case_that_is_cancelled_undoes_it_too_and_what_ran_is_called_off_before() -> None:
    core = booked()
    events = names(core.cancel("no time"))
    assert events[:2] == ["WORKER_EXECUTION_CANCELLED", "CASE_COMPENSATING"]
    core.run()
    assert (core.status, core.state.reason, core.state.ended_by) == ("CANCELLED", "no time", "user:ada")
    assert core.worked == ["cancel_hotel", "cancel_flight"]


def test_a_case_that_completes_undoes_nothing() -> None:
    core = booked()
    core.run()
    assert core.status is CaseStatus.COMPLETED
    assert not of(core.log, CompensationStarted)


def test_what_has_not_completed_is_not_undone() -> None:
    core = Core(trip())
    core.start(trip="Rome")
    assert names(core.cancel()) == ["WORKER_EXECUTION_CANCELLED", "CASE_CANCELLED"]


def test_a_kill_undoes_nothing_and_says_what_it_leaves() -> None:
    core = booked()
    core.take(Cancel(kill=True, by="user:ada", reason="now"))
    assert core.status is CaseStatus.CANCELLED
    assert core.state.reason == "now; not compensated: c/book_hotel/1 (not tried), c/book_flight/1 (not tried)"


def test_a_kill_while_it_compensates_calls_off_what_undoes() -> None:
    core = compensating()
    assert names(core.take(Cancel(kill=True, by="user:ada"))) == ["WORKER_EXECUTION_CANCELLED", "CASE_CANCELLED"]
    assert core.state.reason == ("not compensated: c/book_hotel/1 (the case is CANCELLED), c/book_flight/1 (not tried)")


def test_a_case_that_compensates_is_not_cancelled_twice() -> None:
    core = booked()
    core.cancel()
    with pytest.raises(
        IllegalTransitionError, match="undoes what it did, and will be CANCELLED then; wait for that, or"
    ):
        core.cancel()
    core = compensating()
    with pytest.raises(IllegalTransitionError, match="will be FAULTED then"):
        core.cancel()


@pytest.mark.parametrize(("on", "undone"), [(("CANCELLED",), False), ("FAULTED", True), ((), False)])
def test_a_definition_says_before_which_ends_it_compensates(on: Any, undone: bool) -> None:
    core = booked(compensation=Compensation(on=on))
    core.raises("pay", OSError("no money"))
    assert core.status is (CaseStatus.COMPENSATING if undone else CaseStatus.FAULTED)
    assert "not compensated" not in core.state.reason


# ---- what is undone, on which facts


def test_what_undoes_sees_what_was_read_and_returned_as_it_was_then_and_the_rest_as_it_is_now() -> None:
    d = CaseDefinition("d", signals={"trip": str, "desk": str})
    seen: list[tuple[str, str, str]] = []

    @d.worker(writes="flight")
    async def book(trip: str) -> str:
        return f"to {trip}"

    @d.worker(compensates=book)
    async def cancel(trip: str, flight: str, desk: str) -> None:
        seen.append((trip, flight, desk))

    core = Core(d)
    core.start(trip="Rome", desk="north")
    core.run()
    core.signal(trip="Oslo")
    core.run()
    core.signal(desk="south")
    core.cancel()
    core.run()
    assert seen == [("Oslo", "to Oslo", "south"), ("Rome", "to Rome", "south")]
    assert core.status is CaseStatus.CANCELLED


def test_what_was_returned_and_was_so_already_counts_as_returned() -> None:
    d = CaseDefinition("d", signals={"trip": str, "seat": str})
    seen: list[str] = []

    @d.worker(writes="seat")
    async def book(trip: str) -> str:
        return "1A"

    @d.worker(compensates=book)
    async def cancel(seat: str) -> None:
        seen.append(seat)

    core = Core(d)
    core.start(trip="Rome", seat="1A")
    core.run()
    assert not of(core.log, ContextChanged, binding="book")
    core.signal(seat="9F")
    core.cancel()
    core.run()
    assert seen == ["1A"]


def test_what_was_written_by_a_merge_is_what_counts() -> None:
    d = CaseDefinition("d", signals={"trip": str, "seats": list[str]})

    def both(theirs: Any, mine: Any) -> Any:
        return [*theirs, *mine]

    @d.worker(writes="seats", merge=both)
    async def book(trip: str) -> list[str]:
        return ["1A"]

    @d.worker(compensates=book)
    async def cancel(seats: list[str]) -> None: ...

    core = Core(d)
    core.start(trip="Rome")
    core.signal(seats=["9F"])
    core.returns("book", ["1A"])
    core.cancel()
    assert core.activation("cancel").facts["seats"].value == ["9F", "1A"]


def test_a_fact_that_is_gone_and_was_not_there_fails_it_without_a_call() -> None:
    d = CaseDefinition("d", signals={"trip": str, "desk": str})

    @d.worker
    async def book(trip: str) -> None: ...

    @d.worker(compensates=book)
    async def cancel(desk: str) -> None: ...

    core = Core(d)
    core.start(trip="Rome")
    core.returns("book")
    core.cancel("off")
    assert core.status is CaseStatus.CANCELLED
    assert core.state.reason == ("off; not compensated: c/book/1 (needs 'desk', which is not there)")


def test_what_has_been_hidden_since_is_hidden_from_what_undoes_and_what_was_deleted_is_not() -> None:
    core = booked()
    core.write(delete=("flight",))
    core.write(hide=("trip",))
    core.cancel("off")
    core.returns("cancel_hotel")
    assert core.state.reason == ("off; not compensated: c/book_flight/1 (needs 'trip', which is not there)")
    core = booked()
    core.write(delete=("flight",))
    core.cancel()
    assert core.run() == ["cancel_hotel", "cancel_flight"]
    assert core.facts["refund"] == "F1 (Rome) is off"


def test_each_completion_of_a_binding_is_undone() -> None:
    core = booked()
    core.signal(trip="Oslo")
    core.returns("book_flight", "F2")
    core.cancel()
    core.run()
    assert [e.activation for e in of(core.log, CompensationStarted)] == [
        "c/book_flight/2", "c/book_hotel/1", "c/book_flight/1",
    ]  # fmt: skip


def test_only_what_has_a_compensation_says_that_it_can_be_undone() -> None:
    core = booked()
    assert [e.binding for e in of(core.log, CompensationEnabled)] == ["book_flight", "book_hotel"]


# ---- failures


def test_what_fails_is_retried_then_named_and_the_rest_goes_on() -> None:
    core = compensating()
    core.raises("cancel_hotel", ValueError("no such booking"))
    assert core.running == ["cancel_flight"]
    core.raises("cancel_flight", OSError("away"))
    assert core.running == []
    assert core.why("cancel_flight").verdict is Verdict.RETRY_WAIT
    core.pass_time("1m")
    core.returns("cancel_flight", "R1")
    assert core.status is CaseStatus.FAULTED
    assert core.state.reason == "worker 'pay': no money; not compensated: c/book_hotel/1 (no such booking)"


def test_the_reason_names_the_first_of_many() -> None:
    core = booked()
    for number in range(2, 5):
        core.signal(trip=f"Oslo {number}")
        core.returns("book_flight", f"F{number}")
    core.take(Cancel(kill=True))
    assert core.state.reason.endswith("c/book_flight/2 (not tried) and 2 more")


def test_one_that_declines_has_not_undone_it_and_one_whose_failure_is_ignored_has() -> None:
    core = compensating()
    core.raises("cancel_hotel", Declined("too late"))
    core.returns("cancel_flight")
    assert "c/book_hotel/1 (too late)" in core.state.reason

    d = CaseDefinition("d", signals={"trip": str})

    @d.worker
    async def book(trip: str) -> None: ...

    @d.worker(compensates=book, on_failed="ignore")
    async def cancel() -> None: ...

    core = Core(d)
    core.start(trip="Rome")
    core.returns("book")
    core.cancel()
    core.raises("cancel", OSError("away"))
    assert (core.status, core.state.reason) == ("CANCELLED", "")


def test_past_its_deadline_it_ends_with_the_rest_not_undone() -> None:
    core = compensating(compensation=Compensation(deadline="1h"))
    events = names(core.pass_time("1h"))
    assert events == ["TIMER_FIRED", "WORKER_EXECUTION_CANCELLED", "CASE_FAULTED"]
    assert core.state.reason == (
        "worker 'pay': no money; not compensated: c/book_hotel/1 (the time to compensate is over), "
        "c/book_flight/1 (not tried)"
    )


def test_the_timers_of_retries_that_are_called_off_go_with_them() -> None:
    d = trip()

    @d.worker(retry=Retry(3, wait="1h", jitter=False))
    async def tell(flight: str) -> None: ...

    core = Core(d)
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    core.raises("tell", OSError("away"))
    core.cancel()
    assert [e.timer for e in of(core.log, TimerCancelled)] == ["retry:c/tell/1"]


def test_a_dead_letter_of_one_can_be_retried_until_the_case_ends() -> None:
    core = compensating()
    core.raises("cancel_hotel", ValueError("no such booking"))
    core.take(RetryLetter(activation=ActivationId("c/cancel_hotel/1"), by="user:ada"))
    core.returns("cancel_flight")
    assert core.running == ["cancel_hotel"]
    core.returns("cancel_hotel")
    assert (core.status, core.state.reason) == ("FAULTED", "worker 'pay': no money")


def test_a_dead_letter_of_anything_else_is_not_retried_while_it_compensates() -> None:
    d = trip()

    @d.worker(retry=Retry(1))
    async def tell(flight: str) -> None: ...

    core = Core(d)
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    core.raises("tell", OSError("away"))
    core.cancel()
    with pytest.raises(IllegalTransitionError, match="undoes what it did, and starts nothing else"):
        core.take(RetryLetter(activation=ActivationId("c/tell/1")))


# ---- what comes in between


def test_nothing_else_fires_and_no_goal_or_milestone_is_tested() -> None:
    d = trip()
    d.milestone("refunded", present("refund"))
    d.goal("off", present("refund"))
    core = Core(d)
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    core.cancel()
    core.signal(trip="Oslo")
    assert core.running == ["cancel_flight"]
    said = core.why("book_flight")
    assert said.verdict is Verdict.COMPENSATING
    assert said.text == "the case undoes what it did, and will be CANCELLED: "
    core.returns("cancel_flight", "R")
    assert not of(core.log, MilestoneReached)
    assert not of(core.log, GoalReached)


def test_why_says_what_is_to_be_undone() -> None:
    core = Core(trip())
    core.start(trip="Rome")
    assert core.why("cancel_flight").verdict is Verdict.COMPENSATION
    assert core.why("cancel_flight").text == "undoes book_flight, of which nothing is left to undo"
    core.returns("book_flight", "F1")
    assert core.why("cancel_flight").text == "undoes c/book_flight/1 if the case ends otherwise than well"
    core.returns("book_hotel", "H1")
    core.cancel()
    assert core.why("cancel_hotel").verdict is Verdict.IN_FLIGHT
    assert (
        core.why("cancel_flight").text
        == "undoes c/book_flight/1; waits until c/cancel_hotel/1 has undone c/book_hotel/1"
    )


def test_a_suspended_case_undoes_nothing_until_it_is_resumed() -> None:
    core = compensating()
    core.suspend()
    core.returns("cancel_hotel")
    assert core.running == []
    assert core.why("cancel_flight").verdict is Verdict.SUSPENDED
    assert names(core.resume())[0] == "CASE_STATUS_CHANGED"
    assert core.status is CaseStatus.COMPENSATING
    core.run()
    assert core.status is CaseStatus.FAULTED


def test_a_case_that_faults_while_it_is_suspended_waits_and_one_that_is_cancelled_does_not() -> None:
    core = booked()
    core.suspend()
    core.raises("pay", OSError("no money"))
    assert (core.status, core.running) == ("SUSPENDED", [])
    with pytest.raises(IllegalTransitionError, match="will be FAULTED then"):
        core.cancel()
    core.resume()
    assert (core.status, core.running) == ("COMPENSATING", ["cancel_hotel"])
    core = booked()
    core.suspend()
    core.cancel()
    assert (core.status, core.running) == ("COMPENSATING", ["cancel_hotel"])


def test_no_limit_and_no_budget_holds_it_back() -> None:
    core = booked(limits=Limits(firings=3), budget=Budget(calls=3))
    core.cancel()
    core.run()
    assert core.worked == ["cancel_hotel", "cancel_flight"]


def test_a_process_that_ends_leaves_it_to_the_next() -> None:
    core = compensating()
    core.crash()
    assert core.running == ["cancel_hotel"]
    assert core.activation("cancel_hotel").attempt == 2
    core.returns("cancel_hotel")
    core.crash()
    core.run()
    assert core.status is CaseStatus.FAULTED
    assert len(of(core.log, CompensationStarted)) == 2


def test_a_condition_that_raises_faults_the_case_which_undoes_what_it_did() -> None:
    def broken(hotel: str) -> bool:
        raise ValueError("oh")

    d = trip()
    d.milestone("there", broken)
    core = Core(d)
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    core.returns("book_hotel", "H1")
    assert core.status is CaseStatus.COMPENSATING
    core.run()
    assert core.status is CaseStatus.FAULTED
    assert core.worked == ["cancel_hotel", "cancel_flight"]


def test_the_plan_of_a_case_whose_condition_raised_is_what_its_log_folds_to() -> None:
    def broken(hotel: str) -> bool:
        raise ValueError("oh")

    d = trip()
    d.milestone("there", broken)
    core = Core(d, loop=PlanningStrategyLoopControl(EverythingEligible()).over(build(d)))
    core.start(trip="Rome")
    core.answer("book_flight")
    core.returns("book_flight", "F1")
    core.answer("book_hotel")
    core.returns("book_hotel", "H1")
    assert core.status is CaseStatus.COMPENSATING
    core.run()  # the log is folded and compared after each turn
    assert core.status is CaseStatus.FAULTED
    assert [item.binding for item in core.state.control.view({}, {}).ended][-1:] == ["cancel_flight"]


def test_a_loop_control_whose_own_fold_raises_leaves_a_case_that_has_ended() -> None:
    class Broken(ChoreographyLoopControl):
        handles = frozenset({CaseCompensating, WorkerExecutionCancelled})

        def apply(self, control: Any, event: Any) -> Any:
            raise ValueError("oh")

    core = Core(trip(), loop=Broken())
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    turn = core.live.take(Cancel(at=core.now))
    assert turn.events[-1].name == "CASE_FAULTED"
    assert core.live.state.reason.startswith("ValueError: oh")


# ---- unfault


def unfaulted(core: Core, **facts: Any) -> list[str]:
    core.reload()
    return names(core.take(Unfault(facts=facts, by="user:ada")))


def test_an_unfaulted_case_does_anew_what_was_undone() -> None:
    core = compensating()
    core.run()
    assert unfaulted(core)[:2] == ["CASE_UNFAULTED", "CONTEXT_CHANGED"]
    assert core.facts.keys() == {"trip", "refund"}, "what was undone had written the others"
    assert core.running == ["book_flight"], "pay is retried once there is a hotel again"
    core.run()
    assert core.status is CaseStatus.COMPLETED
    assert core.worked == ["cancel_hotel", "cancel_flight", "book_flight", "book_hotel", "pay"]
    assert len(of(core.log, DeadLetterRetried)) == 1


def test_what_could_not_be_undone_still_counts_as_done_and_is_undone_with_the_next_end() -> None:
    core = compensating()
    core.returns("cancel_hotel")
    core.raises("cancel_flight", OSError("away"))
    core.pass_time("1m")
    core.raises("cancel_flight", OSError("away"))
    assert core.status is CaseStatus.FAULTED
    unfaulted(core)
    assert core.facts["flight"] == "F1"
    assert core.running == ["book_hotel"]
    core.returns("book_hotel", "H2")
    core.cancel()
    core.run()
    assert [e.activation for e in of(core.log, CompensationStarted)][2:] == ["c/book_hotel/2", "c/book_flight/1"]
    assert (core.status, core.state.reason) == ("CANCELLED", "")


def test_a_fact_that_somebody_has_written_since_stays_and_one_that_is_brought_counts() -> None:
    core = booked()
    core.write(facts={"flight": "by hand"}, by="user:ada")
    core.raises("pay", OSError("no money"))
    core.run()
    unfaulted(core, hotel="H1")
    assert core.facts["flight"] == "by hand"
    assert core.facts["hotel"] == "H1", "it had the same value before"


def test_a_goal_whose_facts_went_with_it_is_reached_no_more() -> None:
    d = trip()
    d.completion = all_of("flight", "paid")
    core = Core(d)
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    core.returns("book_hotel", "H1")
    assert "flight" in core.state.goals
    core.raises("pay", OSError("no money"))
    core.run()
    unfaulted(core)
    assert "flight" not in core.state.goals


# ---- by hand


def test_one_activation_can_be_undone_by_hand_and_is_not_undone_again() -> None:
    core = booked()
    core.take(Compensate(what="book_flight", by="user:ada"))
    assert core.running == ["pay", "cancel_flight"]
    core.returns("cancel_flight")
    assert core.running == ["pay"], "and it is not done again"
    with pytest.raises(InputRefusedError, match="it has not completed, or is undone already"):
        core.take(Compensate(what="book_flight"))
    core.cancel()
    core.run()
    assert [e.activation for e in of(core.log, CompensationStarted)] == ["c/book_flight/1", "c/book_hotel/1"]


def test_by_hand_it_is_named_by_its_id_too() -> None:
    core = booked()
    core.signal(trip="Oslo")
    core.returns("book_flight", "F2")
    core.take(Compensate(what="c/book_flight/1"))
    assert core.activation("cancel_flight").facts["flight"].value == "F1"
    with pytest.raises(IllegalTransitionError, match="cancel_flight is at work; wait for it"):
        core.take(Compensate(what="book_flight"))


def test_what_is_being_undone_by_hand_goes_on_when_the_case_ends() -> None:
    core = booked()
    core.take(Compensate(what="book_flight"))
    core.cancel()
    assert core.running == ["cancel_flight"]
    assert [e.binding for e in of(core.log, WorkerExecutionCancelled)] == ["pay"]
    core.run()
    assert core.worked == ["cancel_flight", "cancel_hotel"]


def test_a_case_completes_once_what_is_being_undone_by_hand_is() -> None:
    core = booked()
    core.take(Compensate(what="book_flight"))
    core.returns("pay", True)
    assert core.status is CaseStatus.RUNNING
    core.returns("cancel_flight")
    assert core.status is CaseStatus.COMPLETED


def test_a_failure_by_hand_is_a_dead_letter_that_can_be_retried_with_edited_facts() -> None:
    core = booked()
    core.take(Compensate(what="book_hotel"))
    core.raises("cancel_hotel", ValueError("no such booking"))
    assert core.running == ["pay"]
    core.suspend()
    letter = ActivationId("c/cancel_hotel/1")
    with pytest.raises(IllegalTransitionError, match="is SUSPENDED; resume it first"):
        core.take(RetryLetter(activation=letter))
    core.resume()
    core.take(RetryLetter(activation=letter, facts={"hotel": "H1b"}))
    assert core.activation("cancel_hotel").facts["hotel"].value == "H1b"
    core.returns("cancel_hotel")
    core.returns("pay", True)
    assert core.status is CaseStatus.COMPLETED


def test_what_failed_by_hand_is_tried_again_when_the_case_ends() -> None:
    core = Core(trip())
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    core.take(Compensate(what="book_flight"))
    core.raises("cancel_flight", Permanent("no refunds"))
    core.cancel()
    assert (core.status, core.running) == ("COMPENSATING", ["cancel_flight"])
    core.returns("cancel_flight")
    assert (core.status, core.state.reason) == ("CANCELLED", "")


def able(**options: Any) -> Core:
    """A case that has booked, and two workers that are able to undo it."""
    d = CaseDefinition("d", signals={"trip": str})

    @d.worker
    async def book(trip: str) -> None: ...

    @d.worker(capability="undo")
    async def by_mail(trip: str) -> None: ...

    @d.worker(capability="undo")
    async def by_phone(trip: str) -> None: ...

    d.binding("cancel", capability="undo", compensates="book", retry=Retry(2, wait="1m", jitter=False), **options)
    core = Core(d)
    core.start(trip="Rome")
    core.returns("book")
    return core


def test_another_worker_of_the_capability_takes_over_while_the_case_compensates() -> None:
    core = able(on_failed="reroute")
    core.cancel()
    core.raises("cancel", OSError("away"))
    assert core.activation("cancel").worker == "by_phone"
    assert core.running == ["cancel"]


def test_a_failure_by_hand_can_be_rerouted() -> None:
    core = able()
    core.take(Compensate(what="book"))
    core.raises("cancel", Permanent("no such address"))
    core.take(Reroute(binding="cancel", to="by_phone"))
    assert (core.activation("cancel").worker, core.running) == ("by_phone", ["cancel"])


def test_a_retry_of_a_suspended_worker_is_taken_up_when_that_is_resumed() -> None:
    core = compensating()
    core.returns("cancel_hotel")
    core.raises("cancel_flight", OSError("away"))
    core.take(HoldWorkers(workers={"cancel_flight": Hold()}))
    core.pass_time("1m")
    assert core.running == []
    core.take(ReleaseWorker(worker="cancel_flight"))
    assert core.running == ["cancel_flight"]


def test_a_brake_holds_a_case_that_compensates_before_it_takes_anything() -> None:
    brake = Brake()
    brake.on["d"] = Pull(by="user:ada")
    held = brake.hold(compensating().state, "d", Compensate(what="book"))
    assert isinstance(held, Suspend)


def test_what_cannot_be_undone_by_hand_is_refused() -> None:
    core = booked()
    with pytest.raises(
        InputRefusedError, match="nothing compensates binding 'book_flihgt'; did you mean 'book_flight'"
    ):
        core.take(Compensate(what="book_flihgt"))
    core.suspend()
    with pytest.raises(IllegalTransitionError, match="resume it first"):
        core.take(Compensate(what="book_flight"))
    core.resume()
    core.cancel()
    with pytest.raises(IllegalTransitionError, match="it undoes what is left by itself"):
        core.take(Compensate(what="book_flight"))
    core.run()
    with pytest.raises(CaseEndedError, match="a terminal status"):
        core.take(Compensate(what="book_flight"))


# ---- it never fires otherwise


def test_a_compensation_never_fires_by_its_facts() -> None:
    d = CaseDefinition("d", goal="done", signals={"flight": str, "done": bool})

    @d.worker(refire="once")
    async def book() -> None: ...

    @d.worker(writes="refund", compensates=book)
    async def cancel(flight: str) -> str:
        return "all"

    core = Core(d)
    core.start(flight="F1")
    core.returns("book")
    core.signal(flight="F2")
    assert core.running == []
    core.take(Compensate(what="book"))
    core.returns("cancel", "all")
    core.signal(flight="F3")
    core.write(delete=("refund",))
    assert [e.binding for e in of(core.log, WorkerScheduled)] == ["book", "cancel"]


def test_a_case_that_stalls_does_not_name_its_compensations() -> None:
    d = CaseDefinition("d", goal="paid")

    @d.worker(writes="flight", refire="once")
    async def book() -> str:
        return "F1"

    @d.worker(compensates=book)
    async def cancel(flight: str) -> None: ...

    @d.worker(writes="paid", when=lambda flight: flight == "F2")
    async def pay(flight: str) -> bool:
        return True

    core = Core(d)
    core.start()
    core.run()
    assert core.state.stalled
    assert not [reason for reason in core.state.stalled if "cancel" in reason]


def test_it_may_delete_what_is_true_no_more() -> None:
    d = trip()

    @d.worker(writes=["car"])
    async def book_car(flight: str) -> dict[str, Any]:
        return {"car": "C1"}

    @d.worker(writes=["car"], compensates=book_car)
    async def cancel_car(car: str) -> dict[str, Any]:
        return {"car": ABSENT}

    core = Core(d)
    core.start(trip="Rome")
    core.returns("book_flight", "F1")
    core.returns("book_car", {"car": "C1"})
    core.take(Compensate(what="book_car"))
    core.returns("cancel_car", {"car": ABSENT})
    assert "car" not in core.facts
    assert core.running == ["book_hotel"]


def test_the_end_is_the_last_event_and_its_cause_is_what_led_to_it() -> None:
    core = compensating()
    core.run()
    assert isinstance(core.log[-1], CaseFaulted)
    (failed,) = of(core.log, WorkerExecutionFailed)
    (began,) = of(core.log, CaseCompensating)
    assert began.cause == failed.version
    core = booked()
    core.cancel()
    core.run()
    assert isinstance(core.log[-1], CaseCancelled)


def test_a_snapshot_at_any_event_goes_on_as_the_case_does() -> None:
    core = compensating()
    core.raises("cancel_hotel", ValueError("no such booking"))
    core.raises("cancel_flight", OSError("away"))
    core.pass_time("1m")
    core.returns("cancel_flight", "R1")
    unfaulted(core)
    core.run()
    state = CaseState(core.state.id)
    for place, event in enumerate(core.log):
        apply(state, event)
        kept = keep(state, core.loop, 7)
        assert kept is not None
        loaded = bring_back(kept, state.id, state.tenant, core.loop).state
        assert loaded == state
        assert fold(state.id, core.log[place + 1 :], loaded) == core.state
