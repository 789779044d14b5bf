"""One brake for many cases: nothing new starts, what runs goes on, and it stays on over restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    CaseStatus,
    CaseStatusChanged,
    IllegalTransitionError,
    InputRefusedError,
    Quarantine,
    Retry,
    SettingsError,
    StoreUnavailableError,
    UnknownNameError,
    Verdict,
    WorkerExecution,
    WorkerExecutionFailed,
    WorkerQuarantined,
    WorkerReleased,
    WorkerScheduled,
    every,
)
from casehub.adapters.clock import VirtualClock
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle


def chain(name: str = "chain", gate: asyncio.Event | None = None) -> CaseDefinition:
    """a -> b -> c, and c is the goal; a signal may bring a later."""
    d = CaseDefinition(name, goal="c", signals={"a": int})

    @d.worker(writes="b")
    async def first(a: int) -> int:
        if gate is not None:
            await gate.wait()
        return a

    @d.worker(writes="c")
    async def second(b: int) -> int:
        return b

    return d


async def test_what_runs_comes_to_its_end_and_nothing_new_starts_until_it_is_released() -> None:
    gate = asyncio.Event()
    d = chain(gate=gate)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        assert await kit.hub.brake.pull(by="user:ada", reason="the bank is down") == 1
        gate.set()
        await kit.settle()
        assert await case.status() is CaseStatus.SUSPENDED
        assert (await case.context())["b"] == 1
        assert [said.verdict for said in await case.explain()] == [Verdict.SUSPENDED] * 2
        last = kit.events(case, CaseStatusChanged)[-1]
        assert (last.by, last.reason) == ("user:ada", "brake: the bank is down")
        assert await kit.hub.brake.release(by="user:ada") == 1
        assert (await case.completed())["c"] == 1


async def test_a_case_that_starts_meanwhile_begins_suspended() -> None:
    d = chain()
    async with CaseTestKit(d) as kit:
        await kit.hub.brake.pull(reason="audit")
        case = await kit.start(d, a=1)
        await kit.settle()
        assert [event.name for event in kit.events(case)] == ["CASE_STARTED", "CONTEXT_CHANGED", "CASE_STATUS_CHANGED"]
        await kit.hub.brake.release()
        assert (await case.completed())["c"] == 1


async def test_a_case_that_waits_is_suspended_before_it_takes_what_would_move_it() -> None:
    d = chain()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        assert await case.status() is CaseStatus.WAITING
        assert await kit.hub.brake.pull() == 0
        assert await case.status() is CaseStatus.WAITING
        await case.signal(a=3)
        assert await case.status() is CaseStatus.SUSPENDED
        assert kit.events(case, WorkerScheduled) == []
        assert await kit.hub.brake.release() == 1
        assert (await case.completed())["c"] == 3


async def test_it_holds_one_definition_or_all() -> None:
    one, other = chain("one"), chain("other")
    async with CaseTestKit(one, other) as kit:
        await kit.hub.brake.pull("one")
        held = await kit.start(one, a=1)
        assert (await (await kit.start(other, a=1)).completed())["c"] == 1
        await kit.hub.brake.pull()
        both = await kit.start(other, a=2)
        assert await kit.hub.brake.release() == 1  # the other one is still on
        assert (await both.completed())["c"] == 2
        assert await held.status() is CaseStatus.SUSPENDED
        assert list(kit.hub.brake.on) == ["one"]
        assert await kit.hub.brake.release("one") == 1
        assert (await held.completed())["c"] == 1


async def test_a_case_that_somebody_suspended_by_hand_stays_so() -> None:
    d = chain()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.suspend(reason="in doubt")
        await kit.hub.brake.pull()
        with pytest.raises(IllegalTransitionError, match="the brake is on"):
            await case.resume()
        assert await kit.hub.brake.release() == 0
        assert await case.status() is CaseStatus.SUSPENDED
        await case.resume()


async def test_occurrences_are_caught_up_on_after_the_brake() -> None:
    d = CaseDefinition("watch", goal="done", signals=["done"])

    @d.worker(writes="seen", on=every("1h", catch_up="skip"))
    async def look() -> int:
        return 1

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await kit.hub.brake.pull()
        await kit.advance("3h 30m")
        assert kit.events(case, WorkerScheduled) == []
        await kit.hub.brake.release()
        await kit.advance("30m")
        assert len(kit.events(case, WorkerScheduled)) == 1


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_it_stays_on_over_a_restart(kind: str, tmp_path: Path) -> None:
    d, clock = chain(), VirtualClock()
    store = Kept() if kind == "memory" else f"sqlite:///{tmp_path / 'cases.db'}"
    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.brake.pull("chain", reason="audit")
        await hub.start(d, case_id="x", a=1)
    async with CaseHub(d, store=store, clock=clock) as hub:
        assert list(hub.brake.on) == ["chain"]
        case, new = hub.case("x"), await hub.start(d, a=2)
        await idle()
        assert [await case.status(), await new.status()] == [CaseStatus.SUSPENDED] * 2
        assert await hub.brake.release("chain") == 2
        assert [(await each.completed())["c"] for each in (case, new)] == [1, 2]
    async with CaseHub(d, store=store, clock=clock) as hub:
        assert hub.brake.on == {}


async def test_a_hub_that_cannot_tell_whether_it_is_on_does_not_start() -> None:
    class Moody(Kept):
        async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
            raise StoreUnavailableError("away")

    store = Moody()
    with pytest.raises(StoreUnavailableError, match="away"):
        async with CaseHub(chain(), store=store):
            raise AssertionError("it has started")
    assert (store.opened, store.closed) == (1, 1)


async def test_what_is_not_on_is_not_released_and_an_unknown_definition_is_named() -> None:
    d = chain()
    async with CaseTestKit(d) as kit:
        with pytest.raises(InputRefusedError, match="the brake over all definitions is not on; on: none"):
            await kit.hub.brake.release()
        with pytest.raises(UnknownNameError, match="did you mean 'chain'"):
            await kit.hub.brake.pull("chian")


# ---- a worker over all definitions


async def test_a_suspended_worker_is_called_in_no_case_and_the_cases_go_on_without_it() -> None:
    gate = asyncio.Event()
    one, other = chain("one", gate), chain("other")
    async with CaseTestKit(one, other) as kit:
        case = await kit.start(one, a=1)
        assert await kit.hub.brake.pull(worker="second", by="user:ada", reason="it books twice") == 0
        gate.set()
        await kit.settle()
        assert (await case.context())["b"] == 1  # what runs, and every other worker, goes on
        late = await kit.start(other, a=2)
        await kit.settle()
        for each in (case, late):
            assert await each.status() is CaseStatus.WAITING
            (said,) = await each.explain("second")
            assert said.verdict is Verdict.QUARANTINED
            assert said.text == "second is suspended; resume it with 'casehub resume --worker'"
            (told,) = kit.events(each, WorkerQuarantined)
            assert (told.until, told.by, told.reason) == (None, "user:ada", "it books twice")
        assert list(kit.hub.brake.workers) == ["second"]
        assert await kit.hub.brake.release(worker="second", by="user:ada", reason="mended") == 2
        assert (await case.completed())["c"] == 1
        assert (await late.completed())["c"] == 2
        (released,) = kit.events(late, WorkerReleased)
        assert (released.by, released.reason) == ("user:ada", "mended")
        assert kit.hub.brake.workers == kit.hub.quarantine.held == {}


async def test_a_suspended_worker_stays_suspended_over_restarts_also_where_it_held_up_nobody() -> None:
    d = chain()
    store, clock = Kept(), VirtualClock()
    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.brake.pull(worker="first")
    async with CaseHub(d, store=store, clock=clock) as hub:
        case = await hub.start(d, case_id="x", a=1)
        await idle()
        assert [said.verdict for said in await case.explain("first")] == [Verdict.QUARANTINED]
    async with CaseHub(d, store=store, clock=clock) as hub:
        await idle()
        assert await hub.case("x").status() is CaseStatus.WAITING
        assert await hub.brake.release(worker="first") == 1
        assert (await hub.case("x").completed())["c"] == 1
    async with CaseHub(d, store=store, clock=clock) as hub:
        assert hub.brake.workers == hub.quarantine.held == {}


async def test_the_next_attempt_of_a_suspended_worker_waits_for_its_resumption_over_a_restart_too() -> None:
    d = CaseDefinition("d", goal="c")
    calls: list[int] = []

    @d.worker(writes="c", retry=Retry(3, wait="1m", jitter=False))
    async def call(a: int, execution: WorkerExecution) -> int:
        calls.append(execution.attempt)
        if execution.attempt == 1:
            raise OSError("away")
        return a

    store, clock = Kept(), VirtualClock()
    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.start(d, case_id="x", a=1)
        await idle()
        await hub.brake.pull(worker="call")
        clock.move("2m")
        await idle()
        assert calls == [1]
    async with CaseHub(d, store=store, clock=clock) as hub:
        await idle()
        assert calls == [1]
        await hub.brake.release(worker="call")
        assert (await hub.case("x").completed())["c"] == 1
        assert calls == [1, 2]


async def test_another_worker_of_the_capability_takes_over_and_nothing_is_rerouted_to_a_suspended_one() -> None:
    d = CaseDefinition("d", goal="c")

    @d.worker(writes="c", capability="rate")
    async def assess(a: int) -> int:
        raise OSError("away")

    @d.worker(writes="c", capability="rate")
    async def guess(a: int) -> int:
        return -a

    d.binding("rate", capability="rate", retry=Retry(1), on_failed="reroute")
    async with CaseTestKit(d) as kit:
        await kit.hub.brake.pull(worker="assess")
        assert (await (await kit.start(d, a=1)).completed())["c"] == -1
        await kit.hub.brake.release(worker="assess")
        await kit.hub.brake.pull(worker="guess")
        case = await kit.start(d, a=1)
        await kit.settle()
        assert [event.then for event in kit.events(case, WorkerExecutionFailed)] == ["fault_item"]


async def test_suspending_a_worker_that_is_in_quarantine_outlasts_the_quarantine() -> None:
    d = CaseDefinition("d", goal="c", signals={"more": int})

    @d.worker(writes="c", retry=Retry(1), quarantine=Quarantine(2, release="30m"))
    async def call(a: int) -> int:
        raise OSError("away")

    async with CaseTestKit(d) as kit:
        for _ in range(2):
            await kit.start(d, a=1)
        case = await kit.start(d, a=1)
        await kit.settle()
        await kit.hub.brake.pull(worker="call")
        await case.signal(more=1)
        assert [event.until is None for event in kit.events(case, WorkerQuarantined)] == [False, True]
        await kit.advance("2h")
        assert kit.events(case, WorkerScheduled) == []
        with pytest.raises(InputRefusedError, match=r"'call' is suspended by hand.*casehub resume --worker call"):
            await kit.hub.quarantine.release("d", "call")


async def test_a_case_that_could_not_be_told_of_the_resumption_hears_of_it_with_its_next_input() -> None:
    d = chain()
    store, clock = Kept(), VirtualClock()
    async with CaseHub(d, store=store, clock=clock) as hub:
        await hub.brake.pull(worker="first")
        await hub.start(d, case_id="x", a=1)
        await idle()
    await store.bookmark("~brake:worker/first", 0)
    async with CaseHub(d, store=store, clock=clock) as hub:
        assert await hub.case("x").status() is CaseStatus.WAITING
        await hub.case("x").get_or_put("a", 2)
        assert (await hub.case("x").completed())["c"] == 1


async def test_what_cannot_be_suspended_is_refused_with_its_reason() -> None:
    async with CaseTestKit(chain()) as kit:
        with pytest.raises(
            UnknownNameError, match=r"no definition of this hub has a worker 'frist'; did you mean 'first'"
        ):
            await kit.hub.brake.pull(worker="frist")
        with pytest.raises(InputRefusedError, match="worker 'first' is not suspended; suspended: none"):
            await kit.hub.brake.release(worker="first")
        with pytest.raises(SettingsError, match="not both"):
            await kit.hub.brake.pull("chain", worker="first")
