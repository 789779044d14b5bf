"""Multi-armed bandits: which of several bindings of one capability runs is learnt from how their runs ended.

Each group of rivals (see `rivals`) is a bandit and its bindings are the arms. A run is a pull: `WORKER_EXECUTION_COMPLETED`
is a success, `..._FAILED` and `..._EXPIRED` are failures, counted over all cases of the definition; what was declined,
cancelled or interrupted says nothing of the worker. Nothing is learnt in memory: the log is asked each time, so what
was learnt survives a restart, and a decision can be taken again as of its position in the log.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from blackboard_ext.plan import CasePlanModel
from blackboard_ext.strategies.rivals import best_rivals, rivals
from casehub.binding import Binding
from casehub.durations import Duration
from casehub.errors import SettingsError
from casehub.events import WorkerExecutionCompleted, WorkerExecutionExpired, WorkerExecutionFailed
from casehub.spi import Answer, CaseView, Selection


class Bandit(ABC):
    """Chooses of each group of rivals the one of the highest score. `since`: how far back the log is asked; None: all of it."""

    def __init__(self, *, since: Duration | None = None) -> None:
        self._since = since

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        log, since = case.log, self._since
        good = await log.count(WorkerExecutionCompleted, by="binding", across="definition", since=since)
        bad = await log.count(
            WorkerExecutionFailed, WorkerExecutionExpired, by="binding", across="definition", since=since
        )
        scores: dict[str, float] = {}
        for group in rivals(eligible):
            arms = [(good.get(binding.name, 0), bad.get(binding.name, 0)) for binding in group]
            scores |= zip([binding.name for binding in group], self._scores(case, group, arms), strict=True)
        chosen = best_rivals(plan, case, eligible, lambda binding: scores[binding.name])
        if not chosen:
            return Selection(rationale="a rival of what is eligible runs" if eligible else "")
        because = ", ".join(
            f"{b.name} {scores[b.name]:.3g} ({good.get(b.name, 0)} good, {bad.get(b.name, 0)} bad)" for b in chosen
        )
        plan.focus(type(self).__name__, because=because)
        return chosen

    @abstractmethod
    def _scores(self, case: CaseView, group: Sequence[Binding], arms: Sequence[tuple[int, int]]) -> list[float]:
        """A score an arm, of its successes and failures."""


class ThompsonSampling(Bandit):
    """Draws each arm's chance of success from its Beta distribution, and the highest wins (W. R. Thompson, 1933).

    The less is known of an arm the further its draws scatter, so it is tried; the more is known the less it is tried
    in vain. Draws follow from `seed`, the case, its version and the binding alone: the same question has the same answer,
    however often it is asked, in whatever process.
    """

    def __init__(self, seed: int = 0, *, since: Duration | None = None) -> None:
        super().__init__(since=since)
        self._seed = seed

    def _scores(self, case: CaseView, group: Sequence[Binding], arms: Sequence[tuple[int, int]]) -> list[float]:
        return [
            Random(f"{self._seed}/{case.id}/{case.version}/{binding.name}").betavariate(good + 1, bad + 1)  # noqa: S311 - chance, no secret
            for binding, (good, bad) in zip(group, arms, strict=True)
        ]


class UCB1(Bandit):
    """Takes the arm whose upper confidence bound is the highest (P. Auer, N. Cesa-Bianchi, P. Fischer, 2002).

    The bound is the share of successes plus `explore` times the square root of ln(pulls of all) / pulls of the arm; an
    arm that was never pulled comes first. `explore`: the square root of 2 in the paper; 0 never looks back.
    """

    def __init__(self, explore: float = math.sqrt(2), *, since: Duration | None = None) -> None:
        super().__init__(since=since)
        if explore < 0:
            raise SettingsError(f"UCB1(explore={explore:g}): not below 0")
        self._explore = explore

    def _scores(self, case: CaseView, group: Sequence[Binding], arms: Sequence[tuple[int, int]]) -> list[float]:
        pulls = sum(good + bad for good, bad in arms)
        return [
            good / (good + bad) + self._explore * math.sqrt(math.log(pulls) / (good + bad)) if good + bad else math.inf
            for good, bad in arms
        ]
