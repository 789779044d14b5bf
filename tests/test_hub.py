"""The life of a hub: what it opens and closes, what it starts and loads, what passes through it, what it leaves."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import structlog

from casehub import (
    CaseDefinition,
    CaseEnded,
    CaseExistsError,
    CaseHub,
    CaseNotFoundError,
    CaseStarted,
    CaseStatus,
    ChoreographyLoopControl,
    DefinitionError,
    Event,
    EventQuery,
    HubClosedError,
    InputRefusedError,
    SettingsError,
    StoreOwnedError,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.adapters.clock import VirtualClock
from casehub.adapters.memory import MemoryStore
from casehub.envelope import subtypes
from tests.staging import Kept, idle

claim = CaseDefinition("claim", goal="decision")


@claim.worker(writes="entities")
async def extract(document: str) -> list[str]:
    return [word for word in document.split() if word.istitle()]


@claim.worker(writes="risk")
async def assess(entities: list[str]) -> float:
    return len(entities) / 10


@claim.worker(writes="decision")
async def decide(risk: float) -> str:
    return "approve" if risk < 0.5 else "refer"


def waiting(name: str = "waiting") -> CaseDefinition:
    """A definition whose cases wait for the signal `go`, which completes them."""
    return CaseDefinition(name, goal="go", signals=["go", "note"])


def hanging() -> CaseDefinition:
    """A definition whose cases run for ever."""
    d = CaseDefinition("hanging", goal="done")

    @d.worker(writes="done")
    async def hang(a: int) -> int:
        await asyncio.Event().wait()
        return a

    return d


async def test_a_case_runs_to_its_goal() -> None:
    async with CaseHub(claim) as hub:
        case = await hub.start(claim, document="Ada met Grace in Paris")
        assert (await case.completed())["decision"] == "approve"
        assert await case.status() is CaseStatus.COMPLETED


# ---- entering and leaving


async def test_leaving_leaves_no_task_and_no_thread() -> None:
    before = (asyncio.all_tasks(), set(threading.enumerate()))
    definition = hanging()
    async with CaseHub(definition, store=Kept(), clock=VirtualClock()) as hub:

        @hub.on(Event)
        async def hear(event: Event) -> None:
            await asyncio.sleep(0)

        for _ in range(3):
            await hub.start(definition, a=1)
        await idle()
    assert (asyncio.all_tasks(), set(threading.enumerate())) == before


async def test_what_ran_when_the_hub_was_left_came_to_its_finally() -> None:
    seen: list[str] = []
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("finally")
        return a

    async with CaseHub(d, store=Kept()) as hub:
        await hub.start(d, a=1)
        await idle()
    assert seen == ["finally"]


async def test_leaving_a_memory_store_with_open_cases_warns_of_them() -> None:
    definition = waiting()
    with pytest.warns(UserWarning, match=r"1 open case\(s\) are lost .* open-one among them; give store='sqlite:"):  # noqa: PT031 - leaving the block is what warns
        async with CaseHub(definition) as hub:
            await hub.start(definition, case_id="open-one")
            (await hub.start(definition, go=1, case_id="done")).id  # noqa: B018 - it has ended


async def test_leaving_with_nothing_open_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with CaseHub(claim) as hub:
            await (await hub.start(claim, document="Ada")).completed()


async def test_a_sub_case_that_its_parent_has_called_off_is_not_warned_of() -> None:
    child = waiting()
    d = CaseDefinition("parent", goal="b", signals=["more"])

    @d.sub_case(child, name="ask", writes="answer", takes="go")
    def ask(a: int) -> dict[str, int]:
        return {}

    @d.worker(writes="b")
    async def decide(more: int) -> int:
        return more

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with CaseHub(d) as hub:
            case = await hub.start(d, a=1)
            await case.quiescent()
            await case.signal(more=1)
            await case.completed()


async def test_a_warning_that_is_an_error_leaves_nothing_behind_either() -> None:
    definition = hanging()
    before = asyncio.all_tasks()
    store = MemoryStore()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="open case"):  # noqa: PT012 - leaving the block is what raises
            async with CaseHub(definition, store=store) as hub:
                await hub.start(definition, a=1)
                await idle()
    assert asyncio.all_tasks() == before
    async with CaseHub(definition, store=store) as hub:  # it has been closed, and can be opened
        await hub.case((await hub.cases())[0].case).cancel()


class Mine(Exception):  # noqa: N818 - a user's own
    pass


@pytest.mark.parametrize("error", [Mine("x"), KeyError("y"), KeyboardInterrupt(), SystemExit(3)])
async def test_what_the_block_raises_comes_out_as_it_is(error: BaseException) -> None:
    definition = hanging()
    with pytest.raises(type(error)) as caught:  # noqa: PT012 - what is raised has to pass the hub
        async with CaseHub(definition, store=Kept()) as hub:
            await hub.start(definition, a=1)
            await idle()
            raise error
    assert caught.value is error


async def test_a_group_that_the_block_raises_comes_out_as_it_is() -> None:
    group = ExceptionGroup("mine", [Mine("x")])
    with pytest.raises(ExceptionGroup) as caught:
        async with CaseHub(claim):
            raise group
    assert caught.value is group


async def test_cancelling_the_task_that_holds_the_hub_ends_it_and_leaves_nothing() -> None:
    definition = hanging()
    entered = asyncio.Event()
    went_on: list[str] = []
    store = Kept()

    async def serve() -> None:
        async with CaseHub(definition, store=store) as hub:
            await hub.start(definition, a=1)
            entered.set()
            await asyncio.Event().wait()
        went_on.append("no")

    task = asyncio.create_task(serve())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not went_on
    assert store.closed == 1


async def test_a_scope_around_the_hub_ends_it() -> None:
    definition = hanging()
    with anyio.CancelScope() as scope:
        async with CaseHub(definition, store=Kept()) as hub:
            await hub.start(definition, a=1)
            await idle()
            scope.cancel()
            await asyncio.Event().wait()
    assert scope.cancelled_caught


async def test_the_constructor_does_no_io() -> None:
    store = Kept()
    CaseHub(claim, store=store)
    assert store.opened == 0


async def test_a_hub_is_entered_once() -> None:
    hub = CaseHub(claim)
    async with hub:
        with pytest.raises(HubClosedError, match="a hub is entered once; make another one"):
            await hub.__aenter__()
    with pytest.raises(HubClosedError, match="a hub is entered once"):
        await hub.__aenter__()


async def test_outside_of_its_block_a_hub_says_how_to_use_it() -> None:
    hub = CaseHub(claim)
    for _ in range(2):
        with pytest.raises(HubClosedError, match=r"use it inside 'async with CaseHub\(...\) as hub:'"):
            await hub.start(claim, document="x")
        with pytest.raises(HubClosedError, match="the hub is not open"):
            await hub.case("x").status()
        with pytest.raises(HubClosedError, match="the hub is not open"):
            hub.watch(Event)
        if hub._opened is None:  # the second time round it has been left
            async with hub:
                pass


async def test_who_waits_when_the_hub_is_left_is_told() -> None:
    definition = waiting()
    async with CaseHub(definition, store=Kept()) as hub:
        case = await hub.start(definition)
        completed = asyncio.create_task(case.completed())
        await idle()
    with pytest.raises(HubClosedError, match="the hub was left while this was waited for"):
        await completed


def test_the_hub_needs_asyncio_and_says_so() -> None:
    async def enter() -> None:
        async with CaseHub(claim):
            pass

    step = enter()
    with pytest.raises(SettingsError, match="CaseHub runs on asyncio"):
        step.send(None)


async def test_a_store_that_is_open_elsewhere_is_refused() -> None:
    store = MemoryStore()
    async with CaseHub(claim, store=store):
        with pytest.raises(StoreOwnedError):
            async with CaseHub(claim, store=store):
                pass
    async with CaseHub(claim, store=store):
        pass


@pytest.mark.parametrize(
    ("make", "error", "complaint"),
    [
        (lambda: CaseHub(waiting(), waiting()), SettingsError, "two definitions have the name"),
        (lambda: CaseHub(claim, store="postgras://x"), SettingsError, "no store has the scheme"),
        (lambda: CaseHub(claim, store="sqlite:///x.db?synchronus=FULL"), SettingsError, "did you mean 'synchronous'"),
        (lambda: CaseHub(claim, loop={"clame": ChoreographyLoopControl()}), SettingsError, "did you mean 'claim'"),
        (lambda: CaseHub(CaseDefinition("d", goal="nothing")), DefinitionError, "definition 'd' cannot work"),
    ],
)
def test_what_cannot_work_is_refused_by_the_constructor(make: Any, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        make()


async def test_a_loop_control_a_definition() -> None:
    class Picky(ChoreographyLoopControl):
        async def select(self, case: Any, eligible: Any) -> Any:
            return ()

    one, other = hanging(), CaseDefinition("quick", goal="b")

    @other.worker(writes="b")
    async def work(a: int) -> int:
        return a

    async with CaseHub(one, other, loop={"hanging": Picky()}, store=Kept()) as hub:
        stuck = await hub.start(one, a=1)
        assert (await stuck.state()).stalled
        assert (await (await hub.start(other, a=1)).completed())["b"] == 1


# ---- resources


class Opened:
    """Counts what happens to a resource."""

    def __init__(self) -> None:
        self.events: list[str] = []


async def test_resources_are_opened_once_before_the_first_case_and_closed_once_after_the_last() -> None:
    journal = Opened()
    d = CaseDefinition("d", goal="b")

    @d.resource
    async def client() -> AsyncIterator[Opened]:
        journal.events.append("open")
        yield journal
        journal.events.append("close")

    @d.worker(writes="b")
    async def work(a: int, client: Opened) -> int:
        client.events.append("use")
        return a

    async with CaseHub(d) as hub:
        assert journal.events == ["open"]
        for a in range(3):
            await (await hub.start(d, a=a)).completed()
    assert journal.events == ["open", "use", "use", "use", "close"]


async def test_definitions_that_share_an_opener_share_what_it_opens() -> None:
    opened: list[int] = []

    async def client() -> AsyncIterator[Opened]:
        opened.append(1)
        yield Opened()

    one, other = waiting("one"), waiting("other")
    one.resource(client)
    other.resource(client)
    async with CaseHub(one, other):
        assert opened == [1]


async def test_a_resource_can_be_replaced() -> None:
    d = CaseDefinition("d", goal="b")

    @d.resource
    async def client() -> AsyncIterator[Opened]:
        raise AssertionError("it is not opened")
        yield

    @d.worker(writes="b")
    async def work(a: int, client: Opened) -> int:
        return len(client.events)

    stub = Opened()
    stub.events = ["x", "y"]
    async with CaseHub(d, resources={client: stub}) as hub:
        assert (await (await hub.start(d, a=1)).completed())["b"] == 2


async def test_a_resource_that_does_not_open_closes_what_is_open_and_passes_its_error_on() -> None:
    closed: list[str] = []
    d = waiting()

    @d.resource
    async def first() -> AsyncIterator[Opened]:
        try:
            yield Opened()
        finally:
            closed.append("first")

    @d.resource
    async def second() -> AsyncIterator[dict[str, int]]:
        raise ConnectionError("no route")
        yield {}

    store = Kept()
    with pytest.raises(ConnectionError, match="no route"):
        async with CaseHub(d, store=store):
            pass
    assert closed == ["first"]
    assert (store.opened, store.closed) == (1, 1)


async def test_resources_are_still_open_while_what_runs_comes_to_its_end() -> None:
    order: list[str] = []
    d = CaseDefinition("d", goal="b")

    @d.resource
    async def client() -> AsyncIterator[Opened]:
        yield Opened()
        order.append("client closed")

    @d.worker(writes="b")
    async def work(a: int, client: Opened) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            order.append("worker ended")
        return a

    async with CaseHub(d, store=Kept()) as hub:
        await hub.start(d, a=1)
        await idle()
    assert order == ["worker ended", "client closed"]


# ---- starting


async def test_starting_by_name_or_by_definition() -> None:
    definition = waiting()
    async with CaseHub(definition) as hub:
        for what in (definition, "waiting"):
            await (await hub.start(what)).cancel()
        assert [summary.definition for summary in await hub.cases()] == ["waiting", "waiting"]


@pytest.mark.parametrize(
    ("start", "error", "complaint"),
    [
        (lambda hub: hub.start("clame", document="x"), SettingsError, "no definition 'clame'; did you mean 'claim'"),
        (lambda hub: hub.start(waiting("claim")), SettingsError, "this hub has no definition 'claim'"),
        (lambda hub: hub.start(claim), InputRefusedError, "needs the input 'document'"),
        (lambda hub: hub.start(claim, documant="x"), InputRefusedError, "did you mean 'document'"),
        (lambda hub: hub.start(claim, document="x", case_id="a/b"), InputRefusedError, "case_id 'a/b' is no id"),
        (lambda hub: hub.start(claim, document="x", case_id=""), InputRefusedError, "case_id '' is no id"),
        (lambda hub: hub.start(claim, document="x", case_id="a\nb"), InputRefusedError, "is no id"),
        (lambda hub: hub.start(claim, document="x", case_id="a@b"), InputRefusedError, "is no id"),
    ],
)
async def test_what_cannot_be_started_is_refused_and_nothing_is_recorded(
    start: Any, error: type[Exception], complaint: str
) -> None:
    async with CaseHub(claim) as hub:
        with pytest.raises(error, match=complaint):
            await start(hub)
        assert await hub.log.position() == 0


async def test_an_id_is_given_once() -> None:
    definition = waiting()
    async with CaseHub(definition, store=Kept()) as hub:
        await hub.start(definition, case_id="x")
        with pytest.raises(CaseExistsError, match="case 'x' is there already; give another case_id"):
            await hub.start(definition, case_id="x")
        await hub.case("x").cancel()
        with pytest.raises(CaseExistsError):
            await hub.start(definition, case_id="x")


async def test_of_many_that_start_one_id_at_once_one_does_and_the_case_is_worked_by_one_writer() -> None:
    definition = waiting()
    async with CaseHub(definition, store=Kept()) as hub:
        starts = await asyncio.gather(
            *(hub.start(definition, case_id="x", note=n) for n in range(10)), return_exceptions=True
        )
        started = [each for each in starts if not isinstance(each, BaseException)]
        assert len(started) == 1
        assert all(isinstance(each, CaseExistsError) for each in starts if each not in started)
        notes = {n: await started[0].signal(note=f"later {n}") for n in range(5)}
        assert (await started[0].context())["note"] == "later 4"
        assert len(notes) == 5
        assert await hub.log.count(EventQuery(types=(CaseStarted.name,))) == {"": 1}


async def test_looking_at_a_case_while_it_starts_makes_no_second_writer() -> None:
    definition = waiting()
    async with CaseHub(definition, store=Kept()) as hub:

        async def look() -> str:
            for _ in range(20):
                try:
                    return str(await hub.case("x").status())
                except CaseNotFoundError:
                    await asyncio.sleep(0)
            raise AssertionError("it never came")

        looks = [asyncio.create_task(look()) for _ in range(5)]
        await asyncio.sleep(0)
        case = await hub.start(definition, case_id="x")
        pump = await hub.pump(case.id)
        await asyncio.gather(*looks)
        await case.signal(note=1)
        assert await hub.pump(case.id) is pump
        assert (await hub.case("x").context())["note"] == 1


async def test_a_case_that_is_started_while_it_is_looked_for_is_the_one_that_is_found() -> None:
    definition, store = waiting(), Kept()
    gate, calls = asyncio.Event(), []

    async def slow_at_first() -> None:
        calls.append("load")
        if len(calls) == 1:
            await gate.wait()

    async with CaseHub(definition, store=store) as hub:
        store.loading = slow_at_first
        looking = asyncio.create_task(hub.case("x").status())
        await idle()
        case = await hub.start(definition, case_id="x")
        pump = await hub.pump(case.id)
        gate.set()
        assert await looking is CaseStatus.WAITING
        assert await hub.pump(case.id) is pump


async def test_what_a_worker_still_returns_when_the_hub_is_left_does_not_count_and_it_runs_again() -> None:
    store, results = Kept(), [99, 1]
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def stubborn(a: int) -> int:
        result = results.pop(0)
        if result == 99:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return result
        return result

    async with CaseHub(d, store=store) as hub:
        await hub.start(d, case_id="x", a=1)
        await idle()
    async with CaseHub(d, store=store) as hub:
        assert (await hub.case("x").completed())["b"] == 1
        started = await hub.case("x").log.query(WorkerExecutionStarted)
        assert [event.attempt for event in started] == [1, 2]


@pytest.mark.parametrize("verb", ["status", "context", "suspend", "resume", "cancel", "kill", "completed", "signal"])
async def test_an_unknown_id_is_not_found_whatever_is_asked_of_it(verb: str) -> None:
    async with CaseHub(waiting()) as hub:
        arguments: dict[str, Any] = {"go": 1} if verb == "signal" else {}
        with pytest.raises(CaseNotFoundError, match="there is no case 'nobody'"):
            await getattr(hub.case("nobody"), verb)(**arguments)


async def test_the_start_is_in_the_log_when_start_returns() -> None:
    definition = waiting()
    store = Kept()
    async with CaseHub(definition, store=store) as hub:
        case = await hub.start(definition, by="user:ada", note=1)
        events = await store.load(case.id)
        assert [event.name for event in events][:2] == ["CASE_STARTED", "CONTEXT_CHANGED"]
        assert events[0].by == "user:ada"


async def test_two_cases_of_a_definition_share_nothing() -> None:
    definition = waiting()
    async with CaseHub(definition, store=Kept()) as hub:
        one, other = await hub.start(definition, note=1), await hub.start(definition, note=2)
        before = (await other.state()).version
        await one.signal(go=1)
        assert await one.status() is CaseStatus.COMPLETED
        assert await other.status() is CaseStatus.WAITING
        assert dict(await other.context()) == {"note": 2}
        assert (await other.state()).version == before


# ---- over a restart


async def test_a_case_that_was_being_worked_is_worked_again_by_the_next_hub() -> None:
    store = Kept()
    keys: list[str] = []
    gate = asyncio.Event()
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        keys.append("run")
        await gate.wait()
        return a

    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d, a=1, case_id="x")
        await idle()
    gate.set()
    async with CaseHub(d, store=store) as hub:
        case = hub.case("x")
        assert (await case.completed())["b"] == 1
        assert len(await case.log.query(WorkerScheduled)) == 1
        assert len(await case.log.query(WorkerExecutionInterrupted)) == 1
        assert [e.attempt for e in await case.log.query(WorkerExecutionStarted)] == [1, 2]
    assert keys == ["run", "run"]


async def test_a_waiting_case_goes_on_after_a_restart_as_if_nothing_had_been() -> None:
    store, definition = Kept(), waiting()
    async with CaseHub(definition, store=store) as hub:
        await hub.start(definition, case_id="x", note=1)
    async with CaseHub(definition, store=store) as hub:
        case = hub.case("x")
        assert await case.status() is CaseStatus.WAITING
        assert (await case.signal(go=5))["note"] == 1
        assert await case.status() is CaseStatus.COMPLETED


async def test_a_definition_that_is_missing_after_a_restart_parks_its_case_and_no_other() -> None:
    store = Kept()
    one = hanging()
    quick = CaseDefinition("quick", goal="b")

    @quick.worker(writes="b")
    async def work(a: int) -> int:
        return a

    async with CaseHub(one, store=store) as hub:
        await hub.start(one, case_id="lost", a=1)
    async with CaseHub(quick, store=store) as hub:
        await idle()
        assert "which this hub lacks" in hub.parked[hub.case("lost").id]
        with pytest.raises(InputRefusedError, match="of definition 'hanging', which this hub lacks"):
            await hub.case("lost").status()
        assert (await (await hub.start(quick, a=1)).completed())["b"] == 1


async def test_a_case_whose_running_binding_was_removed_is_parked_with_the_reason() -> None:
    store = Kept()
    one = hanging()
    async with CaseHub(one, store=store) as hub:
        await hub.start(one, case_id="x", a=1)
        await idle()
    changed = CaseDefinition("hanging", goal="done", signals=["done"])
    async with CaseHub(changed, store=store) as hub:
        await idle()
        with pytest.raises(InputRefusedError, match="lacks hang, which is in flight; bring that back"):
            await hub.case("x").status()
        assert list(hub.parked) == ["x"]


async def test_cases_that_wait_leave_memory_beyond_the_bound_and_come_back_when_asked() -> None:
    store, definition = Kept(), waiting()
    async with CaseHub(definition, store=store, resident=5) as hub:
        cases = [await hub.start(definition, note=n) for n in range(30)]
        await idle()
        assert hub._residents_now.resident <= 6
        for n, case in enumerate(cases):
            assert dict(await case.context()) == {"note": n}
        await idle()
        assert hub._residents_now.resident <= 6
        for case in cases:
            await case.signal(go=1)
        assert all([await case.status() is CaseStatus.COMPLETED for case in cases])


async def test_cases_that_have_ended_leave_memory() -> None:
    async with CaseHub(claim) as hub:
        for _ in range(300):
            await (await hub.start(claim, document="Ada")).completed()
        await idle()  # who waits for a case hears of its end before its pump has stopped
        residents = hub._residents_now
        assert residents.resident <= 64
        assert not residents.resting.waiting
        assert not residents._loading
        assert hub.runtime.pumping == hub.runtime.working == 0


async def test_a_cancelled_wait_for_a_case_that_is_being_loaded_disturbs_nobody_else() -> None:
    definition = waiting()
    store = Kept()
    async with CaseHub(definition, store=store) as hub:
        await hub.start(definition, case_id="x", note=1)
    async with CaseHub(definition, store=store) as hub:
        gate = asyncio.Event()
        store.loading = gate.wait
        first = asyncio.create_task(hub.case("x").status())
        await idle()
        others = [asyncio.create_task(hub.case("x").status()) for _ in range(3)]
        await idle()
        first.cancel()
        await idle()
        gate.set()
        assert await asyncio.gather(*others) == [CaseStatus.WAITING] * 3
        with pytest.raises(asyncio.CancelledError):
            await first


# ---- natively cancelled callers


@pytest.mark.parametrize("verb", ["start", "signal", "suspend"])
async def test_a_callers_cancel_abandons_its_wait_and_nothing_else(verb: str) -> None:
    definition = waiting()
    store = Kept()
    gate = asyncio.Event()
    async with CaseHub(definition, store=store) as hub:
        case = hub.case("x")
        if verb != "start":
            await hub.start(definition, case_id="x")
        store.before = lambda turns: gate.wait()
        calls = {
            "start": lambda: hub.start(definition, case_id="x", note=1),
            "signal": lambda: case.signal(note=1),
            "suspend": case.suspend,
        }
        call = asyncio.ensure_future(calls[verb]())
        await idle()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        gate.set()
        await idle()
        if verb == "suspend":
            assert await case.status() is CaseStatus.SUSPENDED
        else:
            assert (await case.context())["note"] == 1


async def test_a_cancelled_wait_for_completion_leaves_the_case_running() -> None:
    definition = waiting()
    async with CaseHub(definition) as hub:
        case = await hub.start(definition)
        for _ in range(20):
            waiter = asyncio.create_task(case.completed())
            await idle()
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
        pump = await hub.pump(case.id)
        assert not pump.busy
        await case.signal(go=1)
        assert not pump.waiters
        assert await case.status() is CaseStatus.COMPLETED


# ---- other loops and threads


async def test_two_hubs_on_two_loops_work_beside_each_other() -> None:
    results: list[Any] = []

    async def serve() -> None:
        async with CaseHub(claim) as hub:
            for _ in range(20):
                case = await hub.start(claim, document="Ada")
                results.append((await case.completed())["decision"])

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    await serve()
    await asyncio.to_thread(thread.join)
    assert results == ["approve"] * 40


@pytest.mark.parametrize("verb", ["start", "signal", "status", "completed"])
async def test_a_call_from_another_event_loop_is_refused_with_the_remedy(verb: str) -> None:
    definition = waiting()
    errors: list[BaseException] = []
    async with CaseHub(definition) as hub:
        case = await hub.start(definition)
        calls = {
            "start": lambda: hub.start(definition),
            "signal": lambda: case.signal(note=1),
            "status": case.status,
            "completed": case.completed,
        }

        async def call() -> None:
            await calls[verb]()

        def foreign() -> None:
            try:
                asyncio.run(call())
            except BaseException as error:
                errors.append(error)

        await asyncio.to_thread(foreign)
        assert [type(error) for error in errors] == [HubClosedError]
        assert "another event loop" in str(errors[0])
        assert "run_coroutine_threadsafe" in str(errors[0])
        await case.cancel()


async def test_a_call_from_a_thread_goes_through_the_hubs_loop() -> None:
    definition = waiting()
    async with CaseHub(definition) as hub:
        case = await hub.start(definition)
        loop = asyncio.get_running_loop()

        def foreign() -> Any:
            return asyncio.run_coroutine_threadsafe(case.signal(go=1), loop).result(5)

        assert (await asyncio.to_thread(foreign))["go"] == 1


# ---- draining


async def test_draining_starts_nothing_new_and_waits_for_what_runs() -> None:
    gate = asyncio.Event()
    d = CaseDefinition("d", goal="c")

    @d.worker(writes="b")
    async def first(a: int) -> int:
        await gate.wait()
        return a

    @d.worker(writes="c")
    async def second(b: int) -> int:
        return b

    store = Kept()
    async with CaseHub(d, store=store, clock=VirtualClock()) as hub:
        case = await hub.start(d, a=1, case_id="x")
        await idle()
        draining = asyncio.create_task(hub.drain("30s"))
        await idle()
        assert not draining.done()
        gate.set()
        assert await draining is True
        assert (await case.context())["b"] == 1
        assert "c" not in await case.context()
    async with CaseHub(d, store=store) as hub:
        assert (await hub.case("x").completed())["c"] == 1


async def test_draining_past_its_limit_leaves_the_rest_for_the_next_hub() -> None:
    store, clock = Kept(), VirtualClock()
    definition = hanging()
    async with CaseHub(definition, store=store, clock=clock) as hub:
        await hub.start(definition, a=1, case_id="x")
        await idle()
        draining = asyncio.create_task(hub.drain("30s"))
        await idle()
        clock.move("30s")
        assert await draining is False
    async with CaseHub(definition, store=store) as hub:
        await idle()
        started = await hub.case("x").log.query(WorkerExecutionStarted)
        assert [event.attempt for event in started] == [1, 2]


# ---- what must not spread


async def test_a_hub_of_a_tenant_sees_its_own_cases_alone() -> None:
    store, definition = Kept(), waiting()
    async with CaseHub(definition, store=store, tenant="acme") as hub:
        case = await hub.start(definition, case_id="x", note=1)
        assert len(await case.log.query(CaseStarted)) == 1
        assert [fact.value for fact in await case.facts("note").history()] == [1]
        assert (await hub.cases())[0].tenant == "acme"
        with hub.watch(Event, after=0) as events:
            assert (await anext(events)).name == "CASE_STARTED"
    async with CaseHub(definition, store=store, tenant="other") as hub:
        await idle()
        assert await hub.cases() == []
        with pytest.raises(CaseNotFoundError):
            await hub.case("x").status()
        await hub.start(definition, case_id="x")  # ids are a tenant's own
    async with CaseHub(definition, store=store, tenant="acme") as hub:
        with hub.watch(CaseStarted, after=0) as events:
            assert (await anext(events)).tenant == "acme"
            looking = asyncio.ensure_future(anext(events))
            await idle()
            await hub.start(definition, case_id="y")
            assert (await looking).case == "y"  # what another tenant wrote in between is passed over


async def test_a_case_that_faults_disturbs_no_other() -> None:
    d = CaseDefinition("d", goal="b", signals=["a"])

    @d.worker(writes="b", when=lambda a: 1 / a > 0)
    async def work(a: int) -> int:
        return a

    async with CaseHub(d) as hub:
        bad, good = await hub.start(d), await hub.start(d)
        await bad.signal(a=0)
        assert await bad.status() is CaseStatus.FAULTED
        await good.signal(a=2, wait="quiescent")
        assert await good.status() is CaseStatus.COMPLETED


async def test_a_loop_control_whose_reactions_raise_faults_its_case_and_no_other() -> None:
    class Broken(ChoreographyLoopControl):
        handles = frozenset({CaseStarted})

        def react(self, state: Any, event: Event) -> Any:
            raise LookupError("no such stage")

    bad, good = waiting("bad"), waiting("good")
    async with CaseHub(bad, good, loop={"bad": Broken()}) as hub:
        case = await hub.start(bad)
        assert await case.status() is CaseStatus.FAULTED
        assert "no such stage" in (await case.state()).reason
        await (await hub.start(good)).signal(go=1)


async def test_a_loop_control_that_raises_even_at_the_end_of_a_case_takes_nobody_with_it() -> None:
    class Hopeless(ChoreographyLoopControl):
        handles = frozenset({CaseStarted, *subtypes(CaseEnded)})

        def react(self, state: Any, event: Event) -> Any:
            raise LookupError("no such stage")

    bad, good = waiting("bad"), waiting("good")
    async with CaseHub(bad, good, loop={"bad": Hopeless()}, store=Kept()) as hub:
        with structlog.testing.capture_logs():
            case = await hub.start(bad)
        assert await case.status() is CaseStatus.FAULTED
        other = await hub.start(good)
        await other.signal(go=1)
        assert await other.status() is CaseStatus.COMPLETED


async def test_a_hub_leaves_nothing_for_the_garbage_collector_to_complain_about() -> None:
    definition = waiting()
    async with CaseHub(definition, store=Kept()) as hub:
        for n in range(20):
            case = await hub.start(definition, note=n)
            waiter = asyncio.create_task(case.completed())
            await idle()
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
    del hub, case, waiter
    gc.collect()  # a future whose error nobody fetched would be said here, and warnings are errors
