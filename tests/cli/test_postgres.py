"""Commands on a database of PostgreSQL: the same as on a file, with the socket and the note in a folder of the user's."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from casehub.cli.place import beside, called, without_password
from casehub.errors import SettingsError
from tests.cli.program import Gate, Program


def test_a_worker_process_works_a_database_on_a_server_over_a_kill(program: Program, postgres_url: str) -> None:
    environment = {"XDG_STATE_HOME": str(program.folder)}
    db = ("--db", postgres_url)
    with Gate(program.gate) as gate:
        with program.up("stories:everything", *db, env=environment) as up:
            assert f"PostgreSQL, {called(postgres_url)}" in up.banner
            assert program("case", "start", "held", "--fact", "task=dig", "--id", "h", *db, env=environment).code == 0
            assert (
                program("case", "start", "payment", "--fact", "amount=3", "--id", "p", *db, env=environment).code == 0
            )
            gate.next()
            assert up.stop(signal.SIGKILL) == -signal.SIGKILL
        told = program("case", "list", "-o", "ndjson", *db, env=environment).lines
        assert {(case["case"], case["status"]) for case in told} == {("h", "RUNNING"), ("p", "WAITING")}
        with program.up("stories:everything", *db, env=environment) as up:
            gate.next().answer("a hole")
            done = program(
                "case", "signal", "p", "approved=true", "--wait", "quiescent", "-o", "json", *db, env=environment
            )
            assert (done.code, done.json["status"]) == (0, "COMPLETED"), done.err
            assert up.stop() == 0
    assert program("case", "show", "h", "-o", "json", *db, env=environment).json["status"] == "COMPLETED"
    alone = program("case", "start", "claim", "--fact", "document=Ada met Grace", "-o", "json", *db, env=environment)
    assert (alone.code, alone.json["status"]) == (0, "COMPLETED"), alone.err  # by what it was worked with last
    assert sorted(path.name for path in program.folder.iterdir() if "casehub.db" in path.name) == []


def test_two_worker_processes_work_one_database_and_a_command_reaches_the_later_one(
    program: Program, postgres_url: str
) -> None:
    environment = {"XDG_STATE_HOME": str(program.folder)}
    db = ("--db", postgres_url)
    with program.up("stories:everything", *db, env=environment) as one:
        assert "1 on this database: process" in one.banner
        assert program("case", "start", "payment", "--fact", "amount=3", "--id", "p", *db, env=environment).code == 0
        with program.up("stories:everything", *db, env=environment) as other:
            assert "2 on this database: process" in other.banner
            told = program("doctor", "-o", "json", *db, env=environment).json["items"]
            hubs = [check["text"] for check in told if check["subject"] == "hub"]
            assert len(hubs) == 2
            assert all(": its lease runs for " in text for text in hubs)
            assert one.stop() == 0
            done = program(
                "case", "signal", "p", "approved=true", "--wait", "quiescent", "-o", "json", *db, env=environment
            )
            assert (done.code, done.json["status"]) == (0, "COMPLETED"), done.err
            assert other.stop() == 0


def test_a_database_on_a_server_is_migrated_and_checked(program: Program, postgres_url: str) -> None:
    environment = {"XDG_STATE_HOME": str(program.folder)}
    db, named = ("--db", postgres_url), called(postgres_url)
    missing = program("case", "list", *db, env=environment)
    assert (missing.code, f"{named}: there is none of CaseHub's" in missing.err) == (7, True), missing.err
    sql = program("db", "migrate", "--sql", *db, env=environment)
    assert (sql.code, "CREATE SCHEMA IF NOT EXISTS" in sql.out) == (0, True), sql.err
    made = program("db", "migrate", *db, env=environment)
    assert (made.code, f"{named}: schema version 4, made" in made.out) == (0, True), made.err
    again = program("db", "migrate", *db, env=environment)
    assert (again.code, "nothing to do" in again.out) == (0, True), again.err
    checked = program("db", "check", *db, env=environment)
    assert checked.code == 0, checked.err


def test_doctor_shows_no_password(program: Program, postgres_url: str) -> None:
    url = postgres_url.replace("test@", "test:secret@")
    seen = program("doctor", "--db", url, env={"XDG_STATE_HOME": str(program.folder)})
    assert "test:***@" in seen.out
    assert "secret" not in seen.out + seen.err


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///claims.db", "claims.db"),
        ("sqlite:////var/claims.db?synchronous=NORMAL", "/var/claims.db"),
        ("postgresql://me:secret@host:5433/claims?sslmode=require", "postgresql://host:5433/claims"),
        ("postgres://host/claims?schema=north", "postgresql://host/claims?schema=north"),
    ],
)
def test_a_database_is_called_without_what_is_secret(url: str, name: str) -> None:
    assert called(url) == name


def test_what_belongs_to_a_database_on_a_server_lies_in_a_folder_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one = beside("postgresql://me:secret@host/claims")
    assert one == beside("postgres://you@host/claims?sslmode=require")
    assert one != beside("postgresql://host/claims?schema=north")
    assert (one.parent, one.name.startswith("claims-")) == (tmp_path / "casehub", True)
    assert one.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(SettingsError, match=r"postgresql://host/claims: no folder .*set XDG_STATE_HOME"):
        beside("postgresql://me:secret@host/claims")
    with pytest.raises(SettingsError, match="needs one that is kept"):
        beside("memory://")


def test_a_url_without_a_password_is_shown_as_it_is() -> None:
    assert without_password("postgresql://me@host/claims") == "postgresql://me@host/claims"
    assert without_password("postgresql://me:secret@host/claims") == "postgresql://me:***@host/claims"
    assert without_password("sqlite:///claims.db") == "sqlite:///claims.db"
