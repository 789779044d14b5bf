"""What tests of resilience share: a durable store of either kind."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database: a file's, and a schema's of a real server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'cases.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found
