"""A few threads with a read-only connection each, to ask a SQLite database without holding up the loop or the writer.

A database that no process has open is read without leaving files beside it: SQLite would make a `-wal` and a `-shm`
even for a reader, and the next owner might not be allowed to write these. So as long as there is no `-wal`, the file
is read as if it could not change, and after each answer it is looked at whether it has: then the question is asked
again. While a process owns the database there is a `-wal`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from casehub.adapters.sqlite_log import Session
from casehub.adapters.sqlite_thread import LoopThread
from casehub.errors import StoreUnavailableError

THREADS: Final = 2
"""One long answer leaves a thread for the short ones."""
ATTEMPTS: Final = 10
"""How often a question is asked again because the file changed under it."""

T = TypeVar("T")

_Job = tuple[Callable[[Session], Any], "asyncio.Future[Any]"]


class Readers:
    """Threads start with the first question. `owned`: whether this process owns the database."""

    def __init__(self, path: Path, *, owned: bool) -> None:
        self._path = path
        self._owned = owned
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[LoopThread] = []

    async def ask(self, question: Callable[[Session], T]) -> T:
        """What the question returns or raises, called in a thread, all of it on one snapshot of the database."""
        if not self._threads:
            self._threads = [LoopThread(f"casehub-sqlite-reader-{n}", self._serve) for n in range(THREADS)]
        answer: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((question, answer))
        return await answer

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
        reader = _Reader(self._path, owned=self._owned)
        while (job := self._jobs.get()) is not None:
            question, answer = job
            value: Any = None
            error: Exception | None = None
            try:
                value = reader.answer(question)
            except (sqlite3.Error, OSError) as failure:
                reader.close()
                error = StoreUnavailableError(f"{self._path}: {failure}; see that the file is there and can be read")
                error.__cause__ = failure
            except Exception as failure:
                error = failure
            thread.tell(_settle, answer, value, error)
        reader.close()


def _settle(answer: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if answer.done():
        return  # the caller was cancelled
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)


class _Reader:
    """One connection, made when it is needed and again when the file has changed under it."""

    def __init__(self, path: Path, *, owned: bool) -> None:
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._owned = owned
        self._session: Session | None = None
        self._seen: tuple[int, ...] | None = None

    def answer(self, question: Callable[[Session], T]) -> T:
        for _ in range(ATTEMPTS):
            session = self._session
            if session is None or self._seen != self._stamp():
                session = self._open()
            try:
                value: T = session.ask(question)
            except sqlite3.DatabaseError:
                if self._seen == self._stamp():
                    raise
            else:
                if self._seen == self._stamp():
                    return value
        raise StoreUnavailableError(
            f"{self._path}: it changed under every one of {ATTEMPTS} attempts to read it; try again"
        )

    def _stamp(self) -> tuple[int, ...] | None:
        """What shows that a file which nobody has open has not changed; None where SQLite itself looks after that."""
        if self._owned or self._wal.exists():
            return None
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _open(self) -> Session:
        self.close()
        self._seen = self._stamp()
        mode = "mode=ro" if self._seen is None else "mode=ro&immutable=1"
        connection = sqlite3.connect(f"{self._path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None)
        session = self._session = Session(connection)
        return session

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.connection.close()
