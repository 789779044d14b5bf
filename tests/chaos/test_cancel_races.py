"""A result and a cancel that come in the same moment: one of them is first, and the log says which, in full."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from casehub import (
    CaseCancelled,
    CaseDefinition,
    CaseEndedError,
    CaseHub,
    CaseStatus,
    ContextChanged,
    WorkerExecution,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerExecutionFinished,
)
from casehub.events import CaseId
from tests.staging import Kept, idle

RACES = 1_000


@pytest.mark.slow
async def test_of_a_result_and_a_cancel_in_the_same_tick_neither_is_lost_nor_half_applied() -> None:
    gates: dict[str, asyncio.Future[int]] = {}
    returned: list[str] = []
    racing = CaseDefinition("racing", goal="never", signals={"never": int})

    @racing.worker(writes="result")
    async def work(number: int, execution: WorkerExecution) -> int:
        gates[execution.case.id] = gate = asyncio.get_running_loop().create_future()
        value = await gate
        returned.append(execution.case.id)
        return value

    store, outcomes = Kept(), Counter[str]()
    async with CaseHub(racing, store=store) as hub:
        for number in range(RACES):
            case = await hub.start(racing, case_id=f"c{number}", number=number)
            await idle()
            first, apart = number % 2, number // 2 % 8
            if first:
                gates[case.id].set_result(number)
                for _ in range(apart):  # the result is so many rounds of the loop on its way
                    await asyncio.sleep(0)
            cancelling = asyncio.create_task(case.kill(by=f"user:{number}"))
            if not first:
                for _ in range(apart):
                    await asyncio.sleep(0)
                if not gates[case.id].done():
                    gates[case.id].set_result(number)
            await cancelling
            await idle()

            log = list(await store.load(CaseId(case.id)))
            assert await case.status() is CaseStatus.CANCELLED
            assert isinstance(log[-1], CaseCancelled)
            assert log[-1].by == f"user:{number}"
            (end,) = [event for event in log if isinstance(event, WorkerExecutionFinished)]
            kept = isinstance(end, WorkerExecutionCompleted)
            assert kept or isinstance(end, WorkerExecutionCancelled)
            written = [event.facts for event in log if isinstance(event, ContextChanged) and event.binding == "work"]
            assert written == ([{"result": number}] if kept else [])
            assert ("result" in await case.context()) is kept
            assert not kept or case.id in returned
            outcomes["kept" if kept else "too late" if case.id in returned else "called off"] += 1
            with pytest.raises(CaseEndedError):
                await case.kill()
    assert sum(outcomes.values()) == RACES
    assert outcomes["kept"] > 0, outcomes
    assert outcomes["called off"] > 0, outcomes
