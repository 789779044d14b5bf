"""Quarantines at the command line: a worker process leaves a worker alone, and an operator lets it be called again."""

from __future__ import annotations

from tests.cli.program import Program


def test_a_worker_that_is_quarantined_is_listed_and_released(program: Program) -> None:
    down = program.folder / "down"
    down.touch()
    with program.up("stories:flaky") as up:
        for number in ("1", "2"):
            program.inside("case", "start", "flaky", "--fact", f"number={number}", "--wait")
        assert program.inside("quarantine", "list", "-o", "json").json["items"] == []  # it holds up nobody yet
        program.inside("case", "start", "flaky", "--fact", "number=3", "--id", "three")
        (told,) = program.inside("quarantine", "list", "-o", "json").json["items"]
        assert (told["definition"], told["worker"]) == ("flaky", "call")
        assert "QUARANTINED" in program.inside("case", "explain", "three").out
        down.unlink()
        wrong = program.inside("quarantine", "release", "flaky", "cal")
        assert (wrong.code, "did you mean 'call'?" in wrong.err) == (2, True)
        done = program.inside("quarantine", "release", "flaky", "call", "--reason", "it is back")
        assert (done.code, done.out) == (0, "call of flaky: released\n")
        for _ in range(200):
            if program.inside("case", "show", "three", "-o", "json").json["status"] == "COMPLETED":
                break
        shown = program.inside("case", "show", "three", "-o", "json").json
        assert (shown["status"], shown["facts"]["answer"]) == ("COMPLETED", 3)
        assert "no worker is quarantined" in (listed := program.inside("quarantine", "list")).out + listed.err
        assert up.stop() == 0


def test_without_a_worker_process_it_is_released_in_the_log(program: Program) -> None:
    down = program.folder / "down"
    down.touch()
    with program.up("stories:flaky") as up:
        for number in ("1", "2"):
            program.inside("case", "start", "flaky", "--fact", f"number={number}", "--wait")
        program.inside("case", "start", "flaky", "--fact", "number=3", "--id", "three")
        assert up.stop() == 0
    down.unlink()
    done = program.inside("quarantine", "release", "flaky", "call", "--app", "stories:flaky")
    assert done.code == 0, done.err
    assert program.inside("quarantine", "list", "-o", "json").json["items"] == []
    with program.up("stories:flaky"):
        for _ in range(200):
            if program.inside("case", "show", "three", "-o", "json").json["status"] == "COMPLETED":
                break
        assert program.inside("case", "show", "three", "-o", "json").json["status"] == "COMPLETED"
