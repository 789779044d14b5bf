"""Cases that undo what they did, in a running hub: with people, sub-cases and time, over restarts, under the brake."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    CaseCancelledError,
    CaseCompensating,
    CaseDefinition,
    CaseEnded,
    CaseFaultedError,
    CaseHub,
    CaseStatus,
    Compensation,
    CompensationStarted,
    Gate,
    HumanTask,
    IllegalTransitionError,
    Planned,
    Retry,
    SubCaseCancelled,
    SubCaseEnded,
    WorkerExecution,
)
from casehub.testing import CaseTestKit
from tests.scenarios.crashing import Step, between, played, told
from tests.staging import idle

OPENS = datetime(2030, 1, 2, 1, tzinfo=UTC)
"""When the desk of the airline opens: in what a worker does, only time tells an attempt from the next."""
undone: list[str] = []


@pytest.fixture(autouse=True)
def nothing_undone() -> None:
    undone.clear()


def hotel_visit() -> CaseDefinition:
    """A stay that is booked, and then lasts until somebody says that the guest has left."""
    d = CaseDefinition("stay", goal="bill", signals={"left": str})

    @d.worker(writes="room")
    async def book_room(guest: str) -> str:
        return f"room of {guest}"

    @d.worker(compensates=book_room)
    async def free_room(room: str) -> None:
        undone.append(f"freed the {room}")

    @d.worker(writes="bill")
    async def charge(room: str, left: str) -> str:
        return f"{room}, {left}"

    return d


stay = hotel_visit()
trip = CaseDefinition("trip", goal="home", signals={"home": bool}, compensation=Compensation(deadline="30d"))


@trip.worker(writes="flight")
async def book_flight(city: str) -> str:
    return f"flight to {city}"


@trip.human_task(writes="visa")
def get_visa(flight: str) -> HumanTask[str]:
    return HumanTask(f"Get a visa for the {flight}", str, users=["ada"])


@trip.sub_case(stay, writes="bills", takes="bill")
def sleep(guests: list[str], visa: str) -> list[dict[str, str]]:
    return [{"guest": guest} for guest in guests]


@trip.worker(writes="refund", compensates=book_flight, retry=Retry(2, wait="1h", jitter=False))
async def cancel_flight(flight: str, execution: WorkerExecution) -> str:
    if execution.case.now < OPENS:
        raise OSError("the line is busy")
    undone.append(f"cancelled the {flight}")
    return "half"


@trip.human_task(writes="visa_returned", compensates=get_visa)
def return_visa(visa: str) -> HumanTask[bool]:
    return HumanTask(f"Return {visa}", bool, users=["ada"], due="2d")


STEPS: tuple[Step, ...] = (
    lambda kit: kit.start(trip, case_id="trip", city="Rome", guests=["Ada"]),
    lambda kit: kit.hub.tasks.complete("trip/get_visa/1", "visa 7", by="user:ada", key="1"),
    lambda kit: kit.hub.case("trip").cancel(by="user:ada", reason="no time"),
    lambda kit: kit.advance("1d"),
    lambda kit: kit.hub.tasks.complete("trip/return_visa/1", True, by="user:ada", key="2"),
    lambda kit: kit.advance("1h"),
)
PASSES = (STEPS[3], STEPS[5])
"""Time that has passed does not pass again."""


async def test_a_trip_is_undone_the_newest_first_and_what_its_sub_cases_did_before_that() -> None:
    logs = await played(trip, STEPS)
    assert list(logs) == ["trip", "trip/sleep/1.1"]
    assert [log[-1].name for log in logs.values()] == ["CASE_CANCELLED"] * 2
    assert undone == ["freed the room of Ada", "cancelled the flight to Rome"]
    names = [event.name for event in logs["trip"]]
    assert names.index("SUB_CASE_ENDED") < names.index("COMPENSATION_STARTED")
    started = [event.activation for event in logs["trip"] if isinstance(event, CompensationStarted)]
    assert started == ["trip/get_visa/1", "trip/book_flight/1"]
    assert logs["trip"][-1].by == "user:ada"


@pytest.mark.slow
@pytest.mark.parametrize("again", [(), (1,)], ids=["once", "twice"])
async def test_restarts_between_any_two_events_leave_the_logs_that_there_are_without_them(
    again: tuple[int, ...],
) -> None:
    whole = await played(trip, STEPS)
    expected = told(whole)
    for number in between(whole, "trip"):
        undone.clear()
        logs = await played(trip, STEPS, (number, *again), passes=PASSES, refused=(IllegalTransitionError,))
        assert told(logs) == expected, f"after event {number}"


# ---- sub-cases


async def test_a_kill_of_the_parent_kills_its_sub_cases_which_undo_nothing() -> None:
    async with CaseTestKit(trip) as kit:
        case = await kit.start(trip, case_id="trip", city="Rome", guests=["Ada"])
        await kit.settle()
        await kit.hub.tasks.complete("trip/get_visa/1", "visa 7", by="user:ada")
        await kit.settle()
        await case.kill(by="user:ada", reason="fire")
        await kit.settle()
        assert undone == []
        assert [event.kill for event in kit.events(case, SubCaseCancelled)] == [True]
        ends = {event.case: event.reason for event in kit.events(None, CaseEnded)}
        assert ends["trip"].startswith("fire; not compensated: trip/get_visa/1 (not tried)")
        assert "not compensated: trip/sleep/1.1/book_room/1 (not tried)" in ends["trip/sleep/1.1"]


async def test_a_kill_reaches_sub_cases_that_undo_what_they_did() -> None:
    child = CaseDefinition("child", signals={"go": bool})

    @child.worker
    async def work(number: int) -> None: ...

    @child.human_task(compensates=work)
    def undo(number: int) -> HumanTask[bool]:
        return HumanTask("Undo it", bool, users=["ada"])

    parent = CaseDefinition("parent", signals={"go": bool})

    @parent.sub_case(child)
    def start(number: int) -> dict[str, int]:
        return {"number": number}

    async with CaseTestKit(parent) as kit:
        case = await kit.start(parent, number=1)
        await kit.settle()
        await case.cancel()
        await kit.settle()
        inner = kit.hub.case(f"{case.id}/start/1")
        assert await case.status() is CaseStatus.CANCELLED, "it has nothing to undo itself, and waits for nobody"
        assert await inner.status() is CaseStatus.COMPENSATING
        await inner.kill()
        await kit.settle()
        assert await inner.status() is CaseStatus.CANCELLED


def careful(*, faults: bool) -> CaseDefinition:
    """A parent that has booked, with a sub-case whose booking somebody has to undo; `faults`: as it faults by itself."""
    child = CaseDefinition("child", signals={"go": bool})

    @child.worker(writes="booked")
    async def work(number: int) -> int:
        return number

    @child.human_task(compensates=work)
    def undo(number: int) -> HumanTask[bool]:
        return HumanTask("Undo it", bool, users=["ada"])

    @child.worker(writes="next", retry=Retry(1), on_exhausted="fault_case")
    async def go_on(booked: int) -> int:
        if faults:
            raise OSError("no")
        await asyncio.Event().wait()
        return 0

    parent = CaseDefinition("parent", signals={"go": bool})

    @parent.worker(writes="first")
    async def begin(number: int) -> int:
        return number

    @parent.worker(compensates=begin)
    async def end(number: int) -> None:
        undone.append("the parent's")

    @parent.sub_case(child)
    def start(first: int) -> dict[str, int]:
        return {"number": first}

    return parent


async def test_a_kill_while_a_parent_waits_reaches_the_sub_case_that_was_told_to_end() -> None:
    async with CaseTestKit(parent := careful(faults=False)) as kit:
        case = await kit.start(parent, number=1)
        await kit.settle()
        await case.cancel()
        await kit.settle()
        inner = kit.hub.case(f"{case.id}/start/1")
        assert (await case.status(), await inner.status()) == (CaseStatus.COMPENSATING, CaseStatus.COMPENSATING)
        (said,) = await case.explain("end")
        assert f"waits until sub-case {inner.id} has ended" in said.text
        await case.kill()
        await kit.settle()
        assert (await case.status(), await inner.status()) == (CaseStatus.CANCELLED, CaseStatus.CANCELLED)
        assert undone == []


async def test_a_sub_case_that_undoes_what_it_did_already_is_told_to_end_without_a_failure() -> None:
    async with CaseTestKit(parent := careful(faults=True)) as kit:
        case = await kit.start(parent, number=1)
        await kit.settle()
        with structlog.testing.capture_logs() as logs:
            await case.cancel()
            await kit.settle()
        assert [entry for entry in logs if entry["log_level"] == "error"] == []
        (task,) = await kit.hub.tasks.list()
        await kit.hub.tasks.complete(task.id, True, by="user:ada")
        await kit.settle()
        assert await kit.hub.case(f"{case.id}/start/1").status() is CaseStatus.FAULTED
        assert (await case.status(), undone) == (CaseStatus.CANCELLED, ["the parent's"])


async def test_a_sub_case_that_faults_undoes_what_it_did_before_its_parent_hears_of_it() -> None:
    child = CaseDefinition("child", goal="paid")

    @child.worker(writes="flight")
    async def book(number: int) -> str:
        return f"F{number}"

    @child.worker(compensates=book)
    async def unbook(flight: str) -> None:
        undone.append(flight)

    @child.worker(writes="paid", retry=Retry(1), on_exhausted="fault_case")
    async def pay(flight: str) -> bool:
        raise OSError("no money")

    parent = CaseDefinition("parent")

    @parent.sub_case(child, writes="flight", takes="flight")
    def start(number: int) -> dict[str, int]:
        return {"number": number}

    async with CaseTestKit(parent) as kit:
        case = await kit.start(parent, number=1)
        await kit.settle()
        assert undone == ["F1"]
        (ended,) = kit.events(case, SubCaseEnded)
        assert ended.reason == "worker 'pay': no money"


async def test_what_a_sub_case_did_can_be_undone_by_another_sub_case() -> None:
    booking, unbooking = CaseDefinition("booking", goal="code"), CaseDefinition("unbooking", goal="done")

    @booking.worker(writes="code")
    async def book(city: str) -> str:
        return f"code of {city}"

    @unbooking.worker(writes="done")
    async def unbook(code: str) -> bool:
        undone.append(code)
        return True

    d = CaseDefinition("d", signals={"city": str})

    @d.sub_case(booking, writes="code")
    def start(city: str) -> dict[str, str]:
        return {"city": city}

    @d.sub_case(unbooking, compensates=start)
    def take_back(code: str) -> dict[str, str]:
        return {"code": code}

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, city="Rome")
        await kit.settle()
        await case.cancel()
        await kit.settle()
        assert undone == ["code of Rome"]
        assert await case.status() is CaseStatus.CANCELLED


async def test_what_was_done_for_each_element_is_undone_for_each() -> None:
    d = CaseDefinition("d")

    @d.worker(each="cities", writes="flights")
    async def book(city: str) -> str:
        return f"F {city}"

    @d.worker(each="flights", writes="refunds", compensates=book)
    async def unbook(flight: str) -> str:
        undone.append(flight)
        return flight

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, cities=["Rome", "Oslo"])
        await kit.settle()
        await case.cancel()
        await kit.settle()
        assert sorted(undone) == ["F Oslo", "F Rome"]
        assert await case.status() is CaseStatus.CANCELLED


# ---- what operators do


def held_up() -> CaseDefinition:
    d = CaseDefinition("d", goal="never", signals={"never": bool})

    @d.worker(writes="flight")
    async def book(city: str) -> str:
        return f"F {city}"

    @d.worker(compensates=book)
    async def unbook(flight: str, execution: WorkerExecution) -> None:
        assert execution.undoes == f"{execution.case.id}/book/1"
        undone.append(flight)

    return d


async def test_under_the_brake_a_case_that_is_cancelled_undoes_nothing_until_it_is_released() -> None:
    d = held_up()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, city="Rome")
        await kit.settle()
        await kit.hub.brake.pull(reason="look")
        await case.cancel()
        await kit.settle()
        assert await case.status() is CaseStatus.SUSPENDED
        assert undone == []
        assert await kit.hub.brake.release() == 1
        await kit.settle()
        assert (undone, await case.status()) == (["F Rome"], CaseStatus.CANCELLED)


async def test_the_brake_holds_a_case_that_compensates_already() -> None:
    async with CaseTestKit(trip) as kit:
        case = await kit.start(trip, case_id="trip", city="Rome", guests=[])
        await kit.settle()
        await case.cancel()
        await kit.settle()
        assert await case.status() is CaseStatus.COMPENSATING
        assert await kit.hub.brake.pull() == 1
        await kit.advance("2d")
        assert (await case.status(), undone) == (CaseStatus.SUSPENDED, [])
        await kit.hub.brake.release()
        await kit.settle()
        assert (await case.status(), undone) == (CaseStatus.CANCELLED, ["cancelled the flight to Rome"])


async def test_a_worker_that_is_suspended_holds_up_what_it_would_undo() -> None:
    d = held_up()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, city="Rome")
        await kit.settle()
        await kit.hub.brake.pull(worker="unbook")
        await case.cancel()
        await kit.settle()
        assert await case.status() is CaseStatus.COMPENSATING
        (said,) = await case.explain("unbook")
        assert said.text.endswith("unbook is suspended; resume it with 'casehub resume --worker'")
        await kit.hub.brake.release(worker="unbook")
        await kit.settle()
        assert (await case.status(), undone) == (CaseStatus.CANCELLED, ["F Rome"])


async def test_by_hand_over_the_handle() -> None:
    d = held_up()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, city="Rome")
        await kit.settle()
        await case.compensate("book", by="user:ada", reason="the wrong city")
        await kit.settle()
        assert undone == ["F Rome"]
        (started,) = kit.events(case, CompensationStarted)
        assert (started.by, started.reason) == ("user:ada", "the wrong city")


async def test_whoever_waits_for_a_case_waits_until_it_has_undone_what_it_did() -> None:
    async with CaseTestKit(trip) as kit:
        case = await kit.start(trip, case_id="trip", city="Rome", guests=[])
        await kit.settle()
        await case.cancel(reason="no time")
        assert [event.end for event in kit.events(case, CaseCompensating)] == ["CANCELLED"]
        waiting = asyncio.ensure_future(case.completed())
        await kit.settle()
        assert not waiting.done()
        await kit.advance("2d")
        with pytest.raises(CaseCancelledError, match="no time"):
            await waiting


async def test_an_action_that_undoes_something_passes_a_gate_like_any_other() -> None:
    d = CaseDefinition("d", signals={"city": str})

    @d.worker(writes="flight")
    async def book(city: str) -> str:
        return f"F {city}"

    async def pay_back(amount: int) -> None:
        undone.append(f"paid {amount} back")

    @d.worker(compensates=book, gate=Gate(pay_back, users=["ada"]))
    async def refund(flight: str) -> Planned[int]:
        return Planned(40, f"pay back {flight}")

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, city="Rome")
        await kit.settle()
        await case.cancel()
        await kit.settle()
        assert undone == []
        (task,) = await kit.hub.tasks.list()
        await kit.hub.tasks.complete(task.id, {"approved": True}, by="user:ada")
        await kit.settle()
        assert (undone, await case.status()) == (["paid 40 back"], CaseStatus.CANCELLED)


async def test_a_worker_may_ask_people_while_it_undoes_something() -> None:
    d = CaseDefinition("d", signals={"city": str})

    @d.worker(writes="flight")
    async def book(city: str) -> str:
        return f"F {city}"

    @d.worker(compensates=book)
    async def unbook(flight: str, execution: WorkerExecution) -> None:
        undone.append(f"{flight}: {await execution.ask(HumanTask('Really?', bool, users=['ada']))}")

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, city="Rome")
        await kit.settle()
        await case.cancel()
        await kit.settle()
        (task,) = await kit.hub.tasks.list()
        await kit.restart()
        await kit.hub.tasks.complete(task.id, True, by="user:ada")
        await kit.settle()
        assert (undone, await case.status()) == (["F Rome: True"], CaseStatus.CANCELLED)


async def test_a_plan_shows_what_is_being_undone() -> None:
    loop = PlanningStrategyLoopControl(EverythingEligible())
    async with CaseTestKit(trip, loop=loop) as kit:
        case = await kit.start(trip, case_id="trip", city="Rome", guests=[])
        await kit.settle()
        await case.cancel()
        await kit.settle()
        plan = await case.plan()
        assert plan is not None
        assert [item.id for item in plan.running] == ["trip/cancel_flight/1"]
        assert plan.agenda == ()
        await kit.advance("2d")
        assert await case.status() is CaseStatus.CANCELLED


# ---- where it lives


async def test_a_case_that_waits_for_people_to_undo_something_leaves_memory(tmp_path: Path) -> None:
    d = CaseDefinition("d", signals={"city": str})

    @d.worker
    async def book(city: str) -> None: ...

    @d.human_task(writes="done", compensates=book)
    def unbook(city: str) -> HumanTask[bool]:
        return HumanTask(f"Unbook {city}", bool, users=["ada"])

    async with CaseHub(d, resident=1, store=f"sqlite:///{tmp_path / 'cases.db'}") as hub:
        cases = [await hub.start(d, city=f"city {n}") for n in range(4)]
        for case in cases:
            await case.quiescent()
            await case.cancel()
            await case.quiescent()
        await idle()
        assert hub._residents_now.resident <= 2
        for task in await hub.tasks.list():
            await hub.tasks.complete(task.id, True, by="user:ada")
        for case in cases:
            with pytest.raises(CaseCancelledError):
                await case.completed()


async def test_on_disk_another_process_goes_on_where_it_was(tmp_path: Path) -> None:
    d = CaseDefinition("d", goal="paid")
    tries: list[int] = []
    begun = asyncio.Event()

    @d.worker(writes="flight")
    async def book(city: str) -> str:
        return f"F {city}"

    @d.worker(compensates=book)
    async def unbook(flight: str, execution: WorkerExecution) -> None:
        tries.append(execution.attempt)
        begun.set()
        if len(tries) == 1:
            await asyncio.Event().wait()  # until its process ends
        undone.append(flight)

    @d.worker(writes="paid", retry=Retry(1), on_exhausted="fault_case")
    async def pay(flight: str) -> bool:
        raise OSError("no money")

    url = f"sqlite:///{tmp_path / 'cases.db'}"
    async with CaseHub(d, store=url) as hub:
        case = await hub.start(d, city="Rome", case_id="c")
        await begun.wait()
        assert await case.status() is CaseStatus.COMPENSATING
    async with CaseHub(d, store=url) as hub:
        with pytest.raises(CaseFaultedError, match="no money"):
            await hub.case("c").completed()
    assert (undone, tries) == (["F Rome"], [1, 2])
