"""Every contract of the engine on one screen: who implements one plugs in there.

`casehub.testing` has a suite of tests for stores and for loop controls; an implementation is right when it passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from casehub.binding import Binding
from casehub.durations import Duration
from casehub.events import CaseId, Envelope, Event, TimerId
from casehub.inputs import SteerStage
from casehub.lifecycle import CaseStatus
from casehub.plain import Plain
from casehub.plan import PlanView
from casehub.query import CaseSummary, EventLog
from casehub.snapshot import SavesTogether as SavesTogether  # noqa: PLC0414 - contracts, beside what is kept
from casehub.snapshot import SnapshotStore as SnapshotStore  # noqa: PLC0414
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.task_events import TaskId
from casehub.tasks import Task
from casehub.view import CaseView as CaseView  # noqa: PLC0414 - extensions see the nouns and this module

# ---- the store


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write a case: of the hub whose start is called `hub`, the `epoch`-th that anybody has had."""

    hub: str
    epoch: int = 0


@dataclass(slots=True)
class Turn:
    """One input and everything that followed from it: what is committed, whole or not at all.

    The store gives `envelope.seq`. `status`: the case's after the turn; `key`: the input's, if it has one;
    `timers`: set (a time) and gone (None), all of them with the end of the case; `stalled`: whether nothing can move
    the case after it; `tasks`: the human tasks that something happened to, as it left them; `claim`: by what right it is
    written, in a `SharedStore`, None for the store's own hub; `post`: what of the store's inbox it answers. A turn without
    events leaves its key, its timers and its answer only.
    """

    envelope: Envelope
    events: list[Event] = field(default_factory=list[Event])
    status: CaseStatus = CaseStatus.STARTING
    stalled: bool = False
    key: str = ""
    timers: dict[TimerId, datetime | None] = field(default_factory=dict[TimerId, datetime | None])
    tasks: dict[TaskId, Task] = field(default_factory=dict[TaskId, Task])
    claim: Claim | None = None
    post: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """The turn is in the log; its first event is at `seq`."""

    seq: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """An earlier turn consumed an input with the same key; it is at `seq`. Nothing was written."""

    seq: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """The case's log does not end where the turn begins: somebody else wrote. Nothing was written."""

    version: int


@dataclass(frozen=True, slots=True)
class TooLarge:
    """An event of the turn is larger than the store takes. Nothing was written."""

    event: str
    size: int
    limit: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An event of the turn holds a value that the store cannot write; `reason` is for people. Nothing was written."""

    event: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """The case, or the hub itself, is not the writer's any more: `owner` has it, as far as is known. Nothing was written."""

    owner: str = ""


CommitResult = Committed | Duplicate | Conflict | TooLarge | Refused | Fenced


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A timer of a case that has come due."""

    tenant: str
    case: CaseId
    timer: TimerId
    due: datetime


class CaseStore(Protocol):
    """Keeps the log and what is derived from it in the same transaction.

    Durability: `commit` answers when the turns would survive what `describe` promises. Positions are dense and given
    in commit order, and `published` (given to `open`) is called on the event loop's thread with the committed turns in
    that order, before `commit` answers.
    """

    @property
    def log(self) -> EventLog: ...

    def describe(self) -> str:
        """What it is and what it survives, in one line for people."""
        ...

    async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
        """Raises `StoreOwnedError` when another process owns it, `SchemaError` for a schema it cannot work with."""
        ...

    async def close(self) -> None: ...

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        """Each turn whole or not at all, one result a turn; a bad turn fails no other, but the later ones of its case.

        A key that was consumed is a `Duplicate` whatever the turn's version, so a turn may be sent again.
        Raises `StoreUnavailableError` when the outcome is unknown: look the case up with `load` before going on.
        """
        ...

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        """The whole log of a case, in order; empty for one that was never started."""
        ...

    async def outcome(self, case: CaseId, key: str, tenant: str = "default") -> int | None:
        """The position of the turn that consumed an input with this key, if one did."""
        ...

    async def active(self) -> Sequence[tuple[str, CaseId]]:
        """Tenant and id of the cases that were being worked: `STARTING`, `RUNNING` or `COMPENSATING`, oldest first."""
        ...

    async def due(self, now: datetime, limit: int = 100) -> Sequence[DueTimer]:
        """Timers that have come due, the longest overdue first."""
        ...

    async def next_due(self, after: datetime | None = None) -> datetime | None:
        """When the next timer comes due, over all cases; with `after`, the next one later than that."""
        ...

    async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
        """The position of a durable subscriber, 0 for a new one; with `seq` it is stored first."""
        ...


@dataclass(frozen=True, slots=True)
class Retired:
    """What a store has let go of, all in all; `ran_at`: when retention last ran, None before the first time."""

    cases: int = 0
    events: int = 0
    ran_at: datetime | None = None


@runtime_checkable
class RetiresCases(Protocol):
    """A store that can let go of cases that have ended. What it keeps, and where positions stand, is not touched."""

    async def expired(
        self, before: datetime, tenant: str = "default", limit: int = 100
    ) -> Sequence[Sequence[CaseSummary]]:
        """Cases with all their sub-cases, the case itself last, all of which ended before a time; oldest first."""
        ...

    async def weigh(self, cases: Sequence[CaseSummary]) -> tuple[int, int]:
        """Rows that the store has of these cases, and bytes in the bodies of their events."""
        ...

    async def retire(self, cases: Sequence[CaseSummary]) -> Sequence[CaseId]:
        """Let go of these cases in one transaction; which of them are gone for whoever asks.

        One that is not as it is given here stays. `sweep` deletes the rows of their events.
        """
        ...

    async def sweep(self, rows: int) -> int:
        """Delete up to so many rows of retired cases in one transaction; how many it were, 0 when none is left."""
        ...

    async def retired(self, tenant: str = "default", ran_at: datetime | None = None) -> Retired:
        """What has been retired; with `ran_at`, when retention ran is stored first."""
        ...


@runtime_checkable
class ListsInputs(Protocol):
    """A store that says which inputs a case has taken, so that they come along where the case is copied."""

    async def inputs(self, case: CaseId, tenant: str = "default") -> Mapping[str, int]:
        """Their keys, with the positions of the turns that consumed them."""
        ...


@runtime_checkable
class Volatile(Protocol):
    """A store that keeps nothing when the hub is left: leaving it with open cases warns."""

    volatile: Literal[True]


# ---- what runs next


@dataclass(frozen=True, slots=True)
class Defer:
    """Ask again: after a span, at a time, or when an event of a class has happened. Durable."""

    after: Duration | None = None
    until: datetime | None = None
    on: type[Event] | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """An answer with its reasons. `writes`: events of the loop control's own for the log; `strict`: all or nothing."""

    chosen: Sequence[Binding] = ()
    rationale: str = ""
    writes: Sequence[Event] = ()
    defer: Defer | None = None
    strict: bool = False


Answer = Sequence[Binding] | Selection | Defer


class LoopControl(Protocol):
    """The control shell: decides what runs next. Holds nothing a case; control state is `state.control`.

    `immediate`: `select` never suspends, so its answer is part of the turn. `handles`: the event classes that `apply`
    and `react` want to see (exact classes; list subclasses). `deadline`: how long a `select` may take.
    """

    @property
    def immediate(self) -> bool: ...

    @property
    def handles(self) -> frozenset[type[Event]]: ...

    @property
    def deadline(self) -> Duration: ...

    def initial(self) -> Any:
        """The control state of a new case; None for none."""
        ...

    def apply(self, control: Any, event: Event) -> Any:
        """The control state after an event. Total: no user code, no look-ups in the definition."""
        ...

    def react(self, state: CaseState, event: Event) -> Iterable[Event]:
        """The events of its own that follow from one, live only."""
        ...

    def settle(self, state: CaseState) -> Iterable[Event]:
        """One round of transitions of its own that follow from the state; asked again until nothing follows."""
        ...

    def gate(self, state: CaseState, binding: Binding) -> str | None:
        """Why this binding may not fire now, in words; None when it may."""
        ...

    def view(self, state: CaseState) -> PlanView | None:
        """Its plan for this case as plain data that shares nothing with the state; None when it keeps none."""
        ...

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        """Which of the eligible bindings fire now, in order of declaration as given; never others, each once."""
        ...


@runtime_checkable
class WorksStages(Protocol):
    """A loop control that works the stages of a definition; without one a definition with stages is an error.

    `stage_events`: the classes of the events that say what becomes of a stage; one that awaits is asked again on them.
    """

    @property
    def stage_events(self) -> frozenset[type[Event]]: ...

    def over(self, structure: Structure) -> LoopControl:
        """The same loop control for the cases of one definition."""
        ...

    def inactive(self, state: CaseState, binding: Binding) -> str | None:
        """Why the stages that a binding lies in hold it back, in words; None when they do not."""
        ...

    def awaited(self, state: CaseState) -> Sequence[str]:
        """The stages that stay as they are until somebody acts on them: to be activated by hand, or suspended."""
        ...

    def direct(self, state: CaseState, input: SteerStage) -> Iterable[Event]:
        """The events that somebody's verb comes to.

        Raises `InputRefusedError` for a stage that is none, `IllegalTransitionError` where the life cycle forbids it.
        """
        ...


@runtime_checkable
class HearsStalls(Protocol):
    """A loop control that awaits and that, where `hears_stalls` is true, is asked once more before its case stalls.

    What is eligible may then be empty; the reasons are `stalled` of the deliberation's `DELIBERATION_STARTED`, for its
    `apply` to keep. When its answer does not get the case moving, the case stalls.
    """

    @property
    def hears_stalls(self) -> bool: ...


@runtime_checkable
class KeepsAgenda(Protocol):
    """A loop control that awaits and keeps an agenda of its own."""

    def withdraw(self, state: CaseState, eligible: Sequence[Binding]) -> Iterable[Event]:
        """The events of what leaves its agenda, now that this is eligible; asked in every turn, and at the case's end."""
        ...


@runtime_checkable
class KeepsControl(Protocol):
    """A loop control whose control state can be kept in a snapshot: cases of another that has one are always folded.

    `control_form`: what `dump_control` gives and what `apply` makes of events, in a few words; it changes with either.
    """

    @property
    def control_form(self) -> str: ...

    def dump_control(self, control: Any) -> Plain:
        """The control state as plain data, which may share parts with it. Raises `FactError` for what is none of its own."""
        ...

    def load_control(self, data: Any) -> Any:
        """The control state that was dumped. Runs nothing that the data names. Raises `FactError` for anything else."""
        ...


# ---- time and execution


class Clock(Protocol):
    """Two times: `now` says what time it is (UTC), `monotonic` measures spans in seconds and never steps."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep_until(self, monotonic: float) -> None: ...


class Executor(Protocol):
    """Runs one attempt of a worker's function where that is right for it, and returns or raises what it does.

    `began`: to be called, on the event loop, when a sync function begins; its time limit counts from then.
    """

    async def run(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        is_async: bool,
        began: Callable[[], None] | None = None,
    ) -> Any: ...
