"""`db check` and `db migrate`: what is in the database, and its schema."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Protocol, runtime_checkable

from cyclopts import App, Parameter

from casehub.adapters.migrations import Finding
from casehub.cli.options import Common, Session
from casehub.cli.output import progress
from casehub.cli.text import write
from casehub.errors import SettingsError, StoreError
from casehub.lookup import store_of

check_app = App(
    name="check",
    help_epilogue="""Works beside a running 'casehub up'. Ends with 1 when something is broken.

Example:
  casehub db check --db casehub.db""",
)


@runtime_checkable
class Checked(Protocol):
    """A store that can look itself over."""

    async def check(self) -> Sequence[Finding]: ...


@runtime_checkable
class Migrated(Protocol):
    """A store whose schema has versions."""

    @property
    def latest(self) -> int: ...

    def schema_version(self) -> int: ...

    def schema_sql(self, since: int = 0) -> str: ...


@check_app.default
async def check(*, common: Common | None = None) -> None:
    """Read the whole database and say what is wrong with it."""
    session = Session(common)
    async with session.reading() as store:
        if not isinstance(store, Checked):
            raise SettingsError(
                f"database {session.settings.db!r} is not checked from here: CaseHub checks files of SQLite alone; use the "
                "tools of its server"
            )
        with progress(f"checking {session.named}"):
            found = await store.check()
        events = await store.log.position()
    session.printer.items(
        [{"kind": "fault" if each.fault else "note", "text": each.text} for each in found],
        ("", "finding"),
        lambda item: (item["kind"], item["text"]),
        empty=f"{session.named}: nothing wrong ({events:,} events)",
    )
    faults = sum(each.fault for each in found)
    if faults:
        raise StoreError(f"database {session.named}: {faults} thing(s) are broken; restore a backup, keep this file")


migrate_app = App(
    name="migrate",
    help_epilogue="""'casehub up' does it too, when it starts. The database must not be in use.

Examples:
  casehub db migrate --db casehub.db
  casehub db migrate --sql > migration.sql       # changes nothing""",
)


@migrate_app.default
async def migrate(
    *,
    sql: Annotated[bool, Parameter(help="Print the SQL; change nothing.")] = False,
    common: Common | None = None,
) -> None:
    """Bring the schema of the database to this version; make the database when there is none."""
    session = Session(common)
    store = store_of(session.settings.db)
    if not isinstance(store, Migrated):
        raise SettingsError(f"database {session.settings.db!r}: its schema has no versions; give --db a path or a URL")
    before, latest = store.schema_version(), store.latest
    printer = session.printer
    if sql:
        text = store.schema_sql(before) if before < latest else ""
        if printer.for_people:
            write(sys.stdout, text or f"-- {session.named}: schema version {before}, nothing to do")
        else:
            printer.document({"from": before, "to": latest, "sql": text})
        return
    await store.open(lambda turns: None)
    await store.close()
    if printer.for_people:
        done = "nothing to do" if before == latest else f"brought up from {before}" if before else "made"
        printer.say(f"{session.named}: schema version {latest}, {done}")
    else:
        printer.document({"from": before, "to": latest})
