"""People as workers: a started activation becomes a task for them, and what they do about it is decided in the turn.

The function that a definition declares for a task is called once, in the turn that starts the activation; what it
computed is in `HUMAN_TASK_CREATED`. While a task is open its activation is `DELEGATED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from casehub.activation import Activation
from casehub.binding import Binding, Worker
from casehub.engine.failures import NO_SEED, failed, message_of
from casehub.engine.intake import Intake
from casehub.errors import (
    AnswerRefusedError,
    Declined,
    FactError,
    InputRefusedError,
    LimitError,
    TaskNotFoundError,
    TaskRefusedError,
    did_you_mean,
)
from casehub.events import (
    Event,
    TimerCancelled,
    TimerId,
    TimerSet,
    WorkerExecutionCompleted,
    WorkerExecutionFinished,
    WorkerExecutionStarted,
)
from casehub.forms import misfits
from casehub.gate import ANSWER
from casehub.humantask import HumanTask, person_of, time_of
from casehub.inputs import (
    Ask,
    Assign,
    Claim,
    Comment,
    Complete,
    Decline,
    Delegate,
    Release,
    Returned,
    TaskInput,
    TimerDue,
)
from casehub.policies import OnOutcome
from casehub.serialized import SerializedType
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.task_events import (
    HumanTaskAssigned,
    HumanTaskCancelled,
    HumanTaskClaimed,
    HumanTaskCommented,
    HumanTaskCompleted,
    HumanTaskCreated,
    HumanTaskDeclined,
    HumanTaskDelegated,
    HumanTaskEnded,
    HumanTaskEscalated,
    HumanTaskExpired,
    HumanTaskFollowUp,
    HumanTaskOverdue,
    HumanTaskRejected,
    HumanTaskReleased,
    TaskId,
)
from casehub.tasks import Task, TaskStatus
from casehub.values import ABSENT, FactType, Plain, plain

DUE: Final = "task-due"
FOLLOW_UP: Final = "task-follow-up"
ESCALATION: Final = "task-escalation"
EXPIRY: Final = "task-expiry"
_PURPOSES: Final = (DUE, FOLLOW_UP, ESCALATION, EXPIRY)


def _about(task: Task, **by: str) -> dict[str, Any]:
    return {"task": task.id, "binding": task.binding, "activation": task.activation, **by}


def _end(task: Task, **by: str) -> dict[str, Any]:
    return {**_about(task, **by), "ask": task.ask, "gate": task.gate}


# ---- what follows from events


def delegate(state: CaseState, structure: Structure, event: WorkerExecutionStarted) -> Iterable[Event]:
    """The attempt of a person is a task for people."""
    if not structure.asks_people:
        return ()
    binding = structure.bindings[event.binding]
    worker = binding.worker_named(event.worker)
    return () if worker.form is None else _asked(state, structure, event, binding, worker)


def _asked(
    state: CaseState, structure: Structure, event: WorkerExecutionStarted, binding: Binding, worker: Worker
) -> Iterator[Event]:
    activation = state.activations[event.activation]
    try:
        yield _computed(state, activation, binding, worker, event.at)
    except Exception as error:  # it is user code
        result = Returned(activation=activation.id, attempt=event.attempt, error=error, at=event.at)
        yield from failed(state, NO_SEED, binding, activation, result, error, permanent=True)


def _computed(
    state: CaseState, activation: Activation, binding: Binding, worker: Worker, at: datetime
) -> HumanTaskCreated:
    shown: list[str] = []
    arguments: dict[str, Any] = {}
    for parameter in worker.parameters:
        fact = activation.facts.get(parameter.target)
        if fact is not None and not fact.hidden and fact.value is not ABSENT:
            shown.append(fact.name)
            arguments[parameter.name] = parameter.type.restore(fact.value, fact.name, state)
    asked: object = worker.function(**arguments)
    form = worker.form
    if not isinstance(asked, HumanTask) or form is None or asked.form != form.annotation:
        raise FactError(
            f"human task {worker.name!r} returned {asked!r:.200}; return HumanTask(title, form) with the form that its "
            "annotation HumanTask[...] names"
        )
    again = f"/{activation.attempt}" if activation.attempt > 1 else ""
    created = asked_of(state, TaskId(activation.id + again), asked, activation, binding, at, binding.policy.timeout)
    created.shows = tuple(shown)
    return created


def asked_of(
    state: CaseState, task: TaskId, asked: HumanTask[Any], activation: Activation, binding: Binding, at: datetime,
    timeout: timedelta | None = None,
) -> HumanTaskCreated:  # fmt: skip
    """The event that asks people. Raises `FactError` and `LimitError` for texts that no store could write."""
    return HumanTaskCreated(
        task=task,
        binding=activation.binding,
        activation=activation.id,
        title=str(plain(asked.title, "the title")),
        description=str(plain(asked.description, "the description")),
        groups=tuple(dict.fromkeys(asked.groups)),
        users=tuple(dict.fromkeys(map(person_of, asked.users))),
        priority=binding.priority if asked.priority is None else asked.priority,
        due=time_of("due", asked.due, at),
        follow_up=time_of("follow_up", asked.follow_up, at),
        escalates=time_of("escalate", asked.escalate, at),
        escalate_to=tuple(dict.fromkeys(asked.escalate_to)),
        expires=state.deadline_of(activation, asked.expiry(at, timeout)),
    )


def set_timers(state: CaseState, structure: Structure, event: HumanTaskCreated) -> Iterator[Event]:
    """What has a time has a timer."""
    times = (event.due, event.follow_up, event.escalates, event.expires)
    for purpose, due in zip(_PURPOSES, times, strict=True):
        if due is not None:
            yield TimerSet(timer=TimerId(f"{purpose}:{event.task}"), due=due)


def clear_timers(state: CaseState, structure: Structure, event: HumanTaskEnded) -> Iterator[Event]:
    """A task that has ended reminds nobody."""
    for purpose in _PURPOSES:
        timer = TimerId(f"{purpose}:{event.task}")
        if timer in state.timers:
            yield TimerCancelled(timer=timer)


def close_tasks(state: CaseState, structure: Structure, event: WorkerExecutionFinished) -> Iterable[Event]:
    """No task outlives the attempt that waits for it."""
    return _closed(state, event) if state.tasks.open else ()


def _closed(state: CaseState, event: WorkerExecutionFinished) -> Iterator[Event]:
    for task in state.tasks.of(event.activation):
        if isinstance(event, WorkerExecutionCompleted):  # it was done elsewhere, and is only reported
            yield HumanTaskCompleted(**_end(task, by=event.by))
        else:
            yield HumanTaskCancelled(reason=getattr(event, "reason", "") or event.name, **_end(task, by=event.by))


def ask(intake: Intake, input: Ask) -> Iterator[Event]:
    """A worker asks; one that runs again finds its task as it is."""
    activation = intake.state.activations.get(input.activation)
    if activation is None or activation.attempt != input.attempt or input.task in intake.state.tasks.open:
        return
    binding = intake.structure.bindings[activation.binding]
    try:
        created = asked_of(intake.state, input.task, input.asked, activation, binding, input.at)
    except (FactError, LimitError) as error:
        raise InputRefusedError(f"task {input.task!r}: {error}") from None
    created.by, created.ask, created.form = f"worker:{activation.worker}", True, input.form
    yield created


# ---- what people do


def claim(intake: Intake, input: Claim) -> Iterator[Event]:
    task, person = _theirs(intake, input, "claim")
    if task.assignee != person:
        yield HumanTaskClaimed(assignee=person, **_about(task, by=input.by))


def release(intake: Intake, input: Release) -> Iterator[Event]:
    task, person = _task(intake, input, "release"), person_of(input.by)
    if task.assignee != person:
        has = f"{task.assignee} has it; they release it, or somebody assigns it" if task.assignee else "nobody has it"
        raise TaskRefusedError(f"{person} cannot release task {task.id!r}: {has}")
    yield HumanTaskReleased(**_about(task, by=input.by))


def assign(intake: Intake, input: Assign) -> Iterator[Event]:
    task, to = _task(intake, input, "assign"), person_of(input.to)
    if task.assignee != to:
        yield HumanTaskAssigned(assignee=to, **_about(task, by=input.by))


def hand_on(intake: Intake, input: Delegate) -> Iterator[Event]:
    task, person = _theirs(intake, input, "delegate")
    to = person_of(input.to)
    if to == task.assignee or to == person:
        raise TaskRefusedError(f"task {task.id!r} cannot be delegated to {to}, who has it; name somebody else")
    yield HumanTaskDelegated(assignee=to, delegator=person, **_about(task, by=input.by))


def complete(intake: Intake, input: Complete) -> Iterator[Event]:
    task, _ = _theirs(intake, input, "complete", input.value)
    activation = intake.state.activations[task.activation]
    form = input.form if task.ask else ANSWER if task.gate else _form(intake, task, activation, input)
    answer, value = _fitting(task, form, input)
    yield HumanTaskCompleted(answer=_kept(intake, task, activation, answer, value), **_end(task, by=input.by))
    if task.ask or task.gate:
        return  # its worker goes on, its gate decides
    result = Returned(
        activation=activation.id, attempt=activation.attempt, value=value, author=input.by, by=input.by, at=input.at
    )
    yield from intake.returned(result)


def _kept(intake: Intake, task: Task, activation: Activation, answer: Plain, value: object) -> Plain:
    """An answer as the log has it: as the fact that it becomes, where that is not stored as JSON."""
    if task.ask or task.gate:
        return answer
    (fact,) = intake.structure.bindings[task.binding].worker_named(activation.worker).writes or ("",)
    kind = intake.structure.types.get(fact)
    if not isinstance(kind, SerializedType):
        return answer
    return kind.normalise(value, f"the answer to task {task.id!r}", intake.state)


def _form(intake: Intake, task: Task, activation: Activation, input: Complete) -> FactType:
    form = intake.structure.bindings[task.binding].worker_named(activation.worker).form
    if form is None:
        raise TaskRefusedError(
            f"task {task.id!r} cannot be completed: binding {task.binding!r} is no human task any more; bring it back",
            input.value,
        )
    return form


def _fitting(task: Task, form: FactType | None, input: Complete) -> tuple[Plain, Any]:
    """The answer as a plain value, and of its type; without that it is held against the schema of its form.

    Raises `AnswerRefusedError`.
    """
    where = f"the answer to task {task.id!r}"
    if form is not None:
        if wrong := form.misfits(input.value):
            raise AnswerRefusedError(task.id, wrong, input.value)
        try:
            answer = form.accept(input.value, where)
            return answer, form.restore(answer, where)
        except Exception as error:  # validators are user code, and may think better of it
            raise AnswerRefusedError(task.id, {"": message_of(error)}, input.value) from None
    try:
        known = isinstance(input.value, dict | list | str | int | float | None)
        answer = plain(input.value, where) if known else FactType(type(input.value)).normalise(input.value, where)
    except (FactError, LimitError) as error:
        raise AnswerRefusedError(task.id, {"": str(error)}, input.value) from None
    if wrong := misfits(task.form, answer):
        raise AnswerRefusedError(task.id, wrong, input.value)
    return answer, answer


def decline(intake: Intake, input: Decline) -> Iterator[Event]:
    task, _ = _theirs(intake, input, "decline")
    yield HumanTaskDeclined(reason=input.reason, **_about(task, by=input.by))
    state = intake.state
    activation = state.activations[task.activation]
    binding = intake.structure.bindings[task.binding]
    reroutes = binding.policy.outcomes.declined is OnOutcome.REROUTE and not task.gate
    if reroutes and state.tasks.open[task.id].offered:
        return
    yield HumanTaskRejected(reason=input.reason, **_end(task, by=input.by))
    if task.ask or task.gate:
        return  # its worker is told, its gate decides
    error = Declined(input.reason or "declined")
    result = Returned(activation=activation.id, attempt=activation.attempt, error=error, author=input.by, at=input.at)
    yield from failed(state, intake.chance, binding, activation, result, error)


def comment(intake: Intake, input: Comment) -> Iterator[Event]:
    task = _task(intake, input, "comment on")
    person_of(input.by)
    if not input.text.strip():
        raise InputRefusedError(f"a comment on task {task.id!r} says something; give text")
    try:
        text = str(plain(input.text, f"the comment on task {task.id!r}"))
    except (FactError, LimitError) as error:
        raise InputRefusedError(str(error)) from None
    yield HumanTaskCommented(text=text, **_about(task, by=input.by))


def timer_due(intake: Intake, input: TimerDue) -> Iterator[Event]:
    """A timer, and what it means to a task."""
    fired = list(intake.timer_due(input))
    yield from fired
    purpose, _, id = input.timer.partition(":")
    task = intake.state.tasks.open.get(TaskId(id))
    if not fired or purpose not in _PURPOSES or task is None:
        return
    about = _about(task, by=f"timer:{input.timer}")
    if purpose == DUE:
        yield HumanTaskOverdue(**about)
    elif purpose == FOLLOW_UP:
        yield HumanTaskFollowUp(**about)
    elif purpose == ESCALATION:
        yield HumanTaskEscalated(groups=task.escalate_to, **about)
    else:
        yield HumanTaskExpired(ask=task.ask, gate=task.gate, **about)
        if task.ask or task.gate:
            return  # its worker is told, its gate decides
        activation = intake.state.activations[task.activation]
        seconds = (input.at - task.created_at).total_seconds()
        result = Returned(activation=activation.id, attempt=activation.attempt, expired=seconds, at=input.at)
        binding = intake.structure.bindings[task.binding]
        yield from failed(intake.state, intake.chance, binding, activation, result, None)


def _task(intake: Intake, input: TaskInput, verb: str, answer: object = None) -> Task:
    """The task, if it is open. Raises `TaskRefusedError`."""
    tasks = intake.state.tasks
    task = tasks.open.get(input.task)
    if task is not None:
        return task
    if input.task in tasks.ended:
        raise TaskRefusedError(f"nobody can {verb} task {input.task!r}: it is {tasks.ended[input.task]}", answer)
    state = intake.state
    hint = did_you_mean(input.task, tasks.open) if tasks.open else "none of its tasks is open"
    if state.status.ended:
        hint = f"it is {state.status}: {state.reason}"
    raise TaskNotFoundError(f"case {state.id!r} has no task {input.task!r}; {hint}")


def _theirs(intake: Intake, input: TaskInput, verb: str, answer: object = None) -> tuple[Task, str]:
    """The task, and who somebody is, if they have it or may take it. Raises `TaskRefusedError`."""
    task, person = _task(intake, input, verb, answer), person_of(input.by)
    action = intake.state.activations[task.activation].action if task.gate else None
    if action is not None and person in action.approved_by and verb != "decline":  # who thinks better of it may say so
        raise TaskRefusedError(
            f"{person} cannot {verb} task {task.id!r}: {person} has approved it once; it takes others", answer
        )
    if task.status is TaskStatus.CLAIMED:
        if task.assignee != person:
            raise TaskRefusedError(
                f"{person} cannot {verb} task {task.id!r}: {task.assignee} has it; have it released or assigned first",
                answer,
            )
    elif not task.may_take(person, input.groups):
        why = "has declined it" if person in task.declined_by else f"is none of those it is for ({_candidates(task)})"
        raise TaskRefusedError(f"{person} cannot {verb} task {task.id!r}: {person} {why}; assign it to them", answer)
    return task, person


def _candidates(task: Task) -> str:
    parts = [f"{what} {', '.join(names)}" for what, names in (("users", task.users), ("groups", task.groups)) if names]
    return "; ".join(parts)
