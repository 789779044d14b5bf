"""A worker that asks people while it runs: it waits where it is, or is run again where the answer comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import pytest

from casehub import (
    AnswerRefusedError,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    Declined,
    Event,
    HumanTask,
    HumanTaskCancelled,
    HumanTaskCreated,
    Permanent,
    Retry,
    SettingsError,
    TaskStatus,
    WorkerExecution,
    WorkerExecutionCompleted,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
)
from casehub.adapters.sqlite import SQLiteStore
from casehub.testing import CaseTestKit


@dataclass
class Visit:
    when: date
    people: int


def survey(**options: Any) -> tuple[CaseDefinition, list[str]]:
    """A definition whose worker asks two questions, one after the other, and what it did."""
    d, did = CaseDefinition("survey", goal="report"), list[str]()

    @d.worker(writes="report", **options)
    async def look(site: str, execution: WorkerExecution) -> str:
        did.append("begin")
        visit = await execution.ask(HumanTask(f"When to {site}?", Visit, groups=["field"], due="2d"))
        did.append(f"{visit.when:%A}")
        fine = await execution.ask(bool, key="fine")
        did.append("end")
        return f"{visit.people} at {site}, {'fine' if fine else 'not fine'}"

    return d, did


FIRST, SECOND = "survey-1/look/1/ask-1", "survey-1/look/1/fine"
ANSWER = {"when": "2030-02-01", "people": 3}


async def test_a_worker_waits_for_an_answer_and_goes_on_where_it_is() -> None:
    d, did = survey()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, site="Delft")
        await kit.settle()
        assert await case.status() is CaseStatus.WAITING
        (task,) = await kit.hub.tasks.list(user="ada", groups=["field"])
        assert (task.id, task.title, task.ask) == (FIRST, "When to Delft?", True)
        assert task.form["required"] == ["when", "people"]
        await kit.hub.tasks.claim(FIRST, by="user:ada")
        done = await kit.hub.tasks.complete(FIRST, ANSWER, by="user:ada")
        assert done.status is TaskStatus.COMPLETED
        await kit.settle()
        (second,) = await kit.hub.tasks.list()
        assert (second.id, second.title) == (SECOND, "look: bool")
        await kit.hub.tasks.complete(SECOND, True, by="user:grace")
        assert (await case.completed())["report"] == "3 at Delft, fine"
        assert did == ["begin", "Friday", "end"]
        assert len(kit.events(case, WorkerExecutionStarted)) == 1
        assert (await case.context()).fact("report").by == "worker:look"


async def test_an_answer_that_does_not_fit_is_refused_and_the_worker_waits_on() -> None:
    d, did = survey()
    async with CaseTestKit(d) as kit:
        await kit.start(d, site="Delft")
        await kit.settle()
        with pytest.raises(AnswerRefusedError) as refused:
            await kit.hub.tasks.complete(FIRST, {"when": "soon", "peple": 3}, by="user:ada")
        assert set(refused.value.fields) == {"when", "people", "peple"}
        await kit.settle()
        assert did == ["begin"]
        assert len(await kit.hub.tasks.list()) == 1


async def test_a_question_that_is_declined_or_expires_is_told_to_the_worker() -> None:
    d, said = CaseDefinition("d", goal="answer"), list[str]()

    @d.worker(writes="answer")
    async def ask(name: str, execution: WorkerExecution) -> str:
        try:
            return await execution.ask(HumanTask(name, str, users=["ada"]))
        except Declined as error:
            said.append(error.reason)
        try:
            return await execution.ask(HumanTask(name, str, expires="2d"), key="again")
        except TimeoutError as error:
            said.append(str(error))
        return "nobody knows"

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="why")
        await kit.settle()
        await kit.hub.tasks.decline("d-1/ask/1/ask-1", "no idea", by="user:ada")
        await kit.advance("2d")
        assert (await case.completed())["answer"] == "nobody knows"
        assert said == ["no idea", "nobody answered task 'd-1/ask/1/again' before its deadline"]


async def test_several_questions_at_once_are_answered_in_any_order() -> None:
    d = CaseDefinition("d", goal="total")

    @d.worker(writes="total")
    async def add(name: str, execution: WorkerExecution) -> int:
        return sum(await asyncio.gather(*(execution.ask(HumanTask(f"{name}{n}", int)) for n in range(3))))

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="x")
        await kit.settle()
        for number in (3, 1, 2):
            await kit.hub.tasks.complete(f"d-1/add/1/ask-{number}", number, by="user:ada")
            await kit.settle()
        assert (await case.completed())["total"] == 6


async def test_the_time_limit_of_the_worker_does_not_run_while_it_waits() -> None:
    d, _ = survey(timeout="1h")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, site="Delft")
        await kit.advance("3d")
        assert kit.events(case, WorkerExecutionExpired) == []
        await kit.hub.tasks.complete(FIRST, ANSWER, by="user:ada")
        await kit.settle()
        await kit.advance("3d")
        await kit.hub.tasks.complete(SECOND, True, by="user:ada")
        assert (await case.completed())["report"]


async def test_a_worker_that_goes_on_has_its_time_limit_again() -> None:
    d = CaseDefinition("d", goal="never")

    @d.worker(writes="never", timeout="1h", on_expired="fault_item")
    async def ask(name: str, execution: WorkerExecution) -> str:
        await execution.ask(HumanTask(name, str))
        await kit.clock.sleep("2h")
        return "late"

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="why")
        await kit.advance("1d")
        await kit.hub.tasks.complete("d-1/ask/1/ask-1", "because", by="user:ada")
        await kit.advance("90m")
        assert len(kit.events(case, WorkerExecutionExpired)) == 1


async def test_a_case_that_is_cancelled_calls_the_question_off_and_leaves_nothing_running() -> None:
    d, did = survey()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, site="Delft")
        await kit.settle()
        await case.cancel()
        assert len(kit.events(case, HumanTaskCancelled)) == 1
        assert await kit.hub.tasks.list() == []
        await kit.settle()
        assert did == ["begin"]
        assert kit.hub.runtime.working == 0


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda execution: execution.ask(int, key="a/b"), "a key is a name"),
        (lambda execution: asyncio.gather(execution.ask(int, key="a"), execution.ask(int, key="a")), "asked for twice"),
        (lambda execution: execution.ask(CaseHub), "CaseHub cannot be stored"),
        (lambda execution: execution.ask(HumanTask("nul \0", int)), "NUL character"),
    ],
)
async def test_a_question_that_cannot_be_asked_fails_the_worker_and_not_the_case(
    ask: Callable[..., Any], said: str
) -> None:
    d = CaseDefinition("d", goal="answer")

    @d.worker(writes="answer", on_failed="fault_item")
    async def asks(name: str, execution: WorkerExecution) -> int:
        answer: int = await ask(execution)
        return answer

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="why")
        await kit.settle()
        (failed,) = kit.events(case, WorkerExecutionFailed)
        assert said in failed.message
        assert not (await case.status()).ended


async def test_an_execution_of_nobody_cannot_ask() -> None:
    async with CaseTestKit(survey()[0]) as kit:
        case = await kit.start("survey", site="Delft")
        live = (await kit.hub.pump(case.id)).live
        execution = WorkerExecution(next(iter(live.state.activations)), "look", 1, live.view())
        with pytest.raises(SettingsError, match="not run by a hub"):
            await execution.ask(int)


# ---- other processes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cases.db"


async def test_an_answer_that_comes_to_another_process_runs_the_worker_again_from_its_top(path: Path) -> None:
    d, did = survey()
    ids = ("c/look/1/ask-1", "c/look/1/fine")
    async with CaseHub(d, store=SQLiteStore(path, synchronous="NORMAL")) as hub:
        await (await hub.start(d, case_id="c", site="Delft")).quiescent()
        (task,) = await hub.tasks.list()
        await hub.tasks.claim(task.id, by="user:ada")
    async with CaseHub(d, store=SQLiteStore(path, synchronous="NORMAL")) as hub:
        assert did == ["begin"]  # nothing runs as long as nobody answers
        (task,) = await hub.tasks.list(user="ada")
        assert (task.id, task.form["required"]) == (ids[0], ["when", "people"])
        with pytest.raises(AnswerRefusedError) as refused:
            await hub.tasks.complete(ids[0], {"when": "soon", "peple": 3}, by="user:ada")
        assert set(refused.value.fields) == {"when", "people", "peple"}
        with hub.watch(HumanTaskCreated) as created:
            await hub.tasks.complete(ids[0], ANSWER, by="user:ada")
            assert (await anext(created)).task == ids[1]
    async with CaseHub(d, store=SQLiteStore(path, synchronous="NORMAL")) as hub:
        case = hub.case("c")
        await hub.tasks.complete(ids[1], True, by="user:grace")
        assert (await case.completed())["report"] == "3 at Delft, fine"
        events = await case.log.query(Event)
    assert did == ["begin", "begin", "Friday", "begin", "Friday", "end"]
    kinds = [type(event) for event in events]
    assert kinds.count(HumanTaskCreated) == 2
    assert kinds.count(WorkerExecutionCompleted) == 1
    assert [event.parked for event in events if isinstance(event, WorkerExecutionInterrupted)] == [True, True]


async def test_a_hub_that_drains_waits_for_no_answer(path: Path) -> None:
    d, _ = survey()
    async with CaseHub(d, store=SQLiteStore(path, synchronous="NORMAL")) as hub:
        await (await hub.start(d, case_id="c", site="Delft")).quiescent()
        assert await hub.drain("30s")
    async with CaseHub(d, store=SQLiteStore(path, synchronous="NORMAL")) as hub:
        assert len(await hub.tasks.list()) == 1


async def test_a_worker_may_be_parked_more_often_than_a_process_may_crash() -> None:
    d = CaseDefinition("d", goal="total")

    @d.worker(writes="total")
    async def add(name: str, execution: WorkerExecution) -> int:
        return sum([await execution.ask(HumanTask(name, int)) for _ in range(15)])

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="x")
        await kit.settle()
        for number in range(1, 16):
            pump = await kit.hub.pump(case.id)
            for attempt in list(pump.attempts.values()):
                attempt.call_off()  # as if another process took the answer
            await kit.settle()
            await kit.hub.tasks.complete(f"d-1/add/1/ask-{number}", 1, by="user:ada")
            await kit.settle()
        assert (await case.completed())["total"] == 15
        assert len(kit.events(case, WorkerExecutionInterrupted)) == 15


async def test_cases_whose_workers_wait_for_people_leave_memory_and_come_back_for_the_answer(path: Path) -> None:
    d, _ = survey()
    async with CaseHub(d, store=SQLiteStore(path, synchronous="NORMAL"), resident=2) as hub:
        cases = [await hub.start(d, case_id=f"c{n}", site="Delft") for n in range(6)]
        for case in cases:
            await case.quiescent()
        assert hub._residents_now.resident <= 3
        for case in cases:
            with hub.watch(HumanTaskCreated, case=case.id) as created:
                await hub.tasks.complete(f"{case.id}/look/1/ask-1", ANSWER, by="user:ada")
                assert (await anext(created)).task == f"{case.id}/look/1/fine"
            await hub.tasks.complete(f"{case.id}/look/1/fine", True, by="user:ada")
            assert (await case.completed())["report"] == "3 at Delft, fine"


async def test_a_question_of_a_task_that_a_worker_left_behind_ends_with_the_worker() -> None:
    d = CaseDefinition("d", goal="answer")
    left: list[asyncio.Future[int]] = []

    @d.worker(writes="answer", on_failed="fault_item")
    async def asks(name: str, execution: WorkerExecution) -> int:
        left.append(asyncio.ensure_future(execution.ask(int)))
        await kit.clock.sleep("1h")
        raise Permanent("enough")

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="why")
        await kit.settle()
        assert len(await kit.hub.tasks.list()) == 1
        await kit.advance("1h")
        assert left[0].cancelled()
        assert len(kit.events(case, HumanTaskCancelled)) == 1


async def test_an_answer_that_comes_while_a_worker_is_being_called_off_runs_it_again() -> None:
    d, went, go = CaseDefinition("d", goal="answer"), list[str](), asyncio.Event()

    @d.worker(writes="answer")
    async def asks(name: str, execution: WorkerExecution) -> int:
        try:
            return await execution.ask(int)
        finally:
            went.append("out")
            with anyio.CancelScope(shield=True):
                await go.wait()

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, name="why")
        await kit.settle()
        for attempt in (await kit.hub.pump(case.id)).attempts.values():
            attempt.call_off()
        await kit.settle()
        assert went == ["out"]
        await kit.hub.tasks.complete("d-1/asks/1/ask-1", 7, by="user:ada")
        go.set()
        assert (await case.completed())["answer"] == 7


async def test_a_worker_that_fails_with_another_question_open_is_tried_again_once() -> None:
    definition = CaseDefinition("sums", goal="sum")

    @definition.worker(writes="sum", on_declined="retry", retry=Retry(2, wait="1m", jitter=False))
    async def add(name: str, execution: WorkerExecution) -> int:
        return sum(await asyncio.gather(execution.ask(int, key="left"), execution.ask(int, key="right")))

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, name="Ada")
        await kit.settle()
        await kit.hub.tasks.decline("sums-1/add/1/left", by="user:ada")
        await kit.advance("1m")
        assert kit.events(case, WorkerExecutionInterrupted) == []
        for task, answer in (("left", 1), ("right", 2)):
            await kit.hub.tasks.complete(f"sums-1/add/1/{task}", answer, by="user:ada")
        assert (await case.completed())["sum"] == 3


@pytest.mark.parametrize("how", ["declined", "expired"])
async def test_a_question_that_ended_without_an_answer_is_told_to_a_worker_that_runs_again(how: str) -> None:
    definition = CaseDefinition("survey", goal="report")

    @definition.worker(writes="report")
    async def look(site: str, execution: WorkerExecution) -> str:
        try:
            return str(await execution.ask(HumanTask("How many?", int, expires="1d"), key="people"))
        except (Declined, TimeoutError) as error:
            return f"{error}, {await execution.ask(str, key='guess')}"

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, site="Delft")
        await kit.settle()
        await kit.restart()
        if how == "declined":
            await kit.hub.tasks.decline("survey-1/look/1/people", "I am away", by="user:ada")
        else:
            await kit.advance("1d")
        await kit.settle()
        await kit.restart()
        assert [task.id for task in await kit.hub.tasks.list()] == ["survey-1/look/1/guess"]
        await kit.hub.tasks.complete("survey-1/look/1/guess", "twelve", by="user:joan")
        said = (await kit.hub.case(case.id).completed())["report"]
        told = "I am away" if how == "declined" else "nobody answered task 'survey-1/look/1/people' before its deadline"
        assert said == f"{told}, twelve"
        assert len(kit.events(case, HumanTaskCreated)) == 2


async def test_a_worker_that_takes_over_asks_questions_of_its_own() -> None:
    definition = CaseDefinition("survey", goal="report")

    @definition.worker(writes="report", capability="look")
    async def walk(site: str, execution: WorkerExecution) -> str:
        raise Declined(f"it is {await execution.ask(int)} km")

    @definition.worker(writes="report", capability="look")
    async def drive(site: str, execution: WorkerExecution) -> str:
        return f"{await execution.ask(str)} drove"

    definition.binding("look", capability="look", on_declined="reroute")

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, site="Delft")
        await kit.settle()
        await kit.hub.tasks.complete("survey-1/look/1/ask-1", 12, by="user:ada")
        await kit.settle()
        assert [(task.title, task.ask) for task in await kit.hub.tasks.list()] == [("look: str", True)]
        await kit.restart()
        await kit.hub.tasks.complete("survey-1/look/1/ask-1", "Joan", by="user:ada")
        assert (await kit.hub.case(case.id).completed())["report"] == "Joan drove"
