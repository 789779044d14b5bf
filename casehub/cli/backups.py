"""`db backup`: a copy of the database while it is in use, and the note beside the database of the last one.

The note (`casehub.db.backup`) is what `db status` and `doctor` know of backups: those that this command made. What other
tools do they cannot know, so without a note they say nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Protocol, runtime_checkable

from cyclopts import App, Parameter
from pydantic import TypeAdapter, ValidationError

from casehub.adapters.migrations import Finding
from casehub.adapters.whole_file import whole_file
from casehub.cli.options import Common, Session
from casehub.cli.output import progress
from casehub.cli.text import sized
from casehub.errors import FileError, SettingsError
from casehub.lookup import clock_of

backup_app = App(
    name="backup",
    help_epilogue="""Works beside a running 'casehub up' and without one: the copy is the database
of one moment, looked over and on the disk when this ends. Nothing is written
over. Of a file it is a file to be used as it is; of PostgreSQL it is made by
pg_dump, and put back with pg_restore.

Examples:
  casehub db backup backups/monday.db --db casehub.db
  casehub db backup claims.dump --db postgresql://me@localhost/claims""",
)


@dataclass(frozen=True, slots=True)
class Backup:
    """The last backup: where, when, how many bytes, and up to which position of the log."""

    path: str
    at: datetime
    size: int
    position: int

    @property
    def is_there(self) -> bool:
        """Whether the file is there, and as large as it was."""
        try:
            return os.stat(self.path).st_size == self.size
        except OSError:
            return False


_NOTES: Final = TypeAdapter[Backup](Backup)


Told = Callable[[int, int], object]


@runtime_checkable
class BackedUp(Protocol):
    """A store that can be copied while it is in use."""

    async def backup(self, to: Path, named: Path, told: Told) -> Sequence[Finding]: ...


@backup_app.default
async def backup(
    file: Annotated[str, Parameter(name="FILE", help="What the copy is to be called.")],
    /,
    *,
    common: Common | None = None,
) -> None:
    """Copy the database while it is in use, and look the copy over."""
    session = Session(common)
    async with session.reading() as store:
        if not isinstance(store, BackedUp):
            raise SettingsError(
                f"database {session.settings.db!r}: it is not copied from here; give --db a path or a URL"
            )
        named = _named(file)
        position = await store.log.position()
        with whole_file(named) as part:
            with progress(f"copying {session.named}") as told:
                found = [each.text for each in await _copied(store, part, named, told) if each.fault]
            if found:
                raise FileError(
                    f"{named}: the copy is not whole, so it is not kept: {'; '.join(found)}; see 'casehub db check'"
                )
    made = _noted(session.database, named, position)
    printer = session.printer
    if printer.for_people:
        printer.say(
            f"{named}: {sized(made.size)}, the database of now, up to position {position:,} at least; looked over"
        )
    else:
        printer.document(made)


async def _copied(store: BackedUp, part: Path, named: Path, told: Told) -> Sequence[Finding]:
    """Have the store copy itself; who is interrupted does not wait for the end of it."""
    given_up = threading.Event()

    def going_on(done: int, all: int) -> None:
        if given_up.is_set():
            raise FileError(f"{named}: given up")
        told(done, all)

    try:
        return await store.backup(part, named, going_on)
    finally:
        given_up.set()


def _named(file: str) -> Path:
    """The whole path of the file, whose folder has to be there."""
    path = Path(os.path.abspath(file))
    if not path.parent.is_dir():
        raise FileError(f"{path}: there is no folder {path.parent}; make it, or give another name")
    return path


def _noted(database: Path, path: Path, position: int) -> Backup:
    """Leave the note beside the database."""
    made = Backup(str(path), clock_of("system").now(), path.stat().st_size, position)
    with whole_file(_place(database), over=True) as part:
        part.write_bytes(_NOTES.dump_json(made))
    return made


def last_backup(database: Path) -> Backup | None:
    """The last backup that is known of; None where none is."""
    try:
        return _NOTES.validate_json(_place(database).read_bytes())
    except (OSError, ValidationError):
        return None


def _place(database: Path) -> Path:
    return database.with_name(f"{database.name}.backup")
