"""Why something was chosen: the decisions of a case, out of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl
from casehub import (
    Binding,
    CaseDefinition,
    CaseHub,
    CaseNotFoundError,
    CaseStarted,
    CaseStatus,
    CaseView,
    Defer,
    Event,
    Selection,
    WorkerExecutionCompleted,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
)
from casehub.decision import Decision, DecisionStatus, decisions_of
from casehub.inquiries import MOST
from casehub.spi import Answer
from casehub.testing import CaseTestKit

Select = Callable[[CasePlanModel, CaseView, Sequence[Binding]], Awaitable[Answer]]


class Strategy:
    """A strategy made of a function."""

    def __init__(self, select: Select) -> None:
        self.select = select


def loop_of(select: Select, **options: str) -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(Strategy(select), **options)  # type: ignore[arg-type]


def two() -> CaseDefinition:
    """Two workers that write one fact, and a signal that changes what they read."""
    d = CaseDefinition("two", goal="done", signals=["x", "go"])

    @d.worker(writes="done")
    async def quick(x: int) -> int:
        return x

    @d.worker(writes="done")
    async def thorough(x: int) -> int:
        return x

    return d


async def test_a_decision_says_what_was_eligible_chosen_and_why() -> None:
    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        plan.focus("speed", because="it is urgent")
        return eligible[:1]

    d = two()
    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        (decision,) = await case.decisions()
        assert decision.number == 1
        assert decision.status is DecisionStatus.DECIDED
        assert (decision.eligible, decision.chosen) == (("quick", "thorough"), ("quick",))
        assert (decision.not_chosen, decision.fired) == (("thorough",), ("quick",))
        assert decision.rationale == "it is urgent"
        events = kit.events(case)
        started = next(event for event in events if event.version == decision.version)
        assert (started.name, started.seq, started.at) == ("DELIBERATION_STARTED", decision.as_of, decision.at)


async def test_how_long_a_decision_took_is_in_it() -> None:
    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await kit.clock.sleep_until(kit.clock.monotonic() + 2)
        return eligible

    d = two()
    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await kit.advance("3s")
        (decision,) = await case.decisions()
        assert decision.seconds == 2


async def test_a_choice_that_is_dropped_has_its_reason_and_the_next_decision_its_own() -> None:
    gate = asyncio.Event()

    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await gate.wait()
        return Selection(eligible[:1], rationale=f"x is {case.context['x']}")

    d = two()
    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.signal(x=2)
        gate.set()
        await case.completed()
        dropped, fired = await case.decisions()
        assert (dropped.chosen, dropped.fired) == (("quick",), ())
        assert dropped.dropped == {"quick": "changed since the loop control saw it: x"}
        assert (fired.fired, fired.dropped, fired.rationale) == (("quick",), {}, "x is 2")


async def test_a_choice_that_is_forced_says_so() -> None:
    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await kit.hub.case(case.id).signal(x=case.context["x"] + 1)
        return eligible[:1]

    d = two()
    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        decisions = await case.decisions()
        assert [list(each.dropped) for each in decisions[:4]] == [["quick"], ["quick"], ["quick"], []]
        assert [list(each.forced) for each in decisions[:4]] == [[], [], [], ["quick"]]


async def test_decisions_that_failed_timed_out_or_were_called_off_are_there() -> None:
    answers = iter(["raise", "wait", "wait", "choose"])

    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await case.log.count(WorkerExecutionFailed)
        what = next(answers)
        if what == "raise":
            raise ValueError("no idea")
        if what == "wait":
            await asyncio.Event().wait()
        return eligible[:1]

    d = two()
    async with CaseTestKit(d, loop=loop_of(select, deadline="5s")) as kit:
        case = await kit.start(d, x=1)
        await kit.advance("1s")  # the first backoff
        await kit.advance("5s")  # the deadline
        await kit.advance("2s")  # the second backoff
        assert (await case.decisions())[-1].status is DecisionStatus.OPEN
        await case.suspend()
        await case.resume()
        await case.completed()
        decisions = await case.decisions()
        assert [each.status.value for each in decisions] == ["FAILED", "TIMED_OUT", "CANCELLED", "DECIDED"]
        assert [each.error for each in decisions] == ["ValueError: no idea", "no answer within 5 s", "", ""]
        assert [each.seconds for each in decisions] == [0, 5, 0, 0]
        assert [len(each.inquiries) for each in decisions] == [1, 1, 0, 1]
        assert all(each.eligible == ("quick", "thorough") for each in decisions)


async def test_a_deferral_is_a_decision() -> None:
    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        plan.focus("patience", because="it is night")
        return Defer(after="1h")

    d = two()
    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        (decision,) = await case.decisions()
        assert (decision.status, decision.rationale) == (DecisionStatus.DEFERRED, "it is night")


async def test_choreography_leaves_no_decision() -> None:
    d = two()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert await case.decisions() == []
        with pytest.raises(CaseNotFoundError):
            await kit.hub.case("none").decisions()


async def test_what_a_strategy_asked_of_the_log_is_in_its_decision() -> None:
    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await case.log.count(WorkerExecutionFailed, by="binding", across="definition", since="7d")
        await case.log.query(WorkerExecutionFinished, binding="quick", cases=5, across="definition", limit=10)
        await case.log.cases(status=CaseStatus.FAULTED, last=3)
        async for _ in case.log.tail(CaseStarted, after=0, across="all"):
            pass
        return eligible

    d = two()
    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        (decision,) = await case.decisions()
        position = decision.as_of
        assert [str(inquiry) for inquiry in decision.inquiries] == [
            f"count(WORKER_EXECUTION_FAILED, by=binding, across=definition, since=7d) as of {position}",
            f"query(WORKER_EXECUTION_FINISHED, across=definition, binding=quick, cases=5, limit=10) as of {position}",
            f"cases(status=['FAULTED'], across=definition, last=3) as of {position}",
            f"tail(CASE_STARTED, after=0, across=all) as of {position}",
        ]
        assert decision.inquiries_left_out == 0


async def test_how_many_questions_were_not_kept_is_said() -> None:
    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        for _ in range(MOST + 3):
            await case.log.count(WorkerExecutionFailed)
        return eligible

    d = two()
    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        (decision,) = await case.decisions()
        assert (len(decision.inquiries), decision.inquiries_left_out) == (MOST, 3)


async def test_a_worker_that_asks_the_log_leaves_no_inquiry() -> None:
    d = CaseDefinition("d", goal="done")

    @d.worker(writes="done")
    async def look(x: int, case: CaseView) -> int:
        return len(await case.log.query(Event))

    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible

    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert [each.inquiries for each in await case.decisions()] == [()]


@pytest.mark.parametrize("url", ["memory", "sqlite"])
async def test_a_list_of_cases_is_as_of_the_position_of_the_deliberation(url: str, tmp_path: Path) -> None:
    seen: list[list[tuple[str, str, int]]] = []
    gate, asked = asyncio.Event(), asyncio.Event()

    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        if case.id != "asking":
            return eligible
        asked.set()
        await gate.wait()
        for statuses in ((), (CaseStatus.RUNNING, CaseStatus.WAITING), (CaseStatus.COMPLETED,)):
            rows = await case.log.cases(status=statuses, last=3)
            seen.append([(row.case, row.status, row.version) for row in rows])
        return eligible

    d = two()
    store = f"sqlite:///{tmp_path}/cases.db" if url == "sqlite" else "memory://"
    async with CaseHub(d, loop=loop_of(select), store=store) as hub:
        await (await hub.start(d, case_id="done", x=1)).completed()
        ending = await hub.start(d, case_id="ending")
        await hub.start(d, case_id="waiting")
        before = {row.case: row for row in await hub.cases()}
        case = await hub.start(d, case_id="asking", x=1)
        await asked.wait()
        await ending.signal(x=1)
        await ending.completed()
        await (await hub.start(d, case_id="late", x=1)).completed()
        gate.set()
        await case.completed()
        (decision,) = await case.decisions()
        await hub.case("waiting").kill()
    now = ("asking", "RUNNING", decision.version)
    waiting = ("waiting", "WAITING", before["waiting"].version)
    then = ("ending", "WAITING", before["ending"].version)
    assert seen == [
        [now, waiting, then],
        [now, waiting, then],
        [("done", "COMPLETED", before["done"].version)],
    ]


async def test_decisions_are_read_from_the_events_alone() -> None:
    async def select(plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible[:1]

    d = two()
    async with CaseTestKit(d, loop=loop_of(select)) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        events: Sequence[Event] = kit.events(case)
        assert any(isinstance(event, WorkerExecutionCompleted) for event in events)
        found: list[Decision] = decisions_of(events)
        assert found == await case.decisions()
        assert found[0].as_dict()["not_chosen"] == ("thorough",)
