"""Stores, clocks and waits that tests of a running hub share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from casehub.adapters.memory import MemoryStore
from casehub.errors import StoreUnavailableError
from casehub.events import CaseId, Event
from casehub.spi import CommitResult, DueTimer, Turn


class Kept:
    """A store in memory that may be left with open cases and opened again, as a durable one may.

    `before`: called with each batch before it is committed, `after` with what was, `loading` before a case is loaded;
    each may await or raise.
    """

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.opened = 0
        self.closed = 0
        self.before: Callable[[Sequence[Turn]], Any] | None = None
        self.after: Callable[[Sequence[CommitResult]], Any] | None = None
        self.loading: Callable[[], Any] | None = None

    @property
    def log(self) -> Any:
        return self.store.log

    def describe(self) -> str:
        return "memory that is kept"

    async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
        self.opened += 1
        await self.store.open(published)

    async def close(self) -> None:
        self.closed += 1
        await self.store.close()

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        if self.before is not None and (waiting := self.before(turns)) is not None:
            await waiting
        results = await self.store.commit(turns)
        if self.after is not None and (waiting := self.after(results)) is not None:
            await waiting
        return results

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        await asyncio.sleep(0)  # a store that is no dictionary suspends
        if self.loading is not None:
            await self.loading()
        return await self.store.load(case, tenant)

    async def outcome(self, case: CaseId, key: str, tenant: str = "default") -> int | None:
        await asyncio.sleep(0)
        return await self.store.outcome(case, key, tenant)

    async def active(self) -> Sequence[tuple[str, CaseId]]:
        return await self.store.active()

    async def due(self, now: Any, limit: int = 100) -> Sequence[DueTimer]:
        return await self.store.due(now, limit)

    async def next_due(self, *after: Any) -> Any:
        return await self.store.next_due(*after)

    async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
        return await self.store.bookmark(subscriber, seq, tenant)


class Away(Kept):
    """A store that is away for the next `times` commits; `lost`: they are committed, and only their answer is lost."""

    def __init__(self, times: int = 0, *, lost: bool = False) -> None:
        super().__init__()
        self.times = times
        self.lost = lost

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        if self.times:
            self.times -= 1
            if self.lost:
                await self.store.commit(turns)
            raise StoreUnavailableError("the store is away")
        return await super().commit(turns)


async def eventually(there: Callable[[], Any], seconds: float = 120.0) -> Any:
    """What `there` gives, awaited where it awaits, once it is true; for what other threads and processes do."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        found = there()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert loop.time() < end, "it never came to that"
        await asyncio.sleep(0.002)


async def idle() -> None:
    """Let the event loop go round until everything on it waits for something."""
    ready: Sequence[object] = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # nothing public says so
    await asyncio.sleep(0)
    while ready:  # noqa: ASYNC110 - it is the loop itself that is waited for
        await asyncio.sleep(0)
