"""Snapshots in a database that speaks SQL: the table `snapshots` of the store's schema, whatever the database is.

Each verb is one statement, so that nothing has to be locked: an insert that finds a row does nothing, an update names
the version and the parent that it replaces. Several saves are one transaction. They are made in a thread of their own, not in the one that writes turns: a
snapshot holds up no commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeVar

from anyio import to_thread
from pydantic_core import from_json, to_json

from casehub.adapters.group import Connection, Rows
from casehub.adapters.readers import THREADS, Reader, Readers
from casehub.adapters.written import from_micros, to_micros
from casehub.errors import SnapshotConflictError, SnapshotError, StoreError
from casehub.events import CaseId
from casehub.lifecycle import CaseStatus
from casehub.snapshot import Snapshot, Written, check_parent

_COLUMNS: Final = (
    "tenant, case_id, parent, definition, status, version, position, content_type, payload, created_at, updated_at, "
    "metadata"
)
_CREATE: Final = (
    "INSERT INTO {schema}snapshots ({columns}) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING RETURNING version, created_at"
)
_REPLACE: Final = (
    "UPDATE {schema}snapshots SET definition = ?, status = ?, version = version + 1, position = ?, content_type = ?, "
    "payload = ?, updated_at = ?, metadata = ? WHERE tenant = ? AND case_id = ? AND version = ? AND parent = ? "
    "RETURNING version, created_at"
)
_LATEST: Final = "SELECT {columns} FROM {schema}snapshots WHERE tenant = ? AND case_id = ?"
_CHILDREN: Final = (
    "SELECT {columns} FROM {schema}snapshots WHERE tenant = ? AND parent = ? AND parent <> '' ORDER BY case_id"
)
_DELETE: Final = "DELETE FROM {schema}snapshots WHERE tenant = ? AND case_id = ?"

T = TypeVar("T")


class SnapshotTable:
    """The table through one connection, in autocommit mode.

    `schema`: where it lies, with its dot; empty where that is plain. `begin`: what begins a transaction that writes.
    """

    def __init__(self, connection: Connection, schema: str = "", begin: str = "BEGIN") -> None:
        self.connection = connection
        self._schema = schema
        self._begin = begin

    def save(self, snapshot: Snapshot, expected: int | None) -> Snapshot:
        at, parent = to_micros(snapshot.updated_at), snapshot.parent or ""
        shown = (snapshot.definition, str(snapshot.status))
        kept = (snapshot.position, snapshot.content_type, snapshot.payload)
        metadata = to_json(dict(snapshot.metadata)).decode()
        if expected is None:
            written = self._ask(_CREATE, snapshot.tenant, snapshot.id, parent, *shown, *kept, at, at, metadata)
        else:
            where = (snapshot.tenant, snapshot.id, expected, parent)
            written = self._ask(_REPLACE, *shown, *kept, at, metadata, *where)
        if written:
            ((version, created_at),) = written
            return replace(snapshot, version=version, created_at=from_micros(created_at))
        last = self.latest(snapshot.id, snapshot.tenant)
        found = None if last is None else last.version
        if last is not None and found == expected:
            check_parent(snapshot, last.parent)
        raise SnapshotConflictError(snapshot.id, expected, found)

    def save_all(self, given: Sequence[tuple[Snapshot, int | None]]) -> Sequence[Written]:
        """In one transaction; none of them fails another."""
        self.connection.execute(self._begin)
        try:
            written = [self._tried(snapshot, expected) for snapshot, expected in given]
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")
        return written

    def _tried(self, snapshot: Snapshot, expected: int | None) -> Written:
        try:
            return self.save(snapshot, expected)
        except SnapshotError as error:
            return error

    def latest(self, case: CaseId, tenant: str) -> Snapshot | None:
        rows = self._ask(_LATEST, tenant, case)
        return _read(rows[0]) if rows else None

    def children(self, parent: CaseId, tenant: str) -> Sequence[Snapshot]:
        return [_read(row) for row in self._ask(_CHILDREN, tenant, parent)]

    def delete(self, case: CaseId, tenant: str) -> None:
        self._execute(_DELETE, tenant, case)

    def _ask(self, sql: str, *values: Any) -> list[Any]:
        return self._execute(sql, *values).fetchall()

    def _execute(self, sql: str, *values: Any) -> Rows:
        return self.connection.execute(sql.format(schema=self._schema, columns=_COLUMNS), values)


def _read(row: Any) -> Snapshot:
    """The snapshot of a row. Raises `SnapshotError` for one that none was written as."""
    tenant, case, parent, definition, status, version, position, kind, payload, created_at, updated_at, metadata = row
    try:
        return Snapshot(
            id=CaseId(case),
            tenant=tenant,
            parent=CaseId(parent) if parent else None,
            definition=definition,
            status=CaseStatus(status),
            version=version,
            position=position,
            content_type=kind,
            payload=bytes(payload),
            created_at=from_micros(created_at),
            updated_at=from_micros(updated_at),
            metadata=from_json(metadata),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise SnapshotError(f"snapshot of case {case!r}: its row is damaged: {error}") from error


class SqlSnapshots(ABC):
    """Implements `SnapshotStore` and `SavesTogether` over the table, asked in `threads` of its own. `name`: the database in errors."""

    threads: ClassVar[int] = THREADS

    def __init__(self, name: str) -> None:
        self.name = name
        self._readers: Readers[SnapshotTable] | None = None

    @abstractmethod
    def reader(self) -> Reader[SnapshotTable]:
        """What asks the table in one thread."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the table where there is no database yet, in a thread. Raises what `open` does."""

    async def open(self) -> None:
        if self._readers is not None:
            raise StoreError(f"snapshots in {self.name} are open already; close the hub that uses them")
        try:
            await to_thread.run_sync(self.prepare)  # comes to its end, whoever is cancelled
        except BaseException:
            await self.close()
            raise
        self._readers = Readers("casehub-snapshots", self.reader, self.threads)

    async def close(self) -> None:
        readers, self._readers = self._readers, None
        if readers is not None:
            await readers.close()

    async def save(self, snapshot: Snapshot, expected: int | None = None) -> Snapshot:
        return await self._ask(lambda table: table.save(snapshot, expected))

    async def save_all(self, given: Sequence[tuple[Snapshot, int | None]]) -> Sequence[Written]:
        return await self._ask(lambda table: table.save_all(given))

    async def latest(self, case: CaseId, tenant: str = "default") -> Snapshot | None:
        return await self._ask(lambda table: table.latest(case, tenant))

    async def children(self, parent: CaseId, tenant: str = "default") -> Sequence[Snapshot]:
        return await self._ask(lambda table: table.children(parent, tenant))

    async def delete(self, case: CaseId, tenant: str = "default") -> None:
        await self._ask(lambda table: table.delete(case, tenant))

    async def _ask(self, question: Callable[[SnapshotTable], T]) -> T:
        if self._readers is None:
            raise StoreError(f"snapshots in {self.name} are not open; use them through a hub, or call open() first")
        return await self._readers.ask(question)
