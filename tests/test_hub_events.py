"""Hearing what happens: watching, subscribing live, subscribing for good; in order, once, and without holding anybody up."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
import structlog

from casehub import (
    CaseCompleted,
    CaseDefinition,
    CaseEnded,
    CaseHub,
    CaseStarted,
    ContextChanged,
    Event,
    GoalReached,
    SettingsError,
    SignalReceived,
    WorkerEvent,
    WorkerExecutionCompleted,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
)
from casehub.errors import StoreUnavailableError
from tests.staging import Kept, idle

chain = CaseDefinition("chain", goal="c", signals=["note"])


@chain.worker(writes="b")
async def first(a: int) -> int:
    return a + 1


@chain.worker(writes="c")
async def second(b: int) -> int:
    return b + 1


def noted() -> CaseDefinition:
    """A definition whose cases take notes, one event pair each, and never end."""
    return CaseDefinition("noted", goal="never", external=["never"], signals=["note"])


async def run(hub: CaseHub, number: int = 1) -> None:
    for a in range(number):
        await (await hub.start(chain, a=a)).completed()


async def test_watching_shows_everything_from_here_on_in_order() -> None:
    async with CaseHub(chain) as hub:
        await run(hub)
        with hub.watch(Event) as events:
            await run(hub)
            seen = [await anext(events) for _ in range(events.behind)]
        assert seen[0].name == "CASE_STARTED"
        assert seen[-1].name == "CASE_COMPLETED"
        assert [event.seq for event in seen] == list(range(seen[0].seq, seen[0].seq + len(seen)))


async def test_watching_a_base_class_brings_exactly_its_subclasses() -> None:
    async with CaseHub(chain) as hub:
        with hub.watch(WorkerExecutionFinished) as events:
            await run(hub)
            assert [type(await anext(events)) for _ in range(2)] == [WorkerExecutionCompleted] * 2
            assert events.behind == 0 or not events.pending


async def test_watching_one_case() -> None:
    definition = noted()
    async with CaseHub(definition, store=Kept()) as hub:
        one, other = await hub.start(definition), await hub.start(definition)
        with hub.watch(SignalReceived, case=one.id) as events:
            await other.signal(note=1)
            await one.signal(note=2)
            event = await anext(events)
            assert event.case == one.id


@pytest.mark.parametrize("after", [0, 1, 5, 17])
async def test_watching_behind_a_position_refills_from_the_log_exactly_once_each(after: int) -> None:
    async with CaseHub(chain) as hub:
        await run(hub, 3)
        length = await hub.log.position()
        with hub.watch(Event, after=after) as events:
            await run(hub)
            seen = [(await anext(events)).seq for _ in range(await hub.log.position() - after)]
        assert seen == list(range(after + 1, await hub.log.position() + 1))
        assert await hub.log.position() > length


async def test_a_position_is_good_over_a_restart() -> None:
    store = Kept()
    seen: list[int] = []
    async with CaseHub(chain, store=store) as hub:
        with hub.watch(Event) as events:
            await run(hub)
            seen += [(await anext(events)).seq for _ in range(5)]
        position = events.position
    async with CaseHub(chain, store=store) as hub:
        await run(hub)
        with hub.watch(Event, after=position) as events:
            seen += [(await anext(events)).seq for _ in range(await hub.log.position() - position)]
        assert seen == list(range(1, await hub.log.position() + 1))


async def test_a_watcher_ends_when_the_hub_is_left_and_has_seen_everything_by_then() -> None:
    async def watch(hub: CaseHub) -> list[str]:
        with hub.watch(CaseEnded) as events:
            return [event.case async for event in events]

    async with CaseHub(chain) as hub:
        watching = asyncio.create_task(watch(hub))
        await idle()
        cases = [await hub.start(chain, a=a) for a in range(3)]
        for case in cases:
            await case.completed()
    assert await watching == [case.id for case in cases]


# ---- handlers


async def test_a_handler_hears_its_events_in_order_after_they_are_committed() -> None:
    store = Kept()
    seen: list[Event] = []
    async with CaseHub(chain, store=store) as hub:

        @hub.on(WorkerEvent)
        async def hear(event: WorkerEvent) -> None:
            assert event.seq <= await store.log.position()
            seen.append(event)

        await run(hub)
        await idle()
    assert [event.name for event in seen] == [
        *("WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED", "WORKER_EXECUTION_COMPLETED"),
        *("WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED", "WORKER_EXECUTION_COMPLETED"),
    ]


async def test_a_handler_that_is_subscribed_before_the_hub_is_entered_hears_all_of_it() -> None:
    hub = CaseHub(chain)
    seen: list[str] = []

    @hub.on(CaseStarted, CaseCompleted)
    async def hear(event: CaseStarted | CaseCompleted) -> None:
        seen.append(event.name)

    async with hub:
        await run(hub)
    assert seen == ["CASE_STARTED", "CASE_COMPLETED"]


async def test_a_handler_of_one_case_hears_of_no_other() -> None:
    definition = noted()
    seen: list[str] = []
    async with CaseHub(definition, store=Kept()) as hub:

        @hub.on(SignalReceived, case="mine")
        async def hear(event: SignalReceived) -> None:
            seen.append(event.case)

        for name in ("mine", "other"):
            await (await hub.start(definition, case_id=name)).signal(note=1)
    assert seen == ["mine"]


async def test_what_was_committed_before_the_hub_is_left_is_handed_on_before_it_has_been_left() -> None:
    seen: list[str] = []
    async with CaseHub(chain) as hub:

        @hub.on(GoalReached)
        async def hear(event: GoalReached) -> None:
            for _ in range(10):
                await asyncio.sleep(0)
            seen.append(event.goal)

        case = await hub.start(chain, a=1)
        await case.completed()
    assert seen == ["c"]


async def test_a_handler_that_raises_is_called_again_and_then_the_event_is_skipped_with_an_error() -> None:
    calls: Counter[str] = Counter()
    with structlog.testing.capture_logs() as said:
        async with CaseHub(chain) as hub:

            @hub.on(WorkerExecutionCompleted)
            async def hear(event: WorkerExecutionCompleted) -> None:
                calls[event.binding] += 1
                if event.binding == "first":
                    raise LookupError("no such page")

            await run(hub)
    assert calls == {"first": 3, "second": 1}
    errors = [entry for entry in said if entry["log_level"] == "error"]
    assert [(entry["event"], entry["kind"]) for entry in errors] == [
        ("subscriber.skipped_event", "WORKER_EXECUTION_COMPLETED")
    ]
    assert "hear" in errors[0]["handler"]


async def test_a_handler_that_raises_once_gets_the_event_again() -> None:
    calls: list[int] = []
    with structlog.testing.capture_logs():
        async with CaseHub(chain) as hub:

            @hub.on(GoalReached)
            async def hear(event: GoalReached) -> None:
                calls.append(event.seq)
                if len(calls) == 1:
                    raise LookupError("no such page")

            await run(hub)
    assert len(calls) == 2
    assert calls[0] == calls[1]


async def test_a_frozen_handler_holds_up_neither_cases_nor_others() -> None:
    seen: list[str] = []
    store = Kept()
    gate = asyncio.Event()
    async with CaseHub(chain, store=store) as hub:

        @hub.on(Event)
        async def frozen(event: Event) -> None:
            await gate.wait()

        @hub.on(CaseCompleted)
        async def lively(event: CaseCompleted) -> None:
            seen.append(event.case)

        await run(hub, 50)
        await idle()
        assert len(seen) == 50
        assert hub.runtime.bus.lag > 0
        gate.set()


async def test_a_handler_may_use_the_hub() -> None:
    definition = noted()
    async with CaseHub(chain, definition, store=Kept()) as hub:
        diary = await hub.start(definition)

        @hub.on(CaseCompleted)
        async def note(event: CaseCompleted) -> None:
            await diary.signal(note=event.case)

        case = await hub.start(chain, a=1)
        await case.completed()
        await idle()
        assert (await diary.context())["note"] == case.id


async def test_the_order_of_subscribing_changes_nothing_that_cases_do() -> None:
    traces: list[list[str]] = []
    for order in (("frozen", "lively"), ("lively", "frozen")):
        gate = asyncio.Event()
        async with CaseHub(chain) as hub:
            handlers: dict[str, Any] = {"frozen": lambda event, gate=gate: gate.wait(), "lively": _nothing}
            for name in order:
                hub.on(Event)(handlers[name])
            case = await hub.start(chain, a=1, case_id="x")
            await case.completed()
            traces.append([f"{event.name} {event.cause}" for event in await case.log.query(Event)])
            gate.set()
    assert traces[0] == traces[1]


async def _nothing(event: Event) -> None:
    pass


# ---- durable handlers


async def test_a_durable_handler_hears_everything_over_a_restart() -> None:
    store = Kept()
    seen: list[int] = []

    async def hear(event: Event) -> None:
        seen.append(event.seq)

    for number in range(3):
        hub = CaseHub(chain, store=store)
        if number != 1:
            hub.on(Event, durable="pager")(hear)  # the second hub runs without it
        async with hub:
            await run(hub)
            await idle()
            length = await hub.log.position()
    assert seen == list(range(1, length + 1))


async def test_a_new_durable_handler_begins_with_the_log() -> None:
    store = Kept()
    async with CaseHub(chain, store=store) as hub:
        await run(hub, 2)
    seen: list[str] = []
    hub = CaseHub(chain, store=store)

    @hub.on(CaseStarted, durable="late")
    async def hear(event: CaseStarted) -> None:
        seen.append(event.case)

    async with hub:
        await idle()
    assert len(seen) == 2


async def test_two_durable_handlers_keep_a_position_each() -> None:
    store = Kept()
    seen: dict[str, list[int]] = {"one": [], "other": []}

    def subscribe(hub: CaseHub, name: str) -> None:
        @hub.on(CaseStarted, durable=name)
        async def hear(event: CaseStarted) -> None:
            seen[name].append(event.seq)

    for names in (["one"], ["one", "other"], ["other"]):
        hub = CaseHub(chain, store=store)
        for name in names:
            subscribe(hub, name)
        async with hub:
            await run(hub)
            await idle()
    assert len(seen["one"]) == 2
    assert len(seen["other"]) == 3


async def test_a_durable_handler_that_was_called_off_in_the_middle_hears_that_event_again() -> None:
    store = Kept()
    seen: list[str] = []
    for number in range(2):
        hub = CaseHub(chain, store=store)

        @hub.on(GoalReached, durable="pager")
        async def hear(event: GoalReached, number: int = number) -> None:
            seen.append(event.case)
            if not number:
                await asyncio.Event().wait()

        try:
            async with hub:
                await run(hub)
                await idle()
                if not number:
                    raise KeyError("the process goes down")
        except KeyError:
            pass
    assert len(seen) == 3
    assert seen[0] == seen[1] != seen[2]


async def test_a_durable_handler_keeps_its_place_even_where_it_hears_nothing() -> None:
    store = Kept()
    hub = CaseHub(chain, store=store)
    hub.on(WorkerExecutionFailed, durable="pager")(_nothing)
    async with hub:
        await run(hub)
        await idle()
        position = await hub.log.position()
    assert await store.bookmark("pager") <= position


async def test_a_durable_name_is_given_once() -> None:
    hub = CaseHub(chain)
    hub.on(CaseStarted, durable="pager")(_nothing)
    with pytest.raises(SettingsError, match="two subscribers are called 'pager'"):
        hub.on(CaseEnded, durable="pager")(_nothing)


async def test_a_bookmark_that_cannot_be_kept_takes_nobody_down() -> None:
    class Forgetful(Kept):
        failures = 2

        async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
            if seq is not None and self.failures:
                self.failures -= 1
                raise StoreUnavailableError("the store is away")
            return await super().bookmark(subscriber, seq, tenant)

    store = Forgetful()
    seen: list[int] = []
    with structlog.testing.capture_logs():
        async with CaseHub(chain, store=store) as hub:

            @hub.on(CaseCompleted, durable="pager")
            async def hear(event: CaseCompleted) -> None:
                seen.append(event.seq)

            await run(hub, 4)
            await idle()
            length = await hub.log.position()
    assert len(seen) == 4
    assert await store.bookmark("pager") == length


async def test_nothing_is_shown_before_it_is_committed() -> None:
    store = Kept()
    definition = noted()
    gate = asyncio.Event()
    async with CaseHub(definition, store=store) as hub:
        case = await hub.start(definition)
        with hub.watch(ContextChanged) as events:
            store.before = lambda turns: gate.wait()
            signalling = asyncio.create_task(case.signal(note=1))
            await idle()
            looking = asyncio.create_task(case.context())
            await idle()
            assert events.behind == 0
            assert not looking.done()  # it is told what was committed, not what may be
            gate.set()
            await signalling
            assert (await anext(events)).facts == {"note": 1}
            assert (await looking)["note"] == 1


@pytest.mark.parametrize(("kind", "remedy"), [("CASE_COMPLETED", "CaseCompleted"), (CaseHub, "a class such as")])
async def test_what_is_no_class_of_events_is_refused_by_all_who_listen(kind: Any, remedy: str) -> None:
    d = CaseDefinition("d", signals=["s"])
    async with CaseHub(d) as hub:
        case = await hub.start(d)
        for listen in (lambda: hub.on(kind), lambda: hub.watch(kind)):
            with pytest.raises(SettingsError, match=f"is no class of events; give .*{remedy}"):
                listen()
        with pytest.raises(SettingsError, match="is no class of events"):
            await case.log.query(kind)
        await case.cancel()
