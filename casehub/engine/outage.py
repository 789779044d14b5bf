"""A store that does not answer: whoever waits for it is told so within a time that is known beforehand.

What was posted is not lost by that: it stays where it is, and is committed when the store is back. A store is outside of
the cases' time, so it is waited for by the machine's clock, whatever clock the hub has.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from datetime import timedelta
from typing import Protocol, TypeVar

import anyio

from casehub.errors import StoreUnavailableError

T = TypeVar("T")


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
            self._waiting[waits] = time.monotonic()

    def end(self, waits: Waits) -> None:
        """The store has answered."""
        self._waiting.pop(waits, None)
        if not self._waiting:
            self._reason = ""

    def look(self) -> None:
        """Tell those who have waited for long enough; to be called now and then."""
        now = time.monotonic()
        for waits, since in list(self._waiting.items()):
            if since + self._patience > now:
                return
            self.told += 1
            self._reason = self._reason or "it does not answer"
            del self._waiting[waits]
            self._waiting[waits] = now  # those who come from now on have their own time
            waits.give_up(_away("it was asked to write", now - since))

    async def bounded(self, asking: Awaitable[T], what: str) -> T:
        """What comes of asking the store. Raises `StoreUnavailableError` when it takes too long."""
        try:
            with anyio.fail_after(self._patience):
                return await asking
        except TimeoutError as late:
            self.told += 1
            raise _away(what, self._patience) from late


def _away(what: str, seconds: float) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the store has not answered for {seconds:.3g} s: {what}; what it was given is kept and taken when it is back; "
        "ask again with the same key= to learn what became of it"
    )
