"""What may happen between two awaits of the engine: nobody waits for ever, nothing is lost, taken twice or shown early."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

import pytest
import structlog

from casehub import (
    Case,
    CaseCompleted,
    CaseDefinition,
    CaseHub,
    CaseHubError,
    CaseStarted,
    CaseStatus,
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    DefinitionAdopted,
    DeliberationFailed,
    DeliberationStarted,
    Event,
    HubClosedError,
    InputRefusedError,
    LimitError,
    Retry,
    StoreError,
    StoreUnavailableError,
    TimerFired,
    WorkerExecutionCompleted,
    WorkerExecutionExpired,
    present,
)
from casehub.adapters.clock import VirtualClock
from casehub.binding import Binding
from casehub.errors import UnknownNameError
from casehub.events import CaseId
from casehub.inputs import Resume, Suspend, TimerDue, Write
from casehub.spi import CommitResult, Committed, Conflict, DueTimer, TooLarge, Turn
from tests.engine.core import Core
from tests.staging import Away, Kept, idle


@pytest.fixture(autouse=True)
def _quiet_logs() -> Any:
    with structlog.testing.capture_logs() as said:
        yield said


def noted() -> CaseDefinition:
    """A definition whose cases take notes until they are told that they are done."""
    return CaseDefinition("d", goal="done", signals=["done", "note"])


def failing_once(tries: list[float], clock: VirtualClock, wait: str) -> CaseDefinition:
    """A definition whose worker fails the first time; `tries`: when it was tried."""
    d = CaseDefinition("d", goal="b", signals=["a"])

    @d.worker(writes="b", retry=Retry(2, wait=wait, jitter=False))
    async def work(a: int) -> int:
        tries.append(clock.monotonic())
        if len(tries) < 2:
            raise OSError("away")
        return a

    return d


class Picky(Kept):
    """A store that takes no turn with a note of text, whatever else is in its batch."""

    answer: CommitResult = TooLarge("CONTEXT_CHANGED", 2, 1)

    def refuses(self, turn: Turn) -> bool:
        return any(isinstance(getattr(event, "facts", {}).get("note"), str) for event in turn.events)

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        for turn in turns:
            if not all(isinstance(result, Committed) for result in results):
                results.append(Conflict(0))
            elif self.refuses(turn):
                results.append(self.answer)
            else:
                results += await super().commit([turn])
        return results


# ---- whoever waits when the hub is left


async def left_in_the_middle(ask: Callable[[Case], Coroutine[Any, Any, Any]], store: Kept, stop: str) -> None:
    """Leave a hub while somebody waits for an answer that will not come."""
    d = noted()
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d)
        if stop == "commit":
            store.before = lambda turns: asyncio.Event().wait()
        waiting = asyncio.create_task(ask(case))
        await idle()
    async with asyncio.timeout(60):
        with pytest.raises(HubClosedError):
            await waiting


async def test_whoever_waits_for_a_turn_is_told_when_the_hub_is_left_in_the_middle_of_its_commit() -> None:
    await left_in_the_middle(lambda case: case.signal(note=1), Kept(), "commit")


async def test_whoever_asks_the_store_first_is_told_when_the_hub_is_left_meanwhile() -> None:
    class Slow(Kept):
        gate = asyncio.Event()

        async def outcome(self, *args: Any, **options: Any) -> int | None:
            await self.gate.wait()
            return None

        async def close(self) -> None:
            await super().close()
            self.gate.set()

    await left_in_the_middle(lambda case: case.signal(note=1, key="k"), Slow(), "outcome")


async def test_a_case_that_is_asked_while_the_hub_closes_its_store_says_that_the_hub_is_closed() -> None:
    class Slow(Kept):
        async def close(self) -> None:
            await asyncio.sleep(0.02)
            await super().close()

    async def signal(case: Case) -> None:
        while True:
            await case.signal(note=1)
            await asyncio.sleep(0.001)

    d = noted()
    async with CaseHub(d, store=Slow()) as hub:
        signalling = asyncio.create_task(signal(await hub.start(d)))
        await asyncio.sleep(0.005)
    with pytest.raises(HubClosedError):
        await signalling


async def test_what_a_reader_asks_wrongly_in_the_middle_of_a_commit_is_its_own_error() -> None:
    store, d, gate = Kept(), noted(), asyncio.Event()
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d)
        store.before = lambda turns: gate.wait()
        signalling = asyncio.create_task(case.signal(note=1))
        await idle()
        asking = asyncio.create_task(case.explain("nobody"))
        await idle()
        gate.set()
        with pytest.raises((InputRefusedError, UnknownNameError)):
            await asking
        await signalling


async def test_waits_that_time_out_leave_nothing_behind() -> None:
    d, clock = noted(), VirtualClock()
    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        case = await hub.start(d)
        for _ in range(20):
            waiting = asyncio.create_task(case.completed(timeout="1s"))
            await idle()
            clock.move("1s")
            with pytest.raises(TimeoutError):
                await waiting
        assert not (await hub.pump(case.id)).waiters


# ---- batches


@pytest.mark.parametrize("bad", [1, 6])
async def test_inputs_behind_many_that_the_store_refuses_are_taken(bad: int) -> None:
    d = noted()
    async with CaseHub(d, store=Picky()) as hub:
        case = await hub.start(d)
        notes = [*map(str, range(bad)), 5, 6]
        results = await asyncio.gather(*(case.signal(note=note) for note in notes), return_exceptions=True)
        assert [isinstance(result, LimitError) for result in results] == [True] * bad + [False, False]
        assert (await case.context())["note"] == 6


async def test_a_result_behind_many_inputs_that_the_store_refuses_is_not_lost() -> None:
    d, gate = noted(), asyncio.Event()

    @d.worker(writes="b")
    async def work(done_soon: int) -> int:
        await gate.wait()
        return done_soon

    store, answer = Picky(), asyncio.Event()
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d, done_soon=1)
        await idle()
        store.before = lambda turns: answer.wait()
        pump = await hub.pump(case.id)
        for note in (0, *map(str, range(6))):  # while the first is committed, the others make a batch
            pump.post(Write(signals=("note",), facts={"note": note}))  # type: ignore[dict-item]  # mixed on purpose
            await idle()
        gate.set()
        await idle()
        answer.set()
        async with asyncio.timeout(60):
            await case.quiescent()
        assert len(await case.log.query(WorkerExecutionCompleted)) == 1


async def test_a_turn_that_fails_in_the_store_takes_none_of_its_batch_with_it() -> None:
    class Broken(Picky):
        async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
            if any(map(self.refuses, turns)):
                raise StoreError("it cannot be written")
            return await Kept.commit(self, turns)

    d = noted()
    async with CaseHub(d, store=Broken()) as hub:
        case = await hub.start(d)
        notes = [1, 2, "bad", 4, 5]
        results = await asyncio.gather(*(case.signal(note=note) for note in notes), return_exceptions=True)
        assert [isinstance(result, CaseHubError) for result in results] == [False, False, True, False, False]


async def test_a_key_is_remembered_though_its_input_changed_nothing() -> None:
    d = noted()
    async with CaseHub(d, store=Kept()) as hub:
        case = await hub.start(d)
        await case.signal(note=1)
        await case.signal(note=1, key="k")
        await case.signal(note=2)
        assert (await case.signal(note=1, key="k"))["note"] == 2
        assert hub.runtime.bus.position == await hub.log.position()
        assert hub.runtime.bus.gaps == 0


async def test_what_is_posted_behind_a_start_that_the_store_refuses_begins_no_case() -> None:
    class Refusing(Picky):
        def refuses(self, turn: Turn) -> bool:
            return any(isinstance(event, CaseStarted) for event in turn.events)

    d = noted()
    async with CaseHub(d, store=Refusing()) as hub:
        starting = asyncio.create_task(hub.start(d, case_id="x"))
        while not hub._residents_now.resident:  # noqa: ASYNC110 - the start itself is waited for
            await asyncio.sleep(0)
        signalling = asyncio.create_task(hub.case("x").signal(note=2))
        waiting = asyncio.create_task(hub.case("x").completed())
        errors = await asyncio.gather(starting, signalling, waiting, return_exceptions=True)
        assert [type(error) for error in errors] == [LimitError, InputRefusedError, InputRefusedError]
        assert await hub.log.position() == 0


# ---- what is committed, and nothing else


async def test_what_was_committed_though_its_answer_was_lost_is_published() -> None:
    class Silent(Kept):
        lose = False

        async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
            await super().open(lambda turns: None if self.lose else published(turns))

        async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
            if not self.lose:
                return await super().commit(turns)
            await super().commit(deepcopy(turns))  # so that nobody here knows their positions
            self.lose = False
            raise StoreUnavailableError("the answer is lost")

    d, store = noted(), Silent()
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d)
        with hub.watch(CaseCompleted) as events:
            store.lose = True
            await case.signal(done=1)
            async with asyncio.timeout(60):
                ended = await anext(events)
        assert ended.seq == await hub.log.position()


async def test_a_worker_that_looks_in_sees_nothing_that_is_not_committed() -> None:
    seen: list[dict[str, Any]] = []
    d = CaseDefinition("d", goal="b", signals=["a", "note"])

    async def look(a: int, case: CaseView) -> int:
        seen.append(dict(case.context))
        return a

    d.worker(name="one", writes="b")(look)
    d.worker(name="two", writes="c")(look)
    store = Kept()

    def away(turns: Sequence[Turn]) -> None:
        if any(isinstance(event, ContextChanged) and "note" in event.facts for turn in turns for event in turn.events):
            raise StoreUnavailableError("away")

    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d)
        pump = await hub.pump(case.id)
        store.before = away
        signalling = asyncio.create_task(case.signal(a=1))
        while not pump.attempts:  # noqa: ASYNC110 - the moment between the commit and the work
            await asyncio.sleep(0)
        pump.post(Write(signals=("note",), facts={"note": 1}))
        await idle()
        store.before = None
        await signalling
        await case.quiescent()
        assert len(seen) == 2
        assert not any("note" in facts for facts in seen)


async def test_a_worker_whose_start_was_committed_without_an_answer_knows_what_time_it_is() -> None:
    seen: list[datetime] = []
    d = CaseDefinition("d", goal="b", signals=["a"])

    @d.worker(writes="b", retry=Retry(1))
    async def work(a: int, case: CaseView) -> int:
        seen.append(case.now)
        await case.log.count(CaseStarted, since="7d")
        return a

    store, clock = Away(lost=True), VirtualClock()
    async with CaseHub(d, store=store, clock=clock) as hub:
        case = await hub.start(d)
        store.times = 1
        await case.signal(a=1)
        assert (await case.completed())["b"] == 1
        assert seen == [clock.now()]


# ---- deliberations


class Choosing(ChoreographyLoopControl):
    """Chooses everything, as soon as its test lets it. `asked`: at which versions."""

    immediate = False

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked: list[int] = []

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        self.asked.append(case.version)
        await self.open.wait()
        return list(eligible)


def stepping(*more: str) -> CaseDefinition:
    d = CaseDefinition("d", goal="b", signals=["a", "note"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    for name in more:
        d.worker(name=name, writes=name)(work)
    return d


async def left_deliberating(store: Kept) -> None:
    loop = Choosing()
    async with CaseHub(stepping(), store=store, loop=loop) as hub:
        await hub.start("d", case_id="x", a=1)
        await idle()
        assert loop.asked


async def test_a_deliberation_that_was_under_way_is_made_up_for_under_another_structure() -> None:
    store, loop = Kept(), Choosing()
    await left_deliberating(store)
    loop.open.set()
    async with CaseHub(stepping("more"), store=store, loop=loop) as hub:
        assert (await hub.case("x").completed())["b"] == 1
        assert len(await hub.case("x").log.query(DefinitionAdopted)) == 1


@pytest.mark.parametrize("lost", [False, True], ids=["not committed", "answer lost"])
async def test_a_deliberation_that_was_under_way_is_made_up_for_when_the_store_is_away_for_it(lost: bool) -> None:
    store, loop = Away(lost=lost), Choosing()
    await left_deliberating(store)
    store.times = 1
    loop.open.set()
    async with CaseHub(stepping(), store=store, loop=loop) as hub:
        assert (await hub.case("x").completed())["b"] == 1


async def test_a_deliberation_that_is_called_off_before_it_has_begun_asks_nobody() -> None:
    loop, d = Choosing(), stepping()
    async with CaseHub(d, store=Kept(), loop=loop) as hub:
        case = await hub.start(d)
        pump = await hub.pump(case.id)
        pump.post(Write(signals=("a",), facts={"a": 1}))
        for number in range(15):  # the rest of a batch: what it starts is not begun before the next one is taken
            pump.post(Write(signals=("note",), facts={"note": number}))
        pump.post(Suspend())
        pump.post(Resume())
        await idle()
        assert len(await case.log.query(DeliberationStarted)) == 2
        assert len(loop.asked) == 1
        loop.open.set()
        await case.completed()


# ---- timers


async def test_a_timer_that_is_set_and_due_while_the_store_is_asked_for_timers_fires() -> None:
    class Slow(Kept):
        gate: asyncio.Event | None = None

        async def due(self, now: Any, limit: int = 100) -> Sequence[DueTimer]:
            found = await super().due(now, limit)
            if (gate := self.gate) is not None:
                self.gate = None
                await gate.wait()
            return found

    store, clock, tries = Slow(), VirtualClock(), list[float]()
    d = failing_once(tries, clock, "0s")
    async with CaseHub(d, store=store, clock=clock) as hub:
        case = await hub.start(d)
        await idle()
        gate = store.gate = asyncio.Event()
        hub.runtime.wheel.note(clock.now())
        await idle()
        await case.signal(a=1)  # fails, and is tried again at once
        await idle()
        gate.set()
        await idle()
        assert len(tries) == 2


async def test_alarms_go_off_in_time_however_long_the_store_takes_for_timers() -> None:
    class Slow(Kept):
        gate = asyncio.Event()

        async def due(self, now: Any, limit: int = 100) -> Sequence[DueTimer]:
            await self.gate.wait()
            return await super().due(now, limit)

    store, clock = Slow(), VirtualClock()
    store.gate.set()
    d = CaseDefinition("d", goal="b", signals=["note"])
    d.milestone("in time", present("b"), sla="1s")

    @d.worker(writes="b", timeout="5s", retry=Retry(1))
    async def work(a: int) -> int:
        await clock.sleep("1h")
        return a

    async with CaseHub(d, store=store, clock=clock) as hub:
        case = await hub.start(d, a=1)
        await idle()
        store.gate.clear()
        for _ in range(3):
            clock.move("2s")
            await idle()
        assert len(await case.log.query(WorkerExecutionExpired)) == 1
        assert len(await case.log.query(TimerFired)) == 0
        store.gate.set()
        await idle()
        assert len(await case.log.query(TimerFired)) == 1


async def test_a_hub_that_works_only_what_it_is_asked_for_makes_up_for_what_came_due_before() -> None:
    store, clock, tries = Kept(), VirtualClock(), list[float]()
    d = failing_once(tries, clock, "10s")
    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.start(d, case_id="x", a=1)
        await idle()
    clock.move("1m")
    async with CaseHub(d, store=store, clock=clock, resume=False) as hub:
        await idle()
        assert len(tries) == 1
        assert (await hub.case("x").completed())["b"] == 1


def test_a_timer_that_was_set_anew_since_it_came_due_does_not_fire_before_its_time() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", retry=Retry(3, wait="10s", factor=1, jitter=False))
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.raises("work", OSError("away"))
    ((timer, due),) = core.state.timers.items()
    core.pass_time("10s")
    core.raises("work", OSError("away"))
    assert core.take(TimerDue(timer=timer, due=due)) == []  # brought a second time, and late
    assert core.running == []
    core.pass_time("10s")
    assert core.running == ["work"]


async def test_a_timer_that_is_brought_twice_fires_at_the_times_that_it_is_set_for() -> None:
    store, clock = Kept(), VirtualClock()
    tries: list[float] = []
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", retry=Retry(4, wait="10s", factor=1, jitter=False))
    async def work(a: int) -> int:
        tries.append(clock.monotonic())
        raise OSError("away")

    async with CaseHub(d, store=store, clock=clock) as hub:
        case = await hub.start(d, a=1)
        await idle()
        ((timer, due),) = (await case.state()).timers.items()
        clock.move("10s")
        await idle()
        await hub._residents_now.timer_due(DueTimer("default", case.id, timer, due))
        for _ in range(30):
            clock.move("1s")
            await idle()
        assert tries == [0.0, 10.0, 20.0, 30.0]
        assert len(await case.log.query(TimerFired)) == 3


# ---- leaving and coming back


async def test_draining_while_the_store_is_away_does_not_keep_the_processor_busy() -> None:
    store, clock, d = Away(), VirtualClock(), noted()
    async with CaseHub(d, store=store, clock=clock) as hub:
        case = await hub.start(d)
        store.times = 10**9
        signalling = asyncio.create_task(case.signal(note=1))
        for _ in range(5):
            await idle()
            clock.move("1s")
        draining = asyncio.create_task(hub.drain("1h"))
        await asyncio.wait_for(idle(), 60)  # it would never come to rest
        store.times = 0
        clock.move("1m")
        assert await draining
        await signalling


async def test_draining_starts_nothing_new_however_many_inputs_wait() -> None:
    ran: list[str] = []
    gate = asyncio.Event()
    d = CaseDefinition("d", goal="never", external=["never", "note"])

    async def first(a: int) -> int:
        await gate.wait()
        return a

    d.worker(name="one", writes="b")(first)
    d.worker(name="two", writes="c")(first)

    @d.worker(writes="d")
    async def three(b: int) -> int:
        ran.append("three")
        return b

    @d.worker(writes="e")
    async def four(c: int) -> int:
        ran.append("four")
        return c

    store = Kept()
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d, a=1)
        await idle()
        store.before = lambda turns: asyncio.sleep(0)
        draining = asyncio.create_task(hub.drain())
        await asyncio.sleep(0)
        gate.set()
        pump = await hub.pump(case.id)
        for number in range(30):
            pump.post(Write(facts={"note": number}))
            await asyncio.sleep(0)
        assert await draining
        assert ran == []


async def test_stalled_cases_leave_memory_beyond_the_bound_and_are_stalled_when_they_come_back() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", retry=Retry(1))
    async def work(a: int) -> int:
        raise OSError("away")

    async with CaseHub(d, store=Kept(), resident=2) as hub:
        for number in range(10):
            await hub.start(d, case_id=f"x{number}", a=1)
            await idle()
        assert hub._residents_now.resident <= 3
        position = await hub.log.position()
        assert (await hub.case("x0").state()).stalled
        await idle()
        assert await hub.log.position() == position


async def test_what_holds_already_under_the_structure_that_is_adopted_is_found() -> None:
    store = Kept()
    old = CaseDefinition("d", goal="b", signals=["a", "b"])
    async with CaseHub(old, store=store) as hub:
        case = await hub.start(old, case_id="x")
        await case.signal(a=1)
    new = CaseDefinition("d", goal="a", signals=["a", "b"])
    new.milestone("seen", present("a"))
    async with CaseHub(new, store=store) as hub:
        case = hub.case("x")
        await case.completed()
        names = [event.name for event in await case.log.query(Event)]
        assert names[names.index("DEFINITION_ADOPTED") :] == [
            "DEFINITION_ADOPTED",
            "MILESTONE_ACTIVATED",
            "MILESTONE_REACHED",
            "GOAL_REACHED",
            "CASE_COMPLETED",
        ]


async def test_a_loop_control_that_cannot_fold_one_log_parks_that_case_and_no_other() -> None:
    class Forgetful(ChoreographyLoopControl):
        handles = frozenset({CaseStarted})

        def apply(self, control: Any, event: Event) -> Any:
            if event.case == "bad":
                raise KeyError("what it knew")
            return control

    d, store = stepping(), Kept()
    async with CaseHub(d, store=store, loop=(held := Choosing())) as hub:
        for name in ("bad", "good"):
            await hub.start(d, case_id=name, a=1)
        await idle()
        assert held.asked
    async with CaseHub(d, store=store, loop=Forgetful()) as hub:
        assert (await hub.case("good").completed())["b"] == 1
        assert list(hub.parked) == ["bad"]
        assert "mend its apply" in hub.parked[CaseId("bad")]


async def test_a_loop_control_with_a_deadline_that_is_none_fails_its_deliberations_and_nothing_else() -> None:
    class Endless(Choosing):
        deadline = "whenever"

    d = stepping()
    async with CaseHub(d, store=Kept(), clock=VirtualClock(), loop=Endless()) as hub:
        case = await hub.start(d, a=1)
        await idle()
        assert len(await case.log.query(DeliberationFailed)) == 1


async def test_a_case_whose_workers_never_wait_lets_the_event_loop_go_round() -> None:
    d = CaseDefinition("d", goal="never", external=["never"])

    @d.worker(writes="n", refire="always", limit=500)
    async def spin(start: int, n: int = 0) -> int:
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.0002:
            pass
        return n + 1

    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    async with CaseHub(d, store=Kept()) as hub:
        counting = asyncio.create_task(count())
        case = await hub.start(d, start=1)
        await case.quiescent()
        counting.cancel()
        assert rounds > 50


async def test_a_subscriber_waits_for_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.patience.AGAIN", 0.01)

    class Moody(Kept):
        failures = 2

        async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
            if seq is None and subscriber == "pager" and self.failures:
                self.failures -= 1
                raise StoreUnavailableError("away")
            return await super().bookmark(subscriber, seq, tenant)

    seen: list[str] = []
    d, store = noted(), Moody()
    clock = VirtualClock()
    hub = CaseHub(d, store=store, clock=clock)

    @hub.on(CaseStarted, durable="pager")
    async def hear(event: CaseStarted) -> None:
        seen.append(event.case)

    async with hub:
        case = await hub.start(d)
        for _ in range(5):
            await idle()
            clock.move("1s")
        assert await case.status() is CaseStatus.WAITING
    assert seen == [case.id]
    assert store.failures == 0


def test_a_fault_says_why_in_text_that_any_store_can_write() -> None:
    d = CaseDefinition("d", goal="b", signals=["a"])

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def guard(a: int) -> bool:
        raise ValueError("half \ud800 a pair") if a else MuteError()

    @d.worker(writes="b", when=guard)
    async def work(a: int) -> int:
        return a

    for a in (0, 1):
        core = Core(d)
        core.start()
        core.signal(a=a)
        assert core.status is CaseStatus.FAULTED
        core.state.reason.encode()
