"""For tests of those who write strategies.

strategies   `StrategyContract`: what every planning strategy must keep to
"""

from __future__ import annotations

from blackboard_ext.testing.strategies import StrategyContract

__all__ = ["StrategyContract"]
