"""A thread that serves an event loop, and ends where everybody can see it end.

Whoever closes the store waits for its threads without blocking the loop. A store that is not closed keeps no process
alive: its threads are daemons, and end with the process as in a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Thread
from typing import TypeVarTuple, Unpack

from anyio import CancelScope

Ts = TypeVarTuple("Ts")


class LoopThread:
    """Runs `serve(thread)` in a thread of its own, from when it is made, on the loop's thread."""

    __slots__ = ("_ended", "_loop", "_thread")

    def __init__(self, name: str, serve: Callable[[LoopThread], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = Thread(target=self._run, args=(serve,), name=name, daemon=True)
        self._thread.start()

    def _run(self, serve: Callable[[LoopThread], None]) -> None:
        try:
            serve(self)
        finally:
            self.tell(self._ended.set_result, None)

    def tell(self, function: Callable[[Unpack[Ts]], object], *arguments: *Ts) -> None:
        """From the thread: have a function called on the loop. When the loop is closed, nobody waits for it."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    async def ended(self) -> None:
        """Wait for the end of the thread, which must have been told to end. A cancellation takes effect afterwards."""
        cancelled = False
        with CancelScope(shield=True):
            while not self._ended.done():
                try:
                    await asyncio.wait([self._ended])
                except asyncio.CancelledError:  # a native one: scopes are shielded
                    cancelled = True
        self._thread.join()  # it has nothing left to do
        if cancelled:
            raise asyncio.CancelledError
