"""`doctor`: whether everything that a worker process needs is there, and what it holds up."""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cyclopts import App

from casehub.adapters.sqlite_schema import SAFE_VERSION
from casehub.brakes import pulled
from casehub.cli.application import hub_of, registry_of, structure_of
from casehub.cli.backups import last_backup
from casehub.cli.desk import worker_process
from casehub.cli.options import Session, Working
from casehub.cli.place import without_password
from casehub.cli.standing import backup_in_words
from casehub.control import DefinitionNote
from casehub.errors import CaseHubError, CaseNotFoundError, StoreUnavailableError, UnknownNameError
from casehub.events import CaseId
from casehub.lookup import is_there, release
from casehub.migration import OPEN
from casehub.parking import why_parked
from casehub.query import CaseQuery
from casehub.record import read_case
from casehub.settings import Settings
from casehub.sharing import SharedStore
from casehub.spi import CaseStore

MOST: Final = 20
"""Cases of a kind that are named."""
LOOKED_AT: Final = 1_000
"""Open cases, those that were started last, that are looked at for whether something here fits them."""

# The extras that something uses, by the module that shows them; names that are only reserved are left out.
EXTRAS: Final = {
    "postgres": "psycopg",
    "redis": "redis",
    "xes": "defusedxml",
    "yaml": "cel_expr_python",
    "jq": "jq",
    "otel": "opentelemetry.sdk",
}

_UNSET: Final = {"loop": "choreography", "snapshots": "none"}
"""What an empty setting comes to."""

app = App(
    name="doctor",
    help_epilogue="""Works beside a running 'casehub up' and without one. Ends with 1 when
something is wrong.

Examples:
  casehub doctor
  casehub doctor --app examples.claim:claim -o json""",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `level`: `ok`, `note` (worth knowing) or `fault`."""

    level: Literal["ok", "note", "fault"]
    subject: str
    text: str


@app.default
async def doctor(*, common: Working | None = None) -> int:
    """Look over the database, the worker process, the cases that are held up, the extras and the settings."""
    session = Session(common)
    checks = [Check("ok", "casehub", f"{release()}, Python {platform.python_version()}, {sys.platform}")]
    checks += [check async for check in _database(session)]
    checks.append(_sqlite())
    checks += _extras()
    checks += _application(session)
    checks += _settings(session)
    session.printer.items(
        [{"level": each.level, "subject": each.subject, "text": each.text} for each in checks],
        ("", "what", "found"),
        lambda item: (item["level"], item["subject"], item["text"]),
    )
    return int(any(each.level == "fault" for each in checks))


def _other_versions(session: Session, worked: Mapping[str, DefinitionNote]) -> Iterator[Check]:
    """The definitions of which APP has another current version by now than the process that was started with it."""
    app = session.worked.app
    try:
        now = registry_of(app, session.worked.allow_code).structures if app else {}
    except CaseHubError:
        return  # said elsewhere
    for name, note in worked.items():
        if name in now and note.structure and now[name].hash != note.structure:
            yield Check(
                "note",
                f"definition {name}",
                f"the worker process has version {note.structure}, and {app} has {now[name].hash} by now; stop it and start "
                "it again to work that",
            )


async def _database(session: Session) -> AsyncIterator[Check]:
    parked: dict[str, str] | None = None
    definitions: Iterable[str] = ()
    try:
        async with worker_process(session) as client:
            if client is None:
                yield Check("note", "worker process", f"none owns {session.named}")
            else:
                info = await client.info()
                parked = dict(info["parked"])
                names = ", ".join(definitions := client.greeting.definitions)
                yield Check(
                    "ok",
                    "worker process",
                    f"process {client.greeting.pid}, CaseHub {client.greeting.casehub}, works {names}; "
                    f"{info['working']} worker(s) running",
                )
                if info.get("store"):
                    told = f"does not write, and {info['waiting']} case(s) wait for that: {info['store']}"
                    yield Check("fault", "database", told)
                for case, reason in list(info["snapshots_refused"].items())[:MOST]:
                    yield Check("note", "refused snapshot", f"{case} is loaded from its log: {reason}")
                for check in _other_versions(session, client.greeting.definitions):
                    yield check
    except (CaseHubError, PermissionError) as error:
        yield Check("fault", "worker process", str(error))
    try:
        async with session.reading() as store:
            yield Check("ok", "database", f"{store.describe()}; {await store.log.position():,} events")
            if isinstance(store, SharedStore):
                for hub in await store.hubs():
                    drains = ", takes up no more cases" if hub.draining else ""
                    yield Check("ok", "hub", f"{hub.name}: its lease runs for {hub.left:.1f}s{drains}")
            if (backup := last_backup(session.database)) is not None:
                yield Check("ok" if backup.is_there else "note", "last backup", backup_in_words(backup))
            if held := await pulled(store, session.settings.tenant, definitions):
                yield Check("note", "brake", f"on {', '.join(held)}: nothing new starts; casehub resume releases it")
            async for check in _cases(session, store, parked):
                yield check
    except StoreUnavailableError as error:
        yield Check("note", "database", str(error))
    except (CaseHubError, PermissionError) as error:
        yield Check("fault", "database", str(error))


async def _cases(session: Session, store: CaseStore, parked: dict[str, str] | None) -> AsyncIterator[Check]:
    tenant, latest = session.settings.tenant, ""
    stalled = await store.log.cases(CaseQuery(tenant=tenant, stalled=True, limit=MOST + 1))
    for summary in stalled[:MOST]:
        yield Check(
            "note", "stalled case", f"{summary.case} of {summary.definition}: casehub case explain {summary.case}"
        )
    if len(stalled) > MOST:
        yield Check("note", "stalled case", "and more: casehub case list --stalled")
    if session.worked.app:
        cases = await store.log.cases(CaseQuery(tenant=tenant, statuses=OPEN, limit=LOOKED_AT))
        parked = {**(parked or {}), **await _would_be_parked(session, store, [each.case for each in cases])}
        latest = f" among the {LOOKED_AT:,} open cases that were started last" if len(cases) == LOOKED_AT else ""
    for case, reason in list((parked or {}).items())[:MOST]:
        yield Check("fault", "parked case", f"{case}: {reason}")
    if parked is not None and not parked:
        yield Check("ok", "parked cases", f"none{latest}")


async def _would_be_parked(session: Session, store: CaseStore, cases: Iterable[CaseId]) -> dict[str, str]:
    """What of these a worker process would park: open cases that no version in APP fits any more."""
    worked, tenant = session.worked, session.settings.tenant
    try:
        registry = registry_of(worked.app, worked.allow_code)
    except CaseHubError:
        return {}  # said elsewhere
    found: dict[str, str] = {}
    for case in cases:
        try:
            state = (await read_case(store, case, tenant)).state
            if reason := why_parked(state, structure_of(registry, worked.app, state)):
                found[case] = reason
        except CaseNotFoundError:
            continue  # it has ended and is gone meanwhile
        except UnknownNameError as error:
            found[case] = str(error).removeprefix(f"case {case!r} ")
    return found


def _sqlite() -> Check:
    if sqlite3.sqlite_version_info < SAFE_VERSION:
        safe = ".".join(map(str, SAFE_VERSION))
        return Check(
            "note",
            "SQLite",
            f"{sqlite3.sqlite_version} has the WAL-reset bug, mended in {safe}; CaseHub avoids it by writing through one "
            "connection, so let nothing else write to the database",
        )
    return Check("ok", "SQLite", sqlite3.sqlite_version)


def _extras() -> Iterator[Check]:
    for extra, module in EXTRAS.items():
        if is_there(module):
            yield Check("ok", f"extra {extra}", "installed")
        else:
            yield Check("note", f"extra {extra}", f"not installed: pip install 'casehub[{extra}]'")


def _application(session: Session) -> Iterator[Check]:
    worked = session.worked
    if not worked.app:
        return
    try:
        hub = hub_of(worked.app, "memory://", loop=worked.loop, allow_code=worked.allow_code)
    except CaseHubError as error:
        yield Check("fault", "app", str(error))
    else:
        kept = "".join(f", {each.name} {each.hash} (kept)" for each in hub.registry.others)
        yield Check("ok", "app", f"{worked.app}: {', '.join(hub.definitions)}{kept}")


def _settings(session: Session) -> Iterator[Check]:
    for name, field in Settings.model_fields.items():
        value = getattr(session.settings, name) or (session.by if name == "by" else _UNSET.get(name, ""))
        if name in ("db", "snapshots"):
            value = without_password(value)
        origin = session.loaded.origins[name]
        yield Check("ok", f"setting {name}", f"{value!r} from {origin} ({field.description})")
