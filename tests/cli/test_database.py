"""`casehub db status` and `db backup`, on a file, with and without a worker process; what doctor knows of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.program import Program


def filled(program: Program, *ids: str) -> None:
    for id in ids:
        assert program.inside("case", "start", "stories:claim", "document=Ada", "--id", id).code == 0


def test_status_says_what_is_in_a_database_that_nobody_owns(program: Program) -> None:
    filled(program, "c1", "c2")
    assert program.inside("case", "start", "stories:payment", "amount=1", "--id", "p1").code == 0
    told = program.inside("db", "status", "-o", "json").json
    assert told["database"] == "casehub.db"
    assert told["schema"]["version"] == told["schema"]["works_with"] >= 4
    assert told["cases"] == {"WAITING": 1, "COMPLETED": 2}
    assert told["events"] == told["position"] == told["rows"]["events"] > 10
    assert told["rows"]["cases"] == 3
    assert told["sizes"]["file"] == (program.folder / "casehub.db").stat().st_size
    assert (told["oldest_open"]["case"], told["oldest_open"]["definition"]) == ("p1", "payment")
    assert told["owner"] is None
    assert told["retention"] == {
        "setting": "cases are deleted 90d after their end", "cases": 0, "events": 0, "ran_at": None,
    }  # fmt: skip
    assert "backup" not in told
    people = program.inside("db", "status").out
    for expected in ("casehub.db", "none: no process works it", "1 WAITING, 2 COMPLETED", "p1 of payment, WAITING"):
        assert expected in people
    assert "rows of events" not in people
    assert "rows of events" in program.inside("db", "status", "--rows").out


def test_beside_a_worker_process_status_and_backup_say_who_it_is_and_copy_what_is_there(program: Program) -> None:
    with program.up("stories:everything", "--retention", "off") as up:
        for number in range(5):
            program("case", "start", "payment", "amount=1", "--id", f"p{number}")
        told = program.inside("db", "status", "-o", "json").json
        assert told["owner"]["owner"] == f"process {up.process.pid}"
        assert told["owner"]["answers"] is True
        made = program.inside("db", "backup", "copy.db", "-o", "json")
        assert made.code == 0, made.err
        assert program("case", "signal", "p1", "approved=true", "--wait", "quiescent").code == 0
        assert program.inside("case", "list", "--db", "copy.db", "-o", "json").json["items"][0]["status"] == "WAITING"
        assert up.stop() == 0
    with program.up("stories:everything", "--db", "copy.db") as restored:
        assert "5 waiting" in restored.banner
        went_on = program(
            "case", "signal", "p1", "approved=true", "--wait", "quiescent", "--db", "copy.db", "-o", "json"
        )
        assert went_on.json["status"] == "COMPLETED"
        assert restored.stop() == 0
    assert program.inside("db", "check", "--db", "copy.db").code == 0


def test_a_killed_owner_is_none(program: Program) -> None:
    with program.up("stories:everything") as up:
        up.process.kill()
        up.process.wait()
    assert program.inside("db", "status", "-o", "json").json["owner"] is None


def test_a_backup_is_looked_over_and_for_its_owner_alone_and_nothing_is_written_over(program: Program) -> None:
    filled(program, "c1")
    result = program.inside("db", "backup", "copy.db")
    assert (result.code, "looked over" in result.out) == (0, True)
    assert (program.folder / "copy.db").stat().st_mode & 0o777 == 0o600
    before = (program.folder / "copy.db").read_bytes()
    again = program.inside("db", "backup", "copy.db")
    assert (again.code, "is there already" in again.err) == (1, True)
    assert program.inside("db", "backup", "casehub.db").code == 1
    assert (program.folder / "copy.db").read_bytes() == before
    assert "no folder" in program.inside("db", "backup", "nowhere/copy.db").err
    assert not list(program.folder.glob(".*.part"))


def test_a_copy_that_is_not_whole_is_not_kept(program: Program) -> None:
    filled(program, "c1")
    with closing(sqlite3.connect(program.folder / "casehub.db")) as connection:
        connection.execute("DELETE FROM events WHERE seq = 2")
        connection.commit()
    result = program.inside("db", "backup", "copy.db")
    assert (result.code, "the copy is not whole" in result.err) == (1, True)
    assert not (program.folder / "copy.db").exists()
    assert not list(program.folder.glob(".*.part"))


def test_doctor_knows_of_backups_that_casehub_made_and_says_when_one_is_gone(program: Program) -> None:
    filled(program, "c1")

    def of_backup() -> list[tuple[str, str]]:
        found = program.inside("doctor", "-o", "json").json["items"]
        return [(each["level"], each["text"]) for each in found if each["subject"] == "last backup"]

    assert of_backup() == []
    program.inside("db", "backup", "copy.db")
    ((level, text),) = of_backup()
    assert (level, "copy.db, new, up to position" in text) == ("ok", True)
    os.truncate(program.folder / "copy.db", 100)
    ((level, text),) = of_backup()
    assert (level, "not there any more" in text) == ("note", True)
    assert "last backup" in program.inside("db", "status").out


def test_status_of_an_older_database_says_what_to_do(program: Program, tmp_path: Path) -> None:
    filled(program, "c1")
    with closing(sqlite3.connect(program.folder / "casehub.db")) as connection:
        connection.execute("DELETE FROM schema_migrations WHERE version > 3")
        connection.commit()
    told = program.inside("db", "status")
    assert (told.code, "casehub db migrate" in told.out, "version 3" in told.out) == (0, True, True)
    with closing(sqlite3.connect(program.folder / "casehub.db")) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (99, 'tomorrow', 'x', '')")
        connection.commit()
    newer = program.inside("db", "status")
    assert (newer.code, "upgrade CaseHub" in newer.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("db", "status", "--db", "nowhere.db"), 7, "there is none"),
        (("db", "statu"), 2, "status"),
        (("db", "bakcup", "x"), 2, "backup"),
        (("db", "backup"), 2, "FILE"),
        (("db", "status", "--row"), 2, "--rows"),
    ],
)
def test_mistakes_are_answered_with_what_would_be_right(
    program: Program, words: tuple[str, ...], code: int, said: str
) -> None:
    result = program.inside(*words)
    assert (result.code, said in result.err) == (code, True), result.err


def test_a_postgresql_without_pg_dump_is_told_what_to_run(
    program: Program, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program.inside("db", "migrate", "--db", postgres_url).code == 0
    monkeypatch.setattr("casehub.adapters.postgres.backup.DUMP", "pg_dump_that_is_not_there")
    result = program.inside("db", "backup", "copy.dump", "--db", postgres_url)
    assert (result.code, "--format=custom --schema=test_" in result.err) == (1, True), result.err
    assert "copy.dump" in result.err


@pytest.mark.skipif(shutil.which("pg_dump") is None, reason="pg_dump is not installed")
def test_a_postgresql_is_described_and_backed_up(program: Program, postgres_url: str) -> None:
    env = {"CASEHUB_DB": postgres_url}
    with program.up("stories:everything", env=env) as up:
        assert program("case", "start", "payment", "amount=1", "--id", "p1", env=env).code == 0
        told = program("db", "status", "-o", "json", env=env).json
        assert told["owner"]["owner"] == f"process {up.process.pid}"
        assert told["cases"] == {"WAITING": 1}
        assert told["sizes"]["tables"] > 0
        made = program("db", "backup", "copy.dump", env=env)
        assert made.code == 0, made.err
        assert up.stop() == 0
    assert program("db", "status", "-o", "json", env=env).json["owner"] is None
    listed = subprocess.run(
        ["pg_restore", "--list", "copy.dump"], cwd=program.folder, capture_output=True, text=True, check=True
    ).stdout
    assert "TABLE DATA" in listed
    assert "events" in listed
