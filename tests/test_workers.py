"""Workers at work: what they are given, where they run, how they are timed, cancelled and counted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from casehub import (
    Budget,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    CaseView,
    Declined,
    Retry,
    SettingsError,
    Verdict,
    WorkerExecution,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionStarted,
    WorkerResultDropped,
)
from casehub.adapters.clock import VirtualClock
from casehub.engine.executor import LocalExecutor
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


def one(function: Any, **options: Any) -> CaseDefinition:
    """A definition with this worker, which writes the goal `done`; the signal `note` may come."""
    d = CaseDefinition("d", goal="done", signals=["note"])
    d.worker(name="work", writes="done", **options)(function)
    return d


# ---- what they are given


async def test_a_worker_reads_typed_facts_and_what_it_does_to_them_changes_nothing() -> None:
    async def work(basket: Basket) -> int:
        basket.items.append("stolen")
        return len(basket.items)

    async with CaseTestKit(one(work)) as kit:
        case = await kit.start("d", basket=Basket(["tea"]))
        context = await case.completed()
        assert context["done"] == 2
        assert context["basket"] == Basket(["tea"])


async def test_each_attempt_gets_fresh_objects() -> None:
    seen: list[list[str]] = []

    async def work(basket: Basket) -> int:
        seen.append(list(basket.items))
        basket.items.append("x")
        if len(seen) < 3:
            raise OSError("away")
        return 1

    async with CaseTestKit(one(work)) as kit:
        await kit.start("d", basket=Basket(["tea"]))
        await kit.advance("1h")
    assert seen == [["tea"]] * 3


async def test_what_a_worker_returns_is_not_shared_with_the_case() -> None:
    kept: list[dict[str, int]] = []

    async def work(a: int) -> dict[str, int]:
        kept.append({"x": a})
        return kept[0]

    async with CaseTestKit(one(work)) as kit:
        case = await kit.start("d", a=1)
        await case.completed()
        kept[0]["x"] = 99
        assert (await case.context())["done"] == {"x": 1}


async def test_an_optional_parameter_gets_its_default_or_the_fact() -> None:
    async def work(a: int, note: str = "none") -> str:
        return note

    d = one(work)
    async with CaseTestKit(d) as kit:
        without, with_it = await kit.start(d, a=1), await kit.start(d, a=1, note="x")
        assert (await without.completed())["done"] == "none"
        assert (await with_it.completed())["done"] == "x"


async def test_a_worker_may_see_its_execution_and_its_case() -> None:
    seen: list[Any] = []

    async def work(a: int, execution: WorkerExecution, case: CaseView) -> int:
        seen.append(execution)
        started = await execution.log.query(WorkerExecutionStarted)
        assert [event.attempt for event in started] == [1]
        assert case.context["a"] == a
        assert case.in_flight == ("work",)
        return execution.attempt

    async with CaseTestKit(one(work)) as kit:
        case = await kit.start("d", a=5)
        assert (await case.completed())["done"] == 1
    assert (seen[0].activation, seen[0].idempotency_key, seen[0].binding) == ("d-1/work/1", "d-1/work/1", "work")
    assert seen[0].deadline is None


async def test_the_view_of_a_case_stays_as_it_was_when_the_attempt_began() -> None:
    gate = asyncio.Event()
    seen: list[Any] = []

    async def work(a: int, case: CaseView) -> int:
        before = (dict(case.context), case.version, case.status)
        await gate.wait()
        seen.append((before, (dict(case.context), case.version, case.status)))
        return a

    async with CaseTestKit(one(work)) as kit:
        case = await kit.start("d", a=1)
        await case.signal(note="x")
        gate.set()
        await case.completed()
    assert seen[0][0] == seen[0][1]
    assert "note" not in seen[0][1][0]


async def test_the_idempotency_key_is_the_same_for_all_attempts_and_another_for_the_next_activation() -> None:
    keys: list[tuple[str, int]] = []
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"])

    @d.worker(writes="b")
    async def work(a: int, execution: WorkerExecution) -> int:
        keys.append((execution.idempotency_key, execution.attempt))
        if execution.attempt < 2:
            raise OSError("away")
        return a

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.advance("1m")
        await case.signal(a=2)
        await kit.advance("1m")
    assert keys == [("d-1/work/1", 1), ("d-1/work/1", 2), ("d-1/work/2", 1), ("d-1/work/2", 2)]


# ---- where they run


async def test_async_workers_run_on_the_loop_and_sync_ones_off_it() -> None:
    threads: dict[str, threading.Thread] = {}
    d = CaseDefinition("d", goal="c")

    @d.worker(writes="b")
    async def on_the_loop(a: int) -> int:
        threads["async"] = threading.current_thread()
        return a

    @d.worker(writes="c")
    def off_the_loop(b: int) -> int:
        threads["sync"] = threading.current_thread()
        return b

    async with CaseHub(d) as hub:
        await (await hub.start(d, a=1)).completed()
    assert threads["async"] is threading.current_thread()
    assert threads["sync"] is not threading.current_thread()


async def test_a_sync_worker_that_blocks_holds_up_nobody() -> None:
    gate = threading.Event()

    def work(a: int) -> int:
        assert gate.wait(120)
        return a

    d = one(work)
    async with CaseHub(d) as hub:
        case = await hub.start(d, a=1)
        assert (await case.signal(note=1))["note"] == 1
        assert await case.status() is CaseStatus.RUNNING
        gate.set()
        await case.completed()


async def test_a_sync_worker_may_count_what_it_spends_and_say_that_it_goes_on() -> None:
    def work(a: int, execution: WorkerExecution) -> int:
        execution.charge(tokens=5)
        execution.heartbeat()
        return a

    d = one(work, timeout="1m")
    async with CaseHub(d, clock=VirtualClock()) as hub:
        case = await hub.start(d, a=1)
        await case.completed()
        assert (await case.state()).spending.usage["work", "tokens"] == 5


async def test_independent_workers_run_at_the_same_time() -> None:
    running: list[str] = []
    both = asyncio.Event()
    d = CaseDefinition("d", goal="never", external=["never"])

    async def work(a: int) -> int:
        running.append("x")
        if len(running) == 2:
            both.set()
        await both.wait()
        return a

    d.worker(name="x", writes="by_x")(work)
    d.worker(name="y", writes="by_y")(work)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        assert set(await case.context()) == {"a", "by_x", "by_y"}


async def test_a_chain_of_lone_workers_costs_no_task_each() -> None:
    d = CaseDefinition("d", goal="f10")

    async def step(value: int) -> int:
        await asyncio.sleep(0)
        return value + 1

    for n in range(10):
        namespace: dict[str, Any] = {"step": step}
        exec(f"async def w{n}(f{n}: int) -> int:\n    return await step(f{n})", namespace)
        d.worker(writes=f"f{n + 1}")(namespace[f"w{n}"])
    async with CaseHub(d) as hub:
        spawned: list[Any] = []
        spawn = hub.runtime.spawn
        hub.runtime.spawn = lambda *what: (spawned.append(what), spawn(*what))[1]
        assert (await (await hub.start(d, f0=0)).completed())["f10"] == 10
        assert len(spawned) == 1


async def test_a_case_that_never_pauses_lets_others_go_on() -> None:
    d = CaseDefinition("d", goal="never", external=["never"])

    @d.worker(writes="n", refire="always", limit=900)
    async def spin(start: int, n: int = 0) -> int:
        return n + 1

    quick = CaseDefinition("quick", goal="b")

    @quick.worker(writes="b")
    async def work(a: int) -> int:
        return a

    async with CaseHub(d, quick, store=Kept()) as hub:
        spinning = await hub.start(d, start=1)
        other = await hub.start(quick, a=1)
        await other.completed()
        assert (await spinning.context()).get("n", 0) < 900
        await spinning.quiescent()
        assert (await spinning.context())["n"] == 900


async def test_an_hour_long_worker_holds_up_neither_signals_nor_timers_nor_a_cancellation() -> None:
    kits: list[CaseTestKit] = []

    async def work(a: int) -> int:
        await kits[0].clock.sleep("1h")
        return a

    d = one(work)
    d.milestone("quick", lambda done: done > 0, sla="10m")
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        await case.signal(note=1)
        await kit.advance("10m")
        assert [event.name for event in kit.events(case)][-1] == "MILESTONE_SLA_VIOLATED"
        await case.cancel()
        assert await case.status() is CaseStatus.CANCELLED


# ---- time limits


def sleeping(kits: list[CaseTestKit], span: str = "1h") -> Any:
    async def work(a: int) -> int:
        await kits[0].clock.sleep(span)
        return a

    return work


async def test_an_attempt_past_its_time_limit_is_cancelled_and_expired() -> None:
    kits: list[CaseTestKit] = []
    ended: list[str] = []

    async def work(a: int) -> int:
        try:
            await kits[0].clock.sleep("1h")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return a

    d = one(work, timeout="30s", on_expired="fault_item")
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        await kit.advance("29.9s")
        assert ended == []
        await kit.advance("0.1s")
        assert ended == ["cancelled"]
        expired = kit.events(case, WorkerExecutionExpired)[0]
        assert (expired.limit, expired.settled, expired.attempt) == (30.0, True, 1)


async def test_an_expired_attempt_is_tried_again_and_each_has_its_full_time() -> None:
    kits: list[CaseTestKit] = []
    d = one(sleeping(kits), timeout="30s", retry=Retry(3, wait="10s", factor=1, jitter=False))
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        begun = kit.clock.now()
        await kit.advance("1h")
        times = [(event.at - begun).total_seconds() for event in kit.events(case, WorkerExecutionStarted)]
        assert times == [0, 40, 80]


async def test_a_case_goes_on_after_a_lone_worker_was_called_off_with_a_store_that_takes_its_time() -> None:
    clock = VirtualClock()
    store = Kept()
    store.before = lambda turns: asyncio.sleep(0)
    calls = 0

    async def work(a: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(3_600)
        return a

    d = one(work, timeout="30s", retry=Retry(2, wait="1s", jitter=False))
    async with CaseHub(d, store=store, clock=clock) as hub:
        case = await hub.start(d, a=1)
        await idle()
        clock.move("30s")
        await idle()
        clock.move("1s")
        await idle()
        async with asyncio.timeout(60):
            assert (await case.completed())["done"] == 1


async def test_the_deadline_is_told_and_moves_with_each_heartbeat() -> None:
    kits: list[CaseTestKit] = []
    seen: list[float | None] = []

    async def work(a: int, execution: WorkerExecution) -> int:
        clock = kits[0].clock
        for _ in range(4):
            assert execution.deadline is not None
            seen.append(execution.deadline - clock.monotonic())
            await clock.sleep("20s")
            execution.heartbeat()
        return a

    d = one(work, timeout="30s")
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        await kit.advance("80s")
        assert (await case.completed())["done"] == 1
    assert seen == [30.0] * 4


async def test_without_a_heartbeat_the_same_work_expires() -> None:
    kits: list[CaseTestKit] = []
    d = one(sleeping(kits, "80s"), timeout="30s", retry=Retry(1))
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        await kit.advance("80s")
        assert len(kit.events(case, WorkerExecutionExpired)) == 1


async def test_a_worker_that_holds_on_past_its_limit_is_expired_and_its_result_does_not_count() -> None:
    kits: list[CaseTestKit] = []

    async def stubborn(a: int) -> int:
        try:
            await kits[0].clock.sleep("1h")
        except asyncio.CancelledError:
            return 99
        return a

    d = one(stubborn, timeout="30s", retry=Retry(1))
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        await kit.advance("31s")
        assert len(kit.events(case, WorkerExecutionExpired)) == 1
        assert "done" not in await case.context()


async def test_a_worker_that_raises_while_it_is_stopped_is_expired_and_not_failed() -> None:
    kits: list[CaseTestKit] = []

    async def clumsy(a: int) -> int:
        try:
            await kits[0].clock.sleep("1h")
        finally:
            raise ValueError("while closing")

    d = one(clumsy, timeout="30s", retry=Retry(1))
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        await kit.advance("31s")
        assert len(kit.events(case, WorkerExecutionExpired)) == 1
        assert kit.events(case, WorkerExecutionFailed) == []


async def test_a_worker_may_raise_a_timeout_of_its_own_which_is_a_failure() -> None:
    async def work(a: int) -> int:
        raise TimeoutError("the server")

    d = one(work, timeout="30s", retry=Retry(1))
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        assert kit.events(case, WorkerExecutionFailed)[0].error == "TimeoutError"
        assert kit.events(case, WorkerExecutionExpired) == []


async def test_a_sync_worker_past_its_limit_is_left_behind_and_its_result_does_not_count() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def work(a: int) -> int:
        begun.set()
        gate.wait(120)
        ended.set()
        return 99

    d = one(work, timeout="30s", retry=Retry(1))
    clock = VirtualClock()
    async with CaseHub(d, clock=clock, store=Kept()) as hub:
        case = await hub.start(d, a=1)
        await asyncio.to_thread(begun.wait, 120)
        with hub.watch(WorkerExecutionExpired, after=0) as events:
            clock.move("30s")
            assert (await anext(events)).limit == 30.0
        gate.set()
        await asyncio.to_thread(ended.wait, 120)
        await idle()
        assert "done" not in await case.context()


async def test_the_time_of_a_sync_worker_does_not_run_while_it_waits_for_a_thread() -> None:
    begun, gate = threading.Event(), threading.Event()

    def work(a: int) -> int:
        if a == 1:
            begun.set()
            gate.wait(120)
        return a

    d = one(work, timeout="30s", retry=Retry(1))
    clock = VirtualClock()
    async with CaseHub(d, clock=clock, store=Kept(), executor=LocalExecutor(threads=1)) as hub:
        await hub.start(d, a=1)
        await asyncio.to_thread(begun.wait, 120)
        queued = await hub.start(d, a=2)
        await idle()
        with hub.watch(WorkerExecutionExpired, after=0) as events:
            clock.move("30s")
            await anext(events)  # the first, which has given its place to the second
        gate.set()
        assert (await queued.completed(timeout="120s"))["done"] == 2
        assert await queued.log.query(WorkerExecutionExpired) == []


async def test_a_sync_worker_that_blocks_keeps_nobody_from_leaving_the_hub() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def work(a: int) -> int:
        begun.set()
        gate.wait(120)
        ended.set()
        return a

    d = one(work)
    async with CaseHub(d, store=Kept()) as hub:
        await hub.start(d, a=1)
        await asyncio.to_thread(begun.wait, 120)
    assert not ended.is_set()
    gate.set()


# ---- cancellation


async def test_cancel_calls_off_what_runs_and_waits_until_it_has_come_to_its_end() -> None:
    order: list[str] = []
    gate = asyncio.Event()

    async def work(a: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):
                await gate.wait()
            order.append("cleaned up")
        return a

    d = one(work)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        cancelling = asyncio.create_task(case.cancel(reason="enough"))
        await kit.settle()
        assert await case.status() is CaseStatus.CANCELLED
        assert not cancelling.done()
        gate.set()
        await cancelling
        assert order == ["cleaned up"]
        await kit.settle()
        cancelled = kit.events(case, WorkerExecutionCancelled)
        assert [(event.binding, event.reason) for event in cancelled] == [("work", "the case is CANCELLED")]
        assert len(kit.events(case, WorkerResultDropped)) == 0


def shielded(kits: list[CaseTestKit], ended: list[str]) -> Any:
    """A worker that takes a minute to come to its end when it is cancelled."""

    async def work(a: int) -> int:

        with anyio.CancelScope(shield=True):
            await kits[0].clock.sleep("1m")
        ended.append("ended")
        return 99

    return work


async def test_cancel_waits_no_longer_than_its_grace() -> None:
    kits: list[CaseTestKit] = []
    ended: list[str] = []
    d = one(shielded(kits, ended))
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        await kit.settle()
        cancelling = asyncio.create_task(case.cancel(grace="5s"))
        await kit.advance("4s")
        assert not cancelling.done()
        await kit.advance("1s")
        assert cancelling.done()
        assert ended == []
        await kit.advance("1m")
        assert ended == ["ended"]
        assert "done" not in await case.context()


async def test_kill_waits_for_nothing() -> None:
    kits: list[CaseTestKit] = []
    ended: list[str] = []
    d = one(shielded(kits, ended))
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        await kit.settle()
        await case.kill(by="user:ada")
        assert await case.status() is CaseStatus.CANCELLED
        assert ended == []
        await kit.advance("1m")
        assert "done" not in await case.context()


async def test_completing_calls_off_what_still_runs() -> None:
    ended: list[str] = []
    d = CaseDefinition("d", goal="go", signals=["go"])

    @d.worker(writes="b")
    async def slow(a: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return a

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        await case.signal(go=1)
        await kit.settle()
        assert ended == ["ended"]
        assert await case.status() is CaseStatus.COMPLETED


async def test_a_worker_that_is_called_off_before_it_has_begun_never_runs() -> None:
    ran: list[str] = []
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"])

    async def work(a: int) -> int:
        ran.append("ran")
        return a

    for name in ("x", "y"):
        d.worker(name=name, writes=f"by_{name}")(work)
    async with CaseHub(d, store=Kept()) as hub:
        case = await hub.start(d)
        await asyncio.gather(case.signal(a=1), case.cancel())
        await idle()
    assert ran == []


async def test_a_cancellation_that_a_worker_causes_itself_is_a_failure_of_it() -> None:
    async def work(a: int) -> int:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner
        return a

    d = one(work, retry=Retry(1))
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        failed = kit.events(case, WorkerExecutionFailed)[0]
        assert "cancelled from within" in failed.message
        assert not (await case.status()).ended


# ---- charging


async def test_charges_add_up_and_count_whatever_comes_of_the_attempt() -> None:
    async def work(a: int, execution: WorkerExecution) -> int:
        execution.charge(tokens=3, money=0.5)
        execution.charge(tokens=4)
        if execution.attempt == 1:
            raise OSError("away")
        raise Declined("enough")

    d = one(work, retry=Retry(2, jitter=False))
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.advance("1m")
        state = await case.state()
        assert {unit: state.spending.spent("work", unit) for unit in ("calls", "tokens", "money")} == {
            "calls": 2,
            "tokens": 14,
            "money": 1.0,
        }
        assert kit.events(case, WorkerExecutionFailed)[0].charges == {"tokens": 7, "money": 0.5}


async def test_charging_below_zero_is_refused() -> None:
    async def work(a: int, execution: WorkerExecution) -> int:
        with pytest.raises(SettingsError, match="spending cannot be negative"):
            execution.charge(tokens=-1)
        return a

    d = one(work)
    async with CaseTestKit(d) as kit:
        await (await kit.start(d, a=1)).completed()


async def test_a_spent_budget_holds_the_next_worker_back() -> None:
    d = CaseDefinition("d", goal="c", budget=Budget(tokens=10))

    @d.worker(writes="b")
    async def dear(a: int, execution: WorkerExecution) -> int:
        execution.charge(tokens=12)
        return a

    @d.worker(writes="c")
    async def next_one(b: int) -> int:
        return b

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        assert (await case.explain("next_one"))[0].verdict is Verdict.BUDGET
        assert "b" in await case.context()


# ---- odd results


@pytest.mark.parametrize("value", [object(), float("nan"), "x" * 2_000_000, {1: 2}])
async def test_a_result_that_cannot_be_a_fact_fails_its_attempt_and_nothing_else(value: Any) -> None:
    async def work(a: int) -> Any:
        return value

    d = one(work)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        failed = kit.events(case, WorkerExecutionFailed)
        assert len(failed) == 1
        assert failed[0].permanent
        assert "fact 'done' of worker 'work'" in failed[0].message
        assert not (await case.status()).ended


async def test_a_fact_that_does_not_fit_what_its_reader_asks_for_fails_the_reader() -> None:
    d = CaseDefinition("d", goal="c", signals=["b"])

    @d.worker(writes="c", retry=Retry(1))
    async def read(b: Basket) -> int:
        return len(b.items)

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(b={"items": 5})
        await kit.settle()
        failed = kit.events(case, WorkerExecutionFailed)[0]
        assert failed.error == "FactError"
        assert "fact 'b'" in failed.message


async def test_a_resource_is_what_its_opener_yields() -> None:
    d = CaseDefinition("d", goal="done")

    class Client:
        word = "hello"

    @d.resource
    async def client() -> AsyncIterator[Client]:
        yield Client()

    @d.worker(writes="done")
    async def work(a: int, client: Client) -> str:
        return client.word

    async with CaseTestKit(d) as kit:
        assert (await (await kit.start(d, a=1)).completed())["done"] == "hello"


async def test_a_worker_that_returned_is_completed_at_the_time_it_came_back() -> None:
    kits: list[CaseTestKit] = []
    d = one(sleeping(kits, "90s"))
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, a=1)
        begun = kit.clock.now()
        await kit.advance("2m")
        assert (kit.events(case, WorkerExecutionCompleted)[0].at - begun).total_seconds() == 90
