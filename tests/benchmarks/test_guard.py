"""The cost of the hot path, as ratios within one run, with margins that a noisy machine does not break."""

from __future__ import annotations

import math
import sys
from functools import partial
from statistics import median
from types import FrameType

import pytest

from benchmarks import w1_bus, w2_quiescence, w4_agenda, w6_signals, w7_planner
from benchmarks.__main__ import BENCHMARKS
from benchmarks.measure import Plan, Run, Skipped, interleaved
from benchmarks.report import json_of, text_of
from benchmarks.shapes import CHAIN3, CHAIN20, FAN50, Shape

SHORT = Plan(quick=True, rounds=5, seconds=0.05)
AT_MOST = {"chain3": 54.0, "chain20": 9.0, "fan50": 3.2}
"""CPU a step against the naive loop's: twice what was measured (`benchmarks/README.md`)."""
CALLS_AT_MOST = {"chain3": 253, "chain20": 161, "fan50": 177}
"""Calls of Python functions a step: A little more than was counted. The count knows next to no noise, so it finds small steps too."""


async def best(runs: dict[str, Run], probe: int) -> dict[str, float]:
    """The least CPU time a unit that each of them needed, in rounds that take turns."""
    samples = await interleaved(SHORT, runs, probe=probe)
    return {name: min(sample.cpu_us for sample in found) for name, found in samples.items()}


@pytest.mark.parametrize("shape", [CHAIN3, CHAIN20, FAN50], ids=lambda shape: shape.name)
async def test_a_step_with_log_and_three_subscribers_stays_within_reach_of_the_naive_loop(shape: Shape) -> None:
    costs = await best(
        {"naive": partial(w2_quiescence.naive, shape), "engine": partial(w2_quiescence.engine, shape)}, probe=3
    )
    assert costs["engine"] / costs["naive"] < AT_MOST[shape.name]


@pytest.mark.parametrize("shape", [CHAIN3, CHAIN20, FAN50], ids=lambda shape: shape.name)
async def test_a_step_makes_no_more_calls_than_it_did(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.engine.pump.SLICE", math.inf)  # how often a pump pauses depends on the machine
    few, many = 10, 30
    await counted(shape, few)  # what is done once in a process is done
    calls = {cases: await counted(shape, cases) for cases in (few, many)}
    assert (calls[many] - calls[few]) / ((many - few) * shape.steps) < CALLS_AT_MOST[shape.name]


async def counted(shape: Shape, cases: int) -> int:
    """Calls of Python functions in this thread while so many cases run, the hub's opening and closing included."""
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await w2_quiescence.engine(shape, cases)
    finally:
        sys.setprofile(before)
    return calls


async def test_the_agenda_costs_what_a_change_touches_and_not_what_there_is() -> None:
    costs = await best(
        {"10": partial(w4_agenda.agenda, 10, False), "1,000": partial(w4_agenda.agenda, 1_000, False)}, probe=3
    )
    assert costs["1,000"] / costs["10"] < 6  # a change touches 0.02 bindings of ten, and 1.5 of a thousand


async def test_the_agenda_beats_the_naive_loop_at_a_thousand_bindings() -> None:
    costs = await best(
        {"naive": partial(w4_agenda.naive, 1_000, False), "agenda": partial(w4_agenda.agenda, 1_000, False)}, probe=1
    )
    assert costs["agenda"] / costs["naive"] < 0.5


@pytest.mark.parametrize("hard", [False, True], ids=["easy", "hard"])
async def test_a_plan_costs_a_few_times_what_a_shortest_path_does_whatever_else_could_be_done(hard: bool) -> None:
    planner = w7_planner.planner(100, hard)
    costs = await best(
        {
            "limit": partial(w7_planner.sampled, w7_planner.dijkstra, 100, hard),
            "planner": partial(w7_planner.sampled, lambda _, length: w7_planner.answer(planner, length), 100, hard),
        },
        probe=3,
    )
    assert costs["planner"] / costs["limit"] < 4


async def test_a_delivery_costs_no_more_for_a_hundred_subscribers_than_for_ten() -> None:
    costs = await best({"10": partial(w1_bus.on, 10), "100": partial(w1_bus.on, 100)}, probe=2)
    assert costs["100"] / costs["10"] < 1.5


async def test_a_delivery_costs_the_same_however_many_turns_the_bus_has_seen() -> None:
    few, many = 50, 1_000  # many: 16,000 turns, so the ring has turned over several times
    early = min([(await w1_bus.on(1, few)).cpu_us for _ in range(5)])
    late = min([(await w1_bus.on(1, many)).cpu_us for _ in range(3)])
    assert late / early < 2


@pytest.mark.parametrize("column", w6_signals.COLUMNS)
async def test_a_signal_takes_no_longer_while_a_strategy_thinks(column: str) -> None:
    keys = [(w6_signals.AT_ONCE, column), (w6_signals.SLOW, column)]
    took = await w6_signals.latencies(keys, 200)
    at_once, slow = (median(took[key]) for key in keys)
    assert slow / at_once < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != "W8"])
async def test_every_benchmark_runs_and_finds_its_results_right(name: str) -> None:
    plan = Plan(quick=True, rounds=1, seconds=0.001)
    results = await BENCHMARKS[name][1](plan)
    assert results
    assert json_of(plan, results, 0.0)["tables"]
    for result in results:
        assert isinstance(result, Skipped) or result.reference in text_of(result)
