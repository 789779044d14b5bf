"""Orchestration, the opt-in: a control blackboard, stages, and strategies that await.

    plan         the control blackboard as a strategy holds it: agenda, focus, notes, stages
    plan_state   the control blackboard as the log folds to it
    stages       how stages are entered, completed and left
    steering     what people do to a stage
    control      the loop control that asks a strategy
    oscillation  bindings that fire in the same cycle, over and over
    spi          what an author of strategies implements
    events       what orchestration adds to the log
    extension    what the commands of `casehub` find of it, by entry point
    strategies/  ready ones
    goap/        plans: the cheapest way to the goal

`CaseHub(claim, loop=PlanningStrategyLoopControl(strategy))` turns it on; no line of the definition changes.
"""

from __future__ import annotations

from blackboard_ext.control import PlanningStrategyLoopControl
from blackboard_ext.events import (
    FocusChanged,
    NoteWritten,
    OscillationDetected,
    PlanFormulated,
    PlanItemAdded,
    PlanItemCancelled,
    PlanItemCompleted,
    PlanItemEnded,
    PlanItemEvent,
    PlanItemFaulted,
    PlanItemObsolete,
    PlanItemPrioritised,
    PlanItemRejected,
    PlanItemStarted,
    PlanRevised,
    ResourceBudgeted,
    StageActivated,
    StageCompleted,
    StageEvent,
    StageFaulted,
    StageResumed,
    StageSuspended,
    StageTerminated,
)
from blackboard_ext.plan import CasePlanModel
from blackboard_ext.plan_state import StageStatus
from blackboard_ext.spi import HearsStalls, PlanningStrategy
from casehub.plan import PlanItem

__all__ = [
    "CasePlanModel",
    "FocusChanged",
    "HearsStalls",
    "NoteWritten",
    "OscillationDetected",
    "PlanFormulated",
    "PlanItem",
    "PlanItemAdded",
    "PlanItemCancelled",
    "PlanItemCompleted",
    "PlanItemEnded",
    "PlanItemEvent",
    "PlanItemFaulted",
    "PlanItemObsolete",
    "PlanItemPrioritised",
    "PlanItemRejected",
    "PlanItemStarted",
    "PlanRevised",
    "PlanningStrategy",
    "PlanningStrategyLoopControl",
    "ResourceBudgeted",
    "StageActivated",
    "StageCompleted",
    "StageEvent",
    "StageFaulted",
    "StageResumed",
    "StageStatus",
    "StageSuspended",
    "StageTerminated",
]
