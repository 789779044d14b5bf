"""Private services for tests and measurements: on a free port of this machine, in a temporary folder, gone at the end.

    python -m deploy.services postgres redis              # start them, print their URLs as JSON, wait for Ctrl-C
    python -m deploy.services postgres -- pytest -n 2     # run a command with CASEHUB_TEST_POSTGRES_URL, then stop it

A URL that is given (`CASEHUB_TEST_POSTGRES_URL`, `CASEHUB_TEST_REDIS_URL`) is taken as it is, and nothing is started. Without one the programs of
the system are used; on Debian, as root, those that are missing are installed with apt; elsewhere Docker is asked for
them. What cannot be had is an error, and the command is not run: set `CASEHUB_TEST_NO_POSTGRES` to a reason to do
without it. A service ends with the process that started it, however that ends (one in Docker where that process ends in
order). Nothing but Python is needed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from deploy.containers import IMAGES, START, container
from deploy.packages import MissingServiceError, install

URL: Final = "CASEHUB_TEST_{}_URL"
ABSENT: Final = "CASEHUB_TEST_NO_{}"
STOP: Final = 15.0
"""Seconds for a service to end when it is told to; then it is killed."""
MISSING: Final = 3
"""The exit code when a service cannot be had."""
_PR_SET_PDEATHSIG: Final = 1


class Postgres:
    """A PostgreSQL of one's own. `durable`: with fsync, as it is by default elsewhere; without it tests are faster."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder
        self.durable = durable
        self.programs = _postgres_programs()
        self.port = free_port()
        self._process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://test@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, the first time on an empty database; afterwards on the same port with what was in it."""
        data, log = self.folder / "data", self.folder / "log"
        if not data.exists():
            _give_away(self.folder, "postgres")
            made = subprocess.run(
                [self.programs / "initdb", "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
                 "--no-sync", "--no-instructions"],
                check=False, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, **_as("postgres"),
            )  # fmt: skip
            if made.returncode:
                raise MissingServiceError(f"initdb failed: {made.stdout[-500:]}{made.stderr[-500:]}")
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder, "shared_buffers": "64MB"}
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", data, "-p", str(self.port), *given],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, **_as("postgres"),
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - nothing else ties it to this process
            )  # fmt: skip
        self._await_ready(data / "postmaster.pid", log)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: at once but in order, or as `how` says (`SIGQUIT`: as in a crash)."""
        process, self._process = self._process, None
        _end(process, how)

    def _await_ready(self, status: Path, log: Path) -> None:
        """Wait until line 8 of its own file says so: a port is open before questions are answered."""
        assert self._process is not None
        end = time.monotonic() + START
        while time.monotonic() < end and self._process.poll() is None:
            try:
                if status.read_text().split("\n")[7].strip() == "ready":
                    return
            except (OSError, IndexError):
                pass
            time.sleep(0.02)
        self.stop(signal.SIGQUIT)
        raise MissingServiceError(f"postgres did not start: {log.read_text(errors='replace')[-1_000:]}")


class Redis:
    """A Redis of one's own. `durable`: what is written is on the disk; without it a server that ends has forgotten all."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder
        self.durable = durable
        self.program = _redis_program()
        self.port = free_port()
        self._process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, on the same port each time."""
        log = self.folder / "log"
        settings = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder), "save": "", "daemonize": "no"}
        settings |= {"appendonly": "yes", "appendfsync": "always"} if self.durable else {"appendonly": "no"}
        given = [word for name, value in settings.items() for word in (f"--{name}", value)]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [self.program, *given],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - nothing else ties it to this process
            )  # fmt: skip
        self._await_ready(log)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: in order, or as `how` says (`SIGKILL`: as in a crash)."""
        process, self._process = self._process, None
        _end(process, how)

    def _await_ready(self, log: Path) -> None:
        """Wait until it answers a PING."""
        assert self._process is not None
        end = time.monotonic() + START
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1.0) as asking:
                    asking.sendall(b"PING\r\n")
                    if asking.recv(64).startswith(b"+PONG"):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        self.stop(signal.SIGKILL)
        raise MissingServiceError(f"redis-server did not start: {log.read_text(errors='replace')[-1_000:]}")


def _end(process: subprocess.Popen[Any] | None, how: signal.Signals) -> None:
    if process is None:
        return
    process.send_signal(how)
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


SERVICES: Final = {"postgres": Postgres, "redis": Redis}
PACKAGES: Final = {"postgres": "postgresql", "redis": "redis-server"}
"""What Debian calls them."""


Service = TypeVar("Service", Postgres, Redis)


@contextmanager
def _private(kind: type[Service], *, durable: bool) -> Iterator[Service]:
    """A service in a temporary folder. Raises `MissingServiceError`."""
    # A short path: that of a Unix socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="svc-", dir="/tmp") as folder:
        service = kind(Path(folder), durable=durable)
        try:
            service.start()
            yield service
        finally:
            service.stop()


def private_postgres(*, durable: bool = False) -> AbstractContextManager[Postgres]:
    """A PostgreSQL in a temporary folder. Raises `MissingServiceError`."""
    return _private(Postgres, durable=durable)


def private_redis(*, durable: bool = False) -> AbstractContextManager[Redis]:
    """A Redis in a temporary folder. Raises `MissingServiceError`."""
    return _private(Redis, durable=durable)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _postgres_programs() -> Path:
    """The folder of the newest `initdb` and `postgres`. Raises `MissingServiceError`."""
    debian = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    found = sorted((path.parent for path in debian), key=lambda path: float(path.parent.name))
    if found:
        return found[-1]
    on_path = shutil.which("initdb")
    if on_path is None:
        raise MissingServiceError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    return Path(on_path).resolve().parent


def _redis_program() -> Path:
    """The server's program. Raises `MissingServiceError`."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        raise MissingServiceError("Redis is not installed (Debian: apt-get install redis-server)")
    return Path(found)


def _as(user: str) -> dict[str, Any]:
    """How a process is started that must not be root's."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise MissingServiceError(f"root may not run it, and there is no user {user!r}") from None
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _give_away(folder: Path, user: str) -> None:
    whose = _as(user)
    if whose:
        os.chown(folder, whose["user"], whose["group"])


def _end_with_parent() -> None:
    """In the child: be told to end when whoever started it is gone. Linux only; elsewhere it may be left behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


# ---- as a program

PRIVATE: Final[Mapping[str, Callable[..., AbstractContextManager[Postgres | Redis]]]] = {
    "postgres": private_postgres,
    "redis": private_redis,
}


def _provide(name: str, stack: ExitStack, *, durable: bool) -> dict[str, str]:
    """The environment that says where a service is, or why it is left out. Raises `MissingServiceError`."""
    url, absent = URL.format(name.upper()), ABSENT.format(name.upper())
    for variable in (url, absent):  # somebody has decided already
        if os.environ.get(variable):
            return {variable: os.environ[variable]}
    private = PRIVATE[name]
    try:
        service = stack.enter_context(private(durable=durable))
    except MissingServiceError:
        if _is_there(name):
            raise
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            print(f"services: starting {IMAGES[name].name} with docker", file=sys.stderr)
            return {url: _contained(name, stack, durable=durable)}
        print(f"services: installing {PACKAGES[name]} with apt-get", file=sys.stderr)
        install(PACKAGES[name])
        service = stack.enter_context(private(durable=durable))
    return {url: service.url}


def _contained(name: str, stack: ExitStack, *, durable: bool) -> str:
    try:
        return stack.enter_context(container(IMAGES[name], durable=durable))
    except MissingServiceError as error:
        raise MissingServiceError(f"{PACKAGES[name]} is not installed, and {error}") from None


def _is_there(name: str) -> bool:
    try:
        _postgres_programs() if name == "postgres" else _redis_program()
    except MissingServiceError:
        return False
    return True


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.services", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("service", nargs="+", choices=SERVICES)
    parser.add_argument("--durable", action="store_true", help="with fsync")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    asked, command = parser.parse_args(words[:cut]), words[cut + 1 :]
    signal.signal(signal.SIGTERM, _interrupt)
    with ExitStack() as stack:
        found: dict[str, str] = {}
        for name in dict.fromkeys(asked.service):
            try:
                found |= _provide(name, stack, durable=asked.durable)
            except MissingServiceError as error:
                url, absent = URL.format(name.upper()), ABSENT.format(name.upper())
                print(f"services: NO {name.upper()}: {' '.join(str(error).split())}", file=sys.stderr)
                print(f"services: install it, name one in {url}, or do without it: {absent}=reason", file=sys.stderr)
                return MISSING
        try:
            if command:
                return subprocess.run(command, check=False, env={**os.environ, **found}).returncode
            print(json.dumps(found), flush=True)
            signal.pause()
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
