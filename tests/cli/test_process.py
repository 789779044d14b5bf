"""The life of a worker process: stopping in peace, at once, after its patience, and being killed."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.program import PATIENCE, ROOT, Gate, Program


def test_a_signal_lets_running_workers_finish_and_then_ends_the_process(program: Program) -> None:
    with Gate(program.gate) as gate, program.up("stories:held") as up:
        program.inside("case", "start", "held", "--fact", "task=dig", "--id", "h")
        worker = gate.next()
        watching = program.begin("case", "watch", "h", "-o", "ndjson")
        assert watching.stdout is not None
        watching.stdout.readline()
        up.process.send_signal(signal.SIGTERM)
        watching.stdout.read()  # streams are closed first
        watching.stdout.close()
        assert watching.wait(PATIENCE) == 7
        refused = program.inside("case", "cancel", "h")  # it listens on, to say so
        assert (refused.code, refused.err) == (7, "error: the worker process is stopping; ask again when it is back\n")
        worker.answer("a hole")
        assert up.process.wait(PATIENCE) == 0
        assert "stopped" in up.errors
    told = program.inside("case", "show", "h", "-o", "json").json
    assert (told["status"], told["facts"]["done"]) == ("COMPLETED", "a hole")
    assert not (program.folder / "casehub.db.sock").exists()


@pytest.mark.slow
def test_workers_that_do_not_finish_in_time_are_called_off_and_run_again(program: Program) -> None:
    with Gate(program.gate) as gate:
        with program.up("stories:held", "--drain-timeout", "100ms") as up:
            program.inside("case", "start", "held", "--fact", "task=dig", "--id", "h")
            first = gate.next()
            assert up.stop() == 0
            assert first.gone()
        with program.up("stories:held", "-o", "json") as up:
            assert json.loads(up.banner)["cases"] == {"resumed": 1, "waiting": 0, "suspended": 0}
            second = gate.next()
            watching = program.begin("case", "watch", "h", "-o", "ndjson")
            second.answer("a hole")
            assert watching.stdout is not None
            last = [json.loads(line) for line in watching.stdout][-1]
            watching.stdout.close()
            watching.wait(PATIENCE)
            assert last["name"] == "CASE_COMPLETED"
            assert up.stop(signal.SIGINT) == 0
    attempts = program.inside("events", "list", "--type", "WORKER_EXECUTION_STARTED", "-o", "ndjson").lines
    assert [event["body"]["attempt"] for event in attempts] == [1, 2]
    assert len({event["body"]["activation"] for event in attempts}) == 1


@pytest.mark.slow
def test_a_worker_that_cannot_be_called_off_is_left_behind(program: Program) -> None:
    with Gate(program.gate) as gate, program.up("stories:deaf", "--drain-timeout", "100ms") as up:
        program.inside("case", "start", "deaf", "--fact", "task=dig", "--id", "d")
        gate.next()
        assert up.stop() == 0  # without a limit of its own it would not end


def test_a_second_signal_ends_it_at_once(program: Program) -> None:
    with Gate(program.gate) as gate, program.up("stories:held", "--drain-timeout", "1h") as up:
        program.inside("case", "start", "held", "--fact", "task=dig", "--id", "h")
        worker = gate.next()
        up.process.send_signal(signal.SIGTERM)
        while "stopping" not in up.errors:
            assert up.process.poll() is None
        assert up.stop() == 128 + signal.SIGTERM
        assert worker.gone()


@pytest.mark.slow
def test_a_killed_process_loses_nothing_and_the_next_one_goes_on(program: Program) -> None:
    with Gate(program.gate) as gate:
        with program.up("stories:everything") as up:
            program.inside("case", "start", "held", "--fact", "task=dig", "--id", "h")
            program.inside("case", "start", "payment", "--fact", "amount=3", "--id", "p")
            gate.next()
            assert up.stop(signal.SIGKILL) == -signal.SIGKILL
        assert (program.folder / "casehub.db.sock").exists()  # it could not clean up
        told = program.inside("case", "list", "-o", "ndjson").lines
        assert {(case["case"], case["status"]) for case in told} == {("h", "RUNNING"), ("p", "WAITING")}
        with program.up("stories:everything", "-o", "json") as up:
            assert json.loads(up.banner)["cases"] == {"resumed": 1, "waiting": 1, "suspended": 0}
            gate.next().answer("a hole")
            result = program.inside("case", "signal", "p", "approved=true", "--wait", "quiescent", "-o", "json")
            assert (result.code, result.json["status"]) == (0, "COMPLETED")
            assert up.stop() == 0
        assert program.inside("case", "show", "h", "-o", "json").json["status"] == "COMPLETED"


def test_a_log_is_replayed_before_the_work_begins_and_only_once(program: Program) -> None:
    log = str(ROOT / "examples" / "expenses.xes")
    words = ("examples.expenses:declaration", "--replay", log, "-o", "json")
    with program.up(*words) as up:
        first, banner = map(json.loads, up.banner.splitlines())
        assert (first["replayed"], first["skipped"]) == (log, 0)
        assert first["events"] == first["fed"] > 0
        assert banner["definitions"] == ["declaration"]
        assert up.stop() == 0
    with program.up(*words[:-2]) as up:
        assert "ended cases  kept for ever" in up.banner  # they ended long ago
        assert up.stop() == 0
    with program.up(*words[:-2], "--retention", "30d") as up:
        assert "ended cases  deleted 30d after their end" in up.banner
        assert up.stop() == 0
    with program.up(*words) as up:
        again = json.loads(up.banner.splitlines()[0])
        assert (again["skipped"], again["fed"], again["cases"]) == (first["events"], 0, first["cases"])
        assert up.stop() == 0


def test_a_reader_that_has_seen_enough_ends_it_quietly(program: Program) -> None:
    program.inside("case", "start", "stories:claim", "document=Ada")
    listing = program.begin("events", "list", "-o", "ndjson")
    assert listing.stdout is not None
    listing.stdout.close()
    assert listing.wait(PATIENCE) == 0
    assert (program.folder / "errors").read_text() == ""


def test_an_interrupted_wait_leaves_the_case_where_it_is(program: Program) -> None:
    with Gate(program.gate) as gate:
        starting = program.begin("case", "start", "stories:held", "task=dig", "--id", "h")
        gate.next()
        starting.send_signal(signal.SIGINT)
        assert starting.wait(PATIENCE) == 130
        assert starting.stdout is not None
        assert starting.stdout.read() == ""
        starting.stdout.close()
    assert (program.folder / "errors").read_text() == "case h is left where it is; 'casehub up' goes on with it\n"
    assert program.inside("case", "show", "h", "-o", "json").json["status"] == "RUNNING"


def test_help_is_quick_and_loads_no_more_than_it_needs(program: Program) -> None:
    code = (
        "import sys; from casehub.cli import run; run(['--help']); "
        "print([m for m in ('pydantic_settings', 'casehub.adapters.sqlite', 'casehub.cli.up') if m in sys.modules])"
    )
    result = program.python("-c", code)
    assert result.code == 0
    assert result.out.splitlines()[-1] == "[]"
