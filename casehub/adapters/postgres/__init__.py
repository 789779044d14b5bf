"""A store in a PostgreSQL database: durable, as far as the server is; of one hub or several, which may be anywhere.

Writing is `writer` (a session, groups), asking is `log`, who there is is `hubs`, whose a case is is `claims`, what is in the
database is `schema`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import psycopg

from casehub.adapters.inventory import Inventory, take
from casehub.adapters.migrations import Finding
from casehub.adapters.postgres.backup import dump
from casehub.adapters.postgres.claims import Claimant, claim_case, lead_as, orphans_of, release_case
from casehub.adapters.postgres.connection import LOST, Connection, Place
from casehub.adapters.postgres.hubs import Membership, drain_hub, hubs_of
from casehub.adapters.postgres.inbox import answer_post, answers_to, post_input, posted_to
from casehub.adapters.postgres.log import PostgresReader, Session
from casehub.adapters.postgres.schema import MIGRATIONS, check_database, schema_sql, schema_version, tables
from casehub.adapters.postgres.writer import PostgresDatabase
from casehub.adapters.readers import Readers
from casehub.adapters.sql_store import SqlStore
from casehub.adapters.writer import Writer
from casehub.adapters.written import EVENT_BYTES
from casehub.errors import SchemaError, StoreError, StoreOwnedError, StoreUnavailableError
from casehub.events import CaseId, Event
from casehub.inputs import Input
from casehub.sharing import Elsewhere, Member, News, Posted
from casehub.spi import Claim, DueTimer, Turn
from casehub.values import Plain

T = TypeVar("T")


class PostgresStore(SqlStore[Session]):
    """Implements `CaseStore`, `SharedStore` and `EventLog`.

    `url`: `postgresql://user:password@host:5432/database`, with what libpq takes behind a `?`, and `schema` (by default
    `casehub`), in which the tables lie, and `lease` (of a hub, in seconds; 15 by default). `read_only`: beside hubs or
    without one, is none itself, makes nothing, and cannot commit. `event_bytes`: the largest body of an event; a turn with
    a larger one is `TooLarge`.
    """

    def __init__(self, url: str, *, read_only: bool = False, event_bytes: int = EVENT_BYTES) -> None:
        self.place = Place.of(url)
        super().__init__(str(self.place), read_only=read_only)
        self._event_bytes = event_bytes
        self._database: PostgresDatabase | None = None
        self._member: Membership | None = None
        self._claims: Readers[Connection] | None = None

    @property
    def latest(self) -> int:
        return MIGRATIONS[-1].version

    def describe(self) -> str:
        if self.read_only:
            return f"PostgreSQL, {self.place}, read-only"
        return f"PostgreSQL, {self.place}: survives a killed process, and what the server survives; several hubs may work it"

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
                self._member = Membership(self.place, f"process {os.getpid()} on {socket.gethostname()}")
                self._claims = Readers("casehub-postgres-claims", lambda: Claimant(self.place), threads=1)
                self._database = PostgresDatabase(self.place, self._member)
                self._writer = Writer("casehub-postgres-writer", self._database, published, self._event_bytes)
                await self._writer.started()
                self._member.start()
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

    async def close(self) -> None:
        claims, member = self._claims, self._member
        self._claims = self._member = None
        try:
            await super().close()
        finally:
            try:
                if claims is not None:
                    await claims.close()
            finally:
                if member is not None:
                    await member.close()

    # ---- with other hubs

    @property
    def hub(self) -> str:
        return "" if self._member is None else self._member.boot

    @property
    def lease(self) -> float:
        return self.place.lease

    @property
    def held(self) -> bool:
        return self._member is not None and self._member.held

    @property
    def fenced(self) -> bool:
        return self._member is not None and self._member.fenced

    def listen(self, heard: Callable[[News], None]) -> None:
        self._joined.heard = heard

    async def rejoin(self) -> None:
        await self._joined.again()

    async def drain(self) -> None:
        hub, self._joined.draining = self.hub, True  # however often the lease is renewed
        await self._claim(lambda connection: drain_hub(connection, hub))

    async def hubs(self) -> Sequence[Member]:
        return await self._ask(lambda session: hubs_of(session.connection))

    async def claim(self, case: CaseId, tenant: str = "default", *, ended: bool = False) -> Claim | Elsewhere:
        hub = self.hub

        def give_back(found: Claim | Elsewhere) -> None:
            if isinstance(found, Claim) and self._claims is not None:
                self._claims.tell(lambda connection: release_case(connection, found, case, tenant))

        return await self._claim(lambda connection: claim_case(connection, hub, case, tenant, ended=ended), give_back)

    async def release(self, case: CaseId, claim: Claim, tenant: str = "default") -> None:
        await self._claim(lambda connection: release_case(connection, claim, case, tenant))

    async def post(self, case: CaseId, input: Input, tenant: str = "default") -> str:
        return await self._claim(lambda connection: post_input(connection, case, input, tenant))

    async def posted(self, tenant: str = "default") -> Sequence[Posted]:
        hub = self.hub
        return await self._ask(lambda session: posted_to(session.connection, hub, tenant))

    async def answer(self, post: str, outcome: Mapping[str, Plain]) -> None:
        await self._claim(lambda connection: answer_post(connection, post, outcome))

    async def answers(self, posts: Sequence[str]) -> Mapping[str, Mapping[str, Plain]]:
        return await self._ask(lambda session: answers_to(session.connection, posts))

    async def lead(self, name: str, tenant: str = "default") -> bool:
        hub = self.hub
        return await self._claim(lambda connection: lead_as(connection, hub, name, tenant))

    async def orphans(self, tenant: str = "default") -> Sequence[CaseId]:
        return await self._ask(lambda session: orphans_of(session.connection, tenant))

    async def _claim(self, act: Callable[[Connection], T], unheard: Callable[[T], object] | None = None) -> T:
        if self._claims is None:
            self._writing()  # says why not
            raise StoreError(f"{self.name}: the store is being closed")
        return await self._claims.ask(act, unheard)

    @property
    def _joined(self) -> Membership:
        if self._member is None:
            self._writing()
            raise StoreError(f"{self.name}: the store is being closed")
        return self._member

    async def due(self, now: datetime, limit: int = 100) -> Sequence[DueTimer]:
        hub = self.hub
        return await self._ask(lambda session: session.due_of(hub, now, limit))

    async def next_due(self, after: datetime | None = None) -> datetime | None:
        hub = self.hub
        return await self._ask(lambda session: session.next_due_of(hub, after))

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
        def checked(session: Session) -> Sequence[Finding]:
            with session.connection.unhurried():
                return check_database(session.connection)

        return await self._ask(checked)

    async def inventory(self) -> Inventory:
        """The size of its tables with their indexes."""
        return await self._ask(
            lambda session: take(session, _sizes(session, self.place), tables(session.connection, self.place))
        )

    async def owner(self) -> str:
        return ", ".join(each.name for each in await self.hubs())

    async def backup(self, to: Path, named: Path, told: Callable[[int, int], object]) -> Sequence[Finding]:
        """By `pg_dump`, which looks after its copy itself."""
        await dump(self.place, to, named)
        return []


def _sizes(session: Session, place: Place) -> dict[str, int]:
    sql = "SELECT coalesce(sum(pg_total_relation_size(format('%%I.%%I', schemaname, tablename)::regclass)), 0) FROM pg_tables WHERE schemaname = ?"
    return {"tables": int(session.connection.execute(sql, (place.schema,)).fetchone()[0])}
