"""What is wrong with an input is told to whoever gave it; what a case cannot do without is taken again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import structlog

from casehub import CaseDefinition, CaseHub, CaseStatus, Event, TimerFired, after
from casehub.adapters.clock import VirtualClock
from casehub.engine.takes import TAKES
from casehub.errors import UnknownNameError
from casehub.events import WorkerExecutionInterrupted
from casehub.inputs import Write
from casehub.spi import CommitResult, Conflict, Refused, TooLarge, Turn
from tests.staging import Kept, idle


class Refusing(Kept):
    """Does not write turns with an event of a class, the next `times` of them."""

    def __init__(self, kind: type[Event], answer: CommitResult, times: int) -> None:
        super().__init__()
        self.kind, self.answer, self.times = kind, answer, times

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        for turn in turns:
            if self.times and any(isinstance(event, self.kind) for event in turn.events):
                self.times -= 1
                results.append(self.answer)
            else:
                results += await super().commit([turn])
        return results


@pytest.mark.parametrize("answer", [TooLarge("TIMER_FIRED", 2, 1), Refused("TIMER_FIRED", "no such form"), Conflict(0)])
async def test_a_timer_whose_turn_the_store_refuses_comes_again_without_a_restart(answer: CommitResult) -> None:
    d, clock = CaseDefinition("d", goal="done"), VirtualClock()

    @d.worker(writes="done", on=after("1h"))
    async def work(a: int) -> int:
        return a

    store = Refusing(TimerFired, answer, 10)
    with structlog.testing.capture_logs() as said:
        async with CaseHub(d, store=store, clock=clock) as hub:
            case = await hub.start(d, a=1)
            clock.move("1h")
            for _ in range(100):
                await idle()
                if store.times == 0:
                    break
                clock.move("5m")
            for _ in range(3):
                clock.move("5m")
                await idle()
            assert (await case.completed())["done"] == 1
            assert len(await case.log.query(TimerFired)) == 1
    lines = [each for each in said if each["event"] == "input.put_off"]
    assert lines
    assert {each["kind"] for each in lines} == {"TimerDue"}
    waits = [each["again_in"] for each in lines]
    assert waits == sorted(waits)
    assert waits[-1] <= 300


async def test_a_recovery_that_the_store_refuses_comes_again_without_a_restart() -> None:
    d, clock, runs = CaseDefinition("d", goal="done"), VirtualClock(), list[int]()

    @d.worker(writes="done")
    async def work(a: int) -> int:
        runs.append(a)
        if len(runs) == 1:
            await asyncio.Event().wait()
        return a

    kept = Kept()

    async def dies() -> None:
        async with CaseHub(d, store=kept, clock=clock) as hub:
            await hub.start(d, a=1, case_id="c")
            await idle()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await dies()
    store = Refusing(WorkerExecutionInterrupted, Refused("WORKER_EXECUTION_INTERRUPTED", "no such form"), 3)
    store.store = kept.store
    async with CaseHub(d, store=store, clock=clock) as hub:
        for _ in range(10):
            await idle()
            clock.move("5m")
        assert store.times == 0
        assert (await hub.case("c").completed())["done"] == 1


async def test_an_input_that_is_wrong_is_refused_whatever_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case stays as it is: it was the input that was wrong, and nothing was recorded."""
    d = CaseDefinition("d", goal="done", signals=["go"])
    write = TAKES[Write]

    def refusing(intake: Any, input: Write) -> Any:
        if input.facts == {"go": 13}:
            raise UnknownNameError("there is no 13")
        return write(intake, input)

    @d.worker(writes="done")
    async def work(go: int) -> int:
        return go

    monkeypatch.setitem(TAKES, Write, refusing)
    async with CaseHub(d, store=Kept()) as hub:
        case = await hub.start(d)
        before = await hub.log.position()
        with pytest.raises(UnknownNameError, match="no 13"):
            await case.signal(go=13)
        assert await hub.log.position() == before
        assert await case.status() is CaseStatus.WAITING
        assert (await case.signal(go=1))["go"] == 1
        await case.completed()
