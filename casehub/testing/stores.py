"""What every store has to do, as tests: for those who write one.

Subclass `StoreContract` in a test module, give it a fixture that makes an empty store that is not open, and run pytest
with pytest-asyncio; a store is right when all of it passes.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self):
            yield MyStore(...)

What is asked of the log alone is `EventLogContract`, what is asked of human tasks `TaskListContract`; both are part of this. For failures that show values, call
`pytest.register_assert_rewrite("casehub.testing.stores", "casehub.testing.event_logs")` in your `conftest.py`.
"""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from casehub.errors import StoreError, StoreOwnedError
from casehub.events import (
    CaseCompleted,
    CaseId,
    CaseStarted,
    CaseStatusChanged,
    ContextChanged,
    GoalReached,
    TimerId,
    TimerSet,
    UnknownEvent,
    WorkerExecutionCompleted,
)
from casehub.lifecycle import CaseStatus
from casehub.spi import CaseStore, Committed, Conflict, DueTimer, Duplicate
from casehub.testing.event_logs import AT, EventLogContract, Writing, committed, opened
from casehub.testing.task_lists import TaskListContract
from casehub.values import Plain

__all__ = ["StoreContract"]

ODD_TEXT = 'naïve Ωmega 漢字 \U0001f427 "quoted" back\\slash\ttab\nline \u2028 e\u0301 \' -- ; %s {} \x7f'
LATER = AT + timedelta(days=1)


class StoreContract(EventLogContract, TaskListContract):
    """The promises of `CaseStore`, a test each; the fixture `store` gives an empty store that is not open."""

    # ---- committing

    async def test_each_turn_has_one_result_in_its_place(self, store: CaseStore) -> None:
        one, two = Writing("c1"), Writing("c2")
        async with opened(store):
            results = await store.commit([one.turn(GoalReached(goal="a")), two.turn(GoalReached(goal="b"))])
            assert list(results) == [Committed(1), Committed(2)]
            assert list(await store.commit([])) == []

    async def test_positions_are_dense_over_all_cases_and_known_to_the_events(self, store: CaseStore) -> None:
        one, two = Writing("c1"), Writing("c2", tenant="other")
        turns = [
            one.turn(CaseStarted(), GoalReached(goal="a"), GoalReached(goal="b")),
            two.turn(CaseStarted(), GoalReached(goal="c")),
            one.turn(GoalReached(goal="d")),
        ]
        async with opened(store):
            results = [*await store.commit(turns[:2]), *await store.commit(turns[2:])]
            assert results == [Committed(1), Committed(4), Committed(6)]
            assert [event.seq for turn in turns for event in turn.events] == [1, 2, 3, 4, 5, 6]
            assert [event.seq for event in await store.load(CaseId("c1"))] == [1, 2, 3, 6]
            assert await store.log.position() == 6

    async def test_a_case_comes_back_as_it_was_written(self, store: CaseStore) -> None:
        writing = Writing("c1", definition="claim", tenant="acme")
        first = writing.turn(CaseStarted(structure="abc"), ContextChanged(facts={"a": [1, 2.5, None, {"b": True}]}))
        second = writing.turn(
            WorkerExecutionCompleted(
                binding="extract", activation=writing.activation, worker="extract", attempt=2, wrote=("a", "b"), charges={"calls": 1.0}
            ),
            TimerSet(timer=TimerId("sla:a"), due=LATER),
            CaseCompleted(before=CaseStatus.RUNNING, reason="done"),
            at=LATER,
        )  # fmt: skip
        second.events[0].by, second.events[1].cause = "worker:extract", 3
        async with opened(store):
            await committed(store, first, second)
            found = await store.load(CaseId("c1"), "acme")
        assert list(found) == [*first.events, *second.events]
        assert [type(event) for event in found] == [type(event) for event in (*first.events, *second.events)]
        assert [event.version for event in found] == [1, 2, 3, 4, 5]
        assert [event.turn for event in found] == [1, 1, 2, 2, 2]
        assert [event.at for event in found] == [AT, AT, LATER, LATER, LATER]
        assert {(event.case, event.definition, event.tenant) for event in found} == {("c1", "claim", "acme")}

    async def test_a_case_that_was_never_started_has_no_events(self, store: CaseStore) -> None:
        async with opened(store):
            await committed(store, Writing("c1").turn(CaseStarted()))
            assert list(await store.load(CaseId("c2"))) == []
            assert list(await store.load(CaseId("c1"), "other")) == []

    async def test_cases_of_two_tenants_may_have_the_same_id(self, store: CaseStore) -> None:
        one, two = Writing("c1", tenant="one"), Writing("c1", tenant="two")
        async with opened(store):
            await committed(store, one.turn(GoalReached(goal="a"), key="k"), two.turn(GoalReached(goal="b"), key="k"))
            await committed(store, two.turn(GoalReached(goal="c")))
            assert [event.seq for event in await store.load(CaseId("c1"), "one")] == [1]
            assert [event.seq for event in await store.load(CaseId("c1"), "two")] == [2, 3]

    async def test_odd_text_comes_back_unchanged_wherever_it_stands(self, store: CaseStore) -> None:
        case = CaseId(ODD_TEXT)
        writing = Writing(ODD_TEXT, definition=ODD_TEXT, tenant=ODD_TEXT)
        turn = writing.turn(
            ContextChanged(facts={ODD_TEXT: ODD_TEXT}, binding=ODD_TEXT, by=f"user:{ODD_TEXT}"), key=ODD_TEXT
        )
        turn.timers[TimerId(ODD_TEXT)] = AT
        async with opened(store):
            await committed(store, turn)
            (found,) = await store.load(case, ODD_TEXT)
            assert found == turn.events[0]
            assert (found.case, found.definition, found.tenant) == (ODD_TEXT,) * 3
            assert await store.outcome(case, ODD_TEXT, ODD_TEXT) == 1
            assert list(await store.due(AT)) == [DueTimer(ODD_TEXT, case, TimerId(ODD_TEXT), AT)]

    async def test_times_keep_their_microseconds(self, store: CaseStore) -> None:
        times = [datetime(2026, 1, 1, 0, 0, 0, micro, tzinfo=UTC) for micro in (0, 1, 333_333, 999_999)]
        times.append(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
        times.append(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
        async with opened(store):
            for number, at in enumerate(times):
                turn = Writing(f"c{number}").turn(TimerSet(timer=TimerId("t"), due=at), at=at)
                turn.timers[TimerId("t")] = at
                await committed(store, turn)
                (found,) = await store.load(CaseId(f"c{number}"))
                assert isinstance(found, TimerSet)
                assert (found.at, found.due, found.at.tzinfo) == (at, at, UTC)
            due = await store.due(max(times))
            assert [timer.due for timer in due] == sorted(times)

    async def test_an_event_of_an_unknown_kind_loses_nothing(self, store: CaseStore) -> None:
        body: dict[str, Plain] = {"binding": "b", "worker": "w", "deep": [{"x": None}, 1.5, "é"], "version": 7}
        turn = Writing("c1").turn(UnknownEvent(type="FROM_TOMORROW", body=body), GoalReached(goal="a"))
        async with opened(store):
            await committed(store, turn)
            found = await store.load(CaseId("c1"))
            assert list(found) == turn.events
            assert await store.log.count(self.asked(types=("FROM_TOMORROW",), binding="b"), "worker") == {"w": 1}

    async def test_a_turn_without_events_leaves_its_key_and_its_timers_alone(self, store: CaseStore) -> None:
        writing = Writing("c1")
        async with opened(store):
            await committed(store, writing.turn(CaseStarted()))
            empty = writing.turn(key="nothing")
            empty.timers[TimerId("t")] = AT
            assert list(await store.commit([empty])) == [Committed(1)]
            assert await store.log.position() == 1
            assert await store.outcome(CaseId("c1"), "nothing") == 1
            assert len(await store.due(AT)) == 1
            await committed(store, writing.turn(GoalReached(goal="a")))
            assert len(await store.load(CaseId("c1"))) == 2

    # ---- turns that are not committed

    async def test_a_turn_that_begins_elsewhere_than_its_log_ends_is_a_conflict(self, store: CaseStore) -> None:
        async with opened(store) as published:
            await committed(store, Writing("c1").turn(CaseStarted(), GoalReached(goal="a")))
            for version in (1, 2, 4, 100):
                turn = Writing("c1", version=version).turn(GoalReached(goal="b"), key="k")
                turn.timers[TimerId("t")] = AT
                assert list(await store.commit([turn])) == [Conflict(2)]
                assert turn.envelope.seq == 0
            assert list(await store.commit([Writing("c2", version=2).turn(GoalReached(goal="a"))])) == [Conflict(0)]
            assert await store.log.position() == 2
            assert len(await store.load(CaseId("c1"))) == 2
            assert await store.outcome(CaseId("c1"), "k") is None
            assert list(await store.due(AT)) == []
            assert len(published) == 1

    async def test_a_bad_turn_fails_only_the_later_ones_of_its_case(self, store: CaseStore) -> None:
        bad, good = Writing("bad", version=5), Writing("good")
        turns = [
            good.turn(CaseStarted()),
            bad.turn(GoalReached(goal="a")),
            good.turn(GoalReached(goal="b")),
            bad.turn(GoalReached(goal="c")),
            Writing("bad").turn(GoalReached(goal="d")),
        ]
        async with opened(store) as published:
            results = await store.commit(turns)
            assert list(results) == [Committed(1), Conflict(0), Committed(2), Conflict(0), Conflict(0)]
            assert published == [turns[0], turns[2]]
            assert list(await store.load(CaseId("bad"))) == []

    async def test_a_repeated_key_is_answered_with_the_position_of_the_first(self, store: CaseStore) -> None:
        writing = Writing("c1")
        async with opened(store) as published:
            await committed(
                store, writing.turn(CaseStarted()), writing.turn(GoalReached(goal="a"), GoalReached(goal="b"), key="k")
            )
            again = Writing("c1", version=4).turn(GoalReached(goal="a"), key="k")
            assert list(await store.commit([again])) == [Duplicate(2)]
            assert await store.log.position() == 3
            assert again.envelope.seq == 0
            assert len(published) == 2
            assert await store.outcome(CaseId("c1"), "k") == 2
            assert await store.outcome(CaseId("c1"), "other") is None
            assert await store.outcome(CaseId("c2"), "k") is None
            assert await store.outcome(CaseId("c1"), "k", "other") is None

    async def test_the_same_turn_sent_again_is_a_duplicate_and_no_conflict(self, store: CaseStore) -> None:
        async with opened(store):
            await committed(store, Writing("c1").turn(CaseStarted(), key="k"))
            assert list(await store.commit([Writing("c1").turn(CaseStarted(), key="k")])) == [Duplicate(1)]

    async def test_a_key_is_consumed_once_within_a_batch(self, store: CaseStore) -> None:
        one, two = Writing("c1"), Writing("c2")
        turns = [
            one.turn(CaseStarted(), key="k"),
            one.turn(GoalReached(goal="a"), key="k"),
            one.turn(GoalReached(goal="b")),
            two.turn(CaseStarted(), key="k"),
        ]
        async with opened(store):
            results = await store.commit(turns)
            assert list(results) == [Committed(1), Duplicate(1), Conflict(1), Committed(2)]

    async def test_nothing_follows_a_duplicate_in_its_batch(self, store: CaseStore) -> None:
        async with opened(store):
            await committed(store, Writing("c1").turn(CaseStarted(), key="k"))
            turns = [Writing("c1").turn(CaseStarted(), key="k"), Writing("c1", version=2).turn(GoalReached(goal="a"))]
            assert list(await store.commit(turns)) == [Duplicate(1), Conflict(1)]
            assert list(await store.commit(turns[1:])) == [Committed(2)]

    # ---- publishing

    async def test_what_is_committed_is_published_before_the_answer(self, store: CaseStore) -> None:
        heard: list[tuple[str, int]] = []
        writing = Writing("c1")
        await store.open(lambda turns: heard.extend((turn.envelope.case, turn.envelope.seq) for turn in turns))
        try:
            for number in range(1, 4):
                await store.commit([writing.turn(GoalReached(goal="a"))])
                assert heard[-1] == ("c1", number)
        finally:
            await store.close()

    async def test_many_at_once_are_published_in_the_order_of_their_positions(self, store: CaseStore) -> None:
        async def work(writing: Writing) -> None:
            for number in range(10):
                turn = writing.turn(GoalReached(goal=str(number)), GoalReached(goal="x"))
                assert list(await store.commit([turn])) == [Committed(turn.envelope.seq)]
                assert published[-1].envelope.seq >= turn.envelope.seq

        async with opened(store) as published:
            await asyncio.gather(*(work(Writing(f"c{number}")) for number in range(20)))
            events = [event for turn in published for event in turn.events]
            assert [event.seq for event in events] == list(range(1, 401))
            for number in range(20):
                versions = [event.version for event in events if event.case == f"c{number}"]
                assert versions == list(range(1, 21))
            assert [event.id for batch in [await store.log.query(self.asked())] for event in batch] == [
                event.id for event in events
            ]

    async def test_a_caller_who_gives_up_leaves_a_whole_turn_or_none(self, store: CaseStore) -> None:
        async with opened(store) as published:
            for number in range(20):
                case = CaseId(f"c{number}")
                turn = Writing(case).turn(CaseStarted(), GoalReached(goal="a"))
                task = asyncio.ensure_future(store.commit([turn]))
                for _ in range(number % 4):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await committed(store, Writing(f"after-{number}").turn(CaseStarted()))
                found = len(await store.load(case))
                assert found == 2 * [turn.envelope.case for turn in published].count(case)
                assert list(await store.commit([Writing(case, version=found + 1).turn(GoalReached(goal="b"))])) == [
                    Committed(await store.log.position())
                ]

    # ---- timers

    async def test_timers_come_due_the_longest_overdue_first(self, store: CaseStore) -> None:
        one, two = Writing("c1"), Writing("c2", tenant="other")
        first, second = one.turn(CaseStarted()), two.turn(CaseStarted())
        first.timers.update({TimerId("late"): AT + timedelta(3), TimerId("soon"): AT + timedelta(1)})
        second.timers.update({TimerId("middle"): AT + timedelta(2), TimerId("never"): AT + timedelta(1000)})
        async with opened(store):
            assert await store.next_due() is None
            await committed(store, first, second)
            assert await store.next_due() == AT + timedelta(1)
            assert list(await store.due(AT + timedelta(hours=23))) == []
            expected = [
                DueTimer("default", CaseId("c1"), TimerId("soon"), AT + timedelta(1)),
                DueTimer("other", CaseId("c2"), TimerId("middle"), AT + timedelta(2)),
                DueTimer("default", CaseId("c1"), TimerId("late"), AT + timedelta(3)),
            ]
            for _ in range(2):  # asking takes nothing away
                assert list(await store.due(AT + timedelta(3))) == expected
                assert list(await store.due(AT + timedelta(3), limit=2)) == expected[:2]
            assert list(await store.due(AT + timedelta(1))) == expected[:1]
            assert await store.next_due(AT + timedelta(1)) == AT + timedelta(2)
            assert await store.next_due(AT + timedelta(1000)) is None

    async def test_a_timer_can_be_moved_and_taken_away(self, store: CaseStore) -> None:
        writing, timer = Writing("c1"), TimerId("t")
        async with opened(store):
            for due, expected in (
                (AT, AT), (LATER, LATER), (None, None), (None, None), (AT, AT), (AT, AT), (None, None), (AT, AT),
            ):  # fmt: skip
                turn = writing.turn(GoalReached(goal="a"))
                turn.timers[timer] = due
                await committed(store, turn)
                assert await store.next_due() == expected
                assert [found.due for found in await store.due(LATER)] == ([] if expected is None else [expected])

    async def test_a_case_that_has_ended_has_no_timers(self, store: CaseStore) -> None:
        writing, other = Writing("c1"), Writing("c2")
        first, second = writing.turn(CaseStarted()), other.turn(CaseStarted())
        first.timers[TimerId("t")] = second.timers[TimerId("t")] = AT
        last = writing.turn(CaseCompleted(before=CaseStatus.RUNNING), status=CaseStatus.COMPLETED)
        async with opened(store):
            await committed(store, first, second, last)
            assert [timer.case for timer in await store.due(LATER)] == ["c2"]
            assert await store.next_due() == AT

    # ---- what else is kept

    async def test_cases_that_were_being_worked_are_active_oldest_first(self, store: CaseStore) -> None:
        statuses = [*CaseStatus, CaseStatus.RUNNING]
        async with opened(store):
            for number, status in enumerate(statuses):
                writing = Writing(f"c{9 - number}")
                change = CaseStatusChanged(before=CaseStatus.RUNNING, after=status)
                await committed(store, writing.turn(CaseStarted()), writing.turn(change, status=status))
            await committed(store, Writing("c0", tenant="other").turn(CaseStarted()))
            active = await store.active()
        mine = [case for tenant, case in active if tenant == "default"]
        working = (CaseStatus.STARTING, CaseStatus.RUNNING, CaseStatus.COMPENSATING)
        assert mine == [f"c{9 - n}" for n, status in enumerate(statuses) if status in working]
        assert set(active) - {("default", case) for case in mine} == {("other", "c0")}

    async def test_a_durable_subscriber_has_a_bookmark(self, store: CaseStore) -> None:
        async with opened(store):
            assert await store.bookmark("pager") == 0
            assert await store.bookmark("pager", 7) == 7
            assert await store.bookmark("pager", 5, "other") == 5
            assert await store.bookmark("pager") == 7
            assert await store.bookmark("pager", 9) == 9
            assert await store.bookmark("pager", tenant="other") == 5
            assert await store.bookmark("mailer") == 0

    # ---- opening and closing

    async def test_a_store_that_is_opened_again_goes_on_where_it_was(self, store: CaseStore) -> None:
        writing = Writing("c1")
        async with opened(store):
            turn = writing.turn(CaseStarted(), key="k")
            turn.timers[TimerId("t")] = AT
            await committed(store, turn)
            await store.bookmark("pager", 1)
        async with opened(store) as published:
            assert list(await store.load(CaseId("c1"))) == turn.events
            assert await store.outcome(CaseId("c1"), "k") == 1
            assert await store.next_due() == AT
            assert await store.bookmark("pager") == 1
            assert list(await store.active()) == [("default", "c1")]
            assert list(await store.commit([writing.turn(GoalReached(goal="a"))])) == [Committed(2)]
            assert len(published) == 1

    async def test_a_store_is_opened_before_it_is_used_and_once_at_a_time(self, store: CaseStore) -> None:
        with pytest.raises(StoreError):
            await store.commit([Writing("c1").turn(CaseStarted())])
        async with opened(store):
            with pytest.raises(StoreOwnedError):
                await store.open(lambda turns: None)
            await committed(store, Writing("c1").turn(CaseStarted()))
        with pytest.raises(StoreError):
            await store.commit([Writing("c2").turn(CaseStarted())])

    async def test_a_store_says_in_a_line_what_it_survives(self, store: CaseStore) -> None:
        assert store.describe()
        assert "\n" not in store.describe()
