"""How a PostgreSQL database is written: one session, which owns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from casehub.adapters.group import Known
from casehub.adapters.postgres.connection import LOST, Connection, Ownership, Place
from casehub.adapters.postgres.group import PostgresGroup
from casehub.adapters.postgres.schema import migrate
from casehub.adapters.writer import Database, Moment, Request, Work, decide
from casehub.errors import StoreError, StoreUnavailableError


class PostgresDatabase(Database):
    """The session that writes. `in_doubt`: a commit was sent and not answered, and its session may not have ended yet."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._ownership = Ownership(place)
        self._connection: Connection | None = None
        self._known: Known | None = None
        self.in_doubt = False

    def transact(self, requests: Sequence[Request]) -> None:
        connection, known = self.connect()
        group = PostgresGroup(known, connection=connection)
        group.look_up(requests)
        decide(group, requests)
        self.in_doubt = True
        group.flush()
        self.in_doubt = False
        group.settle()

    def work(self, work: Work) -> Any:
        connection, known = self.connect()
        connection.execute("BEGIN")
        value = work(connection, known)
        connection.execute("COMMIT")
        return value

    def connect(self) -> tuple[Connection, Known]:
        """The session, another one where it has ended. Raises `StoreOwnedError`, `SchemaError`, and psycopg's errors."""
        if self._connection is not None and self._known is not None:
            if not self._connection.ended:
                return self._connection, self._known
            self.disconnect()
        connection = Connection(self._place)
        try:
            self._ownership.lock(connection)
            self.in_doubt = False  # the session before this one has ended, with what it wrote or without
            migrate(connection, self._place)
            self._ownership.claim(connection)
            known = Known(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._known = connection, known
        return connection, known

    def disconnect(self) -> None:
        connection, self._connection, self._known = self._connection, None, None
        if connection is not None:
            connection.close()

    def tend(self, moment: Moment) -> None:
        """The server looks after its disk itself."""

    def at_fault(self, error: Exception) -> bool:
        return isinstance(error, (*LOST, StoreError))

    def explained(self, error: Exception) -> StoreError:
        if isinstance(error, StoreError):
            return error
        said = " ".join(str(error).split())
        if self.at_fault(error):
            return StoreUnavailableError(
                f"{self._place}: {said}; whether the turns were written is unknown: see that the server runs and can be "
                "reached, and load the case before going on"
            )
        return StoreError(f"{self._place}: cannot be written: {type(error).__name__}: {said}; nothing of it was")
