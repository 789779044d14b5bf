"""Exporting the event log: as it is (ndjson), or as activities of cases, for tools that mine processes (XES, CSV).

Activities are what a case did: signals that came, workers that started and ended, milestones and goals that were reached.
A case that was replayed from another system's log has that log's activities, as that log had them; what happened in
it later is told as of any other case. Answers are as of one position of the log, whatever is written meanwhile.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeVar

import anyio.from_thread
import anyio.to_thread
from pydantic_core import to_json

from casehub.activities import COMPLETE, TRANSITION, ActivityRecorded
from casehub.adapters.codec import as_json
from casehub.events import (
    CaseId,
    CaseStarted,
    Event,
    GoalReached,
    MilestoneReached,
    SignalReceived,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerExecutionFinished,
    WorkerExecutionStarted,
)
from casehub.lookup import adapter
from casehub.query import EventLog, EventQuery, concrete

Format = Literal["xes", "ndjson", "csv"]
Progress = Callable[[int, int], None]
"""Told now and then how far it has got: the position in the log, and the last one."""

KIND: Final = "casehub:kind"
CONFIDENCE: Final = "casehub:confidence"
COLUMNS: Final = (
    "case:concept:name", "concept:name", "time:timestamp", "org:resource", "org:role", TRANSITION, "attributes",
)  # fmt: skip
"""The columns of CSV, named as XES names what is in them; `attributes` is JSON."""

_PAGE: Final = 200
_TOLD: Final = (
    ActivityRecorded, SignalReceived, WorkerExecutionStarted, WorkerExecutionFinished, MilestoneReached, GoalReached,
)  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseActivity:
    """One activity of a case, in the form of an event of XES."""

    activity: str
    at: datetime
    resource: str | None = None
    role: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """A case and its activities, in the form of a trace of XES."""

    case: str
    events: Sequence[CaseActivity]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ExportSummary:
    """How much was written. `cases` is 0 for ndjson, which does not look at cases."""

    events: int = 0
    cases: int = 0


async def export(
    log: EventLog,
    out: Path | BinaryIO,
    format: Format,
    *,
    tenant: str = "default",
    definition: str | None = None,
    case: str | None = None,
    progress: Progress = lambda position, last: None,
) -> ExportSummary:
    """Write the log, or what of it is of a definition or of a case, a page at a time.

    A path whose name ends in `.gz` is compressed; it gets its content only when all is written. A stream is left open.
    Raises `MissingExtraError` for XES without its extra, and what the store and the file raise.
    """
    asked = EventQuery(
        tenant=tenant,
        definition=definition,
        case=None if case is None else CaseId(case),
        upto=await log.position(),
        limit=_PAGE,
    )
    summary = ExportSummary()
    if format == "ndjson":
        async with aclosing(_events(log, asked, progress)) as pages:
            await anyio.to_thread.run_sync(_write_lines, out, _pulled(pages), summary)
        return summary
    async with aclosing(_histories(log, asked, progress)) as histories:
        if format == "csv":
            await anyio.to_thread.run_sync(_write_rows, out, _pulled(histories), summary)
        else:
            write_log = adapter("xes").write_log
            written = await anyio.to_thread.run_sync(lambda: write_log(out, _pulled(histories)))
            summary.cases, summary.events = written.traces, written.events
    return summary


def activities_of(events: Iterable[Event]) -> list[CaseActivity]:
    """What a case did, out of its events in their order."""
    events = list(events)
    replayed = [event for event in events if isinstance(event, ActivityRecorded)]
    since = replayed[-1].at if replayed else None
    told = [_as_logged(event) for event in replayed]
    for event in events:
        if since is None or event.at > since:
            told.extend(_told(event))
    return told


def _as_logged(event: ActivityRecorded) -> CaseActivity:
    return CaseActivity(
        activity=event.activity,
        at=event.logged_at,
        resource=event.resource,
        role=event.role,
        attributes=event.attributes,
    )


def _told(event: Event) -> Iterator[CaseActivity]:
    match event:
        case SignalReceived():
            for signal in event.signals:
                yield _activity(event, signal, "signal")
        case WorkerExecutionStarted():
            yield _activity(event, event.binding, "worker", "start" if event.attempt == 1 else "resume", event.worker)
        case WorkerExecutionCompleted():
            yield _activity(event, event.binding, "worker", COMPLETE, event.worker, event.confidence)
        case WorkerExecutionCancelled():
            yield _activity(event, event.binding, "worker", "withdraw", event.worker)
        case WorkerExecutionFinished():
            yield _activity(event, event.binding, "worker", "ate_abort" if event.settled else "suspend", event.worker)
        case MilestoneReached():
            yield _activity(event, f"milestone {event.milestone}", "milestone")
        case GoalReached():
            yield _activity(event, f"goal {event.goal}", "goal")


def _activity(
    event: Event, name: str, kind: str, transition: str = COMPLETE, worker: str = "", confidence: float | None = None
) -> CaseActivity:
    """In XES's own words for the steps in an activity's life; an aborted one is `ate_abort` there."""
    role, _, resource = event.by.partition(":")
    sure = {} if confidence is None else {CONFIDENCE: confidence}
    return CaseActivity(
        activity=name,
        at=event.at,
        resource=worker or resource or None,
        role="worker" if worker else role,
        attributes={TRANSITION: transition, KIND: kind, **sure},
    )


# ---- reading


async def _paged(log: EventLog, query: EventQuery) -> AsyncGenerator[Sequence[Event], None]:
    after = query.after
    while page := await log.query(replace(query, after=after)):
        yield page
        after = page[-1].seq


async def _events(log: EventLog, asked: EventQuery, progress: Progress) -> AsyncGenerator[Sequence[Event], None]:
    last = asked.upto or 0
    if asked.case is not None:
        async for page in _paged(log, asked):
            yield page
        return
    async for batch in log.tail(0, asked.tenant):
        page = [event for event in batch if event.seq <= last and asked.definition in (None, event.definition)]
        if page:
            yield page
        progress(min(batch[-1].seq, last), last)


async def _histories(
    log: EventLog, asked: EventQuery, progress: Progress
) -> AsyncGenerator[Sequence[CaseHistory], None]:
    """Cases in the order they started; a page of them and their activities in memory."""
    last = asked.upto or 0
    starts = EventQuery(
        types=(CaseStarted.name,), tenant=asked.tenant, case=asked.case, definition=asked.definition, upto=last,
        limit=_PAGE,
    )  # fmt: skip
    async for page in _paged(log, starts):
        found = []
        for start in page:
            events: list[Event] = []
            query = EventQuery(types=concrete(_TOLD), tenant=asked.tenant, case=start.case, upto=last)
            async for part in _paged(log, query):
                events.extend(part)
                if len(part) < query.limit:
                    break
            about = {"casehub:definition": start.definition}
            found.append(CaseHistory(case=start.case, events=activities_of(events), attributes=about))
        yield found
        progress(page[-1].seq, last)


# ---- writing: from here on in a thread, which asks the loop for one page after the other


def _pulled(pages: AsyncGenerator[Sequence[T], None]) -> Iterator[T]:
    while (page := anyio.from_thread.run(anext, pages, None)) is not None:
        yield from page


def _write_lines(out: Path | BinaryIO, events: Iterable[Event], summary: ExportSummary) -> None:
    with _opened(out) as file:
        for event in events:
            file.write(as_json(event) + b"\n")
            summary.events += 1


def _write_rows(out: Path | BinaryIO, cases: Iterable[CaseHistory], summary: ExportSummary) -> None:
    with _opened(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        rows = csv.writer(text)
        try:
            rows.writerow(COLUMNS)
            for case in cases:
                summary.cases += 1
                summary.events += len(case.events)
                for event in case.events:
                    rows.writerow([harmless(cell) for cell in _row(case.case, event)])
        finally:
            text.detach()  # or it would close the stream with itself


def _row(case: str, event: CaseActivity) -> tuple[str, ...]:
    others = {key: value for key, value in event.attributes.items() if key != TRANSITION}
    return (
        case,
        event.activity,
        event.at.astimezone(event.at.tzinfo or UTC).isoformat(),
        event.resource or "",
        event.role or "",
        str(event.attributes.get(TRANSITION, COMPLETE)),
        to_json(others).decode(),
    )


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: one that looks like one is quoted with an apostrophe."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


@contextmanager
def _opened(out: Path | BinaryIO) -> Iterator[BinaryIO | gzip.GzipFile]:
    """A stream as it is; a file that takes its name when it is complete, compressed if the name says so."""
    if not isinstance(out, Path):
        yield out
        return
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("wb") as file:
            if out.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    yield packed
            else:
                yield file
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
