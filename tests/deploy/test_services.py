"""Services for the tests: given, started here and gone at the end, or missing with a reason."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from redis import Redis

from deploy import services
from deploy.packages import MissingServiceError
from deploy.services import install, private_postgres, private_redis

ROOT = Path(__file__).parent.parent.parent
_LEFT_OUT = os.environ.get("CASEHUB_TEST_NO_POSTGRES", "")
starts_one = pytest.mark.skipif(bool(_LEFT_OUT), reason=f"no PostgreSQL: {_LEFT_OUT}")


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CASEHUB_TEST_POSTGRES_URL", raising=False)
    monkeypatch.delenv("CASEHUB_TEST_NO_POSTGRES", raising=False)
    monkeypatch.delenv("CASEHUB_TEST_REDIS_URL", raising=False)


def provided() -> dict[str, str]:
    with ExitStack() as stack:
        return services._provide("postgres", stack, durable=False)


def missing() -> Path:
    raise MissingServiceError("it is not installed")


@pytest.mark.parametrize("name", ["CASEHUB_TEST_POSTGRES_URL", "CASEHUB_TEST_NO_POSTGRES"])
def test_what_is_given_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "given")
    assert provided() == {name: "given"}


def run_it(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["services", "postgres", *words])
    return services.main()


def test_what_cannot_be_had_is_an_error_with_its_reason_and_the_command_is_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def unreachable(package: str) -> None:
        raise MissingServiceError(f"apt-get failed: no route\nto {package}")

    monkeypatch.setattr(services, "_postgres_programs", missing)
    monkeypatch.setattr(services, "install", unreachable)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    touch = (sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert run_it(monkeypatch, "--", *touch) == services.MISSING
    said = capsys.readouterr().err
    assert "NO POSTGRES: apt-get failed: no route to postgresql" in said
    assert "CASEHUB_TEST_POSTGRES_URL" in said
    assert "CASEHUB_TEST_NO_POSTGRES=reason" in said
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv("CASEHUB_TEST_NO_POSTGRES", "not today")
    assert run_it(monkeypatch, "--", *touch) == 0
    assert (tmp_path / "ran").exists()


def test_what_is_installed_already_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, *, durable: bool) -> None:
        raise MissingServiceError("initdb failed")

    monkeypatch.setattr(services, "Postgres", broken)
    monkeypatch.setattr(services, "_postgres_programs", lambda: Path("/usr/bin"))
    monkeypatch.setattr(services, "install", lambda package: pytest.fail("it is there"))
    with pytest.raises(MissingServiceError, match="initdb failed"):
        provided()


DOCKER = """#!{python}
import pathlib, sys
words = sys.argv[1:]
with open({said!r}, "a") as said:
    print(*words, file=said)
answers = {{"run": "c0ffee", "port": "127.0.0.1:54321"}}
tries = pathlib.Path({said!r}).read_text().count("exec c0ffee")
if words[0] == {broken!r} or (words[0] == "exec" and tries < 3):
    sys.exit("Cannot connect to the Docker daemon\\nat all")
print(answers.get(words[0], ""))
"""


def docker(monkeypatch: pytest.MonkeyPatch, folder: Path, broken: str = "") -> Path:
    """A `docker` that writes down what it is told, is ready at the third look, and fails at one command."""
    said, program = folder / "said", folder / "docker"
    program.write_text(DOCKER.format(python=sys.executable, said=str(said), broken=broken))
    program.chmod(0o755)
    monkeypatch.setattr(services, "_postgres_programs", missing)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return said


def test_where_nothing_can_be_installed_docker_is_asked_and_its_container_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = docker(monkeypatch, tmp_path)
    assert provided() == {"CASEHUB_TEST_POSTGRES_URL": "postgresql://test@127.0.0.1:54321/postgres"}
    run, port, *ready, stop = said.read_text().splitlines()
    assert run.startswith("run --rm --detach --publish 127.0.0.1::5432 ")
    assert run.endswith("postgres:17-alpine -c fsync=off -c synchronous_commit=off -c full_page_writes=off")
    assert port == "port c0ffee 5432/tcp"
    assert ready == ["exec c0ffee pg_isready -q -h 127.0.0.1 -U test"] * 3
    assert stop == "stop --time 5 c0ffee"


def test_without_a_docker_engine_the_reason_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker(monkeypatch, tmp_path, broken="run")
    with pytest.raises(MissingServiceError, match="not installed, and docker run failed: Cannot connect"):
        provided()


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
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=240,
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


@pytest.mark.skipif("CASEHUB_TEST_NO_REDIS" in os.environ, reason="no Redis")
def test_a_redis_answers_when_it_is_there_and_has_forgotten_all_when_it_is_there_again(tmp_path: Path) -> None:
    try:
        with private_redis() as server, Redis.from_url(server.url) as client:
            client.set("kept", "1")
            server.stop(signal.SIGKILL)
            server.start()
            assert client.get("kept") is None
            assert client.config_get("appendonly") == {"appendonly": "no"}
            folder = server.folder
        with private_redis(durable=True) as server, Redis.from_url(server.url) as client:
            client.set("kept", "1")
            server.stop(signal.SIGKILL)
            server.start()
            assert client.get("kept") == b"1"
    except MissingServiceError as error:
        pytest.skip(f"no Redis: {error}")
    assert not folder.exists()
