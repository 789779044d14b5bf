"""Logs of other systems, in and out: `replay-log` feeds one into cases, `events export` writes what other tools read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from casehub.cli.application import definitions_of
from casehub.cli.cases import check_definition
from casehub.cli.desk import known
from casehub.cli.options import Common, Loading, Session
from casehub.cli.output import Printer
from casehub.cli.text import note
from casehub.definition import CaseDefinition
from casehub.errors import SettingsError
from casehub.export import Format, export
from casehub.lookup import adapter
from casehub.record import read_case
from casehub.replay import ReplaySummary, replay

NAMED = 5
"""Cases that a line for people names."""

export_app = App(
    name="export",
    help_epilogue="""xes and csv hold activities of cases, for tools that mine processes: signals,
workers, milestones, goals; of a replayed log the activities that it had. ndjson
holds every event as it is. Works beside a running 'casehub up'.

Examples:
  casehub events export --out log.xes.gz
  casehub events export --format csv --definition declaration > log.csv
  casehub events export --format ndjson --case ID""",
)


@export_app.default
async def export_events(
    *,
    format: Annotated[
        Format | None, Parameter(help="The form; without it the ending of --out says it, and ndjson is the default.")
    ] = None,
    out: Annotated[str | None, Parameter(help="The file; .gz compresses it. Without it: standard output.")] = None,
    definition: Annotated[str | None, Parameter(help="Only cases of this definition.")] = None,
    case: Annotated[str | None, Parameter(name="--case", help="Only this case.")] = None,
    common: Common | None = None,
) -> None:
    """Write events in a form that other tools read."""
    session = Session(common)
    form = format or _format_of(out)
    async with session.reading() as store:
        tenant = session.settings.tenant
        if definition is not None:
            await check_definition(store, definition, tenant)
        if case is not None:
            with known(session, case):
                await read_case(store, case, tenant)
        with _bar() as bar, _writing(out):
            summary = await export(
                store.log,
                _standard_output() if out is None else Path(out),
                form,
                tenant=tenant,
                definition=definition,
                case=case,
                progress=lambda position, last: bar.show("exporting", position, last),
            )
    if out is not None:
        cases = f"{summary.cases:,} cases, " if form != "ndjson" else ""
        session.printer.say(f"{out}: {cases}{summary.events:,} events")
        if not session.printer.for_people:
            session.printer.document({"file": out, "format": form, "cases": summary.cases, "events": summary.events})


replay_app = App(
    name="replay-log",
    help_epilogue="""The definition says what an activity means: a signal, or the result of a worker,
which is then not run. Everything happens at the log's own times. No 'casehub up'
may own the database meanwhile.

Examples:
  casehub replay-log examples/expenses.xes --case examples.expenses:declaration
  casehub replay-log log.xes.gz --case app:claim --resume -o json""",
)


@replay_app.default
async def replay_log(
    file: Annotated[str, Parameter(help="A log in XES: .xes or .xes.gz.")],
    /,
    *,
    case: Annotated[str, Parameter(name="--case", help="What its traces are cases of: module:definition.")],
    resume: Annotated[bool, Parameter(help="Go on with a replay that was cut off.")] = False,
    limit: Annotated[int | None, Parameter(help="Only the first cases of the log, this many.")] = None,
    strict: Annotated[bool, Parameter(help="Refuse a log with activities that mean nothing here.")] = False,
    common: Loading | None = None,
) -> None:
    """Feed a real event log into cases."""
    session = Session(common)
    path = log_in(file)
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit {limit}: at least 1")
    definition = _definition(case, session)
    traces = adapter("xes").read_traces(path)
    try:
        with _bar() as bar:
            summary = await replay(
                definition,
                traces,
                store=session.settings.db,
                resume=resume,
                limit=limit,
                strict=strict,
                tenant=session.settings.tenant,
                progress=bar.show,
            )
    except asyncio.CancelledError:
        note(f"stopped; go on with: {session.hint(f'replay-log {file} --case {case}')} --resume")
        raise
    _print(session.printer, summary)
    session.printer.say(f"look at them with: {session.hint('case list')}")
    session.printer.say(
        "they ended when their log says: 'casehub up' keeps them for longer than 90d with --retention off"
    )


def told(summary: ReplaySummary) -> Iterator[tuple[str, str]]:
    """What a replay came to, in words: what a line is about, and what it says."""
    statuses = ", ".join(f"{number:,} {status}" for status, number in summary.by_status.items())
    yield "cases", f"{summary.cases:,} of {summary.definition!r}: {statuses or 'none'}"
    when = (
        ""
        if summary.first is None or summary.last is None
        else f", {summary.first:%Y-%m-%d} to {summary.last:%Y-%m-%d}"
    )
    yield "events", f"{summary.events:,} in the log{when}"
    before = f", {summary.skipped:,} taken before" if summary.skipped else ""
    yield "fed", f"{summary.signals:,} signals, {summary.results:,} results, {summary.timers:,} timers{before}"
    if summary.refused:
        named = [f"{case} ({activity})" for case, activity, _ in summary.refusals]
        yield "refused", f"{summary.refused:,}: {_some(named, summary.refused)}"
    if summary.out_of_order:
        named = [f"{case} ({activity})" for case, activity in summary.disorders]
        yield "out of order", f"{summary.out_of_order:,}: {_some(named, summary.out_of_order)}"
    for fact, cases in summary.flagged.items():
        yield fact, f"{len(cases):,}: {_some(cases, len(cases))}" if cases else "none"
    if summary.unmapped:
        named = [f"{activity} ({number:,})" for activity, number in summary.unmapped.items()]
        yield "not mapped", f"{sum(summary.unmapped.values()):,}: {_some(named, len(named))}"
    yield (
        "time",
        f"{summary.seconds:.1f} s, {summary.events_per_second:,.0f} events/s; reading {summary.seconds_reading:.1f} s",
    )


def _some(names: list[str] | Any, number: int) -> str:
    return ", ".join(names[:NAMED]) + (f" and {number - NAMED:,} more" if number > NAMED else "")


def _print(printer: Printer, summary: ReplaySummary) -> None:
    if printer.for_people:
        printer.table(("", ""), list(told(summary)), heading=False)
    else:
        printer.document(summary.as_dict())


@contextmanager
def _writing(out: str | None) -> Iterator[None]:
    """An `--out` that cannot be written is the caller's to mend."""
    try:
        yield
    except OSError as error:
        if out is None:
            raise
        raise SettingsError(f"--out {out}: {error.strerror or error}; give a file that can be written") from None


def log_in(file: str, option: str = "") -> Path:
    """The file of a log, given with an option or without. Raises `SettingsError` where there is none."""
    path = Path(file)
    if not path.is_file():
        given = f"{option} {file}" if option else file
        raise SettingsError(f"{given}: there is no such file; give the path of a log in XES (.xes or .xes.gz)")
    return path


def _definition(reference: str, session: Session) -> CaseDefinition:
    """The definition that `--case` names, or the only one of several that says what activities mean."""
    found = definitions_of(reference, session.allow_code)
    meant = found if len(found) == 1 else [each for each in found if each.activities]
    if len(meant) != 1:
        names = ", ".join(each.name for each in meant or found)
        raise SettingsError(f"--case {reference!r} names several definitions: {names}; name the one that is meant")
    return meant[0]


def _format_of(out: str | None) -> Format:
    """The form that a file's name says. Raises `SettingsError` for one that says none."""
    if out is None:
        return "ndjson"
    ending = Path(out.removesuffix(".gz")).suffix
    form: Format
    for form in ("xes", "csv", "ndjson"):
        if ending == f".{form}":
            return form
    raise SettingsError(f"--out {out}: its ending is none of .xes, .csv and .ndjson; say which with --format")


class _Bar:
    """A bar on the error stream, as long as something takes; nothing where that is no terminal."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._tasks: dict[str, Any] = {}

    def show(self, phase: str, done: int, total: int | None) -> None:
        if self._progress is None:
            return
        if phase not in self._tasks:
            for task in self._tasks.values():
                self._progress.update(task, visible=False)
            self._tasks[phase] = self._progress.add_task(phase, total=total)
        self._progress.update(self._tasks[phase], completed=done, total=total)


@contextmanager
def _bar() -> Iterator[_Bar]:
    console = Console(stderr=True, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        yield _Bar(None)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, refresh_per_second=5) as progress:
        yield _Bar(progress)


class _Text(BufferedIOBase):
    """Bytes into a text stream that has nothing below itself."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        sys.stdout.write(bytes(data).decode())
        return len(data)


def _standard_output() -> BinaryIO:
    return cast(BinaryIO, getattr(sys.stdout, "buffer", None) or _Text())
