"""What user code holds while the engine runs it: the view of its case, and the execution it is part of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from casehub.condition import truth
from casehub.context import CaseContext, Fact
from casehub.errors import SettingsError
from casehub.events import ActivationId, CaseId
from casehub.humantask import HumanTask
from casehub.inquiries import Inquiries
from casehub.lifecycle import CaseStatus, MilestoneStatus
from casehub.plan import PlanView
from casehub.query import CaseLog, EventLog
from casehub.sentry import HeldFacts, Sentry
from casehub.state import CaseState
from casehub.structure import Structure

T = TypeVar("T")


class CaseView:
    """A case from the inside, read-only and at one version: its facts, its status, its history.

    `structure` is what its definition comes to: bindings, goals, types; `goals` those that are reached; `purpose` the goal or
    fact that the case was started for, empty where its definition says; `trace` the `traceparent` that it belongs to, if any;
    `deadline` the time (UTC) when the parent of a sub-case waits for it no longer, if that is said.

    `now` is the time of the turn or deliberation it was made for (UTC), `in_flight` the bindings that workers or people
    are at work on, `milestones` where they stand, `upto` the position that the log answers as of, None for its end;
    `plan` is what a deliberation's loop control keeps of the case, at the same version; `inquiries` keeps what is asked
    of the log.
    """

    __slots__ = (
        "_facts",
        "_history",
        "_log",
        "_state",
        "deadline",
        "goals",
        "in_flight",
        "inquiries",
        "milestones",
        "now",
        "plan",
        "purpose",
        "status",
        "structure",
        "trace",
        "upto",
        "version",
    )

    def __init__(
        self,
        state: CaseState,
        facts: Mapping[str, Fact],
        structure: Structure,
        log: EventLog,
        now: datetime,
        upto: int | None = None,
        plan: PlanView | None = None,
    ) -> None:
        self._state = state
        self._facts = facts
        self.structure = structure
        self._history = log
        self._log: CaseLog | None = None
        self.upto = upto
        self.now = now
        self.status: CaseStatus = state.status
        self.version: int = state.version
        self.plan = plan
        self.inquiries: Inquiries | None = None
        self.milestones: Mapping[str, MilestoneStatus] = {
            name: milestone.status for name, milestone in state.milestones.items()
        }
        self.purpose: str = state.purpose
        self.trace: str = state.trace
        self.deadline: datetime | None = state.deadline
        self.goals: frozenset[str] = frozenset(state.goals)
        self.in_flight: tuple[str, ...] = tuple([activation.binding for activation in state.activations.values()])

    @property
    def id(self) -> CaseId:
        return self._state.id

    @property
    def definition(self) -> str:
        return self._state.definition

    @property
    def control(self) -> Any:
        """The loop control's own state as it is now, for a loop control that answers within the turn."""
        return self._state.control

    @property
    def context(self) -> CaseContext:
        """The facts."""
        return CaseContext(self._facts, self.structure.types, self.version, owner=self._state)

    def truth(self, condition: Sentry | str) -> bool | None:
        """Whether a condition of the definition, or a named one, holds at this version; None where that is unknown.

        What a function in it raises comes through. Raises `UnknownNameError` for a name that is none.
        """
        if isinstance(condition, str):
            condition = self.structure.condition(condition)
        return truth(condition, HeldFacts(self._facts, self.milestones, self._state))

    @property
    def log(self) -> CaseLog:
        """The history of this case and of others, as of the position that the view is fixed at."""
        if self._log is None:
            state = self._state
            self._log = CaseLog(
                self._history, state.id, state.definition, state.tenant, self.upto, self.now, self.inquiries
            )
        return self._log


@dataclass(slots=True)
class WorkerExecution:
    """One attempt of a worker, for the worker that asks for it by this type.

    `attempt` counts from 1; `idempotency_key` is the same for all attempts of an activation; `deadline` is a time of
    the monotonic clock, the earlier of its time limit's and of its case's as a sub-case, None without either; `due` the time of the occurrence of a schedule that it runs for;
    `undoes` the activation that it compensates, whose idempotency key that is.
    """

    activation: ActivationId
    binding: str
    attempt: int
    case: CaseView
    deadline: float | None = None
    due: datetime | None = None
    undoes: ActivationId | None = None
    charges: dict[str, float] = field(default_factory=dict[str, float])
    beat: Callable[[], None] = lambda: None
    asking: Callable[[HumanTask[Any] | type[Any], str], Awaitable[Any]] | None = None

    @property
    def idempotency_key(self) -> str:
        return self.activation

    @property
    def log(self) -> CaseLog:
        return self.case.log

    async def ask(self, form: type[T] | HumanTask[T], /, *, key: str = "") -> T:
        """Ask people for something in the middle of the work, and wait for as long as it takes; the time limit does not run.

        `key`: the question's name, its number by default. While the process lives the worker goes on where it is. If the
        answer comes to another process, the worker is run again from its top, and what was asked is answered at once: so
        what it does before is done again, and it has to ask for the same in the same order. Raises `Declined` when nobody
        will, `TimeoutError` past the deadline.
        """
        if self.asking is None:
            raise SettingsError("this execution cannot ask people: its worker is not run by a hub; run it in a CaseHub")
        answer: T = await self.asking(form, key)
        return answer

    def heartbeat(self) -> None:
        """Say that the work goes on: an attempt with a time limit gets its full time again from here."""
        self.beat()

    def charge(self, *, tokens: float = 0.0, money: float = 0.0) -> None:
        """Count what this attempt has spent against the budgets; it adds up. Raises `SettingsError` below zero."""
        for unit, amount in (("tokens", tokens), ("money", money)):
            if amount < 0:
                raise SettingsError(f"charge({unit}={amount}): spending cannot be negative")
            if amount:
                self.charges[unit] = self.charges.get(unit, 0.0) + amount
