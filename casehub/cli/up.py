"""`casehub up`: the worker process. It works the cases of an application until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

from cyclopts import App, Parameter

from casehub.cli.application import InFile, OnServer, hub_of
from casehub.cli.logs import log_in
from casehub.cli.options import Loading, Session, log_to_stderr, program
from casehub.cli.output import Printer
from casehub.cli.place import beside, called, is_server
from casehub.cli.replaying import replay_first
from casehub.cli.text import note
from casehub.cli.worked import Worked, leave_note
from casehub.control import socket_of
from casehub.control_server import listening
from casehub.definition import CaseDefinition
from casehub.durations import duration
from casehub.errors import SettingsError
from casehub.hub import CaseHub
from casehub.lifecycle import CaseStatus
from casehub.lookup import release
from casehub.query import CaseQuery
from casehub.retention import KEEP, retention_of
from casehub.sharing import SharedStore
from casehub.spi import RetiresCases, Volatile

LEAVE: Final = 1.0
"""Seconds that everything gets to end after the drain; then the process ends without it."""
COUNTED: Final = 1_000
"""Cases of a status that are counted at the start; beyond, it says so."""

app = App(
    name="up",
    help_epilogue="""APP is module:attribute: a CaseDefinition, a list of them, or a CaseHub that
is not open; or the path of a definition in YAML, or of a folder of them.
Settings come from flags, else CASEHUB_... in the environment, else
casehub.toml, else the default.

SIGTERM and Ctrl-C drain it: nothing new starts, running workers get
--drain-timeout, then they are called off and run again at the next start.
A second signal ends it at once. Nothing that was accepted is lost.

Examples:
  casehub up examples.claim:claim
  casehub up examples.claim:claim --db claims.db --drain-timeout 2m
  casehub up examples.claim:claim --db postgresql://me@localhost/claims
  casehub up examples.claim:claim --snapshots redis://localhost:6379/0
  casehub up mine:definitions --loop mine:strategy
  casehub up mine:definitions --loop claim=mine:strategy
  casehub up cases/loan.yaml --allow-code loans
  casehub up examples.expenses:declaration --replay expenses.xes""",
)


@app.default
async def up(
    application: Annotated[
        str | None, Parameter(name="APP", help="What to work: module:attribute. [env: CASEHUB_APP]")
    ] = None,
    /,
    *,
    loop: Annotated[
        list[str] | None,
        Parameter(
            help="The loop control or strategy, module:factory; or that of one definition, NAME=module:factory. Can be given several "
            "times. [env: CASEHUB_LOOP; default: choreography]"
        ),
    ] = None,
    snapshots: Annotated[
        str | None,
        Parameter(help="Where snapshots are kept, to load cases faster: a path or a URL. [env: CASEHUB_SNAPSHOTS]"),
    ] = None,
    checkpoint: Annotated[
        str | None,
        Parameter(
            help="When a case is kept: waiting, lifecycle (waiting, suspended or ended), or every so many events. "
            "[env: CASEHUB_CHECKPOINT; default: lifecycle]"
        ),
    ] = None,
    drain_timeout: Annotated[
        str | None,
        Parameter(help="How long a stop waits for workers. [env: CASEHUB_DRAIN_TIMEOUT; default: 30s]"),
    ] = None,
    retention: Annotated[
        str | None,
        Parameter(
            help="How long cases are kept after their end; off: for ever. [env: CASEHUB_RETENTION; default: 90d, with "
            "--replay off]"
        ),
    ] = None,
    archive: Annotated[
        str | None,
        Parameter(
            help="The folder for cases that are not kept any longer; without it they are deleted. [env: CASEHUB_ARCHIVE]"
        ),
    ] = None,
    replay: Annotated[
        str | None, Parameter(help="First feed this log (XES) into cases, from where an earlier start got to.")
    ] = None,
    common: Loading | None = None,
) -> int:
    """Work cases in this process: engine, database, control socket."""
    session = Session(
        common,
        app=application,
        loop=None if loop is None else ",".join(loop),
        snapshots=snapshots,
        checkpoint=checkpoint,
        drain_timeout=drain_timeout,
        retention=retention,
        archive=archive,
    )
    settings = session.settings
    log_to_stderr(settings.log_level, settings.log_format)
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if not settings.app:
        raise SettingsError("APP is missing: say what to work, such as 'casehub up examples.claim:claim'")
    said = session.loaded.given("retention") or session.loaded.given("archive")
    hub = hub_of(
        settings.app,
        settings.db,
        loop=settings.loop,
        tenant=settings.tenant,
        allow_code=session.allow_code,
        snapshots=settings.snapshots,
        checkpoint=settings.checkpoint,
        retention=retention_of(settings.retention, settings.archive) if said else KEEP,
        replays=replay is not None,
    )
    database = _file_of(hub, session)
    socket = socket_of(database)
    limit = duration(settings.drain_timeout).total_seconds()
    log = None if replay is None else log_in(replay, "--replay")
    with Stop(limit) as stop:
        if log is not None and not await replay_first(hub, log, session.printer, stop.asked):
            note("stopped; the replay goes on at the next start")
            return 0
        async with hub:
            resumed = await _counts(hub)
            async with listening(hub, socket) as control:
                leave_note(database, Worked(settings.app, settings.loop, session.allow_code), over=True)
                hubs = [each.name for each in await hub.store.hubs()] if isinstance(hub.store, SharedStore) else []
                _say_what_runs(session.printer, settings.app, hub, database, resumed, hubs, settings.drain_timeout)
                await stop.asked.wait()
                note(
                    f"stopping: {hub.runtime.working} worker(s) running, {settings.drain_timeout} for them; "
                    "a second signal ends it at once"
                )
                await control.farewell()  # before the drain: nobody waits for what will not come
                if not await hub.drain(settings.drain_timeout):
                    note("stopping: what still ran is called off, and runs again at the next start")
    note("stopped")
    return 0


class Stop:
    """SIGTERM and SIGINT: the first asks to stop, the second ends the process there and then.

    Past `limit` and a moment, whatever does not let itself be stopped is left behind: it runs again at the next start.
    """

    def __init__(self, limit: float) -> None:
        self.asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._count = 0
        self._before: list[tuple[signal.Signals, Any]] = []

    def __enter__(self) -> Stop:
        # Not the event loop's own handlers: these are called also while a worker blocks the loop.
        self._before = [(each, signal.signal(each, self._signalled)) for each in (signal.SIGTERM, signal.SIGINT)]
        return self

    def __exit__(self, *exc: object) -> None:
        for each, handler in self._before:
            signal.signal(each, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            _end_now(128 + number)
        last = threading.Timer(self._limit + LEAVE, _end_now, (0,))
        last.daemon = True
        last.start()
        self._loop.call_soon_threadsafe(self.asked.set)


def _end_now(code: int) -> None:
    """End the process without another step: what was committed is in the database."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, RuntimeError):
            continue
    os._exit(code)


def _file_of(hub: CaseHub, session: Session) -> Path:
    """The file of the hub's database, or what stands for one. Raises `SettingsError` for a hub that keeps nothing, or has another than is asked for."""
    store = hub.store
    if isinstance(store, OnServer) and is_server(store.name):
        path = beside(store.name)
    elif isinstance(store, InFile) and not isinstance(store, Volatile):
        path = store.path
    else:
        raise SettingsError(
            f"database {session.settings.db!r}: 'casehub up' keeps cases over restarts; give --db the path of a file, or the URL of a PostgreSQL"
        )
    if session.loaded.given("db") and path != session.database:
        raise SettingsError(
            f"{session.settings.app} has its own database, {path}, and {session.loaded.origins['db']} asks for "
            f"{session.database}; give one of them"
        )
    return path


async def _counts(hub: CaseHub) -> Mapping[str, int]:
    """How many cases go on with this hub, by what becomes of them."""
    resumed = sum(tenant == hub.tenant for tenant, _ in await hub.store.active())
    counts = {"resumed": resumed}
    for status in (CaseStatus.WAITING, CaseStatus.SUSPENDED):
        query = CaseQuery(tenant=hub.tenant, statuses=(status,), limit=COUNTED + 1)
        counts[status.lower()] = len(await hub.log.cases(query))
    return counts


def _say_what_runs(
    printer: Printer,
    application: str,
    hub: CaseHub,
    database: Path,
    counts: Mapping[str, int],
    hubs: Sequence[str],
    limit: str,
) -> None:
    """The banner."""
    store = hub.store
    shown = called(store.name) if isinstance(store, OnServer) and is_server(store.name) else str(database)
    if not printer.for_people:
        printer.line(
            {
                "up": application,
                "casehub": release(),
                "pid": os.getpid(),
                "definitions": list(hub.definitions),
                "kept": [{"definition": each.name, "structure": each.hash} for each in hub.registry.others],
                "store": hub.store.describe(),
                "snapshots": None if hub.snapshot_store is None else hub.snapshot_store.describe(),
                "hubs": hubs,
                "database": shown,
                "socket": str(socket_of(database)),
                "cases": counts,
                "ended_cases": _kept(hub),
            }
        )
        return
    told = ", ".join(
        f"{COUNTED:,}+ {what}" if count > COUNTED else f"{count:,} {what}" for what, count in counts.items()
    )
    suffix = "" if shown == "casehub.db" else f" --db {shown}"
    printer.say(f"CaseHub {release()} works cases (process {os.getpid()})", "bold")
    printer.table(
        ("", ""),
        [
            ("  app", application),
            ("  definitions", ", ".join(_called(each) for each in hub.definitions.values()) or "none for new cases"),
            *(
                [("  kept", ", ".join(f"{each.name} {each.hash}" for each in kept))]
                if (kept := hub.registry.others)
                else []
            ),
            ("  store", hub.store.describe()),
            *([] if hub.snapshot_store is None else [("  snapshots", hub.snapshot_store.describe())]),
            *([("  hubs", f"{len(hubs)} on this database: {', '.join(hubs)}")] if hubs else []),
            ("  control", socket_of(database)),
            ("  open cases", told),
            ("  ended cases", _kept(hub)),
            *(
                [("  brake", "on: nothing new starts in the cases it holds; casehub resume releases it")]
                if hub.brake.on
                else []
            ),
        ],
        heading=False,
    )
    printer.say("Next, in another terminal:")
    for name, structure in list(hub.structures.items())[:1]:
        facts = "".join(f" {fact}=..." for fact, required in structure.inputs.items() if required)
        printer.say(f"  {program()} case start {name}{facts}{suffix}")
    printer.say(f"  {program()} case list{suffix}")
    printer.say(f"  {program()} events tail{suffix}")
    printer.say(f"Ctrl-C stops it, with up to {limit} for running workers.")


def _kept(hub: CaseHub) -> str:
    """What becomes of cases after their end, in words."""
    retention = hub.retention.retention if isinstance(hub.store, RetiresCases) else None
    return "kept for ever" if retention is None else f"{retention}".removeprefix("cases are ")


def _called(definition: CaseDefinition) -> str:
    """A definition's name, with its title where it has one of its own."""
    return definition.name if definition.title == definition.name else f"{definition.name} ({definition.title})"
