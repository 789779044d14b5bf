"""A disk that is full under a hub, and system calls that kill or fail: nothing is lost, and nothing has to be repaired."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.program import ROOT, chaos

SMALL = "8m"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_on_a_full_disk_writing_stops_reading_goes_on_and_nothing_is_lost(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a small file system is mounted by root alone, with unshare")
    disk, folder = tmp_path / "disk", tmp_path / "run"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={SMALL} chaos {shlex.quote(str(disk))}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a file system")
    run = chaos(folder, "disk", "--disk", str(disk), before=["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh"], timeout=280)  # fmt: skip
    before, after = run["acked"]
    assert 0 < before < after, "it goes on once there is room again"
    assert run["read"] > 0, "cases can be read meanwhile"
    assert run["kills"] == 1


# ---- system calls


def traced(folder: Path, inject: str, name: str) -> tuple[int, str]:
    """Let a hub live for a moment, with something injected into a system call of its writer; how its process ended, and
    what it said."""
    words = [sys.executable, "-m", "tests.chaos", "moment", "--moment", "0.5", "--name", name, "--folder", str(folder)]
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,fdatasync", "-e", f"inject={inject}"]
    strace += [word for file in ("cases.db", "cases.db-wal") for word in ("-P", str(folder / file))]
    done = subprocess.run([*strace, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr


def interrupt(folder: Path, injections: Sequence[str]) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    probe = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody trace a process")
    killed = 0
    unharmed: set[str] = set()
    for number, inject in enumerate(injections):
        call = inject.partition(":")[0]
        if call in unharmed:
            continue  # it does not come to so many
        code, said = traced(folder, inject, f"s{number}")
        if "signal=KILL" not in inject:  # where the store could not be opened it says so
            assert code == 0 or "StoreUnavailableError" in said, f"{inject}: it ended with {code}\n{said[-2_000:]}"
        elif code == 0:
            unharmed.add(call)
        else:
            assert code in (-signal.SIGKILL, 128 + signal.SIGKILL), f"{inject}: it ended with {code}\n{said[-2_000:]}"
            killed += 1
    assert killed >= 2
    run = chaos(folder, "moment", "--last", timeout=200)
    assert run["found"]["acked"] > 0


def kills(calls: Sequence[int]) -> list[str]:
    return [f"{call}:signal=KILL:when={number}" for number in calls for call in ("pwrite64", "fdatasync")]


def errors(calls: Sequence[int]) -> list[str]:
    return [f"{what}:when={number}" for number in calls for what in ("fdatasync:error=EIO", "pwrite64:error=ENOSPC")]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_in_a_system_call_of_a_commit_or_told_that_it_failed_a_store_loses_nothing(tmp_path: Path) -> None:
    interrupt(tmp_path, [*errors([4]), *kills([3])])


@pytest.mark.chaos
@pytest.mark.timeout(3_000)
def test_killed_in_each_of_the_first_system_calls_of_its_commits_a_store_loses_nothing(tmp_path: Path) -> None:
    interrupt(tmp_path, [*errors(range(2, 12)), *kills(range(1, 31))])
