"""How a SQLite database is written: one connection, which alone moves the write-ahead log (WAL) into the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, Literal

from casehub.adapters.group import Known
from casehub.adapters.sqlite_group import SQLiteGroup
from casehub.adapters.sqlite_schema import migrate, schema_version
from casehub.adapters.writer import Database, Moment, Request, Work, decide
from casehub.errors import StoreError, StoreUnavailableError

IDLE: Final = 0.1
"""Seconds without a request after which what is in the WAL moves into the database."""
WAL_PAGES: Final = 16_000
"""Estimated pages (4 KiB) in the WAL after which they move under load too."""
WAL_PAGES_MOST: Final = 32_000
"""Pages in the WAL after which readers are waited for, `BUSY` seconds at most, so that it can begin anew."""
BUSY: Final = 1.0
"""Seconds to wait for whoever else has locked the database."""

Synchronous = Literal["FULL", "NORMAL"]


class SQLiteDatabase(Database):
    """The connection that writes a file.

    `pages`: how many the WAL may have that are not in the database yet, estimated.
    """

    def __init__(self, path: str, synchronous: Synchronous) -> None:
        self._path = path
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._known: Known | None = None
        self.pages = 0
        self._pages_allowed = WAL_PAGES

    def transact(self, requests: Sequence[Request]) -> None:
        connection, known = self.connect()
        group = SQLiteGroup(known, connection=connection)
        connection.execute("BEGIN IMMEDIATE")
        decide(group, requests)
        group.flush()
        connection.execute("COMMIT")
        group.settle()
        self.pages += 6 + len(group.events) + group.size // 4096

    def work(self, work: Work) -> Any:
        connection, known = self.connect()
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        value = work(connection, known)
        connection.execute("COMMIT")
        self.pages += 6 + (connection.total_changes - before) // 4
        return value

    def connect(self) -> tuple[sqlite3.Connection, Known]:
        """Raises `SchemaError` and sqlite3's errors."""
        if self._connection is not None and self._known is not None:
            return self._connection, self._known
        connection = self._connection = sqlite3.connect(self._path, timeout=BUSY, isolation_level=None)
        schema_version(connection, self._path)  # before anything is changed in what may be somebody else's
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA cache_size = -4096")  # 4 MiB
        migrate(connection, self._path)
        known = self._known = Known(connection)
        return connection, known

    def disconnect(self) -> None:
        connection, self._connection, self._known = self._connection, None, None
        if connection is not None:
            connection.close()  # rolls back what is open

    @property
    def patience(self) -> float | None:  # type: ignore[override]  # nobody sets it
        return IDLE if self.pages else None

    def tend(self, moment: Moment) -> None:
        """Move the WAL into the database; under load only to keep it from growing without end."""
        if moment == "end":
            self.checkpoint("TRUNCATE")
        elif moment == "idle":
            self.checkpoint("PASSIVE")
        elif self.pages >= self._pages_allowed:
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

    def at_fault(self, error: Exception) -> bool:
        return isinstance(error, (sqlite3.OperationalError, OSError)) or type(error) is sqlite3.DatabaseError

    def explained(self, error: Exception) -> StoreError:
        if self.at_fault(error):
            return StoreUnavailableError(
                f"{self._path}: {error}; whether the turns were written is unknown: see that the disk works and has room, "
                "and load the case before going on"
            )
        return StoreError(f"{self._path}: cannot be written: {type(error).__name__}: {error}; nothing of it was")
