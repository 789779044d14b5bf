"""For tests: a kit for definitions, and contract suites for those who implement a contract.

kit        `CaseTestKit`: a hub in memory on a virtual clock, with scripted workers
loops      `LoopControlContract`: what every loop control must keep to
stores     `StoreContract`: what every store must keep to (in a module of its own, as it needs pytest)
buses      `BusContract`: the same for buses
"""

from __future__ import annotations

from casehub.adapters.clock import VirtualClock
from casehub.stepping import Step
from casehub.testing.kit import CaseTestKit
from casehub.testing.loops import LoopControlContract
from casehub.testing.scripts import repeat

__all__ = ["CaseTestKit", "LoopControlContract", "Step", "VirtualClock", "repeat"]
