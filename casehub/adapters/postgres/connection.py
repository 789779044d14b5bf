"""A connection to PostgreSQL, and where it goes.

Statements are those of the other stores, with `?` or `:name` for the values. A connection that is lost is not repaired:
whoever has it closes it and makes another.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.types.numeric import Int8Dumper

from casehub.adapters.group import Rows
from casehub.errors import SettingsError, StoreUnavailableError

SCHEMA: Final = "casehub"
LEASE: Final = 15.0
"""Seconds after which a hub that says nothing is no longer one of the hubs."""
DAY: Final = 86_400
ENDING: Final = 5.0
"""Seconds that the server gets to end a session."""
_STEP: Final = 0.01
SILENCE: Final = 10.0
"""Seconds for the answer to a statement that writes, or looks up what writing needs."""
READING: Final = 60.0
"""Seconds for the answer to a question, which may read much."""
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
_END_SESSION: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = ? AND backend_start = ?"
_SESSION: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"

Session = tuple[int, Any]
"""Process id on the server, and when it began."""


@lru_cache(maxsize=512)
def translated(sql: str) -> bytes:
    """A statement as psycopg takes it."""
    return _HOLDER.sub(lambda found: f"%({found[1]})s" if found[1] else "%s", sql).encode()


@dataclass(frozen=True, slots=True)
class Place:
    """A schema in a database. `url`: as it is connected to; `lease`: of its hubs, in seconds; as text, without the password."""

    url: str
    schema: str
    lease: float = LEASE

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
        lease = options.pop("lease", str(LEASE))
        if not re.fullmatch(r"\d+(\.\d+)?", lease) or not 0 < float(lease) <= DAY:
            raise SettingsError(f"lease={lease}: write a number of seconds, such as {LEASE:g}")
        if not parts.path.strip("/"):
            raise SettingsError("a PostgreSQL URL names its database: postgresql://user@host:5432/database")
        query = urlencode({**_PATIENCE, **options})
        return cls(urlunsplit(("postgresql", parts.netloc, parts.path, query, "")), schema, float(lease))

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        suffix = "" if self.schema == SCHEMA else f"?schema={self.schema}"
        return f"postgresql://{host}{parts.path}{suffix}"


class _Session(psycopg.Connection[Any]):
    """Psycopg's, which by itself waits for ever for a server that is there and does not answer."""

    silence: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        limit = self.silence if timeout is None else timeout
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError as error:
            if timeout is not None or type(error).__name__ != "_WaitTimeout":
                raise  # who gives a time of their own knows what it means
            raise psycopg.OperationalError(f"the server has not answered for {limit:g} s") from error


class Connection:
    """A session on the server, in autocommit mode: transactions are begun by name.

    `silence`: seconds for the answer to one statement, after which the server counts as away.
    """

    def __init__(self, place: Place, *, read_only: bool = False, silence: float = SILENCE) -> None:
        """Raises psycopg's `OperationalError`."""
        self.raw = _Session.connect(place.url, autocommit=True)
        self.raw.silence = silence
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

    @property
    def session(self) -> Session:
        """What this session is called on the server, over a process id that is used again."""
        found: Session = self.execute(_SESSION).fetchone()
        return found

    def end(self, session: Session) -> None:
        """End another session of this user's, and wait until nothing of it is written any more.

        Raises `StoreUnavailableError` where it goes on.
        """
        end = time.monotonic() + ENDING
        while self.execute(_END_SESSION, session).fetchone() is not None:
            if time.monotonic() > end:
                raise StoreUnavailableError("this process's own session on the server has not ended yet; try again")
            time.sleep(_STEP)

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """For statements that may take as long as they need."""
        silence, self.raw.silence = self.raw.silence, None
        try:
            yield
        finally:
            self.raw.silence = silence

    def close(self) -> None:
        self.raw.close()
