"""Snapshots at the command line: where `casehub up` keeps them, how it says so, and what becomes of one that is spoilt."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.cli.program import Program


def rows(path: Path) -> Sequence[tuple[str, str, int]]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT case_id, status, version FROM snapshots ORDER BY case_id").fetchall()
    return [(case, status, version) for case, status, version in found]


def test_a_worker_process_keeps_snapshots_over_a_restart_one_of_them_spoilt(
    program: Program,
) -> None:
    kept = program.folder / "kept.db"
    with program.up("stories:everything", "--snapshots", "kept.db") as up:
        assert "snapshots in SQLite, kept.db" in up.banner
        assert program("case", "start", "payment", "--fact", "amount=3", "--id", "p").code == 0
        assert program("case", "start", "payment", "--fact", "amount=4", "--id", "q").code == 0
        assert up.stop() == 0
    assert rows(kept) == [("p", "WAITING", 1), ("q", "WAITING", 1)]
    with closing(sqlite3.connect(kept, isolation_level=None)) as connection:
        connection.execute("UPDATE snapshots SET payload = X'80' WHERE case_id = 'p'")
    environment = {"CASEHUB_SNAPSHOTS": "kept.db"}
    with program.up("stories:everything", env=environment) as up:
        for case in ("p", "q"):
            done = program("case", "signal", case, "approved=true", "--wait", "quiescent", "-o", "json")
            assert (done.code, done.json["status"]) == (0, "COMPLETED"), done.err
        assert up.stop() == 0
    assert rows(kept) == [("p", "COMPLETED", 2), ("q", "COMPLETED", 2)]


def test_doctor_tells_of_a_snapshot_that_is_refused_and_says_where_they_are_without_the_password(
    program: Program,
) -> None:
    (program.folder / "casehub.toml").write_text('snapshots = "casehub.db"\ncheckpoint = "waiting"\n')
    with program.up("stories:everything") as up:
        assert program("case", "start", "payment", "--fact", "amount=3", "--id", "p").code == 0
        assert up.stop() == 0
    with closing(sqlite3.connect(program.folder / "casehub.db", isolation_level=None)) as connection:
        connection.execute("UPDATE snapshots SET content_type = 'application/x-java'")
    with program.up("stories:everything") as up:
        assert program("case", "explain", "p").code == 0
        assert (
            program("case", "suspend", "p", "--by", "user:ada").code == 0
        )  # it is loaded, and not kept: it waits no more
        found = program("doctor", "-o", "json").json["items"]
        assert up.stop() == 0
    told = {each["subject"]: each["text"] for each in found}
    assert told["refused snapshot"].startswith("p is loaded from its log: its content type is 'application/x-java'")
    assert "'sqlite:///casehub.db' from casehub.toml" in told["setting snapshots"]
    shown = program("doctor", env={"CASEHUB_SNAPSHOTS": "redis://me:secret@localhost/0"})
    assert "secret" not in shown.out
    assert "redis://me:***@localhost/0" in shown.out


def test_commands_that_work_a_case_themselves_keep_it_as_well(program: Program) -> None:
    environment = {"CASEHUB_SNAPSHOTS": "kept.db", "CASEHUB_CHECKPOINT": "1"}
    done = program("case", "start", "stories:claim", "document=Ada met Grace", "--id", "c", env=environment)
    assert done.code == 0, done.err
    assert [row[:2] for row in rows(program.folder / "kept.db")] == [("c", "COMPLETED")]


def test_what_is_retired_takes_its_snapshot_along_wherever_that_is(program: Program) -> None:
    environment = {"CASEHUB_SNAPSHOTS": "kept.db"}
    for case in ("c", "d"):
        done = program("case", "start", "stories:claim", "document=Ada met Grace", "--id", case, env=environment)
        assert done.code == 0, done.err
    assert len(rows(program.folder / "kept.db")) == 2
    gone = program("retention", "run", "--after", "0s", env=environment)
    assert (gone.code, "2 cases with" in gone.out) == (0, True), gone.err
    assert rows(program.folder / "kept.db") == []


def test_a_setting_that_says_nothing_is_refused_where_it_stands(program: Program) -> None:
    wrong = program("up", "stories:claim", "--checkpoint", "sometimes")
    assert (wrong.code, "setting checkpoint (--checkpoint)" in wrong.err) == (2, True), wrong.err
    wrong = program("up", "stories:claim", "--snapshots", "mongo://x")
    assert (wrong.code, "no store of snapshots has the scheme 'mongo'" in wrong.err) == (2, True), wrong.err


def test_a_hub_that_app_names_is_worked_on_the_database_and_the_snapshots_that_are_asked_for(program: Program) -> None:
    (program.folder / "named.py").write_text(
        "from casehub import CaseHub\nfrom stories import claim\nhub = CaseHub(claim)\n"
    )
    environment = {"CASEHUB_SNAPSHOTS": "kept.db"}
    done = program(
        "case", "start", "named:hub", "document=Ada met Grace", "--id", "c", "--db", "own.db", env=environment
    )
    assert done.code == 0, done.err
    assert "COMPLETED" in program("case", "list", "--db", "own.db").out
    assert rows(program.folder / "kept.db") == [("c", "COMPLETED", 1)]
