"""The same log gives the same state, and the same case the same choices, whatever the hash seed of the process (S036)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.extension.test_strategy_contract import READY

ROOT = Path(__file__).parent.parent.parent


def run(seeds: Sequence[str], logs: Path, *options: str) -> Iterator[dict[str, Any]]:
    """What processes with these hash seeds print, side by side."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.replay.seeds", str(logs), *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in seeds
    ]
    for process in running:
        out, _ = process.communicate(timeout=280)
        assert process.returncode == 0
        yield json.loads(out)


def compare(seeds: Sequence[str], logs: Path) -> None:
    (first,) = run(["0"], logs, "--write")
    assert len({digest for name, digest in first.items() if name.startswith("play ")}) > 8  # strategies do differ
    assert first.keys() >= {"golden", "structure", *(f"play {name}" for name in READY)}
    assert sum(name.startswith("fold ") for name in first) == len(READY)
    for place in range(0, len(seeds), 2):
        for found in run(seeds[place : place + 2], logs):
            assert found == first


@pytest.mark.slow  # three processes
def test_states_and_choices_are_the_same_under_a_few_hash_seeds(tmp_path: Path) -> None:
    compare(["1", "4294967295"], tmp_path / "logs.ndjson")


@pytest.mark.chaos
@pytest.mark.timeout(1_800)
def test_states_and_choices_are_the_same_under_a_hundred_hash_seeds(tmp_path: Path) -> None:
    compare([str(seed * 7_919) for seed in range(1, 101)], tmp_path / "logs.ndjson")
