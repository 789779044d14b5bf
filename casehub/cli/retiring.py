"""`retention plan` and `retention run`: cases that ended long ago are looked at, and archived or deleted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.cli.desk import worker_process
from casehub.cli.options import Common, Session
from casehub.cli.output import progress
from casehub.cli.text import note, sized
from casehub.durations import duration, in_words
from casehub.errors import SettingsError
from casehub.lookup import clock_of, snapshots_of, store_of
from casehub.problems import Exit
from casehub.retention import Keeper, Retention, retention_of, retiring
from casehub.snapshots import Snapshots

After = Annotated[
    str | None, Parameter(name="--after", help="How long after their end. [env: CASEHUB_RETENTION; default: 90d]")
]
Archive = Annotated[
    str | None, Parameter(help="The folder to archive in; without it they are deleted. [env: CASEHUB_ARCHIVE]")
]

plan_app = App(
    name="plan",
    help_epilogue="""A case goes with all its sub-cases, when the last of them ended long enough ago.
Changes nothing.

Examples:
  casehub retention plan
  casehub retention plan --after 30d -o json""",
)


@plan_app.default
async def plan(*, after: After = None, common: Common | None = None) -> None:
    """Say what is due to be retired: cases, rows and bytes, by definition."""
    session, held = _held(after, None, common)
    async with session.reading() as store:
        keeper = Keeper(retiring(store), clock_of("system"), held, session.settings.tenant)
        with progress(f"looking through {session.named}"):
            found = await keeper.plan()
        gone = await retiring(store).retired(session.settings.tenant)
    session.printer.items(
        [{"definition": due.definition, "cases": due.cases, "rows": due.rows, "bytes": due.size} for due in found],
        ("definition", "cases", "rows", "size"),
        lambda item: (item["definition"], f"{item['cases']:,}", f"{item['rows']:,}", sized(item["bytes"])),
        empty=f"nothing is due: no case ended more than {_span(held)} ago",
    )
    if found:
        session.printer.say(f"retire them with: {session.hint('retention run')}")
    if gone.cases:
        session.printer.say(f"retired so far: {gone.cases:,} cases with {gone.events:,} events")


run_app = App(
    name="run",
    help_epilogue="""'casehub up' does it by itself, once an hour. Beside a running one it is done
there. What was retired before it was stopped is retired.

Examples:
  casehub retention run
  casehub retention run --after 30d --archive old/""",
)


@run_app.default
async def run(*, after: After = None, archive: Archive = None, common: Common | None = None) -> int:
    """Archive, or delete, the cases that are due."""
    session, held = _held(after, archive, common)
    async with session.reading() as store:
        retiring(store)  # it is there, and such a store
    done = await _run(session, held)
    printer = session.printer
    if not printer.for_people:
        printer.document(done)
    else:
        where = "deleted" if held.archive is None else f"archived in {held.archive}"
        printer.say(f"{done['cases']:,} cases with {done['events']:,} events {where}")
    for case, reason in done["kept"].items():
        note(f"case {case} stays: {reason}")
    return Exit.FAILED if done["kept"] else Exit.OK


async def _run(session: Session, retention: Retention) -> Mapping[str, Any]:
    """In the worker process or, where none runs, in this one."""
    async with worker_process(session) as client:
        if client is not None:
            return await client.retire(_span(retention), None if retention.archive is None else str(retention.archive))
    settings = session.settings
    store, clock = store_of(settings.db), clock_of("system")
    async with AsyncExitStack() as opening:
        await store.open(lambda turns: None)
        opening.push_async_callback(store.close)
        kept = snapshots_of(settings.snapshots) if settings.snapshots else None
        snapshots = Snapshots(kept, "lifecycle", store.log, clock, settings.tenant)
        await snapshots.checkpoints.open()
        opening.push_async_callback(snapshots.checkpoints.close)
        keeper = Keeper(retiring(store), clock, retention, settings.tenant, forget=snapshots.retire)
        with progress(f"retiring cases in {session.named}"):
            return asdict(await keeper.run())


def _held(after: str | None, archive: str | None, common: Common | None) -> tuple[Session, Retention]:
    """What options and settings come to. Raises `SettingsError` for a span that is none, and where retention is off."""
    if after is not None:
        duration(after)
    session = Session(common, retention=after, archive=archive)
    settings = session.settings
    held = retention_of(settings.retention, settings.archive and os.path.abspath(settings.archive))
    if held is None:
        origin = session.loaded.origins["retention"]
        raise SettingsError(f"retention is off ({origin}), so nothing is due; say how long, such as --after 90d")
    return session, held


def _span(retention: Retention) -> str:
    return retention.after if isinstance(retention.after, str) else in_words(retention.after)
