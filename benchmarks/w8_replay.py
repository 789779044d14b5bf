"""W8: a real log (10,357 expense declarations, 55,628 events) replayed into cases, as `casehub replay-log` does it.

The log is not part of the repository: it is looked for in `../shared/data`, or where `CASEHUB_REPLAY_LOG` says.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.measure import Plan, Run, Sample, Skipped, Table, measured
from casehub.errors import MissingExtraError
from casehub.lookup import adapter
from casehub.replay import replay
from examples.expenses import declaration

ROOT = Path(__file__).parents[1]
BESIDE = "../shared/data/DomesticDeclarations.xes.gz"
LOG = Path(os.environ.get("CASEHUB_REPLAY_LOG", ROOT / BESIDE))
STORES = {
    "memory": "memory://",
    "SQLite NORMAL": "sqlite:///{folder}/replay.db?synchronous=NORMAL",
    "SQLite FULL": "sqlite:///{folder}/replay.db?synchronous=FULL",
}
REFERENCE = "memory"
RATE = "events of the log fed in a second"
CASES = 10_357
QUICK_CASES = 600


async def fed(store: str, traces: Sequence[Any], whole: bool, _: int) -> Sample:
    """Feed all traces into a new store; what they come to is known."""
    with tempfile.TemporaryDirectory(prefix="casehub-w8-") as folder, warnings.catch_warnings(), measured() as sample:
        warnings.filterwarnings("ignore", message=".*open case")  # cases wait at the end of this log
        summary = await replay(declaration, traces, store=store.format(folder=folder))
    assert summary.cases == len(traces)
    assert summary.fed == summary.events == sum(len(trace.events) for trace in traces)
    if whole:
        assert summary.cases == CASES
        assert summary.by_status == {"COMPLETED": 9_912, "WAITING": 445}, summary.by_status
        assert summary.refused == 1, summary.refusals
        flagged = sorted(case for cases in summary.flagged.values() for case in cases)
        assert flagged == ["declaration90815", "declaration95149"], flagged
    sample.units, sample.wall = summary.events, summary.seconds
    return sample


async def run(plan: Plan) -> Sequence[Table | Skipped]:
    if not await asyncio.to_thread(LOG.is_file):
        return [Skipped("W8", f"there is no {BESIDE}; set CASEHUB_REPLAY_LOG to the log")]
    try:
        xes = adapter("xes")
    except MissingExtraError as error:
        return [Skipped("W8", str(error))]
    began = time.perf_counter()
    traces = list(islice(xes.read_traces(LOG), QUICK_CASES if plan.quick else None))
    reading = time.perf_counter() - began
    events = sum(len(trace.events) for trace in traces)
    runs: dict[str, Run] = {name: partial(fed, store, traces, not plan.quick) for name, store in STORES.items()}
    samples: dict[str, list[Sample]] = {name: [] for name in runs}
    for turn in range(3):
        names = list(runs)
        for name in (*names[turn:], *names[:turn]):
            samples[name].append(await runs[name](1))
    what = f"{len(traces):,} cases"
    rate = Table("W8", RATE, "/s", "more", REFERENCE)
    cost = Table("W8", "CPU time an event of the log, opening and closing included", "us", "less", REFERENCE)
    for name, found in samples.items():
        rate.add(name, what, [sample.per_second for sample in found])
        cost.add(name, what, [sample.cpu_us for sample in found])
    rate.notes.append(
        f"reading the {events:,} events from the file took {reading:.1f} s ({events / reading:,.0f} events/s)"
    )
    return [rate, cost]
