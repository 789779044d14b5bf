"""A store that misbehaves as told: it fails before or after it has done what was asked, takes its time, does it twice,
lets later ones pass first, or answers with what was true a while ago."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from casehub.errors import StoreUnavailableError
from casehub.events import CaseId, Event
from casehub.query import EventLog
from casehub.spi import CaseStore, CommitResult, DueTimer, Turn

T = TypeVar("T")

PAUSE: Final = 0.005
"""Seconds that a delay takes, at most."""


class Fault(StrEnum):
    """`BEFORE`: an error, and nothing is done. `AFTER`: it is done, and an error is reported. `REORDER`: a commit waits
    until another one has been done, or for a moment. `STALE`: the answer to the same question as it was last time."""

    BEFORE = "before"
    AFTER = "after"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    STALE = "stale"


WRITING: Final = (Fault.BEFORE, Fault.AFTER, Fault.DELAY)
READING: Final = (Fault.BEFORE, Fault.DELAY, Fault.STALE)
PROGRAMME: Final[Mapping[str, Sequence[Fault]]] = {
    "commit": (*WRITING, Fault.DUPLICATE, Fault.REORDER),
    "bookmark": WRITING,
    "load": (Fault.BEFORE, Fault.DELAY),  # what it answers has to be true: it tells what became of a commit
    "outcome": READING,
    "active": (Fault.BEFORE, Fault.DELAY),
    "due": READING,
    "next_due": (Fault.BEFORE, Fault.DELAY),
}
"""What each method may do."""


RARE: Final = {"active": 6, "next_due": 3}
"""Methods that are called seldom, and how much more often they go wrong."""


class FaultyStore:
    """Implements `CaseStore` over another one, and goes on over the next: `store`.

    `rate`: the share of calls that go wrong; of each method every fault comes in its turn, in a random order. `fired`:
    what has gone wrong, by method. `fail_after`: instead of this, one call fails, after so many that do not.
    """

    def __init__(
        self, store: CaseStore, chance: random.Random, rate: float, programme: Mapping[str, Sequence[Fault]] = PROGRAMME
    ) -> None:
        self.store = store
        self.rate = rate
        self.fired: Counter[tuple[str, Fault]] = Counter()
        self.fail_after: int | None = None
        self._chance = chance
        self._programme = programme
        self._decks: dict[str, list[Fault]] = {method: [] for method in programme}
        self._last: dict[Any, Any] = {}
        self._passed = asyncio.Event()

    @property
    def log(self) -> EventLog:
        return self.store.log

    def describe(self) -> str:
        return f"{self.store.describe()}, with faults"

    async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
        self._passed = asyncio.Event()  # of this event loop
        await self.store.open(published)

    async def close(self) -> None:
        await self.store.close()

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        results = await self._do("commit", lambda: self.store.commit(turns))
        self._passed.set()
        return results

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        return await self._do("load", lambda: self.store.load(case, tenant), (case, tenant))

    async def outcome(self, case: CaseId, key: str, tenant: str = "default") -> int | None:
        return await self._do("outcome", lambda: self.store.outcome(case, key, tenant), (case, key, tenant))

    async def active(self) -> Sequence[tuple[str, CaseId]]:
        return await self._do("active", self.store.active)

    async def due(self, now: datetime, limit: int = 100) -> Sequence[DueTimer]:
        return await self._do("due", lambda: self.store.due(now, limit), "due")

    async def next_due(self, after: datetime | None = None) -> datetime | None:
        return await self._do("next_due", lambda: self.store.next_due(after))

    async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
        return await self._do("bookmark", lambda: self.store.bookmark(subscriber, seq, tenant))

    async def _do(self, method: str, ask: Callable[[], Awaitable[T]], question: Any = None) -> T:
        fault = self._next(method, question)
        away = StoreUnavailableError(f"{method}: a fault that the test put there; what came of it is unknown")
        match fault:
            case Fault.BEFORE:
                raise away
            case Fault.STALE:
                answer: T = self._last[method, question]
                return answer
            case Fault.DELAY:
                await asyncio.sleep(self._chance.random() * PAUSE)
            case Fault.REORDER:
                self._passed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._passed.wait(), PAUSE)
            case _:
                pass
        answer = await ask()
        if question is not None:
            self._last[method, question] = answer
        if fault is Fault.DUPLICATE:
            await ask()
        elif fault is Fault.AFTER:
            raise away
        return answer

    def _next(self, method: str, question: Any) -> Fault | None:
        """What goes wrong with this call."""
        fault: Fault | None = None
        if self.fail_after is not None:
            fault = None if self.fail_after else Fault.BEFORE
            self.fail_after -= 1
        elif method in self._programme and self._chance.random() < self.rate * RARE.get(method, 1):
            deck = self._decks[method]
            if not deck:
                deck += self._chance.sample(self._programme[method], len(self._programme[method]))
            if deck[-1] is Fault.STALE and (method, question) not in self._last:
                return None  # it has never been asked before: later
            fault = deck.pop()
        if fault is not None:
            self.fired[method, fault] += 1
        return fault
