"""Commands that read the event log, back and forth: `events list`, `events tail`, `case watch`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.adapters.codec import as_dict, as_json
from casehub.cli.cases import check_case, check_definition
from casehub.cli.desk import worker_process
from casehub.cli.happening import COLUMNS, told
from casehub.cli.options import Common, Session
from casehub.cli.output import Printer
from casehub.cli.text import note, shown
from casehub.cli.words import event_types_of
from casehub.control import ControlClient
from casehub.errors import HubClosedError, NotReachableError, SettingsError
from casehub.events import CaseEnded, CaseId, Event
from casehub.query import EventQuery, matches
from casehub.record import read_case
from casehub.spi import CaseStore

Types = Annotated[
    list[str] | None,
    Parameter(name="--type", help="Only these, and what they are the base of; separated by commas."),
]
CaseOption = Annotated[str | None, Parameter(name="--case", help="Only events of this case.")]
DefinitionOption = Annotated[str | None, Parameter(help="Only events of cases of this definition.")]

list_app = App(
    name="list",
    help_epilogue="""Examples:
  casehub events list --case ID
  casehub events list --type WORKER_EXECUTION_FAILED --definition claim
  casehub events list --type CaseEnded --limit 20 -o ndjson
  casehub events list --after 1200                   # the next page""",
)


@list_app.default
async def list_events(
    *,
    case: CaseOption = None,
    type: Types = None,
    definition: DefinitionOption = None,
    after: Annotated[int, Parameter(help="The position (seq) to go on behind.")] = 0,
    limit: Annotated[int, Parameter(help="At most this many.", show_default=True)] = 100,
    common: Common | None = None,
) -> None:
    """List events, oldest first."""
    session = Session(common)
    if limit < 1:
        raise SettingsError(f"--limit {limit}: at least 1")
    async with session.reading() as store:
        asked = await _query(session, store, case, type, definition, after, limit + 1)
        found = await store.log.query(asked)
    more = found[limit - 1].seq if len(found) > limit else None
    printer = session.printer
    if printer.form == "ndjson":
        for event in found[:limit]:
            printer.line(as_json(event))
    else:
        printer.items(
            map(as_dict, found[:limit]), COLUMNS, told, more=None if more is None else str(more), empty="no events"
        )
    if more is not None:
        printer.say(f"more with: {session.hint('events list')} --after {more}, and the same options")


tail_app = App(
    name="tail",
    help_epilogue="""Beside a running 'casehub up' it goes on until Ctrl-C; without one it shows
what there is.

Examples:
  casehub events tail
  casehub events tail --type CaseEnded,CASE_STALLED --limit 0
  casehub events tail --after 1200 -o ndjson         # from a position on""",
)


@tail_app.default
async def tail_events(
    *,
    case: CaseOption = None,
    type: Types = None,
    definition: DefinitionOption = None,
    after: Annotated[int | None, Parameter(help="Begin behind this position (seq).")] = None,
    limit: Annotated[int, Parameter(help="Begin with this many of the last ones.", show_default=True)] = 10,
    common: Common | None = None,
) -> None:
    """Show the last events, and those that come."""
    session = Session(common)
    if limit < 0:
        raise SettingsError(f"--limit {limit}: at least 0")
    async with session.reading() as store:
        asked = await _query(session, store, case, type, definition, after or 0, limit)
        position = await store.log.position() if after is None else after
        if after is None and limit:
            last = replace(asked, upto=position, newest=True, limit=limit)
            for event in reversed(await store.log.query(last)):
                _print(session.printer, event)
    await _follow(session, asked, position)


watch_app = App(
    name="watch",
    help_epilogue="""Of one case: what has happened, then what happens until it ends. Of all cases:
what happens from now on.

Examples:
  casehub case watch ID
  casehub case watch ID --type ContextChanged -o ndjson
  casehub case watch --after 1200""",
)


@watch_app.default
async def watch_case(
    id: Annotated[str | None, Parameter(help="The case; all without it.")] = None,
    /,
    *,
    type: Types = None,
    after: Annotated[int | None, Parameter(help="Begin behind this position (seq).")] = None,
    common: Common | None = None,
) -> None:
    """Follow a case, or all, live."""
    session = Session(common)
    async with session.reading() as store:
        asked = await _query(session, store, id, type, None, 0, 1)
        start = after if after is not None else 0 if id is not None else await store.log.position()
    await _follow(session, asked, start)


async def _query(
    session: Session, store: CaseStore, case: str | None, type: list[str] | None, definition: str | None, after: int,
    limit: int,
) -> EventQuery:  # fmt: skip
    """What is asked for; every name in it is checked."""
    tenant = session.settings.tenant
    if case is not None:
        await check_case(session, store, case)
    if definition is not None:
        await check_definition(store, definition, tenant)
    try:
        types = event_types_of(type or ())
    except SettingsError:  # perhaps a kind that this process does not know, and the log does
        types = event_types_of(type or (), await store.log.count(EventQuery(tenant=tenant), by="name"))
    return EventQuery(
        types=types,
        tenant=tenant,
        case=None if case is None else CaseId(case),
        definition=definition,
        after=after,
        limit=limit,
    )


async def _follow(session: Session, asked: EventQuery, after: int) -> None:
    """Print what is asked for behind a position: what there is, and, beside a worker process, what comes."""
    printer = session.printer
    if asked.case is not None and await _ended_before(session, asked.case, after):
        return
    async with worker_process(session) as client:
        if client is not None:
            await _print_live(printer, client, asked, after)
            return
    async with session.reading() as store:
        async for event in _behind(store, asked, after):
            _print(printer, event)
    note(f"no worker process owns {session.named}: that is all there is")


async def _print_live(printer: Printer, client: ControlClient, asked: EventQuery, after: int) -> None:
    """Print what comes until the case has ended. Raises `NotReachableError` when the worker process stops."""
    names = () if not asked.types else (*asked.types, "CASE_ENDED")
    with suppress(HubClosedError, NotReachableError):
        async for event in client.watch(*names, case=asked.case, after=after):
            after = event.seq
            if matches(asked, event):
                _print(printer, event)
            if asked.case is not None and isinstance(event, CaseEnded):
                return
    raise NotReachableError(f"the worker process {client.greeting.pid} has stopped; go on with --after {after}")


async def _behind(store: CaseStore, asked: EventQuery, after: int) -> AsyncIterator[Event]:
    """Everything in the log behind a position."""
    async for batch in store.log.tail(after, asked.tenant):
        for event in batch:
            if matches(asked, event):
                yield event


async def _ended_before(session: Session, case: CaseId, after: int) -> bool:
    """Whether nothing of a case can come behind a position."""
    async with session.reading() as store:
        record = await read_case(store, case, session.settings.tenant)
    if record.state.status.ended and record.events[-1].seq <= after:
        note(f"case {case} has ended: {record.state.status}")
        return True
    return False


def _print(printer: Printer, event: Event) -> None:
    if not printer.for_people:
        printer.line(as_json(event))
        return
    row: Mapping[str, Any] = as_dict(event)
    seq, at, case, name, by, what = told(row)
    printer.say(f"{seq:>7}  {shown(at)}  {case}  {name:<28}  {by:<18}  {what}".rstrip())
