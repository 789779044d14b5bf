"""The watchdog: says which code holds the event loop up, while it does.

Async workers share one thread with everything else. One that computes or blocks for long stops every case; nothing in
that thread can say so, so a thread of its own looks at the loop's pulse and names the worker, its case and the line that
the loop stands at.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Final

import structlog

from casehub.engine.executor import Attempt

log = structlog.get_logger("casehub.watchdog")

PULSE: Final = 0.1
"""Seconds between two beats of the loop."""
PATIENCE: Final = 0.8
"""Seconds without a beat after which the loop counts as blocked: so that it is said within a second."""
AGAIN: Final = 4
"""While it stays blocked it is said again, each time after so many times as long."""
DEPTH: Final = 12
"""Frames of the stack that are told, the innermost."""


@dataclass(frozen=True, slots=True)
class Blockage:
    """Code that holds the loop up. `worker`, `case`: whose, empty for code of nobody's; `frames`: where it was called from, the innermost last."""

    seconds: float
    at: str
    worker: str
    case: str
    frames: tuple[str, ...]


class Watchdog:
    """Watches the running loop from its start to its stop.

    `blocked`: how often the loop was found blocked, by the worker, empty for code of nobody's; `last`: the latest.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.blocked: dict[str, int] = {}
        self.last: Blockage | None = None
        self._patience = patience
        self._beat = time.monotonic()
        self._each_beat: Callable[[], object] = int
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._handle: asyncio.TimerHandle | None = None

    def start(self, each_beat: Callable[[], object] = int) -> None:
        """Begin to watch the loop that this is called on. `each_beat`: called there, ten times a second."""
        loop = asyncio.get_running_loop()
        self._each_beat = each_beat
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
        self._each_beat()

    def _watch(self, loop_thread: int) -> None:
        met, patience, starved, interval = 0.0, self._patience, 0.0, self._patience / 16
        began, worked = time.monotonic(), time.process_time()
        while not self._stopped.wait(interval):
            now, cpu = time.monotonic(), time.process_time()
            # What came late here, while this process did nothing, is the machine's doing: the loop had no processor either.
            late = now - began - interval - (cpu - worked)
            began, worked = now, cpu
            beat = self._beat
            if beat != met:
                met, patience, starved = beat, self._patience, 0.0
            starved += max(0.0, late)
            silent = now - beat - starved
            if silent > patience:
                first, patience = patience == self._patience, silent * AGAIN
                try:
                    self._say(_found(silent, sys._current_frames().get(loop_thread)), first=first)
                except Exception:  # of whatever the application logs with: this thread has to go on
                    traceback.print_exc()

    def _say(self, found: Blockage, *, first: bool) -> None:
        self.last = found
        if first:
            self.blocked[found.worker] = self.blocked.get(found.worker, 0) + 1
        log.error(
            "loop.blocked",
            seconds=found.seconds,
            worker=found.worker,
            case=found.case,
            at=found.at,
            frames=found.frames,  # not `stack`, which structlog takes for a text that it prints
            remedy="make the worker a plain def, which runs in a thread, or await what it waits for",
        )


def _found(seconds: float, innermost: FrameType | None) -> Blockage:
    """Where a loop stands, and whose code that is."""
    frames = list(_outwards(innermost))
    attempt = next((found for frame in frames if (found := _attempt_of(frame)) is not None), None)
    lines = traceback.StackSummary.extract(((frame, frame.f_lineno) for frame in frames[:DEPTH]), lookup_lines=False)
    stack = [f"{line.name} ({line.filename}:{line.lineno})" for line in lines]
    return Blockage(
        seconds=round(seconds, 2),
        at=stack[0] if stack else "unknown",
        worker="" if attempt is None else attempt.worker.name,
        case="" if attempt is None else attempt.case,
        frames=tuple(reversed(stack)),
    )


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _attempt_of(frame: FrameType) -> Attempt | None:
    """The attempt that a frame runs, where it does: what a task does stands on the stack of the loop that runs it."""
    found = frame.f_locals.get("self") if frame.f_code is Attempt.run.__code__ else None
    return found if isinstance(found, Attempt) else None
