"""Bindings that wait for a span of time: each by itself, once, and by what holds when the time has come."""

from __future__ import annotations

from datetime import timedelta

import pytest

from casehub import CaseDefinition, WorkerExecutionStarted, after
from casehub.testing import CaseTestKit


async def test_two_delays_of_one_case_fire_each_by_itself_and_once() -> None:
    d = CaseDefinition("d", goal="closed", signals=["closed"])

    @d.worker(writes="first", on=after("2s"))
    async def quick(name: str) -> str:
        return name

    @d.worker(writes="second", on=after("5s"))
    async def slow(name: str) -> str:
        return name

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="file")
        begun = kit.clock.now()
        await kit.advance("1m")
        started = kit.events(case, WorkerExecutionStarted)
        assert [(e.binding, e.at - begun) for e in started] == [
            ("quick", timedelta(seconds=2)),
            ("slow", timedelta(seconds=5)),
        ]


@pytest.mark.parametrize(("before", "then", "runs"), [(True, False, [2]), (False, True, []), (False, False, [2])])
async def test_a_guard_counts_when_the_delay_is_over_and_what_it_held_back_runs_once_it_holds(
    before: bool, then: bool, runs: list[int]
) -> None:
    d = CaseDefinition("d", goal="closed", signals={"hold": bool, "closed": bool})

    @d.worker(writes="letter", on=after("2s"), when=lambda hold: not hold)
    async def send(name: str) -> str:
        return name

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="file")
        begun = kit.clock.now()
        await case.signal(hold=before)
        await kit.advance("1s")
        await case.signal(hold=then)
        await kit.advance("9s")
        assert [(e.at - begun).seconds for e in kit.events(case, WorkerExecutionStarted)] == runs
        await case.signal(hold=False)
        await kit.settle()
        assert [(e.at - begun).seconds for e in kit.events(case, WorkerExecutionStarted)] == (runs or [10])
