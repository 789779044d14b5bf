"""The watchdog: code that holds the event loop up is named while it does."""

from __future__ import annotations

import asyncio
import threading
import time

import structlog

from casehub.engine.watchdog import Watchdog


def hold_the_loop_up(watchdog: Watchdog) -> None:
    """Blocks until the watchdog has noticed, a minute at most."""
    given_up = time.monotonic() + 60
    while not watchdog.blocked and time.monotonic() < given_up:
        pass


async def test_code_that_blocks_the_loop_is_named() -> None:
    watchdog = Watchdog(patience=0.3)
    with structlog.testing.capture_logs() as said:
        watchdog.start()
        try:
            hold_the_loop_up(watchdog)
        finally:
            watchdog.stop()
    (line,) = [each for each in said if each["event"] == "loop.blocked"]
    assert "hold_the_loop_up" in line["at"]
    assert line["seconds"] >= 0.3
    assert any("hold_the_loop_up" in frame for frame in line["frames"])
    structlog.dev.ConsoleRenderer(colors=False)(None, "error", dict(line))  # whatever prints it can


async def test_a_loop_that_goes_round_is_left_in_peace() -> None:
    watchdog = Watchdog(patience=0.3)
    watchdog.start()
    try:
        for _ in range(1_000):
            await asyncio.sleep(0)
    finally:
        watchdog.stop()
    assert watchdog.blocked == {}


async def test_stopping_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    watchdog = Watchdog()
    watchdog.start()
    assert threading.active_count() == before + 1
    watchdog.stop()
    assert threading.active_count() == before
