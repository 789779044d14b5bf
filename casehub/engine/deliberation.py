"""Deliberation: asking a loop control whose `select` suspends, while the case goes on taking in facts.

At most one a case is under way. It is due when something is eligible and, since the base of the last one, the eligible
set or its stamps, the set in flight or the status changed, or a reconsideration is due. What a deliberation itself
fires and writes belongs to its base, so it cannot wake itself; changes that come meanwhile merge, none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from casehub.binding import Binding
from casehub.durations import duration
from casehub.errors import LoopControlError
from casehub.events import (
    DeliberationCancelled,
    DeliberationFailed,
    DeliberationFinished,
    DeliberationStarted,
    DeliberationTimedOut,
    Event,
    SelectionDropped,
    TimerCancelled,
    TimerFired,
    TimerId,
    TimerSet,
)
from casehub.inputs import Deliberated
from casehub.spi import Answer, Defer, LoopControl, Selection
from casehub.state import CaseState
from casehub.view import CaseView

FAILURES = 3
"""Failed deliberations in a row after which the case stalls until something changes."""
DROPS = 3
"""Drops in a row after which eligibility alone decides whether a chosen binding fires."""
BACKOFF = TimerId("deliberate:backoff")
DEFERRED = TimerId("deliberate:defer")

Stamps = Mapping[str, int]


@dataclass(slots=True)
class Deliberations:
    """The deliberations of one case in memory.

    `under_way`: the number of the one that is; `base`: what the last one was based on; `awaiting`: the event name that
    brings the next one; `refusal`: why the last one fired nothing, in words.
    """

    under_way: int | None = None
    base: object = None
    awaiting: str = ""
    refusal: str = "the loop control has not chosen it"
    asked: list[Binding] = field(default_factory=list)
    _reconsider: bool = False

    def observe(self, event: Event) -> None:
        """Note the events that make a reconsideration due."""
        if isinstance(event, TimerFired) and event.timer in (BACKOFF, DEFERRED):
            self._reconsider = True
        elif self.awaiting and any(kind.__dict__.get("name") == self.awaiting for kind in type(event).__mro__):
            self.awaiting = ""
            self._reconsider = True

    def due(self, state: CaseState, eligible: Sequence[Binding]) -> bool:
        """Whether the loop control is to be asked now."""
        if not eligible or self.under_way is not None or BACKOFF in state.timers:
            return False
        return self._reconsider or fingerprint(state, eligible) != self.base

    def start(self, state: CaseState, eligible: Sequence[Binding], position: int) -> Iterator[Event]:
        """Begin one. The pump asks once this is committed."""
        if state.deliberating:
            yield DeliberationCancelled(deliberation=state.deliberation)
        self.base = fingerprint(state, eligible)
        self.under_way = state.deliberation + 1
        self.asked = list(eligible)
        self.awaiting = ""
        self._reconsider = False
        if DEFERRED in state.timers:
            yield TimerCancelled(timer=DEFERRED)
        names = tuple(binding.name for binding in eligible)
        yield DeliberationStarted(deliberation=state.deliberation + 1, as_of=position, eligible=names)

    def cancel(self, state: CaseState) -> Iterator[Event]:
        """Call off the one under way: its answer will be void."""
        self.under_way = None
        self.base = None
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
        events: list[Event] = [
            DeliberationFinished(
                deliberation=number,
                chosen=tuple(input.chosen),
                rationale=input.rationale,
                as_of=input.as_of,
                seconds=input.seconds,
                deferred=bool(input.defer_on or input.defer_until),
            ),
            *(write for write in input.writes if isinstance(write, Event)),
        ]
        fire, dropped = _still_right(state, eligible, input)
        if dropped and input.strict:
            dropped += [
                SelectionDropped(binding=b.name, reason="another choice of a strict answer was dropped") for b in fire
            ]
            fire = []
        events += dropped
        if input.defer_until is not None:
            events.append(TimerSet(timer=DEFERRED, due=input.defer_until))
        self.awaiting = input.defer_on
        self.refusal = input.rationale or "the loop control has not chosen it"
        return events, fire

    def settle(self, state: CaseState, before: object, eligible: Sequence[Binding]) -> None:
        """After an answer: what it did itself belongs to its base; what had changed meanwhile does not."""
        if before == self.base:
            self.base = fingerprint(state, eligible)
        self.under_way = None

    def _failed(self, state: CaseState, input: Deliberated) -> Iterator[Event]:
        number = input.number
        if input.timed_out is not None:
            self.refusal = f"the loop control did not answer within {input.timed_out:g} s"
            yield DeliberationTimedOut(deliberation=number, limit=input.timed_out)
        else:
            error = input.error
            self.refusal = f"the loop control failed: {type(error).__name__}: {error}"
            yield DeliberationFailed(deliberation=number, error=type(error).__name__, message=str(error))
        if state.failed_deliberations + 1 < FAILURES:
            delay = timedelta(seconds=2**state.failed_deliberations)
            yield TimerSet(timer=BACKOFF, due=input.at + delay)


def fingerprint(state: CaseState, eligible: Sequence[Binding]) -> object:
    """What a deliberation is based on; another one is due when it changes."""
    return (
        tuple([(binding.name, tuple([state.stamp(name) for name in binding.reads])) for binding in eligible]),
        tuple(state.activations),
        state.status,
        len(state.held),
    )


def stamps_of(state: CaseState, eligible: Sequence[Binding]) -> dict[str, Stamps]:
    """For each binding the stamps of what it reads: what the loop control sees when it is asked."""
    return {binding.name: {name: state.stamp(name) for name in binding.reads} for binding in eligible}


def _still_right(
    state: CaseState, eligible: Mapping[str, Binding], input: Deliberated
) -> tuple[list[Binding], list[SelectionDropped]]:
    """Which choices fire, and which are dropped because the case has moved on."""
    fire: list[Binding] = []
    dropped: list[SelectionDropped] = []
    for name in input.chosen:
        binding = eligible.get(name)
        if binding is None:
            dropped.append(SelectionDropped(binding=name, reason="it is not eligible any more"))
            continue
        seen = input.stamps.get(name, {})
        changed = [fact for fact in binding.reads if state.stamp(fact) != seen.get(fact, 0)]
        if changed and state.firing(name).drops < DROPS:
            dropped.append(
                SelectionDropped(binding=name, reason=f"changed since the loop control saw it: {', '.join(changed)}")
            )
            continue
        fire.append(binding)
    return fire, dropped


def check_answer(loop: LoopControl, asked: Sequence[Binding], answer: object) -> tuple[list[Binding], Selection]:
    """An answer as a `Selection` of known bindings. Raises `LoopControlError` for anything that is no answer."""
    name = type(loop).__name__
    if isinstance(answer, Defer):
        selection = Selection(defer=answer)
    elif isinstance(answer, Selection):
        selection = answer
    elif isinstance(answer, Sequence) and not isinstance(answer, str):
        selection = Selection(chosen=answer)
    else:
        raise LoopControlError(f"select of {name} answered {answer!r}; answer with bindings, a Selection or Defer(...)")
    offered = {binding.name: binding for binding in asked}
    chosen: dict[str, Binding] = {}
    chosen_from: Sequence[object] = selection.chosen
    for binding in chosen_from:
        if not isinstance(binding, Binding) or binding.name not in offered:
            raise LoopControlError(
                f"the select of {name} chose {binding!r}, which is not eligible; only {sorted(offered)} are"
            )
        if binding.name in chosen:
            raise LoopControlError(f"select of {name} chose {binding.name!r} twice")
        chosen[binding.name] = offered[binding.name]
    return list(chosen.values()), selection


async def deliberate(
    loop: LoopControl, view: CaseView, asked: Sequence[Binding], number: int, stamps: Mapping[str, Stamps], as_of: int
) -> Deliberated:
    """Ask the loop control. What it raises becomes the input's `error`; deadlines are the caller's."""
    answer: Answer
    try:
        answer = await loop.select(view, list(asked))
        chosen, selection = check_answer(loop, asked, answer)
    except Exception as error:
        return Deliberated(number=number, error=error, by="loop")
    defer = selection.defer
    until = None
    if defer is not None:
        until = defer.until if defer.after is None else view.now + duration(defer.after)
    return Deliberated(
        number=number,
        chosen=tuple(binding.name for binding in chosen),
        rationale=selection.rationale,
        writes=tuple(selection.writes),
        stamps=stamps,
        as_of=as_of,
        strict=selection.strict,
        defer_until=until,
        defer_on="" if defer is None or defer.on is None else defer.on.name,
        by="loop",
    )
