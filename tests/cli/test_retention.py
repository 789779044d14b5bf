"""`casehub retention`, with and without a worker process, and what `casehub up` says and does of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from casehub import transcript
from tests.cli.program import Program


def ended(program: Program, *ids: str) -> None:
    for id in ids:
        assert program.inside("case", "start", "stories:claim", "document=Ada", "--id", id).code == 0


def test_a_plan_says_what_is_due_and_changes_nothing(program: Program) -> None:
    ended(program, "c1", "c2")
    nothing = program.inside("retention", "plan")
    assert (nothing.code, nothing.out.strip()) == (0, "nothing is due: no case ended more than 90d ago")
    found = program.inside("retention", "plan", "--after", "0s", "-o", "json").json["items"]
    assert [(item["definition"], item["cases"]) for item in found] == [("claim", 2)]
    assert found[0]["rows"] > 2 * 10
    assert found[0]["bytes"] > 500
    table = program.inside("retention", "plan", "--after", "0s")
    assert "claim" in table.out
    assert "casehub retention run" in table.out
    assert len(program.inside("case", "list", "-o", "json").json["items"]) == 2


def test_a_run_archives_or_deletes_without_a_worker_process(program: Program) -> None:
    ended(program, "c1")
    done = program.inside("retention", "run", "--after", "0s", "--archive", "old", "-o", "json")
    assert (done.code, done.json["cases"], done.json["kept"]) == (0, 1, {})
    (file,) = (program.folder / "old").rglob("*.ndjson")
    assert transcript.read(file).id == "c1"
    assert program.inside("case", "show", "c1").code == 3
    ended(program, "c2")
    assert "1 cases with" in program.inside("retention", "run", "--after", "0s").out
    assert "retired so far: 2 cases" in program.inside("retention", "plan").out
    assert len(list((program.folder / "old").rglob("*.ndjson"))) == 1
    assert program.inside("db", "check").code == 0
    ended(program, "c3")
    for after in ("0", "1", "9"):  # positions in the gap that retention made, and before it
        lines = program.inside("events", "tail", "--after", after, "-o", "ndjson").lines
        assert {line["case"] for line in lines} == {"c3"}
        assert (lines[0]["name"], lines[-1]["name"]) == ("CASE_STARTED", "CASE_COMPLETED")


def test_beside_a_worker_process_it_is_done_there(program: Program) -> None:
    with program.up("stories:everything", "--retention", "off") as up:
        assert "kept for ever" in up.banner
        program("case", "start", "claim", "document=Ada", "--id", "c1", "--wait")
        done = program("retention", "run", "--after", "0s", "--archive", "old", "-o", "json")
        assert (done.code, done.json["cases"]) == (0, 1), done.err
        assert program.inside("case", "show", "c1").code == 3
        assert up.stop() == 0
    assert len(list(Path(program.folder / "old").rglob("*.ndjson"))) == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("retention", "run", "--after", "soon"), 2, "duration 'soon' is not one"),
        (("retention", "plan", "--after", "off"), 2, "duration 'off' is not one"),
        (("retention", "pla"), 2, "plan"),
        (("retenton", "plan"), 2, "retention"),
        (("retention", "run", "--archiv", "x"), 2, "--archive"),
        (("retention", "run", "--db", "nowhere.db"), 7, "there is none"),
        (("up", "stories:claim", "--retention", "ninety"), 2, "setting retention (--retention)"),
    ],
)
def test_mistakes_are_answered_with_what_would_be_right(
    program: Program, words: tuple[str, ...], code: int, said: str
) -> None:
    result = program.inside(*words)
    assert (result.code, said in result.err) == (code, True), result.err


def test_the_settings_hold_where_nothing_is_given(program: Program) -> None:
    ended(program, "c1")
    (program.folder / "casehub.toml").write_text('retention = "off"\n')
    off = program.inside("retention", "plan")
    assert (off.code, "retention is off (casehub.toml)" in off.err) == (2, True)
    assert program("retention", "plan", env={"CASEHUB_RETENTION": "0s"}).out.startswith("DEFINITION")


def test_a_hub_that_app_names_has_its_own(program: Program) -> None:
    (program.folder / "its_own.py").write_text(
        "from casehub import CaseHub\nfrom stories import claim\nhub = CaseHub(claim)\n"
    )
    result = program.inside("up", "its_own:hub", "--retention", "1d")
    assert result.code == 2
    assert "give it retention= there" in result.err
