"""A store in one SQLite file: durable, on one machine, owned by one process.

Writing is `sqlite_writer` (one thread, groups), asking is `sqlite_readers` and `sqlite_log` (a few threads, queries),
what is in the file is `sqlite_schema`. Beside `<path>` lie SQLite's `-wal` and `-shm` while it is open, and
`<path>.lock`, which shows who owns it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from casehub.adapters.inventory import Inventory, take
from casehub.adapters.migrations import Finding
from casehub.adapters.readers import Readers
from casehub.adapters.sql_store import SqlStore
from casehub.adapters.sqlite_backup import Told, copy_database
from casehub.adapters.sqlite_log import Session
from casehub.adapters.sqlite_readers import SQLiteReader
from casehub.adapters.sqlite_schema import MIGRATIONS, check_database, schema_sql, schema_version
from casehub.adapters.sqlite_writer import SQLiteDatabase, Synchronous
from casehub.adapters.writer import Writer
from casehub.adapters.written import EVENT_BYTES
from casehub.errors import SchemaError, SettingsError, StoreOwnedError, StoreUnavailableError
from casehub.spi import Turn

_locks: set[int] = set()
"""Descriptors of the lock files held; a forked child closes its copies, so that it cannot own what its parent owned."""


def _let_go() -> None:
    for descriptor in _locks:
        os.close(descriptor)
    _locks.clear()


os.register_at_fork(after_in_child=_let_go)


class Ownership:
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


class SQLiteStore(SqlStore[Session]):
    """Implements `CaseStore` and `EventLog`.

    `synchronous`: `FULL` survives power loss, `NORMAL` may lose the last turns to it, and neither loses anything to a
    killed process. `read_only`: beside an owner or without one, takes no lock, makes no file, and cannot commit.
    `event_bytes`: the largest body of an event; a turn with a larger one is `TooLarge`.
    """

    sorts_kinds = True

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
        super().__init__(str(self.path), read_only=read_only)
        self._synchronous: Synchronous = synchronous
        self._event_bytes = event_bytes
        self._owner: Ownership | None = None

    @property
    def latest(self) -> int:
        return MIGRATIONS[-1].version

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
                self._owner = Ownership(path)
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
        owner, self._owner = self._owner, None
        try:
            await super().close()
        finally:
            if owner is not None:
                owner.release()

    def schema_version(self) -> int:
        if not self.path.exists():
            return 0
        with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return schema_version(connection, str(self.path))

    def schema_sql(self, since: int = 0) -> str:
        return schema_sql(since)

    async def _verify(self) -> None:
        version = await self._ask(lambda session: schema_version(session.connection, str(self.path)))
        if version < MIGRATIONS[-1].version:
            raise SchemaError(
                f"{self.path}: its schema is version {version}, and this CaseHub works with {MIGRATIONS[-1].version}; "
                "open it with a hub, which brings it up to date"
            )

    async def check(self) -> Sequence[Finding]:
        """What is wrong with the database, and what is worth knowing. Reads all of it."""
        return await self._ask(lambda session: check_database(session.connection))

    async def inventory(self) -> Inventory:
        """Sizes of the file, and of what its write-ahead log holds besides."""
        return await self._ask(lambda session: take(session, _sizes(self.path), _tables(session.connection)))

    async def owner(self) -> str:
        return owner_of(self.path)

    async def backup(self, to: Path, named: Path, told: Told) -> Sequence[Finding]:
        await self._ask(lambda session: copy_database(session.connection, to, told))
        copy = SQLiteStore(to, read_only=True)
        await copy.open(lambda turns: None)
        try:
            return await copy.check()
        finally:
            await copy.close()


def owner_of(path: Path) -> str:
    """Who owns a database, by its lock file; empty where that process is gone."""
    try:
        pid = int(path.resolve().with_name(f"{path.resolve().name}.lock").read_text())
        os.kill(pid, 0)
    except PermissionError:  # it is there, and another user's
        return "a process of another user"
    except (OSError, ValueError, OverflowError):
        return ""
    return f"process {pid}"


def _sizes(path: Path) -> dict[str, int]:
    found = {"file": path, "write-ahead log": path.with_name(f"{path.name}-wal")}
    return {name: each.stat().st_size for name, each in found.items() if each.exists()}


def _tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
