"""A store in a PostgreSQL database: durable, as far as the server is; owned by one process, which may be anywhere.

Writing is `writer` (one session that owns the database, groups), asking is `log`, what is in the database is `schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

from casehub.adapters.inventory import Inventory, take
from casehub.adapters.migrations import Finding
from casehub.adapters.postgres.backup import dump
from casehub.adapters.postgres.connection import LOST, Connection, Place, owner_of
from casehub.adapters.postgres.log import PostgresReader, Session
from casehub.adapters.postgres.schema import MIGRATIONS, check_database, schema_sql, schema_version, tables
from casehub.adapters.postgres.writer import PostgresDatabase
from casehub.adapters.readers import Readers
from casehub.adapters.sql_store import SqlStore
from casehub.adapters.writer import Writer
from casehub.adapters.written import EVENT_BYTES
from casehub.errors import SchemaError, StoreError, StoreOwnedError, StoreUnavailableError
from casehub.events import CaseId, Event
from casehub.spi import Turn


class PostgresStore(SqlStore[Session]):
    """Implements `CaseStore` and `EventLog`.

    `url`: `postgresql://user:password@host:5432/database`, with what libpq takes behind a `?`, and `schema` (by default
    `casehub`), in which the tables lie. `read_only`: beside an owner or without one, takes no lock, makes nothing, and
    cannot commit. `event_bytes`: the largest body of an event; a turn with a larger one is `TooLarge`.
    """

    def __init__(self, url: str, *, read_only: bool = False, event_bytes: int = EVENT_BYTES) -> None:
        self.place = Place.of(url)
        super().__init__(str(self.place), read_only=read_only)
        self._event_bytes = event_bytes
        self._database: PostgresDatabase | None = None

    @property
    def latest(self) -> int:
        return MIGRATIONS[-1].version

    def describe(self) -> str:
        if self.read_only:
            return f"PostgreSQL, {self.place}, read-only"
        return f"PostgreSQL, {self.place}: survives a killed process, and what the server survives; one process owns it"

    async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
        """Makes the schema and brings it up to date, unless it is `read_only`.

        Raises `StoreOwnedError`, `SchemaError`, or `StoreUnavailableError`; nothing is left open then, nor after a
        cancellation.
        """
        if self._readers is not None:
            raise StoreOwnedError(f"{self.place} is open already in this process; close the hub that uses it")
        self._readers = Readers("casehub-postgres-reader", lambda: PostgresReader(self.place))
        try:
            if self.read_only:
                await self._verify()
            else:
                self._database = PostgresDatabase(self.place)
                self._writer = Writer("casehub-postgres-writer", self._database, published, self._event_bytes)
                await self._writer.started()
        except BaseException as error:
            await self.close()
            if isinstance(error, LOST):
                raise self._unreachable(error) from error
            if isinstance(error, psycopg.Error):
                said = " ".join(str(error).split())
                raise StoreError(
                    f"{self.place}: its schema cannot be made or read: {said}; see what this user may do"
                ) from error
            raise

    async def _verify(self) -> None:
        version = await self._ask(lambda session: schema_version(session.connection, self.place))
        if version == 0:
            raise StoreUnavailableError(f"{self.place}: there is none of CaseHub's; make it with 'casehub up APP'")
        if version < self.latest:
            raise SchemaError(
                f"{self.place}: its schema is version {version}, and this CaseHub works with {self.latest}; "
                "open it with a hub, which brings it up to date"
            )

    def _unreachable(self, error: Exception) -> StoreUnavailableError:
        said = " ".join(str(error).split())
        return StoreUnavailableError(f"{self.place}: {said}; see that the server runs and lets this user in")

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        await self._settled()
        return await super().load(case, tenant)

    async def outcome(self, case: CaseId, key: str, tenant: str = "default") -> int | None:
        await self._settled()
        return await super().outcome(case, key, tenant)

    async def _settled(self) -> None:
        """Where the outcome of a commit is unknown: wait until it has one, so that the log tells it."""
        if self._writer is not None and self._database is not None and self._database.in_doubt:
            await self._writer.commit([])

    def schema_version(self) -> int:
        try:
            connection = Connection(self.place, read_only=True)
        except LOST as error:
            raise self._unreachable(error) from error
        try:
            return schema_version(connection, self.place)
        finally:
            connection.close()

    def schema_sql(self, since: int = 0) -> str:
        return schema_sql(self.place.schema, since)

    async def check(self) -> Sequence[Finding]:
        return await self._ask(lambda session: check_database(session.connection))

    async def inventory(self) -> Inventory:
        """The size of its tables with their indexes."""
        return await self._ask(
            lambda session: take(session, _sizes(session, self.place), tables(session.connection, self.place))
        )

    async def owner(self) -> str:
        return await self._ask(lambda session: owner_of(session.connection, self.place))

    async def backup(self, to: Path, named: Path, told: Callable[[int, int], object]) -> Sequence[Finding]:
        """By `pg_dump`, which looks after its copy itself."""
        await dump(self.place, to, named)
        return []


def _sizes(session: Session, place: Place) -> dict[str, int]:
    sql = "SELECT coalesce(sum(pg_total_relation_size(format('%%I.%%I', schemaname, tablename)::regclass)), 0) FROM pg_tables WHERE schemaname = ?"
    return {"tables": int(session.connection.execute(sql, (place.schema,)).fetchone()[0])}
