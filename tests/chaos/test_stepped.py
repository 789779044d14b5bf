"""Of two hubs that step on each other's toes each loses nothing, and does nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.program import chaos, seed
from tests.chaos.stepped import STEPS


def stepped(folder: Path, store: str, *only: str) -> None:
    words = [word for name in only for word in ("--only", name)]
    run = chaos(folder, "stepped", "--store", store, "--seed", str(seed()), *words, timeout=280)
    assert run["missed"] == []
    assert run["hit"] == [point.name for point in STEPS if not only or point.name in only]
    assert run["put_out"], "at some the frozen hub has lost its cases"
    assert run["found"]["acked"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hub_that_is_frozen_about_a_commit_and_put_out_by_another_writes_nothing_more(
    tmp_path: Path, postgres_url: str
) -> None:
    stepped(tmp_path, postgres_url, "before turns are written", "after the commit, before it is known")


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_a_hub_that_is_frozen_at_any_step_and_put_out_by_another_writes_nothing_more(
    tmp_path: Path, postgres_url: str
) -> None:
    stepped(tmp_path, postgres_url)
