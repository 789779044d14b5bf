"""Human tasks in the pure core: what a task is made of, what people do about it, its times, how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from casehub import (
    ActivationStatus,
    AnswerRefusedError,
    CaseDefinition,
    CaseFaulted,
    CaseStalled,
    CaseStatus,
    ContextChanged,
    Event,
    HumanTask,
    HumanTaskCancelled,
    HumanTaskCreated,
    HumanTaskEscalated,
    HumanTaskEvent,
    HumanTaskExpired,
    HumanTaskRejected,
    InputRefusedError,
    Limits,
    Retry,
    TaskId,
    TaskNotFoundError,
    TaskRefusedError,
    TimerCancelled,
    TimerSet,
    Verdict,
    WorkerExecutionCompleted,
    WorkerExecutionDeclined,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
    present,
)
from casehub.engine.takes import TAKES
from casehub.inputs import (
    Ask,
    Assign,
    Claim,
    Comment,
    Complete,
    Decline,
    Delegate,
    Recover,
    Release,
    Reported,
    TaskInput,
    Write,
)
from casehub.lifecycle import ACTIVATION_TRANSITIONS
from casehub.tasks import TASK_TRANSITIONS, Task, TaskStatus
from tests.engine.core import NOON, Core, names, of


@dataclass
class Approval:
    approved: bool
    why: str = ""


TASK = TaskId("c/approve/1")


def loan(
    task: Mapping[str, Any] | None = None, signals: Mapping[str, Any] | None = None, **options: Any
) -> CaseDefinition:
    """A definition in which people approve an applicant; `task`: options of the task, `options`: of its binding."""
    d = CaseDefinition("loan", goal="approval", signals=signals or {})
    given: Mapping[str, Any] = {"groups": ["underwriters"]} if task is None else task

    @d.human_task(**options)
    def approve(applicant: str) -> HumanTask[Approval]:
        return HumanTask(f"Approve {applicant}?", Approval, **given)

    return d


def asked(task: Mapping[str, Any] | None = None, **options: Any) -> Core:
    """A started case that waits for people."""
    core = Core(loan(task, **options))
    core.start(applicant="Ada")
    return core


def does(core: Core, kind: type[TaskInput], by: str = "user:ada", task: str = TASK, **more: Any) -> list[Event]:
    return core.take(kind(task=TaskId(task), by=by, **more))


def the_task(core: Core) -> Task:
    (task,) = core.state.tasks.open.values()
    return task


# ---- asking


def test_a_case_that_only_waits_for_people_is_waiting_and_its_activation_delegated() -> None:
    core = asked()
    assert core.status is CaseStatus.WAITING
    assert core.activation("approve").status is ActivationStatus.DELEGATED
    assert core.running == []
    assert not core.count(CaseStalled)
    assert core.why("approve").verdict is Verdict.IN_FLIGHT
    assert core.why("approve").text == "waits for underwriters to take task c/approve/1"


def test_what_the_function_computes_from_the_facts_is_in_the_event() -> None:
    options = {
        "groups": ["underwriters", "underwriters"],
        "users": ["grace", "user:joan"],
        "description": "as the law says",
        "priority": 7,
        "due": "2d",
        "follow_up": datetime(2030, 1, 2, 1, tzinfo=timezone(timedelta(hours=1))),
        "escalate": "3d",
        "escalate_to": ["managers"],
        "expires": "5d",
    }
    core = asked(options)
    (created,) = of(core.log, HumanTaskCreated)
    assert (created.title, created.description, created.priority) == ("Approve Ada?", "as the law says", 7)
    assert (created.groups, created.users) == (("underwriters",), ("grace", "joan"))
    assert created.escalate_to == ("managers",)
    assert created.shows == ("applicant",)
    times = (created.due, created.follow_up, created.escalates, created.expires)
    assert times == (NOON + timedelta(days=2), datetime(2030, 1, 2, tzinfo=UTC), NOON + timedelta(days=3), NOON + timedelta(days=5))  # fmt: skip
    assert [timer.due for timer in of(core.log, TimerSet)] == list(times)


def test_the_function_runs_once_and_never_in_replay() -> None:
    d, calls = CaseDefinition("d", goal="form"), list[str]()

    @d.human_task(writes="form")
    def ask(name: str) -> HumanTask[bool]:
        calls.append(name)
        return HumanTask("?", bool)

    core = Core(d)
    core.start(name="Ada")
    core.crash()
    assert calls == ["Ada"]
    assert core.count(HumanTaskCreated) == 1
    assert core.count(WorkerExecutionStarted) == 1


@pytest.mark.parametrize(
    ("deadlines", "days"),
    [
        ({"expires": "5d"}, 5),
        ({"deadline": NOON + timedelta(days=3)}, 3),
        ({"expires": "5d", "deadline": NOON + timedelta(days=3)}, 3),
        ({"expires": "2d", "deadline": NOON + timedelta(days=3)}, 2),
        ({"expires": "5d", "deadline": NOON + timedelta(days=9), "timeout": "1d"}, 1),
        ({}, None),
    ],
)
def test_the_earliest_deadline_wins(deadlines: dict[str, Any], days: int | None) -> None:
    timeout = deadlines.pop("timeout", None)
    core = asked(deadlines, timeout=timeout)
    assert the_task(core).expires == (None if days is None else NOON + timedelta(days=days))


def test_a_task_has_the_priority_of_its_binding_unless_it_has_its_own() -> None:
    assert the_task(asked(priority=4)).priority == 4
    assert the_task(asked({"priority": 2}, priority=4)).priority == 2


def test_a_guard_holds_a_task_back_and_facts_that_change_do_not_ask_twice() -> None:
    d = CaseDefinition("d", goal="approval", signals={"ready": bool})

    @d.human_task(when=present("ready"))
    def approve(applicant: str) -> HumanTask[Approval]:
        return HumanTask(applicant, Approval)

    core = Core(d)
    core.start(applicant="Ada")
    assert core.count(HumanTaskCreated) == 0
    core.signal(ready=True)
    core.signal(ready=False)
    assert core.count(HumanTaskCreated) == 1


def test_new_facts_ask_again_once_the_task_has_ended() -> None:
    d = loan(signals={"applicant": str})
    d.completion = None
    core = Core(d)
    core.start(applicant="Ada")
    core.signal(applicant="Grace")
    assert core.count(HumanTaskCreated) == 1
    does(core, Complete, value={"approved": True})
    assert the_task(core).id == "c/approve/2"
    assert the_task(core).title == "Approve Grace?"
    does(core, Complete, task="c/approve/2", value={"approved": True})
    assert core.count(HumanTaskCreated) == 2


def test_many_tasks_are_open_at_once_and_answered_in_any_order() -> None:
    d = CaseDefinition("d", at_quiescence=True)
    for number in range(30):

        @d.human_task(name=f"ask{number}", writes=f"answer{number}")
        def ask(question: str) -> HumanTask[int]:
            return HumanTask(question, int)

    core = Core(d)
    core.start(question="How many?")
    assert len(core.state.tasks.open) == 30
    for number in (*range(29, 15, -1), *range(16)):
        assert core.status is CaseStatus.WAITING
        does(core, Complete, task=f"c/ask{number}/1", value=number)
    assert core.status is CaseStatus.COMPLETED
    assert {f"answer{n}": n for n in range(30)}.items() <= core.facts.items()


def test_people_beside_a_worker_leave_the_case_running_until_it_is_done() -> None:
    d = loan()

    @d.worker(writes="score")
    def score(applicant: str) -> int:
        return 3

    core = Core(d)
    core.start(applicant="Ada")
    assert core.status is CaseStatus.RUNNING
    core.run()
    assert core.status is CaseStatus.WAITING


def test_open_tasks_count_against_the_limit_of_what_is_in_flight() -> None:
    d = loan()
    d.limits = Limits(concurrency=1)

    @d.worker(writes="score")
    def score(applicant: str) -> int:
        return 3

    core = Core(d)
    core.start(applicant="Ada")
    assert core.why("score").verdict is Verdict.LIMIT


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: "no task", "return HumanTask"),
        (lambda: HumanTask("?", int), "the form that its annotation"),
        (lambda: HumanTask(" ", Approval), "say in a line"),
        (lambda: HumanTask("?", Approval, users=["user"]), "does not say who"),
        (lambda: HumanTask("?", Approval, deadline=datetime(2030, 1, 1)), "no time zone"),  # noqa: DTZ001 - on purpose
    ],
)
def test_a_function_that_makes_no_task_fails_visibly_and_is_not_called_again(make: Any, said: str) -> None:
    d = CaseDefinition("d", goal="approval")

    @d.human_task()
    def approve(applicant: str) -> HumanTask[Approval]:
        return make()  # type: ignore[no-any-return]  # on purpose

    core = Core(d)
    core.start(applicant="Ada")
    (failed,) = of(core.log, WorkerExecutionFailed)
    assert said in f"{failed.error} {failed.message}"
    assert (failed.permanent, failed.then) == (True, "fault_item")
    assert core.count(CaseStalled) == 1


def test_a_function_that_makes_no_task_faults_the_case_where_its_policy_says_so() -> None:
    d = CaseDefinition("d", goal="approval")

    @d.human_task(on_failed="fault_case")
    def approve(applicant: str) -> HumanTask[Approval]:
        raise KeyError("rate")

    core = Core(d)
    core.start(applicant="Ada")
    assert core.status is CaseStatus.FAULTED


# ---- taking and handing on


def test_who_claims_a_task_has_it_and_nobody_else_may_do_anything_with_it() -> None:
    core = asked()
    does(core, Claim)
    assert (the_task(core).status, the_task(core).assignee) == (TaskStatus.CLAIMED, "ada")
    assert core.why("approve").text == "is with ada, task c/approve/1"
    assert does(core, Claim) == []
    for kind, more in (
        (Claim, {}), (Release, {}), (Delegate, {"to": "x"}), (Complete, {"value": {"approved": True}}), (Decline, {}),
    ):  # fmt: skip
        with pytest.raises(TaskRefusedError, match="ada has it"):
            does(core, kind, "user:grace", **more)
    assert the_task(core).assignee == "ada"


def test_a_released_task_is_for_all_its_candidates_again() -> None:
    core = asked()
    does(core, Claim)
    does(core, Release)
    assert (the_task(core).status, the_task(core).assignee) == (TaskStatus.OPEN, "")
    with pytest.raises(TaskRefusedError, match="nobody has it"):
        does(core, Release)
    does(core, Claim, "user:grace")
    assert the_task(core).assignee == "grace"


@pytest.mark.parametrize(
    ("task", "by", "groups", "fine"),
    [
        ({}, "user:ada", (), True),
        ({"users": ["ada"]}, "user:ada", (), True),
        ({"users": ["grace"]}, "user:ada", (), False),
        ({"users": ["grace"]}, "user:ada", None, False),
        ({"groups": ["g"]}, "user:ada", ("g", "h"), True),
        ({"groups": ["g"]}, "user:ada", ("h",), False),
        ({"groups": ["g"]}, "user:ada", (), False),
        ({"groups": ["g"]}, "user:ada", None, True),
        ({"groups": ["g"], "users": ["grace"]}, "user:grace", (), True),
        ({"groups": ["g"], "users": ["grace"]}, "user:ada", ("g",), True),
        ({"users": ["session:bot"]}, "session:bot", (), True),
    ],
)
def test_only_candidates_take_a_task(task: Any, by: str, groups: tuple[str, ...] | None, fine: bool) -> None:
    for kind, more in ((Claim, {}), (Complete, {"value": {"approved": True}}), (Decline, {}), (Delegate, {"to": "x"})):
        core = asked(task)
        if fine:
            assert does(core, kind, by, groups=groups, **more)
        else:
            with pytest.raises(TaskRefusedError, match="none of those it is for"):
                does(core, kind, by, groups=groups, **more)
            assert the_task(core).status is TaskStatus.OPEN


def test_a_task_can_be_assigned_to_anybody_whoever_has_it() -> None:
    core = asked({"users": ["ada"]})
    does(core, Claim)
    does(core, Assign, "user:boss", to="user:grace")
    assert the_task(core).assignee == "grace"
    assert does(core, Assign, "user:boss", to="grace") == []
    assert does(core, Complete, "user:grace", value=Approval(True))


def test_a_delegated_task_remembers_who_passed_it_on() -> None:
    core = asked()
    does(core, Claim)
    does(core, Delegate, to="grace")
    assert (the_task(core).assignee, the_task(core).delegator) == ("grace", "ada")
    with pytest.raises(TaskRefusedError, match="grace has it"):
        does(core, Complete, value=Approval(True))
    with pytest.raises(TaskRefusedError, match="who has it"):
        does(core, Delegate, "user:grace", to="grace")
    does(core, Release, "user:grace")
    assert the_task(core).delegator == ""


def test_comments_are_kept_and_counted() -> None:
    core = asked()
    does(core, Comment, "user:anybody", text="see page 3")
    does(core, Comment, text="I did")
    assert the_task(core).comments == 2
    for text in (" ", "nul \0"):
        with pytest.raises(InputRefusedError):
            does(core, Comment, text=text)
    assert core.status is CaseStatus.WAITING


@pytest.mark.parametrize("kind", [kind for kind in TAKES if issubclass(kind, TaskInput)])
def test_somebody_without_a_name_and_a_task_that_is_none_or_has_ended_are_refused(kind: type[TaskInput]) -> None:
    more: dict[str, Any] = {
        Assign: {"to": "ada"}, Delegate: {"to": "x"}, Complete: {"value": Approval(True)}, Comment: {"text": "x"},
    }.get(kind, {})  # fmt: skip
    core = asked()
    if kind is not Assign:
        for by in ("user", "user:", "engine"):
            with pytest.raises(InputRefusedError, match="does not say who"):
                does(core, kind, by, **more)
    with pytest.raises(TaskNotFoundError, match="did you mean 'c/approve/1'"):
        does(core, kind, task="c/aprove/1", **more)
    assert core.status is CaseStatus.WAITING
    core.cancel(reason="over")
    with pytest.raises(TaskRefusedError, match="it is CANCELLED by engine"):
        does(core, kind, **more)
    with pytest.raises(TaskNotFoundError, match="has no task 'c/aprove/1'; it is CANCELLED: over"):
        does(core, kind, task="c/aprove/1", **more)


# ---- answering


@pytest.mark.parametrize("value", [Approval(True, "fine"), {"approved": True, "why": "fine"}])
def test_an_answer_is_a_fact_of_who_gave_it(value: object) -> None:
    core = asked()
    does(core, Claim)
    events = does(core, Complete, value=value)
    assert core.status is CaseStatus.COMPLETED
    (changed,) = of(events, ContextChanged)
    assert changed.facts == {"approval": {"approved": True, "why": "fine"}}
    (done,) = of(events, WorkerExecutionCompleted)
    assert (changed.by, done.by, done.wrote) == ("user:ada", "user:ada", ("approval",))


def test_an_answer_that_does_not_fit_leaves_the_task_claimed_and_names_each_field() -> None:
    core = asked()
    does(core, Claim)
    wrong = {"aproved": True, "why": 3}
    with pytest.raises(AnswerRefusedError, match="it stays as it was") as refused:
        does(core, Complete, value=wrong)
    assert refused.value.fields.keys() == {"aproved", "approved", "why"}
    assert "did you mean 'approved'" in refused.value.fields["aproved"]
    assert refused.value.answer is wrong
    assert (the_task(core).status, core.status) == (TaskStatus.CLAIMED, CaseStatus.WAITING)


def test_a_form_may_be_a_plain_type() -> None:
    d = CaseDefinition("d", goal="level")

    @d.human_task(writes="level", refire="once")
    def ask() -> HumanTask[Literal["low", "high"]]:
        form: Any = Literal["low", "high"]
        return HumanTask("How high?", form)

    core = Core(d)
    core.start()
    with pytest.raises(AnswerRefusedError) as refused:
        does(core, Complete, task="c/ask/1", value="medium")
    assert list(refused.value.fields) == [""]
    does(core, Complete, task="c/ask/1", value="low")
    assert core.facts == {"level": "low"}


def test_of_two_who_complete_one_wins_and_the_other_keeps_what_they_typed() -> None:
    d = loan()
    d.completion = None
    core = Core(d)
    core.start(applicant="Ada")
    does(core, Complete, value={"approved": True})
    late = {"approved": False, "why": "a long story"}
    with pytest.raises(TaskRefusedError, match="it is COMPLETED by user:ada") as refused:
        does(core, Complete, "user:grace", value=late)
    assert refused.value.answer is late
    assert core.facts["approval"]["approved"] is True


def test_a_validator_that_raises_refuses_the_answer_and_faults_nothing() -> None:
    class Odd:
        def __init__(self, n: int) -> None:
            self.n = n

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            def check(value: Any) -> Odd:
                raise KeyError("no such place")

            schema = handler.generate_schema(int)
            return {"type": "function-plain", "function": {"type": "no-info", "function": check}, "schema": schema}

        @classmethod
        def __get_pydantic_json_schema__(cls, source: Any, handler: Any) -> Any:
            return {"type": "integer"}

    d = CaseDefinition("d", goal="odd")

    @d.human_task(writes="odd", refire="once")
    def ask() -> HumanTask[Odd]:
        return HumanTask("?", Odd)

    core = Core(d)
    core.start()
    with pytest.raises(AnswerRefusedError, match="no such place"):
        does(core, Complete, task="c/ask/1", value=3)
    assert core.status is CaseStatus.WAITING


def test_a_case_that_is_held_takes_an_answer_and_goes_on_when_it_is_resumed() -> None:
    core = asked()
    core.suspend()
    does(core, Complete, value={"approved": True})
    assert core.status is CaseStatus.SUSPENDED
    core.resume()
    assert core.status is CaseStatus.COMPLETED


# ---- declining


def test_a_declined_task_is_rejected_and_not_faulted() -> None:
    core = asked()
    does(core, Claim)
    events = does(core, Decline, reason="not my client")
    assert names(events)[:3] == ["HUMAN_TASK_DECLINED", "HUMAN_TASK_REJECTED", "WORKER_EXECUTION_DECLINED"]
    (declined,) = of(events, WorkerExecutionDeclined)
    assert (declined.reason, declined.by) == ("not my client", "user:ada")
    assert not core.count(WorkerExecutionFailed)
    assert not core.count(CaseFaulted)
    assert core.count(CaseStalled) == 1


def test_by_reroute_a_declined_task_is_offered_to_the_others_until_none_is_left() -> None:
    core = asked({"users": ["ada", "grace"]}, on_declined="reroute")
    does(core, Decline, reason="too busy")
    assert (the_task(core).status, the_task(core).declined_by) == (TaskStatus.OPEN, ("ada",))
    with pytest.raises(TaskRefusedError, match="ada has declined it"):
        does(core, Claim)
    does(core, Decline, "user:grace")
    assert core.count(HumanTaskRejected) == 1
    assert core.state.tasks.open == {}


def test_by_reroute_another_worker_of_the_capability_takes_over() -> None:
    d = CaseDefinition("d", goal="approval")

    @d.human_task(capability="approve")
    def by_people(applicant: str) -> HumanTask[Approval]:
        return HumanTask(applicant, Approval, users=["ada"])

    @d.worker(capability="approve", writes="approval")
    def by_rule(applicant: str) -> Approval:
        return Approval(True, "by rule")

    d.binding("approve", capability="approve", on_declined="reroute")
    core = Core(d)
    core.start(applicant="Ada")
    does(core, Decline)
    assert core.run() == ["approve"]
    assert core.facts["approval"]["why"] == "by rule"


def test_people_take_over_from_a_worker_that_declines() -> None:
    d = CaseDefinition("d", goal="approval")

    @d.worker(capability="approve", writes="approval")
    def by_rule(applicant: str) -> Approval:
        raise AssertionError

    @d.human_task(capability="approve")
    def by_people(applicant: str) -> HumanTask[Approval]:
        return HumanTask(applicant, Approval)

    d.binding("approve", capability="approve", on_failed="reroute")
    core = Core(d)
    core.start(applicant="Ada")
    core.run()
    assert core.status is CaseStatus.WAITING
    does(core, Complete, task="c/approve/1/2", value={"approved": False})
    assert core.facts["approval"]["approved"] is False


def test_by_retry_a_declined_task_is_asked_for_again_as_a_new_one() -> None:
    core = asked(on_declined="retry", retry=Retry(2, wait="1h", jitter=False))
    does(core, Decline)
    assert core.state.tasks.open == {}
    assert core.why("approve").verdict is Verdict.RETRY_WAIT
    core.pass_time("1h")
    assert list(core.state.tasks.open) == ["c/approve/1/2"]
    does(core, Decline, task="c/approve/1/2")
    assert core.count(WorkerExecutionDeclined, then="fault_item") == 1


@pytest.mark.parametrize(("then", "status"), [("fault_case", CaseStatus.FAULTED), ("ignore", CaseStatus.COMPLETED)])
def test_what_follows_a_decline_is_the_bindings_policy(then: str, status: CaseStatus) -> None:
    d = loan(on_declined=then)
    d.completion, d.at_quiescence = None, True
    core = Core(d)
    core.start(applicant="Ada")
    does(core, Decline)
    assert core.status is status


# ---- times


def test_due_and_follow_up_dates_remind_and_end_nothing() -> None:
    core = asked({"due": "2d", "follow_up": "1d"})
    assert names(core.pass_time("3d")) == ["TIMER_FIRED", "HUMAN_TASK_FOLLOW_UP", "TIMER_FIRED", "HUMAN_TASK_OVERDUE"]
    assert (the_task(core).overdue, the_task(core).status) == (True, TaskStatus.OPEN)
    assert core.status is CaseStatus.WAITING


def test_an_escalated_task_stays_open_and_is_for_the_others_too() -> None:
    core = asked({"users": ["ada"], "escalate": "1d", "escalate_to": ["managers"]})
    with pytest.raises(TaskRefusedError):
        does(core, Claim, "user:boss", groups=("managers",))
    (escalated,) = of(core.pass_time("1d"), HumanTaskEscalated)
    assert escalated.groups == ("managers",)
    assert (the_task(core).escalated, the_task(core).status) == (True, TaskStatus.OPEN)
    does(core, Claim, "user:boss", groups=("managers",))
    assert the_task(core).assignee == "boss"


def test_a_task_that_expires_is_an_outcome_of_its_own_and_not_asked_for_again() -> None:
    core = asked({"expires": "5d", "due": "9d"})
    does(core, Claim)
    events = core.pass_time("5d")
    (expired,) = of(events, WorkerExecutionExpired)
    assert (expired.limit, expired.then, expired.settled) == (432_000.0, "fault_item", True)
    assert len(of(events, HumanTaskExpired)) == 1
    assert core.state.timers == {}
    with pytest.raises(TaskRefusedError, match="it is EXPIRED by timer:task-expiry:c/approve/1"):
        does(core, Complete, value={"approved": True})
    assert core.count(CaseStalled) == 1


def test_a_task_that_expires_is_asked_for_again_where_its_policy_says_so() -> None:
    core = asked({"expires": "5d"}, on_expired="retry", retry=Retry(2, wait="1h", jitter=False))
    core.pass_time("5d")
    core.pass_time("1h")
    assert list(core.state.tasks.open) == ["c/approve/1/2"]
    core.pass_time("5d")
    assert core.count(WorkerExecutionExpired) == 2


def test_a_deadline_that_has_passed_expires_the_task_at_once() -> None:
    core = asked({"deadline": NOON - timedelta(days=1)})
    core.pass_time("0s")
    assert core.count(HumanTaskExpired) == 1


@pytest.mark.parametrize("end", ["complete", "decline", "cancel", "expire"])
def test_no_timer_outlives_its_task(end: str) -> None:
    core = asked({"due": "2d", "follow_up": "1d", "escalate": "3d", "escalate_to": ["m"], "expires": "5d"})
    assert len(core.state.timers) == 4
    if end == "complete":
        does(core, Complete, value={"approved": True})
    elif end == "decline":
        does(core, Decline)
        assert core.count(TimerCancelled) == 4
    elif end == "expire":
        core.pass_time("5d")
    else:
        core.cancel()
    assert core.state.timers == {}


# ---- being called off


def test_the_end_of_a_case_calls_its_tasks_off_before_it() -> None:
    core = asked()
    events = core.cancel("withdrawn")
    (called_off,) = of(events, HumanTaskCancelled)
    assert called_off.reason == "the case is CANCELLED"
    assert names(events)[-1] == "CASE_CANCELLED"
    assert core.state.tasks.open == {}


def test_a_goal_that_is_reached_otherwise_calls_the_task_off() -> None:
    d = loan()
    d.external = {"approval": Approval}
    core = Core(d)
    core.start(applicant="Ada")
    core.take(Write(signals=("approval",), facts={"approval": {"approved": True, "why": ""}}, by="user:boss"))
    assert core.status is CaseStatus.COMPLETED
    assert core.count(HumanTaskCancelled) == 1


def test_an_answer_that_another_system_reports_completes_the_task() -> None:
    d = loan()
    d.limits = Limits(concurrency=1)

    @d.worker(writes="applicant")
    def ask_name(office: str) -> str:
        return "Ada"

    core = Core(d)
    core.start(office="Delft")
    activation = core.activation("ask_name")
    core.live.agenda.eligible.clear()
    assert activation.status is ActivationStatus.RUNNING
    core.suspend()
    core.returns("ask_name", "Ada")
    core.take(Reported(binding="approve", worker="approve", value=Approval(True), by="system:old"))
    assert [e.name for e in of(core.log, HumanTaskEvent)] == ["HUMAN_TASK_CREATED", "HUMAN_TASK_COMPLETED"]
    assert core.state.tasks.open == {}
    assert core.facts["approval"] == {"approved": True, "why": ""}


def test_every_step_of_a_task_is_one_that_its_life_cycle_allows() -> None:
    core = asked({"escalate": "1h", "escalate_to": ["m"], "expires": "2d"}, on_declined="reroute")
    before = TaskStatus.OPEN
    core.pass_time("1h")
    for kind, by, more in (
        (Claim, "ada", {}), (Delegate, "ada", {"to": "grace"}), (Release, "grace", {}), (Assign, "boss", {"to": "joan"}),
        (Comment, "x", {"text": "x"}), (Decline, "joan", {}), (Complete, "ada", {"value": {"approved": True}}),
    ):  # fmt: skip
        does(core, kind, f"user:{by}", **more)
        task = core.state.tasks.last
        assert task is not None
        assert task.status is before or task.status in TASK_TRANSITIONS[before]
        before = task.status
    assert before is TaskStatus.COMPLETED
    assert ActivationStatus.DELEGATED in ACTIVATION_TRANSITIONS[ActivationStatus.RUNNING]
    assert all(event.binding == "approve" for event in of(core.log, HumanTaskEvent))


def test_an_expired_task_of_a_capability_is_not_asked_for_again_either() -> None:
    d = CaseDefinition("d", goal="approval")

    @d.human_task(capability="approve")
    def by_people(applicant: str) -> HumanTask[Approval]:
        return HumanTask(applicant, Approval, expires="1d")

    d.binding("approve", capability="approve")
    core = Core(d)
    core.start(applicant="Ada")
    core.pass_time("1d")
    assert core.count(WorkerExecutionExpired, then="fault_item") == 1


def test_a_validator_that_changes_its_mind_refuses_the_answer_and_faults_nothing() -> None:
    calls = list[int]()

    def check(value: int) -> int:
        calls.append(value)
        if len(calls) > 4:
            raise ValueError("not any more")
        return value

    d = CaseDefinition("d", goal="number")

    @d.human_task(writes="number", refire="once")
    def ask() -> HumanTask[Annotated[int, AfterValidator(check)]]:
        form: Any = Annotated[int, AfterValidator(check)]
        return HumanTask("?", form)

    core = Core(d)
    core.start()
    with pytest.raises(AnswerRefusedError, match="not any more"):
        does(core, Complete, task="c/ask/1", value=3)
    assert core.status is CaseStatus.WAITING


def test_a_model_may_be_filled_by_its_aliases_and_by_its_names() -> None:
    class Person(BaseModel, validate_by_name=True):
        given: str = Field(alias="givenName")

    d = CaseDefinition("d", goal="person")

    @d.human_task(writes="person", refire="once")
    def ask() -> HumanTask[Person]:
        return HumanTask("?", Person)

    for answer in ({"given": "Ada"}, {"givenName": "Ada"}):
        core = Core(d)
        core.start()
        does(core, Complete, task="c/ask/1", value=answer)
        assert core.facts == {"person": {"givenName": "Ada"}}


# ---- a worker that asks


ASKED = TaskId("c/work/1/ask-1")


def asking() -> Core:
    """A case whose worker has asked."""
    d = CaseDefinition("d", goal="done")

    @d.worker(writes="done")
    def work(name: str) -> str:
        return name

    core = Core(d)
    core.start(name="Ada")
    asks(core)
    return core


def asks(core: Core) -> list[Event]:
    activation = core.activation("work")
    form = {"type": "integer"}
    asked = HumanTask("How many?", int, expires="1d")
    return core.take(Ask(task=ASKED, activation=activation.id, attempt=activation.attempt, asked=asked, form=form))


def answered(core: Core) -> None:
    """It is answered where no process has the worker, which runs again."""
    does(core, Complete, task=ASKED, value=3)
    assert core.activation("work").status is ActivationStatus.RUNNING
    core.take(Recover(activation=core.activation("work").id))


def test_a_worker_that_asks_is_delegated_and_its_answer_is_kept_for_it() -> None:
    core = asking()
    assert core.activation("work").status is ActivationStatus.DELEGATED
    assert core.status is CaseStatus.WAITING
    core.crash()
    assert core.count(WorkerExecutionStarted) == 1  # nothing runs until somebody answers
    with pytest.raises(AnswerRefusedError, match="must be of type integer"):
        does(core, Complete, task=ASKED, value="three")
    answered(core)
    assert core.activation("work").answers == {ASKED: 3}
    assert core.status is CaseStatus.RUNNING
    core.run()
    assert core.status is CaseStatus.COMPLETED


def test_a_question_that_was_asked_before_is_the_same_task() -> None:
    core = asking()
    does(core, Claim, task=ASKED)
    assert asks(core) == []
    assert the_task(core).assignee == "ada"


def test_a_question_of_an_attempt_that_is_over_is_nobodys() -> None:
    core = asking()
    activation = core.activation("work")
    late = Ask(task=TaskId("c/work/1/x"), activation=activation.id, attempt=9, asked=HumanTask("?", int), form={})
    assert core.take(late) == []


@pytest.mark.parametrize("end", ["declined", "expired"])
def test_a_question_without_an_answer_leaves_the_worker_running(end: str) -> None:
    core = asking()
    if end == "declined":
        does(core, Decline, task=ASKED)
        assert core.count(HumanTaskRejected, ask=True) == 1
    else:
        core.pass_time("1d")
        assert core.count(HumanTaskExpired, ask=True) == 1
    assert core.running == ["work"]
    assert core.status is CaseStatus.RUNNING
    assert not core.count(WorkerExecutionDeclined)


def test_waiting_for_people_is_no_crash_however_often() -> None:
    core = asking()
    for _ in range(Retry().crashes + 2):
        answered(core)
        asks(core)
    does(core, Complete, task=ASKED, value=3)
    core.crash()
    assert core.running == ["work"]


def test_an_answer_is_not_the_crash_that_is_one_too_many() -> None:
    core = asking()
    does(core, Complete, task=ASKED, value=3)
    for _ in range(Retry().crashes - 1):
        core.crash()
        core.pass_time("30s")
    asks(core)
    answered(core)
    assert core.running == ["work"]
    core.crash()
    assert core.count(WorkerExecutionInterrupted, settled=True) == 1
