"""Run benchmarks: all of them, or those that are named."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog

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
    w9_snapshots,
)
from benchmarks.measure import FULL, QUICK, Plan, Skipped, Table
from benchmarks.report import json_of, text_of
from benchmarks.targets import verdicts

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- figures: written by a full run -->", "<!-- end of figures -->"

BENCHMARKS: dict[str, tuple[str, Callable[[Plan], Awaitable[Sequence[Table | Skipped]]]]] = {
    "W1": ("fan-out of the bus", w1_bus.run),
    "W2": ("a case from start to end, in memory", w2_quiescence.run),
    "W3": ("durable chains on SQLite", w3_durable.run),
    "W3P": ("durable chains on PostgreSQL", w3_postgres.run),
    "W4": ("one change to a known eligible set", w4_agenda.run),
    "W5": ("questions to a growing log", w5_log.run),
    "W6": ("signals while a strategy thinks", w6_signals.run),
    "W7": ("the cheapest plan", w7_planner.run),
    "W8": ("replay of a real log", w8_replay.run),
    "W9": ("snapshots of cases", w9_snapshots.run),
}


def parsed(arguments: Sequence[str]) -> tuple[Plan, list[str]]:
    """What was asked for. Exits with a message for what cannot be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    listed = ", ".join(f"{name} {what}" for name, (what, _) in BENCHMARKS.items())
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones; all without any ({listed})")
    parser.add_argument("--quick", action="store_true", help="short samples and three rounds: a minute in all")
    asked = parser.parse_args(arguments)
    names = [name.upper() for name in asked.names] or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    return QUICK if asked.quick else FULL, names


async def measure(plan: Plan, names: Sequence[str]) -> list[Table | Skipped]:
    """Run them one after the other and print each as it ends."""
    results: list[Table | Skipped] = []
    for name in names:
        what, run = BENCHMARKS[name]
        began = time.perf_counter()
        print(f"{name}: {what} ...", file=sys.stderr, flush=True)
        found = await run(plan)
        for each in found:
            print(f"\n{each.benchmark} skipped: {each.reason}" if isinstance(each, Skipped) else f"\n{text_of(each)}")
        print(f"\n{name} took {time.perf_counter() - began:.0f} s", flush=True)
        results += found
    return results


def written(text: str, tables: Sequence[Table]) -> str:
    """A page with the figures between its two marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    figures = "\n\n".join([verdicts(tables), *map(text_of, tables)])
    return f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}"


def main() -> None:
    plan, names = parsed(sys.argv[1:])
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    began = time.perf_counter()
    results = asyncio.run(measure(plan, names))
    seconds = time.perf_counter() - began
    tables = [each for each in results if isinstance(each, Table)]
    print(f"\n{verdicts(tables)}")
    data = json.dumps(json_of(plan, results, seconds), indent=1) + "\n"
    folder = FOLDER / "results"
    folder.mkdir(exist_ok=True)
    latest = folder / f"{'quick' if plan.quick else 'full'}-{'-'.join(names)}.json"
    latest.write_text(data)
    if not plan.quick and names == list(BENCHMARKS) and len(tables) == len(results):
        (FOLDER / "results.json").write_text(data)
        page = FOLDER / "README.md"
        page.write_text(written(page.read_text(), tables))
    print(f"\n{seconds:.0f} s in all; every round is in {latest.relative_to(FOLDER.parent)}")


if __name__ == "__main__":
    main()
