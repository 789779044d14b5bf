"""Whether a strategy decides a past case as its decisions were recorded: for tests of one that is changed.

case = await kit.start(claim, document="Ada met Grace")
await case.completed()
await assert_same_decisions(case, MyRewrittenStrategy())
"""

from __future__ import annotations

from typing import Protocol

from blackboard_ext.control import PlanningStrategyLoopControl
from blackboard_ext.spi import PlanningStrategy
from casehub.decision import DecisionReplay
from casehub.spi import LoopControl


class Decided(Protocol):
    """A case whose decisions can be put to another loop control: a handle of a hub or of a test kit."""

    async def replay_decisions(self, loop: LoopControl) -> DecisionReplay: ...


async def assert_same_decisions(case: Decided, strategy: PlanningStrategy) -> None:
    """Put each decision of a case to a strategy, as it was put to its own, and see that it chooses the same.

    The order of a choice counts, as does asking to be asked again; words do not. Raises `AssertionError` naming the first
    difference, and for a case that has no decision to compare.
    """
    replay = await case.replay_decisions(PlanningStrategyLoopControl(strategy))
    name = type(strategy).__name__
    if replay.difference is not None:
        raise AssertionError(f"{name} decides case {replay.case!r} otherwise; {replay.difference}")
    if not replay.compared:
        raise AssertionError(
            f"case {replay.case!r} has no decision that was answered, so {name} was not asked; "
            "let the case run under a planning strategy first"
        )
