"""A purchase order is priced, checked and booked by workers that fail, decline and take too long."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from casehub import (
    ActivationStatus,
    CaseDefinition,
    CaseFaulted,
    CaseHub,
    CaseStalled,
    CaseStalledError,
    CaseStatus,
    Declined,
    DefinitionError,
    Permanent,
    Retry,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerExecutionDeclined,
    WorkerExecutionFailed,
    WorkerExecutionStarted,
    WorkerResultDropped,
)
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle


def order(**options: Any) -> CaseDefinition:
    """An order is priced, then booked."""
    d = CaseDefinition("order", goal="booking")

    @d.worker(writes="price", **options)
    async def price(item: str) -> float:
        return 9.5

    @d.worker(writes="booking")
    async def book(price: float) -> str:
        return f"booked at {price}"

    return d


async def test_a_worker_that_fails_once_runs_twice_and_the_case_completes() -> None:
    d = order()
    async with CaseTestKit(d) as kit:
        kit.script("price", OSError("away"), 9.5)
        case = await kit.start(d, item="tea")
        await kit.advance("1m")
        assert (await case.completed())["booking"] == "booked at 9.5"
        started = [event for event in kit.events(case, WorkerExecutionStarted) if event.binding == "price"]
        assert [event.attempt for event in started] == [1, 2]


async def test_of_five_attempts_the_fifth_may_succeed_and_the_case_has_not_faulted() -> None:
    d = order(retry=Retry(5))
    async with CaseTestKit(d) as kit:
        kit.script("price", *[OSError("away")] * 4, 9.5)
        case = await kit.start(d, item="tea")
        await kit.advance("10m")
        assert await case.status() is CaseStatus.COMPLETED
        assert len([e for e in kit.events(case, WorkerExecutionStarted) if e.binding == "price"]) == 5
        assert kit.events(case, CaseFaulted) == []


async def test_when_every_attempt_fails_the_case_stays_open_stalls_once_and_says_what_is_missing() -> None:
    d = order()
    async with CaseTestKit(d) as kit:
        kit.script("price", *[OSError("away")] * 3)
        case = await kit.start(d, item="tea")
        await kit.advance("10m")
        with pytest.raises(CaseStalledError, match="book: MISSING_FACTS - needs 'price', which price would write"):
            await case.completed()
        assert len(kit.events(case, CaseStalled)) == 1
        assert await case.status() is CaseStatus.RUNNING


async def test_when_every_attempt_fails_the_case_faults_once_if_the_binding_says_so() -> None:
    d = order(on_exhausted="fault_case")
    async with CaseTestKit(d) as kit:
        kit.script("price", *[OSError("away")] * 3)
        case = await kit.start(d, item="tea")
        await kit.advance("10m")
        assert await case.status() is CaseStatus.FAULTED
        (fault,) = kit.events(case, CaseFaulted)
        assert fault.reason == "worker 'price': away"


async def test_two_workers_of_which_one_fails_once_both_deliver() -> None:
    d = CaseDefinition("d", goal="both")

    async def ask(item: str) -> int:
        return 1

    d.worker(name="stock", writes="in_stock")(ask)
    d.worker(name="credit", writes="limit")(ask)

    @d.worker(writes="both")
    async def both(in_stock: int, limit: int) -> int:
        return in_stock + limit

    calls = {"stock": 0, "credit": 0}

    async with CaseTestKit(d) as kit:

        async def counted(item: str) -> int:
            name = "stock" if calls["stock"] == 0 else "credit"
            calls[name] += 1
            if name == "credit" and calls["credit"] == 1:
                raise OSError("away")
            return 1

        kit.script(ask, counted, counted, counted)
        case = await kit.start(d, item="tea")
        await kit.advance("1m")
        context = await case.completed()
        assert (context["in_stock"], context["limit"]) == (1, 1)
    assert calls == {"stock": 1, "credit": 2}


async def test_waits_between_attempts_double_up_to_half_a_minute() -> None:
    d = order(retry=Retry(7, wait="4s", factor=2, jitter=False))
    async with CaseTestKit(d) as kit:
        kit.script("price", *[OSError("away")] * 7)
        case = await kit.start(d, item="tea")
        await kit.advance("10m")
        times = [event.at for event in kit.events(case, WorkerExecutionStarted)]
        waits = [(after - before) / timedelta(seconds=1) for before, after in pairwise(times)]
        assert waits == [4, 8, 16, 30, 30, 30]


async def test_with_jitter_every_wait_lies_between_nothing_and_that() -> None:
    d = order(retry=Retry(7, wait="4s", factor=2, jitter=True))
    waits: list[list[float]] = []
    for seed in range(5):
        async with CaseTestKit(d, seed=seed) as kit:
            kit.script("price", *[OSError("away")] * 7)
            case = await kit.start(d, item="tea")
            await kit.advance("10m")
            times = [event.at for event in kit.events(case, WorkerExecutionStarted)]
            waits.append([(b - a) / timedelta(seconds=1) for a, b in pairwise(times)])
    for each in waits:
        assert all(0 <= wait <= most for wait, most in zip(each, (4, 8, 16, 30, 30, 30), strict=True))
    assert len({tuple(each) for each in waits}) == 5


def quoted() -> CaseDefinition:
    """Three suppliers can quote; the first that does not decline gets the order."""
    d = CaseDefinition("quoted", goal="quote")

    for name in ("near", "far", "abroad"):

        async def supplier(item: str) -> float:
            return 1.0

        d.worker(name=name, writes="quote", capability="quoting")(supplier)
    d.binding("quoted", capability="quoting", on_declined="reroute")
    return d


async def test_a_declined_order_goes_to_another_supplier_and_the_first_is_left_out() -> None:
    d = quoted()
    async with CaseTestKit(d) as kit:
        kit.script("near", Declined("no tea"))
        kit.script("far", 7.5)
        case = await kit.start(d, item="tea")
        assert (await case.completed())["quote"] == 7.5
        assert [event.worker for event in kit.events(case, WorkerExecutionStarted)] == ["near", "far"]
        (declined,) = kit.events(case, WorkerExecutionDeclined)
        assert (declined.worker, declined.reason, declined.then) == ("near", "no tea", "reroute")
        assert kit.events(case, WorkerExecutionFailed) == []


async def test_when_every_supplier_has_declined_nobody_is_asked_again() -> None:
    d = quoted()
    async with CaseTestKit(d) as kit:
        for name in ("near", "far", "abroad"):
            kit.script(name, Declined("no tea"))
        case = await kit.start(d, item="tea")
        await kit.advance("1h")
        assert [event.worker for event in kit.events(case, WorkerExecutionStarted)] == ["near", "far", "abroad"]
        assert kit.events(case, WorkerExecutionDeclined)[-1].settled
        assert (await case.state()).stalled


async def test_a_failure_faults_the_case_at_once_if_the_binding_says_so() -> None:
    d = order(on_failed="fault_case")
    async with CaseTestKit(d) as kit:
        kit.script("price", Permanent("no such item"))
        case = await kit.start(d, item="tea")
        await kit.settle()
        assert await case.status() is CaseStatus.FAULTED
        assert len(kit.events(case, WorkerExecutionStarted)) == 1


def test_a_capability_that_nobody_has_is_found_before_anything_runs() -> None:
    d = CaseDefinition("d", goal="quote", external=["quote"])
    d.binding("quoted", capability="quoting")
    with pytest.raises(DefinitionError, match="no worker has the capability 'quoting'"):
        CaseHub(d)


async def test_a_case_that_is_cancelled_keeps_the_fast_result_and_shows_the_slow_one_as_cancelled() -> None:
    store = Kept()
    d = CaseDefinition("d", goal="both")

    @d.worker(writes="fast")
    async def fast(item: str) -> int:
        return 1

    @d.worker(writes="slow")
    async def slow(item: str) -> int:
        await asyncio.Event().wait()
        return 1

    @d.worker(writes="both")
    async def both(fast: int, slow: int) -> int:
        return 2

    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d, item="tea", case_id="x")
        await idle()
        await case.cancel()
    async with CaseHub(d, store=store) as hub:
        case = hub.case("x")
        assert (await case.context())["fast"] == 1
        assert [e.binding for e in await case.log.query(WorkerExecutionCancelled)] == ["slow"]
        assert [e.binding for e in await case.log.query(WorkerExecutionStarted)] == ["fast", "slow"]


async def test_a_worker_that_ignores_its_limit_is_tried_elsewhere_and_one_result_counts() -> None:
    kits: list[CaseTestKit] = []
    calls: list[int] = []
    d = CaseDefinition("d", goal="price")

    @d.worker(writes="price", timeout="5s", retry=Retry(2, wait="1s", jitter=False))
    async def price(item: str) -> float:
        calls.append(len(calls))
        if len(calls) == 1:
            try:
                await kits[0].clock.sleep("1h")
            except asyncio.CancelledError:
                return 111.0
        return 9.5

    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d, item="tea")
        await kit.advance("1m")
        assert (await case.completed())["price"] == 9.5
        assert len(kit.events(case, WorkerExecutionCompleted)) == 1


async def test_a_long_worker_without_heartbeats_hears_of_a_cancellation_at_once() -> None:
    heard = asyncio.Event()
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            heard.set()
        return a

    async with CaseHub(d) as hub:
        case = await hub.start(d, a=1)
        await idle()
        await case.cancel()
        assert heard.is_set()
        assert await case.status() is CaseStatus.CANCELLED


async def test_an_operator_supplies_what_a_failed_worker_lacked_and_only_that_worker_runs_again() -> None:
    runs: list[str] = []
    d = CaseDefinition("d", goal="booking", signals={"account": str})

    @d.worker(writes="price")
    async def price(item: str) -> float:
        runs.append("price")
        return 9.5

    @d.worker(writes="booking", retry=Retry(1))
    async def book(price: float, account: str = "") -> str:
        runs.append("book")
        if not account:
            raise LookupError("no account")
        return f"{price} from {account}"

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, item="tea")
        await kit.settle()
        await case.signal(account="DE12", by="user:operator")
        assert (await case.completed())["booking"] == "9.5 from DE12"
    assert runs == ["price", "book", "book"]


async def test_fifty_workers_that_end_together_each_count_once() -> None:
    gate = asyncio.Event()
    d = CaseDefinition("d", goal="never", external=["never"])

    async def work(a: int) -> int:
        await gate.wait()
        return a

    for number in range(50):
        d.worker(name=f"w{number}", writes=f"b{number}")(work)
    async with CaseHub(d, store=Kept()) as hub:
        case = await hub.start(d, a=1)
        await idle()
        gate.set()
        context = await case.quiescent()
        assert len(context) == 51
        completed = await case.log.query(WorkerExecutionCompleted)
        assert sorted(event.binding for event in completed) == sorted(f"w{number}" for number in range(50))
        assert {event.attempt for event in completed} == {1}
        assert await case.log.query(WorkerResultDropped) == []


async def test_a_worker_that_raises_while_the_hub_is_left_keeps_nobody_from_leaving() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while closing")

    store = Kept()
    async with CaseHub(d, store=store) as hub:
        await hub.start(d, a=1, case_id="x")
        await idle()
    assert store.closed == 1
    async with CaseHub(d, store=store) as hub:
        await idle()
        state = await hub.case("x").state()
        assert [a.status for a in state.activations.values()] == [ActivationStatus.RUNNING]
        await hub.case("x").cancel()
