"""For tests of those who write strategies.

strategies   `StrategyContract`: what every planning strategy must keep to
decisions    `assert_same_decisions`: a changed strategy decides a past case as the old one did
"""

from __future__ import annotations

from blackboard_ext.testing.decisions import assert_same_decisions
from blackboard_ext.testing.strategies import StrategyContract

__all__ = ["StrategyContract", "assert_same_decisions"]
