"""Signals into a monitored plant: what is re-evaluated, what is not, and what a sender may wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from casehub import (
    Binding,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    DeliberationStarted,
    InputRefusedError,
    Limits,
    Signal,
    SignalReceived,
    Verdict,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle


def plant(**options: Any) -> CaseDefinition:
    """Readings come in; the average of three is kept, and an alarm is raised above a threshold."""
    d = CaseDefinition(
        "plant",
        goal="closed",
        signals={"north": float, "south": float, "east": float, "threshold": float, "note": str, "closed": bool},
        **options,
    )

    @d.worker(writes="average")
    async def average(north: float, south: float, east: float) -> float:
        return (north + south + east) / 3

    @d.worker(writes="alarm", when=lambda average, threshold: average > threshold)
    async def raise_alarm(average: float) -> str:
        return f"{average:g} degrees"

    return d


async def test_the_same_signal_with_an_equal_value_is_one_row_and_one_run() -> None:
    d = CaseDefinition("d", signals={"reading": float})

    @d.worker(writes="seen")
    async def look(reading: float) -> float:
        return reading

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        for _ in range(2):
            await case.signal(reading=20.5, wait="quiescent")
        assert len(kit.events(case, SignalReceived)) == 1
        assert len(kit.events(case, WorkerExecutionStarted)) == 1


async def test_the_same_signal_with_a_new_value_is_two_rows_and_is_evaluated_again() -> None:
    d = CaseDefinition("d", signals={"reading": float})

    @d.worker(writes="seen")
    async def look(reading: float) -> float:
        return reading

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        for reading in (20.5, 21.0):
            await case.signal(reading=reading, wait="quiescent")
        assert len(kit.events(case, SignalReceived)) == 2
        assert (await case.context())["seen"] == 21.0


async def test_three_readings_at_once_are_one_change_and_nobody_sees_a_part_of_it() -> None:
    seen: list[dict[str, float]] = []
    d = plant()

    @d.worker(writes="snapshot")
    async def record(north: float, case: CaseView) -> int:
        seen.append({name: case.context[name] for name in ("north", "south", "east") if name in case.context})
        return len(seen)

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(north=1.0, south=2.0, east=3.0, wait="quiescent")
        await case.signal(north=4.0, south=5.0, east=6.0, wait="quiescent")
        changes = [event for event in kit.events(case, ContextChanged) if not event.binding]
        assert [set(event.facts) for event in changes] == [{"north", "south", "east"}] * 2
        assert (await case.context())["average"] == 5.0
        assert (
            len(
                kit.events(
                    case,
                    WorkerScheduled,
                )
            )
            >= 4
        )
    assert seen == [{"north": 1.0, "south": 2.0, "east": 3.0}, {"north": 4.0, "south": 5.0, "east": 6.0}]


async def test_a_signal_that_the_definition_does_not_declare_is_rejected() -> None:
    d = plant()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        with pytest.raises(InputRefusedError, match="takes no signal 'west'"):
            await case.signal(west=5.0)
        assert kit.events(case, SignalReceived) == []


async def test_what_has_run_on_the_same_facts_does_not_run_again_after_a_restart() -> None:
    d, store = plant(), Kept()
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d, north=1.0, south=2.0, east=3.0, case_id="x")
        await case.quiescent()
    async with CaseHub(d, store=store) as hub:
        case = hub.case("x")
        await case.signal(note="hello", wait="quiescent")
        assert len(await case.log.query(WorkerScheduled)) == 1


async def test_a_worker_whose_output_keeps_its_own_trigger_true_runs_once() -> None:
    d = CaseDefinition("d", signals={"level": int})

    @d.worker(writes="level", when=lambda level: level > 10)
    async def drain(level: int) -> int:
        return level - 1

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(level=100, wait="quiescent")
        assert len(kit.events(case, WorkerExecutionStarted)) == 1
        assert (await case.context())["level"] == 99


@pytest.mark.parametrize("steps", [2, 3])
async def test_a_cascade_of_steps_is_waited_for_by_its_first_wave_or_until_it_rests(steps: int) -> None:
    d = CaseDefinition("d", signals={"f0": int})
    kits: list[CaseTestKit] = []

    def step(number: int) -> Any:
        async def work(**facts: int) -> int:
            await kits[0].clock.sleep("1m")
            return facts[f"f{number}"] + 1

        return work

    for number in range(steps):
        namespace: dict[str, Any] = {"work": step(number)}
        exec(f"async def step{number}(f{number}: int) -> int:\n    return await work(f{number}=f{number})", namespace)
        d.worker(writes=f"f{number + 1}")(namespace[f"step{number}"])
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d)
        first = asyncio.create_task(case.signal(f0=0, wait="first_wave"))
        await kit.advance("1m")
        assert set(await first) == {"f0", "f1"}
        rest = asyncio.create_task(case.quiescent())
        await kit.advance("1m" if steps == 2 else "2m")
        assert set(await rest) == {f"f{number}" for number in range(steps + 1)}


async def test_quiescence_works_a_second_time() -> None:
    d = plant()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, south=2.0, east=3.0)
        for north in (1.0, 4.0):
            assert (await case.signal(north=north, wait="quiescent"))["average"] == (north + 5.0) / 3


async def test_a_signal_that_no_binding_waits_for_returns_at_once_with_the_facts() -> None:
    d = plant()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        for wait in ("turn", "first_wave", "quiescent"):
            context = await case.signal(note=wait, wait=wait)
            assert context["note"] == wait
        assert kit.events(case, WorkerScheduled) == []


class Careful(ChoreographyLoopControl):
    """Takes its time, and notes what it saw."""

    immediate = False

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = 0
        self.most = 0
        self.saw: list[tuple[str, Any]] = []

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        self.running += 1
        self.most = max(self.most, self.running)
        self.saw.append((case.id, dict(case.context)))
        await self.go.wait()
        self.running -= 1
        return eligible


async def test_while_one_evaluation_runs_further_events_come_to_one_more_that_sees_the_last_state() -> None:
    d, loop = plant(), Careful()
    async with CaseTestKit(d, loop=loop) as kit:
        case = await kit.start(d, north=1.0, south=1.0, east=1.0)
        await kit.settle()
        await case.signal(north=2.0)
        await case.signal(north=3.0)
        await kit.settle()
        assert len(loop.saw) == 1
        loop.go.set()
        await kit.settle()
        assert loop.most == 1
        assert [seen[1]["north"] for seen in loop.saw] == [1.0, 3.0]


async def test_another_case_is_evaluated_meanwhile() -> None:
    d, loop = plant(), Careful()
    async with CaseTestKit(d, loop=loop) as kit:
        cases = [await kit.start(d, north=1.0, south=1.0, east=1.0) for _ in range(2)]
        await kit.settle()
        assert [seen[0] for seen in loop.saw] == [case.id for case in cases]
        assert loop.most == 2
        loop.go.set()
        await kit.settle()


async def test_signals_during_a_slow_evaluation_reach_every_binding_and_every_sender() -> None:
    d, loop = CaseDefinition("d", signals={"a": int, "b": int, "c": int}), Careful()

    for name in "abc":
        namespace: dict[str, Any] = {}
        exec(f"async def on_{name}({name}: int) -> int:\n    return {name}", namespace)
        d.worker(writes=f"by_{name}")(namespace[f"on_{name}"])
    async with CaseTestKit(d, loop=loop) as kit:
        case = await kit.start(d, a=0)
        await kit.settle()  # the evaluation of the first fact is under way
        senders = [asyncio.create_task(case.signal({name: 5}, wait="quiescent")) for name in "abc"]
        await kit.settle()
        loop.go.set()
        await kit.settle()
        contexts = await asyncio.gather(*senders)
        assert all({"by_a", "by_b", "by_c"} <= set(context) for context in contexts)
        assert (await case.context())["by_a"] == 5


async def test_a_waiting_case_takes_a_signal_and_dispatches() -> None:
    d = plant()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, south=1.0, east=1.0)
        assert await case.status() is CaseStatus.WAITING
        await case.signal(north=1.0, wait="quiescent")
        assert "average" in await case.context()


async def test_many_changes_at_once_make_one_activation_of_a_binding_at_a_time() -> None:
    gate = asyncio.Event()
    running: list[int] = []
    most: list[int] = []
    d = CaseDefinition("d", signals={"a": int})

    @d.worker(writes="b")
    async def work(a: int) -> int:
        running.append(a)
        most.append(len(running))
        await gate.wait()
        running.pop()
        return a

    async with CaseHub(d, store=Kept()) as hub:
        case = await hub.start(d)
        await asyncio.gather(*(case.signal(a=n) for n in range(50)))
        await idle()
        assert len(await case.log.query(WorkerScheduled)) == 1
        gate.set()
        assert (await case.quiescent())["b"] == 49
        assert max(most) == 1
        assert len(await case.log.query(WorkerScheduled)) <= 3


async def test_a_schedule_that_ticks_with_equal_input_runs_each_time() -> None:
    d = CaseDefinition("d", signals={"tick": None})

    @d.worker(writes="report", on=Signal("tick"))
    async def report() -> str:
        return "all quiet"

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        for _ in range(5):
            await case.signal("tick", wait="quiescent")
        assert len(kit.events(case, WorkerExecutionStarted)) == 5


async def test_a_change_of_an_unrelated_fact_does_not_fire_again() -> None:
    d = plant()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, north=1.0, south=1.0, east=1.0)
        await kit.settle()
        for number in range(5):
            await case.signal(note=str(number), wait="quiescent")
        assert len(kit.events(case, WorkerScheduled)) == 1


async def test_a_runaway_loop_is_stopped_by_its_limit_and_says_so() -> None:
    d = CaseDefinition("d", signals={"ping": int}, limits=Limits(firings_per_binding=10))

    @d.worker(writes="pong")
    async def one(ping: int) -> int:
        return ping + 1

    @d.worker(writes="ping")
    async def other(pong: int) -> int:
        return pong + 1

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(ping=0, wait="quiescent")
        assert len(kit.events(case, WorkerScheduled)) == 20
        (said,) = await case.explain("one")
        assert said.verdict is Verdict.LIMIT
        assert [event.limit for event in kit.events(case) if event.name == "LIMIT_REACHED"] == ["firings_per_binding"]


async def test_each_completion_leads_to_exactly_one_evaluation() -> None:
    asked: list[tuple[str, ...]] = []

    class Counting(ChoreographyLoopControl):
        async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
            asked.append(tuple(binding.name for binding in eligible))
            return eligible

    d = plant()
    async with CaseTestKit(d, loop=Counting()) as kit:
        case = await kit.start(d, threshold=5.0)
        await case.signal(north=9.0, south=9.0, east=9.0, wait="quiescent")
        assert asked == [("average",), ("raise_alarm",)]
        assert kit.events(case, DeliberationStarted) == []
