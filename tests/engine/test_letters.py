"""Activations that ended in a fault: tried again on the same or edited facts, or settled."""

from __future__ import annotations

import pytest

from casehub import (
    ActivationId,
    CaseDefinition,
    CaseEndedError,
    CaseStalled,
    CaseStatus,
    DeadLetterDiscarded,
    DeadLetterRetried,
    Declined,
    InputRefusedError,
    Retry,
    Verdict,
    WorkerScheduled,
    every,
)
from casehub.inputs import DiscardLetter, RetryLetter
from tests.engine.core import Core, names, of

LETTER = ActivationId("c/assess/1")


def claim(**options: object) -> CaseDefinition:
    """amount -> risk, which is the goal."""
    d = CaseDefinition("d", goal="risk", **options)  # type: ignore[arg-type]  # options by name

    @d.worker(writes="risk", retry=Retry(1))
    async def assess(amount: int) -> int:
        return amount

    return d


def failed(**options: object) -> Core:
    core = Core(claim(**options))
    core.start(amount=3)
    core.raises("assess", OSError("away"))
    return core


def retry(core: Core, letter: str = LETTER, **facts: int) -> list[str]:
    return names(
        core.take(RetryLetter(activation=ActivationId(letter), facts=facts, by="user:ada", reason="it is back"))
    )


def test_a_dead_letter_is_retried_on_the_facts_it_had_and_the_case_goes_on() -> None:
    core = failed()
    assert core.count(CaseStalled) == 1
    assert retry(core) == ["DEAD_LETTER_RETRIED", "WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED"]
    (event,) = of(core.log, DeadLetterRetried)
    assert (event.binding, event.activation, event.reason, event.by) == ("assess", LETTER, "it is back", "user:ada")
    assert core.state.stalled == ()
    assert core.activation("assess").id == "c/assess/2"
    core.run()
    assert core.status is CaseStatus.COMPLETED


def test_a_dead_letter_is_retried_on_edited_facts_which_are_their_editors() -> None:
    core = failed()
    assert retry(core, amount=5)[:2] == ["DEAD_LETTER_RETRIED", "CONTEXT_CHANGED"]
    assert core.state.facts["amount"].author == "ada"
    core.run()
    assert core.facts["risk"] == 5


def test_an_edited_fact_that_is_what_it_was_changes_nothing() -> None:
    core = failed()
    assert "CONTEXT_CHANGED" not in retry(core, amount=3)
    assert core.running == ["assess"]


def test_a_fact_that_the_binding_does_not_read_is_refused_with_the_nearest() -> None:
    core = failed()
    with pytest.raises(InputRefusedError, match=r"reads no such fact; did you mean 'amount'\?"):
        retry(core, amuont=3)
    assert core.count(DeadLetterRetried) == 0


def test_a_retry_that_fails_is_a_dead_letter_of_its_own() -> None:
    core = failed()
    retry(core)
    core.raises("assess", OSError("away again"))
    with pytest.raises(InputRefusedError, match="its binding has fired again since"):
        retry(core)
    assert retry(core, "c/assess/2")[0] == "DEAD_LETTER_RETRIED"


def test_a_declined_activation_is_one_too() -> None:
    core = Core(claim())
    core.start(amount=3)
    core.raises("assess", Declined("not mine"))
    assert retry(core)[0] == "DEAD_LETTER_RETRIED"


def test_a_discarded_one_is_settled_and_the_binding_stays_as_it_is() -> None:
    core = failed()
    events = core.take(DiscardLetter(activation=LETTER, by="user:ada", reason="done by hand"))
    assert names(events) == ["DEAD_LETTER_DISCARDED"]
    assert of(events, DeadLetterDiscarded)[0].reason == "done by hand"
    assert core.why("assess").verdict is Verdict.UNCHANGED
    assert core.running == []
    with pytest.raises(InputRefusedError, match="it has been discarded; there is nothing to do"):
        retry(core)


def test_one_that_was_retried_is_not_retried_twice() -> None:
    core = failed(signals={"go": int})
    core.suspend()
    retry(core)
    with pytest.raises(InputRefusedError, match="it has been retried; there is nothing to do"):
        retry(core)
    core.resume()
    assert core.running == ["assess"]
    with pytest.raises(InputRefusedError, match="its binding has fired again since"):
        retry(core)


@pytest.mark.parametrize("letter", ["c/assess/7", "c/assess/0", "c/assess/x", "c/nothing/1"])
def test_what_is_no_activation_is_no_dead_letter(letter: str) -> None:
    with pytest.raises(InputRefusedError, match="no dead letter: the case has no such activation"):
        retry(failed(), letter)


def test_what_is_at_work_or_has_ended_well_is_no_dead_letter() -> None:
    core = Core(claim(signals={"more": int}))
    core.start(amount=3)
    with pytest.raises(InputRefusedError, match="it is at work; wait for how it ends"):
        retry(core)
    d = claim()
    d.completion = None
    core = Core(d)
    core.start(amount=3)
    core.run()
    with pytest.raises(InputRefusedError, match="it did not end in a fault; there is nothing to do"):
        retry(core)


def test_a_case_that_has_ended_has_no_dead_letters() -> None:
    core = failed()
    core.cancel()
    with pytest.raises(CaseEndedError, match="CANCELLED, a terminal status; start a new case instead"):
        retry(core)


def test_a_dead_letter_of_an_occurrence_is_retried_for_that_occurrence() -> None:
    d = CaseDefinition("d", signals={"x": int})

    @d.worker(writes="seen", on=every("1h", catch_up="skip"), retry=Retry(1))
    async def look() -> int:
        return 1

    core = Core(d)
    core.start()
    core.pass_time("1h")
    core.raises("look", OSError("away"))
    retry(core, "c/look/1")
    first, again = of(core.log, WorkerScheduled)
    assert (first.due, first.occurrence) == (again.due, again.occurrence)
    core.run()
    assert len(core.state.timers) == 1
