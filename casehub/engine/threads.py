"""The threads that sync workers run in: so many for all, one at least for each worker, and none that hangs for ever.

A thread cannot be cancelled: past its time limit, or when its case has ended, it is abandoned and its place is free at
once, so one worker that blocks holds up no other. What it leaves behind is bounded too: threads that were abandoned and
have not come to their end count against their worker alone.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread

from casehub.errors import LimitError


@dataclass(slots=True, eq=False)
class _Lane:
    """One worker's threads: how many run, how many of those that were abandoned still do, who waits for one."""

    running: int = 0
    abandoned: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]])


@dataclass(slots=True, eq=False)
class _Place:
    """One run in a thread. The thread says that it has `begun` and `ended`, the loop that it has `left` it.

    Each sets its own before it looks at the other's, so one of them at least knows of both. `counted`: as abandoned.
    """

    begun: bool = False
    ended: bool = False
    left: bool = False
    counted: bool = False


class Threads:
    """Runs functions in threads: `most` at once, and one more for each function that has none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lanes: dict[Callable[..., Any], _Lane] = {}
        self._unlimited: anyio.CapacityLimiter | None = None
        self.running = 0

    @property
    def abandoned(self) -> int:
        """How many run that nobody waits for any more."""
        return sum(lane.abandoned for lane in self._lanes.values())

    async def run(self, function: Callable[..., Any], call: Callable[[], Any]) -> Any:
        """What `call` returns or raises, in a thread of `function`'s; one that is cancelled is abandoned.

        Raises `LimitError` when threads of this function that were abandoned take all there are.
        """
        if self._unlimited is None:
            self._unlimited = anyio.CapacityLimiter(math.inf)
        lane = self._lanes.setdefault(function, _Lane())
        await self._enter(function, lane)
        place, loop = _Place(), asyncio.get_running_loop()

        def in_thread() -> Any:
            place.begun = True
            try:
                return None if place.left else call()
            finally:
                place.ended = True
                if place.left:
                    with suppress(RuntimeError):  # the loop is closed: nobody counts any more
                        loop.call_soon_threadsafe(self._come_back, function, lane, place)

        try:
            return await anyio.to_thread.run_sync(in_thread, abandon_on_cancel=True, limiter=self._unlimited)
        finally:
            place.left = True
            if place.begun and not place.ended:
                place.counted = True
                lane.abandoned += 1
            self._leave(function, lane)

    async def _enter(self, function: Callable[..., Any], lane: _Lane) -> None:
        """Take a thread, once there is one."""
        if lane.abandoned >= self._most:
            name = getattr(function, "__qualname__", repr(function))
            raise LimitError(
                f"{lane.abandoned} threads of {name} were abandoned and have not come back: it hangs; have it end by "
                "itself, or run what it does in a process of its own"
            )
        if self._has_room(lane) and not lane.waiting:
            self._take(lane)
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(ready)
        try:
            await ready
        except BaseException:
            if ready.done() and not ready.cancelled():
                self._leave(function, lane)  # it was given one in the same moment
            else:
                lane.waiting.remove(ready)
                self._forget(function, lane)
            raise

    def _has_room(self, lane: _Lane) -> bool:
        return lane.running + lane.abandoned < self._most and (self.running < self._most or not lane.running)

    def _take(self, lane: _Lane) -> None:
        lane.running += 1
        self.running += 1

    def _leave(self, function: Callable[..., Any], lane: _Lane) -> None:
        """Give a thread back, to who has waited longest for one in the lane that waited longest."""
        lane.running -= 1
        self.running -= 1
        self._hand_on()
        self._forget(function, lane)

    def _come_back(self, function: Callable[..., Any], lane: _Lane, place: _Place) -> None:
        """A thread that was abandoned has ended."""
        if place.counted:
            lane.abandoned -= 1
            self._hand_on()
            self._forget(function, lane)

    def _hand_on(self) -> None:
        for function, lane in list(self._lanes.items()):
            given = False
            while lane.waiting and self._has_room(lane):
                ready = lane.waiting.popleft()
                if not ready.done():
                    self._take(lane)
                    ready.set_result(None)
                    given = True
                    break
            if given:  # the next time it is the others' turn first
                self._lanes[function] = self._lanes.pop(function)

    def _forget(self, function: Callable[..., Any], lane: _Lane) -> None:
        if not (lane.running or lane.abandoned or lane.waiting):
            self._lanes.pop(function, None)
