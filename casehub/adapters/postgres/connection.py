"""A connection to PostgreSQL, and where it goes.

Statements are those of the other stores, with `?` or `:name` for the values. A connection that is lost is not repaired:
whoever has it closes it and makes another.
"""

from __future__ import annotations

import os
import re
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.types.numeric import Int8Dumper

from casehub.adapters.group import Rows
from casehub.errors import SettingsError, StoreOwnedError, StoreUnavailableError

SCHEMA: Final = "casehub"
LOCK_WAIT: Final = 2.0
"""Seconds in which the lock of an owner that was killed becomes free."""
_LOCK_STEP: Final = 0.05
LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction, OSError)
"""What says that the database is the reason, and not what was asked of it."""

# A server that is gone without a word is noticed within some twenty seconds; what the URL says goes first.
_PATIENCE: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "casehub",
}
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_HOLDER: Final = re.compile(r"\?|(?<![:\w]):([a-z]\w*)")
_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended(?, 0))"
_HELD: Final = """SELECT EXISTS (SELECT FROM pg_locks, hashtextextended(?, 0) AS key WHERE locktype = 'advisory' AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (classid::bigint << 32) | objid::bigint = key)"""
_END_SESSION: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = ? AND backend_start = ?"
_SESSION: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"


@lru_cache(maxsize=512)
def translated(sql: str) -> bytes:
    """A statement as psycopg takes it."""
    return _HOLDER.sub(lambda found: f"%({found[1]})s" if found[1] else "%s", sql).encode()


@dataclass(frozen=True, slots=True)
class Place:
    """A schema in a database. `url`: as it is connected to; as text, without the password."""

    url: str
    schema: str

    @classmethod
    def of(cls, url: str) -> Place:
        """Raises `SettingsError` for a URL that names no database, or a schema that is no plain name."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        schema = options.pop("schema", SCHEMA)
        if not _NAME.fullmatch(schema):
            raise SettingsError(
                f"schema {schema!r}: write small letters, digits and underscores, beginning with a letter"
            )
        if not parts.path.strip("/"):
            raise SettingsError("a PostgreSQL URL names its database: postgresql://user@host:5432/database")
        query = urlencode({**_PATIENCE, **options})
        return cls(urlunsplit(("postgresql", parts.netloc, parts.path, query, "")), schema)

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        suffix = "" if self.schema == SCHEMA else f"?schema={self.schema}"
        return f"postgresql://{host}{parts.path}{suffix}"


class Connection:
    """A session on the server, in autocommit mode: transactions are begun by name."""

    def __init__(self, place: Place, *, read_only: bool = False) -> None:
        """Raises psycopg's `OperationalError`."""
        self.raw = psycopg.connect(place.url, autocommit=True)
        try:
            self.raw.adapters.register_dumper(int, Int8Dumper)  # one type for all of them, so one plan
            self.run(f"SET search_path TO {place.schema}")
            if read_only:
                self.run("SET default_transaction_read_only TO on")
        except BaseException:
            self.raw.close()
            raise

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Rows:
        return self.raw.execute(translated(sql), parameters or None)

    def run(self, sql: str) -> None:
        """Statements without values, one or several."""
        self.raw.execute(sql.encode(), prepare=False)

    @property
    def ended(self) -> bool:
        """Whether the server has ended the session, as far as is known here: it has said something unasked."""
        waiting = select.poll()
        waiting.register(self.raw.fileno(), select.POLLIN)
        return bool(waiting.poll(0))

    def close(self) -> None:
        self.raw.close()


class Ownership:
    """The right to write: a lock that the server holds for one session, and takes back when that ends.

    What a session writes and what it holds end together, so nobody writes without the lock. Each new owner has the next
    `epoch`: an owner whose session was lost goes on with another only if nobody has owned the database meanwhile.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._epoch: int | None = None
        self._session: Any = None

    def lock(self, connection: Connection) -> None:
        """Take the lock. Raises `StoreOwnedError` when another process has it, and has not been killed just now."""
        if self._session is not None:  # what is left of this process's own, so that nothing of it is written any more
            connection.execute(_END_SESSION, self._session)
        end = time.monotonic() + LOCK_WAIT
        while not connection.execute(_LOCK, (_lock_name(self._place),)).fetchone()[0]:
            if time.monotonic() > end:
                raise self._refused(connection)
            time.sleep(_LOCK_STEP)
        self._session = connection.execute(_SESSION).fetchone()

    def claim(self, connection: Connection) -> None:
        """With the lock, and the schema there: become its owner, or go on as such. Raises `StoreOwnedError`."""
        epoch, owner = connection.execute("SELECT epoch, owner FROM ownership").fetchone()
        if self._epoch is not None and epoch != self._epoch:
            raise StoreOwnedError(
                f"{self._place} has been owned by {owner} while this process was cut off from it; start this one again"
            )
        if self._epoch is None:
            self._epoch = epoch + 1
            me = f"process {os.getpid()} on {socket.gethostname()}"
            connection.execute("UPDATE ownership SET epoch = ?, owner = ?, since = now()", (self._epoch, me))

    def _refused(self, connection: Connection) -> StoreOwnedError | StoreUnavailableError:
        try:
            ((epoch, owner),) = connection.execute("SELECT epoch, owner FROM ownership").fetchall()
        except psycopg.errors.UndefinedTable:
            epoch, owner = -1, "a process that is making it"
        if epoch == self._epoch:
            return StoreUnavailableError(
                f"{self._place}: this process's own session on it has not ended yet; try again"
            )
        return StoreOwnedError(
            f"{self._place} is owned by {owner}; stop it, or read the database read-only, or use another schema (?schema=)"
        )


def owner_of(connection: Connection, place: Place) -> str:
    """Who holds the lock, as the database has noted; empty where nobody does."""
    if connection.execute(_HELD, (_lock_name(place),)).fetchone()[0]:
        return str(connection.execute("SELECT owner FROM ownership").fetchone()[0])
    return ""


def _lock_name(place: Place) -> str:
    return f"casehub {place.schema}"
