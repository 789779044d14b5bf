"""Patience: what a store is asked again, however long it is away, by those that may be late but must not give up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from casehub.adapters.clock import SystemClock
from casehub.errors import StoreUnavailableError
from casehub.spi import Clock

log = structlog.get_logger("casehub.hub")
T = TypeVar("T")

AGAIN: Final = 1.0
"""Seconds until a store that is away is asked again."""
MACHINE: Final = SystemClock()
"""For those that know no other clock."""


async def patiently(ask: Callable[[], Awaitable[T]], clock: Clock = MACHINE) -> T:
    """What comes of asking; `StoreUnavailableError` only means to ask again."""
    while True:
        try:
            return await ask()
        except StoreUnavailableError as error:
            log.warning("store.unavailable", again_in=AGAIN, reason=str(error))
            await clock.sleep_until(clock.monotonic() + AGAIN)
