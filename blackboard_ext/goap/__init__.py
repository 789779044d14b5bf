"""Goal-oriented action planning: the cheapest order of actions that reaches a goal, found by what they need and bring.

`system` has the nouns, `planner` answers; `problem`, `hypergraph` and `search` are how; `utility` looks one step ahead. They know
nothing of cases. `domain` reads a definition as a planning system, and `strategy` works cases by their plans.
"""

from __future__ import annotations

from blackboard_ext.goap.planner import Determine, Planner
from blackboard_ext.goap.search import Bounds
from blackboard_ext.goap.strategy import GoapStrategy
from blackboard_ext.goap.system import (
    Action,
    Answer,
    GaveUp,
    Goal,
    Impossible,
    Missing,
    Needs,
    Plan,
    Undetermined,
    World,
)
from blackboard_ext.goap.utility import NIRVANA, best_step

__all__ = [
    "NIRVANA",
    "Action",
    "Answer",
    "Bounds",
    "Determine",
    "GaveUp",
    "Goal",
    "GoapStrategy",
    "Impossible",
    "Missing",
    "Needs",
    "Plan",
    "Planner",
    "Undetermined",
    "World",
    "best_step",
]
