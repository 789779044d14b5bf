"""Deliberation: asking a loop control whose `select` suspends, while the case goes on taking in facts.

At most one a case is under way. It is due when something is eligible and, since the base of the last one, the eligible
set or its stamps, the set in flight, a stage or the status changed, or a reconsideration is due. Eligible is what may
fire: not what a limit, a budget or a quarantine holds back. What a deliberation itself fires and writes belongs to its
base, so it cannot wake itself; changes that come meanwhile merge, none is lost.

Before a case stalls, a loop control that hears of stalls is asked once with the reasons, whatever is eligible. If the
turn of its answer does not get the case moving, the case stalls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import anyio

from casehub.binding import Binding
from casehub.durations import duration
from casehub.engine.answers import check_answer
from casehub.engine.failures import message_of
from casehub.engine.limits import held_back, hold
from casehub.engine.timers import TimerWheel
from casehub.errors import LoopControlError
from casehub.events import (
    BudgetExhausted,
    CaseStalled,
    CaseStatusChanged,
    ContextChanged,
    DeliberationCancelled,
    DeliberationFailed,
    DeliberationFinished,
    DeliberationStarted,
    DeliberationTimedOut,
    Event,
    SelectionDropped,
    SelectionForced,
    TimerCancelled,
    TimerFired,
    TimerId,
    TimerSet,
)
from casehub.inputs import Deliberated
from casehub.inquiries import Inquiries
from casehub.lifecycle import CaseStatus
from casehub.spi import Answer, Defer, HearsStalls, LoopControl, Selection
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.subcase_events import SubCaseStarted
from casehub.task_events import HumanTaskCreated
from casehub.view import CaseView

FAILURES = 3
"""Failed deliberations in a row after which the case stalls until something changes."""
DROPS = 3
"""Drops in a row after which eligibility alone decides whether a chosen binding fires."""
BACKOFF = TimerId("deliberate:backoff")
DEFERRED = TimerId("deliberate:defer")
NOT_CHOSEN = "the loop control has not chosen it"
FALLEN = "another choice of a strict answer was dropped"

Stamps = Mapping[str, int]


@dataclass(slots=True)
class Question:
    """What a loop control is asked: the case as the turn that asks leaves it, whatever comes before it is read.

    `stamps`: for each eligible binding the stamps of what it reads.
    """

    view: CaseView
    eligible: list[Binding]
    stamps: Mapping[str, Stamps]


@dataclass(slots=True)
class Deliberations:
    """The deliberations of one case in memory.

    `stage_events`: what says that a stage changed; `under_way`: the number of the one that is; `question`: what it was
    asked; `base`: what the last one was based on; `awaiting`: the event name that brings the next one; `refusal`: why the
    last one fired nothing, in words; `stalled`: the reasons of the stall that the last one was about; `handed`: in this
    turn it was, and it has been answered.
    """

    stage_events: tuple[type[Event], ...] = ()
    under_way: int | None = None
    base: object = None
    awaiting: str = ""
    refusal: str = NOT_CHOSEN
    question: Question | None = None
    stalled: tuple[str, ...] = ()
    handed: bool = False
    _reconsider: bool = False
    _stuck: bool = False

    def observe(self, event: Event) -> None:
        """Note the events that make a reconsideration due."""
        # What follows on a failure about a stall is the next attempt at that.
        timed = isinstance(event, TimerFired) and event.timer in (DEFERRED, *(() if self.stalled else (BACKOFF,)))
        resumed = isinstance(event, CaseStatusChanged) and event.before is CaseStatus.SUSPENDED
        # Of a case that has stalled, whatever comes to be known may be what was missing.
        known = self._stuck and isinstance(event, ContextChanged)
        self._stuck = self._stuck or isinstance(event, CaseStalled)
        # What people or sub-cases have now does not run any more: others may.
        delegated = isinstance(event, (HumanTaskCreated, SubCaseStarted))
        if known or timed or resumed or delegated or isinstance(event, (BudgetExhausted, *self.stage_events)):
            self._reconsider = True
        elif self.awaiting and any(kind.__dict__.get("name") == self.awaiting for kind in type(event).__mro__):
            self.awaiting = ""
            self._reconsider = True
        if isinstance(event, DeliberationCancelled):  # whoever called it off: none is under way, and the next is due
            self.under_way = None
            self.base = None

    def due(self, state: CaseState, eligible: Sequence[Binding]) -> bool:
        """Whether the loop control is to be asked now."""
        if not eligible:
            self.base = None  # what becomes eligible again is asked about again, on whatever facts
            return False
        if self.under_way is not None or BACKOFF in state.timers:
            return False
        return self._reconsider or fingerprint(state, eligible) != self.base

    def hand_over(self, loop: LoopControl) -> bool:
        """Whether the loop control is to hear of the stall that is at hand; it has not in this turn."""
        return not self.handed and isinstance(loop, HearsStalls) and loop.hears_stalls and not loop.immediate

    def start(self, state: CaseState, eligible: Sequence[Binding], stalled: tuple[str, ...] = ()) -> Iterator[Event]:
        """Begin one. The pump asks once this is committed. `stalled`: the reasons of the stall that it is about."""
        if state.deliberating:
            yield DeliberationCancelled(deliberation=state.deliberation)
        self.base = fingerprint(state, eligible)
        self.under_way = state.deliberation + 1
        self.awaiting = ""
        self.stalled = stalled
        self._reconsider = self._stuck = False
        if DEFERRED in state.timers:
            yield TimerCancelled(timer=DEFERRED)
        names = tuple(binding.name for binding in eligible)
        yield DeliberationStarted(deliberation=state.deliberation + 1, eligible=names, stalled=stalled)

    def cancel(self, state: CaseState) -> Iterator[Event]:
        """Call off the one under way: its answer will be void."""
        yield DeliberationCancelled(deliberation=state.deliberation)

    def answer(
        self, state: CaseState, eligible: Mapping[str, Binding], input: Deliberated
    ) -> tuple[list[Event], list[Binding]]:
        """The events that an answer comes to, and the bindings that fire. A late one comes to nothing."""
        if input.number != self.under_way or not state.deliberating:
            return [], []
        number = input.number
        if input.timed_out is not None or input.error is not None:
            return list(self._failed(state, input)), []
        until = input.defer_until if input.defer_after is None else input.at + input.defer_after
        events: list[Event] = [
            DeliberationFinished(
                deliberation=number,
                chosen=tuple(input.chosen),
                rationale=input.rationale,
                as_of=input.as_of,
                seconds=input.seconds,
                queries=input.queries,
                queries_left_out=input.queries_left_out,
                deferred=bool(input.defer_on or until),
            ),
            *(write for write in input.writes if isinstance(write, Event)),
        ]
        fire, said = _still_right(state, eligible, input)
        if input.strict and any(isinstance(event, SelectionDropped) for event in said):
            said = [event for event in said if isinstance(event, SelectionDropped)]
            said += [SelectionDropped(binding=binding.name, reason=FALLEN) for binding in fire]
            fire = []
        events += said
        if until is not None:
            events.append(TimerSet(timer=DEFERRED, due=until))
        self.awaiting = input.defer_on
        self.refusal = input.rationale or NOT_CHOSEN
        return events, fire

    def told(self, selection: Selection, now: datetime) -> Iterator[Event]:
        """The events of an answer that was given at once, but for what fires."""
        yield from selection.writes
        self.refusal = selection.rationale or NOT_CHOSEN
        defer = selection.defer
        if defer is not None:
            self.awaiting = "" if defer.on is None else defer.on.name
            until = _until(defer, now)
            if until is not None:
                yield TimerSet(timer=DEFERRED, due=until)

    def settle(self, state: CaseState, before: object, eligible: Sequence[Binding]) -> None:
        """After an answer: what it did itself belongs to its base; what had changed meanwhile does not."""
        if before == self.base:
            self.base = fingerprint(state, eligible)
        self.handed = bool(self.stalled)
        self.under_way = None

    def _failed(self, state: CaseState, input: Deliberated) -> Iterator[Event]:
        number = input.number
        if input.timed_out is not None:
            self.refusal = f"the loop control did not answer within {input.timed_out:g} s"
            yield DeliberationTimedOut(
                deliberation=number,
                limit=input.timed_out,
                seconds=input.seconds,
                queries=input.queries,
                queries_left_out=input.queries_left_out,
            )
        else:
            error = input.error or LoopControlError("no answer")
            self.refusal = f"the loop control failed: {type(error).__name__}: {message_of(error)}"
            yield DeliberationFailed(
                deliberation=number,
                error=type(error).__name__,
                message=message_of(error),
                seconds=input.seconds,
                queries=input.queries,
                queries_left_out=input.queries_left_out,
            )
        if state.failed_deliberations + 1 < FAILURES:
            delay = timedelta(seconds=2**state.failed_deliberations)
            yield TimerSet(timer=BACKOFF, due=input.at + delay)


def _until(defer: Defer, now: datetime) -> datetime | None:
    return defer.until if defer.after is None else now + duration(defer.after)


def fingerprint(state: CaseState, eligible: Sequence[Binding]) -> object:
    """What a deliberation is based on; another one is due when it changes."""
    return (
        tuple([(binding.name, tuple([state.stamp(name) for name in binding.reads])) for binding in eligible]),
        tuple(state.activations),
        state.status.active,  # deliberating itself makes a waiting case run
    )


def stamps_of(state: CaseState, eligible: Sequence[Binding]) -> dict[str, Stamps]:
    """For each binding the stamps of what it reads: what the loop control sees when it is asked."""
    return {binding.name: {name: state.stamp(name) for name in binding.reads} for binding in eligible}


def hindered(state: CaseState, structure: Structure, loop: LoopControl, fire: Sequence[Binding]) -> list[Event]:
    """What is said of a strict answer that gates, limits or budgets do not let fire whole; nothing if they do."""
    limits = structure.definition.limits
    room = min(limits.concurrency - len(state.activations), limits.firings - state.fired)
    reasons = [None if (held := hold(state, structure, loop, b)) is None else held_back(held) for b in fire]
    if not any(reasons) and len(fire) <= room:
        return []
    other = FALLEN if any(reasons) else f"the limits of the case leave room for {room} of a strict answer"
    return [SelectionDropped(binding=b.name, reason=reason or other) for b, reason in zip(fire, reasons, strict=True)]


def _still_right(
    state: CaseState, eligible: Mapping[str, Binding], input: Deliberated
) -> tuple[list[Binding], list[Event]]:
    """Which choices fire, and what is said of those that are dropped, or forced, because the case has moved on."""
    fire: list[Binding] = []
    said: list[Event] = []
    for name in input.chosen:
        binding = eligible.get(name)
        if binding is None:
            said.append(SelectionDropped(binding=name, reason="it is not eligible any more"))
            continue
        seen = input.stamps.get(name, {})
        changed = [fact for fact in binding.reads if state.stamp(fact) != seen.get(fact, 0)]
        firing = state.firings.get(name)
        if changed:
            reason = f"changed since the loop control saw it: {', '.join(changed)}"
            if firing is None or firing.drops < DROPS:
                said.append(SelectionDropped(binding=name, reason=reason))
                continue
            said.append(SelectionForced(binding=name, reason=reason))
        fire.append(binding)
    return fire, said


class Asking:
    """A loop control that is asked, or is about to be. `called_off`: its answer is not wanted any more.

    It is made when the deliberation has been committed: only then is it known what the log answers as of.
    """

    __slots__ = ("_as_of", "_inquiries", "_question", "_scope", "called_off", "number")

    def __init__(self, started: DeliberationStarted, question: Question) -> None:
        self.number = started.deliberation
        self.called_off = False
        self._as_of = question.view.upto = started.as_of
        self._inquiries = question.view.inquiries = Inquiries()
        self._question = question
        self._scope: anyio.CancelScope | None = None

    def wanted(self) -> bool:
        """Whether its answer counts, as far as this process knows."""
        return not self.called_off

    def call_off(self) -> None:
        """Cancel it. Safe before it runs and after it ended."""
        self.called_off = True
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, loop: LoopControl, wheel: TimerWheel) -> Deliberated | None:
        """Ask, within the loop control's deadline, and say what came of it; None when it was called off."""
        if not self.wanted():
            return None
        try:
            limit = duration(loop.deadline)
        except Exception as error:
            return Deliberated(number=self.number, error=error, by="loop")
        began = wheel.clock.monotonic()
        with wheel.limit(limit) as self._scope:
            answer = await self.answer(loop)
        if not self.wanted():
            return None
        if self._scope.cancel_called:  # whatever it answered after its time was up is void
            answer = Deliberated(number=self.number, timed_out=limit.total_seconds(), by="loop")
        answer.seconds = wheel.clock.monotonic() - began
        answer.queries = tuple(self._inquiries.kept)
        answer.queries_left_out = self._inquiries.left_out
        return answer

    async def answer(self, loop: LoopControl) -> Deliberated:
        """The answer; what the loop control raises becomes the input's `error`."""
        question, number = self._question, self.number
        answer: Answer
        try:
            answer = await loop.select(question.view, list(question.eligible))
            chosen, selection = check_answer(loop, question.eligible, answer)
        except asyncio.CancelledError as error:
            # One that nobody here asked for comes from what select awaited, such as a client that was closed.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            wrapped = LoopControlError(f"it was cancelled from within: {error or 'CancelledError'}")
            return Deliberated(number=number, error=wrapped, by="loop")
        except Exception as error:
            return Deliberated(number=number, error=error, by="loop")
        defer = selection.defer
        return Deliberated(
            number=number,
            chosen=tuple(binding.name for binding in chosen),
            rationale=selection.rationale,
            writes=tuple(selection.writes),
            stamps=question.stamps,
            as_of=self._as_of,
            strict=selection.strict,
            defer_until=None if defer is None else defer.until,
            defer_after=None if defer is None or defer.after is None else duration(defer.after),
            defer_on="" if defer is None or defer.on is None else defer.on.name,
            by="loop",
        )
