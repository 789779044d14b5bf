"""Inputs: what is posted to a case. Everybody but the case's one writer posts; only the turn that takes an input writes.

An input carries the time it was posted at, which is the time of its turn, and optionally a key: an input whose key the
case has taken already is answered as the first was and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from casehub.events import ActivationId, CaseId, Event, TimerId
from casehub.humantask import HumanTask
from casehub.lifecycle import CaseStatus
from casehub.stage import StageVerb
from casehub.task_events import TaskId
from casehub.values import FactType, Plain

NEVER = datetime.min.replace(tzinfo=UTC)
"""The time of an input that has not been posted; posting it sets the clock's."""


@dataclass(slots=True, kw_only=True)
class Input:
    """Base. `by`: who, as `kind:name`; `at`: when it was posted (UTC); `key`: idempotency, empty for none; `post`: what it is
    called in the store's inbox, where another hub has put it there."""

    by: str = "user"
    at: datetime = NEVER
    key: str = ""
    post: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """A worker is left alone until `until` (UTC); None: until somebody says otherwise. By whom, and why."""

    until: datetime | None = None
    by: str = "engine"
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Start(Input):
    """Begin the case with these facts. `confidence`: 0 to 1, of those that have one.

    `quarantined`: workers that are, by name; `held`: why the case begins suspended, empty where it does not.
    `budget`: of a sub-case, what it may spend of what its parent has left, by unit; `goal`: the goal or fact that it is
    for, empty where its definition says; `trace`: a `traceparent`, empty for none; `deadline`: of a sub-case, when its
    parent waits for it no longer.
    """

    facts: Mapping[str, Plain]
    confidence: Mapping[str, float] = field(default_factory=dict[str, float])
    quarantined: Mapping[str, Hold] = field(default_factory=dict[str, Hold])
    held: str = ""
    budget: Mapping[str, float] | None = None
    goal: str = ""
    trace: str = ""
    deadline: datetime | None = None


@dataclass(slots=True, kw_only=True)
class Write(Input):
    """Change the context from outside. `signals`: the names of those it is, none for a change that is no signal.

    `absent_only`: write nothing where a fact is there already (get-or-put); `clear`: delete every fact that the
    definition does not protect, before the others are written. `notes`: events to record with it, before what follows;
    `confidence`: 0 to 1, of the facts that have one; `expected`: the version of the case as the writer saw it, refused where
    one of the facts is newer; None for whatever they are.
    """

    signals: tuple[str, ...] = ()
    facts: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    confidence: Mapping[str, float] = field(default_factory=dict[str, float])
    delete: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    clear: bool = False
    absent_only: bool = False
    expected: int | None = None
    reason: str = ""
    notes: Sequence[Event] = ()


@dataclass(slots=True, kw_only=True)
class Returned(Input):
    """An attempt came back. Exactly one of `value`, `error` and `expired` (seconds) says how.

    `value` is what the worker returned, not yet made plain: whether it fits is decided in the turn. `author`: who wrote
    it, empty for the worker. `held`: of a planned action, why it has to wait for people; empty where it need not. `secrets`: what an error must not say.
    """

    activation: ActivationId
    attempt: int
    value: object = None
    held: str = ""
    error: BaseException | None = None
    expired: float | None = None
    charges: Mapping[str, float] | None = None
    author: str = ""
    secrets: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Reported(Input):
    """Work that was done elsewhere, and its result: `value` is what the worker would have returned.

    Where the binding is eligible, an activation of it begins and ends in this turn, whatever a loop control or a limit
    says; where it is not, its facts are written all the same, as the worker's, and no activation is made. `notes`:
    events to record with it, before what follows.
    """

    binding: str
    worker: str
    value: object = None
    notes: Sequence[Event] = ()


@dataclass(slots=True, kw_only=True)
class TimerDue(Input):
    """A durable timer came due. `due`: the time it was set for, None for whatever it is set for now."""

    timer: TimerId
    due: datetime | None = None


@dataclass(slots=True, kw_only=True)
class Deliberated(Input):
    """A deliberation ended: with an answer, past its deadline (`timed_out`: seconds), or with an error."""

    number: int
    chosen: Sequence[str] = ()
    rationale: str = ""
    writes: Sequence[object] = ()
    stamps: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    as_of: int = 0
    seconds: float = 0.0
    queries: tuple[Mapping[str, Plain], ...] = ()
    queries_left_out: int = 0
    strict: bool = False
    defer_until: datetime | None = None
    defer_after: timedelta | None = None
    defer_on: str = ""
    timed_out: float | None = None
    error: BaseException | None = None


@dataclass(slots=True, kw_only=True)
class Suspend(Input):
    """Hold the case: what runs goes on and its results are taken, nothing new fires."""

    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Resume(Input):
    """Let a suspended case go on."""

    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Unfault(Input):
    """Let a faulted case go on. `facts`: brought with it; `retry`: what faulted the case runs again."""

    facts: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    retry: bool = True
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class RetryLetter(Input):
    """Let the binding of a dead letter fire again; `facts`: those that it reads, edited."""

    activation: ActivationId
    facts: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Reroute(Input):
    """Give what a binding has in flight, or its dead letter, to the worker `to`."""

    binding: str
    to: str
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class DiscardLetter(Input):
    """Settle the failure of a dead letter: nobody will try again."""

    activation: ActivationId
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class HoldWorkers(Input):
    """Workers are quarantined, by name: they keep failing, in this case or others, or somebody has suspended them."""

    workers: Mapping[str, Hold]
    by: str = "engine"


@dataclass(slots=True, kw_only=True)
class ReleaseWorker(Input):
    """End the quarantine of a worker before its time."""

    worker: str
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Cancel(Input):
    """End the case; what runs is called off, and what has been done is undone where the definition says how.

    `kill`: nothing is undone; `held`: why nothing may start meanwhile, empty where it may.
    """

    reason: str = ""
    kill: bool = False
    held: str = ""


@dataclass(slots=True, kw_only=True)
class Compensate(Input):
    """Undo one completed activation while the case goes on. `what`: its id, or a binding for its last one."""

    what: str
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class SteerStage(Input):
    """Do something to one stage. What comes of it is the loop control's to say."""

    stage: str
    verb: StageVerb
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Recover(Input):
    """The case has been loaded by a process that does not run what its log says is running: run it again.

    `activation`: only this one, which waited for an answer that has come; no process has lost it.
    """

    activation: ActivationId | None = None
    by: str = "engine"


@dataclass(slots=True, kw_only=True)
class Leave(Input):
    """The hub is about to be left in peace: what still runs is called off, and is no crash."""

    by: str = "engine"


@dataclass(slots=True, kw_only=True)
class Diverge(Input):
    """A copy of the case `source`, as it was at the position `source_seq`, goes its own way, with these facts.

    `since`: the time that it is as of; spans that were under way then go on from there.
    """

    source: str
    source_seq: int
    since: datetime
    facts: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Adopt(Input):
    """Go on under the structure that this process has."""

    by: str = "engine"


@dataclass(slots=True, kw_only=True)
class ChildEnded(Input):
    """A sub-case has ended. `facts`: its visible ones; `charges`: what it has spent, by unit."""

    child: CaseId
    status: CaseStatus
    facts: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    reason: str = ""
    charges: Mapping[str, float] | None = None


# ---- people


@dataclass(slots=True, kw_only=True)
class Ask(Input):
    """A worker that runs asks people. `form`: the JSON Schema of the answer."""

    task: TaskId
    activation: ActivationId
    attempt: int
    asked: HumanTask[Any]
    form: Mapping[str, Plain]
    by: str = "engine"


@dataclass(slots=True, kw_only=True)
class TaskInput(Input):
    """Base of what people do about a human task. `groups`: those they are in; None where the caller vouches for them."""

    task: TaskId
    groups: tuple[str, ...] | None = None


@dataclass(slots=True, kw_only=True)
class Claim(TaskInput):
    """Take it."""


@dataclass(slots=True, kw_only=True)
class Release(TaskInput):
    """Give it back."""


@dataclass(slots=True, kw_only=True)
class Assign(TaskInput):
    """Give it to somebody, whoever has it now."""

    to: str


@dataclass(slots=True, kw_only=True)
class Delegate(TaskInput):
    """Pass it on to somebody else."""

    to: str


@dataclass(slots=True, kw_only=True)
class Complete(TaskInput):
    """Answer it. `value`: of the form's type, or what it is made of; whether it fits is decided in the turn.

    `form`: of a question that a worker of this process asks.
    """

    value: object
    form: FactType | None = None


@dataclass(slots=True, kw_only=True)
class Decline(TaskInput):
    """Refuse to do it."""

    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Comment(TaskInput):
    """Write something beside it."""

    text: str


OWN = (Returned, Deliberated, TimerDue, Recover, Leave, Adopt, ChildEnded)
"""The inputs that a case has led to itself: nobody would hear of it if one were refused."""
PUT_OFF = (TimerDue, Recover, Adopt)
"""Those of them that are taken again later where the store will not write their turn: without them a case stands still."""
