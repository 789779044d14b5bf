"""Strategies that ask the event log: what happened in this case and in past ones changes what is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blackboard_ext.plan import CasePlanModel
from blackboard_ext.strategies.rivals import best_rivals
from casehub.binding import Binding
from casehub.durations import Duration
from casehub.errors import SettingsError
from casehub.events import (
    WorkerExecutionCompleted,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
)
from casehub.spi import Answer, CaseView, Selection


class LeastRecentlyFailed:
    """The binding whose last failure, over all cases of the definition, is the longest ago.

    `since`: how far back the log is asked; what failed before that has not failed. Of several that have not, the first
    declared: a binding that has never run has never failed, so new ones get their chance.
    """

    def __init__(self, since: Duration = "7d") -> None:
        self._since = since

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        failed: dict[str, int] = {}
        for binding in eligible:
            last = await case.log.query(
                WorkerExecutionFailed, WorkerExecutionExpired,
                across="definition", binding=binding.name, since=self._since, events=1,
            )  # fmt: skip
            failed[binding.name] = last[-1].seq if last else 0
        best = min(eligible, key=lambda binding: failed[binding.name], default=None)
        if best is None:
            return ()
        position = failed[best.name]
        said = f"last failed at position {position}" if position else "has not failed"
        plan.focus("reliability", because=f"{best.name} {said} in {self._since}")
        return [best]


@dataclass(slots=True)
class Record:
    """How the runs of a binding ended: with the context changed, completed without a change, or failed."""

    changed: int = 0
    unchanged: int = 0
    failed: int = 0

    @property
    def score(self) -> float:
        """The share of runs that changed the context, counting one more that did: who never ran has 1."""
        return (self.changed + 1) / (self.changed + self.unchanged + self.failed + 1)

    def __str__(self) -> str:
        return f"{self.changed} changed the context, {self.unchanged} left it unchanged, {self.failed} failed"


class BestObservedOutcome:
    """Of each group of rivals the binding whose runs in the last cases of the definition changed the context most often.

    A run *changed the context* when its `WORKER_EXECUTION_COMPLETED` says that it `wrote` something: then a
    `CONTEXT_CHANGED` follows from it in the same turn, whose chain of causes leads to it and which names the binding. It
    *left it unchanged* when it completed and wrote nothing, or values that were there already. `WORKER_EXECUTION_FAILED`
    and `..._EXPIRED` are failures. What was declined, cancelled or interrupted says nothing of the worker, and is no run.

    `cases`: how many of the cases that started last are looked at, this one among them. What happened before is
    forgotten, so a binding that was left aside for so long is tried again.
    """

    def __init__(self, cases: int = 50) -> None:
        if cases < 1:
            raise SettingsError(f"BestObservedOutcome(cases={cases}): at least 1")
        self._cases = cases

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        records = await self.records(case)
        chosen = best_rivals(plan, case, eligible, lambda binding: records.get(binding.name, Record()).score)
        if not chosen:
            return Selection(rationale="a rival of what is eligible runs" if eligible else "")
        because = "; ".join(f"{binding.name}: {records.get(binding.name, Record())}" for binding in chosen)
        plan.focus("observed outcome", because=f"in the last {self._cases} cases {because}")
        return chosen

    async def records(self, case: CaseView) -> Mapping[str, Record]:
        """How the runs of each binding ended in the last cases; without those that did not run."""
        kinds = (WorkerExecutionCompleted, WorkerExecutionFailed, WorkerExecutionExpired)
        found: dict[str, Record] = {}
        for event in await case.log.query(*kinds, across="definition", cases=self._cases):
            record = found.setdefault(event.binding, Record())
            if not isinstance(event, WorkerExecutionCompleted):
                record.failed += 1
            elif event.wrote:
                record.changed += 1
            else:
                record.unchanged += 1
        return found
