"""What every test of the project shares."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from pytest_asyncio import is_async_test

from deploy.packages import MissingServiceError
from deploy.services import ABSENT, URL, Postgres, Redis, private_postgres, private_redis

_schemas = itertools.count(1)


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


def served(name: str, private: Callable[[], AbstractContextManager[Postgres | Redis]]) -> Iterator[str]:
    """The URL of a service: the one that is given (`./check` gives one), else a private one of this process."""
    absent = os.environ.get(ABSENT.format(name.upper()))
    given = os.environ.get(URL.format(name.upper()))
    if absent:
        pytest.skip(f"no {name}: {absent}")
    if given:
        yield given
        return
    try:
        service = private()
        found = service.__enter__()
    except MissingServiceError as error:
        pytest.skip(f"no {name}: {error}")
    try:
        yield found.url
    finally:
        service.__exit__(None, None, None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL."""
    yield from served("postgres", private_postgres)


@pytest.fixture(scope="session")
def redis() -> Iterator[str]:
    """The URL of a Redis."""
    yield from served("redis", private_redis)


@pytest.fixture(scope="session")
def strace() -> None:
    """That there is `strace`, which `./check` installs where it can."""
    if shutil.which("strace") is None:
        pytest.skip("no strace: it is not installed (Debian: apt-get install strace)")


@pytest.fixture
def redis_url(redis: str) -> str:
    """The URL of a Redis that is empty as far as the test can see: with keys of its own."""
    return f"{redis}?prefix=test-{uuid4().hex}"


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """The URL of a database that is empty as far as the test can see: a schema of its own."""
    schema = f"test_{os.getpid()}_{next(_schemas)}"
    yield f"{postgres}{'&' if '?' in postgres else '?'}schema={schema}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Leave what was skipped, and why, for whoever asked for it: `./check` says it again at its end."""
    report = os.environ.get("CASEHUB_TEST_SKIPPED")
    if report:
        reasons = Counter(each.longrepr[2] for each in terminalreporter.stats.get("skipped", []))
        text = "".join(f"{count} tests: {reason.removeprefix('Skipped: ')}\n" for reason, count in reasons.items())
        Path(report).write_text(text, encoding="utf-8")
