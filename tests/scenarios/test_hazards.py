"""What has gone wrong in engines like this one, and does not here."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from casehub import (
    Binding,
    CaseDefinition,
    CaseEndedError,
    CaseFaulted,
    CaseFaultedError,
    CaseHub,
    CaseStalled,
    CaseStatus,
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    Event,
    Retry,
    SignalReceived,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerExecutionStarted,
    WorkerScheduled,
    absent,
)
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle

ROOT = Path(__file__).parent.parent.parent


def chain() -> CaseDefinition:
    """a -> b -> c -> goal."""
    d = CaseDefinition("chain", goal="goal", signals=["note"])

    @d.worker(writes="b")
    async def one(a: int) -> int:
        return a + 1

    @d.worker(writes="c")
    async def two(b: int) -> int:
        return b + 1

    @d.worker(writes="goal")
    async def three(c: int) -> int:
        return c + 1

    return d


# ---- order and evaluation


async def test_every_change_is_one_event_that_is_told_once_to_everybody() -> None:
    d = chain()
    async with CaseTestKit(d) as kit:
        heard: dict[str, list[int]] = {"one": [], "other": []}
        for seen in heard.values():

            async def hear(event: ContextChanged, seen: list[int] = seen) -> None:
                seen.append(event.seq)

            kit.hub.on(ContextChanged)(hear)
        case = await kit.start(d, a=1)
        await case.completed()
        await kit.settle()
        expected = [event.seq for event in kit.events(case, ContextChanged)]
        assert len(expected) == 4
        assert heard == {"one": expected, "other": expected}


async def test_bindings_come_up_in_the_order_they_are_declared_whatever_the_order_of_facts() -> None:
    orders = []
    for facts in (("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")):
        d = CaseDefinition("d", signals=["a", "b", "c", "go"])
        for name in "cab":
            namespace: dict[str, Any] = {}
            exec(f"async def on_{name}({name}: int, go: int) -> int:\n    return {name}", namespace)
            d.worker(writes=f"by_{name}")(namespace[f"on_{name}"])
        async with CaseTestKit(d) as kit:
            case = await kit.start(d)
            for fact in facts:
                await case.signal({fact: 1})
            await case.signal(go=1, wait="quiescent")
            orders.append([event.binding for event in kit.events(case, WorkerScheduled)])
    assert orders == [["on_c", "on_a", "on_b"]] * 3


async def test_all_decisions_of_a_turn_see_one_version_of_the_facts() -> None:
    class Watching(ChoreographyLoopControl):
        immediate = False

        def __init__(self) -> None:
            self.go = asyncio.Event()
            self.saw: list[tuple[Any, Any]] = []

        async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
            before = (dict(case.context), case.version, len(await case.log.query(Event)))
            await self.go.wait()
            self.saw.append((before, (dict(case.context), case.version, len(await case.log.query(Event)))))
            return eligible

    d, loop = chain(), Watching()
    async with CaseTestKit(d, loop=loop) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        for n in range(5):
            await case.signal(note=n)
        loop.go.set()
        await case.completed()
    for before, after in loop.saw:
        assert before == after


# ---- faults


def raising(where: str) -> CaseDefinition:
    """A definition with a condition that raises once `note` is there."""

    def broken(note: int) -> bool:
        raise LookupError("no such rate")

    d = CaseDefinition("d", goal="goal", signals=["note", "goal"], done_when=None)
    if where == "guard":
        d.worker(writes="x", when=broken, name="work")(lambda note: 1)
    elif where == "goal":
        d.goal("odd", broken)
    else:
        d.milestone("odd", broken)
    return d


@pytest.mark.parametrize("where", ["guard", "goal", "milestone"])
async def test_a_condition_that_raises_does_not_leave_a_case_running_for_ever(where: str) -> None:
    d = raising(where)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        waiting = asyncio.create_task(case.completed())
        await case.signal(note=1)
        with pytest.raises(CaseFaultedError, match="raised LookupError: no such rate; mend the condition"):
            await waiting
        summary = (await kit.hub.cases())[0]
        assert summary.status is CaseStatus.FAULTED
        assert "no such rate" in summary.reason


async def test_two_workers_that_fault_the_case_at_once_leave_one_fault_in_the_log() -> None:
    gate = asyncio.Event()
    d = CaseDefinition("d", goal="never", external=["never"])

    async def work(a: int) -> int:
        await gate.wait()
        raise ValueError("both of us")

    for name in ("x", "y"):
        d.worker(name=name, writes=f"by_{name}", on_failed="fault_case")(work)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        gate.set()
        await kit.settle()
        assert len(kit.events(case, CaseFaulted)) == 1
        assert kit.events(case)[-1].name == "CASE_FAULTED"


async def test_a_worker_that_raises_leaves_its_error_in_the_case_which_is_not_completed() -> None:
    d = CaseDefinition("d", at_quiescence=False, goal="b")

    @d.worker(writes="b", retry=Retry(1))
    async def work(a: int) -> int:
        raise ValueError("negative")

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        assert await case.status() is CaseStatus.RUNNING
        (stall,) = kit.events(case, CaseStalled)
        assert "WORKER_EXECUTION_FAILED: negative" in stall.reasons[0]


# ---- ends


async def test_a_case_that_ends_in_the_middle_of_a_worker_calls_it_off_and_drops_what_it_returns() -> None:
    ended: list[str] = []
    d = CaseDefinition("d", goal="closed", signals=["closed"])

    @d.worker(writes="b")
    async def stubborn(a: int) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("called off")
        return 99

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        await case.signal(closed=True)
        await kit.settle()
        assert ended == ["called off"]
        assert "b" not in await case.context()
        assert len(kit.events(case, WorkerExecutionCancelled)) == 1
        assert kit.events(case)[-1].name == "CASE_COMPLETED"


async def test_what_comes_after_the_end_changes_nothing_and_makes_nothing() -> None:
    gate = asyncio.Event()
    d = CaseDefinition("d", goal="closed", signals=["closed"])

    @d.worker(writes="b")
    def off_the_loop(a: int) -> int:
        return a

    @d.worker(writes="c")
    async def late(a: int) -> int:
        await gate.wait()
        return a

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await kit.settle()
        await case.signal(closed=True)
        before = len(kit.events(case))
        gate.set()
        await kit.settle()
        with pytest.raises(CaseEndedError, match="terminal"):
            await case.signal(closed=False)
        assert len(kit.events(case)) == before
        assert dict(await case.context()) == {"a": 1, "b": 1, "closed": True}


async def test_a_thousand_cases_that_have_ended_leave_nothing_in_memory() -> None:
    d = chain()
    async with CaseHub(d) as hub:
        for _ in range(1_000):
            await (await hub.start(d, a=1)).completed()
        await idle()  # who waits for a case hears of its end before its pump has stopped
        residents, runtime = hub._residents_now, hub.runtime
        assert residents.resident <= 64
        assert not residents.resting.waiting
        assert not residents._loading
        assert not runtime.wheel._posted
        assert len(runtime.wheel._alarms) <= 200
        assert (runtime.pumping, runtime.working) == (0, 0)
        assert len(runtime.bus.ring) <= 8_192


async def test_an_update_that_meets_the_end_of_its_case_is_applied_or_refused_and_never_lost() -> None:
    """S043."""
    d = CaseDefinition("d", goal="closed", signals=["closed", "note"])
    async with CaseHub(d) as hub:
        for number in range(300):
            case = await hub.start(d)
            closing, noting = case.signal(closed=True), case.signal(note=number)
            first, second = (closing, noting) if number % 2 else (noting, closing)
            results = await asyncio.gather(first, second, return_exceptions=True)
            noted = results[1 if number % 2 else 0]
            context = await case.context()
            if isinstance(noted, CaseEndedError):
                assert "note" not in context
            else:
                assert not isinstance(noted, BaseException)
                assert context["note"] == number


# ---- subscribers


async def test_with_nobody_listening_and_with_somebody_frozen_a_case_goes_its_way() -> None:
    d = chain()
    gate = asyncio.Event()
    async with CaseHub(d) as hub:
        await (await hub.start(d, a=1)).completed()

        @hub.on(Event)
        async def frozen(event: Event) -> None:
            await gate.wait()

        for _ in range(20):
            await (await hub.start(d, a=1)).completed()
        assert hub.runtime.bus.lag > 100
        gate.set()


async def test_leaving_a_store_in_memory_with_an_open_case_says_that_it_is_lost() -> None:
    d = CaseDefinition("d", signals=["note"])
    with pytest.warns(UserWarning, match="are lost with this hub's memory store"):
        async with CaseHub(d) as hub:
            await hub.start(d)


# ---- causes and names


async def test_every_event_of_a_cascade_leads_back_to_what_set_it_off() -> None:
    d = chain()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await case.completed()
        events = {event.version: event for event in kit.events(case)}
        followed = (ContextChanged, WorkerScheduled, WorkerExecutionStarted)
        for event in events.values():
            if isinstance(event, followed) and event.version > 2:
                root = event
                while root.cause:
                    root = events[root.cause]
                assert isinstance(root, WorkerExecutionCompleted | ContextChanged)
        sources = [event.version for event in await case.facts("goal").why() if isinstance(event, ContextChanged)]
        assert min(sources) == 2


async def test_a_definition_is_found_whatever_is_changed_about_it_afterwards() -> None:
    d = chain()
    async with CaseHub(d) as hub:
        d.title = "renamed"
        d.limits = d.limits
        assert (await (await hub.start(d, a=1)).completed())["goal"] == 4
        assert (await (await hub.start("chain", a=1)).completed())["goal"] == 4


async def test_results_go_to_their_own_activation_when_a_binding_is_added_while_they_are_out() -> None:
    store = Kept()

    def version(*, more: bool) -> CaseDefinition:
        d = CaseDefinition("d", goal="b", signals=["note"])
        if more:

            @d.worker(writes="x")
            async def added(note: int) -> int:
                return note

        @d.worker(writes="b")
        async def work(a: int) -> int:
            if not more:
                await asyncio.Event().wait()
            return a

        return d

    first, second = version(more=False), version(more=True)
    async with CaseHub(first, store=store) as hub:
        await hub.start(first, a=7, case_id="x")
        await idle()
    async with CaseHub(second, store=store) as hub:
        case = hub.case("x")
        assert (await case.completed())["b"] == 7
        assert {event.activation for event in await case.log.query(WorkerExecutionStarted)} == {"x/work/1"}
        assert [event.name for event in await case.log.query(Event) if event.name == "DEFINITION_ADOPTED"]


# ---- joins


async def test_two_bindings_that_listen_to_one_fact_both_hear_of_its_change() -> None:
    d = CaseDefinition("d", goal="joined", signals=["fact"])

    @d.worker(writes="left")
    async def left(fact: int) -> int:
        return fact

    @d.worker(writes="right")
    async def right(fact: int) -> int:
        return fact

    @d.worker(writes="joined")
    async def join(left: int, right: int) -> int:
        return left + right

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(fact=2)
        assert (await case.completed())["joined"] == 4


async def test_two_workers_that_feed_an_either_or_both_finish_and_the_join_fires_once_for_the_first() -> None:
    gates = {"fast": asyncio.Event(), "slow": asyncio.Event()}
    d = CaseDefinition("d", signals=["go"])

    async def fast_one(go: int) -> int:
        await gates["fast"].wait()
        return 1

    async def slow_one(go: int) -> int:
        await gates["slow"].wait()
        return 2

    d.worker(name="fast", writes="by_fast")(fast_one)
    d.worker(name="slow", writes="by_slow")(slow_one)

    @d.worker(writes="first", when=~absent("by_fast") | ~absent("by_slow"), refire="once")
    async def take_first(go: int) -> int:
        return go

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, go=5)
        for name in ("fast", "slow"):
            gates[name].set()
            await kit.settle()
        context = await case.context()
        assert (context["by_fast"], context["by_slow"], context["first"]) == (1, 2, 5)
        assert len([event for event in kit.events(case, WorkerScheduled) if event.binding == "take_first"]) == 1


async def test_a_listener_in_a_loop_fires_in_every_round() -> None:
    d = CaseDefinition("d", signals=["round"])

    @d.worker(writes="echo", on="round")
    async def echo(round: int) -> int:
        return round

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        for number in range(5):
            await case.signal(round=number, wait="quiescent")
        assert len(kit.events(case, WorkerExecutionStarted)) == 5


async def test_two_writers_of_one_fact_are_settled_by_their_policy_a_thousand_times_the_same() -> None:
    results = set()
    for _ in range(100):
        d = CaseDefinition("d", at_quiescence=True)

        async def write(a: int) -> list[int]:
            return [a]

        for name in ("x", "y"):
            d.worker(name=name, writes="shared", merge=lambda theirs, mine: [*theirs, *mine])(write)
        async with CaseHub(d) as hub:
            context = await (await hub.start(d, a=1)).completed()
            results.add(tuple(context["shared"]))
    assert results == {(1, 1)}


# ---- asyncio itself


async def test_many_cases_survive_the_garbage_collector() -> None:
    d = chain()
    async with CaseHub(d) as hub:
        cases = [await hub.start(d, a=number) for number in range(60)]
        gc.collect()
        for number, case in enumerate(cases):
            assert (await case.completed())["goal"] == number + 3
            if not number % 20:
                gc.collect()


async def test_nothing_runs_after_the_task_that_holds_the_hub_was_cancelled() -> None:
    ran: list[int] = []
    d = CaseDefinition("d", goal="never", external=["never"])

    @d.worker(writes="n", refire="always", limit=1_000)
    async def spin(start: int, n: int = 0) -> int:
        ran.append(n)
        await asyncio.sleep(0)
        return n + 1

    async def serve() -> None:
        async with CaseHub(d, store=Kept()) as hub:
            await hub.start(d, start=1)
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    while len(ran) < 20:  # noqa: ASYNC110 - it is the hub that is waited for
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    length = len(ran)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(ran) == length


async def test_warnings_and_tasks_of_a_used_hub_are_none() -> None:
    before = asyncio.all_tasks()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with CaseHub(chain()) as hub:
            with hub.watch(SignalReceived):
                await (await hub.start("chain", a=1)).completed()
        gc.collect()
    assert asyncio.all_tasks() == before


TRACE = """
import asyncio
from casehub import CaseDefinition, CaseHub, Event

d = CaseDefinition("d", goal="end", signals={"go", "stop", "wait"}, protected={"x", "y", "z"})

async def work(go: int) -> int:
    return go

for name in ["alpha", "beta", "gamma", "delta"]:
    d.worker(name=name, writes=f"by_{name}")(work)

@d.worker(writes="end")
async def join(by_alpha: int, by_beta: int, by_gamma: int, by_delta: int) -> int:
    return 1

async def main() -> None:
    async with CaseHub(d, seed=1) as hub:
        case = await hub.start(d, go=1, case_id="x")
        await case.completed()
        print(d.name, hub.structures["d"].hash)
        for event in await case.log.query(Event):
            print(event)

asyncio.run(main())
"""


@pytest.mark.slow  # three processes
def test_the_hash_seed_of_the_process_changes_no_decision_and_no_structure() -> None:
    traces = set()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", TRACE],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2", "77")
    ]
    for process in running:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0
        traces.add(out)
    assert len(traces) == 1
