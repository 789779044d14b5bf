"""`case show --at`, `case fork`, `case export` and `case import`, with and without a worker process."""

from __future__ import annotations

import pytest

from casehub import transcript
from tests.cli.program import Program


@pytest.fixture(scope="module")
def waiting(shared: Program) -> Program:
    """A folder with a case that waits."""
    assert shared.inside("case", "start", "stories:payment", "amount=12.5", "--id", "p1").code == 0
    return shared


def positions(program: Program, case: str, kind: str, *more: str) -> list[int]:
    found = program.inside("events", "list", "--case", case, "--type", kind, "-o", "ndjson", *more).lines
    return [event["seq"] for event in found]


def paid(program: Program) -> None:
    """A case that has waited, and was signalled to its end."""
    program.inside("case", "start", "stories:payment", "amount=12.5", "--id", "p1")
    assert program.inside("case", "signal", "p1", "approved=true").code == 0


def test_a_case_is_shown_as_it_was(program: Program) -> None:
    paid(program)
    (first, second, *_) = positions(program, "p1", "CONTEXT_CHANGED")
    then = program.inside("case", "show", "p1", "--at", str(first), "-o", "json").json
    assert (then["status"], then["facts"]) == ("RUNNING", {"amount": 12.5})
    assert program.inside("case", "show", "p1", "-o", "json").json["facts"]["paid"] == "12.50"
    facts = program.inside("case", "facts", "p1", "--at", str(second), "-o", "json").json["items"]
    assert [fact["fact"] for fact in facts] == ["amount", "approved"]
    said = program.inside("case", "explain", "p1", "pay", "--at", str(second - 1), "-o", "json").json["items"]
    assert said[0]["verdict"] == "MISSING_FACTS"
    assert program.inside("case", "plan", "p1", "--at", str(first)).code == 0
    assert "why: " not in program.inside("case", "show", "p1", "--at", str(first)).out


def test_a_fork_without_a_worker_process_is_worked_until_it_rests(program: Program) -> None:
    paid(program)
    (first, *_) = positions(program, "p1", "CONTEXT_CHANGED")
    made = program.inside("case", "fork", "p1", "--at", str(first), "--set", "amount=99", "--id", "f", "-o", "json")
    assert made.code == 0, made.err
    assert (made.json["status"], made.json["facts"], made.json["forked_from"]) == ("WAITING", {"amount": 99.0}, "p1")
    assert program.inside("case", "signal", "f", "approved=true", "-o", "json").json["facts"]["paid"] == "99.00"
    assert "forked from" in program.inside("case", "show", "f").out
    (forked,) = program.inside("events", "list", "--case", "f", "--type", "CASE_FORKED", "-o", "ndjson").lines
    assert (forked["body"]["source"], forked["body"]["source_seq"]) == (
        "p1",
        first + 1,
    )  # the turn that started it is whole


def test_beside_a_worker_process_cases_are_forked_exported_and_imported_there(program: Program) -> None:
    with program.up("stories:everything", "--retention", "off") as up:
        assert program("case", "start", "payment", "amount=1", "--id", "p1").code == 0
        made = program("case", "fork", "p1", "--set", "amount=2", "--id", "f", "--reason", "what if")
        assert made.code == 0, made.err
        assert (
            program("case", "signal", "f", "approved=true", "--wait", "quiescent", "-o", "json").json["facts"]["paid"]
            == "2.00"
        )
        assert program("case", "export", "p1", "p1.ndjson").code == 0
        taken = program("case", "import", "p1.ndjson")
        assert (taken.code, "with --id" in taken.err) == (4, True)
        done = program("case", "import", "p1.ndjson", "--id", "p2", "-o", "json")
        assert (done.json["case"], done.json["open"]) == ("p2", ["p2"])
        went_on = program("case", "signal", "p2", "approved=true", "--wait", "quiescent", "-o", "json")
        assert went_on.json["status"] == "COMPLETED"
        assert up.stop() == 0
    assert program.inside("db", "check").code == 0


def test_a_file_goes_into_an_empty_database_where_its_case_goes_on(program: Program) -> None:
    program.inside("case", "start", "stories:payment", "amount=12.5", "--id", "p1")
    said = program.inside("case", "export", "p1", "p1.ndjson")
    assert (said.code, "1 case," in said.out) == (0, True)
    assert transcript.read(program.folder / "p1.ndjson").id == "p1"
    dry = program.inside("case", "import", "p1.ndjson", "--dry-run", "--db", "new.db")
    assert (dry.code, "would be imported" in dry.out) == (0, True)
    assert program.inside("case", "show", "p1", "--db", "new.db").code == 3
    assert program.inside("case", "import", "p1.ndjson", "--db", "new.db").code == 0
    before = program.inside("case", "show", "p1", "-o", "json").json
    after = program.inside("case", "show", "p1", "--db", "new.db", "-o", "json").json
    assert {**before, "seq": 0} == {**after, "seq": 0}
    paid = program.inside(
        "case", "signal", "p1", "approved=true", "--db", "new.db", "--app", "stories:payment", "-o", "json"
    )
    assert paid.json["facts"]["paid"] == "12.50"


def test_a_file_that_was_changed_is_refused_and_nothing_is_imported(program: Program) -> None:
    program.inside("case", "start", "stories:payment", "amount=12.5", "--id", "p1")
    program.inside("case", "export", "p1", "p1.ndjson")
    file = program.folder / "p1.ndjson"
    file.write_text(file.read_text().replace("12.5", "99.5"))
    result = program.inside("case", "import", "p1.ndjson", "--id", "p2")
    assert (result.code, "does not fit its seal" in result.err) == (1, True)
    assert program.inside("case", "show", "p2").code == 3
    assert program.inside("case", "export", "p1", "p1.ndjson").code == 1  # nothing is written over


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("case", "show", "p1", "--at", "soon"), 2, "is no moment"),
        (("case", "show", "p1", "--at", "99999"), 2, "has not come yet"),
        (("case", "show", "none", "--at", "1"), 3, "no case 'none'"),
        (("case", "fork", "p1", "--at", "soon"), 2, "is no moment"),
        (("case", "fork", "none"), 3, "no case 'none'"),
        (("case", "fork", "p1", "--set", "amuont=1"), 2, "did you mean 'amount'"),
        (("case", "fork", "p1", "--set", "amount"), 2, "write name=value"),
        (("case", "fork", "p1", "--id", "p1"), 4, "is there already"),
        (("case", "fork", "p1", "--id", "../x"), 2, "is no id"),
        (("case", "frok", "p1"), 2, "fork"),
        (("case", "exprot", "p1", "x"), 2, "export"),
        (("case", "export", "none", "x"), 3, "no case 'none'"),
        (("case", "import", "nowhere.ndjson"), 1, "it is no file"),
        (("case", "import", "stories.py", "--dry-ru"), 2, "--dry-run"),
    ],
)
def test_mistakes_are_answered_with_what_would_be_right(
    waiting: Program, words: tuple[str, ...], code: int, said: str
) -> None:
    result = waiting.inside(*words)
    assert (result.code, said in result.err) == (code, True), result.err
