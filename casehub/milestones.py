"""Events of milestones, goals and postconditions: what a case has come to on its way, and what it has not."""

from __future__ import annotations

from dataclasses import dataclass

from casehub.envelope import ActivationId, Event


@dataclass(slots=True, kw_only=True)
class MilestoneEvent(Event):
    """Base: something about one milestone."""

    milestone: str


@dataclass(slots=True, kw_only=True)
class MilestoneActivated(MilestoneEvent):
    """Its entry criterion holds; its service level, if any, is on track from here."""


@dataclass(slots=True, kw_only=True)
class MilestoneReached(MilestoneEvent):
    """Achieved, once and for good. `late`: after its service level was breached."""

    late: bool = False


@dataclass(slots=True, kw_only=True)
class MilestoneSlaViolated(MilestoneEvent):
    """Not reached within its service level."""


@dataclass(slots=True, kw_only=True)
class GoalReached(Event):
    """A goal's criterion holds for the first time."""

    goal: str


@dataclass(slots=True, kw_only=True)
class PostconditionFailed(Event):
    """A worker has completed, and a condition that it brings does not hold, or cannot be known."""

    binding: str
    activation: ActivationId
    condition: str
