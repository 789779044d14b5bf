"""Work that is a case of its own: one, several, enough of several; ended, called off, forgotten; over restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from casehub import (
    Budget,
    BudgetExhausted,
    Case,
    CaseCancelledError,
    CaseDefinition,
    CaseFaulted,
    CaseHub,
    CaseStalledError,
    CaseStatus,
    Declined,
    DefinitionError,
    HumanTask,
    InputRefusedError,
    Limits,
    Permanent,
    Rest,
    Retry,
    SettingsError,
    SubCaseCancelled,
    SubCaseEnded,
    SubCaseStarted,
    WorkerExecution,
    WorkerExecutionCompleted,
    WorkerExecutionDeclined,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    present,
)
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle


def visits(**options: Any) -> CaseDefinition:
    """A site visit that somebody reports on; an address that is `nowhere` cannot be visited."""
    visit = CaseDefinition("visit", goal="report", signals={"seen": str}, **options)

    @visit.worker(writes="route")
    async def plan(address: str) -> str:
        if address == "nowhere":
            raise Permanent("no such place")
        return f"to {address}"

    @visit.worker(writes="report")
    async def report(route: str, seen: str) -> str:
        return f"{route}: {seen}"

    visit.goal("lost", lambda address: address == "nowhere", failure=True)
    return visit


def loan(visit: CaseDefinition, **options: Any) -> CaseDefinition:
    """A loan that is decided on one visit."""
    loan = CaseDefinition("loan", goal="decision", signals={"note": str})

    @loan.sub_case(visit, writes="report", **options)
    def inspect(address: str) -> dict[str, str]:
        return {"address": address}

    @loan.worker(writes="decision")
    async def decide(report: str) -> str:
        return f"approved, {report}"

    return loan


def portfolio(visit: CaseDefinition, **options: Any) -> CaseDefinition:
    """A loan that is decided on several visits."""
    loan = CaseDefinition("portfolio", goal="decision")

    @loan.sub_case(visit, name="inspect", writes="reports", takes="report", **options)
    def inspect(addresses: list[str]) -> list[dict[str, str]]:
        return [{"address": address} for address in addresses]

    @loan.worker(writes="decision")
    async def decide(reports: list[str]) -> str:
        return ", ".join(reports)

    return loan


async def seen(hub: CaseHub, child: str, what: str) -> None:
    await hub.case(child).signal(seen=what)


async def the_end(case: Case) -> CaseStatus:
    """How a case ends, or stalls, once it does."""
    with contextlib.suppress(CaseStalledError, CaseCancelledError):
        await case.completed()
    return await case.status()


async def test_a_sub_case_is_worked_as_a_case_of_its_own_and_its_result_is_the_fact_of_its_parent() -> None:
    async with CaseTestKit(loan(visits())) as kit:
        case = await kit.start("loan", address="Elm 1", case_id="l1")
        await idle()
        child = kit.hub.case("l1/inspect/1")
        assert await case.status() is CaseStatus.WAITING
        assert await child.status() is CaseStatus.WAITING
        assert child.parent == "l1"
        assert [each.id for each in await case.children()] == ["l1/inspect/1"]
        assert (await case.explain("inspect"))[0].text == "waits for sub-case l1/inspect/1"
        await child.signal(seen="a house")
        assert (await case.completed())["decision"] == "approved, to Elm 1: a house"
        assert not await case.children()
        (started,) = await case.log.query(SubCaseStarted)
        assert (started.child_definition, started.facts, started.child) == (
            "visit",
            {"address": "Elm 1"},
            "l1/inspect/1",
        )
        (ended,) = await case.log.query(SubCaseEnded)
        assert (ended.status, ended.value, ended.by) == (CaseStatus.COMPLETED, "to Elm 1: a house", "case:l1/inspect/1")
        (written,) = await case.facts("report").history()
        assert written.by == "case:l1/inspect/1"


async def test_several_sub_cases_end_in_any_order_and_their_results_keep_that_of_their_inputs() -> None:
    async with CaseTestKit(portfolio(visits())) as kit:
        case = await kit.start("portfolio", addresses=["A", "B", "C"], case_id="p")
        await idle()
        for number, what in ((3, "c"), (1, "a"), (2, "b")):
            await seen(kit.hub, f"p/inspect/1.{number}", what)
            await idle()
        assert (await case.completed())["decision"] == "to A: a, to B: b, to C: c"


async def test_no_sub_case_at_all_is_an_empty_result() -> None:
    async with CaseTestKit(portfolio(visits())) as kit:
        case = await kit.start("portfolio", addresses=[])
        assert (await case.completed())["decision"] == ""


@pytest.mark.parametrize(("rest", "third"), [("cancel", CaseStatus.CANCELLED), ("keep", CaseStatus.WAITING)])
async def test_two_of_three_are_enough_and_the_third_is_cancelled_or_kept(rest: str, third: CaseStatus) -> None:
    async with CaseTestKit(portfolio(visits(), need=2, rest=rest)) as kit:
        case = await kit.start("portfolio", addresses=["A", "B", "C"], case_id="p")
        await idle()
        await seen(kit.hub, "p/inspect/1.3", "c")
        await idle()
        assert await case.status() is CaseStatus.WAITING
        await seen(kit.hub, "p/inspect/1.1", "a")
        assert (await case.completed())["decision"] == "to A: a, to C: c"
        await idle()
        assert await kit.hub.case("p/inspect/1.2").status() is third


async def test_a_kept_sub_case_that_ends_later_is_noted_while_its_parent_is_open_and_changes_nothing() -> None:
    definition = portfolio(visits(), need=1, rest=Rest.KEEP)
    definition.signals["stop"] = bool
    definition.completion = None
    definition.goal("stopped", lambda stop: stop)
    async with CaseTestKit(definition) as kit:
        case = await kit.start("portfolio", addresses=["A", "B"], case_id="p")
        await idle()
        await seen(kit.hub, "p/inspect/1.1", "a")
        await idle()
        assert (await case.context())["decision"] == "to A: a"
        assert [child.id for child in await case.children()] == ["p/inspect/1.2"]
        await seen(kit.hub, "p/inspect/1.2", "b")
        await idle()
        assert (await case.context())["reports"] == ["to A: a"]
        assert len(await case.log.query(SubCaseEnded)) == 2
        assert not await case.children()


async def test_a_sub_case_that_faults_fails_its_activation_and_the_policy_says_what_follows() -> None:
    async with CaseTestKit(loan(visits())) as kit:
        case = await kit.start("loan", address="nowhere", case_id="l")
        await idle()
        (failed,) = await case.log.query(WorkerExecutionFailed)
        assert failed.message == "l/inspect/1 is FAULTED: failure goal 'lost' is reached"
        assert failed.settled


async def test_a_sub_case_that_faults_is_started_anew_under_another_id_where_the_policy_says_retry() -> None:
    async with CaseTestKit(loan(visits(), on_failed="retry", retry=Retry(2))) as kit:
        case = await kit.start("loan", address="nowhere", case_id="l")
        await idle()
        await kit.advance("1m")
        await idle()
        started = await case.log.query(SubCaseStarted)
        assert [event.child for event in started] == ["l/inspect/1", "l/inspect/1~2"]


async def test_a_case_that_waits_for_a_stalled_sub_case_says_so() -> None:
    visit = CaseDefinition("visit", goal="report")

    @visit.worker(writes="report")
    async def report(address: str) -> str:
        raise Permanent("no such place")

    async with CaseTestKit(loan(visit)) as kit:
        case = await kit.start("loan", address="nowhere", case_id="l1")
        await kit.settle()
        assert await case.status() is CaseStatus.WAITING
        (why,) = await case.explain("inspect")
        assert why.text.startswith("waits for sub-case l1/inspect/1, which is stalled: report: UNCHANGED")
        (letter,) = await kit.hub.dead_letters.list()
        kit.script(report, "seen")
        await kit.hub.dead_letters.retry(letter.id, by="user:ada")
        assert (await case.completed())["decision"] == "approved, seen"


async def test_a_quorum_that_cannot_be_reached_any_more_declines_the_activation_and_cancels_the_rest() -> None:
    async with CaseTestKit(portfolio(visits(), need=2)) as kit:
        case = await kit.start("portfolio", addresses=["nowhere", "B", "nowhere"], case_id="p")
        await idle()
        (declined,) = await case.log.query(WorkerExecutionDeclined)
        assert declined.reason.startswith("2 of 3 had to complete: p/inspect/1.1 is FAULTED")
        assert [event.child for event in await case.log.query(SubCaseCancelled)] == ["p/inspect/1.2"]
        assert await kit.hub.case("p/inspect/1.2").status() is CaseStatus.CANCELLED


async def test_a_quorum_of_more_than_there_are_fails_at_once() -> None:
    async with CaseTestKit(portfolio(visits(), need=2)) as kit:
        case = await kit.start("portfolio", addresses=["A"])
        (failed,) = await case.log.query(WorkerExecutionFailed)
        assert failed.message == "2 sub-cases have to complete, and there are 1"


async def test_a_time_limit_is_for_all_of_them() -> None:
    async with CaseTestKit(portfolio(visits(), timeout="2d", on_expired="fault_case")) as kit:
        case = await kit.start("portfolio", addresses=["A", "B"], case_id="p")
        await idle()
        await seen(kit.hub, "p/inspect/1.1", "a")
        await kit.advance("2d")
        await idle()
        (expired,) = await case.log.query(WorkerExecutionExpired)
        assert expired.limit == 2 * 86_400
        assert await case.status() is CaseStatus.FAULTED
        assert await kit.hub.case("p/inspect/1.2").status() is CaseStatus.CANCELLED


async def test_what_has_expired_is_not_started_again_unless_that_is_said() -> None:
    for options, started in ((dict[str, str](), 1), ({"on_expired": "retry"}, 3)):
        async with CaseTestKit(portfolio(visits(), timeout="2d", **options)) as kit:
            case = await kit.start("portfolio", addresses=["A"])
            await kit.advance("10d")
            assert len(kit.events(case, SubCaseStarted)) == started


async def test_a_case_does_not_wait_for_a_sub_case_that_it_only_starts() -> None:
    definition = CaseDefinition("order", goal="done")

    @definition.sub_case(visits(), wait=False)
    def inspect(address: str) -> Mapping[str, str]:
        return {"address": address}

    @definition.worker(writes="done")
    async def finish(address: str) -> bool:
        return True

    async with CaseTestKit(definition) as kit:
        case = await kit.start("order", address="A", case_id="o")
        assert (await case.completed())["done"]
        await idle()
        assert await kit.hub.case("o/inspect/1").status() is CaseStatus.WAITING  # a case that completes leaves it alone
        assert len(await case.log.query(WorkerExecutionCompleted, binding="inspect")) == 1


async def test_cancelling_a_case_cancels_its_sub_cases_and_theirs_awaited_or_not() -> None:
    inner = visits()
    middle = CaseDefinition("middle", goal="report")

    @middle.sub_case(inner, writes="report")
    def go(address: str) -> dict[str, str]:
        return {"address": address}

    outer = CaseDefinition("outer", goal="report", signals=["never"])

    @outer.sub_case(middle, name="first", writes="report")
    def first(address: str) -> dict[str, str]:
        return {"address": address}

    @outer.sub_case(inner, name="second", wait=False)
    def second(address: str) -> dict[str, str]:
        return {"address": address}

    async with CaseTestKit(outer) as kit:
        case = await kit.start("outer", address="A", case_id="o")
        await idle()
        ids = ("o/first/1", "o/first/1/go/1", "o/second/1")
        assert [await kit.hub.case(each).status() for each in ids] == [CaseStatus.WAITING] * 3
        await case.cancel(reason="withdrawn")
        await idle()
        assert [await kit.hub.case(each).status() for each in ids] == [CaseStatus.CANCELLED] * 3
        assert (await kit.hub.case("o/first/1").state()).ended_by == "case:o"


async def test_recursion_ends_at_the_depth_that_the_limits_allow_and_no_parent_is_stuck() -> None:
    matryoshka = CaseDefinition("matryoshka", done_when=lambda size: size == 0, limits=Limits(depth=3))

    @matryoshka.sub_case(matryoshka, name="inside", writes="inner", takes="size", on_failed="fault_case")
    def inside(size: int) -> dict[str, int]:
        return {"size": size}

    async with CaseTestKit(matryoshka) as kit:
        case = await kit.start("matryoshka", size=1, case_id="m")
        await idle()
        assert [await kit.hub.case(f"m{'/inside/1' * depth}").status() for depth in range(4)] == [
            CaseStatus.FAULTED
        ] * 4
        (failed,) = await kit.hub.case("m" + "/inside/1" * 3).log.query(WorkerExecutionFailed)
        assert failed.message.startswith("3 cases are around case")
        (end,) = await case.log.query(CaseFaulted)
        assert "m/inside/1 is FAULTED" in end.reason


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda: {"adress": "A"}, "takes no input 'adress'; did you mean 'address'"),
        (lambda: {"address": 7}, "address"),
        (dict, "needs the input 'address'"),
        (lambda: 1 / 0, "division by zero"),
        (lambda: "A", "give its inputs as a mapping"),
    ],
)
async def test_what_a_sub_case_cannot_start_with_fails_its_activation_visibly(
    inputs: Callable[[], Any], message: str
) -> None:
    definition = CaseDefinition("parent", goal="report")

    @definition.sub_case(visits(), writes="report")
    def inspect(go: bool) -> dict[str, str]:
        return inputs()  # type: ignore[no-any-return]  # as it is wrong

    async with CaseTestKit(definition) as kit:
        case = await kit.start("parent", go=True)
        (failed,) = await case.log.query(WorkerExecutionFailed)
        assert message in failed.message
        assert not await case.children()


async def test_what_a_sub_case_spends_is_spent_by_its_parent_too() -> None:
    child = CaseDefinition("child", goal="answer")

    @child.worker(writes="answer")
    async def think(question: str, execution: WorkerExecution) -> str:
        execution.charge(tokens=60)
        return question.upper()

    parent = CaseDefinition("parent", goal="never", signals=["question"], budget=Budget(tokens=100))

    @parent.sub_case(child, writes="answer")
    def ask(question: str) -> dict[str, str]:
        return {"question": question}

    @parent.worker(writes="never")
    async def close(answer: str, closing: bool) -> bool:
        return closing

    parent.signals["closing"] = bool
    async with CaseTestKit(parent) as kit:
        case = await kit.start("parent", question="a")
        for question in ("b", "c"):
            await idle()
            await case.signal(question=question)
        await idle()
        assert (await case.state()).spending.spent("case", "tokens") == 120
        (exhausted,) = await case.log.query(BudgetExhausted)
        assert (exhausted.unit, exhausted.limit) == ("tokens", 100)


async def test_ids_that_users_give_cannot_be_those_of_sub_cases() -> None:
    async with CaseTestKit(loan(visits())) as kit:
        with pytest.raises(InputRefusedError, match="is no id"):
            await kit.start("loan", address="A", case_id="l/inspect/1")


async def test_both_are_found_again_when_the_hub_opens_the_store_anew_at_every_step(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'cases.db'}"
    definition = portfolio(visits())
    async with CaseHub(definition, store=store) as hub:
        await hub.start("portfolio", addresses=["A", "B"], case_id="p")
    for number, what in ((2, "b"), (1, "a")):
        async with CaseHub(definition, store=store) as hub:
            await hub.case(f"p/inspect/1.{number}").signal(seen=what)
            await hub.case(f"p/inspect/1.{number}").completed()
    async with CaseHub(definition, store=store) as hub:
        assert (await hub.case("p").completed())["decision"] == "to A: a, to B: b"
        starts = await hub.case("p").log.query(SubCaseStarted)
        ends = await hub.case("p").log.query(SubCaseEnded)
        assert len(starts) == len(ends) == 2


async def test_a_crash_before_a_sub_case_was_started_or_its_end_told_loses_neither() -> None:
    store = Kept()
    definition = loan(visits())
    gone = asyncio.Event()

    def crash(turns: Any) -> Any:
        if any(turn.envelope.case == stop for turn in turns):
            gone.set()
            return asyncio.sleep(3600)
        return None

    stop = "l/inspect/1"
    store.before = crash
    hub = CaseHub(definition, store=store)
    with contextlib.suppress(ZeroDivisionError):
        async with hub:
            await hub.start("loan", address="A", case_id="l")
            await gone.wait()
            raise ZeroDivisionError  # the child's start was never committed
    gone.clear()
    store.before = None
    with contextlib.suppress(ZeroDivisionError):
        async with CaseHub(definition, store=store) as hub:
            await idle()
            stop, store.before = "l", crash
            await hub.case("l/inspect/1").signal(seen="a house")
            await gone.wait()
            raise ZeroDivisionError  # the child has completed, and its parent was never told
    store.before = None
    async with CaseHub(definition, store=store) as hub:
        assert (await hub.case("l").completed())["decision"] == "approved, to A: a house"
        assert len(await hub.case("l").log.query(SubCaseEnded)) == 1


async def test_a_parent_that_could_not_be_worked_when_its_sub_case_ended_is_told_once_it_can() -> None:
    store, visit = Kept(), visits()
    definition = loan(visit)
    async with CaseHub(definition, store=store) as hub:
        await hub.start("loan", address="A", case_id="l")
        await idle()
        await hub.case("l/inspect/1").status()
    other = CaseDefinition("loan", goal="decision", inputs=None, signals={"decision": str})

    @other.sub_case(visit, name="another", writes="report")
    def another(place: str) -> dict[str, str]:
        return {"address": place}

    async with CaseHub(other, store=store) as hub:  # it lacks `inspect`, which is in flight: the case is parked
        await hub.case("l/inspect/1").signal(seen="a house")
        await hub.case("l/inspect/1").completed()
        await idle()
    async with CaseHub(definition, store=store) as hub:
        assert await the_end(hub.case("l")) is CaseStatus.COMPLETED


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda d, v: d.sub_case(v, writes="x", takes="reprot")(_one), "has no such fact; did you mean 'report'"),
        (lambda d, v: d.sub_case(v, writes="report", need=2)(_one), "starts one, and need= says how many of several"),
        (lambda d, v: d.sub_case(v, writes="report")(_none), "neither one's inputs nor several's"),
        (lambda d, v: d.sub_case(v, writes="report")(_async), "is async, and it is called while the case is decided"),
    ],
)
def test_what_cannot_work_is_said_when_the_hub_is_made(declare: Callable[..., Any], message: str) -> None:
    definition = CaseDefinition("parent", done_when=lambda x: x, signals=["x", "a"])
    declare(definition, visits())
    with pytest.raises(DefinitionError) as error:
        CaseHub(definition)
    assert message in str(error.value)


def _one(a: str) -> dict[str, str]:
    return {"address": a}


def _none(a: str) -> int:
    return 1


async def _async(a: str) -> dict[str, str]:
    return {"address": a}


async def test_parent_and_sub_case_come_back_when_either_has_left_memory(tmp_path: Path) -> None:
    visit = CaseDefinition("visit", goal="report")

    @visit.human_task(writes="report")
    def ask(address: str) -> HumanTask[str]:
        return HumanTask(f"Go to {address}", str, users=["joan"])

    loan = CaseDefinition("loan", goal="letter")

    @loan.sub_case(visit, writes="report")
    def inspect(address: str) -> dict[str, str]:
        return {"address": address}

    @loan.worker(writes="letter")
    async def write(report: str) -> str:
        return f"letter: {report}"

    async with CaseHub(loan, store=f"sqlite:///{tmp_path / 'cases.db'}", resident=1) as hub:
        cases = [await hub.start(loan, address=f"Elm {n}", case_id=f"loan-{n}") for n in range(4)]
        for case in cases:
            await case.quiescent()
        await idle()
        assert hub._residents_now.resident <= 2, "most parents and most sub-cases have left"
        for task in await hub.tasks.list(user="joan"):
            await hub.tasks.complete(task.id, "no roof", by="user:joan")
        for case in cases:
            assert (await case.completed())["letter"] == "letter: no roof"


# ---- one an element


def summaries(**policy: Any) -> CaseDefinition:
    """Every document is summed up in a style."""
    dossier = CaseDefinition("dossier", goal="digest")

    @dossier.worker(writes="summaries", each="documents", **policy)
    async def sum_up(document: str, style: str, execution: WorkerExecution) -> str:
        if document == "empty":
            raise ValueError("nothing to sum up")
        return f"{style} {document} {execution.attempt}"

    @dossier.worker(writes="digest")
    async def bind(summaries: list[str]) -> str:
        return "; ".join(summaries)

    return dossier


async def test_a_worker_with_each_works_every_element_and_its_results_keep_their_order() -> None:
    async with CaseTestKit(summaries()) as kit:
        case = await kit.start("dossier", documents=["a", "b", "c"], style="short", case_id="d")
        assert (await case.completed())["digest"] == "short a 1; short b 1; short c 1"
        assert await kit.hub.case("d/sum_up/1.2").status() is CaseStatus.COMPLETED
        assert (await case.log.query(SubCaseStarted))[0].facts == {"document": "a", "style": "short"}


async def test_an_element_that_fails_for_good_fails_the_whole_after_its_own_attempts() -> None:
    async with CaseTestKit(summaries(retry=Retry(2))) as kit:
        case = await kit.start("dossier", documents=["a", "empty"], style="short", case_id="d")
        await idle()
        await kit.advance("1m")
        await idle()
        failures = await kit.hub.case("d/sum_up/1.2").log.query(WorkerExecutionFailed)
        assert [event.attempt for event in failures] == [1, 2]
        (declined,) = await case.log.query(WorkerExecutionDeclined)
        assert "nothing to sum up" in declined.reason


async def test_an_element_that_fails_once_is_tried_again_alone() -> None:
    async with CaseTestKit(summaries()) as kit:
        kit.script("sum_up", ValueError("for now"), "second", "first again")
        case = await kit.start("dossier", documents=["a", "b"], style="short", case_id="d")
        await idle()
        await kit.advance("1m")
        assert (await case.completed())["digest"] == "first again; second"


async def test_a_human_task_with_each_asks_once_for_every_element() -> None:
    trip = CaseDefinition("trip", goal="going")

    @trip.human_task(writes="votes", each="family")
    def vote(member: str, place: str) -> HumanTask[bool]:
        return HumanTask(f"{member}: to {place}?", bool, users=[member])

    @trip.worker(writes="going")
    async def count(votes: list[bool]) -> bool:
        return sum(votes) * 2 > len(votes)

    async with CaseTestKit(trip) as kit:
        case = await kit.start("trip", family=["ada", "grace", "alan"], place="Rome")
        await idle()
        for member, answer in (("alan", False), ("ada", True), ("grace", True)):
            (task,) = await kit.hub.tasks.list(user=member)
            assert task.title == f"{member}: to Rome?"
            await kit.hub.tasks.complete(task.id, answer, by=f"user:{member}")
        context = await case.completed()
        assert context["votes"] == [True, True, False]
        assert context["going"]


async def test_an_element_that_nobody_answers_in_time_declines_the_whole() -> None:
    trip = CaseDefinition("trip", goal="votes")

    @trip.human_task(writes="votes", each="family")
    def vote(member: str) -> HumanTask[bool]:
        return HumanTask(f"{member}?", bool, users=[member], expires="1d")

    async with CaseTestKit(trip) as kit:
        case = await kit.start("trip", family=["ada", "grace"], case_id="t")
        await idle()
        await kit.hub.tasks.complete("t/vote/1.1/vote/1", True, by="user:ada")
        await kit.advance("1d")
        await idle()
        (declined,) = await case.log.query(WorkerExecutionDeclined)
        assert "t/vote/1.2 is FAULTED: worker 'vote': WORKER_EXECUTION_EXPIRED" in declined.reason


async def test_an_element_whose_failure_is_to_fault_its_item_declines_the_whole() -> None:
    async with CaseTestKit(summaries(on_failed="fault_item")) as kit:
        case = await kit.start("dossier", documents=["a", "empty"], style="short", case_id="d")
        await idle()
        (declined,) = await case.log.query(WorkerExecutionDeclined)
        assert "nothing to sum up" in declined.reason


async def test_enough_of_the_elements_do_and_the_rest_are_called_off_or_go_on() -> None:
    for rest, status in (("cancel", CaseStatus.CANCELLED), ("keep", CaseStatus.WAITING)):
        trip = CaseDefinition("trip", goal="votes")

        @trip.human_task(writes="votes", each="family", need=2, rest=rest)
        def vote(member: str) -> HumanTask[bool]:
            return HumanTask(f"{member}?", bool, users=[member])

        async with CaseTestKit(trip) as kit:
            case = await kit.start("trip", family=["ada", "grace", "alan"], case_id="t")
            await idle()
            await kit.hub.tasks.complete("t/vote/1.3/vote/1", False, by="user:alan")
            await kit.hub.tasks.complete("t/vote/1.1/vote/1", True, by="user:ada")
            assert (await case.completed())["votes"] == [True, False], "in the order of the elements"
            await kit.settle()
            assert await kit.hub.case("t/vote/1.2").status() is status


async def test_too_few_elements_that_can_still_be_done_decline_the_whole() -> None:
    async with CaseTestKit(summaries(retry=Retry(1), need=2)) as kit:
        case = await kit.start("dossier", documents=["a", "empty", "b"], style="short", case_id="d")
        assert (await case.completed())["digest"] == "short a 1; short b 1"
        case = await kit.start("dossier", documents=["a", "empty", "empty"], style="short", case_id="e")
        await idle()
        (declined,) = await case.log.query(WorkerExecutionDeclined)
        assert declined.reason.startswith("2 of 3 had to complete")
        case = await kit.start("dossier", documents=["a"], style="short", case_id="f")
        await idle()
        (failed,) = await case.log.query(WorkerExecutionFailed)
        assert failed.message == "2 sub-cases have to complete, and there are 1"


def test_what_is_said_of_elements_needs_a_list_of_them() -> None:
    d = CaseDefinition("d")
    for options in ({"need": 2}, {"rest": "keep"}):
        with pytest.raises(SettingsError, match="say which with each=, or leave them out"):
            d.worker(writes="out", **options)(_async)  # type: ignore[call-overload]  # options by name
    with pytest.raises(DefinitionError, match="needs 0 of 'documents'; need at least 1, or leave need= out for all"):
        CaseHub(summaries(need=0))


@pytest.mark.parametrize(
    ("function", "message"),
    [(lambda: "x", "takes nothing"), (lambda documents: "x", "name an element by another name")],
)
def test_what_cannot_be_worked_each_is_said_when_the_hub_is_made(function: Callable[..., Any], message: str) -> None:
    definition = CaseDefinition("parent", done_when=lambda x: x, signals=["x", "documents"])
    definition.worker(name="w", writes="out", each="documents")(function)
    with pytest.raises(DefinitionError) as error:
        CaseHub(definition)
    assert message in str(error.value)


async def test_what_an_each_needs_and_brings_is_of_the_whole() -> None:
    d = CaseDefinition("needing", goal="report", signals={"allowed": bool})
    d.condition("allowed")
    d.condition("counted", when=present("counts"))

    @d.worker(writes="counts", each="words", needs="allowed", brings="counted", value=2, retry=Retry(2))
    async def count(word: str) -> int:
        return len(word)

    @d.worker(writes="report", needs="counted")
    async def report(counts: list[int]) -> int:
        return sum(counts)

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, words=["a", "bc"])
        await kit.settle()
        assert "counts" not in await case.context()
        await case.signal(allowed=True)
        assert (await case.completed())["report"] == 3


async def test_an_each_may_be_one_of_several_of_a_capability() -> None:
    d = CaseDefinition("several", goal="counts")

    @d.worker(writes="counts", each="words", capability="counting", retry=Retry(1))
    async def by_hand(word: str) -> int:
        raise Declined("no time")

    @d.worker(writes="counts", each="words", capability="counting")
    async def by_machine(word: str) -> int:
        return len(word)

    d.binding("count", capability="counting", on_declined="reroute", on_failed="reroute")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, words=["a", "bc"])
        assert (await case.completed())["counts"] == [1, 2]
