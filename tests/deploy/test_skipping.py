"""Tests that need a service which is left out are skipped loudly: counted, with the reason, and said again at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TESTS = """
def test_one(postgres): pass
def test_another(postgres): pass
def test_a_third(redis): pass
def test_without_any(): pass
"""


def run(words: Sequence[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a program says in a folder, without what this process was told of services."""
    told = {name: value for name, value in os.environ.items() if not name.startswith(("CASEHUB_TEST_", "PYTEST_"))}
    return subprocess.run(
        words, cwd=folder, env={**told, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("left_out", "outcome", "report"),
    [
        ({"POSTGRES": "not today"}, "2 passed, 2 skipped", "2 tests: no postgres: not today\n"),
        ({"REDIS": "--no-services"}, "3 passed, 1 skipped", "1 tests: no redis: --no-services\n"),
        (
            {"POSTGRES": "not today", "REDIS": "never"},
            "1 passed, 3 skipped",
            "2 tests: no postgres: not today\n1 tests: no redis: never\n",
        ),
    ],
    ids=["postgres", "redis", "both"],
)
def test_what_is_skipped_is_counted_by_its_reason(
    tmp_path: Path, left_out: dict[str, str], outcome: str, report: str
) -> None:
    (tmp_path / "test_tiny.py").write_text(TESTS)
    skipped = tmp_path / "skipped"
    given = {f"CASEHUB_TEST_{name}_URL": f"{name.lower()}://nowhere" for name in ("POSTGRES", "REDIS")}
    absent = {f"CASEHUB_TEST_NO_{name}": reason for name, reason in left_out.items()}
    words = (sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider")
    ran = run((*words, "test_tiny.py"), tmp_path, **given, **absent, CASEHUB_TEST_SKIPPED=str(skipped))
    assert ran.returncode == 0, ran.stdout
    assert outcome in ran.stdout
    assert skipped.read_text() == report


PYTHON = """#!/bin/sh
# in place of an interpreter: notes what it was told, and leaves as skipped what a run of the tests would
echo "$* | $CASEHUB_TEST_NO_POSTGRES | $CASEHUB_TEST_NO_REDIS" >>asked
case "$*" in
*pytest*) printf '17 tests: no postgres: not today\\n3 tests: no redis: never\\n' >"$CASEHUB_TEST_SKIPPED" ;;
esac
"""


def test_the_check_says_at_its_end_what_was_skipped_and_why(tmp_path: Path) -> None:
    shutil.copy(ROOT / "check", tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name, text in (("run", "#!/bin/sh\n"), (".venv/bin/python", PYTHON)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    ran = run(("./check", "--no-services", "--quick"), tmp_path)
    assert ran.returncode == 0, ran.stderr
    end = ran.stdout.splitlines()[-4:]
    assert end[0].startswith("  pytest: ok, ")
    assert end[1:] == [
        "    SKIPPED 17 tests: no postgres: not today",
        "    SKIPPED 3 tests: no redis: never",
        "check: all good",
    ]
    (pytest_asked,) = [line for line in (tmp_path / "asked").read_text().splitlines() if "pytest" in line]
    assert pytest_asked.endswith("| --no-services | --no-services")
