"""How tests run the harness: as a program of its own, since only a process without threads may fork hubs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def seed() -> int:
    """Another one each time, unless `CASEHUB_CHAOS_SEED` says which."""
    given = os.environ.get("CASEHUB_CHAOS_SEED")
    return int(given) if given else int.from_bytes(os.urandom(3))


def chaos(folder: Path, *words: str, timeout: float, before: Sequence[str] = ()) -> dict[str, Any]:
    """What a run found; `before`: what it is run by.

    Fails with the command that repeats it when something is wrong, or the program ends by itself.
    """
    command = [sys.executable, "-m", "tests.chaos", *words]
    done = subprocess.run(
        [*before, *command, "--folder", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    repeat = "python " + shlex.join(command[1:])
    assert done.stdout, f"{repeat}\n{done.stderr[-4_000:]}"
    run: dict[str, Any] = json.loads(done.stdout)
    assert not run["found"]["problems"], f"{repeat}\n{json.dumps(run['found']['problems'], indent=1)[:6_000]}"
    assert done.returncode == 0, f"{repeat}\n{run}\n{done.stderr[-4_000:]}"
    return run
