"""The store in memory keeps the contract of stores, and never makes a turn wait."""

from __future__ import annotations

import pytest

from casehub.adapters.memory import MemoryStore
from casehub.events import CaseCompleted, CaseStarted, GoalReached, TimerId
from casehub.lifecycle import CaseStatus
from casehub.query import EventQuery
from casehub.testing.event_logs import AT, Writing, committed, opened
from casehub.testing.stores import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


async def test_a_commit_never_suspends() -> None:
    store = MemoryStore()
    await store.open(lambda turns: None)
    commit = store.commit([Writing("c1").turn(CaseStarted())])
    with pytest.raises(StopIteration) as ended:  # the coroutine comes to its end in one step
        commit.send(None)
    assert len(ended.value.value) == 1


async def test_events_are_kept_as_the_objects_they_are() -> None:
    store = MemoryStore()
    event = GoalReached(goal="a")
    async with opened(store):
        await committed(store, Writing("c1").turn(event))
        assert (await store.load(event.case))[0] is event
        assert (await store.query(EventQuery()))[0] is event


async def test_what_is_returned_does_not_change_afterwards() -> None:
    store, writing = MemoryStore(), Writing("c1")
    async with opened(store):
        await committed(store, writing.turn(GoalReached(goal="a")))
        log = await store.load(writing.case)
        await committed(store, writing.turn(GoalReached(goal="b")))
        assert len(log) == 1


async def test_timers_that_are_gone_do_not_pile_up() -> None:
    store, writing = MemoryStore(), Writing("c1")
    async with opened(store):
        for _ in range(100):
            turn = writing.turn(GoalReached(goal="a"))
            turn.timers[TimerId("t")] = AT
            await committed(store, turn)
        last = writing.turn(CaseCompleted(before=CaseStatus.RUNNING), status=CaseStatus.COMPLETED)
        await committed(store, last)
        assert await store.next_due() is None
        assert store._heap == []
