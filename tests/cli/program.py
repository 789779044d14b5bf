"""The real program in processes of its own, on a database of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from casehub.cli import run

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PATIENCE = 240.0
"""Seconds after which a program that has not ended is stuck."""


@dataclass(frozen=True)
class Result:
    """What a program said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Program:
    """Runs `casehub` in a folder, with nothing of this process's settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "casehub.db"
        self.gate = folder / "gate"

    def forget(self) -> None:
        """Take away the note of what the database was last worked with."""
        (self.folder / "casehub.db.app").unlink()

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CASEHUB_")}
        return {
            **inherited,
            "PYTHONPATH": f"{HERE}{os.pathsep}{ROOT}",
            "GATE": str(self.gate),
            "COLUMNS": "200",
            **(extra or {}),
        }

    def __call__(self, *words: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Result:
        """Run a command to its end."""
        return self.python("-m", "casehub", *words, env=env, stdin=stdin)

    def python(self, *words: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Result:
        """Run the interpreter to its end."""
        ended = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment(env),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Result(ended.returncode, ended.stdout, ended.stderr)

    def inside(self, *words: str) -> Result:
        """Run a command in this process, which is quicker: its modules are here already."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.folder),
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            for name in set(os.environ) - set(self.environment()):
                patch.delenv(name)
            patch.syspath_prepend(HERE)
            try:
                code = run(words)
            finally:
                structlog.reset_defaults()
        return Result(code, out.getvalue(), err.getvalue())

    def begin(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command that goes on; its error stream goes to `errors` in the folder."""
        with (self.folder / "errors").open("a") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "casehub", *words],
                cwd=self.folder,
                env=self.environment(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @contextmanager
    def up(self, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Up]:
        """A worker process, from its banner on; killed at the end if it still runs."""
        process = self.begin("up", *words, env=env)
        try:
            yield Up(process, self.folder / "errors")
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)
            if process.stdout is not None:
                process.stdout.close()


class Up:
    """A worker process that has said what it works. `banner`: what it said."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self.process = process
        self._errors = errors
        self.banner = ""
        assert process.stdout is not None
        while "Ctrl-C" not in self.banner and '"pid"' not in self.banner:
            line = process.stdout.readline()
            assert line, f"it did not come up:\n{self.banner}{self.errors}"
            self.banner += line

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


class Gate:
    """Where workers of `stories` wait for the test: they connect, say what they do, and get their answer."""

    def __init__(self, path: Path) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._listening.settimeout(PATIENCE)
        self._connections: list[socket.socket] = []

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *exc: object) -> None:
        for each in (*self._connections, self._listening):
            each.close()

    def next(self) -> Waiting:
        """The next worker that comes."""
        connection, _ = self._listening.accept()
        connection.settimeout(PATIENCE)
        self._connections.append(connection)
        return Waiting(connection)


class Waiting:
    """A worker that waits. `task`: what it said that it does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rw")
        self.task = self._file.readline().strip()

    def answer(self, text: str) -> None:
        self._file.write(f"{text}\n")
        self._file.flush()

    def gone(self) -> bool:
        """Wait until it is gone; True then."""
        return self._file.readline() == ""
