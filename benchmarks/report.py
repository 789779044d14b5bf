"""What was measured, as tables for people and as JSON."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.measure import Plan, Skipped, Table


def figure(value: float) -> str:
    """Three digits that mean something."""
    if value >= 1_000_000:
        return f"{value / 1e6:.2f} M"
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def text_of(table: Table) -> str:
    """A padded Markdown table: medians, and in brackets the ratio to the reference."""
    columns = table.columns
    lines = [["", *columns]]
    for peer, cells in table.cells.items():
        line = [f"**{peer}**" if peer == table.reference else peer]
        for column in columns:
            if column not in cells:
                line.append("-")
                continue
            ratio = table.ratio(peer, column)
            shown = "" if ratio is None or peer == table.reference else f" ({figure(ratio)}x)"
            line.append(figure(table.value(peer, column)) + shown)
        lines.append(line)
    title = f"{table.benchmark} {table.measure} [{table.unit}, {table.better} is better; x: against {table.reference}]"
    return "\n".join([title, "", padded(lines), *(f"\n{note}" for note in table.notes)])


def padded(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table that reads well as it is; the first line is its head, the first column stands left."""
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    rows = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))


def json_of(plan: Plan, results: Sequence[Table | Skipped], seconds: float) -> dict[str, Any]:
    """Everything that was measured, round by round."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "form": "quick" if plan.quick else "full",
        "rounds": plan.rounds,
        "seconds": round(seconds, 1),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "processors": os.cpu_count(),
        "tables": [
            {
                "benchmark": table.benchmark,
                "measure": table.measure,
                "unit": table.unit,
                "better": table.better,
                "reference": table.reference,
                "notes": table.notes,
                "figures": [
                    {
                        "peer": peer,
                        "column": column,
                        "median": _rounded(table.value(peer, column)),
                        "ratio": None if (ratio := table.ratio(peer, column)) is None else _rounded(ratio),
                        "rounds": [_rounded(value) for value in values],
                    }
                    for peer, cells in table.cells.items()
                    for column, values in cells.items()
                ],
            }
            for table in results
            if isinstance(table, Table)
        ],
        "skipped": {each.benchmark: each.reason for each in results if isinstance(each, Skipped)},
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
