"""What a database is worked with: of the settings, or as it was last time.

A worker process leaves a note beside the database (`casehub.db.app`), so that commands which come when it does not run
know what to work a case with. The note names code, so it holds only for who wrote it, in the folder it was written in.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

OWN: Final = 0o600


@dataclass(frozen=True, slots=True)
class Worked:
    """What is worked: APP; with which loop controls; and the packages whose code definitions in files may refer to."""

    app: str = ""
    loop: str = ""
    allow_code: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note(Worked):
    """What a database was last worked with, and in which folder."""

    folder: str = ""


_NOTES: Final = TypeAdapter[Note](Note)


def leave_note(database: Path, worked: Worked, *, over: bool) -> None:
    """Note beside a database what it is worked with. `over`: in place of what an earlier note says."""
    path = _path(database)
    note = Note(worked.app, worked.loop, worked.allow_code, os.getcwd())
    try:
        if over:
            path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN)
    except OSError:  # there is one, or the folder takes none: then --app has to be given
        return
    with open(descriptor, "wb") as file:
        file.write(_NOTES.dump_json(note))


def noted(database: Path) -> tuple[Note | None, bool]:
    """The note beside a database, and whether it holds here and for this user."""
    path = _path(database)
    try:
        note = _NOTES.validate_json(path.read_bytes())
        return note, note.folder == os.getcwd() and path.stat().st_uid == os.geteuid()
    except (OSError, ValidationError):
        return None, False


def _path(database: Path) -> Path:
    return database.with_name(f"{database.name}.app")
