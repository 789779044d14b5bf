"""A hub under load that is killed at random moments loses nothing, does nothing twice and leaves nothing stuck."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.program import chaos, seed

SHORT = 40
LONG = 1_000


def kill(folder: Path, store: str, rounds: int, beside: int = 0) -> None:
    words = ["--store", store, "--rounds", str(rounds), "--seed", str(seed()), "--beside", str(beside)]
    run = chaos(folder, "kills", *words, timeout=150 + rounds * 2)
    assert run["kills"] == rounds + beside > 0, "a run in which nothing was killed shows nothing"
    assert run["found"]["acked"] > 0
    assert run["found"]["effects"] > 0
    assert run["found"]["snapshots"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hub_on_sqlite_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    kill(tmp_path, "sqlite", SHORT)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hub_on_postgresql_that_is_killed_again_and_again_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    kill(tmp_path, postgres_url, SHORT)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_hubs_that_are_killed_beside_others_lose_nothing(tmp_path: Path, postgres_url: str) -> None:
    kill(tmp_path, postgres_url, SHORT // 4, beside=2)


@pytest.mark.chaos
@pytest.mark.timeout(3_000)
def test_hundreds_of_hubs_that_are_killed_beside_others_lose_nothing(tmp_path: Path, postgres_url: str) -> None:
    kill(tmp_path, postgres_url, LONG // 4, beside=2)


@pytest.mark.chaos
@pytest.mark.timeout(3_000)
def test_a_thousand_kills_on_sqlite_lose_nothing(tmp_path: Path) -> None:
    kill(tmp_path, "sqlite", LONG)


@pytest.mark.chaos
@pytest.mark.timeout(3_000)
def test_a_thousand_kills_on_postgresql_lose_nothing(tmp_path: Path, postgres_url: str) -> None:
    kill(tmp_path, postgres_url, LONG)
