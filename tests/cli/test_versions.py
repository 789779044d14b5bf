"""Versions at the command line: releases of an application over one database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import Program

CLAIM = """
case: claim
inputs: {document: string}
signals: {amount: integer}
workers:
  write: {set: {letter: '"we pay " + string(amount)'}}
goal: letter
"""
CAPPED = CLAIM.replace("string(amount)", "string(amount > 500 ? 500 : amount)")
ASKED = """
case: claim
inputs: {document: string}
workers:
  assess: {ask: {title: How much?, form: integer, shows: [document]}, writes: amount}
  write: {set: {letter: '"we pay " + string(amount)'}}
goal: letter
"""


def release(program: Program, current: str, *kept: str) -> None:
    """Put these definitions into the folder `cases`."""
    folder = program.folder / "cases"
    (folder / "kept").mkdir(parents=True, exist_ok=True)
    for file in folder.rglob("*.yaml"):
        file.unlink()
    if current:
        (folder / "claim.yaml").write_text(current)
    for number, text in enumerate(kept, 1):
        (folder / "kept" / f"claim-{number}.yaml").write_text(text)


def version(program: Program, case: str) -> str:
    return str(program.inside("case", "show", case, "-o", "json").json["structure"])


def test_an_open_case_goes_on_with_its_version_and_is_moved_when_somebody_says_so(program: Program) -> None:
    release(program, CLAIM)
    for case in ("a", "b"):
        assert program.inside("case", "start", "claim", "document=roof", "--id", case, "--app", "cases").code == 0
    release(program, CAPPED, CLAIM)
    listed = program.inside("def", "validate", "cases", "-o", "json").json["items"]
    assert [(each["definition"], each["kept"]) for each in listed] == [("claim", False), ("claim", True)]
    two, one = (each["structure"] for each in listed)
    assert f"claim (kept)  1         0       1      {one}" in program.inside("def", "validate", "cases").out
    program.inside("case", "signal", "a", "amount=700")
    assert program.inside("case", "facts", "a", "letter", "-o", "json").json["items"][0]["value"] == "we pay 700"
    assert (version(program, "a"), version(program, "b")) == (one, one)
    assert f"version     {one}" in program.inside("case", "show", "b").out
    for words in (["--dry-run"], []):
        moved = program.inside("def", "migrate", "claim", *words, "-o", "json").json["items"]
        assert moved == [{"case": "b", "before": one, "after": two, "refused": ""}]
    assert version(program, "b") == two
    for words in (["--dry-run"], []):
        assert (
            f"every open case of claim has the current version, {two}"
            in program.inside("def", "migrate", "claim", *words).out
        )
    program.inside("case", "signal", "b", "amount=700")
    assert program.inside("case", "facts", "b", "letter", "-o", "json").json["items"][0]["value"] == "we pay 500"


def test_the_worker_process_keeps_versions_and_the_doctor_sees_that_it_has_others_than_app(program: Program) -> None:
    release(program, CAPPED, CLAIM)
    with program.up("cases", "-o", "json") as up:
        banner = json.loads(up.banner)
        assert banner["definitions"] == ["claim"]
        (kept,) = banner["kept"]
        assert kept["definition"] == "claim"
        assert "definition claim" not in program.inside("doctor").out
        release(program, CLAIM, CAPPED)
        (note,) = [
            each
            for each in program.inside("doctor", "-o", "json").json["items"]
            if each["subject"] == "definition claim"
        ]
        assert note["level"] == "note"
        assert f"and cases has {kept['structure']} by now; stop it and start it again" in note["text"]


def test_a_case_that_no_version_fits_is_parked_and_named_though_it_only_waits(program: Program) -> None:
    release(program, ASKED)
    started = program.inside("case", "start", "claim", "document=roof", "--id", "c", "--app", "cases")
    assert started.code == 0, started.err
    one = version(program, "c")
    release(program, CLAIM)
    faults = [each for each in program.inside("doctor", "-o", "json").json["items"] if each["level"] == "fault"]
    assert [each["subject"] for each in faults] == ["parked case"]
    assert faults[0]["text"].startswith("c: its definition has changed and lacks assess, which is in flight")
    assert f"keep the version that it has, {one}" in faults[0]["text"]
    explained = program.inside("case", "explain", "c")
    assert explained.code == 2
    assert "case 'c' is parked: its definition has changed and lacks assess" in explained.err
    release(program, CLAIM, ASKED)
    assert program.inside("doctor").code == 0
    assert "IN_FLIGHT" in program.inside("case", "explain", "c").out
    refused = program.inside("def", "migrate", "claim", "-o", "json")
    assert refused.code == 1
    assert "that version lacks assess, which is in flight" in refused.json["items"][0]["refused"]


def test_a_definition_that_is_taken_out_of_use_takes_no_new_cases(program: Program) -> None:
    release(program, CLAIM)
    program.inside("case", "start", "claim", "document=roof", "--id", "c", "--app", "cases")
    release(program, "", CLAIM)
    with program.up("cases", "-o", "json") as up:
        assert json.loads(up.banner)["definitions"] == []
        refused = program.inside("case", "start", "claim", "document=roof")
        assert refused.code != 0
        assert "'claim' is only kept for its open cases" in refused.err
        assert program.inside("case", "signal", "c", "amount=7").code == 0
    release(program, "")
    assert "has no file that ends in .yaml or .yml" in program.inside("def", "validate", "cases").err


def test_a_hub_says_in_python_what_it_keeps(program: Program, tmp_path: Path) -> None:
    (program.folder / "mine_kept.py").write_text(
        "from casehub import CaseHub, load_definition\n"
        "new, old = load_definition('cases/claim.yaml'), load_definition('cases/kept/claim-1.yaml')\n"
        "both = [new, old]\n"
        "hub = CaseHub(new, kept=[old])\n"
    )
    release(program, CAPPED, CLAIM)
    told = program("def", "validate", "mine_kept:hub", "-o", "json")
    assert [each["kept"] for each in told.json["items"]] == [False, True]
    refused = program("def", "validate", "mine_kept:both", "-o", "json")
    assert "CaseHub(new, kept=[old])" in json.loads(refused.err)["detail"]


def test_the_doctor_looks_at_the_latest_open_cases_and_says_so(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(program, ASKED)
    for case in ("first", "last"):
        program.inside("case", "start", "claim", "document=roof", "--id", case, "--app", "cases")
    release(program, ASKED.replace("assess:", "evaluate:"))
    assert program.inside("doctor").out.count("parked case ") == 2
    monkeypatch.setattr("casehub.cli.doctor.LOOKED_AT", 1)
    assert "last: its definition has changed" in program.inside("doctor").out
    release(program, ASKED)
    assert "none among the 1 open cases that were started last" in program.inside("doctor").out
