"""`casehub case compensate`, and what commands say of a case that undoes what it did."""

from __future__ import annotations

import time

from tests.cli.program import Program

TRIP = ("--app", "stories:trip")


def started(program: Program, id: str, city: str) -> None:
    assert program.inside("case", "start", "trip", "--fact", f"city={city}", "--id", id, *TRIP).code == 0


def test_something_is_undone_by_hand_here_and_beside_a_worker_process(program: Program) -> None:
    started(program, "a", "Oslo")
    started(program, "b", "Oslo")
    wrong = program.inside("case", "compensate", "a", "book_flihgt", *TRIP)
    assert (wrong.code, "did you mean 'book_flight'?" in wrong.err) == (2, True)
    here = program.inside("case", "compensate", "a", "book_flight", "--reason", "the wrong day", *TRIP)
    assert here.code == 0, here.err
    assert program.inside("case", "show", "a", "-o", "json").json["facts"]["refund"] == "half"
    with program.up("stories:trip"):
        there = program.inside("case", "compensate", "b", "b/book_flight/1", "--by", "user:ada")
        assert there.code == 0, there.err
        (event,) = program.inside("events", "list", "--case", "b", "--type", "COMPENSATION_STARTED", "-o", "json").json[
            "items"
        ]
        assert (event["by"], event["body"]["undone_by"]) == ("user:ada", "b/cancel_flight/1")


def test_a_case_that_is_cancelled_where_nobody_works_it_says_so_and_shows_what_it_has_to_undo(program: Program) -> None:
    started(program, "r", "Rome")
    shown = program.inside("case", "show", "r")
    assert "can be undone  r/book_flight/1" in shown.out
    done = program.inside("case", "cancel", "r", "--reason", "no time", *TRIP)
    assert done.out == "case r: COMPENSATING; run casehub up, which undoes what it did\n"
    shown = program.inside("case", "show", "r")
    assert "ends as     CANCELLED, when it has undone what it did" in shown.out
    explained = program.inside("case", "explain", "r", "book_flight", *TRIP)
    assert "COMPENSATING" in explained.out
    assert "will be CANCELLED: no time" in explained.out
    with program.up("stories:trip"):
        patience = time.monotonic() + 60
        while (shown := program.inside("case", "show", "r", "-o", "json").json)["status"] == "COMPENSATING":
            assert time.monotonic() < patience
            time.sleep(0.02)
    assert shown["status"] == "CANCELLED"
    assert shown["reason"] == "no time; not compensated: r/book_flight/1 (no refunds)"
    assert shown["compensation"] == {
        "ends_as": None, "undone": [], "under_way": [], "failed": {"r/book_flight/1": "no refunds"}, "undoable": [],
    }  # fmt: skip


def test_a_case_is_killed_with_what_it_did_left_as_it_is(program: Program) -> None:
    started(program, "o", "Oslo")
    done = program.inside("case", "kill", "o", *TRIP)
    assert done.out == "case o: CANCELLED\n"
    assert (
        program.inside("case", "show", "o", "-o", "json").json["reason"].startswith("not compensated: o/book_flight/1")
    )
