"""What a run leaves outside of the engine: what its clients asked for and were told, what its workers did.

Both are written by processes that are killed at any moment. What a killed process has handed to the system is kept, so
a line is in the file as soon as it is written; the parent syncs the journal after each kill.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

Verb = Literal["start", "signal", "claim", "complete", "cancel"]
Answer = Literal["asked", "acked", "refused"]


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that a client asks for.

    `by`: its author, who does nothing else with this verb, so that the log names the deed; `subject`: the definition
    that is started, or the task; `facts`: what it brings. `answer`: `asked` until something is known, `acked` when the
    engine has said that it is done, `refused` when it has said that it never will be.
    """

    verb: Verb
    case: str
    by: str
    subject: str = ""
    facts: Any = None
    answer: Answer = "asked"

    @property
    def key(self) -> str:
        return f"{self.verb}:{self.by}"


class Journal:
    """A file with a line for each step of each deed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, deed: Deed, answer: Answer) -> None:
        """One write of one line, on a new one, as the last may have been cut off by a kill."""
        os.write(self._file, ("\n" + json.dumps(asdict(replace(deed, answer=answer)))).encode())

    def sync(self) -> None:
        os.fdatasync(self._file)

    def deeds(self) -> list[Deed]:
        """Each deed with the last that is known of it, in the order they were asked for."""
        found: dict[str, Deed] = {}
        self._read = 0
        self.catch_up(found)
        return list(found.values())

    def catch_up(self, deeds: dict[str, Deed]) -> None:
        """Take in what has been written since this was asked last; what was done once has been done.

        A line that was cut off says nothing: what it would have asked for was not asked, what it would have said is not
        known.
        """
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file.read().splitlines():
                try:
                    deed = Deed(**json.loads(line))
                except ValueError:
                    continue
                if deed.key not in deeds or deeds[deed.key].answer != "acked":
                    deeds[deed.key] = deed
            self._read = file.tell()


@dataclass(frozen=True, slots=True)
class Effect:
    """A worker was called: with which idempotency key, for which attempt, in which process."""

    key: str
    attempt: int
    pid: int


_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS effects (no INTEGER PRIMARY KEY, key TEXT, attempt INTEGER, pid INTEGER);
CREATE TABLE IF NOT EXISTS heard (no INTEGER PRIMARY KEY, seq INTEGER);
"""


class Ledger:
    """Effects, and what a durable subscriber heard, in a SQLite file of their own."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        self._connection.executescript(_SCHEMA)

    @contextmanager
    def unused(self) -> Iterator[None]:
        """Nobody in this process writes to the file meanwhile."""
        with self._lock:
            yield

    def effect(self, key: str, attempt: int) -> None:
        with self._lock:
            self._connection.execute(
                "INSERT INTO effects (key, attempt, pid) VALUES (?, ?, ?)", (key, attempt, os.getpid())
            )

    def heard(self, seq: int) -> None:
        with self._lock:
            self._connection.execute("INSERT INTO heard (seq) VALUES (?)", (seq,))

    def effects(self) -> Sequence[Effect]:
        return [Effect(*row) for row in self._rows("SELECT key, attempt, pid FROM effects ORDER BY no")]

    def hearings(self) -> Sequence[int]:
        return [seq for (seq,) in self._rows("SELECT seq FROM heard ORDER BY no")]

    def close(self) -> None:
        self._connection.close()

    def _rows(self, sql: str) -> list[Any]:
        with self._lock:
            return self._connection.execute(sql).fetchall()
