"""A disk that is full: writing stops and says so, reading goes on, and once there is room again nothing needs repair.

unshare -m sh -c 'mount -t tmpfs -o size=8m chaos /mnt && python -m tests.chaos disk --disk /mnt'
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio

from casehub.adapters import sqlite_writer
from casehub.query import CaseQuery
from tests.chaos.clients import Clients
from tests.chaos.forks import answer_of, forked, sleep
from tests.chaos.lives import Life, Place

ROOM: Final = 20_000
"""Bytes that are left on the disk when it is filled."""
WAL_PAGES: Final = 100, 200
"""As of the writer, which otherwise takes more than such a disk has before it moves the log into the database."""
STILL: Final = 1.5
"""Seconds in which nothing is acknowledged: writing has stopped."""
LIMIT: Final = 90.0
"""Seconds in which it has to stop, and to go on."""


@dataclass(slots=True)
class Full:
    """What came of it. `acked`: before the disk was full, and once it was not any more; `read`: cases, while it was."""

    kills: int = 0
    acked: tuple[int, int] = (0, 0)
    read: int = 0
    found: dict[str, Any] = field(default_factory=dict[str, Any])


def fill_up(place: Place, disk: Path, seed: int) -> Full:
    """Fill the disk under a hub, and make room again; then fill it, kill the hub, make room, and let all end well."""
    sqlite_writer.WAL_PAGES, sqlite_writer.WAL_PAGES_MOST = WAL_PAGES
    full, journal, life, filler = Full(), place.journal(), Life.of(place), disk / "filler"
    before, after, full.read = answer_of(lambda: asyncio.run(_lived(life, place, filler, seed)), place.errors)
    full.acked = (before, after)
    known = journal.deeds()

    def live(pipe: int) -> None:
        def say(word: bytes) -> None:
            if word == b"o":
                _fill(filler)
                os.write(pipe, word)

        life.under_load("killed", seed, known, say)

    child = forked(live, place.errors)
    child.word()
    sleep(2 * STILL)
    full.kills += child.kill() == -signal.SIGKILL
    filler.unlink()
    full.found = answer_of(lambda: life.to_the_end(journal.deeds()), place.errors)
    return full


async def _lived(life: Life, place: Place, filler: Path, seed: int) -> tuple[int, int, int]:
    journal, _ = life.begin(seed)
    async with life.hub as hub, anyio.create_task_group() as group:
        group.start_soon(Clients(hub, journal, (), random.Random(seed), "filling").use)
        await anyio.sleep(STILL)
        _fill(filler)
        with anyio.fail_after(LIMIT):
            before = await _still(lambda: _acked(place))
        with anyio.fail_after(5):
            cases = await hub.log.cases(CaseQuery(limit=5))
            for case in cases:
                assert (await hub.case(case.case).log.query())[0].name == "CASE_STARTED"
        await anyio.to_thread.run_sync(filler.unlink)
        with anyio.fail_after(LIMIT):
            while _acked(place) == before:  # noqa: ASYNC110 - a file says so
                await anyio.sleep(0.05)
        await anyio.sleep(STILL)
        group.cancel_scope.cancel()
    return before, _acked(place), len(cases)


async def _still(count: Callable[[], int]) -> int:
    """What is counted, once it has not changed for a while."""
    last, since = count(), anyio.current_time()
    while anyio.current_time() - since < STILL:
        await anyio.sleep(0.05)
        if (now := count()) != last:
            last, since = now, anyio.current_time()
    return last


def _acked(place: Place) -> int:
    return (place.folder / "journal.ndjson").read_text().count('"acked"')


def _fill(filler: Path) -> None:
    """Leave next to nothing: less, where somebody else writes at the same time."""
    free = os.statvfs(filler.parent)
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        file.write(b"\0" * max(0, free.f_bavail * free.f_frsize - ROOM))
