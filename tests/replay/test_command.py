"""`casehub replay-log` and `casehub events export`, as they are typed."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from casehub.adapters.xes import Trace, XesEvent, read_traces, write_log
from tests.cli.conftest import short_folder
from tests.cli.program import ROOT, Program
from tests.replay.killing import killed_replay
from tests.replay.logs import made_up

LOG = str(ROOT / "examples" / "expenses.xes")
CASE = "examples.expenses:declaration"


@pytest.fixture
def program() -> Iterator[Program]:
    with short_folder() as folder:
        yield Program(folder)


def test_the_small_log_is_replayed_and_its_summary_is_for_people(program: Program) -> None:
    result = program.inside("replay-log", LOG, "--case", CASE)
    assert result.code == 0, result.err
    lines = [line.split(maxsplit=1) for line in result.out.splitlines()]
    assert lines[0] == ["cases", "12 of 'declaration': 11 COMPLETED, 1 WAITING"]
    assert ["events", "73 in the log, 2024-03-04 to 2024-04-21"] in lines
    assert ["fed", "51 signals, 22 results, 2 timers"] in lines
    assert ["flag", "1: d-08"] in lines
    assert "out of order  1: d-08 (Request Payment)" in result.out
    assert "look at them with: casehub case list" in result.out
    assert result.err == ""


def test_programs_get_the_summary_as_json(program: Program) -> None:
    result = program.inside("replay-log", LOG, "--case", CASE, "-o", "json")
    summary = result.json
    assert (summary["cases"], summary["by_status"]) == (12, {"COMPLETED": 11, "WAITING": 1})
    assert (summary["fed"], summary["flagged"], summary["refused"]) == (73, {"flag": ["d-08"]}, 0)
    assert summary["first"] == "2024-03-04T08:12:00Z"
    assert summary["events_per_second"] > 0


def test_a_second_replay_is_a_conflict_and_resuming_it_takes_nothing(program: Program) -> None:
    program.inside("replay-log", LOG, "--case", CASE, "--limit", "3")
    again = program.inside("replay-log", LOG, "--case", CASE)
    assert again.code == 4
    assert "3 of the 12 cases of the log are in this store, 'd-01' among them" in again.err
    assert "--resume" in again.err
    resumed = program.inside("replay-log", LOG, "--case", CASE, "--resume", "-o", "json").json
    assert (resumed["skipped"], resumed["cases"]) == (16, 12)
    once_more = program.inside("replay-log", LOG, "--case", CASE, "--resume")
    assert "0 signals, 0 results, 0 timers, 73 taken before" in once_more.out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["no.xes", "--case", CASE], 2, "no.xes: there is no such file"),
        ([LOG, "--case", CASE, "--limit", "0"], 2, "--limit 0: at least 1"),
        ([LOG, "--case", "examples.expenses:declaraton"], 2, "did you mean 'declaration'?"),
        ([LOG, "--case", "examples.claim:claim"], 2, "says of no activity what it means"),
        ([str(ROOT / "examples" / "expenses.py"), "--case", CASE], 1, "this is not XML"),
    ],
)
def test_what_cannot_be_replayed_is_said_in_a_line(program: Program, words: list[str], code: int, says: str) -> None:
    result = program.inside("replay-log", *words)
    assert (result.code, result.out) == (code, "")
    assert says in result.err
    assert len(result.err.splitlines()) == 1


def test_strict_refuses_activities_without_a_meaning_before_anything_is_fed(program: Program) -> None:
    traces = [Trace(case="a", events=[XesEvent(activity="Request Paymnt", at=made_up(1)[0].events[0].at)])]
    write_log(program.folder / "odd.xes", traces)
    result = program.inside("replay-log", "odd.xes", "--case", CASE, "--strict")
    assert result.code == 2
    assert "'Request Paymnt'; did you mean 'Request Payment'?" in result.err
    assert not program.database.exists()
    loose = program.inside("replay-log", "odd.xes", "--case", CASE)
    assert "not mapped  1: Request Paymnt (1)" in loose.out


def test_an_export_reads_back_as_the_log(program: Program) -> None:
    program.inside("replay-log", LOG, "--case", CASE)
    result = program.inside("events", "export", "--out", "back.xes.gz")
    assert (result.code, result.out) == (0, "back.xes.gz: 12 cases, 73 events\n")
    theirs = {trace.case: trace.events for trace in read_traces(Path(LOG))}
    ours = {trace.case: trace.events for trace in read_traces(program.folder / "back.xes.gz")}
    assert ours == theirs


def test_an_export_goes_to_standard_output_and_its_form_is_asked_for(program: Program) -> None:
    program.inside("replay-log", LOG, "--case", CASE)
    lines = program("events", "export", "--case", "d-08").lines
    assert [line["version"] for line in lines] == list(range(1, len(lines) + 1))
    rows = list(csv.reader(io.StringIO(program("events", "export", "--format", "csv", "--case", "d-08").out)))
    assert [row[1] for row in rows[1:]] == [
        "Declaration SUBMITTED by EMPLOYEE",
        "Declaration REJECTED by SUPERVISOR",
        "Request Payment",
        "Payment Handled",
    ]
    assert program.inside("events", "export", "--format", "xes", "--case", "d-08").out.count("<event>") == 4


def test_an_export_of_what_is_not_there_names_the_nearest(program: Program) -> None:
    program.inside("replay-log", LOG, "--case", CASE, "--limit", "1")
    assert program.inside("events", "export", "--case", "d-99").code == 3
    definition = program.inside("events", "export", "--definition", "declaraton")
    assert (definition.code, "did you mean 'declaration'?" in definition.err) == (3, True)
    folder = program.inside("events", "export", "--out", "nowhere/log.xes")
    assert (folder.code, folder.err) == (
        2,
        "error: --out nowhere/log.xes: No such file or directory; give a file that can be written\n",
    )
    ending = program.inside("events", "export", "--out", "log.txt")
    assert (ending.code, "say which with --format" in ending.err) == (2, True)


def test_a_database_that_a_worker_process_owns_is_read_and_not_replayed_into(program: Program) -> None:
    program.inside("replay-log", LOG, "--case", CASE, "--limit", "2")
    with program.up(CASE):
        refused = program.inside("replay-log", LOG, "--case", CASE, "--resume")
        assert refused.code == 7
        exported = program.inside("events", "export", "--out", "beside.csv")
        assert exported.out == "beside.csv: 2 cases, 11 events\n"


@pytest.mark.slow
def test_a_replay_that_is_killed_goes_on_with_resume(program: Program) -> None:
    """`kill -9` twice over, in the middle of whatever the process is doing then."""
    log = program.folder / "orders.xes"
    traces = [
        Trace(
            case=each.case,
            events=[XesEvent(activity=e.activity, at=e.at, attributes=dict(e.attributes)) for e in each.events],
        )
        for each in made_up(11, cases=400)
    ]
    write_log(log, traces)
    (program.folder / "shop.py").write_text("from tests.replay.logs import Shop\nshop = Shop().definition\n")
    words = ("replay-log", "orders.xes", "--case", "shop:shop", "-o", "json")
    whole = program(*words, "--db", "whole.db").json
    for _ in range(2):
        killed_replay(log, "shop:shop", program.database, events=500, environment=program.environment())
    rest = program(*words, "--resume").json
    assert 500 < rest["skipped"] < whole["fed"]
    assert rest["fed"] + rest["skipped"] == whole["fed"]
    for same in ("cases", "by_status", "flagged", "refused"):
        assert rest[same] == whole[same]
    found = []
    for database in ("whole.db", "casehub.db"):
        assert program.inside("db", "check", "--db", database).code == 0
        program.inside("events", "export", "--db", database, "--out", f"{database}.xes")
        found.append({trace.case: trace.events for trace in read_traces(program.folder / f"{database}.xes")})
    assert found[0] == found[1]


def test_a_command_without_the_extra_names_it(program: Program) -> None:
    """`defusedxml` is not there: one line says how to get it, and nothing else of the program needs it."""
    code = (
        "import sys; sys.modules['defusedxml'] = None\n"
        "from casehub.cli import run\n"
        f"sys.exit(run(['replay-log', {LOG!r}, '--case', {CASE!r}]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=program.folder, env=program.environment(), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "pip install 'casehub[xes]'" in ended.stderr
    assert json.dumps(ended.stdout) == '""'
