"""What is remembered of a binding, of its activation while it is in flight, and of a milestone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from casehub.actions import Action, ActionEvent, ActionHeld, ActionPlanned, ActionRejected
from casehub.context import Fact
from casehub.events import ActivationId, WorkerExecutionFinished, WorkerExecutionInterrupted
from casehub.lifecycle import ActivationStatus, MilestoneStatus, SlaStatus
from casehub.task_events import TaskId
from casehub.tasks import Task, TaskStatus
from casehub.values import Plain


@dataclass(slots=True)
class Activation:
    """One activation in flight. `facts`: what it reads, as it was when it was made, for all its attempts.

    `attempt` counts from 1; `interruptions` of them ended with the process that ran them, `parks` of these
    while it waited for people, or as the process was stopped in peace. `answers`: to what its worker asked, by task; `refusals`: why there is none, None where its
    deadline passed, until the attempt that asked has ended. `due`: of a schedule's. `action`: what it has planned,
    until that is rejected; `plans`: how often it has. `undoes`: the activation that it compensates, None for none.
    """

    id: ActivationId
    binding: str
    worker: str
    facts: Mapping[str, Fact]
    version: int
    attempt: int = 0
    interruptions: int = 0
    parks: int = 0
    answers: dict[TaskId, Plain] = field(default_factory=dict[TaskId, Plain])
    refusals: dict[TaskId, str | None] = field(default_factory=dict[TaskId, str | None])
    status: ActivationStatus = ActivationStatus.PENDING
    due: datetime | None = None
    action: Action | None = None
    plans: int = 0
    undoes: ActivationId | None = None

    def answer(self, task: Task) -> None:
        """Take in how one of its tasks has ended."""
        if task.status is not TaskStatus.COMPLETED:
            if task.ask and task.status is not TaskStatus.CANCELLED:
                self.refusals[task.id] = None if task.status is TaskStatus.EXPIRED else task.reason
        elif task.ask:
            self.answers[task.id] = task.answer
        elif self.action is not None and isinstance(task.answer, dict) and task.answer.get("approved") is True:
            self.action.approved_by.append(task.assignee)

    def end_attempt(self, event: WorkerExecutionFinished) -> None:
        """Take in the end of an attempt that is not the last. One that was cut off is run again as if it went on."""
        self.status = ActivationStatus.PENDING
        if isinstance(event, WorkerExecutionInterrupted):
            self.interruptions += 1
            self.parks += event.parked or event.left
        else:
            self.refusals.clear()
        if event.then == "reroute":  # what one worker was told, and planned, is not another's
            self.answers.clear()
            self.action = None

    def take(self, event: ActionEvent) -> None:
        """Take in what becomes of a planned action. The attempts that carry it out are counted from one again."""
        if isinstance(event, ActionPlanned):
            self.action = Action(event.action, event.title)
            self.plans += 1
        elif isinstance(event, ActionRejected):
            self.action = None
        elif self.action is not None and isinstance(event, ActionHeld):
            self.action.needed = event.approvals
        elif self.action is not None:
            self.action.approved, self.status = True, ActivationStatus.PENDING
            self.parks += self.attempt - self.interruptions
            self.interruptions = self.attempt
            self.answers.clear()  # what carries it out asks for itself
            self.refusals.clear()


@dataclass(slots=True)
class Firing:
    """What is remembered of a binding: how often it fired, and the stamps that count as seen.

    `drops`: how often in a row a choice of it was dropped; `excluded`: workers left out of its current round;
    `wanted`: the worker whom somebody chose for the next activation, empty for none; `outcome`, `then`, `detail`: the event name of how its last attempt ended, what followed, and its message.
    """

    count: int = 0
    stamps: Mapping[str, int] | None = None
    occurrence: int = 0
    before: Mapping[str, int] | None = None
    before_occurrence: int = 0
    in_flight: ActivationId | None = None
    drops: int = 0
    excluded: tuple[str, ...] = ()
    wanted: str = ""
    outcome: str = ""
    then: str = ""
    detail: str = ""

    def begin(self, activation: ActivationId, stamps: Mapping[str, int], occurrence: int) -> None:
        """It fires: what it sees now counts as seen."""
        self.count += 1
        self.before, self.before_occurrence = self.stamps, self.occurrence
        self.stamps, self.occurrence = stamps, occurrence
        self.in_flight = activation
        self.drops = 0
        self.wanted = ""

    def end(self, detail: str) -> None:
        """Its activation has settled."""
        self.in_flight = None
        self.excluded = ()
        self.detail = detail

    def give_back(self) -> None:
        """What its last activation saw counts as seen no more: it may fire on it again."""
        self.stamps, self.occurrence = self.before, self.before_occurrence


@dataclass(slots=True)
class MilestoneState:
    """Where a milestone stands, its service level beside it, and when it was achieved."""

    status: MilestoneStatus = MilestoneStatus.PENDING
    sla: SlaStatus = SlaStatus.NOT_STARTED
    at: datetime | None = None
