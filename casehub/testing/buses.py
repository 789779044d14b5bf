"""What every bus has to do, as tests: for those who write one.

Subclass `BusContract` in a test module and give it a fixture that makes a bus over a log; run pytest with
pytest-asyncio.

    class TestMyBus(BusContract):
        @pytest.fixture
        def make_bus(self):
            return MyBus
"""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from casehub.adapters.memory import MemoryStore
from casehub.bus import Bus, Subscription
from casehub.events import (
    CaseId,
    ContextChanged,
    Event,
    GoalReached,
    MilestoneEvent,
    MilestoneReached,
    MilestoneSlaViolated,
)
from casehub.query import EventLog
from casehub.testing.event_logs import Writing

__all__ = ["BusContract"]

E = TypeVar("E", bound=Event)
MakeBus = Callable[[EventLog], Bus]


class BusContract:
    """The promises of a bus, a test each; the fixture `make_bus` gives a function from a log to a bus over it."""

    async def _over(self, make_bus: MakeBus) -> tuple[MemoryStore, Bus]:
        store = MemoryStore()
        bus = make_bus(store.log)
        await store.open(bus.publish)
        return store, bus

    async def test_every_subscriber_gets_every_event_in_the_order_of_the_log(self, make_bus: MakeBus) -> None:
        store, bus = await self._over(make_bus)
        one, two = bus.subscribe(Event), bus.subscribe(Event)
        writing = Writing("c1")
        await store.commit([writing.turn(GoalReached(goal="a"), GoalReached(goal="b"))])
        await store.commit([writing.turn(GoalReached(goal="c"))])
        for subscription in (one, two):
            assert [event.seq for event in await _given(subscription, 3)] == [1, 2, 3]

    async def test_a_class_of_events_brings_its_subclasses_and_no_others(self, make_bus: MakeBus) -> None:
        store, bus = await self._over(make_bus)
        milestones = bus.subscribe(MilestoneEvent)
        writing = Writing("c1")
        turn = writing.turn(GoalReached(goal="a"), MilestoneReached(milestone="m"), MilestoneSlaViolated(milestone="n"))
        await store.commit([turn])
        assert [event.milestone for event in await _given(milestones, 2)] == ["m", "n"]

    async def test_a_case_can_be_listened_to_alone(self, make_bus: MakeBus) -> None:
        store, bus = await self._over(make_bus)
        second = bus.subscribe(GoalReached, case=CaseId("c2"))
        await store.commit([Writing("c1").turn(GoalReached(goal="a")), Writing("c2").turn(GoalReached(goal="b"))])
        assert [event.goal for event in await _given(second, 1)] == ["b"]

    async def test_who_subscribes_later_hears_what_comes_after(self, make_bus: MakeBus) -> None:
        store, bus = await self._over(make_bus)
        writing = Writing("c1")
        await store.commit([writing.turn(GoalReached(goal="a"))])
        late = bus.subscribe(GoalReached)
        await store.commit([writing.turn(GoalReached(goal="b"))])
        assert [event.goal for event in await _given(late, 1)] == ["b"]

    async def test_who_names_a_position_hears_everything_behind_it_once(self, make_bus: MakeBus) -> None:
        store, bus = await self._over(make_bus)
        writing = Writing("c1")
        for goal in "abcd":
            await store.commit([writing.turn(GoalReached(goal=goal))])
        behind = bus.subscribe(GoalReached, after=2)
        await store.commit([writing.turn(GoalReached(goal="e"))])
        assert [event.goal for event in await _given(behind, 3)] == ["c", "d", "e"]

    async def test_publishing_waits_for_nobody_and_who_falls_behind_misses_nothing(self, make_bus: MakeBus) -> None:
        store, bus = await self._over(make_bus)
        slow = bus.subscribe(ContextChanged)
        writing = Writing("c1")
        for number in range(20_000):
            # A subscriber that does not come round is no reason to wait: this loop never lets it.
            await store.commit([writing.turn(ContextChanged(facts={"n": number}))])
        events = await _given(slow, 20_000)
        assert [event.facts["n"] for event in events] == list(range(20_000))

    async def test_a_waiting_subscriber_is_woken(self, make_bus: MakeBus) -> None:
        store, bus = await self._over(make_bus)
        waiting = asyncio.create_task(_given(bus.subscribe(GoalReached), 1))
        await asyncio.sleep(0)
        await store.commit([Writing("c1").turn(GoalReached(goal="a"))])
        assert [event.goal for event in await waiting] == ["a"]

    async def test_a_closed_bus_ends_its_subscriptions_when_they_have_seen_all(self, make_bus: MakeBus) -> None:
        store, bus = await self._over(make_bus)
        subscription = bus.subscribe(GoalReached)
        await store.commit([Writing("c1").turn(GoalReached(goal="a"))])
        bus.close()
        assert [event.goal async for event in subscription] == ["a"]


async def _given(subscription: Subscription[E], count: int) -> Sequence[E]:
    found: list[E] = []
    while len(found) < count:
        batch = await subscription.batch()
        if not batch:
            break
        found.extend(batch)
    return found
