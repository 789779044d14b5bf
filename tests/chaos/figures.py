"""What runs have shown, as figures: kept in `docs/reliability.json`, and as a table in `docs/reliability.md`.

python -m tests.chaos.figures RUN.json ... --commit abc123     # what `python -m tests.chaos ...` printed
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "docs" / "reliability.json"
PAGE: Final = ROOT / "docs" / "reliability.md"
BEGIN: Final = "<!-- figures: made by tests/chaos/figures.py -->\n"
END: Final = "<!-- end of figures -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One run. `lost`, `twice`, `stuck`, `keys`: problems found by the invariants that say so, see the page; `wrong`: by
    all of them; `opened`: milliseconds in which 99 of 100 hubs had opened their store after a kill, 0 where not measured."""

    date: str
    commit: str
    harness: str
    store: str
    seed: int
    faults: int
    acked: int
    lost: int
    twice: int
    stuck: int
    keys: int
    wrong: int
    effects: int
    repeated: int
    opened: int = 0


def figure_of(run: Mapping[str, Any], *, date: str, commit: str) -> Figure:
    """What a run's JSON comes to. Raises `ValueError` for a run in which nothing went wrong on purpose."""
    found = run["found"]
    problems: Mapping[str, Sequence[str]] = found["problems"]
    if "hit" in run:
        harness, faults, opened = "named points", len(run["hit"]), []
    else:
        harness, faults, opened = "random kills", run["kills"], sorted(run["opened"])
        if run.get("beside"):
            harness = f"random kills, {run['beside'] + 1} hubs"
    if not faults or not found["acked"]:
        raise ValueError("a run without faults, or without anything acknowledged, shows nothing")
    return Figure(
        date=date, commit=commit, harness=harness, seed=run["seed"], faults=faults, acked=found["acked"],
        store="SQLite" if run["store"] == "sqlite" else "PostgreSQL",
        lost=_count(problems, "I1", "I2", "I9"), twice=_count(problems, "I4"), stuck=_count(problems, "I7", "I10"),
        keys=_count(problems, "I5"), wrong=sum(map(len, problems.values())), effects=found["effects"],
        repeated=found["effects_repeated"], opened=round(opened[len(opened) * 99 // 100] * 1_000) if opened else 0,
    )  # fmt: skip


def table(figures: Sequence[Figure]) -> str:
    """The table of the page, and the sum of it in a sentence."""
    head = (
        "| harness | store | date | commit | faults injected | writes acknowledged | lost | applied twice | stuck "
        "| more than one key | effects repeated | open again after a kill, p99 |\n"
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    rows = "".join(
        f"| {each.harness} | {each.store} | {each.date} | `{each.commit}` | {each.faults:,} | {each.acked:,} | {each.lost} "
        f"| {each.twice} | {each.stuck} | {each.keys} | {each.repeated / each.effects:.1%} "
        f"| {f'{each.opened:,} ms' if each.opened else '-'} |\n"
        for each in figures
    )
    kills = [each for each in figures if each.harness.startswith("random kills")]
    stores = " · ".join(f"{each.store}{each.harness.removeprefix('random kills')} {each.faults:,}" for each in kills)
    summed = (
        f"\n{sum(each.faults for each in kills):,} random kills ({stores}), {sum(each.acked for each in kills):,} "
        f"acknowledged writes, {sum(each.lost for each in kills)} lost, {sum(each.twice for each in kills)} applied twice, "
        f"{sum(each.stuck for each in kills)} stuck.\n"
    )
    return head + rows + summed


def kept() -> list[Figure]:
    """The figures that are in the repository."""
    return [Figure(**each) for each in json.loads(KEPT.read_text())]


def page_with(page: str, figures: Sequence[Figure]) -> str:
    """The page with the table of these figures in it."""
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return f"{before}{BEGIN}\n{table(figures)}\n{END}{behind}"


def _count(problems: Mapping[str, Sequence[str]], *invariants: str) -> int:
    return sum(len(problems.get(each, ())) for each in invariants)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.figures", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", nargs="+", type=Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--date", default=f"{datetime.now(UTC):%Y-%m-%d}")
    asked = parser.parse_args()
    by_run = {(each.harness, each.store): each for each in kept()}
    for path in asked.run:
        figure = figure_of(json.loads(path.read_text()), date=asked.date, commit=asked.commit)
        by_run[figure.harness, figure.store] = figure
    figures = sorted(by_run.values(), key=lambda each: (each.harness, each.store), reverse=True)
    KEPT.write_text(json.dumps([asdict(each) for each in figures], indent=1) + "\n")
    PAGE.write_text(page_with(PAGE.read_text(), figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
