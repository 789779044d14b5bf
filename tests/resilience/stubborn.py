"""What `casehub up` works in the tests of stopping: workers that will not end, and a definition that cannot begin."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from casehub import CaseDefinition

stubborn = CaseDefinition("stubborn", goal="slept")
broken = CaseDefinition("broken", goal="done", signals=["done"])
both = [stubborn]


def here(name: str) -> None:
    """Leave word that a worker runs."""
    (Path(os.environ["RUNNING"]) / name).touch()


@stubborn.worker(writes="slept", when=lambda kind: kind == "sync")
def sleeps(kind: str, n: int) -> int:
    here(f"sync-{n}")
    time.sleep(3_600)
    return n


@stubborn.worker(writes="waited", when=lambda kind: kind == "async")
async def ignores(kind: str, n: int) -> int:
    here(f"async-{n}")
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3_600)


@broken.resource
async def connection() -> AsyncIterator[str]:
    raise ConnectionError("it cannot be reached")
    yield ""


@broken.worker(writes="result")
async def use(done: int, connection: str) -> int:
    return done
