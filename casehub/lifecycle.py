"""Life cycles: for each kind of thing one enumeration of its statuses and one table of the steps allowed.

Names of case statuses follow the CNCF Serverless Workflow specification, those of activations CMMN 1.1 plan items.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeVar

from casehub.errors import CaseEndedError, IllegalTransitionError


class CaseStatus(StrEnum):
    """Where a case stands. `WAITING`: only people, timers, children or signals can move it; `COMPENSATING`: it undoes what
    it has done, and ends then (BPMN 2.0.2: Compensating).

    `ended`: it moves no more, unless somebody lets a faulted one go on; `active`: bindings may fire; `working`: attempts
    may start.
    """

    ended: bool
    active: bool
    working: bool

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SUSPENDED = "SUSPENDED"
    COMPENSATING = "COMPENSATING"
    COMPLETED = "COMPLETED"
    FAULTED = "FAULTED"
    CANCELLED = "CANCELLED"

    def __init__(self, value: str) -> None:
        # Asked for several times a turn, so they are told once.
        self.ended = value in ("COMPLETED", "FAULTED", "CANCELLED")
        self.active = value in ("RUNNING", "WAITING")
        self.working = self.active or value == "COMPENSATING"


class ActivationStatus(StrEnum):
    """Where one activation of a binding stands (CMMN: a plan item's instance)."""

    PENDING = "PENDING"
    DISPATCHING = "DISPATCHING"
    RUNNING = "RUNNING"
    DELEGATED = "DELEGATED"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    FAULTED = "FAULTED"
    REJECTED = "REJECTED"
    CANCELLED = "CANCELLED"
    OBSOLETE = "OBSOLETE"


class MilestoneStatus(StrEnum):
    """A milestone becomes `ACTIVE` when its entry criterion holds and is `ACHIEVED` once, for good."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    ACHIEVED = "ACHIEVED"


class SlaStatus(StrEnum):
    """A milestone's service level, beside its status: `ACHIEVED` and `BREACHED` is late."""

    NOT_STARTED = "NOT_STARTED"
    ON_TRACK = "ON_TRACK"
    BREACHED = "BREACHED"


_ENDED = frozenset(status for status in CaseStatus if status.ended)

CASE_TRANSITIONS: Mapping[CaseStatus, frozenset[CaseStatus]] = {
    CaseStatus.STARTING: frozenset({CaseStatus.RUNNING, CaseStatus.FAULTED, CaseStatus.CANCELLED}),
    CaseStatus.RUNNING: frozenset({CaseStatus.WAITING, CaseStatus.SUSPENDED, CaseStatus.COMPENSATING, *_ENDED}),
    CaseStatus.WAITING: frozenset({CaseStatus.RUNNING, CaseStatus.SUSPENDED, CaseStatus.COMPENSATING, *_ENDED}),
    CaseStatus.SUSPENDED: frozenset(
        {CaseStatus.RUNNING, CaseStatus.COMPENSATING, CaseStatus.FAULTED, CaseStatus.CANCELLED}
    ),
    CaseStatus.COMPENSATING: frozenset({CaseStatus.SUSPENDED, CaseStatus.FAULTED, CaseStatus.CANCELLED}),
    CaseStatus.COMPLETED: frozenset(),
    CaseStatus.FAULTED: frozenset({CaseStatus.RUNNING}),  # by hand: `unfault`
    CaseStatus.CANCELLED: frozenset(),
}

_SETTLED = frozenset(
    {
        ActivationStatus.COMPLETED,
        ActivationStatus.FAULTED,
        ActivationStatus.REJECTED,
        ActivationStatus.CANCELLED,
        ActivationStatus.OBSOLETE,
    }
)
ACTIVATION_TRANSITIONS: Mapping[ActivationStatus, frozenset[ActivationStatus]] = {
    ActivationStatus.PENDING: frozenset({ActivationStatus.DISPATCHING, ActivationStatus.RUNNING, *_SETTLED}),
    ActivationStatus.DISPATCHING: frozenset({ActivationStatus.RUNNING, ActivationStatus.DELEGATED, *_SETTLED}),
    ActivationStatus.RUNNING: frozenset(
        {ActivationStatus.PENDING, ActivationStatus.DELEGATED, ActivationStatus.SUSPENDED, *_SETTLED}
    ),
    ActivationStatus.DELEGATED: frozenset({ActivationStatus.RUNNING, ActivationStatus.SUSPENDED, *_SETTLED}),
    ActivationStatus.SUSPENDED: frozenset({ActivationStatus.RUNNING, ActivationStatus.DELEGATED, *_SETTLED}),
    **{settled: frozenset[ActivationStatus]() for settled in _SETTLED},
}

MILESTONE_TRANSITIONS: Mapping[MilestoneStatus, frozenset[MilestoneStatus]] = {
    MilestoneStatus.PENDING: frozenset({MilestoneStatus.ACTIVE, MilestoneStatus.ACHIEVED}),
    MilestoneStatus.ACTIVE: frozenset({MilestoneStatus.ACHIEVED}),
    MilestoneStatus.ACHIEVED: frozenset(),
}

S = TypeVar("S", bound=StrEnum)


def allows(transitions: Mapping[S, frozenset[S]], before: S, after: S) -> bool:
    """Whether the table has the step."""
    return after in transitions[before]


def check_case(
    case: str, verb: str, before: CaseStatus, after: CaseStatus, among: Collection[CaseStatus] = tuple(CaseStatus)
) -> None:
    """Raise unless `verb`, which is for cases in a status `among` these, may take the case from `before` to `after`.

    Raises `CaseEndedError` in a terminal status, else `IllegalTransitionError` naming the statuses that allow it.
    """
    if before in among and allows(CASE_TRANSITIONS, before, after):
        return
    if before.ended:
        raise CaseEndedError(
            f"case {case!r} cannot {verb}: it is {before}, a terminal status; start a new case instead"
        )
    froms = " or ".join(status for status in among if allows(CASE_TRANSITIONS, status, after) and status != "STARTING")
    raise IllegalTransitionError(f"case {case!r} cannot {verb}: it is {before}, and only a case that is {froms} can")
