"""Commands beside a running `casehub up`: one worker process for all tests of this module."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator

import pytest

from tests.cli.program import PATIENCE, Gate, Program, Up


@pytest.fixture(scope="module")
def up(shared: Program) -> Iterator[Up]:
    with shared.up("stories:everything", env={"CASEHUB_BY": ""}) as up:
        yield up
        assert up.stop() == 0


def test_the_banner_says_what_runs_where_it_is_kept_and_what_to_type_next(shared: Program, up: Up) -> None:
    for expected in (
        f"process {up.process.pid}",
        "stories:everything",
        "claim, payment, stuck, held, deaf",
        "SQLite, casehub.db, synchronous=FULL: survives a killed process and power loss",
        "casehub.db.sock",
        "0 resumed",
        "casehub case start claim document=...",
        "Ctrl-C",
    ):
        assert expected in up.banner


def test_the_control_socket_is_for_its_owner_alone(shared: Program, up: Up) -> None:
    mode = (shared.folder / "casehub.db.sock").stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_a_case_is_started_and_waited_for(shared: Program, up: Up) -> None:
    result = shared("case", "start", "claim", "--fact", "document=Ada met Grace", "--id", "c1", "--wait", "-o", "json")
    assert result.code == 0, result.err
    told = result.json
    assert (told["case"], told["status"]) == ("c1", "COMPLETED")
    assert told["facts"] == {
        "document": "Ada met Grace",
        "entities": ["Ada", "Grace"],
        "risk": 0.2,
        "decision": "approve",
    }
    again = shared.inside("case", "start", "claim", "--fact", "document=x", "--id", "c1")
    assert again.code == 4
    assert again.err.startswith("error: case 'c1' is there already; give another --id")


def test_a_waiting_case_is_signalled_and_says_who_did_it(shared: Program, up: Up) -> None:
    started = shared("case", "start", "payment", "--data", "-", "--id", "p1", "-o", "ndjson", stdin='{"amount": 12.5}')
    assert started.code == 0, started.err
    assert started.json["facts"] == {"amount": 12.5}
    result = shared.inside(
        "case", "signal", "p1", "approved=true", "--by", "user:ada", "--reason", "seen", "--wait", "quiescent", "-o", "json"
    )  # fmt: skip
    assert result.code == 0, result.err
    assert (result.json["status"], result.json["facts"]["paid"]) == ("COMPLETED", "12.50")
    events = shared.inside("events", "list", "--case", "p1", "--type", "SignalReceived", "-o", "ndjson").lines
    assert [(event["by"], event["body"]["reason"]) for event in events] == [("user:ada", "seen")]


def test_a_signal_is_refused_where_the_fact_has_changed_since_it_was_seen(shared: Program, up: Up) -> None:
    started = shared("case", "start", "payment", "--data", "-", "--id", "x1", "-o", "json", stdin='{"amount": 12.5}')
    seen = str(started.json["version"])
    refused = shared.inside("case", "signal", "x1", "approved=true", "--expected", "99")
    assert (refused.code, "nobody has seen it at 99" in refused.err) == (2, True), refused.err
    result = shared.inside("case", "signal", "x1", "approved=true", "--expected", seen, "--wait", "quiescent")
    assert result.code == 0, result.err


def test_a_second_owner_is_refused_and_told_who_it_is(shared: Program, up: Up) -> None:
    result = shared.inside("up", "stories:claim")
    assert result.code == 7
    assert f"owned by process {up.process.pid}" in result.err
    assert "casehub.db.sock" in result.err
    assert shared.inside("db", "migrate").code == 7


def test_a_case_is_watched_until_it_ends(shared: Program, up: Up) -> None:
    shared.inside("case", "start", "payment", "--id", "w1")
    watching = shared.begin("case", "watch", "w1", "-o", "ndjson")
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())  # it is there, so it hears what follows
    assert (first["name"], first["case"]) == ("CASE_STARTED", "w1")
    assert shared.inside("case", "cancel", "w1", "--reason", "enough").code == 0
    rest = [json.loads(line) for line in watching.stdout]
    watching.stdout.close()
    assert watching.wait(PATIENCE) == 0
    assert rest[-1]["name"] == "CASE_CANCELLED"
    assert rest[-1]["body"]["reason"] == "enough"


def test_a_case_is_stepped_one_decision_at_a_time(shared: Program, up: Up) -> None:
    result = shared.inside("case", "start", "claim", "--fact", "document=Ada", "--step", "-o", "ndjson")
    assert result.code == 0, result.err
    *steps, case = result.lines
    assert [(step["step"], step["eligible"], step["chosen"], list(step["written"])) for step in steps] == [
        (1, ["extract"], ["extract"], ["entities"]),
        (2, ["assess"], ["assess"], ["risk"]),
        (3, ["decide"], ["decide"], ["decision"]),
    ]
    assert case["status"] == "COMPLETED"


def test_a_case_is_suspended_resumed_and_killed(shared: Program, up: Up) -> None:
    with Gate(shared.gate) as gate:
        assert shared.inside("case", "start", "held", "--fact", "task=dig", "--id", "h1").code == 0
        worker = gate.next()
        assert worker.task == "dig"
        assert shared.inside("case", "suspend", "h1").out == "case h1: SUSPENDED\n"
        again = shared.inside("case", "suspend", "h1")
        assert again.code == 4
        assert "h1" in again.err
        assert shared.inside("case", "explain", "h1", "work", "-o", "json").json["items"][0]["verdict"] == "SUSPENDED"
        assert shared.inside("case", "resume", "h1").out == "case h1: RUNNING\n"
        assert shared.inside("case", "kill", "h1").out == "case h1: CANCELLED\n"
        assert worker.gone()
    shared.gate.unlink()


def test_waiting_ends_with_its_own_code_when_the_time_is_up(shared: Program, up: Up) -> None:
    result = shared.inside("case", "start", "payment", "--id", "late", "--wait", "--timeout", "100ms")
    assert result.code == 6
    assert result.err.splitlines()[-1].startswith("error: case 'late' was not done after 0.1s; it goes on")


def test_a_stalled_case_says_why(shared: Program, up: Up) -> None:
    result = shared.inside("case", "start", "stuck", "--fact", "question=why", "--id", "s1", "--wait")
    assert result.code == 1
    assert "nobody knows why" in result.out
    assert result.err.startswith("error: case 's1' has stalled")
    told = shared.inside("case", "list", "--stalled", "-o", "json").json["items"]
    assert [(case["case"], case["stalled"]) for case in told] == [("s1", True)]
    assert "s1" in shared.inside("doctor").out


def test_what_the_worker_process_does_not_know_is_answered_with_the_nearest_name(shared: Program, up: Up) -> None:
    for words, code, said in (
        (("case", "start", "clame"), 3, "did you mean 'claim'?"),
        (("case", "start", "claim", "--fact", "documnt=x"), 2, "did you mean 'document'?"),
        (("case", "explain", "c0"), 3, "there is no case 'c0' in casehub.db; list them with 'casehub case list'"),
        (("case", "signal", "c0", "approved=true"), 3, "there is no case 'c0'"),
    ):
        result = shared.inside(*words)
        assert (result.code, result.out) == (code, ""), words
        assert said in result.err
        assert "Traceback" not in result.err


def test_the_doctor_sees_the_worker_process(shared: Program, up: Up) -> None:
    result = shared.inside("doctor", "-o", "json")
    assert result.code == 0, result.out
    told = {check["subject"]: check for check in result.json["items"]}
    assert str(up.process.pid) in told["worker process"]["text"]
    assert told["parked cases"]["level"] == "ok"
    assert "sqlite:///casehub.db" in told["setting db"]["text"]
