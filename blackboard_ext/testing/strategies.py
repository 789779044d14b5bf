"""What every planning strategy has to do, as tests: for those who write one.

Subclass `StrategyContract` in a test module and say how to make yours; pytest needs no plugin for it.

    class TestMyStrategy(StrategyContract):
        def strategy(self):
            return MyStrategy()

Each test has the strategy work real cases in a hub (workers in a row, side by side, in a loop; failures, signals, a
suspension, a cancellation) and looks over its shoulder.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from copy import deepcopy
from typing import Any

from blackboard_ext.control import PlanningStrategyLoopControl
from blackboard_ext.plan import CasePlanModel
from blackboard_ext.spi import HearsStalls, PlanningStrategy
from casehub.binding import Binding
from casehub.events import CaseFaulted, DeliberationFailed, DeliberationTimedOut
from casehub.spi import Answer, CaseView
from casehub.testing.evidence import differences, listed
from casehub.testing.occasions import Log, worked
from casehub.testing.selecting import faults_of, faults_when_cancelled


class Watched:
    """A strategy that has another one decide, and notes where that breaks its contract.

    `try_first`: what to try before each selection, on a draft of the plan; `asked`: how often it was asked;
    `complaints`: what was found.
    """

    def __init__(self, inner: PlanningStrategy, try_first: Try | None = None) -> None:
        self.inner = inner
        self.asked = 0
        self.complaints: list[str] = []
        self._try_first = try_first

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.asked += 1
        if self._try_first is not None:
            try:
                await self._try_first(self, plan.draft(), case, list(eligible))
            except Exception as error:
                self.complaints.append(f"select raised {type(error).__name__}: {error}")
        given = list(eligible)
        before = deepcopy(seen(case)), list(given)
        answer = await self.inner.select(plan, case, given)
        changed = differences(before, (seen(case), given))
        self.complaints += [f"select changed what it was given: {each}" for each in changed]
        self.complaints += faults_of(answer, eligible)
        for event in plan.writes:
            if event.version:
                self.complaints.append(f"select wrote {event.name} {event.id}, which is recorded already")
        return answer


class Hearing(Watched):
    """The same for one that hears of stalls."""

    def __init__(self, inner: PlanningStrategy, hearing: HearsStalls, try_first: Try | None = None) -> None:
        super().__init__(inner, try_first)
        self._hearing = hearing

    async def stalled(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        before = deepcopy(seen(case))
        answer = await self._hearing.stalled(plan, case, eligible)
        changed = differences(before, seen(case))
        self.complaints += [f"stalled changed what it was given: {each}" for each in changed]
        self.complaints += faults_of(answer, eligible, "stalled")
        return answer


def seen(case: CaseView) -> object:
    """What a strategy is given to read, so that it can be compared later; the plan's state included."""
    return [dict(case.context), case.status, case.version, case.in_flight, dict(case.milestones), case.control]


async def with_nothing(watched: Watched, plan: CasePlanModel, case: CaseView, eligible: list[Binding]) -> None:
    """Ask when nothing is eligible."""
    watched.complaints += faults_of(await watched.inner.select(plan, case, []), [])


async def by_hand(watched: Watched, plan: CasePlanModel, case: CaseView, eligible: list[Binding]) -> None:
    """See whether what select gives can be awaited."""
    selecting: Any = watched.inner.select(plan, case, eligible)
    if not inspect.isawaitable(selecting):
        watched.complaints.append(f"select gave {selecting!r}, which cannot be awaited; write async def select")
        return
    await selecting


async def twice(watched: Watched, plan: CasePlanModel, case: CaseView, eligible: list[Binding]) -> None:
    """Ask the same again, and see whether the answer is the same."""
    plans = [plan.draft(), plan.draft()]
    answers = [await watched.inner.select(each, case, list(eligible)) for each in plans]
    first, again = answers
    changed = [
        *differences(first, again, "the answer"),
        *differences(plans[0].writes, plans[1].writes, "what it wrote"),
    ]
    watched.complaints += [f"asked the same again, select did not do the same: {each}" for each in changed]


async def with_a_cancellation(watched: Watched, plan: CasePlanModel, case: CaseView, eligible: list[Binding]) -> None:
    """Cancel it."""
    watched.complaints += await faults_when_cancelled(lambda: watched.inner.select(plan.draft(), case, eligible))


Try = Callable[[Watched, CasePlanModel, CaseView, list[Binding]], Coroutine[Any, Any, None]]


class StrategyContract(ABC):
    """The promises of `PlanningStrategy`, a test each.

    `repeatable`: asked the same question at the same position of the log it answers the same, which is what a replay of
    decisions rests on. Say False for one that asks what answers differently each time, such as a live service.
    """

    repeatable = True

    @abstractmethod
    def strategy(self) -> PlanningStrategy:
        """A new strategy, made as a hub's user would make it."""

    def test_it_answers_with_some_of_what_is_eligible_and_changes_nothing_but_the_plan(self) -> None:
        self._work()

    def test_it_takes_an_empty_list(self) -> None:
        self._work(with_nothing)

    def test_what_it_gives_can_be_awaited(self) -> None:
        self._work(by_hand)

    def test_it_ends_promptly_when_it_is_cancelled(self) -> None:
        self._work(with_a_cancellation)

    def test_asked_the_same_again_it_answers_the_same(self) -> None:
        if self.repeatable:
            self._work(twice)

    def test_cases_are_worked_until_they_rest(self) -> None:
        failures = (DeliberationFailed, DeliberationTimedOut, CaseFaulted)
        _none(f"{event.case}: {event}" for log in self._work() for event in log if isinstance(event, failures))

    def _work(self, try_first: Try | None = None) -> list[Log]:
        inner = self.strategy()
        watched = Hearing(inner, inner, try_first) if isinstance(inner, HearsStalls) else Watched(inner, try_first)
        logs = asyncio.run(worked(PlanningStrategyLoopControl(watched)))
        if not watched.asked:
            raise AssertionError("no case came so far that the strategy was asked")
        _none(dict.fromkeys(watched.complaints))
        return logs


def _none(problems: Iterable[str]) -> None:
    found = list(problems)
    if found:
        raise AssertionError(listed("the strategy breaks its contract:", found))
