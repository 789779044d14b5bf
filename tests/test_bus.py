"""The bus: everybody gets every committed event once and in order, and nobody waits for anybody."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casehub.adapters.memory import MemoryStore
from casehub.bus import Bus, Subscription
from casehub.errors import HubClosedError, StoreError
from casehub.events import (
    CaseId,
    CaseStatusChanged,
    ContextChanged,
    Envelope,
    Event,
    GoalReached,
    MilestoneEvent,
    MilestoneReached,
    SignalReceived,
)
from casehub.lifecycle import CaseStatus
from casehub.query import EventLog
from casehub.spi import Turn
from casehub.testing.buses import BusContract, MakeBus


class Stream:
    """A store in memory, and the bus that it publishes on."""

    def __init__(self, capacity: int = 64) -> None:
        self.store = MemoryStore()
        self.bus = Bus(self.store.log, capacity)
        self.lengths: dict[str, int] = {}

    async def open(self) -> Stream:
        await self.store.open(self.bus.publish)
        return self

    async def commit(self, *events: Event, case: str = "c") -> None:
        """One turn of a case."""
        version = self.lengths.get(case, 0) + 1
        envelope = Envelope(case=CaseId(case), definition="d", version=version)
        for place, event in enumerate(events):
            event.envelope, event.version = envelope, version + place
        self.lengths[case] = version + len(events) - 1
        await self.store.commit([Turn(envelope, list(events), CaseStatus.RUNNING)])

    async def commit_many(self, number: int, case: str = "c") -> None:
        for _ in range(number):
            await self.commit(goal(), case=case)


@pytest.fixture
async def stream() -> Stream:
    return await Stream().open()


def goal(name: str = "g") -> Event:
    return GoalReached(goal=name)


async def take(events: Subscription[Event], number: int) -> list[int]:
    """The positions of the next events."""
    return [(await anext(events)).seq for _ in range(number)]


def at_hand(events: Subscription[Event]) -> list[int]:
    """The positions of all events that can be had without waiting."""
    found: list[int] = []
    while True:
        step = events.__anext__()
        try:
            step.send(None)  # type: ignore[attr-defined]  # a coroutine
        except StopIteration as done:
            found.append(done.value.seq)
        except StopAsyncIteration:
            return found
        else:
            step.close()  # type: ignore[attr-defined]  # a coroutine
            return found


async def test_every_subscriber_gets_every_event(stream: Stream) -> None:
    with stream.bus.subscribe(Event) as one, stream.bus.subscribe(Event) as other:
        await stream.commit(goal(), goal())
        await stream.commit(goal())
        assert await take(one, 3) == [1, 2, 3]
        assert await take(other, 3) == [1, 2, 3]


async def test_a_class_brings_its_subclasses_and_nothing_else(stream: Stream) -> None:
    with stream.bus.subscribe(MilestoneEvent) as milestones, stream.bus.subscribe(GoalReached, SignalReceived) as two:
        await stream.commit(MilestoneReached(milestone="m"), goal(), SignalReceived(signals=("s",)))
        await stream.commit(MilestoneReached(milestone="n"))
        assert at_hand(milestones) == [1, 4]
        assert at_hand(two) == [2, 3]


async def test_a_subscription_to_one_case_hears_of_no_other(stream: Stream) -> None:
    with stream.bus.subscribe(Event, case=CaseId("b")) as events:
        await stream.commit(goal(), case="a")
        await stream.commit(goal(), goal(), case="b")
        await stream.commit(goal(), case="a")
        assert at_hand(events) == [2, 3]


async def test_without_a_position_it_begins_here(stream: Stream) -> None:
    await stream.commit_many(5)
    with stream.bus.subscribe(Event) as events:
        await stream.commit_many(2)
        assert at_hand(events) == [6, 7]


@pytest.mark.parametrize("after", [0, 3, 4, 7])
async def test_behind_a_position_it_is_refilled_and_goes_on_live(stream: Stream, after: int) -> None:
    for _ in range(3):
        await stream.commit(goal(), goal())
    with stream.bus.subscribe(Event, after=after) as events:
        await stream.commit_many(3)
        assert at_hand(events) == list(range(after + 1, 10))
        await stream.commit_many(1)
        assert at_hand(events) == [10]


async def test_who_falls_behind_the_ring_reads_on_from_the_log() -> None:
    stream = await Stream(capacity=4).open()
    with stream.bus.subscribe(Event) as slow:
        await stream.commit_many(3)
        assert await take(slow, 1) == [1]
        await stream.commit_many(100)
        assert at_hand(slow) == list(range(2, 104))
        await stream.commit_many(2)
        assert at_hand(slow) == [104, 105]


class HaltingLog:
    """A log whose tail suspends before each batch, as that of a database does."""

    def __init__(self, stream: Stream, batch: int = 2) -> None:
        self._log: EventLog = stream.store.log
        self._batch = batch
        self.go = asyncio.Semaphore(0)

    async def tail(self, after: int = 0, tenant: str = "default") -> AsyncIterator[Sequence[Event]]:
        async for events in self._log.tail(after, tenant):
            for place in range(0, len(events), self._batch):
                await self.go.acquire()
                yield events[place : place + self._batch]


async def test_what_is_committed_while_the_log_is_read_comes_once_and_in_order() -> None:
    stream = await Stream(capacity=4).open()
    await stream.commit_many(20)
    log = HaltingLog(stream)
    stream.bus.log = log  # type: ignore[assignment]  # its tail is all that the bus needs
    with stream.bus.subscribe(Event, after=0) as events:
        reading = asyncio.create_task(take(events, 60))
        for _ in range(40):
            await asyncio.sleep(0)
            log.go.release()
            await stream.commit_many(1)
        for _ in range(40):
            log.go.release()
        assert await reading == list(range(1, 61))


async def test_what_was_committed_but_not_published_is_found_in_the_log() -> None:
    stream = await Stream().open()
    with stream.bus.subscribe(Event) as events:
        await stream.commit_many(2)
        assert at_hand(events) == [1, 2]
        await stream.store.close()
        await stream.store.open(lambda turns: None)  # somebody else's commits
        await stream.commit_many(3)
        await stream.store.close()
        await stream.store.open(stream.bus.publish)
        await stream.commit_many(1)
        assert at_hand(events) == [3, 4, 5, 6]
    assert stream.bus.gaps == 1


async def test_a_subscriber_that_never_reads_holds_nobody_up_and_costs_no_memory() -> None:
    stream = await Stream(capacity=8).open()
    with stream.bus.subscribe(Event) as frozen, stream.bus.subscribe(Event) as lively:
        for number in range(1, 200):
            await stream.commit_many(1)
            assert at_hand(lively) == [number]
        assert len(stream.bus.ring) <= 16
        assert frozen.pending == 0
        assert frozen.behind == 199
        assert stream.bus.lag == 199
        assert at_hand(frozen) == list(range(1, 200))


async def test_publishing_to_nobody_is_no_error_and_the_ring_stays_bounded() -> None:
    stream = await Stream(capacity=8).open()
    await stream.commit_many(100)
    assert stream.bus.position == 100
    assert len(stream.bus.ring) <= 16


async def test_a_waiting_subscriber_is_woken(stream: Stream) -> None:
    with stream.bus.subscribe(Event) as events:
        waiting = asyncio.create_task(take(events, 2))
        await asyncio.sleep(0)
        assert not waiting.done()
        await stream.commit(goal(), goal())
        assert await waiting == [1, 2]


async def test_an_event_of_another_kind_wakes_nobody_for_nothing(stream: Stream) -> None:
    with stream.bus.subscribe(ContextChanged) as events:
        waiting = asyncio.create_task(take(events, 1))
        await asyncio.sleep(0)
        await stream.commit(goal())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        await stream.commit(ContextChanged(facts={}))
        assert await waiting == [2]


async def test_a_cancelled_wait_loses_nothing(stream: Stream) -> None:
    found: list[int] = []
    with stream.bus.subscribe(Event) as events:
        for number in range(50):
            waiting = asyncio.create_task(take(events, 1))
            await asyncio.sleep(0)
            if number % 2:
                await stream.commit_many(1)  # it is woken, and cancelled before it runs
            waiting.cancel()
            for done in await asyncio.gather(waiting, return_exceptions=True):
                if isinstance(done, list):
                    found += done
        found += at_hand(events)
    assert found == list(range(1, 26))


async def test_waits_that_were_cancelled_do_not_pile_up(stream: Stream) -> None:
    with stream.bus.subscribe(Event) as events:
        for _ in range(500):
            waiting = asyncio.create_task(take(events, 1))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert len(stream.bus._waiting) < 10


async def test_a_batch_is_everything_at_hand(stream: Stream) -> None:
    with stream.bus.subscribe(Event) as events:
        await stream.commit(goal(), goal())
        await stream.commit(goal())
        assert [event.seq for event in await events.batch()] == [1, 2, 3]
        assert events.position == 3
        stream.bus.close()
        assert await events.batch() == ()


async def test_the_position_is_that_of_the_last_event_given_out(stream: Stream) -> None:
    with stream.bus.subscribe(GoalReached) as events:
        await stream.commit(goal(), ContextChanged(facts={}), goal())
        await anext(events)
        assert events.position == 1
        await anext(events)
        assert events.position == 3
    with stream.bus.subscribe(GoalReached, after=events.position) as again:
        await stream.commit(goal())
        assert at_hand(again) == [4]


async def test_closing_ends_every_subscription_once_it_has_seen_what_is_there(stream: Stream) -> None:
    with stream.bus.subscribe(Event) as ahead, stream.bus.subscribe(Event) as behind:
        await stream.commit_many(3)
        assert await take(ahead, 3) == [1, 2, 3]
        waiting = asyncio.create_task(take(ahead, 1))
        await asyncio.sleep(0)
        stream.bus.close()
        with pytest.raises(StopAsyncIteration):
            await anext(ahead)
        assert [event.seq async for event in behind] == [1, 2, 3]
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], StopAsyncIteration | RuntimeError)


async def test_a_subscription_that_was_left_says_so(stream: Stream) -> None:
    with stream.bus.subscribe(Event) as events:
        await stream.commit_many(2)
        await take(events, 1)
    with pytest.raises(HubClosedError, match="this subscription has been left; watch again, after its position"):
        await anext(events)


async def test_subscribers_are_counted_while_they_are_open(stream: Stream) -> None:
    with stream.bus.subscribe(Event), stream.bus.subscribe(Event):
        assert stream.bus.subscribers == 2
    assert stream.bus.subscribers == 0


async def test_a_forgotten_iterator_leaves_nothing_behind(stream: Stream) -> None:
    async def look_once() -> None:
        async for _ in stream.bus.subscribe(Event, after=0):
            break

    await stream.commit_many(1)
    for _ in range(100):
        await look_once()
    gc.collect()
    assert stream.bus.subscribers == 0
    assert not stream.bus._waiting


async def test_a_turn_that_is_published_from_another_thread_is_delivered_or_refused(stream: Stream) -> None:
    errors: list[BaseException] = []
    with stream.bus.subscribe(Event) as events:
        waiting = asyncio.create_task(take(events, 1))
        await asyncio.sleep(0)

        def foreign() -> None:
            try:
                asyncio.run(stream.commit_many(1))
            except StoreError as error:
                errors.append(error)

        thread = threading.Thread(target=foreign)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert "outside of the hub's event loop" in str(errors[0])
        await stream.commit_many(1)
        assert await waiting == [1]  # it is late, and not lost


@settings(max_examples=150, deadline=None)
@given(
    capacity=st.integers(1, 6),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("commit"), st.integers(1, 3), st.sampled_from(["a", "b"])),
            st.tuples(st.just("read"), st.integers(0, 2), st.integers(1, 5)),
        ),
        max_size=60,
    ),
    after=st.integers(0, 8),
)
def test_whoever_reads_when_it_likes_gets_each_event_once_and_in_order(
    capacity: int, steps: list[tuple[str, int, object]], after: int
) -> None:
    asyncio.run(_read_at_random(capacity, steps, after))


async def _read_at_random(capacity: int, steps: list[tuple[str, int, object]], after: int) -> None:
    stream = await Stream(capacity).open()
    subscriptions = [
        stream.bus.subscribe(Event, after=0),
        stream.bus.subscribe(GoalReached, case=CaseId("a"), after=0),
        stream.bus.subscribe(Event, after=after),
    ]
    found: list[list[int]] = [[], [], []]
    of_a: list[int] = []
    for what, number, how in steps:
        if what == "commit":
            position = stream.bus.position
            await stream.commit(*(goal() for _ in range(number)), case=str(how))
            of_a += range(position + 1, position + number + 1) if how == "a" else ()
        else:
            wanted = min(int(str(how)), subscriptions[number].behind)
            ready = at_hand_up_to(subscriptions[number], wanted)
            found[number] += ready
    for number, subscription in enumerate(subscriptions):
        found[number] += at_hand(subscription)
    assert found == [list(range(1, stream.bus.position + 1)), of_a, list(range(after + 1, stream.bus.position + 1))]


def at_hand_up_to(events: Subscription[Event], number: int) -> list[int]:
    found: list[int] = []
    for _ in range(number):
        step = events.__anext__()
        try:
            step.send(None)  # type: ignore[attr-defined]  # a coroutine
        except StopIteration as done:
            found.append(done.value.seq)
        else:
            step.close()  # type: ignore[attr-defined]  # a coroutine
            break
    return found


async def test_the_status_of_a_case_is_a_topic_like_any_other(stream: Stream) -> None:
    with stream.bus.subscribe(CaseStatusChanged) as events:
        await stream.commit(CaseStatusChanged(before=CaseStatus.RUNNING, after=CaseStatus.WAITING), goal())
        assert at_hand(events) == [1]


class TestBus(BusContract):
    """The bus keeps the contract that it states for others."""

    @pytest.fixture
    def make_bus(self) -> MakeBus:
        return Bus
