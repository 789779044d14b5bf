"""A store in one SQLite file: durable, on one machine, owned by one process.

Writing is `sqlite_writer` (one thread, groups), asking is `sqlite_readers` and `sqlite_log` (a few threads, queries),
what is in the file is `sqlite_schema`. Beside `<path>` lie SQLite's `-wal` and `-shm` while it is open, and
`<path>.lock`, which shows who owns it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from casehub.adapters.migrations import Finding
from casehub.adapters.readers import Readers
from casehub.adapters.sqlite_log import Session
from casehub.adapters.sqlite_readers import SQLiteReader
from casehub.adapters.sqlite_schema import MIGRATIONS, check_database, schema_version
from casehub.adapters.sqlite_tasks import find_tasks
from casehub.adapters.sqlite_writer import SQLiteDatabase, Synchronous
from casehub.adapters.writer import Writer
from casehub.adapters.written import EVENT_BYTES
from casehub.errors import SchemaError, SettingsError, StoreError, StoreOwnedError, StoreUnavailableError
from casehub.events import CaseId, Event
from casehub.query import By, CaseQuery, CaseSummary, EventLog, EventQuery
from casehub.spi import CommitResult, DueTimer, Turn
from casehub.tasks import Task, TaskQuery

T = TypeVar("T")

_locks: set[int] = set()
"""Descriptors of the lock files held; a forked child closes its copies, so that it cannot own what its parent owned."""


def _let_go() -> None:
    for descriptor in _locks:
        os.close(descriptor)
    _locks.clear()


os.register_at_fork(after_in_child=_let_go)


class _Ownership:
    """An advisory lock on `<path>.lock`, which holds the owner's process id. The system takes it back when a process ends."""

    def __init__(self, path: Path) -> None:
        """Raises `StoreOwnedError` when it is held, `StoreUnavailableError` when the file cannot be made."""
        lock = path.with_name(path.name + ".lock")
        try:
            self._descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreUnavailableError(
                f"{lock}: {error.strerror}; make the directory, or give another path"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreOwnedError(
                f"{path} is owned by process {owner}; stop it, or give it commands through {path}.sock, or read the "
                "database read-only"
            ) from error
        _locks.add(self._descriptor)
        os.ftruncate(self._descriptor, 0)
        with suppress(OSError):  # of a full disk: the number is for people, the lock is what counts
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """The file stays: to remove it could take it from under the next owner."""
        if self._descriptor in _locks:  # and not in a forked child
            _locks.remove(self._descriptor)
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)


class SQLiteStore:
    """Implements `CaseStore` and `EventLog`.

    `synchronous`: `FULL` survives power loss, `NORMAL` may lose the last turns to it, and neither loses anything to a
    killed process. `read_only`: beside an owner or without one, takes no lock, makes no file, and cannot commit.
    `event_bytes`: the largest body of an event; a turn with a larger one is `TooLarge`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        read_only: bool = False,
        event_bytes: int = EVENT_BYTES,
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise SettingsError(f"synchronous={synchronous!r} is unknown to the SQLite store; use 'FULL' or 'NORMAL'")
        self.path = Path(path)
        if self.path.name in ("", ":memory:"):
            raise SettingsError(f"{os.fspath(path)!r} names no file; give the path of one, or use a MemoryStore")
        self.read_only = read_only
        self._synchronous: Synchronous = synchronous
        self._event_bytes = event_bytes
        self._owner: _Ownership | None = None
        self._writer: Writer | None = None
        self._readers: Readers[Session] | None = None

    @property
    def log(self) -> EventLog:
        return self

    def describe(self) -> str:
        if self.read_only:
            return f"SQLite, {self.path}, read-only"
        survives = "a killed process and power loss" if self._synchronous == "FULL" else "a killed process"
        return f"SQLite, {self.path}, synchronous={self._synchronous}: survives {survives}; one process on one machine"

    async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
        """Makes the file and brings its schema up to date, unless it is `read_only`.

        Raises `StoreOwnedError`, `SchemaError`, or `StoreUnavailableError`; nothing is left open then, nor after a
        cancellation.
        """
        if self._readers is not None:
            raise StoreOwnedError(f"{self.path} is open already in this process; close the hub that uses it")
        path = self.path.resolve()  # SQLite follows links, and its neighbours are those of the file
        self._readers = Readers("casehub-sqlite-reader", lambda: SQLiteReader(path, owned=not self.read_only))
        try:
            if self.read_only:
                await self._verify()
            else:
                self._owner = _Ownership(path)
                database = SQLiteDatabase(str(path), self._synchronous)
                self._writer = Writer("casehub-sqlite-writer", database, published, self._event_bytes)
                await self._writer.started()
        except BaseException as error:
            await self.close()
            if isinstance(error, sqlite3.Error):
                raise StoreUnavailableError(f"{self.path}: {error}; see that the file can be written") from error
            raise

    async def close(self) -> None:
        """Writes what is queued, moves the log into the file, ends the threads, lets go of the file."""
        readers, writer, owner = self._readers, self._writer, self._owner
        self._readers = self._writer = self._owner = None
        try:
            if readers is not None:
                await readers.close()  # first: the last connection to close removes the WAL, and only the writer's can
        finally:
            try:
                if writer is not None:
                    await writer.close()
            finally:
                if owner is not None:
                    owner.release()

    async def _verify(self) -> None:
        version = await self._ask(lambda session: schema_version(session.connection, str(self.path)))
        if version < MIGRATIONS[-1].version:
            raise SchemaError(
                f"{self.path}: its schema is version {version}, and this CaseHub works with {MIGRATIONS[-1].version}; "
                "open it with a hub, which brings it up to date"
            )

    # ---- writing

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        writer = self._writing()
        if not turns:
            return []
        return await writer.commit(turns)

    async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
        if seq is None:
            return await self._ask(lambda session: session.bookmark(subscriber, tenant))
        await self._writing().bookmark(tenant, subscriber, seq)
        return seq

    def _writing(self) -> Writer:
        if self._writer is None:
            if self.read_only:
                raise StoreError(f"{self.path} is open read-only; write through the process that owns it")
            raise StoreError(f"{self.path}: the store is not open; use it through a hub, or call open() first")
        return self._writer

    # ---- asking

    async def _ask(self, question: Callable[[Session], T]) -> T:
        if self._readers is None:
            raise StoreError(f"{self.path}: the store is not open; use it through a hub, or call open() first")
        return await self._readers.ask(question)

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        return await self._ask(lambda session: session.load(case, tenant))

    async def outcome(self, case: CaseId, key: str, tenant: str = "default") -> int | None:
        return await self._ask(lambda session: session.outcome(case, key, tenant))

    async def active(self) -> Sequence[tuple[str, CaseId]]:
        return await self._ask(Session.active)

    async def due(self, now: datetime, limit: int = 100) -> Sequence[DueTimer]:
        return await self._ask(lambda session: session.due(now, limit))

    async def next_due(self, after: datetime | None = None) -> datetime | None:
        return await self._ask(lambda session: session.next_due(after))

    async def query(self, query: EventQuery) -> Sequence[Event]:
        return await self._ask(lambda session: session.query(query))

    async def count(self, query: EventQuery, by: By | None = None) -> Mapping[str, int]:
        return await self._ask(lambda session: session.count(query, by))

    async def cases(self, query: CaseQuery) -> Sequence[CaseSummary]:
        return await self._ask(lambda session: session.cases(query))

    async def tasks(self, query: TaskQuery) -> Sequence[Task]:
        return await self._ask(lambda session: find_tasks(session.connection, query))

    async def position(self) -> int:
        return await self._ask(Session.position)

    async def tail(self, after: int = 0, tenant: str = "default") -> AsyncGenerator[Sequence[Event], None]:
        ended = False
        while not ended:
            events, after, ended = await self._ask(partial(Session.batch, after=after, tenant=tenant))
            if events:
                yield events

    async def check(self) -> Sequence[Finding]:
        """What is wrong with the database, and what is worth knowing. Reads all of it."""
        return await self._ask(lambda session: check_database(session.connection))
