"""Clocks: the machine's, and one that moves only when it is told to."""

from __future__ import annotations

import heapq
import time
from datetime import UTC, datetime, timedelta

import anyio

from casehub.durations import Duration, duration


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep_until(self, monotonic: float) -> None:
        await anyio.sleep(max(0.0, monotonic - time.monotonic()))


class VirtualClock:
    """A clock for tests and for replaying logs: time passes by `move` alone, both its times together."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._count = 0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep_until(self, monotonic: float) -> None:
        if monotonic <= self._elapsed:
            await anyio.lowlevel.checkpoint()
            return
        woken = anyio.Event()
        self._count += 1
        heapq.heappush(self._sleepers, (monotonic, self._count, woken))
        await woken.wait()

    async def sleep(self, span: Duration) -> None:
        """Sleep for a span of this clock: for workers and strategies under test that take their time."""
        await self.sleep_until(self._elapsed + duration(span).total_seconds())

    @property
    def next_wake(self) -> float | None:
        """When the next sleeper wakes, on the monotonic time."""
        return self._sleepers[0][0] if self._sleepers else None

    def move(self, span: Duration) -> None:
        """Let a span pass at once and wake who has slept long enough."""
        passed = duration(span)
        self._now += passed
        self._elapsed += passed.total_seconds()
        while self._sleepers and self._sleepers[0][0] <= self._elapsed + 1e-9:
            heapq.heappop(self._sleepers)[2].set()

    def move_to(self, moment: datetime) -> None:
        """Let time pass until `moment` (aware); a moment that has passed changes nothing."""
        if moment > self._now:
            self.move(moment - self._now)

    def step(self, span: timedelta) -> None:
        """Set the wall clock alone forward or back, as an operator or NTP does."""
        self._now += span
