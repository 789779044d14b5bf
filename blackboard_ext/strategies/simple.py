"""Strategies that look at the bindings and the agenda alone."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_ext.plan import CasePlanModel
from casehub.binding import Binding
from casehub.spi import Answer, CaseView


class EverythingEligible:
    """Choreography, with a plan that shows it."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible


class OneAtATime:
    """The first in order of declaration, and nothing more while something runs."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return () if plan.running else eligible[:1]


class FirstReady:
    """The one that has been ready longest, whatever its priority; of those that became ready together the first declared."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        since = {item.binding: item.since for item in plan.agenda}
        oldest = min(eligible, key=lambda binding: since.get(binding.name, case.version), default=None)
        return () if oldest is None else [oldest]


class HighestPriority:
    """All bindings of the highest priority on the agenda; the others wait."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        items = {item.binding: item.priority for item in plan.agenda}
        highest = max(items.values(), default=0)
        chosen = [binding for binding in eligible if items.get(binding.name) == highest]
        plan.focus(f"priority {highest}", because=f"{len(chosen)} of {len(eligible)} eligible have it")
        return chosen


class CheapestFirst:
    """The binding of the lowest cost; of several, the first declared."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        cheapest = min(eligible, key=lambda binding: binding.cost, default=None)
        return () if cheapest is None else [cheapest]
