"""Subscribers: functions that are called for committed events, live or from a kept position."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar

import anyio
import structlog

from casehub.bus import Bus
from casehub.errors import StoreUnavailableError
from casehub.events import CaseId, Event
from casehub.patience import patiently
from casehub.sharing import SharedStore
from casehub.spi import CaseStore

log = structlog.get_logger("casehub.subscribers")
E = TypeVar("E", bound=Event)
Handler = Callable[[E], Awaitable[None]]

TRIES: Final = 3
"""How often an event is given to a subscriber that raises."""
KEEP_EVERY: Final = 100
"""A durable subscriber keeps its position at the end of a batch, and within one at every event of such a version."""


@dataclass(slots=True, eq=False)
class Subscriber(Generic[E]):
    """One function and what it listens to. `durable`: the name its position is kept under; None for a live one.

    `heard`: the position up to which it has been handed everything, None before the first event.
    """

    kinds: Sequence[type[E]]
    handler: Handler[E]
    case: CaseId | None = None
    durable: str | None = None
    failures: int = 0
    heard: int | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def name(self) -> str:
        """What people call it."""
        return self.durable or str(getattr(self.handler, "__qualname__", repr(self.handler)))

    async def run(self, bus: Bus, store: CaseStore, tenant: str) -> None:
        """Hand on events until the bus is closed and everything on it has been handed on.

        Of several hubs one hands on to a durable subscriber, which goes on from the kept position where it takes over.
        """
        durable, again = self.durable, True
        while again:
            again, after = False, self.heard
            hub = store.hub if isinstance(store, SharedStore) else ""
            if durable is not None:
                if isinstance(store, SharedStore) and not await _lead(durable, bus, store, tenant):
                    break
                after = await patiently(lambda: store.bookmark(durable, tenant=tenant))
            with bus.subscribe(*self.kinds, case=self.case, after=after) as events:
                while batch := await patiently(events.batch):
                    if durable is not None and isinstance(store, SharedStore) and (store.fenced or store.hub != hub):
                        again = True  # another hub hands on by now
                        break
                    await self.hand_on(batch, store, tenant)
                    self.heard = batch[-1].seq
                    await self.keep(store, batch[-1].seq, tenant)
        self.ended.set()

    async def hand_on(self, batch: Sequence[E], store: CaseStore, tenant: str) -> None:
        """Hand on the events of a batch, one after the other."""
        durable, handler = self.durable is not None, self.handler
        for event in batch:
            try:
                await handler(event)
            except (Exception, asyncio.CancelledError) as error:
                await self.failed(event, error)
            if durable and event.version % KEEP_EVERY == 0:
                await self.keep(store, event.seq, tenant)

    async def keep(self, store: CaseStore, seq: int, tenant: str) -> None:
        """Keep a position. Where the store is away it is kept later, and what lies between is heard again at worst."""
        if self.durable is None:
            return
        try:
            await store.bookmark(self.durable, seq, tenant=tenant)
        except StoreUnavailableError as error:
            log.warning("subscriber.position_not_kept", subscriber=self.durable, seq=seq, reason=str(error))

    async def failed(self, event: E, error: BaseException) -> None:
        """Give an event to a handler that raised once more, and once more; then go on without it."""
        if _called_off(error):
            raise error
        name = str(getattr(self.handler, "__qualname__", repr(self.handler)))
        for attempt in range(1, TRIES):
            self.failures += 1
            log.warning(
                "subscriber.failed", handler=name, kind=event.name, seq=event.seq, attempt=attempt, reason=str(error)
            )
            try:
                await self.handler(event)
                return
            except (Exception, asyncio.CancelledError) as again:
                if _called_off(again):
                    raise
                error = again
        self.failures += 1
        log.error("subscriber.skipped_event", handler=name, kind=event.name, seq=event.seq, exc_info=error)


async def _lead(name: str, bus: Bus, store: SharedStore, tenant: str) -> bool:
    """Wait until this hub is the one that hands on under a name; whether that comes before its end."""
    while not await patiently(partial(store.lead, name, tenant)):
        with anyio.move_on_after(store.lease / TRIES):
            while not bus.closed:
                await bus.news()
        if bus.closed:
            return False
    return True


def _called_off(error: BaseException) -> bool:
    """Whether the subscriber itself is cancelled; a CancelledError of something that it awaits is an error like others."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)
