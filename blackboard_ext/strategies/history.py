"""Strategies that ask the event log: what happened in this case and in past ones changes what is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_ext.plan import CasePlanModel
from casehub.binding import Binding
from casehub.durations import Duration
from casehub.events import WorkerExecutionFailed
from casehub.spi import Answer, CaseView


class LeastRecentlyFailed:
    """The binding that has failed least, over all cases of the definition, within a span of time.

    Of several, the first declared. `since`: how far back the log is asked.

    A binding that has never run has never failed, so new ones get their chance.
    """

    def __init__(self, since: Duration = "7d") -> None:
        self._since = since

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        failures = await case.log.count(WorkerExecutionFailed, by="binding", across="definition", since=self._since)
        best = min(eligible, key=lambda binding: failures.get(binding.name, 0), default=None)
        if best is None:
            return ()
        plan.focus("reliability", because=f"{best.name} failed {failures.get(best.name, 0)} times in {self._since}")
        return [best]
