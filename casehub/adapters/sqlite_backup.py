"""A copy of a SQLite database that is in use, by SQLite's online backup.

It is read within one transaction, so the copy is the database of one moment, and who writes meanwhile neither waits nor
has it begin again: that is what SQLite does when each step reads anew. Until it is done, the write-ahead log cannot begin
anew either, so it grows by what is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from casehub.errors import FileError

STEP: Final = 2_000
"""Pages that are copied between two tellings of the progress."""

Told = Callable[[int, int], object]
"""Called with what is done and how much there is, in pages; what it raises ends the copying."""


def copy_database(source: sqlite3.Connection, to: Path, told: Told) -> None:
    """Copy what a connection sees, within its transaction, into a file. Raises `FileError` where that cannot be written."""

    def progress(status: int, left: int, all: int) -> None:
        told(all - left, all)

    source.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from here on it sees one moment
    with closing(sqlite3.connect(to, isolation_level=None)) as target:
        try:
            target.execute("PRAGMA journal_mode = OFF")  # who fails leaves a file that nobody uses
            target.execute("PRAGMA synchronous = OFF")  # it is brought to the disk as a whole
            source.backup(target, pages=STEP, progress=progress)
        except sqlite3.Error as error:
            raise FileError(f"{to}: {error}; see that the disk has room, and that the database is whole") from error
