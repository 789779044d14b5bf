"""Commands that make cases of cases: `case fork`, `case export`, `case import`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.case import Case
from casehub.cli.cases import show
from casehub.cli.desk import desk, known, worker_process
from casehub.cli.options import Acting, Common, Session
from casehub.cli.output import progress
from casehub.cli.words import facts_of, meant
from casehub.control_cases import RemoteCase
from casehub.imports import Import, import_into
from casehub.lookup import store_of
from casehub.moment import read_moment
from casehub.transcript import read, tell, write

Id = Annotated[str, Parameter(help="The case.")]

fork_app = App(
    name="fork",
    help_epilogue="""The fork begins with the log of the case, up to the moment that is given, in
whole turns, and goes its own way from there. What was in flight begins anew,
for the fork; the case is not touched.

Examples:
  casehub case fork ID --at 1200 --set risk=0.1 --id what-if
  casehub case fork ID --at 2h --reason "as before the change"
  casehub case fork ID                           # as it is now""",
)


@fork_app.default
async def fork_case(
    id: Id,
    /,
    *,
    at: Annotated[
        str | None, Parameter(name="--at", help="A position (seq), a time, or so long ago: 1200, 2h; now without it.")
    ] = None,
    facts: Annotated[
        list[str] | None, Parameter(name="--set", help="A fact to set, name=value. Can be given several times.")
    ] = None,
    fork: Annotated[str | None, Parameter(name="--id", help="What the fork is called; else it gets an id.")] = None,
    reason: Annotated[str, Parameter(help="Why; it is kept in the log.")] = "",
    common: Acting | None = None,
) -> None:
    """Start a case that goes on from where another one was."""
    session = Session(common)
    brought = facts_of(facts or (), "--set")
    if at is not None:
        read_moment(at, datetime.now(UTC))  # or it is no moment
    async with desk(session) as there:
        with known(session, id), meant(brought), progress(f"case {id}: forking it"):
            made: Case | RemoteCase = await there.hub.fork(id, at, brought, fork_id=fork, by=session.by, reason=reason)
            if not there.remote:
                await made.quiescent()
        record = await there.record(made.id)
    show(session.printer, record)


export_app = App(
    name="export",
    help_epilogue="""With its sub-cases and all their events, as JSON, a line each; the last line is
a checksum. 'casehub case import' reads it, into whatever database.

Examples:
  casehub case export ID case.ndjson
  casehub case export ID case.ndjson --db old.db""",
)


@export_app.default
async def export_case(
    id: Id,
    file: Annotated[str, Parameter(name="FILE", help="The file; nothing is written over.")],
    /,
    *,
    common: Common | None = None,
) -> None:
    """Write a case to a file."""
    session = Session(common)
    async with session.reading() as store:
        with known(session, id):
            found = await tell(store, id, session.settings.tenant)
    path = _path(file)
    with progress(f"writing {path}"):
        write(path, found)
    if session.printer.for_people:
        session.printer.say(f"{path}: {_counted(len(found.cases), found.size)}")
    else:
        session.printer.document({"file": str(path), "cases": len(found.cases), "events": found.size})


import_app = App(
    name="import",
    help_epilogue="""Everything in it is checked first, and all of it is imported or nothing. An open
case goes on with 'casehub up', at once beside a running one. Events keep their
times and get new positions; keys of what it calls stay, unless it gets
another id.

Examples:
  casehub case import case.ndjson --dry-run
  casehub case import case.ndjson --id c1-again
  casehub case import archive/2026-11/c1-0a1b2c.ndjson --db look.db""",
)


@import_app.default
async def import_case(
    file: Annotated[str, Parameter(name="FILE", help="What 'casehub case export' or an archive has written.")],
    /,
    *,
    case: Annotated[str | None, Parameter(name="--id", help="Another id for the case.")] = None,
    dry_run: Annotated[bool, Parameter(help="Check everything, and import nothing.")] = False,
    common: Common | None = None,
) -> None:
    """Read a case from a file into the database."""
    session = Session(common)
    path = _path(file)
    with progress(f"reading {path}"):
        transcript = read(path)
    done = await _imported(session, path, Import(transcript, session.settings.tenant, case), dry_run=dry_run)
    printer = session.printer
    if not printer.for_people:
        printer.document(done)
        return
    would = "would be imported" if dry_run else "imported"
    printer.say(f"case {done['case']} {would}: {_counted(len(done['cases']), done['events'])}")
    if done["open"]:
        printer.say(f"open, and to go on: {', '.join(done['open'][:5])}{' and more' if len(done['open']) > 5 else ''}")


async def _imported(session: Session, path: Path, what: Import, *, dry_run: bool) -> Mapping[str, Any]:
    """In the worker process, which takes up what is open, or, where none runs, in this one."""
    async with worker_process(session) as client:
        if client is not None:
            return await client.bring_in(str(path), case_id=what.case_id, dry_run=dry_run)
    store = store_of(session.settings.db)
    await store.open(lambda turns: None)
    try:
        return asdict(await import_into(store, what, dry_run=dry_run))
    finally:
        await store.close()


def _path(file: str) -> Path:
    return Path(os.path.abspath(file))


def _counted(cases: int, events: int) -> str:
    return f"{cases:,} case{'' if cases == 1 else 's'}, {events:,} events"
