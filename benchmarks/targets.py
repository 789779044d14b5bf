"""What the project wants to reach, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks import (
    w1_bus,
    w2_quiescence,
    w3_durable,
    w3_postgres,
    w4_agenda,
    w5_log,
    w6_signals,
    w7_planner,
    w8_replay,
)
from benchmarks.measure import Better, Table
from benchmarks.report import figure, padded


@dataclass(frozen=True, slots=True)
class Place:
    """One cell of one table."""

    benchmark: str
    measure: str
    peer: str
    column: str


@dataclass(frozen=True, slots=True)
class Target:
    """A bound for a figure, or for its ratio to another one (`over`)."""

    what: str
    bound: float
    better: Better
    place: Place
    over: Place | None = None


def _bus(peer: str) -> Place:
    return Place("W1", w1_bus.MEASURE, peer, "10 sub")


def _cost(peer: str, shape: str) -> Place:
    return Place("W2", w2_quiescence.COST, peer, shape)


def _steps(mode: str, column: str) -> Place:
    return Place("W3", w3_durable.STEPS_A_SECOND.format(mode=mode), w3_durable.ENGINE, column)


def _shared_steps(column: str) -> Place:
    return Place("W3P", w3_postgres.STEPS_A_SECOND, w3_postgres.ENGINE, column)


def _change(peer: str, column: str, hot: bool = False) -> Place:
    return Place("W4", w4_agenda.HOT if hot else w4_agenda.COST, peer, column)


def _answer(question: str, column: str) -> Place:
    return Place("W5", question, w5_log.ENGINE, column)


def _signal(peer: str, column: str) -> Place:
    return Place("W6", w6_signals.P99, peer, column)


def _plan(peer: str, column: str) -> Place:
    return Place("W7", w7_planner.COST, peer, column)


MILLION = "1,000,000 events"

TARGETS: Sequence[Target] = (
    Target("W1 `hub.on`, 10 subscribers, against a queue for each", 1, "more", _bus(w1_bus.ON), _bus(w1_bus.QUEUES)),
    Target("W1 `hub.on`, 10 subscribers, against a loop of awaits", 0.5, "more", _bus(w1_bus.ON), _bus(w1_bus.AWAITS)),
    *(
        Target(f"W2 {shape}, us a step", 20, "less", _cost(w2_quiescence.ENGINE, shape))
        for shape in ("chain3", "chain20", "fan50")
    ),
    *(
        Target(
            f"W2 {shape}, against the naive loop",
            bound,
            "less",
            _cost(w2_quiescence.ENGINE, shape),
            _cost(w2_quiescence.NAIVE, shape),
        )
        for shape, bound in (("chain3", 3), ("chain20", 1), ("fan50", 0.4))
    ),
    Target("W3 NORMAL, steps/s, 1 case", 6_500, "more", _steps("NORMAL", "1 at once")),
    Target("W3 NORMAL, steps/s, 100 cases", 20_000, "more", _steps("NORMAL", "100 at once")),
    Target(
        "W3 FULL against NORMAL, 100 cases", 0.5, "more", _steps("FULL", "100 at once"), _steps("NORMAL", "100 at once")
    ),
    Target("W3P PostgreSQL, steps/s, 1 case", 2_000, "more", _shared_steps("1 at once")),
    Target("W3P PostgreSQL, steps/s, 100 cases", 15_000, "more", _shared_steps("100 at once")),
    Target("W4 1,000 bindings, us a change", 3, "less", _change(w4_agenda.AGENDA, "1,000 bindings")),
    Target("W4 10,000 bindings, us a change", 40, "less", _change(w4_agenda.AGENDA, "10,000 bindings")),
    Target(
        "W4 10,000 bindings, against the naive loop",
        0.02,
        "less",
        _change(w4_agenda.AGENDA, "10,000 bindings"),
        _change(w4_agenda.NAIVE, "10,000 bindings"),
    ),
    Target(
        "W4 hot key, 1,000 bindings, against the naive loop",
        1.3,
        "less",
        _change(w4_agenda.AGENDA, "1,000 bindings", hot=True),
        _change(w4_agenda.NAIVE, "1,000 bindings", hot=True),
    ),
    Target("W5 last 5 cases, a million events, us", 100, "less", _answer(w5_log.LAST, MILLION)),
    Target("W5 changes by worker, a million events, us", 1_000, "less", _answer(w5_log.CHANGES, MILLION)),
    *(
        Target(
            f"W5 {question}, a million events against 10,000",
            1.5,
            "less",
            _answer(question, MILLION),
            _answer(question, "10,000 events"),
        )
        for question in (w5_log.LAST, w5_log.CHANGES)
    ),
    *(
        Target(
            f"W6 p99 of a signal to {column}, a strategy of a second against none that waits",
            1.5,
            "less",
            _signal(w6_signals.SLOW, column),
            _signal(w6_signals.AT_ONCE, column),
        )
        for column in w6_signals.COLUMNS
    ),
    *(
        Target(f"W7 {column}, us a plan", bound, "less", _plan(w7_planner.PLANNER, column))
        for column, bound in (("20 hard", 600), ("100 hard", 4_000), ("1,000 hard", 60_000))
    ),
    *(
        Target(
            f"W7 {column}, against the limit",
            3,
            "less",
            _plan(w7_planner.PLANNER, column),
            _plan(w7_planner.LIMIT, column),
        )
        for column in ("20 easy", "1,000 easy", "20 hard", "1,000 hard")
    ),
    Target(
        "W8 SQLite FULL, events/s",
        5_000,
        "more",
        Place("W8", w8_replay.RATE, "SQLite FULL", f"{w8_replay.CASES:,} cases"),
    ),
)


def verdicts(tables: Iterable[Table]) -> str:
    """A Markdown table of the targets whose figures were measured; empty when none was."""
    found = {(table.benchmark, table.measure): table for table in tables}

    def value(place: Place) -> float | None:
        table = found.get((place.benchmark, place.measure))
        if table is None or place.column not in table.cells.get(place.peer, {}):
            return None
        return table.value(place.peer, place.column)

    lines = []
    for target in TARGETS:
        mine, other = value(target.place), 1.0 if target.over is None else value(target.over)
        if mine is None or other is None:
            continue
        measured = mine / other
        reached = measured <= target.bound if target.better == "less" else measured >= target.bound
        sign = "at most" if target.better == "less" else "at least"
        lines.append([target.what, f"{sign} {figure(target.bound)}", figure(measured), "yes" if reached else "no"])
    return padded([["", "target", "measured", "reached"], *lines]) if lines else ""
