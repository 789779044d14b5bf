"""Dead letters at the command line, with and without a worker process."""

from __future__ import annotations

import pytest

from tests.cli.program import Program

EVERYTHING = ("--app", "stories:everything")
LETTER = "s/take_notes/1"


def stuck(program: Program, id: str = "s") -> None:
    result = program.inside("case", "start", "stuck", "--fact", "question=why", "--id", id, *EVERYTHING)
    assert result.code == 1, result.err


def test_they_are_listed_and_shown_from_the_file(program: Program) -> None:
    stuck(program)
    listed = program.inside("dead-letters", "list")
    assert listed.code == 0, listed.err
    assert LETTER in listed.out
    assert "Permanent: nobody knows why" in listed.out
    (told,) = program.inside("dead-letters", "list", "--definition", "stuck", "-o", "json").json["items"]
    assert (told["id"], told["attempts"], told["outcome"]) == (LETTER, 1, "WORKER_EXECUTION_FAILED")
    shown = program.inside("dead-letters", "show", LETTER)
    assert "question = " in shown.out
    assert f"casehub dead-letters retry {LETTER}" in shown.err + shown.out
    assert program.inside("dead-letters", "show", LETTER, "-o", "json").json["inputs"] == {"question": "why"}


def test_without_any_it_says_so(program: Program) -> None:
    program.inside("case", "start", "claim", "--fact", "document=Ada", *EVERYTHING)
    assert "no dead letters" in (result := program.inside("dead-letters", "list")).out + result.err
    assert program.inside("dead-letters", "list", "--definition", "clame").code == 3


def test_one_is_retried_here_on_edited_input_and_discarded(program: Program) -> None:
    stuck(program)
    again = program.inside("dead-letters", "retry", LETTER, "question=where", *EVERYTHING, "--by", "user:ada")
    assert again.code == 0, again.err
    assert program.inside("dead-letters", "show", "s/take_notes/2", "-o", "json").json["inputs"] == {
        "question": "where"
    }
    gone = program.inside("dead-letters", "discard", "s/take_notes/2", "--reason", "by hand", *EVERYTHING)
    assert (gone.code, gone.out) == (0, "s/take_notes/2: discarded\n")
    assert program.inside("dead-letters", "list", "-o", "json").json["items"] == []
    assert program.inside("dead-letters", "retry", "s/take_notes/2", *EVERYTHING).code == 4


@pytest.mark.parametrize(
    ("letter", "code", "text"),
    [
        ("s", 3, "'s' is no dead letter's id: they are CASE/BINDING/NUMBER"),
        ("t/take_notes/1", 3, "there is no case 't'"),
        ("s/take_notes/5", 2, "the case has no such activation"),
    ],
)
def test_what_is_none_is_refused(program: Program, letter: str, code: int, text: str) -> None:
    stuck(program)
    for verb in ("show", "discard"):
        result = program.inside("dead-letters", verb, letter, *(EVERYTHING if verb == "discard" else ()))
        assert (result.code, text in result.err) == (code, True), result.err


def test_beside_a_worker_process_its_hub_takes_the_verbs(program: Program) -> None:
    with program.up("stories:everything") as up:
        program.inside("case", "start", "stuck", "--fact", "question=why", "--id", "s", "--wait")
        result = program.inside("dead-letters", "retry", LETTER, "question=where", "--reason", "typo")
        assert result.code == 0, result.err
        for _ in range(200):  # it fails again in a moment
            if program.inside("dead-letters", "list", "-o", "json").json["items"]:
                break
        refused = program.inside("dead-letters", "retry", "s/take_notes/2", "quesion=when")
        assert "did you mean 'question'?" in refused.err
        assert program.inside("dead-letters", "discard", "s/take_notes/2").code == 0
        assert program.inside("dead-letters", "list", "-o", "json").json["items"] == []
        assert up.stop() == 0
