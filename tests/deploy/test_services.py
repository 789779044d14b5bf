"""Services for the tests: given, started here and gone at the end, or missing with a reason."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from deploy import services
from deploy.services import MissingServiceError, install, private_postgres

ROOT = Path(__file__).parent.parent.parent
_LEFT_OUT = os.environ.get("CASEHUB_TEST_NO_POSTGRES", "")
starts_one = pytest.mark.skipif(bool(_LEFT_OUT), reason=f"no PostgreSQL: {_LEFT_OUT}")


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CASEHUB_TEST_POSTGRES_URL", raising=False)
    monkeypatch.delenv("CASEHUB_TEST_NO_POSTGRES", raising=False)


def provided() -> dict[str, str]:
    with ExitStack() as stack:
        return services._provide("postgres", stack, durable=False)


def missing() -> Path:
    raise MissingServiceError("it is not installed")


@pytest.mark.parametrize("name", ["CASEHUB_TEST_POSTGRES_URL", "CASEHUB_TEST_NO_POSTGRES"])
def test_what_is_given_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "given")
    assert provided() == {name: "given"}


def test_what_cannot_be_installed_is_missing_loudly_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(package: str) -> None:
        raise MissingServiceError(f"apt-get failed: no route\nto {package}")

    monkeypatch.setattr(services, "_postgres_programs", missing)
    monkeypatch.setattr(services, "install", unreachable)
    assert provided() == {"CASEHUB_TEST_NO_POSTGRES": "apt-get failed: no route to postgresql"}
    assert "NO POSTGRES: apt-get failed" in capsys.readouterr().err


def test_what_is_installed_already_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, *, durable: bool) -> None:
        raise MissingServiceError("initdb failed")

    monkeypatch.setattr(services, "Postgres", broken)
    monkeypatch.setattr(services, "_postgres_programs", lambda: Path("/usr/bin"))
    monkeypatch.setattr(services, "install", lambda package: pytest.fail("it is there"))
    assert provided() == {"CASEHUB_TEST_NO_POSTGRES": "initdb failed"}


def test_only_root_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingServiceError, match="only root on Debian"):
        install("postgresql")


@starts_one
def test_a_command_gets_the_url_and_the_server_is_gone_with_it() -> None:
    try:
        with private_postgres():
            pass
    except MissingServiceError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    code = "import os, sys; print(os.environ['CASEHUB_TEST_POSTGRES_URL']); sys.exit(3)"
    ran = subprocess.run(
        [sys.executable, "-m", "deploy.services", "postgres", "--", sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert ran.returncode == 3, ran.stderr
    port = int(ran.stdout.strip().rpartition(":")[2].partition("/")[0])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@starts_one
@pytest.mark.parametrize(("durable", "fsync"), [(True, "on"), (False, "off")])
def test_a_server_has_its_data_again_on_the_same_port_and_is_as_durable_as_is_asked(durable: bool, fsync: str) -> None:
    try:
        with private_postgres(durable=durable) as server:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute("CREATE TABLE kept (a int)")
            server.stop()
            server.start()
            with psycopg.connect(server.url, autocommit=True) as connection:
                assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
                assert connection.execute("SHOW fsync").fetchone() == (fsync,)
            folder = server.folder
        assert not folder.exists()
    except MissingServiceError as error:
        pytest.skip(f"no PostgreSQL: {error}")
