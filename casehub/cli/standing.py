"""`db status`: what is in the database, how large it is, who owns it, what it holds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final, Protocol, runtime_checkable

from cyclopts import App, Parameter

from casehub.adapters.inventory import Inventory
from casehub.cli.backups import Backup, last_backup
from casehub.cli.desk import worker_process
from casehub.cli.options import Common, Session
from casehub.cli.output import progress
from casehub.cli.text import shown, sized
from casehub.errors import CaseHubError, SettingsError
from casehub.lookup import clock_of, store_of
from casehub.retention import retention_of

status_app = App(
    name="status",
    help_epilogue="""Works beside a running 'casehub up' and without one; changes nothing.

Examples:
  casehub db status --db casehub.db
  casehub db status --db postgresql://me@localhost/claims -o json""",
)
SHOWN: Final = 12
"""Tables that people are shown, the largest."""


@runtime_checkable
class Counted(Protocol):
    """A store that says what is in it."""

    @property
    def latest(self) -> int: ...

    def schema_version(self) -> int: ...

    async def inventory(self) -> Inventory: ...

    async def owner(self) -> str: ...


@status_app.default
async def status(
    *,
    rows: Annotated[bool, Parameter(help="Every table with its rows.")] = False,
    common: Common | None = None,
) -> None:
    """Say what is in the database: schema, sizes, cases, owner, retention."""
    session = Session(common)
    found = await _found(session)
    printer = session.printer
    if not printer.for_people:
        printer.document(found)
        return
    about = [(name, text) for name, text in _told(found)]
    tables = sorted(found["rows"].items(), key=lambda each: -each[1]) if "rows" in found else []
    about += [(f"rows of {table}", f"{count:,}") for table, count in (tables if rows else ())]
    printer.table(("", ""), about, heading=False)


async def _found(session: Session) -> dict[str, Any]:
    store = store_of(session.settings.db, read_only=True)
    if not isinstance(store, Counted):
        raise SettingsError(f"database {session.settings.db!r}: it says nothing of itself; give --db a path or a URL")
    session.check_file()
    version = store.schema_version()
    found: dict[str, Any] = {"database": session.named, "schema": {"version": version, "works_with": store.latest}}
    backup = last_backup(session.database)
    if backup is not None:
        found["backup"] = {**asdict(backup), "there": backup.is_there}
    if version != store.latest:
        return found
    async with session.reading() as opened:
        assert isinstance(opened, Counted)  # noqa: S101 - another of the same kind
        with progress(f"counting what is in {session.named}"):
            inventory = await opened.inventory()
        found |= _in_figures(inventory)
        found["owner"] = await _owner(session, await opened.owner())
    retention = retention_of(session.settings.retention, session.settings.archive)
    found["retention"] = {
        "setting": "off" if retention is None else str(retention),
        "cases": inventory.retired.cases,
        "events": inventory.retired.events,
        "ran_at": inventory.retired.ran_at,
    }
    return found


def _in_figures(inventory: Inventory) -> dict[str, Any]:
    oldest = inventory.oldest_open
    return {
        "sizes": dict(inventory.sizes),
        "rows": dict(inventory.rows),
        "cases": dict(inventory.cases),
        "events": inventory.rows.get("events", 0),
        "position": inventory.position,
        "oldest_open": None
        if oldest is None
        else {
            "case": oldest.case,
            "tenant": oldest.tenant,
            "definition": oldest.definition,
            "status": oldest.status,
            "started_at": oldest.started_at,
        },
    }


async def _owner(session: Session, known: str) -> dict[str, Any] | None:
    """Who owns the database, and whether they can be given commands from here."""
    try:
        async with worker_process(session) as client:
            if client is not None:
                return {"owner": f"process {client.greeting.pid}", "answers": True, "casehub": client.greeting.casehub}
    except (CaseHubError, PermissionError) as error:
        return {"owner": known or "a process", "answers": False, "reason": str(error)}
    return {"owner": known, "answers": False} if known else None


def _told(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same for people."""
    schema = found["schema"]
    about = [("database", found["database"]), ("schema", f"version {schema['version']}")]
    if schema["version"] != schema["works_with"]:
        what = "there is none yet" if schema["version"] == 0 else f"this CaseHub works with {schema['works_with']}"
        return [*about, ("", f"{what}: bring it up to date with 'casehub db migrate'"), *_backup(found)]
    owner, oldest, retention = found["owner"], found["oldest_open"], found["retention"]
    answers = "" if owner is None or owner["answers"] else ", which takes no commands from here"
    cases = ", ".join(f"{count:,} {status}" for status, count in found["cases"].items())
    about += [
        ("owner", "none: no process works it" if owner is None else f"{owner['owner']}{answers}"),
        *((f"size of {name}", sized(size)) for name, size in found["sizes"].items()),
        ("events", f"{found['events']:,}, the last at position {found['position']:,}"),
        ("cases", cases or "none"),
    ]
    if oldest is not None:
        about.append(
            (
                "oldest open",
                f"{oldest['case']} of {oldest['definition']}, {oldest['status']}, started {shown(oldest['started_at'])}",
            )
        )
    ran = "" if retention["ran_at"] is None else f"; last looked for {shown(retention['ran_at'])}"
    gone = f"{retention['cases']:,} cases with {retention['events']:,} events are retired{ran}"
    return [*about, ("retention", retention["setting"]), ("", gone), *_backup(found)]


def _backup(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    return (
        [("last backup", backup_in_words(Backup(**{k: v for k, v in found["backup"].items() if k != "there"})))]
        if "backup" in found
        else []
    )


def backup_in_words(backup: Backup) -> str:
    """A backup, how old it is, and whether its file is there as it was written."""
    age = clock_of("system").now() - backup.at
    old = f"{age.days} days old" if age.days else f"{age.seconds // 3600} hours old" if age.seconds >= 3600 else "new"
    there = "" if backup.is_there else "; the file is not there any more as it was written"
    return f"{backup.path}, {old}, up to position {backup.position:,}{there}"
