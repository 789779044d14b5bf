"""A replay in a process of its own that ends as by `kill -9`, when it has got so far."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CODE = """
import asyncio, os, signal, sys
from pathlib import Path
from casehub.lookup import adapter, object_of
from casehub.replay import replay

log, case, store, events = sys.argv[1:5]

def progress(phase, done, total):
    if phase == "feeding" and done >= int(events):
        os.kill(os.getpid(), signal.SIGKILL)

traces = adapter("xes").read_traces(Path(log))
asyncio.run(replay(object_of(case), traces, store=store, resume=True, progress=progress))
"""


def killed_replay(log: Path, case: str, database: Path, *, events: int, environment: Mapping[str, str]) -> None:
    """Replay, or go on replaying, until so many events of this run are dealt with; then the process is no more."""
    ended = subprocess.run(
        [sys.executable, "-c", CODE, str(log), case, f"sqlite:///{database}", str(events)],
        cwd=database.parent,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
