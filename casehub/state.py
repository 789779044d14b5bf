"""The state of a case: what its events fold to (`casehub.folding`), and what can be asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from casehub.activation import Activation, Firing, MilestoneState
from casehub.compensation import Compensations
from casehub.context import Fact
from casehub.events import (
    ActivationId,
    CaseId,
    TimerId,
)
from casehub.lifecycle import ActivationStatus, CaseStatus
from casehub.spending import Spending
from casehub.subcases import Children
from casehub.tasks import Tasks


@dataclass(slots=True)
class CaseState:
    """Everything a case is, between two events. `control`: the loop control's own part, kept apart from the facts.

    `anchors`, `occurred`: of the timer of a schedule, where it counts from, and its last occurrence; `quarantined`: workers,
    and until when; None for one that is suspended by hand. `purpose`: the goal or fact that it was started for, empty where its
    definition says; `trace`: the `traceparent` that it belongs to, if any; `deadline`: of a sub-case, when its parent waits for it no
    longer. `put_away`: the timers when the case ended.
    """

    id: CaseId
    definition: str = ""
    tenant: str = "default"
    structure: str = ""
    purpose: str = ""
    trace: str = ""
    deadline: datetime | None = None
    status: CaseStatus = CaseStatus.STARTING
    reason: str = ""
    ended_by: str = ""
    version: int = 0
    turn: int = 0
    started_at: datetime | None = None
    changed_at: datetime | None = None
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    activations: dict[ActivationId, Activation] = field(default_factory=dict[ActivationId, Activation])
    firings: dict[str, Firing] = field(default_factory=dict[str, Firing])
    fired: int = 0
    milestones: dict[str, MilestoneState] = field(default_factory=dict[str, MilestoneState])
    goals: dict[str, int] = field(default_factory=dict[str, int])
    timers: dict[TimerId, datetime] = field(default_factory=dict[TimerId, datetime])
    put_away: dict[TimerId, datetime] = field(default_factory=dict[TimerId, datetime])
    tasks: Tasks = field(default_factory=Tasks)
    children: Children = field(default_factory=Children)
    compensations: Compensations = field(default_factory=Compensations)
    anchors: dict[TimerId, datetime] = field(default_factory=dict[TimerId, datetime])
    occurred: dict[TimerId, datetime] = field(default_factory=dict[TimerId, datetime])
    occurrences: dict[str, int] = field(default_factory=dict[str, int])
    quarantined: dict[str, datetime | None] = field(default_factory=dict[str, datetime | None])
    stalled: tuple[str, ...] = ()
    held: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    spending: Spending = field(default_factory=Spending)
    deliberation: int = 0
    deliberating: bool = False
    failed_deliberations: int = 0
    control: Any = None

    @property
    def at_work(self) -> bool:
        """Whether an activation is in flight that is with neither people nor sub-cases."""
        if not (self.tasks.open or self.children.known):
            return bool(self.activations)
        return bool(self.with_workers())

    def with_workers(self) -> set[ActivationId]:
        """The activations in flight that are with neither people nor sub-cases."""
        return {each.id for each in self.activations.values() if each.status is not ActivationStatus.DELEGATED}

    def deadline_of(self, activation: Activation, own: datetime | None = None) -> datetime | None:
        """The earlier of its own deadline and that of the case, which does not bind what undoes: that comes after it."""
        if self.deadline is None or activation.undoes is not None:
            return own
        return self.deadline if own is None else min(own, self.deadline)

    def stamp(self, fact: str) -> int:
        """The stamp of a fact; 0 for one that never was."""
        found = self.facts.get(fact)
        return 0 if found is None else found.stamp

    def firing(self, binding: str) -> Firing:
        """What is remembered of a binding, made when it is not there yet."""
        found = self.firings.get(binding)
        if found is None:
            found = self.firings[binding] = Firing()
        return found

    def milestone(self, name: str) -> MilestoneState:
        """Where a milestone stands; a new one where the log does not mention it."""
        return self.milestones.get(name) or MilestoneState()
