"""A case's plan as plain data: what a loop control that plans shows of its control blackboard, frozen.

Pages and commands show it, and a strategy reads it, so neither depends on how a loop control keeps its own state.
Choreography has no plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from casehub.lifecycle import ActivationStatus, MilestoneStatus
from casehub.values import Plain


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One activation of a binding as the plan sees it. `since`: the version of the event that put it on the agenda.

    `priority`: higher first; `detail`: the reason or message of its end, where there is one; `tasks`: how many human
    tasks it waits for: with one or more it is `DELEGATED`, and so is one that waits for sub-cases.
    """

    id: str
    binding: str
    priority: int = 0
    since: int = 0
    stage: str = ""
    status: ActivationStatus = ActivationStatus.PENDING
    detail: str = ""
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class StageView:
    """Where a stage stands, in the words of the loop control that works it. `parent`: the stage it lies in, if any.

    `enabled`: it is pending and waits for nothing but somebody who activates it (CMMN: Enabled).
    """

    status: str
    parent: str = ""
    enabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """One version of a plan. `agenda`: pending items, highest priority first, then oldest; `running`: with workers,
    `delegated`: with people; `ended`: oldest first.

    `because`: why the focus is where it is; `intended`: bindings that are meant to fire, in order, and have not; `notes`, `resources`: the strategy's own; `oscillating`: the bindings that
    fire in a cycle, if any do; `exhausted`: budgets that hold bindings back, such as `case.tokens`; `stalled`: the reasons
    of the stall that the last deliberation was about, if it was about one.
    """

    agenda: tuple[PlanItem, ...] = ()
    running: tuple[PlanItem, ...] = ()
    delegated: tuple[PlanItem, ...] = ()
    ended: tuple[PlanItem, ...] = ()
    stages: Mapping[str, StageView] = field(default_factory=dict[str, StageView])
    milestones: Mapping[str, MilestoneStatus] = field(default_factory=dict[str, MilestoneStatus])
    focus: str = ""
    because: str = ""
    notes: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    oscillating: tuple[str, ...] = ()
    exhausted: tuple[str, ...] = ()
    intended: tuple[str, ...] = ()
    stalled: tuple[str, ...] = ()
