"""Snapshots in PostgreSQL: in the database of the log, or in one of their own; by a URL, or over an application's pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.rows import tuple_row

from casehub.adapters.group import Rows
from casehub.adapters.postgres.connection import LOST, Connection, Place, translated
from casehub.adapters.postgres.schema import MIGRATIONS, migrate, schema_version
from casehub.adapters.readers import Reader
from casehub.adapters.sql_snapshots import SnapshotTable, SqlSnapshots
from casehub.errors import SchemaError, StoreError, StoreUnavailableError

_LOCK = "SELECT pg_advisory_lock(hashtextextended(?, 0))"

T = TypeVar("T")


class Pool(Protocol):
    """An application's own connections: a `psycopg_pool.ConnectionPool` is one."""

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A connection for one statement, which is committed on the way out. Called in threads."""
        ...


class PostgresSnapshots(SqlSnapshots):
    """Implements `SnapshotStore`. `url`: as that of `PostgresStore`.

    `pool`: connections to take instead, for tables that are there already (`casehub db migrate` makes them), in the
    schema that `url` names with `?schema=`; it stays the application's, and open.
    """

    def __init__(self, url: str, *, pool: Pool | None = None) -> None:
        self.place = Place.of(url)
        super().__init__(str(self.place))
        self._pool = pool

    def describe(self) -> str:
        return f"snapshots in PostgreSQL, {self.place}"

    def prepare(self) -> None:
        if self._pool is not None:
            return
        try:
            connection = Connection(self.place)
        except LOST as error:
            raise _away(self.place, error) from error
        try:
            version = schema_version(connection, self.place)
            if version == 0:
                connection.execute(_LOCK, (f"casehub {self.place.schema} schema",))  # until the connection is closed
                with connection.unhurried():
                    migrate(connection, self.place)
            elif version < MIGRATIONS[-1].version:
                raise SchemaError(
                    f"{self.place}: its schema is version {version}, and snapshots need {MIGRATIONS[-1].version}; bring "
                    "it up to date with 'casehub db migrate'"
                )
        except psycopg.Error as error:
            raise _explained(self.place, error) from error
        finally:
            connection.close()

    def reader(self) -> Reader[SnapshotTable]:
        return _Reader(self.place) if self._pool is None else _Borrower(self.place, self._pool)


class _Reader(Reader[SnapshotTable]):
    """One session on the server, made when it is needed and again when it has ended."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection: Connection | None = None

    def answer(self, question: Callable[[SnapshotTable], T]) -> T:
        """Nothing is asked twice by itself: a save whose answer was lost may have been written."""
        if self._connection is not None and self._connection.ended:
            self.close()
        try:
            if self._connection is None:
                self._connection = Connection(self._place)
                self._connection.run("SET synchronous_commit TO off")  # what a crash takes away is folded again
            return question(SnapshotTable(self._connection))
        except (*LOST, psycopg.Error) as error:
            self.close()
            raise _explained(self._place, error) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Borrower(Reader[SnapshotTable]):
    """A connection of the application's for every question."""

    def __init__(self, place: Place, pool: Pool) -> None:
        self._place = place
        self._pool = pool

    def answer(self, question: Callable[[SnapshotTable], T]) -> T:
        try:
            with self._pool.connection() as connection:
                return question(SnapshotTable(_Borrowed(connection), f"{self._place.schema}.", "SELECT 1"))
        except (*LOST, psycopg.Error) as error:
            raise _explained(self._place, error) from error

    def close(self) -> None:
        """The connections are the application's."""


class _Borrowed:
    """A connection of psycopg that takes statements with `?`. Its transaction is begun by itself, and ended by its pool."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        return self._connection.cursor(row_factory=tuple_row).execute(translated(sql), parameters or None)


def _explained(place: Place, error: Exception) -> StoreError:
    if isinstance(error, LOST):
        return _away(place, error)
    said = " ".join(str(error).split())
    return StoreError(
        f"snapshots in {place}: {type(error).__name__}: {said}; see that its tables are there ('casehub db migrate') and "
        "what this user may do"
    )


def _away(place: Place, error: Exception) -> StoreUnavailableError:
    said = " ".join(str(error).split())
    return StoreUnavailableError(f"snapshots in {place}: {said}; see that the server runs and can be reached")
