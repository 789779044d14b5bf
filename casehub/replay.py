"""Replaying a log of another system into cases: what happened there happens here, at the same times.

summary = await replay(declaration, traces, store="sqlite:///cases.db")

An activity that the definition maps to a signal is sent as one; one that it maps to a worker is that worker's result,
and the worker is not run. Everything else works as ever: other workers run, milestones are reached, service levels
pass. What has been taken is in the store with what it led to, so a replay that was cut off goes on where it was.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from casehub.activities import ActivityRecorded, LoggedTrace
from casehub.definition import CaseDefinition
from casehub.engine.choreography import ChoreographyLoopControl
from casehub.errors import CaseExistsError
from casehub.events import CaseId, CaseStarted, ContextChanged
from casehub.feeding import WINDOW, Fed, Feed, LogClock, LogLoopControl, settled
from casehub.hub import CaseHub
from casehub.query import CaseQuery, EventLog, EventQuery
from casehub.spi import CaseStore, LoopControl
from casehub.structure import Structure
from casehub.timeline import MOST_EVENTS, Timeline, strictly, timeline_of

Progress = Callable[[str, int, int | None], None]
"""Told how far it has got: `reading` or `feeding`, the number of events, and of how many, if that is known."""

COLLECT_EVERY: Final = 20_000
"""New objects between two looks of Python's cycle collector while a log is fed; its default of 700 costs a quarter."""
_PAGE: Final = 1_000
_ALL: Final = 2**31
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class ReplaySummary(Fed):
    """What a replay came to.

    `cases`, `by_status`, `flagged` are of all cases of the log, whenever they were fed; the others count this run.
    `events`: of the log; `skipped`: taken by an earlier run; `unmapped`: by activity; `flagged`: by the fact that
    flags, the cases that have had it.
    """

    definition: str
    cases: int = 0
    by_status: Mapping[str, int] = field(default_factory=dict)
    events: int = 0
    skipped: int = 0
    unmapped: Mapping[str, int] = field(default_factory=dict)
    flagged: Mapping[str, Sequence[str]] = field(default_factory=dict)
    first: datetime | None = None
    last: datetime | None = None
    seconds_reading: float = 0.0
    seconds: float = 0.0

    @property
    def events_per_second(self) -> float:
        """Of feeding alone."""
        return self.fed / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; times are datetimes still."""
        return {"definition": self.definition, **asdict(self), "events_per_second": round(self.events_per_second, 1)}


async def replay(
    definition: CaseDefinition,
    traces: Iterable[LoggedTrace],
    *,
    store: CaseStore | str = "memory://",
    loop: LoopControl | None = None,
    resume: bool = False,
    limit: int | None = None,
    strict: bool = False,
    most: int = MOST_EVENTS,
    window: int = WINDOW,
    tenant: str = "default",
    progress: Progress = lambda phase, done, total: None,
) -> ReplaySummary:
    """Feed the traces of a log into cases of a definition: a trace's name is its case's id.

    `resume`: go on with what an earlier run has taken, which is an error otherwise; `limit`: the first cases of the log
    alone; `strict`: refuse a log that has activities without a meaning, rather than pass them over and count them;
    `most`: events that may be held in memory; `window`: moments that may be under way at once.

    Raises `SettingsError` for a definition or a log that cannot be replayed, `CaseExistsError` when cases of the log are
    there already, `LimitError` when the log is larger than `most`, and what the traces and the store raise.
    """
    own = loop or ChoreographyLoopControl()
    told = LogLoopControl(own, _told(definition))
    hub = CaseHub(definition, loop=told, store=store, clock=LogClock(), tenant=tenant, seed=0, resume=False)
    began = time.perf_counter()
    timeline = timeline_of(
        hub.structures[definition.name],
        traces if limit is None else islice(traces, limit),
        read=lambda number: progress("reading", number, None),
        most=most,
    )
    if strict:
        strictly(timeline)
    summary = ReplaySummary(definition=definition.name, events=timeline.events, unmapped=dict(timeline.unmapped))
    if timeline.moments:
        summary.first, summary.last = timeline.moments[0].at, timeline.moments[-1].at
    summary.seconds_reading = time.perf_counter() - began
    async with hub:
        ours = await _counted(hub.log, CaseStarted, tenant, definition.name)
        _check(timeline, await _counted(hub.log, CaseStarted, tenant), ours, resume=resume)
        if resume:
            timeline.go_on(await _counted(hub.log, ActivityRecorded, tenant, definition.name))
            summary.skipped = timeline.skipped
        with _few_collections():
            await _feed(hub, timeline, ours, window, progress, summary)
        await _look_around(hub.log, timeline, tenant, summary)
    return summary


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let the cycle collector look less often: what a feed makes by the thousand is in no cycles."""
    before = gc.get_threshold()
    gc.set_threshold(max(COLLECT_EVERY, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _feed(
    hub: CaseHub, timeline: Timeline, started: Container[str], window: int, progress: Progress, summary: ReplaySummary
) -> None:
    began, total = time.perf_counter(), len(timeline.moments)
    for tenant, case in await hub.store.active():  # cut off in the middle of work
        if tenant == hub.tenant and case in timeline.cases:
            await (await hub.pump(case)).until(settled)
    timers = [
        timer
        for timer in await hub.store.due(_LAST, limit=_ALL)
        if timer.tenant == hub.tenant and timer.case in timeline.cases
    ]
    feed = Feed(hub, timeline, started, lambda number: progress("feeding", number, total), summary, window)
    await feed.run(timers)
    summary.seconds = time.perf_counter() - began


def _told(definition: CaseDefinition) -> frozenset[str]:
    """The bindings that the log tells of."""
    workers = {each.worker for each in definition.activities if each.worker}
    return frozenset(b.name for b in definition.bindings if any(worker.name in workers for worker in b.workers))


def _check(timeline: Timeline, started: Mapping[str, int], ours: Mapping[str, int], *, resume: bool) -> None:
    """Raise when cases of the log are there and are not meant to be, or are of another definition."""
    there = [case for case in timeline.cases if case in started]
    foreign = [case for case in there if case not in ours]
    if foreign:
        raise CaseExistsError(
            f"{len(foreign):,} cases of the log are cases of another definition in this store, {foreign[0]!r} among them; "
            "replay into another database"
        )
    if there and not resume:
        raise CaseExistsError(
            f"{len(there):,} of the {len(timeline.cases):,} cases of the log are in this store, {there[0]!r} among them; "
            "go on with a replay that was cut off by resuming it (--resume), or replay into another database"
        )


async def _counted(
    log: EventLog, kind: type[CaseStarted] | type[ActivityRecorded], tenant: str, definition: str | None = None
) -> Mapping[str, int]:
    return await log.count(EventQuery(types=(kind.name,), tenant=tenant, definition=definition), by="case")


async def _look_around(log: EventLog, timeline: Timeline, tenant: str, summary: ReplaySummary) -> None:
    """What the cases of the log have come to."""
    cases, name = timeline.cases.keys(), timeline.structure.name
    statuses: Counter[str] = Counter()
    after: CaseId | None = None
    while page := await log.cases(CaseQuery(tenant=tenant, definition=name, after=after, limit=_PAGE)):
        statuses.update(str(each.status) for each in page if each.case in cases)
        after = page[-1].case
    summary.cases, summary.by_status = statuses.total(), dict(sorted(statuses.items()))
    summary.flagged = {
        fact: sorted(cases & await _having(log, timeline.structure, fact, tenant))
        for fact in timeline.structure.definition.flags
    }


async def _having(log: EventLog, structure: Structure, fact: str, tenant: str) -> set[str]:
    """The cases in which a worker has written a fact."""
    found: set[str] = set()
    for binding in structure.writers(fact):
        after = 0
        while page := await log.query(
            EventQuery(
                types=(ContextChanged.name,),
                tenant=tenant,
                definition=structure.name,
                binding=binding.name,
                after=after,
                limit=_PAGE,
            )
        ):
            found.update(each.case for each in page if isinstance(each, ContextChanged) and fact in each.facts)
            after = page[-1].seq
    return found
