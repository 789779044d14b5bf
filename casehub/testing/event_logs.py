"""What every event log has to answer, as tests, and what they are written with; `casehub.testing.stores` has the rest."""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final

import pytest

from casehub.events import (
    ActivationId,
    CaseCompleted,
    CaseFaulted,
    CaseId,
    CaseStalled,
    CaseStarted,
    CaseStatusChanged,
    ContextChanged,
    Envelope,
    Event,
    GoalReached,
    SelectionDropped,
    UnknownEvent,
    WorkerExecutionCompleted,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
    WorkerScheduled,
)
from casehub.lifecycle import CaseStatus
from casehub.query import By, CaseQuery, CaseSummary, EventQuery, concrete, grouping, matches
from casehub.spi import CaseStore, Committed, Turn

__all__ = ["AT", "EventLogContract", "Writing", "committed", "opened"]

AT: Final = datetime(2026, 11, 30, 9, 0, 0, 123_456, tzinfo=UTC)
_KINDS: Final[Sequence[tuple[type[Event], ...]]] = (
    (), (WorkerExecutionFinished,), (ContextChanged, CaseStarted), (SelectionDropped,),
)  # fmt: skip
_WHOSE: Final[Sequence[dict[str, Any]]] = (
    {}, {"case": "c1"}, {"case": "c4"}, {"case": "c0", "tenant": "other"}, {"tenant": "other"}, {"tenant": "no"},
    {"definition": "claim"}, {"definition": "loan", "tenant": "other"}, {"definition": "no"}, {"binding": "b1"},
    {"worker": "w1"}, {"binding": "b0", "worker": "w1", "definition": "claim"}, {"by": "worker:w1"},
    {"by": "user:ada"}, {"binding": "b2", "by": "worker:w1"}, {"case": "c1", "definition": "loan"}, {"binding": ""},
)  # fmt: skip
_BOUNDS: Final[Sequence[dict[str, Any]]] = (
    {}, {"after": 7}, {"upto": 50}, {"after": 20, "upto": 40}, {"since": AT + timedelta(hours=1)},
    {"until": AT + timedelta(hours=2)}, {"since": AT, "until": AT + timedelta(hours=3), "after": 3},
    {"confidence_below": 0.5}, {"confidence_from": 0.5}, {"confidence_from": 0.2, "confidence_below": 0.7, "upto": 80},
)  # fmt: skip
_ORDERED: Final[Sequence[dict[str, Any]]] = (
    {}, {"definition": "claim"}, {"case": "c1"}, {"types": concrete([WorkerExecutionFinished])},
    {"binding": "b1", "by": "worker:w1"}, {"last_cases": 3}, {"confidence_from": 0.5},
)  # fmt: skip
_COUNTED: Final[Sequence[dict[str, Any]]] = (
    {}, {"tenant": "other"}, {"definition": "claim"}, {"case": "c1"}, {"types": concrete([WorkerExecutionFinished])},
    {"since": AT + timedelta(hours=1), "definition": "claim"}, {"by": "user:ada"}, {"limit": 1}, {"confidence_below": 0.5},
)  # fmt: skip
BATCH_MOST: Final = 10_000
"""Events in a batch of `tail` that still count as bounded."""


class Writing:
    """The log of a case as it is written: makes turns that follow on each other."""

    def __init__(self, case: str, *, definition: str = "claim", tenant: str = "default", version: int = 1) -> None:
        self.case = CaseId(case)
        self.definition = definition
        self.tenant = tenant
        self.version = version
        self.number = 0
        self.activation = ActivationId(f"{case}/extract/1")

    def turn(
        self,
        *events: Event,
        at: datetime = AT,
        key: str = "",
        status: CaseStatus = CaseStatus.RUNNING,
        stalled: bool = False,
    ) -> Turn:
        """The next turn; `at`: when it happens."""
        self.number += 1
        envelope = Envelope(
            case=self.case,
            definition=self.definition,
            tenant=self.tenant,
            turn=self.number,
            version=self.version,
            at=at,
        )
        for event in events:
            event.envelope, event.version = envelope, self.version
            self.version += 1
        return Turn(envelope, list(events), status, stalled, key)


@asynccontextmanager
async def opened(store: CaseStore) -> AsyncGenerator[list[Turn], None]:
    """The store, open; gives the turns that it publishes."""
    published: list[Turn] = []
    await store.open(published.extend)
    try:
        yield published
    finally:
        await store.close()


async def committed(store: CaseStore, *turns: Turn) -> None:
    """Commit turns, all of which must go in."""
    results = await store.commit(turns)
    assert [type(result) for result in results] == [Committed] * len(turns), results


def _corpus() -> list[Turn]:
    """Cases of two definitions and two tenants, written in turns that lie between each other."""
    turns: list[Turn] = []
    cases = [
        Writing(f"c{number}", definition="claim" if number % 3 else "loan", tenant="default" if number % 4 else "other")
        for number in range(8)
    ]
    for step in range(4):
        for number, case in enumerate(cases):
            binding = f"b{(step + number) % 3}"
            about: dict[str, Any] = {"binding": binding, "worker": f"w{number % 2}", "by": f"worker:w{number % 2}"}
            activation = ActivationId(f"{case.case}/{binding}/{step}")
            events: list[Event] = [CaseStarted()] if step == 0 else []
            sure = step / 4 if number > 2 else None
            if number % 2:
                events.append(WorkerExecutionCompleted(**about, activation=activation, attempt=1, confidence=sure))
                each = None if sure is None else {"a": sure, "b": 1}
                events.append(ContextChanged(facts={"a": 1}, binding=binding, by=about["by"], confidence=each))
            else:
                events.append(WorkerExecutionFailed(**about, activation=activation, attempt=1, error="E", message="m"))
                body: dict[str, Any] = {"binding": binding, "worker": 3, "confidence": sure}
                events.append(UnknownEvent(type="NOTED", body=body, by="user:ada"))
            events.append(WorkerScheduled(**about, activation=activation, stamps={"a": 1}))
            at = AT + timedelta(hours=step) - timedelta(minutes=number)  # not in the order of the positions
            turns.append(case.turn(*events, at=at))
    return turns


class EventLogContract:
    """The promises of `EventLog`, a test each; the fixture `store` gives an empty store that is not open."""

    pytestmark = pytest.mark.asyncio

    @staticmethod
    def asked(*kinds: type[Event], **query: Any) -> EventQuery:
        """A query; classes stand for themselves and their subclasses."""
        return EventQuery(**{"types": concrete(kinds or (Event,)), **query})

    # ---- query and count

    async def test_an_empty_log_has_nothing(self, store: CaseStore) -> None:
        async with opened(store):
            assert await store.log.position() == 0
            assert list(await store.log.query(self.asked())) == []
            assert dict(await store.log.count(self.asked(), "name")) == {}
            assert dict(await store.log.count(self.asked())) == {"": 0}
            assert list(await store.log.cases(CaseQuery())) == []
            assert [batch async for batch in store.log.tail()] == []
            assert list(await store.active()) == []

    async def test_every_filter_gives_what_it_says_alone_and_with_others(self, store: CaseStore) -> None:
        queries = [self.asked(*kinds, **whose, **bounds) for kinds, whose, bounds in product(_KINDS, _WHOSE, _BOUNDS)]
        queries += [self.asked(types=("NOTED",)), self.asked(types=("NOTED",), binding="b1")]
        answered = 0
        async with opened(store):
            turns = _corpus()
            await committed(store, *turns)
            events = [event for turn in turns for event in turn.events]
            for query in queries:
                expected = [event for event in events if matches(query, event)]
                found = await store.log.query(query)
                assert list(found) == expected, query
                assert [event.seq for event in found] == [event.seq for event in expected], query
                assert dict(await store.log.count(query)) == {"": len(expected)}, query
                answered += len(expected) > 0
        assert answered > len(queries) / 4

    async def test_the_newest_come_first_and_a_limit_counts_from_there(self, store: CaseStore) -> None:
        async with opened(store):
            await committed(store, *_corpus())
            for query in _ORDERED:
                every = [event.seq for event in await store.log.query(self.asked(**query))]
                assert every == sorted(every)
                assert len(every) > 3
                newest = [event.seq for event in await store.log.query(self.asked(**query, newest=True))]
                assert newest == every[::-1]
                for limit in (0, 1, 3, len(every), 1000):
                    oldest = await store.log.query(self.asked(**query, limit=limit))
                    assert [event.seq for event in oldest] == every[:limit]
                    newest = [
                        event.seq for event in await store.log.query(self.asked(**query, limit=limit, newest=True))
                    ]
                    assert newest == every[::-1][:limit]

    @pytest.mark.parametrize("by", ["binding", "worker", "name", "case", "definition", "by"])
    async def test_events_are_counted_by_what_they_have(self, store: CaseStore, by: By) -> None:
        async with opened(store):
            turns = _corpus()
            await committed(store, *turns)
            events = [event for turn in turns for event in turn.events]
            for query in _COUNTED:
                asked = self.asked(**query)
                expected = Counter(grouping(by)(event) for event in events if matches(asked, event))
                assert dict(await store.log.count(asked, by)) == expected, query

    async def test_the_last_cases_are_those_that_started_last(self, store: CaseStore) -> None:
        async with opened(store):
            await committed(store, *_corpus())

            async def cases(**query: Any) -> set[str]:
                return {event.case for event in await store.log.query(self.asked(**query))}

            assert await cases(last_cases=0) == set()
            assert await cases(last_cases=1) == {"c7"}
            assert await cases(last_cases=3) == {"c7", "c6", "c5"}
            assert await cases(last_cases=2, definition="loan") == {"c6", "c3"}
            assert await cases(last_cases=100, definition="claim") == {"c1", "c2", "c5", "c7"}
            assert await cases(last_cases=2, tenant="other") == {"c4", "c0"}
            assert await cases(last_cases=2, case=CaseId("c6")) == {"c6"}
            assert await cases(last_cases=2, case=CaseId("c3")) == set()
            counts = await store.log.count(self.asked(ContextChanged, last_cases=2), "case")
            assert dict(counts) == {"c7": 4}

    async def test_as_of_a_position_later_cases_have_not_started(self, store: CaseStore) -> None:
        async with opened(store):
            for number in range(5):
                writing = Writing(f"c{number}")
                await committed(store, writing.turn(CaseStarted(), GoalReached(goal="a")))
            found = await store.log.query(self.asked(last_cases=2, upto=5))
            assert [event.seq for event in found] == [3, 4, 5]

    async def test_answers_contain_what_was_acknowledged_before_they_were_asked_for(self, store: CaseStore) -> None:
        writing = Writing("c1")
        async with opened(store):
            for number in range(1, 21):
                await committed(store, writing.turn(GoalReached(goal=str(number))))
                (newest,) = await store.log.query(self.asked(newest=True, limit=1))
                assert newest == GoalReached(goal=str(number), version=number)
                assert await store.log.count(self.asked(GoalReached)) == {"": number}

    async def test_a_question_that_is_asked_again_sees_bindings_that_are_new(self, store: CaseStore) -> None:
        writing = Writing("c1")
        async with opened(store):
            for number in range(1, 11):
                await committed(store, writing.turn(ContextChanged(facts={}, binding=f"b{number}")))
                counts = await store.log.count(self.asked(ContextChanged, definition="claim"), "binding")
                assert dict(counts) == {f"b{n}": 1 for n in range(1, number + 1)}

    async def test_a_log_of_many_events_is_asked_as_one_of_few(self, store: CaseStore) -> None:
        cases = [Writing(f"c{number}", definition=f"d{number % 2}") for number in range(50)]
        async with opened(store):
            expected: Counter[str] = Counter()
            for step in range(10):
                for number, case in enumerate(cases):
                    events: list[Event] = [ContextChanged(facts={"a": step}, binding=f"b{n}") for n in range(5)]
                    expected.update(f"b{n}" for n in range(5) if number % 2 == 0)
                    await committed(store, case.turn(*events, at=AT + timedelta(hours=step)))
            asked = self.asked(ContextChanged, definition="d0")
            assert dict(await store.log.count(asked, "binding")) == expected
            since = self.asked(ContextChanged, definition="d0", since=AT + timedelta(hours=8))
            assert dict(await store.log.count(since, "name")) == {"CONTEXT_CHANGED": 2 * 25 * 5}
            newest = await store.log.query(self.asked(binding="b3", definition="d1", newest=True, limit=60))
            assert [event.seq for event in newest] == sorted(
                (event.seq for event in await store.log.query(self.asked(binding="b3", definition="d1"))), reverse=True
            )[:60]

    async def test_a_clock_that_went_back_hides_nothing(self, store: CaseStore) -> None:
        writing = Writing("c1")
        async with opened(store):
            for hour in (0, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9):
                await committed(
                    store, writing.turn(*(GoalReached(goal=str(hour)) for _ in range(3)), at=AT + timedelta(hours=hour))
                )
            for hour in range(12):
                found = await store.log.query(self.asked(GoalReached, since=AT + timedelta(hours=hour)))
                assert len(found) == 3 * (11 - hour)

    # ---- tail

    async def test_a_tail_gives_everything_behind_a_position_in_bounded_batches_and_ends(
        self, store: CaseStore
    ) -> None:
        one, two = Writing("c1"), Writing("c2", tenant="other")
        async with opened(store):
            for _ in range(60):
                await committed(
                    store, one.turn(*(GoalReached(goal="a") for _ in range(50))), two.turn(GoalReached(goal="b"))
                )
            batches = [list(batch) async for batch in store.log.tail()]
            events = [event for batch in batches for event in batch]
            assert [event.version for event in events] == list(range(1, 3001))
            assert all(0 < len(batch) <= BATCH_MOST for batch in batches)
            behind = [event.seq async for batch in store.log.tail(1500) for event in batch]
            assert behind == [event.seq for event in events if event.seq > 1500]
            other = [event.version async for batch in store.log.tail(tenant="other") for event in batch]
            assert other == list(range(1, 61))
            for after in (await store.log.position(), 1_000_000):
                assert [batch async for batch in store.log.tail(after)] == []

    async def test_a_tail_that_is_left_early_holds_up_nothing(self, store: CaseStore) -> None:
        writing = Writing("c1")
        async with opened(store):
            for _ in range(30):
                await committed(store, writing.turn(*(GoalReached(goal="a") for _ in range(100))))
            tail = store.log.tail()
            await anext(tail)
            await committed(store, writing.turn(GoalReached(goal="b")))
            await tail.aclose()
            assert await store.log.position() == 3001

    # ---- cases

    async def test_a_case_has_a_summary(self, store: CaseStore) -> None:
        writing, later = Writing("c1", tenant="acme"), AT + timedelta(hours=1)
        async with opened(store):
            await committed(store, Writing("c0").turn(CaseStarted()), writing.turn(CaseStarted()))
            (summary,) = await store.log.cases(CaseQuery(tenant="acme"))
            expected: Any = {"case": "c1", "definition": "claim", "tenant": "acme", "started_at": AT, "first": 2}
            assert summary == CaseSummary(status=CaseStatus.RUNNING, version=1, seq=2, changed_at=AT, **expected)
            stalled = writing.turn(CaseStalled(reasons=("nobody writes it",)), at=later, stalled=True)
            await committed(store, stalled)
            (summary,) = await store.log.cases(CaseQuery(tenant="acme"))
            assert summary == CaseSummary(
                status=CaseStatus.RUNNING, version=2, seq=3, changed_at=later, stalled=True, **expected
            )
            faulted = CaseFaulted(before=CaseStatus.RUNNING, reason="because")
            await committed(store, writing.turn(faulted, GoalReached(goal="a"), at=later, status=CaseStatus.FAULTED))
            (summary,) = await store.log.cases(CaseQuery(tenant="acme"))
            assert summary == CaseSummary(
                status=CaseStatus.FAULTED, version=4, seq=5, changed_at=later, reason="because", **expected
            )

    async def test_a_reason_is_that_of_the_last_change_of_status(self, store: CaseStore) -> None:
        writing = Writing("c1")
        there = CaseStatusChanged(before=CaseStatus.RUNNING, after=CaseStatus.SUSPENDED, reason="lunch")
        back = CaseStatusChanged(before=CaseStatus.SUSPENDED, after=CaseStatus.RUNNING, reason="")
        async with opened(store):
            await committed(store, writing.turn(CaseStarted()), writing.turn(there, status=CaseStatus.SUSPENDED))
            await committed(store, writing.turn(GoalReached(goal="a"), status=CaseStatus.SUSPENDED))
            assert [summary.reason for summary in await store.log.cases(CaseQuery())] == ["lunch"]
            await committed(store, writing.turn(back))
            assert [summary.reason for summary in await store.log.cases(CaseQuery())] == [""]
            there = CaseStatusChanged(before=CaseStatus.RUNNING, after=CaseStatus.WAITING)
            back = CaseStatusChanged(before=CaseStatus.WAITING, after=CaseStatus.RUNNING, reason="it came")
            await committed(store, writing.turn(there, back))
            assert [summary.reason for summary in await store.log.cases(CaseQuery())] == ["it came"]

    async def test_cases_are_chosen_by_status_definition_and_stall_latest_first(self, store: CaseStore) -> None:
        chosen: Mapping[int, CaseStatus] = {2: CaseStatus.WAITING, 5: CaseStatus.COMPLETED, 7: CaseStatus.WAITING}
        async with opened(store):
            for number in range(10):
                writing = Writing(
                    f"c{number}", definition=f"d{number % 2}", tenant="other" if number == 9 else "default"
                )
                status = chosen.get(number, CaseStatus.RUNNING)
                change = CaseCompleted(before=CaseStatus.RUNNING, after=status)
                await committed(
                    store, writing.turn(CaseStarted()), writing.turn(change, status=status, stalled=number in (1, 2))
                )

            async def cases(**query: Any) -> str:
                return " ".join(summary.case for summary in await store.log.cases(CaseQuery(**query)))

            assert await cases() == "c8 c7 c6 c5 c4 c3 c2 c1 c0"
            assert await cases(tenant="other") == "c9"
            assert await cases(statuses=(CaseStatus.WAITING,)) == "c7 c2"
            assert await cases(statuses=(CaseStatus.COMPLETED, CaseStatus.WAITING)) == "c7 c5 c2"
            assert await cases(statuses=(CaseStatus.FAULTED,)) == ""
            assert await cases(definition="d1") == "c7 c5 c3 c1"
            assert await cases(definition="d1", statuses=(CaseStatus.WAITING,)) == "c7"
            assert await cases(stalled=True) == "c2 c1"
            assert await cases(stalled=True, statuses=(CaseStatus.WAITING, CaseStatus.COMPLETED)) == "c2"
            assert await cases(stalled=False, definition="d0") == "c8 c6 c4 c0"
            assert await cases(limit=2) == "c8 c7"
            assert await cases(limit=0) == ""
            assert await cases(after=CaseId("c7"), limit=3) == "c6 c5 c4"
            assert await cases(after=CaseId("c5"), definition="d1") == "c3 c1"
            assert await cases(after=CaseId("c3"), statuses=(CaseStatus.WAITING,)) == "c2"
            assert await cases(after=CaseId("c2"), stalled=True) == "c1"
            assert await cases(after=CaseId("c0")) == ""

    async def test_pages_of_cases_hold_still_while_others_start(self, store: CaseStore) -> None:
        async with opened(store):
            await committed(store, *(Writing(f"c{number:02}").turn(CaseStarted()) for number in range(25)))
            seen: list[str] = []
            query = CaseQuery(limit=10)
            while page := await store.log.cases(query):
                seen += [summary.case for summary in page]
                await committed(store, Writing(f"new-{len(seen)}").turn(CaseStarted()))
                query = CaseQuery(limit=10, after=page[-1].case)
            assert seen == [f"c{number:02}" for number in reversed(range(25))]
