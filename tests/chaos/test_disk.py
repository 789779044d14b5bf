"""A disk that is full under a hub, and system calls that kill or fail: nothing is lost, and nothing has to be repaired."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
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

CALLS = 200
"""More than a hub needs of a kind to open its store, commit a turn and leave."""


def traced(folder: Path, inject: str, name: str) -> tuple[int, str, bool]:
    """Let a hub live for one commit, with something injected into a system call of its writer; how its process ended,
    what it said, and whether there was such a call."""
    trace = folder / "trace"
    words = [sys.executable, "-m", "tests.chaos", "moment", "--name", name, "--folder", str(folder)]
    strace = ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=pwrite64,fdatasync", "-e", f"inject={inject}"]
    strace += [word for file in ("cases.db", "cases.db-wal") for word in ("-P", str(folder / file))]
    done = subprocess.run([*strace, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr, "(INJECTED)" in trace.read_text()


def interrupt(folder: Path, fault: str, calls: Iterable[int]) -> int:
    """Have one call after the other fail, or be the last, until there is none any more; how many there were."""
    call, _, what = fault.partition(":")
    for count, number in enumerate(calls):
        inject = f"{fault}:when={number}"
        code, said, injected = traced(folder, inject, f"{call}-{what.partition('=')[2]}-{number}")
        story = f"{inject}: it ended with {code}\n{said[-2_000:]}"
        if code == 0 and not injected:
            return count
        if what == "signal=KILL":
            assert code in (-signal.SIGKILL, 128 + signal.SIGKILL), story
        else:  # where the store could not be opened it says so
            assert injected, story
            assert code == 0 or "StoreUnavailableError" in said, story
    pytest.fail(f"{fault}: no run ends unharmed")


def break_off(folder: Path, pwrites: int, syncs: int) -> None:
    """Kill and fail a hub in its system calls until a run ends unharmed; `pwrites`, `syncs`: the step from one to the next."""
    probe = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody trace a process")
    chaos(folder, "moment", "--name", "first", timeout=60)  # what makes the store is another thing
    for fault, step in (("pwrite64:signal=KILL", pwrites), ("fdatasync:signal=KILL", syncs),
                        ("pwrite64:error=ENOSPC", pwrites), ("fdatasync:error=EIO", syncs)):  # fmt: skip
        assert interrupt(folder, fault, range(1, CALLS, step)) >= 1, fault
    run = chaos(folder, "moment", "--last", timeout=200)
    assert run["found"]["acked"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_in_a_system_call_of_a_commit_or_told_that_it_failed_a_store_loses_nothing(
    tmp_path: Path, strace: None
) -> None:
    break_off(tmp_path, pwrites=20, syncs=5)


@pytest.mark.chaos
@pytest.mark.timeout(3_000)
def test_killed_in_each_system_call_of_a_commit_or_told_that_it_failed_a_store_loses_nothing(
    tmp_path: Path, strace: None
) -> None:
    break_off(tmp_path, pwrites=1, syncs=1)
