"""The brake at the command line: with a worker process, without one, over its restart; over cases and over workers."""

from __future__ import annotations

import pytest

from tests.cli.program import Program

EVERYTHING = ("--app", "stories:everything")


def test_it_is_pulled_and_released_beside_a_worker_process_and_stays_on_over_its_restart(program: Program) -> None:
    with program.up("stories:everything") as up:
        pulled = program.inside("suspend", "--definition", "claim", "--reason", "audit", "--by", "user:ada")
        assert (pulled.code, pulled.out) == (0, "brake on cases of claim; 0 suspended that were at work\n"), pulled.err
        program.inside("case", "start", "claim", "--fact", "document=Ada", "--id", "c")
        assert program.inside("case", "show", "c", "-o", "json").json["reason"] == "brake: audit"
        refused = program.inside("case", "resume", "c")
        assert (refused.code, "casehub resume" in refused.err) == (4, True)
        assert up.stop() == 0
        assert "  brake" not in up.banner
    with program.up("stories:everything") as up:
        assert "  brake" in up.banner
        assert "on cases of claim: nothing new starts" in program.inside("doctor").out
        assert program.inside("case", "show", "c", "-o", "json").json["status"] == "SUSPENDED"
        assert "did you mean 'claim'?" in program.inside("resume", "--definition", "clame").err
        released = program.inside("resume", "--definition", "claim")
        assert (released.code, released.out) == (0, "brake off cases of claim; 1 resumed\n"), released.err
        for _ in range(200):
            if program.inside("case", "show", "c", "-o", "json").json["status"] == "COMPLETED":
                break
        assert program.inside("case", "show", "c", "-o", "json").json["status"] == "COMPLETED"


def test_without_a_worker_process_it_is_pulled_in_the_database(program: Program) -> None:
    program.inside("case", "start", "payment", "--fact", "amount=12.5", "--id", "p", *EVERYTHING)
    assert program.inside("suspend", "--all", *EVERYTHING).out == "brake on all cases; 0 suspended that were at work\n"
    program.inside("case", "signal", "p", "approved=true", "--wait", "turn", *EVERYTHING)
    assert program.inside("case", "show", "p", "-o", "json").json["status"] == "SUSPENDED"
    assert "on all cases: nothing new starts" in program.inside("doctor").out
    assert program.inside("resume", "--all", *EVERYTHING).out == "brake off all cases; 1 resumed\n"
    assert program.inside("resume", "--all", *EVERYTHING).code == 2


def test_a_worker_is_suspended_and_resumed_with_a_worker_process_and_without_one(program: Program) -> None:
    with program.up("stories:flaky") as up:
        done = program.inside("suspend", "--worker", "call", "--reason", "it books twice")
        assert (done.code, done.out) == (0, "worker call is suspended\n"), done.err
        assert "did you mean 'call'?" in program.inside("suspend", "--worker", "cal").err
        program.inside("case", "start", "flaky", "--fact", "number=3", "--id", "three")
        assert "call is suspended" in program.inside("case", "explain", "three").out
        assert "it is resumed" in program.inside("quarantine", "list").out
        assert up.stop() == 0
    done = program.inside("resume", "--worker", "call", "--app", "stories:flaky")
    assert (done.code, done.out) == (0, "worker call is resumed; cases that were told not to run it: 1\n"), done.err
    with program.up("stories:flaky"):
        for _ in range(200):
            if program.inside("case", "show", "three", "-o", "json").json["status"] == "COMPLETED":
                break
        assert program.inside("case", "show", "three", "-o", "json").json["status"] == "COMPLETED"


@pytest.mark.parametrize("words", [(), ("--all", "--definition", "claim")])
def test_what_to_hold_has_to_be_said(program: Program, words: tuple[str, ...]) -> None:
    for verb in ("suspend", "resume"):
        result = program.inside(verb, *words, *EVERYTHING)
        assert (result.code, "--all, --definition NAME, or --worker NAME" in result.err) == (2, True)
