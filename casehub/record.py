"""A case as its log tells it, read from a store without a hub: nothing is worked, nothing is written, nobody is asked."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from casehub.context import CaseContext
from casehub.decision import Decision, decisions_of
from casehub.engine.recovery import restore
from casehub.errors import CaseNotFoundError, SettingsError, UnknownNameError, did_you_mean
from casehub.events import CaseId, Event
from casehub.explanation import Explanation, Verdict
from casehub.fact_history import FactHistory
from casehub.folding import apply, fold
from casehub.moment import up_to
from casehub.plan import PlanView
from casehub.query import CaseLog
from casehub.spi import CaseStore, LoopControl, WorksStages
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.subcases import Child

LOOKED_AT: Final = 20
"""Sub-cases, and theirs, that are read to tell what holds up a binding."""


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """One case at the end of its log, or at a moment before. `events`: all until then; `state`: what they come to.

    `past`: there may be more of its log behind it.
    """

    id: CaseId
    events: Sequence[Event]
    state: CaseState
    store: CaseStore
    past: bool = False

    @property
    def seq(self) -> int:
        """The position of its last event."""
        return self.events[-1].seq

    @property
    def log(self) -> CaseLog:
        """The history, typed, as it was then."""
        upto = self.seq if self.past else None
        return CaseLog(self.store.log, self.id, self.state.definition, self.state.tenant, upto, self.events[-1].at)

    async def context(self) -> CaseContext:
        """The facts, as plain values."""
        return CaseContext(self.state.facts, version=self.state.version)

    def facts(self, name: str) -> FactHistory:
        """One fact through time. Raises `UnknownNameError` for one that never was, naming the nearest."""
        if name not in self.state.facts:
            raise UnknownNameError(
                f"case {self.id!r} never had a fact {name!r}; {did_you_mean(name, self.state.facts)}"
            )
        return FactHistory(self, name)

    def decisions(self) -> list[Decision]:
        """What each deliberation was about and came to, oldest first."""
        return decisions_of(self.events)

    def plan(self, loop: LoopControl, structure: Structure | None = None) -> PlanView | None:
        """What a loop control plans, as the log tells; None where the log tells of no plan.

        Without the structure, stages that nothing has happened to are not known, nor which stage lies in which.
        """
        if structure is not None and isinstance(loop, WorksStages):
            loop = loop.over(structure)
        state = CaseState(self.id, control=loop.initial())
        for event in self.events:
            apply(state, event)
            if type(event) in loop.handles:
                state.control = loop.apply(state.control, event)
        planned = bool(state.deliberation) or state.control != loop.initial()
        return loop.view(state) if planned else None

    def explain(self, structure: Structure, loop: LoopControl, binding: str | None = None) -> list[Explanation]:
        """Why a binding, or each, would or would not fire now. Raises `UnknownNameError` for a binding that is none."""
        live = restore(self.id, self.events, structure, loop, self.store.log, random.Random(0))  # noqa: S311 - jitter
        return live.explain(binding)


async def read_case(
    store: CaseStore, case: str, tenant: str = "default", at: int | datetime | None = None
) -> CaseRecord:
    """The record of a case; `at`: as it was at a position or a time.

    Raises `CaseNotFoundError`, and `SettingsError` for a moment before its start or behind the end of the log.
    """
    id = CaseId(case)
    events = await store.load(id, tenant)
    if not events:
        raise CaseNotFoundError(f"there is no case {case!r} in {store.describe()}; list them with 'casehub case list'")
    if isinstance(at, int) and at > (last := await store.log.position()):
        raise SettingsError(f"position {at} has not come yet; the last one is {last}")
    if at is not None:
        events = up_to(events, at)
    return CaseRecord(id, events, fold(id, events), store, at is not None)


async def with_stalled(
    said: Sequence[Explanation], children: Sequence[Child], store: CaseStore, tenant: str
) -> list[Explanation]:
    """What is said of bindings, and of those that wait for sub-cases which nothing can move, why that is so."""
    told: list[Explanation] = []
    for each in said:
        stuck = ""
        if each.verdict is Verdict.IN_FLIGHT:
            stuck = await _stuck([child for child in children if child.binding == each.binding], store, tenant)
        told.append(replace(each, text=stuck) if stuck else each)
    return told


async def _stuck(children: Sequence[Child], store: CaseStore, tenant: str) -> str:
    """Which of the sub-cases that are open, or of those that they wait for, nothing can move, and why; empty for none."""
    asked = deque((child, f"waits for sub-case {child.id}, which") for child in children if child.status is None)
    for _ in range(LOOKED_AT):
        if not asked:
            break
        child, said = asked.popleft()
        state = fold(child.id, await store.load(child.id, tenant))
        if state.stalled:
            return f"{said} is stalled: {'; '.join(state.stalled)}"
        asked += [(c, f"{said} waits for sub-case {c.id}, which") for c in state.children.open() if c.waited]
    return ""
