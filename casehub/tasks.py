"""Human tasks as a case's log folds to them: which are open, who has them, how the others ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from math import inf
from typing import Any

from casehub.envelope import ActivationId, CaseId, Event
from casehub.task_events import (
    HumanTaskAssigned,
    HumanTaskCancelled,
    HumanTaskClaimed,
    HumanTaskCommented,
    HumanTaskCompleted,
    HumanTaskCreated,
    HumanTaskDeclined,
    HumanTaskDelegated,
    HumanTaskEscalated,
    HumanTaskEvent,
    HumanTaskExpired,
    HumanTaskOverdue,
    HumanTaskRejected,
    HumanTaskReleased,
    TaskId,
)
from casehub.values import Plain

ANYBODY = "anybody"


class TaskStatus(StrEnum):
    """Where a task stands. `OPEN`: offered to its candidates; `CLAIMED`: somebody has it."""

    OPEN = "OPEN"
    CLAIMED = "CLAIMED"
    COMPLETED = "COMPLETED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        return self not in (TaskStatus.OPEN, TaskStatus.CLAIMED)


_ENDED = frozenset(status for status in TaskStatus if status.ended)
TASK_TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    TaskStatus.OPEN: frozenset({TaskStatus.CLAIMED, *_ENDED}),
    TaskStatus.CLAIMED: frozenset({TaskStatus.OPEN, TaskStatus.CLAIMED, *_ENDED}),
    **{ended: frozenset[TaskStatus]() for ended in _ENDED},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One human task. Times are in UTC; people are names (`ada`), as in `users`.

    `groups`, `users`: who may take it, everybody where both are empty, but for `declined_by`; `assignee`: who has it;
    `delegator`: who had it before them and passed it on; `comments`: how many there are; `ask`: a worker that runs
    waits for it; `gate`: it is to approve a planned action; `structure`: the version of the definition that it is of; `ended_by`, `reason`: of its end. What the log does not
    hold is filled in by `hub.tasks`: `form`, the JSON Schema of the answer, and, for one task alone, `facts`, what is
    to be seen with it, as plain values.
    """

    id: TaskId
    case: CaseId
    definition: str
    binding: str
    activation: ActivationId
    title: str
    created_at: datetime
    changed_at: datetime
    description: str = ""
    status: TaskStatus = TaskStatus.OPEN
    assignee: str = ""
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    declined_by: tuple[str, ...] = ()
    delegator: str = ""
    priority: int = 0
    shows: tuple[str, ...] = ()
    due: datetime | None = None
    follow_up: datetime | None = None
    escalates: datetime | None = None
    escalate_to: tuple[str, ...] = ()
    expires: datetime | None = None
    overdue: bool = False
    escalated: bool = False
    comments: int = 0
    ask: bool = False
    gate: bool = False
    structure: str = ""
    answer: Plain = None
    ended_by: str = ""
    reason: str = ""
    tenant: str = "default"
    form: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    facts: Mapping[str, Plain] = field(default_factory=dict[str, Plain])

    @property
    def where(self) -> str:
        """Who has it, in words."""
        if self.assignee:
            return f"is with {self.assignee}, task {self.id}"
        names = ", ".join((*self.users, *self.groups))
        return f"waits for {names or 'anybody'} to take task {self.id}"

    @property
    def urgency(self) -> tuple[int, float]:
        """Lists begin with the highest priority, then with what is due first."""
        return (-self.priority, inf if self.due is None else self.due.timestamp())

    @property
    def seen_by(self) -> tuple[str, ...]:
        """Who finds it in a list while it is open: `user:ada`, `group:underwriters`, and `anybody` where it is for all."""
        users = (*self.users, self.assignee) if self.assignee else self.users
        found = (*(f"user:{user}" for user in users), *(f"group:{group}" for group in self.groups))
        return tuple(dict.fromkeys(found if self.users or self.groups else (*found, ANYBODY)))

    @property
    def offered(self) -> bool:
        """Whether somebody else than those who declined it may take it."""
        return bool(self.groups) or not self.users or any(user not in self.declined_by for user in self.users)

    def may_take(self, person: str, groups: tuple[str, ...] | None) -> bool:
        """Whether a person may take it. `groups`: theirs; None where whoever asks vouches for them."""
        if person in self.declined_by:
            return False
        if person in self.users or not (self.users or self.groups):
            return True
        return bool(self.groups) if groups is None else any(group in self.groups for group in groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which tasks, the most urgent first: by priority, then by when they are due, then by when they were created.

    `user`: those that a person has or may take, `groups` being theirs; `groups` alone: those that may be taken by these,
    or have been. Of tasks that have ended, `user` means those that were theirs. `statuses`: empty for all; `after`: the
    task to go on behind (keyset paging).
    """

    tenant: str = "default"
    task: TaskId | None = None
    case: CaseId | None = None
    definition: str | None = None
    binding: str | None = None
    statuses: tuple[TaskStatus, ...] = ()
    user: str | None = None
    groups: tuple[str, ...] | None = None
    after: TaskId | None = None
    limit: int = 1_000

    @property
    def who(self) -> tuple[str, ...]:
        """As whom somebody looks, in the terms of `Task.seen_by`."""
        groups = tuple(f"group:{group}" for group in self.groups or ())
        return groups if self.user is None else (f"user:{self.user}", *groups, ANYBODY)

    def matches(self, task: Task) -> bool:
        """Whether one task answers it, but for `after` and `limit`."""
        return (
            task.tenant == self.tenant
            and (not self.statuses or task.status in self.statuses)
            and (self.task is None or task.id == self.task)
            and (self.case is None or task.case == self.case)
            and (self.definition is None or task.definition == self.definition)
            and (self.binding is None or task.binding == self.binding)
            and (self._concerns(task) if self.user is not None or self.groups is not None else True)
        )

    def _concerns(self, task: Task) -> bool:
        if task.status.ended:
            return self.user is None or task.assignee == self.user
        if self.user is not None:
            if task.assignee:
                return task.assignee == self.user
            if self.user in task.declined_by:
                return False
        return not set(self.who).isdisjoint(task.seen_by)


@dataclass(slots=True)
class Tasks:
    """The human tasks of a case. `open`: by id; `ended`: how the others ended, in words; `last`: the one that the last
    event was about, as it left it."""

    open: dict[TaskId, Task] = field(default_factory=dict[TaskId, Task])
    ended: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    last: Task | None = None

    def of(self, activation: ActivationId) -> list[Task]:
        """The open tasks that an activation waits for."""
        return [task for task in self.open.values() if task.activation == activation]

    def apply(self, event: HumanTaskEvent, structure: str) -> Task | None:
        """Take one event in; total. The task as that leaves it, None for one that nobody knows. `structure`: of its case."""
        if isinstance(event, HumanTaskCreated):
            task: Task | None = _created(event, structure)
        else:
            known = self.open.get(event.task)
            change = _CHANGES.get(type(event))
            task = None
            if known is not None:
                changes = {} if change is None else change(known, event)
                task = replace(known, changed_at=event.at, **changes)
        self.last = task
        if task is not None and task.status.ended:
            self.open.pop(task.id, None)
            self.ended[task.id] = f"{task.status} by {task.ended_by}"
        elif task is not None:
            self.open[task.id] = task
        return task

    def adopt(self, structure: str) -> None:
        """The case has another version of its definition now."""
        self.open = {id: replace(task, structure=structure) for id, task in self.open.items()}


def _created(event: HumanTaskCreated, structure: str) -> Task:
    return Task(
        id=event.task,
        case=event.case,
        definition=event.definition,
        tenant=event.tenant,
        binding=event.binding,
        activation=event.activation,
        title=event.title,
        description=event.description,
        groups=event.groups,
        users=event.users,
        priority=event.priority,
        shows=event.shows,
        due=event.due,
        follow_up=event.follow_up,
        escalates=event.escalates,
        escalate_to=event.escalate_to,
        expires=event.expires,
        ask=event.ask,
        gate=event.gate,
        structure=structure,
        form=event.form or {},
        created_at=event.at,
        changed_at=event.at,
    )


Changes = dict[str, Any]


def _taken(task: Task, event: Any) -> Changes:
    return {"status": TaskStatus.CLAIMED, "assignee": event.assignee, "delegator": ""}


def _delegated(task: Task, event: Any) -> Changes:
    return {"status": TaskStatus.CLAIMED, "assignee": event.assignee, "delegator": event.delegator}


def _released(task: Task, event: Any) -> Changes:
    return {"status": TaskStatus.OPEN, "assignee": "", "delegator": ""}


def _declined(task: Task, event: Any) -> Changes:
    person = event.by.removeprefix("user:")
    return {**_released(task, event), "declined_by": (*task.declined_by, person)}


def _commented(task: Task, event: Any) -> Changes:
    return {"comments": task.comments + 1}


def _overdue(task: Task, event: Any) -> Changes:
    return {"overdue": True}


def _escalated(task: Task, event: Any) -> Changes:
    return {"escalated": True, "groups": tuple(dict.fromkeys((*task.groups, *event.groups)))}


def _ended(status: TaskStatus) -> Callable[[Task, Any], Changes]:
    def change(task: Task, event: Any) -> Changes:
        return {"status": status, "ended_by": event.by, "reason": getattr(event, "reason", "")}

    return change


def _completed(task: Task, event: Any) -> Changes:
    assignee = task.assignee or event.by.removeprefix("user:")
    return {"status": TaskStatus.COMPLETED, "answer": event.answer, "ended_by": event.by, "assignee": assignee}


_CHANGES: dict[type[Event], Callable[[Task, Any], Changes]] = {
    HumanTaskClaimed: _taken,
    HumanTaskAssigned: _taken,
    HumanTaskDelegated: _delegated,
    HumanTaskReleased: _released,
    HumanTaskDeclined: _declined,
    HumanTaskCommented: _commented,
    HumanTaskOverdue: _overdue,
    HumanTaskEscalated: _escalated,
    HumanTaskCompleted: _completed,
    HumanTaskRejected: _ended(TaskStatus.REJECTED),
    HumanTaskExpired: _ended(TaskStatus.EXPIRED),
    HumanTaskCancelled: _ended(TaskStatus.CANCELLED),
}
