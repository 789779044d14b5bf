"""The one timer wheel: durable timers of all cases, and alarms of this process, on one injected clock.

A durable timer lives in the store, set and cleared by the turn that says so; the wheel only knows when the next one
comes due and then posts those that are. So recovery needs nothing, and a waiting case costs no memory for its timers.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import anyio
import structlog

from casehub.errors import StoreUnavailableError
from casehub.events import CaseId, TimerId
from casehub.spi import CaseStore, Clock, DueTimer

HORIZON = 30.0
"""Longest sleep, in seconds: the wall clock may step, and the next look at it puts the wheel right."""

BATCH = 100
"""Durable timers that are posted at once."""

SPARE = 100
"""Alarms that were called off and may lie about."""

AGAIN = timedelta(seconds=1)
"""When to look again at a store that is away."""

log = structlog.get_logger("casehub.engine")


class Alarm:
    """A call at a time of the monotonic clock, unless it is moved or called off."""

    __slots__ = ("_wheel", "at", "call")

    def __init__(self, at: float, call: Callable[[], None], wheel: TimerWheel) -> None:
        self.at = at
        self.call: Callable[[], None] | None = call
        self._wheel = wheel

    def cancel(self) -> None:
        if self.call is not None:
            self.call = None
            self._wheel.called_off()


class TimerWheel:
    """Sleeps until the next thing is due.

    `fired`: how many durable timers have come due; `asleep_until`: when it looks again unless something is set before,
    on the monotonic clock.
    """

    def __init__(self, clock: Clock, store: CaseStore) -> None:
        self.clock = clock
        self.fired = 0
        self.asleep_until = 0.0
        self._store = store
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._idle_alarms = 0
        self._count = 0
        self._next: datetime | None = None
        self._bringing = False
        self._changed = anyio.Event()
        self._posted: set[tuple[str, CaseId, TimerId]] = set()

    def alarm(self, seconds: float, call: Callable[[], None]) -> Alarm:
        """Call something after a span of the monotonic clock."""
        alarm = Alarm(self.clock.monotonic() + seconds, call, self)
        self._push(alarm)
        return alarm

    @contextmanager
    def limit(self, span: timedelta) -> Iterator[anyio.CancelScope]:
        """Cancel what is in the block once a span of the monotonic clock is over; the scope says whether it was."""
        with anyio.CancelScope() as scope:
            alarm = self.alarm(span.total_seconds(), scope.cancel)
            try:
                yield scope
            finally:
                alarm.cancel()

    def called_off(self) -> None:
        """An alarm was called off; when most are, they are cleared away, however far off they were."""
        self._idle_alarms += 1
        if self._idle_alarms > SPARE and 2 * self._idle_alarms > len(self._alarms):
            self._alarms = [entry for entry in self._alarms if entry[2].call is not None]
            heapq.heapify(self._alarms)
            self._idle_alarms = 0

    def move(self, alarm: Alarm, seconds: float) -> None:
        """Let an alarm go off that long from now instead."""
        alarm.at = self.clock.monotonic() + seconds

    def note(self, due: datetime) -> None:
        """A durable timer has been committed."""
        if self._next is None or due < self._next:
            self._next = due
            self._changed.set()

    def taken(self, tenant: str, case: CaseId, timer: TimerId, due: datetime | None = None) -> None:
        """A timer that was posted has had its turn, or never will; `due`: what it is set for now, if it is."""
        self._posted.discard((tenant, case, timer))
        if due is not None:
            self.note(due)

    def forget(self, tenant: str, case: CaseId) -> None:
        """What was posted to a case never had its turn here: if the case comes back, it is posted again."""
        self._posted = {entry for entry in self._posted if entry[:2] != (tenant, case)}

    def next(self) -> float | None:
        """When the next thing is due, on the monotonic clock; durable timers that are being brought do not count."""
        times = [self._alarms[0][0]] if self._alarms else []
        if self._next is not None and not self._bringing:
            times.append(self.clock.monotonic() + (self._next - self.clock.now()).total_seconds())
        return min(times, default=None)

    async def run(self, due: Callable[[DueTimer], Awaitable[None]]) -> None:
        """Turn until cancelled; `due` is called with each durable timer that has come due."""
        self._next, self._bringing = self.clock.now(), False
        async with anyio.create_task_group() as beside:
            while True:
                self._changed = anyio.Event()
                self._ring()
                if self._is_due() and not self._bringing:
                    self._bringing = True
                    beside.start_soon(self._bring, due)  # however long the store takes, alarms go off in time
                upcoming = self.next()
                now = self.clock.monotonic()
                if upcoming is not None and upcoming <= now:
                    await anyio.lowlevel.checkpoint()
                    continue
                self.asleep_until = min(upcoming or now + HORIZON, now + HORIZON)
                async with anyio.create_task_group() as group:
                    group.start_soon(self._sleep, self.asleep_until, group.cancel_scope)
                    await self._changed.wait()
                    group.cancel_scope.cancel()

    def _is_due(self) -> bool:
        return self._next is not None and self._next <= self.clock.now()

    async def _sleep(self, until: float, scope: anyio.CancelScope) -> None:
        await self.clock.sleep_until(until)
        scope.cancel()

    def _ring(self) -> None:
        now = self.clock.monotonic()
        while self._alarms and self._alarms[0][0] <= now:
            _, _, alarm = heapq.heappop(self._alarms)
            if alarm.call is None:
                self._idle_alarms -= 1
            elif alarm.at > now:
                self._push(alarm)
            else:
                ring, alarm.call = alarm.call, None
                ring()

    async def _bring(self, call: Callable[[DueTimer], Awaitable[None]]) -> None:
        try:
            await self._bring_due(call)
        except StoreUnavailableError as error:
            log.warning("store.unavailable", again_in=AGAIN.total_seconds(), reason=str(error))
            self._next = self.clock.now() + AGAIN
        finally:
            self._bringing = False
            self._changed.set()

    async def _bring_due(self, call: Callable[[DueTimer], Awaitable[None]]) -> None:
        wall = self.clock.now()
        self._next = None  # whatever is set from here on is noted: the answers need not have it
        due = await self._store.due(wall, BATCH + len(self._posted))
        fresh = [timer for timer in due if (timer.tenant, timer.case, timer.timer) not in self._posted]
        for timer in fresh:
            entry = (timer.tenant, timer.case, timer.timer)
            self._posted.add(entry)
            try:
                await call(timer)
            except Exception:
                self._posted.discard(entry)
                raise
            self.fired += 1
        if fresh:
            self.note(wall)  # there may be more
        elif (upcoming := await self._store.next_due(wall)) is not None:
            self.note(upcoming)

    def _push(self, alarm: Alarm) -> None:
        self._count += 1
        heapq.heappush(self._alarms, (alarm.at, self._count, alarm))
        if self._alarms[0][2] is alarm:
            self._changed.set()
