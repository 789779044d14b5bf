"""The options that commands share, and what they come to: settings and a printer."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import structlog
from cyclopts import Group, Parameter

from casehub.cli.output import Form, Printer
from casehub.cli.place import beside, called, is_kept, is_server
from casehub.cli.worked import Worked, noted
from casehub.errors import SettingsError, StoreUnavailableError
from casehub.lookup import store_of
from casehub.moment import read_moment
from casehub.settings import Loaded, Settings, load
from casehub.spi import CaseStore

COMMON = Group("Common options", sort_key=100)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of every command."""

    db: Annotated[
        str | None,
        Parameter(
            name="--db", group=COMMON, help="The database: a path or a URL. [env: CASEHUB_DB; default: casehub.db]"
        ),
    ] = None
    config: Annotated[
        str | None,
        Parameter(
            name="--config", group=COMMON, help="The settings file. [env: CASEHUB_CONFIG; default: casehub.toml]"
        ),
    ] = None
    output: Annotated[
        Form, Parameter(name=["--output", "-o"], group=COMMON, help="For people, or for programs.", show_default=True)
    ] = "table"
    no_color: Annotated[bool, Parameter(name="--no-color", group=COMMON, help="No colours. [env: NO_COLOR]")] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Loading(Common):
    """Options of the commands that load definitions."""

    allow_code: Annotated[
        list[str] | None,
        Parameter(
            name="--allow-code",
            group=COMMON,
            help="A package whose code definitions in YAML may refer to. [env: CASEHUB_ALLOW_CODE]",
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Working(Loading):
    """Options of the commands that work cases themselves where no `casehub up` does."""

    app: Annotated[
        str | None,
        Parameter(
            name="--app",
            group=COMMON,
            help="What to work with where no 'casehub up' runs: module:attribute, or a path. [env: CASEHUB_APP]",
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Acting(Working):
    """Options of the commands that change something."""

    by: Annotated[
        str | None,
        Parameter(name="--by", help="Who does it, as kind:name. [env: CASEHUB_BY; default: user:you]"),
    ] = None


At = Annotated[
    str | None, Parameter(name="--at", help="As it was at a position (seq), at a time, or so long ago: 1200, 2h.")
]
"""The option of commands that look at a case as it was."""


class Session:
    """What one call of a command works with."""

    def __init__(self, common: Common | None, **flags: str | None) -> None:
        self.common = common or Common()
        given: dict[str, str | None] = {"db": self.common.db, **flags}
        if isinstance(self.common, Loading) and self.common.allow_code:
            given["allow_code"] = ",".join(self.common.allow_code)
        if isinstance(self.common, Working):
            given["app"] = self.common.app
        if isinstance(self.common, Acting):
            given["by"] = self.common.by
        log_to_stderr("warning")
        self.loaded: Loaded = load(given, self.common.config)
        self.printer = Printer(self.common.output, colour=not self.common.no_color)

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def database(self) -> Path:
        """The file, or what stands for one. Raises `SettingsError` for a store that is not kept."""
        return beside(self.settings.db)

    @property
    def named(self) -> str:
        """The database in words."""
        return called(self.settings.db)

    @property
    def worked(self) -> Worked:
        """What this process works cases with: the settings, else what the database was last worked with, if that holds."""
        settings = self.settings
        if not settings.app and is_kept(settings.db):
            note, holds = noted(self.database)
            if note is not None and holds:
                return Worked(note.app, settings.loop or note.loop, self.allow_code or note.allow_code)
        return Worked(settings.app, settings.loop, self.allow_code)

    def needs_app(self, why: str) -> SettingsError:
        """The error of a command that cannot do without APP, and is not told it."""
        note = noted(self.database)[0] if is_kept(self.settings.db) else None
        if note is None:
            return SettingsError(f"{why}; start one with 'casehub up APP', or give --app module:attribute")
        return SettingsError(
            f"{why}, only that it was {note.app} in the folder {note.folder} the last time; "
            f"go there, start 'casehub up {note.app}' there, or give --app {note.app}"
        )

    @property
    def allow_code(self) -> tuple[str, ...]:
        """The packages whose code definitions in files may refer to."""
        return tuple(filter(None, (each.strip() for each in self.settings.allow_code.split(","))))

    @property
    def by(self) -> str:
        """Who acts. Raises `SettingsError` for what is no `kind:name`."""
        by = self.settings.by
        if not by:
            return _login()
        kind, _, name = by.partition(":")
        if not kind or not by.isprintable() or " " in by or (":" in by and not name):
            raise SettingsError(f"--by {by!r} names nobody; write kind:name, such as user:ada")
        return by

    def moment(self, at: str | None) -> int | datetime | None:
        """The moment that `--at` names. Raises `SettingsError` for one that is none."""
        return None if at is None else read_moment(at, datetime.now(UTC))

    def hint(self, command: str) -> str:
        """A command as it has to be typed to reach the same database."""
        options = (("--db", self.common.db), ("--config", self.common.config))
        given = [word for name, value in options if value for word in (name, shlex.quote(str(value)))]
        return " ".join([program(), command, *given])

    def check_file(self) -> None:
        """Raise what is wrong with the database where it is a file: `StoreUnavailableError`, `PermissionError`."""
        path = self.database
        if is_server(self.settings.db):
            pass  # it says itself what is wrong
        elif not path.exists():
            raise StoreUnavailableError(
                f"database {path}: there is none; give its path with --db, or make it with 'casehub up APP'"
            )
        elif not path.is_file():
            raise StoreUnavailableError(f"database {path}: it is no file; give the path of one with --db")
        elif not os.access(path, os.R_OK):  # to open and close the file would take SQLite's locks from this process
            raise PermissionError(f"database {path}: this user may not read it; act as the one who runs 'casehub up'")

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[CaseStore]:
        """The database, read-only, whoever owns it. Raises `StoreUnavailableError` when there is none."""
        self.check_file()
        store = store_of(self.settings.db, read_only=True)
        await store.open(lambda turns: None)
        try:
            yield store
        finally:
            await store.close()


def log_to_stderr(level: str, form: str = "auto") -> None:
    """Send CaseHub's log to the error stream, from a level up; `form`: `console`, `json`, or what fits its end."""
    terminal = sys.stderr.isatty()
    as_json = form == "json" or (form == "auto" and not terminal)
    ends: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=terminal)]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *ends,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _login() -> str:
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # an id without a name
        return "user"


def program() -> str:
    """This program as it can be typed here: its name, or its path where that is not on the search path."""
    path = Path(sys.argv[0])
    if path.name != "casehub" or shutil.which("casehub"):
        return "casehub"
    return shlex.quote(os.path.relpath(path))
