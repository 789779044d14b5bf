"""Work goes to another worker by hand: while it runs, while it waits for its next attempt, after it has failed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from casehub import (
    CaseDefinition,
    CaseEndedError,
    CaseHub,
    CaseStatus,
    DeadLetterRetried,
    HumanTask,
    IllegalTransitionError,
    InputRefusedError,
    Retry,
    WorkerExecutionRerouted,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.adapters.clock import VirtualClock
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle

gone: list[str] = []


def claim(**policy: Any) -> CaseDefinition:
    """Two workers may rate; the first waits for ever, or fails for an amount below zero."""
    d = CaseDefinition("claim", goal="risk")

    @d.worker(writes="risk", capability="rate")
    async def assess(amount: int) -> int:
        if amount < 0:
            raise OSError("away")
        try:
            await asyncio.Event().wait()
        finally:
            gone.append("assess")
        return amount

    @d.worker(writes="risk", capability="rate")
    async def guess(amount: int) -> int:
        return -amount

    d.binding("rate", capability="rate", **policy)
    return d


async def test_what_runs_is_called_off_and_goes_on_with_the_other_worker_on_the_same_facts() -> None:
    gone.clear()
    d = claim()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, case_id="x", amount=2)
        await kit.settle()
        await case.reroute("rate", to="guess", by="user:ada", reason="too slow")
        assert (await case.completed())["risk"] == -2
        assert gone == ["assess"]
        (event,) = kit.events(case, WorkerExecutionRerouted)
        assert (event.worker, event.to, event.by, event.reason) == ("assess", "guess", "user:ada", "too slow")
        started = kit.events(case, WorkerExecutionStarted)
        assert [(each.activation, each.worker, each.attempt) for each in started] == [
            ("x/rate/1", "assess", 1),
            ("x/rate/1", "guess", 2),
        ]


async def test_an_activation_that_waits_for_its_next_attempt_does_not_wait_any_longer() -> None:
    d = claim(retry=Retry(3, wait="1h"))
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=-2)
        await kit.settle()
        await case.reroute("rate", to="guess")
        assert (await case.completed())["risk"] == 2
        assert (await case.state()).timers == {}


async def test_a_dead_letter_is_tried_again_by_the_other_worker() -> None:
    d = claim(retry=Retry(1))
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=-2)
        await kit.settle()
        await case.reroute("rate", to="guess", reason="the first cannot")
        assert (await case.completed())["risk"] == 2
        assert [event.worker for event in kit.events(case, WorkerScheduled)] == ["assess", "guess"]
        assert [event.worker for event in kit.events(case, DeadLetterRetried)] == ["guess"]


async def test_the_choice_holds_over_a_restart_also_for_a_worker_that_had_been_left_out() -> None:
    d = CaseDefinition("claim", goal="risk")
    calls: list[str] = []

    @d.worker(writes="risk", capability="rate")
    async def assess(amount: int) -> int:
        calls.append("assess")
        if len(calls) == 1:
            raise OSError("away")
        if len(calls) < 4:
            await asyncio.Event().wait()
        return amount

    @d.worker(writes="risk", capability="rate")
    async def guess(amount: int) -> int:
        calls.append("guess")
        await asyncio.Event().wait()
        return amount

    d.binding("rate", capability="rate", on_failed="reroute")
    store, clock = Kept(), VirtualClock()
    async with CaseHub(d, store=store, clock=clock) as hub:
        case = await hub.start(d, case_id="x", amount=2)
        await idle()
        await case.reroute("rate", to="assess")
        await idle()
    async with CaseHub(d, store=store, clock=clock) as hub:
        assert (await hub.case("x").completed())["risk"] == 2
    assert calls == ["assess", "guess", "assess", "assess"]


async def test_a_question_to_people_is_closed_when_a_worker_gets_the_work() -> None:
    d = CaseDefinition("claim", goal="risk")

    @d.human_task(writes="risk", capability="rate")
    def by_hand(amount: int) -> HumanTask[int]:
        return HumanTask(f"Rate {amount}", int, users=["ada"])

    @d.worker(writes="risk", capability="rate")
    async def guess(amount: int) -> int:
        return -amount

    d.binding("rate", capability="rate")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=2)
        await kit.settle()
        assert len(await kit.hub.tasks.list()) == 1
        await case.reroute("rate", to="guess")
        assert (await case.completed())["risk"] == -2
        assert await kit.hub.tasks.list() == []


async def test_what_cannot_be_rerouted_is_refused_with_its_reason() -> None:
    d = claim()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=2)
        with pytest.raises(InputRefusedError, match=r"has no binding 'rat'; did you mean 'rate'\?"):
            await case.reroute("rat", to="guess")
        with pytest.raises(InputRefusedError, match=r"binding 'rate' has no worker 'ges'"):
            await case.reroute("rate", to="ges")
        with pytest.raises(InputRefusedError, match=r"worker 'assess' has '.*' already"):
            await case.reroute("rate", to="assess")
        await case.suspend()
        with pytest.raises(IllegalTransitionError, match="resume it first"):
            await case.reroute("rate", to="guess")
        await case.resume()
        await kit.hub.brake.pull(worker="guess")
        with pytest.raises(IllegalTransitionError, match="it is suspended; resume it, or choose another"):
            await case.reroute("rate", to="guess")
        await kit.hub.brake.release(worker="guess")
        await case.reroute("rate", to="guess")
        await case.completed()
        with pytest.raises(CaseEndedError, match="cannot be rerouted: it is COMPLETED"):
            await case.reroute("rate", to="assess")
        assert await case.status() is CaseStatus.COMPLETED
