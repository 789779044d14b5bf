"""A store in this process's memory: events as the objects they are, nothing encoded, gone when the process ends.

Positions are dense, so the log is one list in which an event's place is its position less one, less what has been
retired from its beginning (`_base`); where a later case was retired, the list has None. Beside it each case has the list of
its own events, and each definition the list of its cases in the order they started. A case that has ended keeps these and
its input keys, nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from casehub.errors import StoreError, StoreOwnedError
from casehub.events import CaseId, CaseStatusChanged, Event, TimerId
from casehub.lifecycle import CaseStatus
from casehub.query import By, CaseQuery, CaseSummary, EventLog, EventQuery, grouping, matches
from casehub.spi import CommitResult, Committed, Conflict, DueTimer, Duplicate, Retired, Turn
from casehub.task_events import TaskId
from casehub.tasks import Task, TaskQuery, TaskStatus

TAIL_BATCH: Final = 1_000
"""Events that `tail` looks at between two batches."""

_ACTIVE: Final = frozenset({CaseStatus.STARTING, CaseStatus.RUNNING, CaseStatus.COMPENSATING})

_Timer = tuple[datetime, int, str, CaseId, TimerId]
"""An entry of the heap: due, the number of the setting (no two entries compare equal), and whose it is."""


@dataclass(slots=True, eq=False)
class _Case:
    """A case: its events, and what its last turn said of it."""

    events: list[Event] = field(default_factory=list)
    status: CaseStatus = CaseStatus.STARTING
    stalled: bool = False
    keys: dict[str, int] | None = None
    timers: dict[TimerId, _Timer] | None = None


class MemoryStore:
    """Implements `CaseStore` and `EventLog`. What was committed can be opened again as long as the object lives."""

    __slots__ = (
        "_base",
        "_bookmarks",
        "_cases",
        "_ended_tasks",
        "_events",
        "_heap",
        "_open_tasks",
        "_published",
        "_retired",
        "_settings",
        "_started",
        "_task_places",
        "_tasks_made",
    )

    volatile: Final = True

    def __init__(self) -> None:
        self._events: list[Event | None] = []
        self._base = 0
        self._retired: dict[str, Retired] = {}
        self._cases: dict[tuple[str, CaseId], _Case] = {}
        # tenant -> definition, and "" for all of them -> cases in the order they started
        self._started: dict[str, dict[str, list[_Case]]] = {}
        self._heap: list[_Timer] = []
        self._settings = 0
        self._bookmarks: dict[tuple[str, str], int] = {}
        self._open_tasks: dict[tuple[str, TaskId], Task] = {}
        self._ended_tasks: dict[tuple[str, TaskId], Task] = {}
        self._task_places: dict[tuple[str, TaskId], int] = {}
        self._tasks_made = 0
        self._published: Callable[[Sequence[Turn]], None] | None = None

    @property
    def log(self) -> EventLog:
        return self

    def describe(self) -> str:
        return "memory: survives nothing; cases and their logs end with the process"

    async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
        """Raises `StoreOwnedError` while somebody else has it open."""
        if self._published is not None:
            raise StoreOwnedError(
                "this MemoryStore is open already; close the hub that uses it, or give each hub its own"
            )
        self._published = published

    async def close(self) -> None:
        """What is in it stays, for whoever opens it next."""
        self._published = None

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        """Never suspends."""
        published = self._published
        if published is None:
            raise StoreError("this MemoryStore is not open; use it through a hub, or call open() first")
        log, cases = self._events, self._cases
        results: list[CommitResult] = []
        committed: list[Turn] = []
        failed: set[_Case] = set()
        for turn in turns:
            envelope, events, key = turn.envelope, turn.events, turn.key
            case = cases.get((envelope.tenant, envelope.case))
            if case is None:
                case = cases[envelope.tenant, envelope.case] = _Case()
            elif key and case.keys is not None and key in case.keys:
                results.append(Duplicate(case.keys[key]))
                failed.add(case)
                continue
            version = len(case.events)
            if envelope.version != version + 1 or case in failed:
                results.append(Conflict(version))
                failed.add(case)
                continue
            if events:
                if not version:
                    started = self._started.setdefault(envelope.tenant, {"": []})
                    started[""].append(case)
                    started.setdefault(envelope.definition, []).append(case)
                case.events.extend(events)
                case.status = turn.status
                case.stalled = turn.stalled
                envelope.seq = seq = self._base + len(log) + 1
            else:
                envelope.seq = seq = self._base + len(log)
            log.extend(events)
            if key:
                if case.keys is None:
                    case.keys = {}
                case.keys[key] = seq
            if turn.timers:
                self._set_timers(case, turn)
            if turn.tasks:
                self._keep_tasks(turn.tasks)
            if case.timers is not None and turn.status.ended:
                case.timers = None
            results.append(Committed(seq))
            committed.append(turn)
        if committed:
            published(committed)
        return results

    def _set_timers(self, case: _Case, turn: Turn) -> None:
        envelope = turn.envelope
        if case.timers is None:
            case.timers = {}
        for timer, due in turn.timers.items():
            if due is None:
                case.timers.pop(timer, None)
            else:
                self._settings += 1
                entry = (due, self._settings, envelope.tenant, envelope.case, timer)
                case.timers[timer] = entry
                heappush(self._heap, entry)

    def _keep_tasks(self, tasks: Mapping[TaskId, Task]) -> None:
        for id, task in tasks.items():
            key = (task.tenant, id)
            if key not in self._task_places:
                self._tasks_made += 1
                self._task_places[key] = self._tasks_made
            if task.status.ended:
                self._open_tasks.pop(key, None)
                self._ended_tasks[key] = task
            else:
                self._ended_tasks.pop(key, None)
                self._open_tasks[key] = task

    def _is_set(self, entry: _Timer) -> bool:
        _, _, tenant, case, timer = entry
        found = self._cases.get((tenant, case))
        return found is not None and found.timers is not None and found.timers.get(timer) is entry

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        found = self._cases.get((tenant, case))
        return [] if found is None else list(found.events)

    async def outcome(self, case: CaseId, key: str, tenant: str = "default") -> int | None:
        found = self._cases.get((tenant, case))
        return None if found is None or found.keys is None else found.keys.get(key)

    async def inputs(self, case: CaseId, tenant: str = "default") -> Mapping[str, int]:
        found = self._cases.get((tenant, case))
        return {} if found is None else dict(found.keys or {})

    async def active(self) -> Sequence[tuple[str, CaseId]]:
        return [key for key, case in self._cases.items() if case.status in _ACTIVE and case.events]

    async def due(self, now: datetime, limit: int = 100) -> Sequence[DueTimer]:
        heap = self._heap
        found: list[_Timer] = []
        while heap and heap[0][0] <= now and len(found) < limit:
            entry = heappop(heap)
            if self._is_set(entry):
                found.append(entry)
        for entry in found:  # a timer stays until a turn says that it has gone
            heappush(heap, entry)
        return [DueTimer(tenant, case, timer, due) for due, _, tenant, case, timer in found]

    async def next_due(self, after: datetime | None = None) -> datetime | None:
        heap = self._heap
        while heap and not self._is_set(heap[0]):
            heappop(heap)
        if after is None or (heap and heap[0][0] > after):
            return heap[0][0] if heap else None
        return min((entry[0] for entry in heap if entry[0] > after and self._is_set(entry)), default=None)

    async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
        if seq is not None:
            self._bookmarks[tenant, subscriber] = seq
            return seq
        return self._bookmarks.get((tenant, subscriber), 0)

    # ---- retention

    async def expired(
        self, before: datetime, tenant: str = "default", limit: int = 100
    ) -> Sequence[Sequence[CaseSummary]]:
        families: dict[str, list[CaseSummary]] = {}
        for case in self._of(tenant, None):
            families.setdefault(case.events[0].case.partition("/")[0], []).append(_summary(case))
        over = (
            family[::-1]
            for family in families.values()
            if all(each.status.ended and each.changed_at < before for each in family)
        )
        return list(islice(over, max(limit, 0)))

    async def weigh(self, cases: Sequence[CaseSummary]) -> tuple[int, int]:
        """Nothing is encoded, so nothing has bytes."""
        found = [self._cases[each.tenant, each.case] for each in cases]
        return sum(1 + len(case.events) + len(case.keys or ()) for case in found), 0

    async def retire(self, cases: Sequence[CaseSummary]) -> Sequence[CaseId]:
        gone: dict[tuple[str, CaseId], None] = {}
        for each in cases:
            where = (each.tenant, each.case)
            case = self._cases.get(where)
            if case is None or len(case.events) != each.version or not case.status.ended:
                continue
            del self._cases[where]
            for started in ("", each.definition):
                self._started[each.tenant][started].remove(case)
            for event in case.events:
                self._events[event.seq - 1 - self._base] = None
            before = self._retired.get(each.tenant, Retired())
            self._retired[each.tenant] = replace(before, cases=before.cases + 1, events=before.events + each.version)
            gone[where] = None
        for key in [key for key, task in self._ended_tasks.items() if (task.tenant, task.case) in gone]:
            del self._ended_tasks[key], self._task_places[key]
        first = next((place for place, event in enumerate(self._events) if event is not None), len(self._events))
        del self._events[:first]
        self._base += first
        return [case for _, case in gone]

    async def sweep(self, rows: int) -> int:
        """Nothing is left over."""
        return 0

    async def retired(self, tenant: str = "default", ran_at: datetime | None = None) -> Retired:
        found = self._retired.get(tenant, Retired())
        if ran_at is not None:
            found = self._retired[tenant] = replace(found, ran_at=ran_at)
        return found

    # ---- the read side

    async def query(self, query: EventQuery) -> Sequence[Event]:
        return list(islice(self._matching(query), max(query.limit, 0)))

    async def count(self, query: EventQuery, by: By | None = None) -> Mapping[str, int]:
        found = self._matching(query)
        return dict(Counter(map(grouping(by), found))) if by is not None else {"": sum(1 for _ in found)}

    async def cases(self, query: CaseQuery) -> Sequence[CaseSummary]:
        started: Iterable[_Case] = reversed(self._of(query.tenant, query.definition))
        if query.after is not None:
            last = self._cases.get((query.tenant, query.after))
            before = last.events[0].seq if last is not None and last.events else 0
            started = (case for case in started if case.events[0].seq < before)
        found = (
            _summary(case)
            for case in started
            if (not query.statuses or case.status in query.statuses)
            and (query.stalled is None or case.stalled is query.stalled)
        )
        return list(islice(found, max(query.limit, 0)))

    async def tasks(self, query: TaskQuery) -> Sequence[Task]:
        wanted = set(query.statuses or TaskStatus)
        found: list[Task] = []
        if not all(status.ended for status in wanted):
            found += self._open_tasks.values()
        if any(status.ended for status in wanted):
            found += self._ended_tasks.values()
        after = None
        if query.after is not None:
            key = (query.tenant, query.after)
            last = self._open_tasks.get(key) or self._ended_tasks.get(key)
            if last is None:
                return []
            after = (*last.urgency, self._task_places[key])
        ordered = sorted(
            (((*task.urgency, self._task_places[task.tenant, task.id]), task) for task in found if query.matches(task)),
            key=lambda entry: entry[0],
        )
        return [task for place, task in ordered if after is None or place > after][: max(query.limit, 0)]

    async def position(self) -> int:
        return self._base + len(self._events)

    async def tail(self, after: int = 0, tenant: str = "default") -> AsyncGenerator[Sequence[Event], None]:
        after = max(after, self._base)
        while after < self._base + len(self._events):
            first = max(after - self._base, 0)
            batch = self._events[first : first + TAIL_BATCH]
            after = self._base + first + len(batch)
            mine = [event for event in batch if event is not None and event.envelope.tenant == tenant]
            if mine:
                yield mine

    def _of(self, tenant: str, definition: str | None) -> list[_Case]:
        """The cases of a definition, or all, in the order they started."""
        return self._started.get(tenant, {}).get(definition or "", [])

    def _matching(self, query: EventQuery) -> Iterator[Event]:
        found: Iterable[Event]
        if query.case is not None:
            case = self._cases.get((query.tenant, query.case))
            if case is None or (query.last_cases is not None and case not in self._last(query, query.last_cases)):
                return iter(())
            found = reversed(case.events) if query.newest else case.events
        elif query.last_cases is not None:
            events = [event for case in self._last(query, query.last_cases) for event in case.events]
            found = sorted(events, key=lambda event: event.seq, reverse=query.newest)
        else:
            first, last = max(query.after - self._base, 0), len(self._events)
            if query.upto is not None:
                last = min(last, query.upto - self._base)
            places = range(last - 1, first - 1, -1) if query.newest else range(first, last)
            found = (event for place in places if (event := self._events[place]) is not None)
        return (event for event in found if matches(query, event))

    def _last(self, query: EventQuery, number: int) -> list[_Case]:
        """The cases that started last, of those that had started at the position that is asked for."""
        started = reversed(self._of(query.tenant, query.definition))
        upto = self._base + len(self._events) if query.upto is None else query.upto
        return list(islice((case for case in started if case.events[0].seq <= upto), max(number, 0)))


def _summary(case: _Case) -> CaseSummary:
    first, last = case.events[0], case.events[-1]
    return CaseSummary(
        case=last.case,
        definition=first.definition,
        status=case.status,
        version=len(case.events),
        seq=last.seq,
        started_at=first.at,
        changed_at=last.at,
        tenant=last.tenant,
        stalled=case.stalled,
        first=first.seq,
        reason=next((event.reason for event in reversed(case.events) if isinstance(event, CaseStatusChanged)), ""),
    )
