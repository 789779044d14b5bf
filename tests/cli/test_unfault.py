"""`casehub case unfault` and `casehub case reroute`, with and without a worker process."""

from __future__ import annotations

from tests.cli.program import Program

BRITTLE = ("--app", "stories:brittle")


def faulted(program: Program) -> None:
    result = program.inside("case", "start", "brittle", "--fact", "number=-1", "--id", "b", *BRITTLE)
    assert result.code == 1, result.err


def test_without_a_worker_process_the_case_is_worked_here_until_it_rests(program: Program) -> None:
    faulted(program)
    done = program.inside("case", "unfault", "b", "number=3", "--reason", "misread", "--by", "user:ada", *BRITTLE)
    assert done.code == 0, done.err
    shown = program.inside("case", "show", "b", "-o", "json").json
    assert (shown["status"], shown["facts"]["answer"]) == ("COMPLETED", 3)
    (event,) = program.inside("events", "list", "--type", "CASE_UNFAULTED", "-o", "json").json["items"]
    assert (event["by"], event["body"]["reason"]) == ("user:ada", "misread")
    again = program.inside("case", "unfault", "b", *BRITTLE)
    assert (again.code, "it is COMPLETED, a terminal status" in again.err) == (4, True)


def test_beside_a_worker_process_what_faulted_it_is_dropped_and_stays_a_dead_letter(program: Program) -> None:
    faulted(program)
    with program.up("stories:brittle"):
        wrong = program.inside("case", "unfault", "b", "numbr=3")
        assert (wrong.code, "did you mean 'number'?" in wrong.err) == (2, True)
        done = program.inside("case", "unfault", "b", "--drop")
        assert done.code == 0, done.err
        (letter,) = program.inside("dead-letters", "list", "-o", "json").json["items"]
        assert letter["id"] == "b/reach/1"
        assert program.inside("case", "show", "b", "-o", "json").json["stalled"]


def test_a_dead_letter_is_rerouted_to_another_worker_here_and_beside_a_worker_process(program: Program) -> None:
    rated = ("--app", "stories:rated")
    for id in ("r", "s"):
        assert program.inside("case", "start", "rated", "--fact", "amount=3", "--id", id, *rated).code == 1
    wrong = program.inside("case", "reroute", "r", "rate", "--to", "asess_by_hand", *rated)
    assert (wrong.code, "did you mean 'assess_by_hand'?" in wrong.err) == (2, True)
    here = program.inside("case", "reroute", "r", "rate", "--to", "assess_by_hand", "--reason", "no line", *rated)
    assert here.code == 0, here.err
    assert program.inside("case", "show", "r", "-o", "json").json["facts"]["risk"] == 3
    with program.up("stories:rated"):
        there = program.inside("case", "reroute", "s", "rate", "--to", "assess_by_hand", "--by", "user:ada")
        assert there.code == 0, there.err
        (event,) = program.inside("events", "list", "--case", "s", "--type", "DEAD_LETTER_RETRIED", "-o", "json").json[
            "items"
        ]
        assert (event["by"], event["body"]["worker"]) == ("user:ada", "assess_by_hand")
