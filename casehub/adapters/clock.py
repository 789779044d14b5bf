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
    """A clock for tests: time passes only when it is moved, both its times together."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = self._origin = start
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
        sleeper = (monotonic, self._count, woken)
        heapq.heappush(self._sleepers, sleeper)
        try:
            await woken.wait()
        finally:
            if not woken.is_set():
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)

    async def sleep(self, span: Duration) -> None:
        """Sleep for a span of this clock: for workers and strategies under test that take their time."""
        await self.sleep_until(self._elapsed + duration(span).total_seconds())

    @property
    def sleepers(self) -> list[float]:
        """When each of those who sleep wakes, on the monotonic time, the next one first."""
        return sorted([moment for moment, _, _ in self._sleepers])

    def move(self, span: Duration) -> None:
        """Let a span pass at once and wake who has slept long enough."""
        self.move_until(self._elapsed + duration(span).total_seconds())

    def move_to(self, moment: datetime) -> None:
        """Let time pass until `moment` (aware); a moment that has passed changes nothing."""
        if moment > self._now:
            self.move(moment - self._now)

    def move_until(self, monotonic: float) -> None:
        """Let time pass until a moment of the monotonic time; one that has passed changes nothing."""
        if monotonic > self._elapsed:
            # The monotonic time is taken as it is, so that it is never a rounding short of whoever waits for it.
            self._elapsed = monotonic
            self._now = self._origin + timedelta(seconds=monotonic)
        while self._sleepers and self._sleepers[0][0] <= self._elapsed + 1e-9:
            heapq.heappop(self._sleepers)[2].set()

    def step(self, span: timedelta) -> None:
        """Set the wall clock alone forward or back, as an operator or NTP does."""
        self._origin += span
        self._now += span
