"""What an author of strategies implements.

class OneAtATime:
    async def select(self, plan, case, eligible):
        return eligible[:1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from blackboard_ext.plan import CasePlanModel
from casehub.binding import Binding
from casehub.spi import Answer, CaseView


class PlanningStrategy(Protocol):
    """Decides which of the eligible bindings fire. One awaited method; it may query the log, ask a model, call a service.

    It sees one version of the case and of the plan, however long it takes; what it writes on the plan becomes events
    with its answer. It answers with some of `eligible`, each at most once; with a `Selection` to give its reasons, or
    with `Defer` to be asked again. It holds no state of a case: that is what the plan's notes are for.

    What it raises, an answer outside of `eligible` and no answer in time fire nothing; it is asked again, and after three
    failures in a row the case stalls and says so.

    Suspending the case cancels a `select` under way; resuming it starts another one.
    """

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer: ...


@runtime_checkable
class HearsStalls(Protocol):
    """A strategy that is handed a stall before it is one."""

    async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        """What to do about a case that nothing can move; `plan.stalled` has the reasons, `eligible` may be empty.

        It answers as `select` does: it may choose what it had left alone, write on the plan, or `Defer`. Asked once a
        stall: when its answer does not get the case moving, the case stalls.
        """
        ...
