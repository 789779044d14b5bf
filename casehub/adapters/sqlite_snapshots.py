"""Snapshots in a SQLite file: that of the log, or one of their own.

In the file of a log that is open they are written by a connection of their own which never moves the write-ahead log:
its writer alone does. It does not wait for the disk either: a commit of the log that follows takes them along, and
those that power loss takes away are folded again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from casehub.adapters.readers import Reader
from casehub.adapters.sql_snapshots import SnapshotTable, SqlSnapshots
from casehub.adapters.sqlite import Ownership
from casehub.adapters.sqlite_schema import MIGRATIONS, migrate, schema_version
from casehub.adapters.sqlite_writer import BUSY
from casehub.errors import SchemaError, SettingsError, StoreError, StoreOwnedError, StoreUnavailableError

T = TypeVar("T")


class SQLiteSnapshots(SqlSnapshots):
    """Implements `SnapshotStore`. Without a log in the file this process owns it; else it goes along with the log's owner."""

    threads = 1  # of several that write, all but one wait

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.name in ("", ":memory:"):
            raise SettingsError(f"{os.fspath(path)!r} names no file; give the path of one, or use MemorySnapshots")
        super().__init__(str(self.path))
        self._owner: Ownership | None = None

    def describe(self) -> str:
        return f"snapshots in SQLite, {self.path}"

    def prepare(self) -> None:
        path = self.path.resolve()
        try:
            self._owner = Ownership(path)
        except StoreOwnedError:
            self._owner = None  # its log is open, here or in another process
        try:
            with closing(sqlite3.connect(path, timeout=BUSY, isolation_level=None)) as connection:
                version = schema_version(connection, str(path))
                if version == 0:
                    connection.execute("PRAGMA journal_mode = WAL")
                    migrate(connection, str(path))
                elif version < MIGRATIONS[-1].version:
                    raise SchemaError(
                        f"{path}: its schema is version {version}, and snapshots need {MIGRATIONS[-1].version}; bring "
                        "it up to date with 'casehub db migrate'"
                    )
        except BaseException as error:
            self._let_go()
            if isinstance(error, sqlite3.Error):
                raise StoreUnavailableError(f"{path}: {error}; see that the file can be written") from error
            raise

    def reader(self) -> Reader[SnapshotTable]:
        return _Reader(self.path.resolve(), alone=self._owner is not None)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.release()


class _Reader(Reader[SnapshotTable]):
    """One connection, made when it is needed and again after an error."""

    def __init__(self, path: Path, *, alone: bool) -> None:
        self._path = path
        self._alone = alone
        self._connection: sqlite3.Connection | None = None

    def answer(self, question: Callable[[SnapshotTable], T]) -> T:
        try:
            if self._connection is None:
                self._connection = _connect(self._path, alone=self._alone)
            return question(SnapshotTable(self._connection, begin="BEGIN IMMEDIATE"))
        except (sqlite3.OperationalError, OSError) as error:
            self.close()
            raise StoreUnavailableError(f"{self._path}: {error}; see that the disk works and has room") from error
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self._path}: {type(error).__name__}: {error}; restore a backup") from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _connect(path: Path, *, alone: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None)
    connection.execute("PRAGMA synchronous = NORMAL")
    if not alone:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection
