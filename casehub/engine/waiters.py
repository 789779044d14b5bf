"""Who waits for something in a case: that it is committed, that it is so, that its pump rests.

None of them has anything to say in the pump's own task: what they ask is asked for them, and what that raises is theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from casehub.engine.live import LiveCase
from casehub.engine.runtime import Runtime

T = TypeVar("T")


class Waiters:
    """Those who wait for one case. `len` counts them; who gives up is out at once."""

    __slots__ = ("_looking", "_refused", "_runtime", "_sleeping", "_tests")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._refused: Exception | None = None
        self._tests: dict[asyncio.Future[Any], Callable[[LiveCase], Any]] = {}
        self._looking: set[asyncio.Future[Any]] = set()
        self._sleeping: dict[asyncio.Future[None], None] = {}

    def __len__(self) -> int:
        return len(self._tests) + len(self._sleeping)

    async def until(self, test: Callable[[LiveCase], T | None], *, looking: bool = False) -> T:
        """Wait until `test` of the case as `tell` has it gives something; what it raises comes through.

        `looking`: for the commit under way alone, so there is an answer as soon as the store gives one.
        """
        self._runtime.check_open()
        if self._refused is not None:
            raise self._refused
        found: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._tests[found] = test
        if looking:
            self._looking.add(found)
        try:
            return await found
        finally:
            self._tests.pop(found, None)
            self._looking.discard(found)

    def tell(self, live: LiveCase) -> None:
        """The case has been committed: answer everybody whom that answers."""
        for found, test in list(self._tests.items()):
            if found.done():
                continue
            try:
                answer = test(live)
            except Exception as error:
                found.set_exception(error)
            else:
                if answer is not None:
                    found.set_result(answer)

    async def woken(self) -> None:
        """Wait for the next `wake`."""
        self._runtime.check_open()
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeping[woken] = None
        try:
            await woken
        finally:
            self._sleeping.pop(woken, None)

    def wake(self) -> None:
        """Something has ended, or rests: whoever waits for that looks again."""
        for woken in self._sleeping:
            if not woken.done():
                woken.set_result(None)

    def give_up(self, error: Exception) -> None:
        """The store does not answer: whoever only looks at the case is told so."""
        for found in self._looking:
            if not found.done():
                found.set_exception(error)

    def refuse(self, error: Exception) -> None:
        """Nobody will answer, whoever waits now and whoever comes."""
        self._refused = error
        for found in (*self._tests, *self._sleeping):
            if not found.done():
                found.set_exception(error)
