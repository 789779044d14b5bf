"""Ready strategies, each short enough to read as an example."""

from __future__ import annotations

from blackboard_ext.strategies.history import LeastRecentlyFailed
from blackboard_ext.strategies.simple import CheapestFirst, EverythingEligible, HighestPriority, OneAtATime

__all__ = ["CheapestFirst", "EverythingEligible", "HighestPriority", "LeastRecentlyFailed", "OneAtATime"]
