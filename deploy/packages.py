"""Packages of Debian that the services are in, and programs that tests use, installed where they are missing.

    python -m deploy.packages strace    # a program whose package has its name

As root on Debian; elsewhere it says why it cannot be had, and the tests that need it are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

INSTALL: Final = 300.0
"""Seconds for something to be installed; then it cannot be had."""


class MissingServiceError(Exception):
    """A service cannot be had on this machine; the text is the reason."""


def install(package: str) -> None:
    """Install a package of Debian, without starting what is in it. Raises `MissingServiceError`."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise MissingServiceError(f"{package} is not installed, and only root on Debian can have it installed here")
    policy, cluster = Path("/usr/sbin/policy-rc.d"), Path("/etc/postgresql-common/createcluster.conf")
    ours = not policy.exists()
    if not cluster.exists():  # else the package makes a database of its own, which nobody wants here
        cluster.parent.mkdir(parents=True, exist_ok=True)
        cluster.write_text("create_main_cluster = false\n")
    try:
        if ours:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        limits = ["-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1", "-o", "DPkg::Lock::Timeout=60"]
        for words in (["update"], ["install", "-y", "--no-install-recommends", package]):
            _run_apt(["apt-get", "-qq", *limits, *words])
    finally:
        if ours:
            policy.unlink(missing_ok=True)


def _run_apt(command: Sequence[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise MissingServiceError(f"{command[0]} took longer than {INSTALL:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise MissingServiceError(f"{command[0]} failed: {lines[-1]}")


def main(programs: Sequence[str]) -> int:
    """Install those programs that are missing; 1 when one cannot be had."""
    missing = [name for name in programs if shutil.which(name) is None]
    refused = 0
    for name in missing:
        print(f"packages: installing {name} with apt-get", file=sys.stderr)
        try:
            install(name)
        except MissingServiceError as error:
            print(f"packages: NO {name.upper()}: {' '.join(str(error).split())}", file=sys.stderr)
            refused = 1
    return refused


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
