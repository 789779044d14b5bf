"""Supervision: what runs beside the cases of a hub for as long as it is open, and is begun again when it fails.

A failure there is a mistake of this package or of an adapter, as what may go wrong is looked after where it does. It is
said, counted and survived: cases go on, and so does what has failed, after a while ("let it crash", J. Armstrong, 2003).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from casehub.engine.runtime import Runtime
from casehub.errors import HubClosedError

log = structlog.get_logger("casehub.hub")

AGAIN: Final = 1.0
"""Seconds after which what has failed is begun again, the first time."""
LONGEST: Final = 30.0
"""The longest of these waits, each of which is twice the one before."""


async def supervised(runtime: Runtime, name: str, run: Callable[..., Awaitable[object]], *arguments: object) -> None:
    """Run something until it ends by itself or is cancelled, whatever it raises meanwhile. `name`: for people."""
    wait = AGAIN
    while True:
        try:
            await run(*arguments)
        except HubClosedError:
            raise
        except Exception as error:
            runtime.faults[name] = runtime.faults.get(name, 0) + 1
            log.error(
                "background.failed", task=name, again_in=wait, reason=f"{type(error).__name__}: {error}", exc_info=error
            )
        else:
            return
        await runtime.clock.sleep_until(runtime.clock.monotonic() + wait)
        wait = min(2 * wait, LONGEST)
