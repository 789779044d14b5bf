"""When the store says no: nothing is shown that is not in the log, nothing runs twice, nothing that came in is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import structlog

from casehub import (
    Case,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    ContextChanged,
    Event,
    FactError,
    LimitError,
    StoreError,
    WorkerExecutionCompleted,
    WorkerExecutionFailed,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.adapters.clock import VirtualClock
from casehub.errors import StoreUnavailableError
from casehub.events import CaseId
from casehub.policies import Retry
from casehub.spi import CommitResult, Committed, Conflict, Refused, TooLarge, Turn
from tests.staging import Away, Kept, idle


@pytest.fixture(autouse=True)
def _quiet_logs() -> Any:
    with structlog.testing.capture_logs() as said:
        yield said


def counted(runs: list[int]) -> CaseDefinition:
    d = CaseDefinition("d", goal="b", signals=["a", "note"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        runs.append(a)
        return a

    return d


async def ended(case: Case, clock: VirtualClock) -> None:
    """Wait for the end, letting time pass for whoever backs off."""
    waiting = asyncio.create_task(case.completed())
    for _ in range(200):
        await idle()
        if waiting.done():
            break
        clock.move("1s")
    await waiting


@pytest.mark.parametrize("lost", [False, True], ids=["not committed", "answer lost"])
@pytest.mark.parametrize("times", [1, 4])
async def test_a_store_that_is_away_for_a_while_costs_nothing(times: int, lost: bool) -> None:
    runs: list[int] = []
    definition, clock = counted(runs), VirtualClock()
    store = Away(lost=lost)
    async with CaseHub(definition, store=store, clock=clock) as hub:
        case = await hub.start(definition)
        store.times = times
        signalling = asyncio.create_task(case.signal(a=1))
        await ended(case, clock)
        assert (await signalling)["a"] == 1
        events = await case.log.query(Event)
        assert [event.version for event in events] == list(range(1, len(events) + 1))
        assert len(await case.log.query(WorkerScheduled)) == 1
        assert len(await case.log.query(WorkerExecutionCompleted)) == 1
        assert len(await case.log.query(ContextChanged)) == 2
    assert runs == [1]


@pytest.mark.parametrize("lost", [False, True], ids=["not committed", "answer lost"])
async def test_a_result_that_cannot_be_committed_at_once_is_committed_later_and_the_worker_not_run_again(
    lost: bool,
) -> None:
    runs: list[int] = []
    definition, clock = counted(runs), VirtualClock()
    store = Away(lost=lost)

    def away_for_results(turns: Sequence[Turn]) -> None:
        if any(isinstance(event, WorkerExecutionCompleted) for turn in turns for event in turn.events):
            store.before = None
            store.times = 3

    async with CaseHub(definition, store=store, clock=clock) as hub:
        case = await hub.start(definition, a=5)
        store.before = away_for_results
        await ended(case, clock)
        assert (await case.context())["b"] == 5
        assert len(await case.log.query(WorkerExecutionStarted)) == 1
    assert runs == [5]


async def test_while_a_commit_fails_nobody_sees_or_hears_what_is_not_in_the_log() -> None:
    definition, clock = counted([]), VirtualClock()
    store = Away()
    async with CaseHub(definition, store=store, clock=clock) as hub:
        case = await hub.start(definition)
        before = await hub.log.position()
        store.times = 3
        with hub.watch(Event) as events:
            suspending = asyncio.create_task(case.suspend())
            await idle()
            assert events.behind == 0
            assert await hub.log.position() == before
            assert not suspending.done()
            assert await case.status() is CaseStatus.WAITING
            for _ in range(20):
                await idle()
                clock.move("1s")
            await suspending
            assert await case.status() is CaseStatus.SUSPENDED
            assert (await anext(events)).name == "CASE_STATUS_CHANGED"


async def test_a_store_that_stays_away_is_asked_at_growing_intervals_and_not_in_a_loop() -> None:
    definition, clock = counted([]), VirtualClock()
    store = Away()
    async with CaseHub(definition, store=store, clock=clock) as hub:
        case = await hub.start(definition)
        store.times = 10**9
        signalling = asyncio.create_task(case.signal(note=1))
        for _ in range(60):
            await idle()
            clock.move("1s")
        asked = 10**9 - store.times
        assert 3 <= asked <= 12
        store.times = 0
        for _ in range(60):
            await idle()
            clock.move("1s")
        assert (await signalling)["note"] == 1


async def test_what_comes_in_while_the_store_is_away_is_taken_after_what_came_before() -> None:
    definition, clock = counted([]), VirtualClock()
    store = Away()
    async with CaseHub(definition, store=store, clock=clock) as hub:
        case = await hub.start(definition)
        store.times = 4
        signals = [asyncio.create_task(case.signal(note=1)), asyncio.create_task(case.signal(note=2))]
        await idle()
        signals.append(asyncio.create_task(case.signal(note=3)))
        for _ in range(20):
            await idle()
            clock.move("1s")
        await asyncio.gather(*signals)
        assert [fact.value for fact in await case.facts("note").history()] == [1, 2, 3]


async def test_a_store_that_is_away_for_one_case_holds_up_no_other() -> None:
    definition, clock = counted([]), VirtualClock()
    store = Kept()
    async with CaseHub(definition, store=store, clock=clock) as hub:
        bad, good = await hub.start(definition), await hub.start(definition)

        def away(turns: Sequence[Turn]) -> None:
            if any(turn.envelope.case == bad.id for turn in turns):
                raise StoreUnavailableError("away")

        store.before = away
        signalling = asyncio.create_task(bad.signal(note=1))
        await idle()
        await good.signal(a=1)
        await good.completed()
        store.before = None
        clock.move("1m")
        await idle()
        assert (await signalling)["note"] == 1


class Answering(Kept):
    """A store that gives some turns another answer than they deserve."""

    def __init__(self, answer: Any, kind: type[Event], times: int = 1) -> None:
        super().__init__()
        self.answer = answer
        self.kind = kind
        self.times = times

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        refused = False
        for turn in turns:
            hit = any(isinstance(event, self.kind) for event in turn.events)
            if refused:
                results.append(Conflict(0))
            elif hit and self.times:
                self.times -= 1
                refused = True
                results.append(self.answer)
            else:
                results += await super().commit([turn])
        return results


@pytest.mark.parametrize(
    ("answer", "error", "complaint"),
    [
        (
            TooLarge("CONTEXT_CHANGED", 2_000_000, 1_000_000),
            LimitError,
            "of 2,000,000 bytes is larger than the 1,000,000",
        ),
        (Refused("CONTEXT_CHANGED", "fact 'note': no such form"), FactError, "no such form"),
    ],
)
async def test_a_signal_that_the_store_cannot_write_is_refused_and_the_case_goes_on(
    answer: Any, error: type[Exception], complaint: str
) -> None:
    definition = counted([])
    store = Answering(answer, ContextChanged)
    async with CaseHub(definition, store=store) as hub:
        case = await hub.start(definition)
        with pytest.raises(error, match=complaint):
            await case.signal(note=1)
        assert dict(await case.context()) == {}
        await case.signal(a=1)
        await case.completed()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (TooLarge("CONTEXT_CHANGED", 2_000_000, 1_000_000), "LimitError"),
        (Refused("CONTEXT_CHANGED", "fact 'b': no such form"), "FactError"),
    ],
)
async def test_a_result_that_the_store_cannot_write_fails_its_attempt(answer: Any, error: str) -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", retry=Retry(1))
    async def work(a: int) -> int:
        return a

    store = Answering(answer, WorkerExecutionCompleted)
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d, a=1)
        await case.quiescent()
        failed = await case.log.query(WorkerExecutionFailed)
        assert [event.error for event in failed] == [error]
        assert (await case.state()).stalled


async def test_a_start_that_the_store_cannot_write_is_refused_and_its_id_is_free() -> None:
    definition = counted([])
    store = Answering(TooLarge("CONTEXT_CHANGED", 2, 1), ContextChanged)
    async with CaseHub(definition, store=store) as hub:
        with pytest.raises(LimitError):
            await hub.start(definition, case_id="x", a=1)
        case = await hub.start(definition, case_id="x", a=1)
        await case.completed()


async def test_a_conflict_folds_the_case_again_and_tries_once_more() -> None:
    definition = counted([])
    store = Answering(Conflict(0), ContextChanged, times=2)
    async with CaseHub(definition, store=store) as hub:
        case = await hub.start(definition)
        assert (await case.signal(note=1))["note"] == 1


async def test_a_case_that_somebody_else_writes_says_so_after_a_few_tries() -> None:
    definition = counted([])
    store = Answering(Conflict(0), ContextChanged, times=100)
    async with CaseHub(definition, store=store) as hub:
        case = await hub.start(definition)
        with pytest.raises(StoreError, match="is written by somebody else; one hub alone may own it"):
            await case.signal(note=1)


async def test_one_bad_turn_of_a_batch_fails_no_other() -> None:
    definition = counted([])
    store = Answering(TooLarge("CONTEXT_CHANGED", 2, 1), ContextChanged)
    async with CaseHub(definition, store=store) as hub:
        case = await hub.start(definition)
        results = await asyncio.gather(*(case.signal(note=n) for n in range(5)), return_exceptions=True)
        assert [isinstance(result, LimitError) for result in results] == [True, False, False, False, False]
        assert (await case.context())["note"] == 4


async def test_a_crash_of_the_store_itself_ends_the_hub_with_its_error() -> None:
    definition = counted([])
    store = Kept()

    def broken(turns: Sequence[Turn]) -> None:
        raise ZeroDivisionError("a bug in the store")

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - leaving the block is what raises
        async with CaseHub(definition, store=store) as hub:
            case = await hub.start(definition)
            store.before = broken
            await case.signal(note=1)
    assert caught.group_contains(ZeroDivisionError)


async def test_what_was_committed_is_good_for_whoever_opens_the_store_next() -> None:
    runs: list[int] = []
    definition = counted(runs)
    store = Kept()
    lost: list[CaseId] = []
    for number in range(20):
        with pytest.raises(KeyError):  # noqa: PT012 - the process goes down
            async with CaseHub(definition, store=store) as hub:
                case = await hub.start(definition, a=number)
                lost.append(case.id)
                for _ in range(number):
                    await asyncio.sleep(0)
                raise KeyError("the process goes down")
    async with CaseHub(definition, store=store) as hub:
        for number, case_id in enumerate(lost):
            assert (await hub.case(case_id).completed())["b"] == number
            assert len(await hub.case(case_id).log.query(WorkerScheduled)) == 1


def test_answers_of_a_store_are_values() -> None:
    assert Committed(5) == Committed(5)
    assert Conflict(1) != Conflict(2)


async def test_a_store_that_refuses_a_batch_whole_stops_no_other_case() -> None:
    runs: list[int] = []
    definition = counted(runs)
    store = Kept()
    async with CaseHub(definition, store=store) as hub:
        one, other = await hub.start(definition), await hub.start(definition)

        def refuse(turns: Sequence[Turn]) -> None:
            if turns[0].envelope.case == one.id:
                raise StoreError("that cannot be written")

        store.before = refuse
        with pytest.raises(FactError, match="that cannot be written"):
            await one.signal(a=1)
        await other.signal(a=2)
        await other.completed()
        store.before = None
        assert "a" not in await one.context()
        await one.kill()
    assert runs == [2]
