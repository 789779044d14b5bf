"""Focus of attention, as in BB1: control sources rate what is on the agenda, and the highest rated runs.

Source: B. Hayes-Roth, "A blackboard architecture for control", Artificial Intelligence 26 (1985): focus decisions on the
control blackboard, each with a weight, against which every pending activation is rated; the scheduler takes the best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from blackboard_ext.plan import CasePlanModel
from casehub.binding import Binding
from casehub.errors import SettingsError
from casehub.spi import Answer, CaseView, Selection

Rate = Callable[[CasePlanModel, CaseView, Binding], float]
Operative = Callable[[CasePlanModel, CaseView], bool]


def always(plan: CasePlanModel, case: CaseView) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ControlSource:
    """One view of what matters now. `rate`: how well a binding serves it, in any unit that its `weight` makes up for.

    `operative`: whether it counts now; a focus is in force until its goal is met. Negative weights count against.
    """

    name: str
    rate: Rate
    weight: float = 1.0
    operative: Operative = always


class FocusOfAttention:
    """The `count` bindings of the highest rating: the sum over the operative sources of weight times rate.

    Of equals the one that is first on the agenda. The plan's focus is the source that spoke most for the first choice,
    with all ratings as its rationale. Without an operative source nothing is rated, and the agenda decides.
    """

    def __init__(self, *sources: ControlSource, count: int = 1) -> None:
        if count < 1:
            raise SettingsError(f"FocusOfAttention(count={count}): at least 1")
        if len({source.name for source in sources}) < len(sources):
            raise SettingsError("FocusOfAttention: two control sources have one name; give each its own")
        self._sources = sources
        self._count = count

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        sources = [source for source in self._sources if source.operative(plan, case)]
        parts = {b.name: [source.weight * source.rate(plan, case, b) for source in sources] for b in eligible}
        place = {item.binding: number for number, item in enumerate(plan.agenda)}
        ranked = sorted(eligible, key=lambda b: (-sum(parts[b.name]), place.get(b.name, len(place))))
        if not ranked:
            return ()
        if not sources:
            return Selection(ranked[: self._count], rationale="no control source is operative; in order of the agenda")
        best = ranked[0].name
        _, focus = max(zip(parts[best], sources, strict=True), key=lambda each: each[0])
        ratings = ", ".join(f"{b.name} {sum(parts[b.name]):g}" for b in ranked)
        said = " + ".join(f"{source.name} {part:g}" for part, source in zip(parts[best], sources, strict=True))
        plan.focus(focus.name, because=f"{best}: {said}; ratings: {ratings}")
        return ranked[: self._count]
