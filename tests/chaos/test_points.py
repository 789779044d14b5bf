"""A process that dies at any of the named places leaves a store that the next one goes on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.points import POINTS, Point, points, target
from tests.chaos.program import chaos, seed


def crash(folder: Path, store: str, named: tuple[Point, ...]) -> None:
    run = chaos(folder, "points", "--store", store, "--seed", str(seed()), timeout=300)
    assert run["missed"] == [], "nothing comes there any more, or the process ended in another way"
    assert run["hit"] == [point.name for point in named]
    assert run["found"]["acked"] > 0


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_a_crash_at_any_named_point_on_sqlite_loses_nothing(tmp_path: Path) -> None:
    crash(tmp_path, "sqlite", tuple(points("sqlite")))


@pytest.mark.slow
@pytest.mark.timeout(320)
def test_a_crash_at_any_named_point_on_postgresql_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    crash(tmp_path, postgres_url, tuple(points("postgresql")))


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_named_point_is_an_attribute_of_the_engine(point: Point) -> None:
    _, _, attribute = target(point)
    assert callable(attribute)


def test_no_two_points_have_one_name() -> None:
    assert len({point.name for point in POINTS}) == len(POINTS) >= 30
