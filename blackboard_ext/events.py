"""Events of orchestration: stages, plan items, and what a strategy writes on the control blackboard.

They are in the log and on the bus beside the engine's own, and in one topic tree with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from casehub.envelope import ActivationId, Event
from casehub.values import Plain

# ---- stages


@dataclass(slots=True, kw_only=True)
class StageEvent(Event):
    """Base: a step in the life of a stage. `reason`: which criterion or who, in words."""

    stage: str
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class StageActivated(StageEvent):
    """Its entry criterion holds and its parent is active, or somebody activated it: its bindings may fire."""


@dataclass(slots=True, kw_only=True)
class StageSuspended(StageEvent):
    """Somebody holds it: what runs in it goes on, nothing new fires in it or in the stages within, it does not complete."""


@dataclass(slots=True, kw_only=True)
class StageResumed(StageEvent):
    """Somebody lets it go on: it is active again."""


@dataclass(slots=True, kw_only=True)
class StageCompleted(StageEvent):
    """Everything that it requires has settled, or somebody completed it: what still ran in it then is called off."""


@dataclass(slots=True, kw_only=True)
class StageTerminated(StageEvent):
    """Its exit criterion holds, its parent ended, or somebody ended it: what ran in it is called off."""


@dataclass(slots=True, kw_only=True)
class StageFaulted(StageEvent):
    """A required item faulted and the stage is declared to fault with it, or somebody faulted it."""


# ---- plan items


@dataclass(slots=True, kw_only=True)
class PlanItemEvent(Event):
    """Base: something about one plan item, which is one activation of a binding as the plan sees it."""

    binding: str
    item: ActivationId


@dataclass(slots=True, kw_only=True)
class PlanItemAdded(PlanItemEvent):
    """A binding has become eligible: its next activation is on the agenda. `priority`: higher first."""

    priority: int = 0
    stage: str = ""


@dataclass(slots=True, kw_only=True)
class PlanItemPrioritised(PlanItemEvent):
    """The strategy gave a pending item another priority."""

    priority: int


@dataclass(slots=True, kw_only=True)
class PlanItemStarted(PlanItemEvent):
    """It was chosen and runs."""


@dataclass(slots=True, kw_only=True)
class PlanItemEnded(PlanItemEvent):
    """Base of how an item ends. `detail`: the reason or message, where there is one."""

    detail: str = ""


@dataclass(slots=True, kw_only=True)
class PlanItemCompleted(PlanItemEnded):
    """Its worker returned, or its outcome is ignored by policy."""


@dataclass(slots=True, kw_only=True)
class PlanItemFaulted(PlanItemEnded):
    """Its worker failed or ran out of time, and no attempt is left."""


@dataclass(slots=True, kw_only=True)
class PlanItemRejected(PlanItemEnded):
    """Its worker declined, which is no fault."""


@dataclass(slots=True, kw_only=True)
class PlanItemCancelled(PlanItemEnded):
    """It was called off while it ran."""


@dataclass(slots=True, kw_only=True)
class PlanItemObsolete(PlanItemEnded):
    """Its binding is eligible no more: it leaves the agenda without having run; or it ran while nobody kept the plan."""


# ---- what a strategy writes


@dataclass(slots=True, kw_only=True)
class PlanRevised(Event):
    """Base of what a strategy writes on the control blackboard with its answer."""


@dataclass(slots=True, kw_only=True)
class FocusChanged(PlanRevised):
    """What the strategy attends to (BB1: focus of attention), and why, in its words."""

    focus: str
    because: str = ""


@dataclass(slots=True, kw_only=True)
class NoteWritten(PlanRevised):
    """A note of the strategy's own; None takes it away."""

    key: str
    value: Plain


@dataclass(slots=True, kw_only=True)
class ResourceBudgeted(PlanRevised):
    """What the strategy sets aside of a resource, in the resource's own unit."""

    resource: str
    amount: float


@dataclass(slots=True, kw_only=True)
class PlanFormulated(PlanRevised):
    """What is meant to fire, in order, and to what end. `before`: what still was to fire of the plan that it replaces.

    `cost`: of the steps, in the unit that bindings have theirs in; `because`: why there is another plan, in words.
    """

    goal: str
    steps: tuple[str, ...]
    cost: float = 0.0
    before: tuple[str, ...] = ()
    because: str = ""


@dataclass(slots=True, kw_only=True)
class OscillationDetected(Event):
    """The same bindings have fired in the same cycle several times over. `cycle`: their names, in order."""

    cycle: tuple[str, ...]
    rounds: int
