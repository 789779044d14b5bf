"""How a PostgreSQL database is written: one session of this hub's, beside those of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import psycopg

from casehub.adapters.group import Known
from casehub.adapters.postgres.connection import LOST, Connection, Place, Session
from casehub.adapters.postgres.group import PostgresGroup
from casehub.adapters.postgres.hubs import Membership
from casehub.adapters.postgres.schema import migrate
from casehub.adapters.writer import Database, Moment, Request, Work, decide
from casehub.adapters.written import Written
from casehub.errors import StoreError, StoreUnavailableError
from casehub.spi import Fenced

_FENCED: Final = ("CH001", "CH002")
"""What `append` and `fence` raise."""


class PostgresDatabase(Database):
    """The session that writes. `in_doubt`: a commit was sent and not answered, and its session may not have ended yet."""

    def __init__(self, place: Place, member: Membership) -> None:
        self._place = place
        self._member = member
        self._connection: Connection | None = None
        self._known: Known | None = None
        self._session: Session | None = None
        self._joined = False
        self.in_doubt = False

    def transact(self, requests: Sequence[Request]) -> None:
        if self._member.fenced:
            refuse(requests)
            return
        connection, known = self.connect()
        try:
            self._transact(PostgresGroup(known, connection=connection, hub=self._member.boot), requests)
        except psycopg.Error as error:
            if error.sqlstate not in _FENCED:
                raise
            self.in_doubt = False
            self._look_closely(requests)

    def _transact(self, group: PostgresGroup, requests: Sequence[Request]) -> None:
        group.look_up(requests)
        decide(group, requests)
        self.in_doubt = True
        group.flush()
        self.in_doubt = False
        if group.shift:
            group.move(requests)
        group.settle()

    def work(self, work: Work) -> Any:
        connection, known = self.connect()
        connection.execute("BEGIN")
        connection.execute("SELECT lock_log()")  # of several hubs one at a time, as they commit
        value = work(connection, known)
        connection.execute("COMMIT")
        return value

    def _look_closely(self, requests: Sequence[Request]) -> None:
        """Something is not as it was known: decide again on what there is, while nobody can change it."""
        self.disconnect()  # what it has prepared in what failed is not there
        connection, known = self.connect()
        group = PostgresGroup(known, connection=connection, hub=self._member.boot)
        if group.begin():
            group.known = self._known = Known(connection)
            self._transact(group, requests)
        else:
            connection.execute("ROLLBACK")
            refuse(requests)

    def connect(self) -> tuple[Connection, Known]:
        """The session, another one where it has ended. Raises `StoreOwnedError`, `SchemaError`, and psycopg's errors."""
        if self._connection is not None and self._known is not None:
            if not self._connection.ended:
                return self._connection, self._known
            self.disconnect()
        connection = Connection(self._place)
        try:
            if (
                self._session is not None
            ):  # what is left of this process's own, so that nothing of it is written any more
                connection.end(self._session)
            self.in_doubt = False  # the session before this one has ended, with what it wrote or without
            self._session = connection.session
            with connection.unhurried():
                migrate(connection, self._place)
            self._join()
            known = Known(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._known = connection, known
        return connection, known

    def _join(self) -> None:
        if self._joined:
            return
        connection = Connection(self._place)
        try:
            self._member.join(connection)
        except BaseException:
            connection.close()
            raise
        self._joined = True

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


def refuse(requests: Sequence[Request]) -> None:
    """The hub is none of the hubs any more: nothing of it is written."""
    for request in requests:
        request.results = [Fenced() if isinstance(turn, Written) else turn for turn in request.turns]
        if request.bookmark is not None:
            request.error = StoreUnavailableError(
                "this hub has been put out by others, as its lease had ended; it joins again by itself: try again"
            )
