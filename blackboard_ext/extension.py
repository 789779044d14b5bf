"""What the engine's commands use of this extension. They find it by entry point, and see data alone.

`casehub.extensions` names the module with its event classes, `casehub.planning` the function below: what folds a log to
the plan that `casehub case plan` shows, and what asks the strategy of `casehub replay`. Nothing in `casehub` imports this
package, and an extension that is put in its place needs these two names and no more:

    [project.entry-points."casehub.extensions"]
    mine = "mine.events"

    [project.entry-points."casehub.planning"]
    mine = "mine.extension:loop_control"
"""

from __future__ import annotations

from typing import Any

from blackboard_ext.control import PlanningStrategyLoopControl
from blackboard_ext.strategies import EverythingEligible


def loop_control(strategy: Any = None) -> PlanningStrategyLoopControl:
    """The loop control that asks a strategy, and whose `view` shows the plan that a log comes to.

    Without a strategy it chooses all that is eligible, which is enough for looking. Raises `SettingsError` for what is no
    strategy.
    """
    if strategy is None:
        # To fold a log and to look at a plan asks nobody.
        return PlanningStrategyLoopControl(EverythingEligible())
    return PlanningStrategyLoopControl(strategy)
