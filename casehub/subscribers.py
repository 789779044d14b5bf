"""Subscribers: functions that are called for committed events, live or from a kept position."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import anyio
import structlog

from casehub.bus import Bus
from casehub.events import CaseId, Event
from casehub.spi import CaseStore

log = structlog.get_logger("casehub.subscribers")
E = TypeVar("E", bound=Event)
Handler = Callable[[E], Awaitable[None]]

TRIES: Final = 3
"""How often an event is given to a subscriber that raises."""
KEEP_EVERY: Final = 100
"""Events after which a durable subscriber that has no pause keeps its position."""


@dataclass(slots=True, eq=False)
class Subscriber(Generic[E]):
    """One function and what it listens to. `durable`: the name its position is kept under; None for a live one."""

    kinds: Sequence[type[E]]
    handler: Handler[E]
    case: CaseId | None = None
    durable: str | None = None
    failures: int = 0
    ended: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, bus: Bus, store: CaseStore, tenant: str) -> None:
        """Hand on events until the bus is closed and everything on it has been handed on."""
        after = None if self.durable is None else await store.bookmark(self.durable, tenant=tenant)
        with bus.subscribe(*self.kinds, case=self.case, after=after) as events:
            since = 0
            async for event in events:
                await self._hand_on(event)
                since += 1
                if self.durable is not None and (not events.pending or since >= KEEP_EVERY):
                    since = 0
                    await store.bookmark(self.durable, event.seq, tenant=tenant)
        self.ended.set()

    async def _hand_on(self, event: E) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self.handler(event)
                return
            except Exception as error:
                self.failures += 1
                name = getattr(self.handler, "__qualname__", repr(self.handler))
                details: dict[str, Any] = {"handler": name, "kind": event.name, "seq": event.seq, "attempt": attempt}
                if attempt == TRIES:
                    log.error("subscriber.skipped_event", **details, exc_info=error)
                else:
                    log.warning("subscriber.failed", **details, reason=str(error))
