"""A real log, from end to end: two years of travel-expense declarations of a university (BPI Challenge 2020).

The log lies beside the repository and is not part of it; without it these tests are skipped. What they expect is what
the log itself says (how many declarations were paid, what was paid without an approval), not what the engine made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from casehub.adapters.xes import Trace, read_traces
from tests.cli.conftest import short_folder
from tests.cli.program import ROOT, Program, Result
from tests.replay.killing import killed_replay

LOG = ROOT.parent / "shared" / "data" / "DomesticDeclarations.xes.gz"
CASE = "examples.expenses:declaration"
ENDED = ("declaration90815", "Declaration REJECTED by EMPLOYEE")  # after its payment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not LOG.exists(), reason=f"the real log is not at {LOG.parent}"),
]


@pytest.fixture(scope="module")
def theirs() -> dict[str, Trace]:
    """The log, without the one event that comes after the end of its case."""
    traces = {trace.case: trace for trace in read_traces(LOG)}
    case, activity = ENDED
    ended = traces[case]
    assert ended.events[-1].activity == activity
    traces[case] = Trace(case=case, events=ended.events[:-1])
    return traces


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with short_folder() as folder:
        yield Program(folder)


def replayed(program: Program, database: str, *words: str) -> dict[str, Any]:
    result: Result = program.inside("replay-log", str(LOG), "--case", CASE, "--db", database, "-o", "json", *words)
    assert result.code == 0, result.err
    summary: dict[str, Any] = json.loads(result.out)
    return summary


def check(program: Program, database: str, theirs: dict[str, Trace], summary: dict[str, Any]) -> None:
    """The ends of the cases, and the export of the log read back."""
    assert summary["events"] == 55_628
    assert summary["cases"] == 10_357
    assert summary["by_status"] == {"COMPLETED": 9_912, "WAITING": 445}
    assert summary["refused"] == 1
    assert [tuple(each[:2]) for each in summary["refusals"]] == [ENDED]
    assert summary["flagged"] == {"flag": ["declaration90815", "declaration95149"]}
    assert summary["unmapped"] == {}
    out = program.folder / f"{database}.xes.gz"
    exported = program.inside("events", "export", "--db", database, "--out", str(out))
    assert exported.code == 0, exported.err
    ours = {trace.case: trace for trace in read_traces(out)}
    assert ours.keys() == theirs.keys()
    different = [case for case, trace in theirs.items() if ours[case].events != trace.events]
    assert different == []  # activities, times to the second with their offsets, resources, roles, attributes


def test_the_log_is_replayed_and_comes_out_as_it_went_in(program: Program, theirs: dict[str, Trace]) -> None:
    summary = replayed(program, "whole.db", "--strict")
    check(program, "whole.db", theirs, summary)
    assert (summary["signals"], summary["results"]) == (35_801, 19_826)
    assert sorted(map(tuple, summary["disorders"])) == [
        ("declaration124535", "Payment Handled"),
        ("declaration90815", "Request Payment"),
        ("declaration95149", "Request Payment"),
    ]
    assert summary["first"] == "2017-01-09T08:49:50Z"
    assert 0 < summary["timers"] < 1_500  # payments that took longer than four weeks


def test_killed_in_the_middle_it_goes_on_to_the_same_end(program: Program, theirs: dict[str, Trace]) -> None:
    database = program.folder / "killed.db"
    for events in (20_000, 15_000):
        killed_replay(Path(LOG), CASE, database, events=events, environment=program.environment())
    summary = replayed(program, "killed.db", "--resume")
    assert 30_000 < summary["skipped"] < 40_000
    assert summary["skipped"] + summary["fed"] == 55_628
    check(program, "killed.db", theirs, summary)
    assert program.inside("db", "check", "--db", "killed.db").code == 0
