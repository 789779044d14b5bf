"""What every store that lets go of ended cases has to do, as tests; to be subclassed beside `casehub.testing.stores`.

The fixture `store` gives an empty store that is not open, and that keeps what is in it when it is opened again.
"""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from casehub.events import CaseCompleted, CaseId, CaseStarted, CaseUnfaulted, ContextChanged, Event, GoalReached
from casehub.lifecycle import CaseStatus
from casehub.query import CaseQuery, CaseSummary, EventQuery
from casehub.spi import CaseStore, Committed, Retired, RetiresCases, Turn
from casehub.tasks import TaskQuery
from casehub.testing.event_logs import AT, Writing, committed, opened
from casehub.testing.task_lists import made_task

__all__ = ["RetentionContract"]

DAY = timedelta(days=1)


class RetiringStore(CaseStore, RetiresCases, Protocol):
    """A store that lets go of cases."""


def whole(case: str, *, tenant: str = "default", definition: str = "claim", days: int = 0, long: int = 1) -> list[Turn]:
    """A case that started, went on and ended, `days` after the others; `long`: how many turns it took in between."""
    writing = Writing(case, tenant=tenant, definition=definition)
    at = AT + days * DAY
    first = writing.turn(CaseStarted(), ContextChanged(facts={"text": case}), key="start", at=at)
    between = [writing.turn(GoalReached(goal=f"g{number}"), key=f"k{number}", at=at) for number in range(long)]
    last = writing.turn(CaseCompleted(before=CaseStatus.RUNNING), status=CaseStatus.COMPLETED, at=at)
    return [first, *between, last]


async def ids(store: RetiringStore, days: int, limit: int = 100) -> list[list[str]]:
    """The families that ended before a day, by their ids."""
    found = await store.expired(AT + days * DAY, limit=limit)
    return [[each.case for each in family] for family in found]


async def retire(store: RetiringStore, days: int = 1) -> list[CaseSummary]:
    """Retire all that ended before a day, and leave its events to be swept."""
    cases = [case for family in await store.expired(AT + days * DAY, limit=1_000) for case in family]
    assert list(await store.retire(cases)) == [case.case for case in cases]
    return cases


async def sweep(store: RetiringStore, rows: int = 2) -> None:
    """Delete what has been retired, a few rows at a time."""
    for _ in range(10_000):
        if (done := await store.sweep(rows)) == 0:
            return
        assert done <= rows + 1
    raise AssertionError("it never comes to an end")


async def everything(store: RetiringStore, after: int = 0, tenant: str = "default") -> Sequence[Event]:
    """What a tail gives."""
    return [event async for batch in store.log.tail(after, tenant) for event in batch]


class RetentionContract:
    """The promises of `RetiresCases`, a test each."""

    async def test_cases_that_have_ended_are_found_the_oldest_first(self, store: RetiringStore) -> None:
        opened_case = Writing("open")
        async with opened(store):
            await committed(store, opened_case.turn(CaseStarted()))
            for case, days in (("c1", 0), ("c2", 1), ("c3", 2)):
                await committed(store, *whole(case, days=days))
            await committed(store, *whole("c4", tenant="other"))
            assert await ids(store, 0) == []
            assert await ids(store, 1) == [["c1"]]
            assert await ids(store, 9) == [["c1"], ["c2"], ["c3"]]
            assert await ids(store, 9, limit=2) == [["c1"], ["c2"]]
            assert [[each.case for each in family] for family in await store.expired(AT + DAY, "other")] == [["c4"]]

    async def test_a_case_goes_with_its_sub_cases_and_none_before_all_are_over(self, store: RetiringStore) -> None:
        child = Writing("c1/ask/1")
        async with opened(store):
            await committed(store, *whole("c1"), *whole("c10"), *whole("c1/ask/2"), *whole("c1/ask/2/look/1"))
            await committed(store, child.turn(CaseStarted()))
            assert await ids(store, 9) == [["c10"]]
            ended = child.turn(CaseCompleted(before=CaseStatus.RUNNING), status=CaseStatus.COMPLETED, at=AT + 3 * DAY)
            await committed(store, ended)
            assert await ids(store, 2) == [["c10"]]
            (family, alone) = await ids(store, 9)
            assert (family[-1], alone) == ("c1", ["c10"])
            assert set(family) == {"c1", "c1/ask/1", "c1/ask/2", "c1/ask/2/look/1"}

    async def test_a_sub_case_whose_case_is_gone_is_found_alone(self, store: RetiringStore) -> None:
        async with opened(store):
            await committed(store, *whole("gone/ask/1"), *whole("gone/ask/2"))
            found = await ids(store, 1)
            assert sorted(case for family in found for case in family) == ["gone/ask/1", "gone/ask/2"]

    async def test_nobody_sees_a_retired_case_whether_or_not_it_is_swept(self, store: RetiringStore) -> None:
        task = made_task(2, case="c1")
        kept = Writing("kept")
        async with opened(store):
            first = whole("c1", long=5)
            first[1].tasks[task.id] = task
            await committed(store, *first, kept.turn(CaseStarted(), GoalReached(goal="a")), *whole("c2", long=5))
            await committed(store, kept.turn(GoalReached(goal="b")))
            await retire(store)
            for _ in ("hidden", "swept"):
                assert list(await store.load(CaseId("c1"))) == []
                assert await store.outcome(CaseId("c1"), "start") is None
                assert [each.case for each in await store.log.cases(CaseQuery())] == ["kept"]
                assert list(await store.log.tasks(TaskQuery())) == []
                assert await store.log.count(EventQuery(), "case") == {"kept": 3}
                assert await store.log.count(EventQuery(definition="claim"), "name") == {
                    "CASE_STARTED": 1,
                    "GOAL_REACHED": 2,
                }
                goals = await store.log.query(EventQuery(types=("GOAL_REACHED",), limit=1))
                assert [event.case for event in goals] == ["kept"]
                latest = await store.log.query(EventQuery(definition="claim", newest=True, limit=2))
                assert [event.case for event in latest] == ["kept", "kept"]
                assert [event.case for event in await everything(store)] == ["kept"] * 3
                await sweep(store)

    async def test_positions_never_go_back(self, store: RetiringStore) -> None:
        async with opened(store):
            await committed(store, *whole("c1"), *whole("c2"))
            last = await store.log.position()
            await retire(store)
            assert await store.log.position() == last
            await sweep(store)
            assert await store.log.position() == last
        async with opened(store):
            assert await store.log.position() == last
            assert await store.commit([Writing("c3").turn(CaseStarted())]) == [Committed(last + 1)]
            assert [event.seq for event in await store.load(CaseId("c3"))] == [last + 1]

    async def test_a_tail_skips_nothing_that_is_there(self, store: RetiringStore) -> None:
        keeping = [Writing(f"kept{number}") for number in range(3)]
        async with opened(store):
            for round, case in enumerate(("c1", "c2", "c3", "c4")):
                await committed(store, *whole(case, long=4))
                await committed(store, *(each.turn(GoalReached(goal=f"{round}")) for each in keeping))
            there = [event for event in await everything(store) if event.case.startswith("kept")]
            await retire(store)
            for _ in ("hidden", "swept"):
                for after in range(await store.log.position() + 2):
                    expected = [event.id for event in there if event.seq > after]
                    assert [event.id for event in await everything(store, after)] == expected
                    found = await store.log.query(EventQuery(after=after))
                    assert [event.id for event in found] == expected
                await sweep(store)

    async def test_a_case_that_has_moved_since_stays(self, store: RetiringStore) -> None:
        faulted = Writing("c1")
        async with opened(store):
            await committed(
                store, faulted.turn(CaseStarted()), faulted.turn(GoalReached(goal="a"), status=CaseStatus.FAULTED)
            )
            ((case,),) = await store.expired(AT + DAY)
            await committed(store, faulted.turn(CaseUnfaulted()))
            assert list(await store.retire([case])) == []
            assert len(await store.load(CaseId("c1"))) == 3
            assert list(await store.retire([case])) == []

    async def test_an_id_is_free_again_and_nothing_of_its_new_case_is_swept(self, store: RetiringStore) -> None:
        async with opened(store):
            await committed(store, *whole("c1", long=6))
            await retire(store)
            await committed(store, *whole("c1", days=5))
            await sweep(store, 3)
            assert len(await store.load(CaseId("c1"))) == 4
            assert await store.outcome(CaseId("c1"), "start") is not None
            assert await ids(store, 9) == [["c1"]]
            assert await store.log.count(EventQuery(), "case") == {"c1": 4}

    async def test_what_it_has_let_go_of_is_counted_by_tenant(self, store: RetiringStore) -> None:
        async with opened(store):
            assert await store.retired() == Retired()
            assert await store.retired(ran_at=AT) == Retired(0, 0, AT)
            await committed(store, *whole("c1"), *whole("c2"), *whole("c3", tenant="other"))
            assert (await store.weigh([case for (case,) in await store.expired(AT + DAY)]))[0] >= 10
            await retire(store)
            assert await store.retired() == Retired(2, 8, AT)
            assert await store.retired("other") == Retired()
        async with opened(store):
            await store.retired(ran_at=AT + DAY)
            assert await store.retired() == Retired(2, 8, AT + DAY)
