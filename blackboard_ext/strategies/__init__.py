"""Ready strategies, each short enough to read as an example.

simple           everything eligible, one at a time, first ready, highest priority, cheapest first
budgeted         what a stated budget pays for
history          least recently failed, best observed outcome
bandit           Thompson sampling and UCB1, over the rivals of a group (rivals)
focus            focus of attention: weighted control sources (BB1)
volunteers       the best of the bids that were asked for
consensus        rounds, until somebody decides
language_model   a language model chooses; needs the extra `llm`, so it is imported from its own module
composed         fallback, within_stage, per_definition (answers: those of the strategies that are asked)
"""

from __future__ import annotations

from blackboard_ext.strategies.bandit import UCB1, ThompsonSampling
from blackboard_ext.strategies.budgeted import Budgeted
from blackboard_ext.strategies.composed import fallback, per_definition, within_stage
from blackboard_ext.strategies.consensus import RoundsToConsensus, Spaces
from blackboard_ext.strategies.focus import ControlSource, FocusOfAttention
from blackboard_ext.strategies.history import BestObservedOutcome, LeastRecentlyFailed
from blackboard_ext.strategies.simple import (
    CheapestFirst,
    EverythingEligible,
    FirstReady,
    HighestPriority,
    OneAtATime,
)
from blackboard_ext.strategies.volunteers import Volunteers

__all__ = [
    "UCB1",
    "BestObservedOutcome",
    "Budgeted",
    "CheapestFirst",
    "ControlSource",
    "EverythingEligible",
    "FirstReady",
    "FocusOfAttention",
    "HighestPriority",
    "LeastRecentlyFailed",
    "OneAtATime",
    "RoundsToConsensus",
    "Spaces",
    "ThompsonSampling",
    "Volunteers",
    "fallback",
    "per_definition",
    "within_stage",
]
