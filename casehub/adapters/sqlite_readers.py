"""How a SQLite database is read: through a read-only connection, whoever owns it.

A database that no process has open is read without leaving files beside it: SQLite would make a `-wal` and a `-shm`
even for a reader, and the next owner might not be allowed to write these. So as long as there is no `-wal`, the file
is read as if it could not change, and after each answer it is looked at whether it has: then the question is asked
again. While a process owns the database there is a `-wal`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from casehub.adapters.readers import Reader
from casehub.adapters.sqlite_log import Session
from casehub.errors import StoreUnavailableError

ATTEMPTS: Final = 10
"""How often a question is asked again because the file changed under it."""

T = TypeVar("T")


class SQLiteReader(Reader[Session]):
    """One connection, made when it is needed and again when the file has changed under it. `owned`: by this process."""

    def __init__(self, path: Path, *, owned: bool) -> None:
        self._path = path
        self._wal = path.with_name(path.name + "-wal")
        self._owned = owned
        self._session: Session | None = None
        self._seen: tuple[int, ...] | None = None

    def answer(self, question: Callable[[Session], T]) -> T:
        try:
            return self._answer(question)
        except (sqlite3.Error, OSError) as failure:
            self.close()
            raise StoreUnavailableError(
                f"{self._path}: {failure}; see that the file is there and can be read"
            ) from failure

    def _answer(self, question: Callable[[Session], T]) -> T:
        for _ in range(ATTEMPTS):
            session = self._session
            if session is None or self._seen != self._stamp():
                session = self._open()
            try:
                value: T = session.ask(question)
            except sqlite3.DatabaseError:
                if self._seen == self._stamp():
                    raise
            else:
                if self._seen == self._stamp():
                    return value
        raise StoreUnavailableError(
            f"{self._path}: it changed under every one of {ATTEMPTS} attempts to read it; try again"
        )

    def _stamp(self) -> tuple[int, ...] | None:
        """What shows that a file which nobody has open has not changed; None where SQLite itself looks after that."""
        if self._owned or self._wal.exists():
            return None
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _open(self) -> Session:
        self.close()
        self._seen = self._stamp()
        mode = "mode=ro" if self._seen is None else "mode=ro&immutable=1"
        connection = sqlite3.connect(f"{self._path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None)
        session = self._session = Session(connection)
        return session

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.connection.close()
