"""The services in Docker, for where nothing can be installed."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from deploy.packages import INSTALL, MissingServiceError

START: Final = 60.0
"""Seconds for a service to be ready."""


@dataclass(frozen=True)
class Image:
    """A service in Docker. `ready`: a command in it that succeeds when questions are answered; `url`: with its port."""

    name: str
    port: int
    options: Sequence[str]
    ready: Sequence[str]
    url: str
    fast: Sequence[str]
    """Arguments that make it faster and less durable."""


IMAGES: Final = {
    "postgres": Image(
        "postgres:17-alpine",
        5432,
        ("--env", "POSTGRES_USER=test", "--env", "POSTGRES_DB=postgres", "--env", "POSTGRES_HOST_AUTH_METHOD=trust"),
        ("pg_isready", "-q", "-h", "127.0.0.1", "-U", "test"),  # not by the socket, which is there while it is made
        "postgresql://test@127.0.0.1:{}/postgres",
        ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"),
    ),
    "redis": Image(
        "redis:7-alpine",
        6379,
        (),
        ("redis-cli", "ping"),
        "redis://127.0.0.1:{}/0",
        ("redis-server", "--save", "", "--appendonly", "no"),
    ),
}


@contextmanager
def container(image: Image, *, durable: bool = False) -> Iterator[str]:
    """The URL of a service in a container of its own. Raises `MissingServiceError` where no Docker engine answers."""
    published = f"127.0.0.1::{image.port}"
    made = _docker("run", "--rm", "--detach", "--publish", published, *image.options, image.name,
                   *(() if durable else image.fast), limit=INSTALL)  # fmt: skip
    try:
        port = _docker("port", made, f"{image.port}/tcp").splitlines()[0].rpartition(":")[2]
        end = time.monotonic() + START
        while True:
            try:
                _docker("exec", made, *image.ready)
                break
            except MissingServiceError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        yield image.url.format(port)
    finally:
        _docker("stop", "--time", "5", made)


def _docker(*words: str, limit: float = START) -> str:
    if shutil.which("docker") is None:
        raise MissingServiceError("there is no docker either")
    try:
        done = subprocess.run(
            ["docker", *words], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise MissingServiceError(f"docker {words[0]} took longer than {limit:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        raise MissingServiceError(f"docker {words[0]} failed: {lines[0]}")
    return done.stdout.strip()
