"""The watchdog: says which code holds the event loop up, while it does.

Async workers share one thread with everything else. One that computes or blocks for long stops every case; nothing in
that thread can say so, so a thread of its own looks at the loop's pulse and names the line that the loop stands at.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from typing import Final

import structlog

log = structlog.get_logger("casehub.watchdog")

PULSE: Final = 0.1
"""Seconds between two beats of the loop."""
PATIENCE: Final = 1.0
"""Seconds without a beat after which the loop counts as blocked."""


class Watchdog:
    """Watches the running loop from its start to its stop. `blocked`: how often the loop was found blocked."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.blocked = 0
        self._patience = patience
        self._beat = time.monotonic()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch the loop that this is called on."""
        loop = asyncio.get_running_loop()
        self._pulse(loop)
        self._thread = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="casehub-watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; the thread has ended when this returns."""
        self._stopped.set()
        if self._handle is not None:
            self._handle.cancel()
        if self._thread is not None:
            self._thread.join()

    def _pulse(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat = time.monotonic()
        self._handle = loop.call_later(PULSE, self._pulse, loop)

    def _watch(self, loop_thread: int) -> None:
        said = 0.0
        while not self._stopped.wait(self._patience / 4):
            beat = self._beat
            silent = time.monotonic() - beat
            if silent > self._patience and beat != said:
                said = beat
                self.blocked += 1
                frame = sys._current_frames().get(loop_thread)
                where = traceback.extract_stack(frame)[-1] if frame is not None else None
                place = f"{where.name} ({where.filename}:{where.lineno})" if where is not None else "unknown"
                log.error(
                    "loop.blocked",
                    seconds=round(silent, 2),
                    at=place,
                    remedy="make the worker a plain def, which runs in a thread, or await what it waits for",
                )
