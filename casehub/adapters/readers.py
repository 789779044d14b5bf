"""A few threads with a connection each, to ask a database without holding up the loop or the writer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from casehub.adapters.loop_thread import LoopThread

THREADS: Final = 2
"""One long answer leaves a thread for the short ones."""

S = TypeVar("S")
T = TypeVar("T")


class Reader(ABC, Generic[S]):
    """One connection, made when it is needed; used and closed in one thread. Questions are functions of a session."""

    @abstractmethod
    def answer(self, question: Callable[[S], T]) -> T:
        """The answer, all of it from one snapshot of the database. Raises `StoreUnavailableError`, and what the question raises."""

    @abstractmethod
    def close(self) -> None: ...


_Job = tuple[Callable[[Any], Any], "asyncio.Future[Any]", Callable[[Any], object] | None]


class Readers(Generic[S]):
    """Threads start with the first question, `threads` of them. `reader`: makes the reader of one."""

    def __init__(self, name: str, reader: Callable[[], Reader[S]], threads: int = THREADS) -> None:
        self._name = name
        self._number = threads
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[LoopThread] = []

    async def ask(self, question: Callable[[S], T], unheard: Callable[[T], object] | None = None) -> T:
        """What the question returns or raises, called in a thread, all of it on one snapshot of the database.

        `unheard`: called on the loop's thread with an answer whose asker was cancelled before it came to hear it.
        """
        if not self._threads:
            self._threads = [LoopThread(f"{self._name}-{n}", self._serve) for n in range(self._number)]
        answer: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((question, answer, unheard))
        try:
            return await answer
        except asyncio.CancelledError:
            if unheard is not None and answer.done() and not answer.cancelled() and answer.exception() is None:
                unheard(answer.result())  # it was there already
            raise

    def tell(self, order: Callable[[S], object]) -> None:
        """Have something done behind what was asked before, if it can be: nobody waits for it."""
        done: asyncio.Future[object] = self._loop.create_future()
        done.add_done_callback(asyncio.Future.exception)  # which nobody hears
        self._jobs.put((order, done, None))

    async def close(self) -> None:
        """Waits until everything is answered that was asked, and nothing is open any longer."""
        for _ in self._threads:
            self._jobs.put(None)
        cancelled: asyncio.CancelledError | None = None
        for thread in self._threads:
            try:
                await thread.ended()
            except asyncio.CancelledError as error:  # the others have to end too
                cancelled = error
        if cancelled is not None:
            raise cancelled

    # ---- from here on: in the threads

    def _serve(self, thread: LoopThread) -> None:
        reader = self._reader()
        while (job := self._jobs.get()) is not None:
            question, answer, unheard = job
            if answer.done():
                continue  # nobody waits any more: a database that was away has other things to do now
            value: Any = None
            error: Exception | None = None
            try:
                value = reader.answer(question)
            except Exception as failure:
                error = failure
            thread.tell(_settle, answer, value, error, unheard)
        reader.close()


def _settle(
    answer: asyncio.Future[Any], value: Any, error: Exception | None, unheard: Callable[[Any], object] | None
) -> None:
    if answer.done():  # the caller was cancelled
        if unheard is not None and error is None:
            unheard(value)
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
