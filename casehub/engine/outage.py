"""A store that does not answer: whoever waits for it is told so within a time that is known beforehand.

What was posted is not lost by that: it stays where it is, and is committed when the store is back. A store is outside of
the cases' time, so it is waited for by the machine's clock, whatever clock the hub has; while the event loop itself stands
still, nobody waits for a store, and no time passes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, Protocol, TypeVar

import anyio

from casehub.errors import StoreError, StoreUnavailableError

T = TypeVar("T")

LONG: Final = 30
"""Times a caller's patience that a store gets for a long answer, while it gives short ones."""


LOOK: Final = 0.25
"""Seconds that pass between two looks, at most: where it has been longer, the loop had something else to do."""


class Waits(Protocol):
    """What has callers that wait for the store."""

    def give_up(self, error: StoreUnavailableError) -> None:
        """Tell everybody who waits for the store that it is away."""
        ...


class Outage:
    """Who waits for the store, and since when. `patience`: how long callers do; `told`: how often some were told so."""

    def __init__(self, patience: timedelta) -> None:
        self.told = 0
        self._reason = ""
        self._patience = patience.total_seconds()
        self._waiting: dict[Waits, float] = {}  # since when; the longest first
        self._now = 0.0
        self._looked = time.monotonic()

    @property
    def waiting(self) -> int:
        """How many cases wait for an answer, or for the next attempt."""
        return len(self._waiting)

    @property
    def trouble(self) -> str:
        """Why the store does not write, as it said last; empty while nobody waits for it."""
        return self._reason if self._waiting else ""

    def failed(self, reason: str) -> None:
        """The store has said that it cannot write, or does not know whether it has."""
        self._reason = reason

    def begin(self, waits: Waits) -> None:
        """The store is asked to write, or once more after it has failed."""
        if waits not in self._waiting:
            self._waiting[waits] = self._now

    def end(self, waits: Waits) -> None:
        """The store has answered."""
        self._waiting.pop(waits, None)
        if not self._waiting:
            self._reason = ""

    def look(self) -> None:
        """Tell those who have waited for long enough; to be called now and then."""
        looked = time.monotonic()
        self._now, self._looked = self._now + min(looked - self._looked, LOOK), looked
        now = self._now
        for waits, since in list(self._waiting.items()):
            if since + self._patience > now:
                return
            self.told += 1
            self._reason = self._reason or "it does not answer"
            del self._waiting[waits]
            self._waiting[waits] = now  # those who come from now on have their own time
            waits.give_up(_away("it was asked to write", now - since))

    async def bounded(self, asking: Awaitable[T], what: str, probe: Callable[[], Awaitable[object]] | None = None) -> T:
        """What comes of asking the store. Raises `StoreUnavailableError` when it takes too long.

        `probe`: asks it something small. A store that answers that is there, and what takes long is long, a log say: it
        is given `LONG` times as long.
        """
        asked, began = asyncio.ensure_future(asking), time.monotonic()
        try:
            while not (await asyncio.wait({asked}, timeout=self._patience))[0]:
                took = time.monotonic() - began
                if probe is None or took > LONG * self._patience or not await self._answers(probe):
                    self.told += 1
                    raise _away(what, took)
            return asked.result()
        finally:
            asked.cancel()

    async def _answers(self, probe: Callable[[], Awaitable[object]]) -> bool:
        with anyio.move_on_after(self._patience), suppress(StoreError):
            await probe()
            return True
        return False


def _away(what: str, seconds: float) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the store has not answered for {seconds:.3g} s: {what}; what it was given is kept and taken when it is back; "
        "ask again with the same key= to learn what became of it"
    )
