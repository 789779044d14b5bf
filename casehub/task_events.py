"""Events of human tasks: what people are asked for, and what they do about it.

Who has a task claims it, hands it on and answers it; the names of these steps are those of WS-HumanTask 1.1, the
OASIS specification of human tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NewType

from casehub.envelope import ActivationId, Event
from casehub.values import Plain

TaskId = NewType("TaskId", str)
"""`case/binding/n` for the task of an activation, with `/attempt` behind it when it is asked for again."""


@dataclass(slots=True, kw_only=True)
class HumanTaskEvent(Event):
    """Base: something about one human task. `activation`: the one that waits for it."""

    task: TaskId
    binding: str
    activation: ActivationId


@dataclass(slots=True, kw_only=True)
class HumanTaskCreated(HumanTaskEvent):
    """People are asked for something; everything that was computed for it is here.

    `groups`, `users`: who may take it, everybody where both are empty; `shows`: names of the facts to see with it;
    `due`, `follow_up`: when it should be done and looked at; `escalates`: when `escalate_to` may take it too; `expires`:
    when it is too late, the earliest of its deadlines. Times are in UTC. `ask`: a worker that runs asks for it; `gate`: it is
    to approve a planned action. `form`: of these, the JSON Schema of the answer.
    """

    title: str
    description: str = ""
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    priority: int = 0
    shows: tuple[str, ...] = ()
    due: datetime | None = None
    follow_up: datetime | None = None
    escalates: datetime | None = None
    escalate_to: tuple[str, ...] = ()
    expires: datetime | None = None
    ask: bool = False
    gate: bool = False
    form: Mapping[str, Plain] | None = None


# ---- who has it


@dataclass(slots=True, kw_only=True)
class HumanTaskClaimed(HumanTaskEvent):
    """Somebody took it."""

    assignee: str


@dataclass(slots=True, kw_only=True)
class HumanTaskReleased(HumanTaskEvent):
    """Who had it gave it back."""


@dataclass(slots=True, kw_only=True)
class HumanTaskAssigned(HumanTaskEvent):
    """Somebody gave it to somebody."""

    assignee: str


@dataclass(slots=True, kw_only=True)
class HumanTaskDelegated(HumanTaskEvent):
    """Who had it, `delegator`, gave it to somebody else."""

    assignee: str
    delegator: str


@dataclass(slots=True, kw_only=True)
class HumanTaskDeclined(HumanTaskEvent):
    """Somebody will not do it. It stays open for the others, or a `HUMAN_TASK_REJECTED` follows."""

    reason: str = ""


@dataclass(slots=True, kw_only=True)
class HumanTaskCommented(HumanTaskEvent):
    """Somebody wrote something beside it."""

    text: str


# ---- its times


@dataclass(slots=True, kw_only=True)
class HumanTaskOverdue(HumanTaskEvent):
    """It should have been done by now; it stays open."""


@dataclass(slots=True, kw_only=True)
class HumanTaskFollowUp(HumanTaskEvent):
    """It should be looked at by now; it stays open."""


@dataclass(slots=True, kw_only=True)
class HumanTaskEscalated(HumanTaskEvent):
    """It has been open for too long: these `groups` may take it too. It stays open."""

    groups: tuple[str, ...]


# ---- its ends


@dataclass(slots=True, kw_only=True)
class HumanTaskEnded(HumanTaskEvent):
    """Base of every end of a task. `ask`: a worker that runs had asked for it; `gate`: it was for a planned action."""

    ask: bool = False
    gate: bool = False


@dataclass(slots=True, kw_only=True)
class HumanTaskCompleted(HumanTaskEnded):
    """It is answered. `answer`: as a plain value that fits the form."""

    answer: Plain = None


@dataclass(slots=True, kw_only=True)
class HumanTaskRejected(HumanTaskEnded):
    """It was declined and is not offered to others."""

    reason: str = ""


@dataclass(slots=True, kw_only=True)
class HumanTaskExpired(HumanTaskEnded):
    """Nobody answered before its deadline."""


@dataclass(slots=True, kw_only=True)
class HumanTaskCancelled(HumanTaskEnded):
    """It was called off: nobody waits for it any more."""

    reason: str = ""
