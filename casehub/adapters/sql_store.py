"""A store over a database that speaks SQL: a thread that writes and a few that answer, whatever the database is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from casehub.adapters import sql_retention
from casehub.adapters.inventory import Inventory
from casehub.adapters.migrations import Finding
from casehub.adapters.readers import Readers
from casehub.adapters.sql_log import LogSession
from casehub.adapters.sql_tasks import find_tasks
from casehub.adapters.writer import Writer
from casehub.errors import StoreError
from casehub.events import CaseId, Event
from casehub.query import By, CaseQuery, CaseSummary, EventLog, EventQuery
from casehub.spi import CommitResult, DueTimer, Retired, Turn
from casehub.tasks import Task, TaskQuery

S = TypeVar("S", bound=LogSession)
T = TypeVar("T")


class SqlStore(ABC, Generic[S]):
    """Implements `CaseStore` and `EventLog` with a writer and readers, which `open` of a subclass makes.

    `name`: what the database is called in errors; `sorts_kinds`: it keeps the index by kind itself.
    """

    sorts_kinds: ClassVar[bool] = False

    def __init__(self, name: str, *, read_only: bool) -> None:
        self.name = name
        self.read_only = read_only
        self._writer: Writer | None = None
        self._readers: Readers[S] | None = None

    @property
    def log(self) -> EventLog:
        return self

    @property
    @abstractmethod
    def latest(self) -> int:
        """The version of the schema that this CaseHub works with."""

    @abstractmethod
    def schema_version(self) -> int:
        """The version of the schema that the database has, 0 where it has none. Raises `SchemaError`, `StoreUnavailableError`."""

    @abstractmethod
    def schema_sql(self, since: int = 0) -> str:
        """The SQL that brings a database from a version (0: an empty one) to this one, to read or to run by hand."""

    @abstractmethod
    async def check(self) -> Sequence[Finding]:
        """What is wrong with the database, and what is worth knowing. Reads all of it."""

    @abstractmethod
    async def inventory(self) -> Inventory:
        """What there is in the database, counted."""

    @abstractmethod
    async def owner(self) -> str:
        """Who may write to it, in words; empty where nobody does."""

    @abstractmethod
    async def backup(self, to: Path, named: Path, told: Callable[[int, int], object]) -> Sequence[Finding]:
        """Copy the database of one moment into the file `to`, which is to be called `named`, and look the copy over.

        `told`: called with how much is done, and of how much. Beside an owner or without one. Raises `FileError`.
        """

    async def close(self) -> None:
        """Writes what is queued, ends the threads, lets go of the database."""
        readers, writer = self._readers, self._writer
        self._readers = self._writer = None
        try:
            if readers is not None:
                await readers.close()  # first: of a SQLite file the last connection to close must be the writer's
        finally:
            if writer is not None:
                await writer.close()

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
                raise StoreError(f"{self.name} is open read-only; write through the process that owns it")
            raise StoreError(f"{self.name}: the store is not open; use it through a hub, or call open() first")
        return self._writer

    # ---- asking

    async def _ask(self, question: Callable[[S], T]) -> T:
        if self._readers is None:
            raise StoreError(f"{self.name}: the store is not open; use it through a hub, or call open() first")
        return await self._readers.ask(question)

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        return await self._ask(lambda session: session.load(case, tenant))

    async def outcome(self, case: CaseId, key: str, tenant: str = "default") -> int | None:
        return await self._ask(lambda session: session.outcome(case, key, tenant))

    async def active(self) -> Sequence[tuple[str, CaseId]]:
        return await self._ask(LogSession.active)

    async def due(self, now: datetime, limit: int = 100) -> Sequence[DueTimer]:
        return await self._ask(lambda session: session.due(now, limit))

    async def next_due(self, after: datetime | None = None) -> datetime | None:
        return await self._ask(lambda session: session.next_due(after))

    async def inputs(self, case: CaseId, tenant: str = "default") -> Mapping[str, int]:
        return await self._ask(lambda session: session.inputs(case, tenant))

    # ---- retention

    async def expired(
        self, before: datetime, tenant: str = "default", limit: int = 100
    ) -> Sequence[Sequence[CaseSummary]]:
        return await self._ask(lambda session: sql_retention.expired(session, before, tenant, limit))

    async def weigh(self, cases: Sequence[CaseSummary]) -> tuple[int, int]:
        return await self._ask(lambda session: sql_retention.weigh(session, cases))

    async def retire(self, cases: Sequence[CaseSummary]) -> Sequence[CaseId]:
        return await self._writing().do(partial(sql_retention.retire, cases=cases))

    async def sweep(self, rows: int) -> int:
        return await self._writing().do(partial(sql_retention.sweep, rows=rows, by_kind=self.sorts_kinds))

    async def retired(self, tenant: str = "default", ran_at: datetime | None = None) -> Retired:
        if ran_at is not None:
            await self._writing().do(partial(sql_retention.ran, tenant=tenant, at=ran_at))
        return await self._ask(lambda session: sql_retention.retired(session, tenant))

    # ---- the read side

    async def query(self, query: EventQuery) -> Sequence[Event]:
        return await self._ask(lambda session: session.query(query))

    async def count(self, query: EventQuery, by: By | None = None) -> Mapping[str, int]:
        return await self._ask(lambda session: session.count(query, by))

    async def cases(self, query: CaseQuery) -> Sequence[CaseSummary]:
        return await self._ask(lambda session: session.cases(query))

    async def tasks(self, query: TaskQuery) -> Sequence[Task]:
        return await self._ask(lambda session: find_tasks(session, query))

    async def position(self) -> int:
        return await self._ask(LogSession.position)

    async def tail(self, after: int = 0, tenant: str = "default") -> AsyncGenerator[Sequence[Event], None]:
        ended = False
        while not ended:
            events, after, ended = await self._ask(partial(LogSession.batch, after=after, tenant=tenant))
            if events:
                yield events
