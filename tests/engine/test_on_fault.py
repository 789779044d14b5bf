"""Bindings that another one's failure triggers."""

from __future__ import annotations

import pytest

from casehub import CaseDefinition, CaseStatus, DefinitionError, Faulted, Retry, Verdict, WorkerScheduled
from casehub.inputs import RetryLetter
from casehub.validation import build
from tests.engine.core import Core, of


def order(**policy: object) -> CaseDefinition:
    """What is ordered is shipped; where that fails for good, somebody apologizes."""
    d = CaseDefinition("d", goal="shipped", signals={"order": int})

    @d.worker(writes="shipped", **policy)  # type: ignore[arg-type]  # options by name
    async def ship(order: int) -> int:
        return order

    @d.worker(writes="billed", retry=Retry(1))
    async def bill(order: int) -> int:
        return order

    @d.worker(writes="letter", on=Faulted("ship"))
    async def apologize(order: int) -> str:
        return f"sorry for {order}"

    return d


def test_it_fires_when_the_other_has_failed_for_good_and_not_before() -> None:
    core = Core(order(retry=Retry(2, wait="1s", jitter=False)))
    core.start(order=1)
    assert core.why("apologize").verdict is Verdict.UNCHANGED
    core.raises("ship", OSError("away"))
    assert core.running == ["bill"]
    core.pass_time("1s")
    core.raises("ship", OSError("away"))
    assert core.running == ["bill", "apologize"]
    core.returns("apologize", "sorry")
    core.returns("bill", 1)
    assert core.facts["letter"] == "sorry"


def test_the_failure_of_another_binding_and_an_outcome_that_is_none_are_no_triggers() -> None:
    core = Core(order(retry=Retry(1), on_exhausted="ignore"))
    core.start(order=1)
    core.raises("bill", OSError("away"))
    core.raises("ship", OSError("away"))
    assert core.count(WorkerScheduled, binding="apologize") == 0


def test_it_fires_once_for_each_failure_over_restarts_too() -> None:
    core = Core(order(retry=Retry(1)))
    core.start(order=1)
    core.raises("ship", OSError("away"))
    core.crash()
    core.run(limit=2)
    assert core.count(WorkerScheduled, binding="apologize") == 1
    core.take(RetryLetter(activation=of(core.log, WorkerScheduled, binding="ship")[-1].activation))
    core.raises("ship", OSError("away"))
    assert core.count(WorkerScheduled, binding="apologize") == 2


def test_a_case_that_the_failure_ends_triggers_nothing() -> None:
    core = Core(order(retry=Retry(1), on_exhausted="fault_case"))
    core.start(order=1)
    core.raises("ship", OSError("away"))
    assert core.status is CaseStatus.FAULTED
    assert core.count(WorkerScheduled, binding="apologize") == 0


def test_a_binding_that_is_none_is_refused_with_the_nearest() -> None:
    d = order()

    @d.worker(writes="note", on=Faulted("shipp"))
    async def note(order: int) -> str:
        return ""

    with pytest.raises(
        DefinitionError, match=r"waits for a failure of 'shipp', which is no binding; did you mean 'ship'"
    ):
        build(d)
