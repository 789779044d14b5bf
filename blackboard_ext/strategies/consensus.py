"""Rounds to consensus: in each round a selector reads the blackboard and says who contributes, until there is a decision.

Source: B. Han, S. Zhang, "Exploring Advanced LLM Multi-Agent Systems Based on Blackboard Architecture", arXiv 2507.01701: a
control unit selects agents by what the blackboard holds; they read and write its public space; a conflict resolver takes
those who contradict each other aside into a private space; a cleaner removes what is of no use; a decider says whether
there is a solution; the rounds are limited.

Here the agents are bindings. The public space is the context, which the cleaner's worker deletes facts from. The private
space is a note on the plan: while two contradict each other, only they and the resolver have a turn. The decider's
worker writes what the case is after, or raises `Declined` when it is too early.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from blackboard_ext.plan import CasePlanModel
from casehub.binding import Binding
from casehub.context import CaseContext
from casehub.errors import LoopControlError, SettingsError
from casehub.spi import Answer, CaseView, Selection


@dataclass(frozen=True, slots=True)
class Spaces:
    """The blackboard as the selector of a round reads it.

    `public`: the facts; `private`: the bindings that contradict each other, empty when nobody does; `round`: from 1;
    `spoke`: who had a turn in the rounds so far.
    """

    public: CaseContext
    private: tuple[str, ...]
    round: int
    spoke: Sequence[Sequence[str]]


Selector = Callable[[Spaces, Sequence[Binding]], Awaitable[Sequence[str]]]
"""Of these bindings the names of those that contribute in this round; empty when there is nothing to add."""
Conflict = Callable[[CaseContext], Sequence[str]]
"""The names of the bindings whose facts contradict each other; empty when none do."""


def agreement(context: CaseContext) -> Sequence[str]:
    """Nobody contradicts anybody."""
    return ()


class RoundsToConsensus:
    """One round after the other: who is selected runs, and the next round begins when all of them have ended.

    `decider`, `resolver`, `cleaner`: the bindings with these roles. `selector`: without one, everybody but these
    contributes who can; when nobody can any more, the cleaner, and then the decider. `conflict`: who contradicts whom.
    `rounds`: how many there are; then the decider alone has a turn. What the selector answers outside of what it was
    given is an error, and nothing fires.
    """

    def __init__(
        self,
        decider: str,
        *,
        resolver: str = "",
        cleaner: str = "",
        selector: Selector | None = None,
        conflict: Conflict = agreement,
        rounds: int = 4,
    ) -> None:
        if rounds < 1:
            raise SettingsError(f"RoundsToConsensus(rounds={rounds}): at least 1")
        self._decider, self._resolver, self._cleaner = decider, resolver, cleaner
        self._selector = selector or self._by_role
        self._conflict = conflict
        self._rounds = rounds

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        spoke: list[Any] = plan.get("rounds", list) or []
        if case.in_flight:
            return Selection(rationale=f"round {len(spoke)} is under way")
        if not eligible:
            return ()
        decider = [binding for binding in eligible if binding.name == self._decider]
        if len(spoke) >= self._rounds:
            plan.focus("decision", because=f"{self._rounds} rounds are over")
            return Selection(decider, rationale="" if decider else f"no consensus after {self._rounds} rounds")
        parties = tuple(self._conflict(case.context))
        aside = [binding for binding in eligible if binding.name in (*parties, self._resolver)] if parties else []
        plan.note("private", list(parties) if aside else None)
        spaces = Spaces(case.context, parties if aside else (), len(spoke) + 1, spoke)
        chosen = await self._chosen(spaces, aside or eligible) or decider
        if not chosen:
            return Selection(rationale=f"nothing is added in round {spaces.round}, and the decider has no turn")
        names = [binding.name for binding in chosen]
        plan.note("rounds", [*spoke, names])
        where = f"in private about what {', '.join(parties)} wrote" if aside else "in public"
        plan.focus(f"round {spaces.round}", because=f"{', '.join(names)} {where}")
        return chosen

    async def _chosen(self, spaces: Spaces, candidates: Sequence[Binding]) -> list[Binding]:
        names = set(await self._selector(spaces, candidates))
        unknown = sorted(names - {binding.name for binding in candidates})
        if unknown:
            raise LoopControlError(f"the selector of round {spaces.round} chose {unknown}, who have no turn in it")
        return [binding for binding in candidates if binding.name in names]

    async def _by_role(self, spaces: Spaces, candidates: Sequence[Binding]) -> Sequence[str]:
        names = [binding.name for binding in candidates]
        if spaces.private:
            return [self._resolver] if self._resolver in names else names
        roles = (self._cleaner, self._decider, self._resolver)
        experts = [name for name in names if name not in roles]
        return experts or [name for name in roles[:2] if name in names][:1]
