"""What people have to do, through a hub: lists over cases, two at once, restarts, time, stages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from blackboard_ext import PlanningStrategyLoopControl, StageTerminated
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    AnswerRefusedError,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    Event,
    HumanTask,
    HumanTaskCancelled,
    HumanTaskCommented,
    HumanTaskCompleted,
    HumanTaskCreated,
    HumanTaskExpired,
    HumanTaskOverdue,
    InputRefusedError,
    SettingsError,
    Task,
    TaskNotFoundError,
    TaskRefusedError,
    TaskStatus,
    WorkerExecutionInterrupted,
    present,
)
from casehub.adapters.sqlite import SQLiteStore
from casehub.testing import CaseTestKit


@dataclass
class Approval:
    approved: bool
    why: str = ""


loan = CaseDefinition("loan", goal="letter")


@loan.worker(writes="risk")
async def assess(applicant: str) -> float:
    return len(applicant) / 10


@loan.human_task(writes="approval")
def approve(applicant: str, risk: float) -> HumanTask[Approval]:
    priority = 5 if risk > 0.4 else 0
    due = "2d" if risk > 0.4 else "1d"
    return HumanTask(
        f"Approve {applicant}?", Approval, groups=["underwriters"], due=due, expires="5d", priority=priority
    )


@loan.worker(writes="letter")
async def write_letter(applicant: str, approval: Approval) -> str:
    return f"Dear {applicant}: {'yes' if approval.approved else 'no'}"


visit = CaseDefinition("visit", goal="report")


@visit.human_task(writes="report")
def report(site: str) -> HumanTask[str]:
    return HumanTask(f"Visit {site}", str, users=["ada", "grace"], due="3d")


def ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


# ---- lists


async def test_a_list_is_over_all_cases_and_the_most_urgent_comes_first() -> None:
    async with CaseTestKit(loan, visit) as kit:
        await kit.start(loan, applicant="Ada")
        await kit.start(loan, applicant="Grace")
        await kit.start(visit, site="Delft")
        await kit.settle()
        tasks = kit.hub.tasks
        assert ids(await tasks.list()) == ["loan-2/approve/1", "loan-1/approve/1", "visit-1/report/1"]
        assert ids(await tasks.list(user="ada")) == ["visit-1/report/1"]
        mine = ["loan-2/approve/1", "loan-1/approve/1", "visit-1/report/1"]
        assert ids(await tasks.list(user="user:ada", groups=["underwriters"])) == mine
        assert ids(await tasks.list(groups=["underwriters"], limit=1)) == mine[:1]
        assert ids(await tasks.list(groups=["underwriters"], after=mine[0])) == mine[1:2]
        assert ids(await tasks.list(definition=visit)) == ids(await tasks.list(binding="report")) == mine[2:]
        assert ids(await tasks.list(case="loan-1")) == mine[1:2]
        assert ids(await tasks.list(user="joan")) == []
        await tasks.claim("visit-1/report/1", by="user:ada")
        assert ids(await tasks.list(user="ada")) == ["visit-1/report/1"]
        assert ids(await tasks.list(user="grace")) == []
        assert ids(await tasks.list(status=TaskStatus.CLAIMED)) == ["visit-1/report/1"]
        await tasks.complete("visit-1/report/1", "all is well", by="user:ada")
        assert ids(await tasks.list(user="ada")) == []
        assert ids(await tasks.list(user="ada", status=None)) == ["visit-1/report/1"]
        assert ids(await tasks.list(status=[TaskStatus.COMPLETED])) == ["visit-1/report/1"]


async def test_a_task_has_its_form_and_what_is_to_be_seen_with_it() -> None:
    async with CaseTestKit(loan) as kit:
        await kit.start(loan, applicant="Ada")
        await kit.settle()
        task = await kit.hub.tasks.get("loan-1/approve/1")
        assert task.facts == {"applicant": "Ada", "risk": 0.3}
        assert task.form["required"] == ["approved"]
        assert task.form["properties"] == {
            "approved": {"title": "Approved", "type": "boolean"},
            "why": {"default": "", "title": "Why", "type": "string"},
        }
        (listed,) = await kit.hub.tasks.list()
        assert listed.form == task.form
        for id in ("loan-1/approve/2", "nowhere/approve/1", "nonsense"):
            with pytest.raises(TaskNotFoundError, match="there is no task"):
                await kit.hub.tasks.get(id)
        with pytest.raises(TaskNotFoundError):
            await kit.hub.tasks.claim("nowhere/approve/1", by="user:ada")
        with pytest.raises(TaskNotFoundError):
            await kit.hub.tasks.claim("nonsense", by="user:ada")


async def test_a_tasks_history_has_its_comments() -> None:
    async with CaseTestKit(loan) as kit:
        await kit.start(loan, applicant="Ada")
        await kit.settle()
        await kit.hub.tasks.comment("loan-1/approve/1", "see page 3", by="user:grace")
        history = await kit.hub.tasks.history("loan-1/approve/1")
        assert [type(event) for event in history] == [HumanTaskCreated, HumanTaskCommented]
        assert history[1].by == "user:grace"
        assert (await kit.hub.tasks.get("loan-1/approve/1")).comments == 1


# ---- answers


async def test_a_person_takes_a_task_and_the_case_goes_on() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, applicant="Ada")
        await case.quiescent()
        assert await case.status() is CaseStatus.WAITING
        claimed = await kit.hub.tasks.claim("loan-1/approve/1", by="user:ada", groups=["underwriters"])
        assert (claimed.status, claimed.assignee) == (TaskStatus.CLAIMED, "ada")
        done = await kit.hub.tasks.complete("loan-1/approve/1", Approval(approved=True), by="user:ada")
        assert (done.status, done.answer) == (TaskStatus.COMPLETED, {"approved": True, "why": ""})
        assert (await case.completed())["letter"] == "Dear Ada: yes"
        assert (await case.context()).fact("approval").by == "user:ada"


async def test_every_verb_gives_the_task_as_it_left_it() -> None:
    async with CaseTestKit(visit) as kit:
        await kit.start(visit, site="Delft")
        tasks, id = kit.hub.tasks, "visit-1/report/1"
        assert (await tasks.claim(id, by="user:ada")).assignee == "ada"
        assert (await tasks.claim(id, by="user:ada")).assignee == "ada"  # nothing changes, and it is told all the same
        assert (await tasks.delegate(id, "joan", by="user:ada")).delegator == "ada"
        assert (await tasks.release(id, by="user:joan")).status is TaskStatus.OPEN
        assert (await tasks.assign(id, "grace", by="user:boss")).assignee == "grace"
        assert (await tasks.comment(id, "hm", by="user:boss")).comments == 1
        assert (await tasks.decline(id, "ill", by="user:grace")).status is TaskStatus.REJECTED


async def test_of_two_who_complete_at_once_one_wins_and_the_other_has_their_answer_back() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, applicant="Ada")
        await kit.settle()
        complete = kit.hub.tasks.complete
        answers = [Approval(approved=True, why="ada"), Approval(approved=False, why="grace")]
        results = await asyncio.gather(
            complete("loan-1/approve/1", answers[0], by="user:ada"),
            complete("loan-1/approve/1", answers[1], by="user:grace"),
            return_exceptions=True,
        )
        assert isinstance(results[0], Task)
        assert isinstance(results[1], TaskRefusedError)
        assert results[1].answer is answers[1]
        assert "COMPLETED by user:ada" in str(results[1])
        assert (await case.completed())["letter"] == "Dear Ada: yes"


async def test_an_answer_that_does_not_fit_is_refused_field_by_field() -> None:
    async with CaseTestKit(loan) as kit:
        await kit.start(loan, applicant="Ada")
        await kit.settle()
        await kit.hub.tasks.claim("loan-1/approve/1", by="user:ada")
        with pytest.raises(AnswerRefusedError) as refused:
            await kit.hub.tasks.complete("loan-1/approve/1", {"approved": "perhaps", "reason": 1}, by="user:ada")
        assert set(refused.value.fields) == {"approved", "reason"}
        assert (await kit.hub.tasks.get("loan-1/approve/1")).status is TaskStatus.CLAIMED


async def test_a_repeated_key_completes_once() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, applicant="Ada")
        await kit.settle()
        for _ in range(2):
            done = await kit.hub.tasks.complete("loan-1/approve/1", {"approved": True}, by="user:ada", key="form-7")
            assert done.status is TaskStatus.COMPLETED
        assert len(kit.events(case, HumanTaskCompleted)) == 1


# ---- time


async def test_time_reminds_and_then_it_is_too_late() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, applicant="Grace")
        await kit.advance("2d")
        (overdue,) = kit.events(case, HumanTaskOverdue)
        assert overdue.at - kit.events(case)[0].at == timedelta(days=2)
        assert (await kit.hub.tasks.list())[0].overdue
        await kit.advance("3d")
        assert len(kit.events(case, HumanTaskExpired)) == 1
        assert await kit.hub.tasks.list() == []
        assert (await case.state()).stalled


# ---- other processes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cases.db"


async def test_a_task_survives_restarts_and_is_asked_for_once(path: Path) -> None:
    kinds: list[str] = []
    for visit_number in range(3):
        async with CaseHub(loan, store=SQLiteStore(path, synchronous="NORMAL")) as hub:
            if visit_number == 0:
                await (await hub.start(loan, case_id="c", applicant="Ada")).quiescent()
            (task,) = await hub.tasks.list(user="ada", groups=["underwriters"])
            if visit_number == 0:
                await hub.tasks.claim(task.id, by="user:ada")
            assert task.id == "c/approve/1"
            assert (await hub.tasks.get(task.id)).facts == {"applicant": "Ada", "risk": 0.3}
            if visit_number == 2:
                await hub.tasks.complete(task.id, {"approved": True}, by="user:ada")
                assert (await hub.case("c").completed())["letter"] == "Dear Ada: yes"
                kinds = [event.name for event in await hub.case("c").log.query(Event)]
                assert await hub.tasks.list() == []
    assert kinds.count("HUMAN_TASK_CREATED") == 1
    assert WorkerExecutionInterrupted.name not in kinds


async def test_of_two_tasks_one_that_was_answered_stays_so_over_a_restart_and_the_other_is_open(path: Path) -> None:
    """S015."""
    d = CaseDefinition("two", goal="both")

    @d.human_task(writes="left")
    def ask_left(name: str) -> HumanTask[bool]:
        return HumanTask(f"Left of {name}?", bool)

    @d.human_task(writes="right")
    def ask_right(name: str) -> HumanTask[bool]:
        return HumanTask(f"Right of {name}?", bool)

    @d.worker(writes="both")
    async def join(left: bool, right: bool) -> list[bool]:
        return [left, right]

    async with CaseHub(d, store=SQLiteStore(path)) as hub:
        await (await hub.start(d, case_id="c", name="Ada")).quiescent()
        assert {task.id for task in await hub.tasks.list()} == {"c/ask_left/1", "c/ask_right/1"}
        await hub.tasks.complete("c/ask_left/1", True, by="user:ada")
    async with CaseHub(d, store=SQLiteStore(path)) as hub:
        assert [task.id for task in await hub.tasks.list()] == ["c/ask_right/1"]
        assert (await hub.tasks.get("c/ask_left/1")).status is TaskStatus.COMPLETED
        await hub.tasks.complete("c/ask_right/1", False, by="user:ada")
        case = hub.case("c")
        assert (await case.completed())["both"] == [True, False]
        assert len(await case.log.query(HumanTaskCreated)) == 2


async def test_a_deadline_that_passes_while_no_process_runs_is_kept_when_one_does(path: Path) -> None:
    clock = CaseTestKit().clock
    async with CaseHub(loan, store=SQLiteStore(path), clock=clock) as hub:
        await (await hub.start(loan, case_id="c", applicant="Ada")).quiescent()
    clock.move_until(clock.monotonic() + 6 * 86_400)
    async with CaseHub(loan, store=SQLiteStore(path), clock=clock) as hub:
        with hub.watch(HumanTaskExpired, after=0) as events:
            assert (await anext(events)).task == "c/approve/1"


async def test_a_case_that_waits_for_people_leaves_memory_and_comes_back_for_the_answer(path: Path) -> None:
    async with CaseHub(loan, store=SQLiteStore(path, synchronous="NORMAL"), resident=1) as hub:
        cases = [await hub.start(loan, case_id=f"c{n}", applicant="Ada") for n in range(5)]
        for case in cases:
            await case.quiescent()
        assert hub._residents_now.resident < 5
        for case in cases:
            await hub.tasks.complete(f"{case.id}/approve/1", {"approved": True}, by="user:ada")
            assert (await case.completed())["letter"] == "Dear Ada: yes"


# ---- stages


async def test_a_stage_that_is_terminated_calls_its_tasks_off() -> None:
    d = CaseDefinition("d", goal="done", signals={"stop": bool, "done": bool})

    @d.human_task(writes="answer")
    def ask(question: str) -> HumanTask[str]:
        return HumanTask(question, str, due="2d")

    d.stage("talk", ask, exit=present("stop"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, question="Why?")
        await kit.settle()
        assert await case.status() is CaseStatus.WAITING
        await case.signal(stop=True)
        await kit.settle()
        assert len(kit.events(case, StageTerminated)) == 1
        (called_off,) = kit.events(case, HumanTaskCancelled)
        assert called_off.task == "d-1/ask/1"
        assert await kit.hub.tasks.list() == []
        with pytest.raises(TaskRefusedError, match="CANCELLED"):
            await kit.hub.tasks.complete("d-1/ask/1", "because", by="user:ada")


# ---- what can never work


def problems_of(declare: Any) -> str:
    d = CaseDefinition("d", goal="form")
    declare(d)
    with pytest.raises(Exception, match="cannot work") as found:
        CaseHub(d)
    return str(found.value)


def test_a_human_task_that_can_never_work_is_refused_when_the_hub_is_made() -> None:
    def no_annotation(d: CaseDefinition) -> None:
        @d.human_task(writes="form")  # type: ignore[type-var]  # on purpose
        def ask(name: str) -> int:
            return 3

    def awaits(d: CaseDefinition) -> None:
        @d.human_task(writes="form")  # type: ignore[type-var]  # on purpose
        async def ask(name: str) -> HumanTask[int]:
            return HumanTask(name, int)

    def no_schema(d: CaseDefinition) -> None:
        @d.human_task(writes="form")
        def ask(name: str) -> HumanTask[Any]:
            return HumanTask(name, object)

        @d.human_task(writes="other")
        def ask_more(name: str) -> HumanTask[CaseHub]:
            return HumanTask(name, CaseHub)

    def by_a_worker(d: CaseDefinition) -> None:
        @d.worker(writes="form")
        def ask(name: str) -> HumanTask[int]:
            return HumanTask(name, int)

    assert "annotate it with HumanTask[Form]" in problems_of(no_annotation)
    assert "returns a HumanTask, which asks nobody" in problems_of(by_a_worker)
    assert "is async, and it is called while the case is decided" in problems_of(awaits)
    assert "the form of ask_more: type CaseHub cannot be stored" in problems_of(no_schema)


async def test_a_task_of_nobody_is_refused_before_it_is_posted() -> None:
    async with CaseTestKit(visit) as kit:
        with pytest.raises(InputRefusedError, match="does not say who"):
            await kit.hub.tasks.list(user="user")


async def test_a_human_task_takes_no_script() -> None:
    async with CaseTestKit(visit) as kit:
        with pytest.raises(SettingsError, match="answer it with kit"):
            kit.script(report, "all is well")
