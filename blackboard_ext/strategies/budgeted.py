"""A strategy that spends a stated budget of what bindings cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from blackboard_ext.plan import CasePlanModel
from casehub.binding import Binding
from casehub.errors import SettingsError
from casehub.events import WorkerScheduled
from casehub.spi import Answer, CaseView, Selection

EXACT = 1e-9
"""Costs are floats: three tenths may cost a little more than 0.3."""


class Budgeted:
    """Everything on the agenda that the budget pays for: highest priority first, then oldest.

    `amount`: what may be spent of `binding.cost`, in all of a `case` or with each answer (`per="step"`). `resource`: the
    name under which the plan's resources show what is left. What was chosen and did not fire has cost nothing: what is
    spent is counted from the log.
    """

    def __init__(self, amount: float, *, per: Literal["case", "step"] = "case", resource: str = "cost") -> None:
        if amount < 0:
            raise SettingsError(f"Budgeted({amount:g}): a budget cannot be negative")
        self._amount = amount
        self._per = per
        self._resource = resource

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        note = f"costs in {self._resource}"
        costs = plan.get(note, dict) or {}
        left = self._amount
        if self._per == "case":
            fired = await case.log.count(WorkerScheduled, by="binding")
            left -= sum(cost * fired.get(name, 0) for name, cost in costs.items())
        place = {item.binding: number for number, item in enumerate(plan.agenda)}
        chosen: list[Binding] = []
        for binding in sorted(eligible, key=lambda binding: place.get(binding.name, len(place))):
            if binding.cost <= left + EXACT:
                left -= binding.cost
                chosen.append(binding)
        if eligible:
            plan.note(note, {**costs, **{binding.name: binding.cost for binding in chosen}})
            plan.set_aside(self._resource, left)
        spent = f"{left:g} of {self._amount:g} {self._resource} is left"
        if eligible and not chosen:
            return Selection(rationale=f"{spent}; the cheapest costs {min(binding.cost for binding in eligible):g}")
        return Selection(chosen, rationale=spent)
