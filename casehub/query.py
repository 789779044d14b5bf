"""What to ask of the event log, as data, and `CaseLog`: the typed face of the answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Literal, Protocol, TypeVar, cast

from casehub.durations import Duration, duration
from casehub.errors import SettingsError
from casehub.events import EVENT_TYPES, CaseId, CaseStatusChanged, Event, UnknownEvent
from casehub.folding import fold
from casehub.inquiries import Inquiries
from casehub.lifecycle import CaseStatus
from casehub.tasks import Task, TaskQuery

E = TypeVar("E", bound=Event)
Across = Literal["case", "definition", "all"]
By = Literal["binding", "worker", "name", "case", "definition", "by"]

SLACK = 100
"""Cases that may move between two questions of `cases_as_of`."""
PAGE = 1_000
"""Events that `CaseLog.tail` asks for at a time."""
MAX_EVENTS = 100_000
"""Most events that one query answers with; ask for less, or page by `after`."""


def check_kinds(kinds: Sequence[Any]) -> None:
    """Raises `SettingsError` for what is no class of events, such as the name of one."""
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            named = EVENT_TYPES.get(f"{kind}")
            remedy = f"give the class, {named.__name__}" if named else "give a class such as CaseCompleted"
            raise SettingsError(f"{kind!r} is no class of events; {remedy}")


def concrete(kinds: Sequence[type[Event]]) -> tuple[str, ...]:
    """The names in the log that these classes and all their subclasses have; empty for `Event`: everything.

    Raises `SettingsError` for what is no class of events.
    """
    check_kinds(kinds)
    if Event in kinds:
        return ()
    names: dict[str, None] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        names[kind.name] = None
        waiting.extend(kind.__subclasses__())
    return tuple(sorted(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Which events, oldest first (`newest=True`: newest first, which `limit` then counts from the end).

    `types`: names in the log, empty for all; `after` and `upto`: global positions, exclusive and inclusive; `since`
    and `until`: times (UTC), inclusive and exclusive; `last_cases`: only the cases of `definition` that started last;
    `confidence_from` and `confidence_below`: only events that carry a confidence, the lowest of which is in this range
    (inclusive and exclusive).
    """

    types: tuple[str, ...] = ()
    tenant: str = "default"
    case: CaseId | None = None
    definition: str | None = None
    binding: str | None = None
    worker: str | None = None
    by: str | None = None
    after: int = 0
    upto: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    confidence_from: float | None = None
    confidence_below: float | None = None
    last_cases: int | None = None
    newest: bool = False
    limit: int = MAX_EVENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseQuery:
    """Which cases, latest started first. `statuses` empty for all; `after`: the id to go on behind (keyset paging)."""

    tenant: str = "default"
    definition: str | None = None
    statuses: tuple[CaseStatus, ...] = ()
    stalled: bool | None = None
    after: CaseId | None = None
    limit: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSummary:
    """A case on a line. `version`: events in its log; `first` and `seq`: positions of its first and its last event."""

    case: CaseId
    definition: str
    status: CaseStatus
    version: int
    seq: int
    started_at: datetime
    changed_at: datetime
    tenant: str = "default"
    stalled: bool = False
    reason: str = ""
    first: int = 0


class EventLog(Protocol):
    """The read side of a store. Answers never contain uncommitted events."""

    async def query(self, query: EventQuery) -> Sequence[Event]: ...

    async def count(self, query: EventQuery, by: By | None = None) -> Mapping[str, int]:
        """How many, by the values of `by`; without it one entry, `""`."""
        ...

    async def cases(self, query: CaseQuery) -> Sequence[CaseSummary]: ...

    async def tasks(self, query: TaskQuery) -> Sequence[Task]: ...

    async def position(self) -> int:
        """The global position of the last committed event; 0 for an empty log."""
        ...

    def tail(self, after: int = 0, tenant: str = "default") -> AsyncGenerator[Sequence[Event], None]:
        """Everything behind a position up to the end of the log, in order, a bounded batch at a time; then it ends."""
        ...


@dataclass(slots=True)
class CaseLog:
    """The event log as a case's workers and strategies see it: typed, bounded, and fixed at one position.

    `upto`: the position that answers are as of, None for the end of the log; `inquiries`: keeps what is asked.
    """

    log: EventLog
    case: CaseId
    definition: str
    tenant: str = "default"
    upto: int | None = None
    now: datetime | None = None
    inquiries: Inquiries | None = None

    async def query(
        self,
        *kinds: type[E],
        across: Across = "case",
        binding: str | None = None,
        worker: str | None = None,
        by: str | None = None,
        since: Duration | datetime | None = None,
        cases: int | None = None,
        events: int | None = None,
        confidence_from: float | None = None,
        confidence_below: float | None = None,
        limit: int = MAX_EVENTS,
    ) -> Sequence[E]:
        """Events of these classes and their subclasses, oldest first.

        `across`: this case, all cases of its definition, or all; `since`: a time, or how long ago; `cases=5`: of the
        five cases that started last; `events=5`: the five last events; `confidence_from` (inclusive) and
        `confidence_below` (exclusive): those that carry a confidence in this range.
        """
        least = limit if limit < MAX_EVENTS else None
        self._note("query", kinds, across=across, binding=binding, worker=worker, by=by, since=since, cases=cases,
            events=events, confidence_from=confidence_from, confidence_below=confidence_below, limit=least)  # fmt: skip
        asked = self._query(kinds, across, binding, worker, by, since, cases, events, limit)
        asked = replace(asked, confidence_from=confidence_from, confidence_below=confidence_below)
        found = await self.log.query(asked)
        ordered: Any = found if events is None else found[::-1]
        return ordered  # type: ignore[no-any-return]  # the query asks for these classes alone

    async def count(
        self,
        *kinds: type[Event],
        by: By = "name",
        across: Across = "case",
        binding: str | None = None,
        worker: str | None = None,
        since: Duration | datetime | None = None,
        cases: int | None = None,
        confidence_from: float | None = None,
        confidence_below: float | None = None,
    ) -> Mapping[str, int]:
        """How many of these events there are, by binding, worker, name, case, definition or author; as for `query`."""
        self._note("count", kinds, by=by, across=across, binding=binding, worker=worker, since=since, cases=cases,
            confidence_from=confidence_from, confidence_below=confidence_below)  # fmt: skip
        asked = self._query(kinds, across, binding, worker, None, since, cases, None, MAX_EVENTS)
        asked = replace(asked, confidence_from=confidence_from, confidence_below=confidence_below)
        return await self.log.count(asked, by)

    async def tail(self, *kinds: type[E], after: int = 0, across: Across = "case") -> AsyncGenerator[E, None]:
        """Events of these classes behind a global position, in the order of the log, a page at a time; then it ends.

        To go on with what comes later, `hub.watch(..., after=)` from the last one's `seq`.
        """
        self._note("tail", kinds, after=after, across=across)
        while True:
            asked = replace(self._query(kinds, across, None, None, None, None, None, None, PAGE), after=after)
            page: Sequence[Any] = await self.log.query(asked)
            for event in page:
                yield event
            if len(page) < PAGE:
                return
            after = page[-1].seq

    async def cases(
        self, *, status: CaseStatus | Sequence[CaseStatus] = (), across: Across = "definition", last: int = 100
    ) -> Sequence[CaseSummary]:
        """The cases that started last, latest first."""
        statuses = (status,) if isinstance(status, CaseStatus) else tuple(status)
        self._note("cases", (), status=statuses or None, across=across, last=last)
        asked = CaseQuery(
            tenant=self.tenant,
            definition=None if across == "all" else self._across("definition"),
            statuses=statuses,
            limit=last,
        )
        return await self.log.cases(asked) if self.upto is None else await cases_as_of(self.log, asked, self.upto)

    def _note(self, verb: str, kinds: Sequence[type[Event]], **arguments: object) -> None:
        if self.inquiries is not None:
            self.inquiries.note(verb, kinds, arguments)

    def _across(self, across: Across) -> str | None:
        if across != "definition":
            return None
        if not self.definition:
            raise SettingsError(
                "the log of a handle knows its case's id alone; ask hub.log with definition=, or say across='all'"
            )
        return self.definition

    def _query(
        self, kinds: Sequence[type[Event]], across: Across, binding: str | None, worker: str | None, by: str | None,
        since: Duration | datetime | None, cases: int | None, events: int | None, limit: int,
    ) -> EventQuery:  # fmt: skip
        if cases is not None and across == "case":
            raise SettingsError(
                "cases= counts cases, and across='case' is one; say across='definition' or across='all'"
            )
        if since is not None and not isinstance(since, datetime):
            if self.now is None:
                raise SettingsError("since= as a span needs a clock; give a datetime")
            since = self.now - duration(since)
        return EventQuery(
            types=concrete(kinds or (Event,)),
            tenant=self.tenant,
            case=self.case if across == "case" else None,
            definition=self._across(across),
            binding=binding,
            worker=worker,
            by=by,
            upto=self.upto,
            since=since,
            last_cases=cases,
            newest=events is not None,
            limit=min(limit, events) if events is not None else limit,
        )


async def cases_as_of(log: EventLog, query: CaseQuery, upto: int) -> Sequence[CaseSummary]:
    """What `log.cases` would have answered when the log ended at a position: what has happened since is taken back.

    Costs what has happened since, and the logs of the cases that it happened to. For queries without `after` and `stalled`.
    """
    later = EventQuery(
        types=concrete((CaseStatusChanged,)), tenant=query.tenant, definition=query.definition, after=upto
    )
    more = len(await log.count(later, by="case")) + SLACK
    rows = await log.cases(replace(query, limit=query.limit + more))
    moved = await log.count(later, by="case")  # asked after the rows, so that what moves meanwhile is in it
    found = [row for row in rows if row.first <= upto and not (query.statuses and row.case in moved)]
    for case in moved if query.statuses else ():  # in another status now, or not yet started then
        row = await _case_as_of(log, CaseId(case), query.tenant, upto)
        if row is not None and row.status in query.statuses:
            found.append(row)
    found.sort(key=lambda row: row.first, reverse=True)
    found = found[: max(query.limit, 0)]
    return [row if row.seq <= upto else await _case_as_of(log, row.case, query.tenant, upto) or row for row in found]


async def _case_as_of(log: EventLog, case: CaseId, tenant: str, upto: int) -> CaseSummary | None:
    """A case as its log up to a position comes to; None for one that had not started."""
    events = await log.query(EventQuery(case=case, tenant=tenant, upto=upto))
    if not events:
        return None
    state, first, last = fold(case, events), events[0], events[-1]
    return CaseSummary(
        case=case,
        definition=state.definition,
        status=state.status,
        version=state.version,
        seq=last.seq,
        started_at=first.at,
        changed_at=last.at,
        tenant=tenant,
        stalled=bool(state.stalled),
        reason=state.reason,
        first=first.seq,
    )


def matches(query: EventQuery, event: Event) -> bool:
    """Whether one event answers a query, but for `last_cases`, `newest` and `limit`."""
    return (
        (not query.types or name_of(event) in query.types)
        and event.tenant == query.tenant
        and (query.case is None or event.case == query.case)
        and (query.definition is None or event.definition == query.definition)
        and (query.binding is None or mention(event, "binding") == query.binding)
        and (query.worker is None or mention(event, "worker") == query.worker)
        and (query.by is None or event.by == query.by)
        and event.seq > query.after
        and (query.upto is None or event.seq <= query.upto)
        and (query.since is None or event.at >= query.since)
        and (query.until is None or event.at < query.until)
        and (query.confidence_from is query.confidence_below is None or _sure_enough(query, confidence_of(event)))
    )


def _sure_enough(query: EventQuery, confidence: float | None) -> bool:
    return (
        confidence is not None
        and (query.confidence_from is None or confidence >= query.confidence_from)
        and (query.confidence_below is None or confidence < query.confidence_below)
    )


def confidence_of(event: Event) -> float | None:
    """The lowest confidence that an event carries, 0 to 1; None where it carries none."""
    found: Any = event.body.get("confidence") if isinstance(event, UnknownEvent) else getattr(event, "confidence", None)
    if found is None:
        return None
    given = cast("Mapping[str, object]", found).values() if isinstance(found, Mapping) else (found,)
    return min((float(each) for each in given if isinstance(each, float | int)), default=None)


def name_of(event: Event) -> str:
    """The event's name in the log, which an event of an unknown kind has kept."""
    return event.type if isinstance(event, UnknownEvent) else event.name


def mention(event: Event, what: Literal["binding", "worker"]) -> str:
    """The binding or the worker that the event is about; empty where it is about none."""
    found = event.body.get(what, "") if isinstance(event, UnknownEvent) else getattr(event, what, "")
    return found if isinstance(found, str) else ""


def grouping(by: By) -> Callable[[Event], str]:
    """What `count` groups an event under."""
    if by == "name":
        return name_of
    if by == "binding" or by == "worker":
        return partial(mention, what=by)
    return attrgetter(by)
