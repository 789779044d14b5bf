"""The one thread that writes a SQLite database: it takes all that is waiting and commits it as one group.

While a group is on its way to the disk the next one gathers, so groups grow with the load by themselves, without a
timer; the event loop hears of a group once. This thread alone moves the write-ahead log (WAL) into the database.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final, Literal

from casehub.adapters.sqlite_group import Group, Known, Where, Written
from casehub.adapters.sqlite_schema import migrate, schema_version
from casehub.adapters.sqlite_thread import LoopThread
from casehub.errors import StoreError, StoreUnavailableError
from casehub.spi import CommitResult, Committed, Refused, TooLarge, Turn

GROUP_EVENTS: Final = 2_000
"""A group takes no further request once it has this many events."""
IDLE: Final = 0.1
"""Seconds without a request after which what is in the WAL moves into the database."""
WAL_PAGES: Final = 16_000
"""Estimated pages (4 KiB) in the WAL after which they move under load too."""
WAL_PAGES_MOST: Final = 32_000
"""Pages in the WAL after which readers are waited for, `BUSY` seconds at most, so that it can begin anew."""
BUSY: Final = 1.0
"""Seconds to wait for whoever else has locked the database."""

Synchronous = Literal["FULL", "NORMAL"]


@dataclass(slots=True, eq=False)
class Request:
    """What one caller wants written: turns, or a bookmark (tenant, subscriber, position).

    A turn that was refused before it got here is its result already. Decided, it has `results` or an `error`.
    """

    answer: asyncio.Future[Sequence[CommitResult]]
    turns: Sequence[Written | TooLarge | Refused] = ()
    bookmark: tuple[str, str, int] | None = None
    results: list[CommitResult] = field(default_factory=list)
    error: StoreError | None = None

    @property
    def events(self) -> int:
        return sum(len(turn.rows) for turn in self.turns if isinstance(turn, Written))


class Writer:
    """The writer as the event loop sees it: made, used and closed on the loop's thread.

    `published` is called there with the committed turns, in commit order, before their callers hear of it.
    """

    def __init__(self, path: str, synchronous: Synchronous, published: Callable[[Sequence[Turn]], None]) -> None:
        self._published = published
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[Exception | None] = self._loop.create_future()
        self._waiting: SimpleQueue[Request | None] = SimpleQueue()
        self._database = _Database(path, synchronous)
        self._thread = LoopThread("casehub-sqlite-writer", self._serve)

    async def started(self) -> None:
        """Raises what kept it from opening the database."""
        error = await self._started
        if error is not None:
            raise error

    async def commit(self, turns: Sequence[Written | TooLarge | Refused]) -> Sequence[CommitResult]:
        """A caller who is cancelled does not hear the answer; the turns are written, or not, all the same."""
        request = Request(self._loop.create_future(), turns)
        self._waiting.put(request)
        return await request.answer

    async def bookmark(self, tenant: str, subscriber: str, seq: int) -> None:
        request = Request(self._loop.create_future(), bookmark=(tenant, subscriber, seq))
        self._waiting.put(request)
        await request.answer

    async def close(self) -> None:
        """Waits until everything is written that was asked for, and nothing is open any longer."""
        self._waiting.put(None)
        await self._thread.ended()

    def _settle(self, group: Sequence[Request]) -> None:
        turns: list[Turn] = []
        for request in group:
            for written, result in zip(request.turns, request.results, strict=False):  # none after an error
                if isinstance(result, Committed) and isinstance(written, Written):
                    written.turn.envelope.seq = result.seq
                    turns.append(written.turn)
        try:
            if turns:
                self._published(turns)
        finally:
            for request in group:
                if request.answer.done():
                    continue  # the caller was cancelled
                if request.error is None:
                    request.answer.set_result(request.results)
                else:
                    request.answer.set_exception(request.error)

    # ---- from here on: in the writer's thread

    def _serve(self, thread: LoopThread) -> None:
        database = self._database
        try:
            database.connect()
        except Exception as error:
            database.disconnect()
            thread.tell(_set_result, self._started, error)
            return
        thread.tell(_set_result, self._started, None)
        while group := self._next():
            database.write(group)
            thread.tell(self._settle, group)
            database.bound()
        database.checkpoint("TRUNCATE")
        database.disconnect()

    def _next(self) -> list[Request]:
        """All that is waiting, up to the bound; nothing at the end."""
        waiting = self._waiting
        try:
            first = waiting.get(timeout=IDLE if self._database.pages else None)
        except Empty:
            self._database.checkpoint("PASSIVE")
            first = waiting.get()
        if first is None:
            return []
        group, events = [first], first.events
        while events < GROUP_EVENTS:
            try:
                request = waiting.get_nowait()
            except Empty:
                break
            if request is None:
                waiting.put(None)  # nothing comes after it
                break
            group.append(request)
            events += request.events
        return group


def _set_result(answer: asyncio.Future[Exception | None], error: Exception | None) -> None:
    if not answer.done():
        answer.set_result(error)


class _Database:
    """The connection that writes. After an error it is closed, and the next group opens another.

    `pages`: how many the WAL may have that are not in the database yet, estimated.
    """

    def __init__(self, path: str, synchronous: Synchronous) -> None:
        self._path = path
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._known: Known | None = None
        self.pages = 0
        self._pages_allowed = WAL_PAGES

    def write(self, group: Sequence[Request]) -> None:
        """Gives every request its results or its error."""
        try:
            self._write(group)
        except Exception as error:
            self.disconnect()
            if len(group) > 1 and not _unavailable(error):
                for request in group:  # one of them cannot be written: the others can
                    self._write_alone(request)
            else:
                for request in group:
                    request.results, request.error = [], self._explained(error)

    def _write_alone(self, request: Request) -> None:
        try:
            self._write([request])
        except Exception as error:
            self.disconnect()
            request.results, request.error = [], self._explained(error)

    def _write(self, requests: Sequence[Request]) -> None:
        connection, known = self.connect()
        group = Group(connection, known)
        connection.execute("BEGIN IMMEDIATE")
        for request in requests:
            if request.bookmark is not None:
                group.bookmarks.append(request.bookmark)
            failed: set[Where] = set()
            request.results = [
                group.decide(turn, failed) if isinstance(turn, Written) else turn for turn in request.turns
            ]
        group.flush()
        connection.execute("COMMIT")
        group.settle()
        self.pages += 6 + len(group.events) + group.size // 4096

    def connect(self) -> tuple[sqlite3.Connection, Known]:
        """Raises `SchemaError` and sqlite3's errors."""
        if self._connection is not None and self._known is not None:
            return self._connection, self._known
        connection = self._connection = sqlite3.connect(self._path, timeout=BUSY, isolation_level=None)
        schema_version(connection, self._path)  # before anything is changed in what may be somebody else's
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA cache_size = -65536")  # 64 MiB
        migrate(connection, self._path)
        known = self._known = Known(connection)
        return connection, known

    def disconnect(self) -> None:
        connection, self._connection, self._known = self._connection, None, None
        if connection is not None:
            connection.close()  # rolls back what is open

    def bound(self) -> None:
        """Keep the WAL from growing without end under load."""
        if self.pages >= self._pages_allowed:
            self.checkpoint("PASSIVE" if self.pages < WAL_PAGES_MOST else "RESTART")

    def checkpoint(self, mode: Literal["PASSIVE", "RESTART", "TRUNCATE"]) -> None:
        """Move the WAL's pages into the database. Where it fails it is put off: they are safe where they are."""
        if self._connection is None:
            return
        try:
            _, pages, moved = self._connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.Error:
            self.disconnect()
            return
        self.pages = 0 if moved == pages else pages
        self._pages_allowed = self.pages + WAL_PAGES  # not after every group while a reader holds pages back

    def _explained(self, error: Exception) -> StoreError:
        if _unavailable(error):
            explained: StoreError = StoreUnavailableError(
                f"{self._path}: {error}; whether the turns were written is unknown: see that the disk works and has room, "
                "and load the case before going on"
            )
        else:
            explained = StoreError(
                f"{self._path}: cannot be written: {type(error).__name__}: {error}; nothing of it was"
            )
        explained.__cause__ = error
        return explained


def _unavailable(error: Exception) -> bool:
    """Whether the database is the reason, and not what was to be written."""
    return isinstance(error, (sqlite3.OperationalError, OSError)) or type(error) is sqlite3.DatabaseError
