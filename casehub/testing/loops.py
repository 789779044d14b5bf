"""What every loop control has to do, as tests: for those who write one.

Subclass `LoopControlContract` in a test module and say how to make yours; pytest needs no plugin for it.

    class TestMyLoopControl(LoopControlContract):
        def loop_control(self):
            return MyLoopControl()

Each test has the loop control work real cases in a hub (workers in a row, side by side, in a loop; failures, signals,
a suspension, a cancellation) and looks over its shoulder.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from copy import deepcopy
from typing import Any

from pydantic_core import from_json, to_json

from casehub.adapters.codec import as_json
from casehub.binding import Binding
from casehub.durations import Duration, duration
from casehub.events import EVENT_TYPES, CaseFaulted, DeliberationFailed, DeliberationTimedOut, Event
from casehub.plan import PlanView
from casehub.spi import Answer, HearsStalls, KeepsAgenda, KeepsControl, LoopControl
from casehub.state import CaseState
from casehub.testing.evidence import differences, listed
from casehub.testing.occasions import Log, invented, recorded, worked
from casehub.testing.selecting import faults_of, faults_when_cancelled
from casehub.view import CaseView

# ---- looking over its shoulder


class Watched:
    """A loop control that has another one decide, and notes where that breaks its contract.

    `try_first`: what to try before each selection; `asked`: how often it was asked; `complaints`: what was found.
    """

    def __init__(self, inner: LoopControl, try_first: Try | None = None) -> None:
        self.inner = inner
        self.immediate = inner.immediate
        self.handles = inner.handles
        self.deadline: Duration = inner.deadline
        self.asked = 0
        self.complaints: list[str] = []
        self._try_first = try_first
        self.hears_stalls = isinstance(inner, HearsStalls) and inner.hears_stalls
        if isinstance(inner, KeepsAgenda):
            self.withdraw = inner.withdraw

    def initial(self) -> Any:
        return self.inner.initial()

    def apply(self, control: Any, event: Event) -> Any:
        return self.inner.apply(control, event)

    def react(self, state: CaseState, event: Event) -> Iterable[Event]:
        before = as_json(event)
        found: list[Any] = list(self.inner.react(state, event))
        self.complaints += [f"react gave {each!r}, which is no event" for each in found if not isinstance(each, Event)]
        if as_json(event) != before:
            self.complaints.append(f"react changed the event {event.name}")
        return found

    def settle(self, state: CaseState) -> Iterable[Event]:
        return self.inner.settle(state)

    def view(self, state: CaseState) -> PlanView | None:
        return self.inner.view(state)

    def gate(self, state: CaseState, binding: Binding) -> str | None:
        said: object = self.inner.gate(state, binding)
        if said is None or (isinstance(said, str) and said):
            return said
        self.complaints.append(f"gate said {said!r} of {binding.name!r}; it says None, or why not in words")
        return None

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        self.asked += 1
        if self._try_first is not None:
            try:
                await self._try_first(self, case, list(eligible))
            except Exception as error:
                self.complaints.append(f"select raised {type(error).__name__}: {error}")
        given = list(eligible)
        before = _seen(case, given)
        answer = await self.inner.select(case, given)
        self.complaints += [f"select changed what it was given: {it}" for it in differences(before, _seen(case, given))]
        self.complaints += faults_of(answer, eligible)
        return answer


def _seen(case: CaseView, eligible: Sequence[Binding]) -> object:
    """What select is given, so that it can be compared later."""
    return [dict(case.context), case.status, case.version, case.in_flight, list(eligible)]


async def with_nothing(watched: Watched, case: CaseView, eligible: list[Binding]) -> None:
    """Ask when nothing is eligible."""
    watched.complaints += faults_of(await watched.inner.select(case, []), [])


async def by_hand(watched: Watched, case: CaseView, eligible: list[Binding]) -> None:
    """See whether an immediate one suspends."""
    if watched.immediate:
        selecting: Any = watched.inner.select(case, eligible)
        try:
            selecting.send(None)
        except StopIteration:
            return
        selecting.close()
        watched.complaints.append("select suspended, and immediate says that it never does")


async def with_a_cancellation(watched: Watched, case: CaseView, eligible: list[Binding]) -> None:
    """Cancel one that may suspend."""
    if not watched.immediate:
        watched.complaints += await faults_when_cancelled(lambda: watched.inner.select(case, eligible))


Try = Callable[[Watched, CaseView, list[Binding]], Coroutine[Any, Any, None]]


# ---- the contract


class LoopControlContract(ABC):
    """The promises of `LoopControl`, a test each."""

    @abstractmethod
    def loop_control(self) -> LoopControl:
        """A new loop control, made as a hub's user would make it."""

    def logs(self) -> Iterable[Log]:
        """Logs that `apply` has to take, besides those that these tests record; for those who have older ones."""
        return ()

    # ---- what it is

    def test_it_says_what_the_engine_has_to_know(self) -> None:
        loop = self.loop_control()
        immediate: object = loop.immediate
        kinds: object = loop.handles
        wrong: list[str] = []
        if not isinstance(immediate, bool):
            wrong.append(f"immediate is {immediate!r}, no bool")
        if not isinstance(kinds, frozenset) or any(kind not in EVENT_TYPES.values() for kind in kinds):
            wrong.append(f"handles is {kinds!r}, no frozenset of event classes")
        if not duration(loop.deadline):
            wrong.append("deadline is no time at all")
        _none(wrong)

    # ---- apply

    def test_apply_takes_any_log(self) -> None:
        loop = self.loop_control()
        for log in self._all_logs():
            for events in (log, log[len(log) // 2 :], log[::-1], [*log, *log]):
                _folded(loop, events)

    def test_apply_gives_the_same_each_time(self) -> None:
        wrong: list[str] = []
        loop = self.loop_control()
        initial = deepcopy(loop.initial())
        for log in self._all_logs():
            first = deepcopy(_folded(self.loop_control(), log))
            wrong += [f"folding again: {each}" for each in differences(first, _folded(loop, log))]
            wrong += [
                f"with another instance: {each}" for each in differences(first, _folded(self.loop_control(), log))
            ]
        for again in (loop, self.loop_control()):
            wrong += [f"initial() is not what it was: {each}" for each in differences(initial, again.initial())]
        _none(wrong)

    def test_apply_keeps_cases_apart(self) -> None:
        wrong: list[str] = []
        loop = self.loop_control()
        logs = self._all_logs()
        controls = [loop.initial() for _ in logs]
        for place in range(max(map(len, logs))):
            for case, log in enumerate(logs):
                if place < len(log) and type(log[place]) in loop.handles:
                    controls[case] = loop.apply(controls[case], log[place])
        for log, control in zip(logs, controls, strict=True):
            wrong += differences(_folded(self.loop_control(), log), control)
        _none(wrong)

    def test_apply_leaves_events_as_they_are(self) -> None:
        wrong: list[str] = []
        loop = self.loop_control()
        for log in self._all_logs():
            before = [as_json(event) for event in log]
            _folded(loop, log)
            wrong += [f"apply changed {e.name}" for e, form in zip(log, before, strict=True) if as_json(e) != form]
        _none(wrong)

    def test_its_control_state_comes_back_from_a_snapshot(self) -> None:
        """Of one that says how it is kept (`KeepsControl`): at every place of a log, and what follows is the same."""
        wrong: list[str] = []
        loop, other = self.loop_control(), self.loop_control()
        if not isinstance(loop, KeepsControl) or not isinstance(other, KeepsControl):
            return
        if loop.control_form != other.control_form:
            wrong.append(f"control_form is {loop.control_form!r} of one instance and another of the next")
        for log in self._all_logs():
            control, kept = loop.initial(), loop.initial()
            for event in log:
                if type(event) in loop.handles:
                    control, kept = loop.apply(control, event), other.apply(kept, event)
                    kept = loop.load_control(from_json(to_json(loop.dump_control(kept), inf_nan_mode="constants")))
                    wrong += [f"after {event.name}: {each}" for each in differences(control, kept)]
        _none(dict.fromkeys(wrong))

    # ---- select, gate, react

    def test_it_chooses_out_of_what_is_eligible_and_changes_nothing(self) -> None:
        self._work()

    def test_select_takes_an_empty_list(self) -> None:
        self._work(with_nothing)

    def test_select_never_suspends_where_it_says_so(self) -> None:
        self._work(by_hand)

    def test_select_ends_promptly_when_it_is_cancelled(self) -> None:
        self._work(with_a_cancellation)

    # ---- as a whole

    def test_cases_are_worked_until_they_rest(self) -> None:
        wrong: list[str] = []
        for log in self._work():
            wrong += [
                f"{e.case}: {e}" for e in log if isinstance(e, DeliberationFailed | DeliberationTimedOut | CaseFaulted)
            ]
        _none(wrong)

    # ---- how

    def _work(self, try_first: Try | None = None) -> list[Log]:
        watched = Watched(self.loop_control(), try_first)
        logs = asyncio.run(worked(watched))
        if not watched.asked:
            raise AssertionError("no case came so far that the loop control was asked")
        _none(dict.fromkeys(watched.complaints))
        return logs

    def _all_logs(self) -> list[Log]:
        return [*recorded(), invented(), *asyncio.run(worked(self.loop_control())), *self.logs()]


def _folded(loop: LoopControl, events: Iterable[Event]) -> Any:
    """The control state that events come to, as the engine folds it."""
    control = loop.initial()
    for event in events:
        if type(event) in loop.handles:
            control = loop.apply(control, event)
    return control


def _none(problems: Iterable[str]) -> None:
    found = list(problems)
    if found:
        raise AssertionError(listed("the loop control breaks its contract:", found))
