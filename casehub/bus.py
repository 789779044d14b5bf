"""The bus: a bounded ring of committed turns, a cursor and one wake-up a subscriber.

Publishing appends and wakes; it never waits for anybody. A subscriber that falls behind the ring, or that joins at an
earlier position, reads on from the log until it is back on the ring: it may be late, it misses nothing.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar

from casehub.errors import HubClosedError, StoreError
from casehub.events import CaseId, Event
from casehub.query import EventLog, check_kinds
from casehub.spi import Turn

E = TypeVar("E", bound=Event)

ALL: Final = (Event,)
CAPACITY: Final = 4_096
"""Turns kept for subscribers that are a little behind."""


class Bus:
    """The ring and its subscribers.

    `position`: the global position of the last published event; `published`: how many were published here; `gaps`: how
    often something was committed that was not.
    """

    def __init__(self, log: EventLog, capacity: int = CAPACITY, tenant: str = "default") -> None:
        self.log = log
        self.tenant = tenant
        self.position = 0
        self.closed = False
        self.gaps = 0
        self.published = 0
        self._open: weakref.WeakSet[Subscription[Any]] = weakref.WeakSet()
        self._capacity = capacity
        self.ring: list[Turn] = []
        self.first = 0
        self._waiting: dict[asyncio.Future[None], None] = {}

    def publish(self, turns: Sequence[Turn]) -> None:
        """Add committed turns, in commit order, and wake who waits. Never suspends.

        Raises `StoreError` outside of the event loop that subscribers wait on: they would not hear of it.
        """
        for waiter in self._waiting:
            if waiter.get_loop() is not asyncio._get_running_loop():
                raise StoreError(
                    "turns were published outside of the hub's event loop; hand them over with loop.call_soon_threadsafe"
                )
            break
        for turn in turns:
            seq = turn.envelope.seq
            if not turn.events or seq <= self.position:
                continue  # nothing to hear of, or everybody has been sent to the log for it
            if seq != self.position + 1:
                self._gap()
            self.ring.append(turn)
            self.position = seq + len(turn.events) - 1
            self.published += len(turn.events)
        if len(self.ring) >= self._capacity + self._capacity // 8 + 1:
            surplus = len(self.ring) - self._capacity
            del self.ring[:surplus]
            self.first += surplus
        self._wake()

    def catch_up(self, seq: int) -> None:
        """Send everybody to the log for what has been committed up to a position without having been published here."""
        if seq > self.position:
            self._gap()
            self.position = seq
            self._wake()

    def _gap(self) -> None:
        """Something was committed that was not published here: everybody finds it in the log."""
        self.gaps += 1
        self.first = self.end + 1
        self.ring.clear()

    def close(self) -> None:
        """End every subscription once it has seen what is there."""
        self.closed = True
        self._wake()

    def subscribe(self, *kinds: type[E], case: CaseId | None = None, after: int | None = None) -> Subscription[E]:
        """A subscription to events of these classes and their subclasses (none: to every event), of one case or all.

        `after`: a global position to go on behind; None means from here on.
        """
        return Subscription(self, kinds, case, self.position if after is None else after)

    def enter(self, subscription: Subscription[Any]) -> None:
        """Count a subscription as open."""
        self._open.add(subscription)

    def leave(self, subscription: Subscription[Any]) -> None:
        """Count it no more."""
        self._open.discard(subscription)

    @property
    def subscribers(self) -> int:
        """How many subscriptions are open."""
        return len(self._open)

    @property
    def lag(self) -> int:
        """How many events the slowest of them is behind."""
        return max((each.behind for each in self._open), default=0)

    @property
    def end(self) -> int:
        return self.first + len(self.ring)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def news(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)


class Subscription(Generic[E]):
    """A place in the stream of committed events; iterate it.

    Use it as a context manager, or leave it to be collected: it holds nothing but its place.
    """

    def __init__(self, bus: Bus, kinds: Sequence[type[E]], case: CaseId | None, after: int) -> None:
        check_kinds(kinds)
        self._after = after
        self._given: E | None = None
        self._bus = bus
        self._kinds: tuple[type[Event], ...] = ALL if Event in kinds else tuple(kinds) or ALL
        self._case = case
        self._seen = after  # everything up to this global position has been looked at
        self._cursor: int | None = None  # the next turn of the ring, once on it
        self._ready: deque[E] = deque()
        self._left = False

    def __enter__(self) -> Subscription[E]:
        self._bus.enter(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._bus.leave(self)
        self._left = True
        self._ready.clear()

    @property
    def position(self) -> int:
        """The global position of the last event given out."""
        return self._after if self._given is None else self._given.seq

    @property
    def pending(self) -> int:
        """Events at hand that have not been given out."""
        return len(self._ready)

    @property
    def behind(self) -> int:
        """Committed events that have not been looked at or given out."""
        return max(0, self._bus.position - self._seen) + len(self._ready)

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        """The next event. Ends when the hub is left; raises `HubClosedError` on a subscription that has been left."""
        while not self._ready:
            if not await self._fill():
                raise StopAsyncIteration
        event = self._given = self._ready.popleft()
        return event

    async def batch(self) -> Sequence[E]:
        """All events at hand, waiting for the first; none when the hub is left. They count as given out."""
        while not self._ready:
            if not await self._fill():
                return ()
        events = list(self._ready)
        self._ready.clear()
        self._given = events[-1]
        return events

    async def _fill(self) -> bool:
        """Look at something new; False when nothing will come any more."""
        bus = self._bus
        if self._cursor == bus.end and not (bus.closed or self._left):
            await bus.news()
        if self._left:
            raise HubClosedError("this subscription has been left; watch again, after its position")
        if self._cursor is None or self._cursor < bus.first:
            await self._join()
        elif self._cursor < bus.end:
            for turn in bus.ring[self._cursor - bus.first :]:
                self._take(turn.events)
            self._cursor, self._seen = bus.end, bus.position
        else:
            return not bus.closed
        return True

    async def _join(self) -> None:
        """Read the log until the next thing to look at is on the ring, a batch of ready events at a time."""
        bus = self._bus
        oldest = bus.ring[0].envelope.seq if bus.ring else bus.position + 1
        if self._seen < oldest - 1:
            end = bus.position
            async with aclosing(bus.log.tail(self._seen, bus.tenant)) as batches:
                async for events in batches:
                    self._look(events)
                    if self._ready:
                        return
            self._seen = max(self._seen, end)  # the last of it may be another tenant's
        oldest = bus.ring[0].envelope.seq if bus.ring else bus.position + 1
        if self._seen >= oldest - 1:
            for turn in bus.ring:
                self._look(turn.events)
            self._cursor = bus.end  # whatever comes from here on is new

    def _look(self, events: Sequence[Event]) -> None:
        """Take what is new of events in the order of the log."""
        last = events[-1].seq
        if last > self._seen:
            self._take(events if events[0].seq > self._seen else [e for e in events if e.seq > self._seen])
            self._seen = last

    def _take(self, events: Sequence[Event]) -> None:
        """Keep what is asked for, of events that are new."""
        case, kinds = self._case, self._kinds
        if case is not None:
            events = [event for event in events if event.envelope.case == case]
        ready: Any = events if kinds == ALL else [event for event in events if isinstance(event, kinds)]
        self._ready.extend(ready)
