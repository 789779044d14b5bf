"""What every test of the project shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pytest_asyncio import is_async_test


@pytest.fixture(autouse=True)
def no_task_is_left_behind(request: pytest.FixtureRequest) -> None:
    """Fail an async test after which a task still runs; a sync test gets no loop for it."""
    if is_async_test(request.node):
        request.getfixturevalue("_tasks_left_behind")


@pytest.fixture
async def _tasks_left_behind() -> AsyncIterator[None]:
    # Set up before the fixtures that a test names, so it looks after they have cleaned up.
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        pytest.fail(f"tasks left behind: {sorted(map(repr, left))}", pytrace=False)
