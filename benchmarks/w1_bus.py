"""W1: fan-out in the process. Every subscriber gets every event; what is measured is the delivery, not the event.

The bus gets turns of four events, as a step of the engine makes them, and its subscribers take part as users' do:
through `hub.on` (a function) and `hub.watch` (an iterator). Publishers let the loop go round after 64 events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from benchmarks.measure import Plan, Run, Sample, Table, interleaved, measured, table_of, until
from benchmarks.shapes import CHAIN3
from casehub import CaseHub, CaseId, ContextChanged, Envelope, Event, Turn

AWAITS = "plain loop of awaits (limit)"
QUEUES = "asyncio.Queue a subscriber"
BOUNDED = "asyncio.Queue(256) a subscriber"
ON = "casehub bus, hub.on"
WATCH = "casehub bus, hub.watch"
MEASURE = "deliveries in a second of CPU time"

SUBSCRIBERS = (1, 10, 100)
EVENTS_A_TURN = 4
TURNS_A_REPETITION = 16
EVENTS = EVENTS_A_TURN * TURNS_A_REPETITION
"""Events of one repetition, and how many are published before the loop goes round."""


class Listener:
    """What every subscriber does with an event."""

    __slots__ = ("heard", "total")

    def __init__(self) -> None:
        self.heard = 0
        self.total = 0

    async def hear(self, event: Event) -> None:
        self.heard += 1
        self.total += event.version


def turns_of(events: int) -> list[Turn]:
    """Committed turns of one long case."""
    turns = []
    for first in range(1, events + 1, EVENTS_A_TURN):
        envelope = Envelope(case=CaseId("w1"), definition="w1", turn=first, version=first, seq=first)
        turn = Turn(envelope)
        for version in range(first, first + EVENTS_A_TURN):
            turn.events.append(ContextChanged(facts={"facts": version}, envelope=envelope, version=version))
        turns.append(turn)
    return turns


def events_of(events: int) -> list[Event]:
    return [event for turn in turns_of(events) for event in turn.events]


def check(listeners: Sequence[Listener], events: int) -> None:
    for listener in listeners:
        assert (listener.heard, listener.total) == (events, events * (events + 1) // 2)


async def awaits(subscribers: int, repetitions: int) -> Sample:
    events = events_of(EVENTS * repetitions)
    listeners = [Listener() for _ in range(subscribers)]
    handlers = [listener.hear for listener in listeners]
    with measured(len(events) * subscribers) as sample:
        for event in events:
            for handler in handlers:
                await handler(event)
    check(listeners, len(events))
    return sample


async def queues(subscribers: int, repetitions: int, bound: int = 0) -> Sample:
    events = events_of(EVENTS * repetitions)
    listeners = [Listener() for _ in range(subscribers)]
    waiting: list[asyncio.Queue[Event]] = [asyncio.Queue(bound) for _ in listeners]

    async def serve(listener: Listener, queue: asyncio.Queue[Event]) -> None:
        for _ in range(len(events)):
            await listener.hear(await queue.get())

    with measured(len(events) * subscribers) as sample:
        async with asyncio.TaskGroup() as group:
            for listener, queue in zip(listeners, waiting, strict=True):
                group.create_task(serve(listener, queue))
            for number, event in enumerate(events, 1):
                for queue in waiting:
                    if bound:
                        await queue.put(event)
                    else:
                        queue.put_nowait(event)
                if number % EVENTS == 0:
                    await asyncio.sleep(0)
    check(listeners, len(events))
    return sample


async def on(subscribers: int, repetitions: int) -> Sample:
    def subscribe(hub: CaseHub, listener: Listener, group: asyncio.TaskGroup) -> None:
        hub.on(Event)(listener.hear)

    return await _bus(subscribers, repetitions, subscribe)


async def watch(subscribers: int, repetitions: int) -> Sample:
    async def follow(hub: CaseHub, listener: Listener) -> None:
        with hub.watch(Event) as events:
            async for event in events:
                await listener.hear(event)

    def subscribe(hub: CaseHub, listener: Listener, group: asyncio.TaskGroup) -> None:
        group.create_task(follow(hub, listener))

    return await _bus(subscribers, repetitions, subscribe)


async def _bus(
    subscribers: int, repetitions: int, subscribe: Callable[[CaseHub, Listener, asyncio.TaskGroup], None]
) -> Sample:
    turns = turns_of(EVENTS * repetitions)
    events = EVENTS * repetitions
    listeners = [Listener() for _ in range(subscribers)]
    async with asyncio.TaskGroup() as group, CaseHub(CHAIN3.definition()) as hub:
        for listener in listeners:
            subscribe(hub, listener, group)
        for _ in range(3):
            await asyncio.sleep(0)  # they take their places
        publish = hub.runtime.bus.publish
        with measured(events * subscribers) as sample:
            for first in range(0, len(turns), TURNS_A_REPETITION):
                for turn in turns[first : first + TURNS_A_REPETITION]:
                    publish((turn,))
                await asyncio.sleep(0)
            await until(lambda: all(listener.heard >= events for listener in listeners))
    check(listeners, events)
    return sample


async def run(plan: Plan) -> Sequence[Table]:
    peers: dict[str, Callable[[int, int], Awaitable[Sample]]] = {
        AWAITS: awaits,
        QUEUES: queues,
        BOUNDED: partial(queues, bound=256),
        ON: on,
        WATCH: watch,
    }
    runs: dict[tuple[str, str], Run] = {
        (name, f"{number} sub"): partial(peer, number) for number in SUBSCRIBERS for name, peer in peers.items()
    }
    samples = await interleaved(plan, runs, probe=1, most=2_000)
    return [table_of("W1", MEASURE, "/s", "more", AWAITS, samples, lambda each: each.per_cpu_second)]
