"""Events: what has happened in a case. The log is made of them, and everything that a case is folds from them.

A class is a kind of event; its name in logs, commands and pages is computed (`ContextChanged` is `CONTEXT_CHANGED`).
The class tree is the topic tree: who subscribes to `WorkerExecutionFinished` hears every outcome. Events are made by
the engine and read-only for everybody else; a body holds plain values only, so any event can be written and read.
What they carry besides is in `casehub.envelope`, those of a loop control that awaits in `casehub.deliberations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from casehub.compensation_events import CompensationEnabled, CompensationEvent, CompensationStarted
from casehub.deliberations import (
    DeliberationCancelled,
    DeliberationEnded,
    DeliberationEvent,
    DeliberationFailed,
    DeliberationFinished,
    DeliberationStarted,
    DeliberationTimedOut,
    SelectionDropped,
    SelectionForced,
)
from casehub.envelope import EVENT_TYPES, ActivationId, CaseId, Envelope, Event, TimerId, UnknownEvent
from casehub.faults import (
    DeadLetterDiscarded,
    DeadLetterEvent,
    DeadLetterRetried,
    QuarantineEvent,
    WorkerQuarantined,
    WorkerReleased,
)
from casehub.lifecycle import CaseStatus
from casehub.milestones import (
    GoalReached,
    MilestoneActivated,
    MilestoneEvent,
    MilestoneReached,
    MilestoneSlaViolated,
    PostconditionFailed,
)
from casehub.timers import TimerCancelled, TimerEvent, TimerFired, TimerSet
from casehub.values import Plain

__all__ = [
    "EVENT_TYPES",
    "ActivationId",
    "BudgetExhausted",
    "CaseCancelled",
    "CaseCompensating",
    "CaseCompleted",
    "CaseEnded",
    "CaseFaulted",
    "CaseForked",
    "CaseId",
    "CaseStalled",
    "CaseStarted",
    "CaseStatusChanged",
    "CaseUnfaulted",
    "CompensationEnabled",
    "CompensationEvent",
    "CompensationStarted",
    "ContextChanged",
    "DeadLetterDiscarded",
    "DeadLetterEvent",
    "DeadLetterRetried",
    "DefinitionAdopted",
    "DeliberationCancelled",
    "DeliberationEnded",
    "DeliberationEvent",
    "DeliberationFailed",
    "DeliberationFinished",
    "DeliberationStarted",
    "DeliberationTimedOut",
    "Envelope",
    "Event",
    "GoalReached",
    "LimitReached",
    "MilestoneActivated",
    "MilestoneEvent",
    "MilestoneReached",
    "MilestoneSlaViolated",
    "PostconditionFailed",
    "QuarantineEvent",
    "SelectionDropped",
    "SelectionForced",
    "SignalReceived",
    "TimerCancelled",
    "TimerEvent",
    "TimerFired",
    "TimerId",
    "TimerSet",
    "UnknownEvent",
    "WorkerEvent",
    "WorkerExecutionCancelled",
    "WorkerExecutionCompleted",
    "WorkerExecutionDeclined",
    "WorkerExecutionExpired",
    "WorkerExecutionFailed",
    "WorkerExecutionFinished",
    "WorkerExecutionInterrupted",
    "WorkerExecutionRerouted",
    "WorkerExecutionStarted",
    "WorkerQuarantined",
    "WorkerReleased",
    "WorkerResultDropped",
    "WorkerScheduled",
]

# ---- the context


@dataclass(slots=True, kw_only=True)
class ContextChanged(Event):
    """One change of the context, whatever number of facts it touches.

    `facts`: the written ones, as plain values; `confidence`: 0 to 1, of those that have one; `deleted`, `hidden`,
    `shown`: names; `binding`: the one whose worker wrote them, if a worker did."""

    facts: Mapping[str, Plain]
    deleted: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    confidence: Mapping[str, float] | None = None
    binding: str = ""


@dataclass(slots=True, kw_only=True)
class SignalReceived(Event):
    """Something came from outside: the facts it brings follow as one `CONTEXT_CHANGED` in the same turn."""

    signals: tuple[str, ...]
    reason: str = ""


# ---- workers


@dataclass(slots=True, kw_only=True)
class WorkerEvent(Event):
    """Base: something about one activation of a binding."""

    binding: str
    activation: ActivationId
    worker: str


@dataclass(slots=True, kw_only=True)
class WorkerScheduled(WorkerEvent):
    """An activation was made. `stamps`: for each fact that the binding reads, the stamp it has now.

    `occurrence`: the version of the event, signal or timer that triggered it, 0 where none did; `due`: of a timer's, the
    time it was set for.
    """

    stamps: Mapping[str, int]
    occurrence: int = 0
    due: datetime | None = None


@dataclass(slots=True, kw_only=True)
class WorkerExecutionStarted(WorkerEvent):
    """An attempt begins; committed before the worker is called. Attempts count from 1."""

    attempt: int


@dataclass(slots=True, kw_only=True)
class WorkerExecutionFinished(WorkerEvent):
    """Base of every outcome of an attempt. `settled`: the activation ends with it, no further attempt follows.

    `then`: what the binding's policy makes of it (`retry`, `reroute`, `fault_item`, `fault_case`, `ignore`), empty
    where there is nothing to decide; `charges`: what `execution.charge(...)` counted, by unit.
    """

    attempt: int
    settled: bool = True
    then: str = ""
    charges: Mapping[str, float] | None = None


@dataclass(slots=True, kw_only=True)
class WorkerExecutionCompleted(WorkerExecutionFinished):
    """The worker returned; what it wrote follows as a `CONTEXT_CHANGED` unless nothing changed. `wrote`: names;
    `confidence`: the lowest that it gave, 0 to 1, None where it gave none."""

    wrote: tuple[str, ...] = ()
    confidence: float | None = None


@dataclass(slots=True, kw_only=True)
class WorkerExecutionFailed(WorkerExecutionFinished):
    """The worker raised. `error`: the exception's class name."""

    error: str
    message: str
    permanent: bool = False


@dataclass(slots=True, kw_only=True)
class WorkerExecutionDeclined(WorkerExecutionFinished):
    """The worker raised `Declined`: the activation is rejected, which is no failure."""

    reason: str


@dataclass(slots=True, kw_only=True)
class WorkerExecutionExpired(WorkerExecutionFinished):
    """The attempt passed its time limit and was cancelled. `limit`: seconds."""

    limit: float


@dataclass(slots=True, kw_only=True)
class WorkerExecutionCancelled(WorkerExecutionFinished):
    """The activation was called off; what the worker may still return is dropped."""

    reason: str


@dataclass(slots=True, kw_only=True)
class WorkerExecutionRerouted(WorkerExecutionFinished):
    """Somebody gave the activation to the worker `to`; what this one may still return is dropped."""

    to: str
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class WorkerExecutionInterrupted(WorkerExecutionFinished):
    """The process ended while the attempt ran; it runs again under the same idempotency key.

    `parked`: it waited for people, and their answer has come; `left`: the process was stopped in peace. Neither counts as
    a crash.
    """

    parked: bool = False
    left: bool = False


@dataclass(slots=True, kw_only=True)
class WorkerResultDropped(WorkerEvent):
    """A result that came too late to count: its attempt was no longer the current one."""

    attempt: int
    reason: str


# ---- the case


@dataclass(slots=True, kw_only=True)
class CaseStatusChanged(Event):
    """Base of every step in the life of a case; `before` and `after` are statuses."""

    before: CaseStatus
    after: CaseStatus
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class CaseStarted(CaseStatusChanged):
    """The first event of every case. `structure`: the hash of the definition's structure.

    `budget`: of a sub-case, what was left of its parent's budgets, by unit; `goal`: the goal or fact that it is for, empty where
    its definition says; `trace`: what it belongs to beyond this system (W3C Trace Context, `traceparent`), empty for nothing;
    `deadline`: of a sub-case, when its parent waits for it no longer (UTC), None where that is not said.
    """

    before: CaseStatus = CaseStatus.STARTING
    after: CaseStatus = CaseStatus.RUNNING
    structure: str = ""
    budget: Mapping[str, float] | None = None
    goal: str = ""
    trace: str = ""
    deadline: datetime | None = None


@dataclass(slots=True, kw_only=True)
class CaseCompensating(CaseStatusChanged):
    """The case undoes what it has done before it ends, with the status `end`; `reason` is why it ends."""

    after: CaseStatus = CaseStatus.COMPENSATING
    end: CaseStatus


@dataclass(slots=True, kw_only=True)
class CaseEnded(CaseStatusChanged):
    """Base of the three ends."""


@dataclass(slots=True, kw_only=True)
class CaseCompleted(CaseEnded):
    """The goals are reached, or the case is done by its own rule; `reason` says which."""

    after: CaseStatus = CaseStatus.COMPLETED


@dataclass(slots=True, kw_only=True)
class CaseFaulted(CaseEnded):
    """The case cannot go on; `reason` names the thing, the reason and the remedy."""

    after: CaseStatus = CaseStatus.FAULTED


@dataclass(slots=True, kw_only=True)
class CaseCancelled(CaseEnded):
    """Somebody ended the case."""

    after: CaseStatus = CaseStatus.CANCELLED


@dataclass(slots=True, kw_only=True)
class CaseUnfaulted(CaseStatusChanged):
    """Somebody took a fault back, and the case goes on. `goals`: those that are reached no more; what was undone before
    the case faulted counts as not done, and the facts that go with it are deleted next."""

    before: CaseStatus = CaseStatus.FAULTED
    after: CaseStatus = CaseStatus.RUNNING
    goals: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class CaseForked(CaseStatusChanged):
    """What stands before it is a copy of the log of case `source`, up to its event `source_version` at `source_seq`; what
    was in flight there begins anew. The fork is suspended until it is let go on."""

    before: CaseStatus = CaseStatus.RUNNING
    after: CaseStatus = CaseStatus.SUSPENDED
    source: str = ""
    source_version: int = 0
    source_seq: int = 0


@dataclass(slots=True, kw_only=True)
class CaseStalled(Event):
    """Nothing is running, nothing is eligible, nobody is expected, the goals are unmet; the status stays.

    `reasons`: a line for each binding or goal that is stuck, in words.
    """

    reasons: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class DefinitionAdopted(Event):
    """An open case goes on under another version of its definition. `structure`: the new hash."""

    structure: str


@dataclass(slots=True, kw_only=True)
class LimitReached(Event):
    """A limit of the definition holds something back from here on. `subject`: the binding, or `case`."""

    limit: str
    subject: str
    value: int


@dataclass(slots=True, kw_only=True)
class BudgetExhausted(Event):
    """A budget holds bindings back. `scope`: `case`, or the binding; `unit`: `calls`, `tokens` or `money`."""

    scope: str
    unit: str
    limit: float
