"""The agenda of a case: which bindings are eligible, and what holds the others back.

Only bindings that something happened to are judged again: a change costs what it touches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from casehub.activation import Firing
from casehub.binding import Binding
from casehub.context import Fact
from casehub.engine.limits import held_back, hold
from casehub.engine.timekeeping import due_of, occurred, upcoming
from casehub.engine.undoing import said_of
from casehub.envelope import subtypes
from casehub.errors import CaseHubError
from casehub.events import (
    ActivationId,
    CaseStarted,
    CaseStatusChanged,
    ContextChanged,
    DeadLetterRetried,
    Event,
    MilestoneReached,
    SignalReceived,
    TimerFired,
    WorkerExecutionFinished,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.explanation import Explanation, Verdict
from casehub.lifecycle import ActivationStatus, CaseStatus
from casehub.policies import Refire
from casehub.query import concrete
from casehub.sentry import Sentry, StateFacts, unmet
from casehub.spi import LoopControl
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.values import ABSENT, shown


class GuardError(CaseHubError):
    """A condition of the definition raised. `subject` names where it stands."""

    def __init__(self, subject: str, error: Exception) -> None:
        self.subject = subject
        super().__init__(
            f"{subject} raised {type(error).__name__}: {error}; mend the condition and start the case again"
        )


def holds(sentry: Sentry, state: CaseState, of: str, name: str = "") -> bool:
    """Whether the condition of something holds now. Raises `GuardError` when a function in it raises."""
    try:
        return sentry.holds(StateFacts(state))
    except Exception as error:
        raise GuardError(f"{of} {name!r}" if name else of, error) from error


class Agenda:
    """The eligible bindings of one case, kept up to date by its events.

    `eligible`: by name; beside it they are kept in order of declaration, so that asking for them sorts nothing.
    """

    __slots__ = ("_dirty", "_ordered", "_places", "_structure", "eligible")

    def __init__(self, structure: Structure, state: CaseState) -> None:
        self._structure = structure
        self._dirty: dict[str, Binding] = dict(structure.unrequiring)
        for fact in state.facts:
            for binding in structure.readers.get(fact, ()):
                self._dirty[binding.name] = binding
        self.eligible: dict[str, Binding] = {}
        self._places: list[int] = []
        self._ordered: list[Binding] = []

    def observe(self, event: Event) -> None:
        """Note which bindings an event may have changed the answer for."""
        kind = type(event)
        look = OBSERVERS.get(kind)
        if look is not None:
            look(self, event)
        self.occurred(kind)

    def occurred(self, kind: type[Event]) -> None:
        """Note the bindings that wait for an event of a class."""
        triggered = self._structure.triggered
        for base in kind.__mro__:
            for binding in triggered.get(base, ()):
                self._dirty[binding.name] = binding

    def _context_changed(self, event: ContextChanged) -> None:
        readers, dirty = self._structure.readers, self._dirty
        for name in touched(event):
            for binding in readers.get(name, ()):
                dirty[binding.name] = binding

    def _scheduled(self, event: WorkerScheduled) -> None:
        self._remove(event.binding)

    def _settled(self, event: WorkerExecutionFinished | DeadLetterRetried) -> None:
        self._touch(event.binding)
        for binding in self._structure.triggered_by_fault.get(event.binding, ()):
            self._dirty[binding.name] = binding

    def _status_changed(self, event: CaseStatusChanged) -> None:
        if event.before.active != event.after.active:
            self._dirty.update(self._structure.bindings)

    def _milestone_reached(self, event: MilestoneReached) -> None:
        for binding in self._structure.awaiting.get(event.milestone, ()):
            self._dirty[binding.name] = binding

    def _signal_received(self, event: SignalReceived) -> None:
        for signal in event.signals:
            for binding in self._structure.triggered_by_signal.get(signal, ()):
                self._dirty[binding.name] = binding

    def _timer_fired(self, event: TimerFired) -> None:
        timed = self._structure.timed.get(event.timer)
        if timed is not None:
            self._dirty[timed[0].name] = timed[0]

    def _touch(self, name: str) -> None:
        binding = self._structure.bindings.get(name)
        if binding is not None:
            self._dirty[name] = binding

    def refresh(self, state: CaseState) -> Sequence[Binding]:
        """The eligible bindings, in order of declaration, until the next event. Raises `GuardError`."""
        if self._dirty:
            for name, binding in self._dirty.items():
                if judge(state, binding) is not Verdict.ELIGIBLE:
                    self._remove(name)
                elif name not in self.eligible:
                    self.eligible[name] = binding
                    place = self._structure.order[name]
                    at = bisect_left(self._places, place)
                    self._places.insert(at, place)
                    self._ordered.insert(at, binding)
            self._dirty.clear()
        return self._ordered

    def _remove(self, name: str) -> None:
        if self.eligible.pop(name, None) is not None:
            at = bisect_left(self._places, self._structure.order[name])
            del self._places[at], self._ordered[at]


Observer = Callable[[Agenda, Any], None]
OBSERVERS: Mapping[type[Event], Observer] = {
    ContextChanged: Agenda._context_changed,
    WorkerScheduled: Agenda._scheduled,
    SignalReceived: Agenda._signal_received,
    MilestoneReached: Agenda._milestone_reached,
    TimerFired: Agenda._timer_fired,
    DeadLetterRetried: Agenda._settled,
    **dict.fromkeys(subtypes(WorkerExecutionFinished), Agenda._settled),
    # All but a case's start: then nothing has been judged, so nothing has to be judged anew.
    **dict.fromkeys(set(subtypes(CaseStatusChanged)) - {CaseStarted}, Agenda._status_changed),
}


def touched(event: ContextChanged) -> tuple[str, ...]:
    """The names of all facts that a change is about."""
    if not (event.deleted or event.hidden or event.shown):
        return tuple(event.facts)
    return (*event.facts, *event.deleted, *event.hidden, *event.shown)


def judge(state: CaseState, binding: Binding) -> Verdict:
    """What a binding's own condition says: its facts, its guard, whether anything changed. Raises `GuardError`."""
    facts = state.facts
    firing = state.firings.get(binding.name)
    if firing is not None and firing.in_flight is not None:
        activation = state.activations[firing.in_flight]
        return Verdict.RETRY_WAIT if activation.status is ActivationStatus.PENDING else Verdict.IN_FLIGHT
    if binding.policy.compensates:
        return Verdict.COMPENSATION
    for name in binding.requires:
        fact = facts.get(name)
        if fact is None or fact.value is ABSENT or fact.hidden:
            return Verdict.MISSING_FACTS
    if not _changed(state, binding, firing):
        return Verdict.UNCHANGED
    if binding.when is not None and not holds(binding.when, state, "the guard of binding", binding.name):
        return Verdict.GUARD_FALSE
    return Verdict.ELIGIBLE


def _changed(state: CaseState, binding: Binding, firing: Firing | None) -> bool:
    seen = None if firing is None else firing.stamps
    if not binding.by_reads:
        refire, on = binding.policy.refire, binding.on
        if refire is Refire.ONCE and seen is not None:
            return False
        if on.occurs and occurrence(state, binding) > (0 if firing is None else firing.occurrence):
            return True
        if seen is None:
            return any(state.stamp(name) for name in on.facts) if on.facts else not on.occurs
        if refire is Refire.ALWAYS and not on.occurs:
            return True
    if seen is None:
        return True
    facts = state.facts
    for name in binding.watches:
        fact = facts.get(name)
        if (0 if fact is None else fact.stamp) != seen.get(name, 0):
            return True
    return False


def occurrence(state: CaseState, binding: Binding) -> int:
    """The version of the latest event, signal, timer or failure that triggers a binding; 0 before the first."""
    on = binding.on
    occurrences = state.occurrences
    latest = 0
    if on.events:
        latest = max((occurrences.get(name, 0) for name in concrete(on.events)), default=0)
    for signal in on.signals:
        latest = max(latest, occurrences.get(f"SIGNAL_RECEIVED:{signal}", 0))
    for other in on.faulted:
        latest = max(latest, occurrences.get(f"FAULTED:{other}", 0))
    return max(latest, occurred(state, binding)) if on.times else latest


def schedule(state: CaseState, binding: Binding) -> Iterator[Event]:
    """The activation of a binding and its first attempt, with what it reads as it is now."""
    scheduled = scheduling(state, binding, state.facts)
    yield scheduled
    yield first_attempt(scheduled, state.version)


def next_activation(state: CaseState, binding: str) -> ActivationId:
    """The id that the next activation of a binding has."""
    firing = state.firings.get(binding)
    return ActivationId(f"{state.id}/{binding}/{1 if firing is None else firing.count + 1}")


def scheduling(state: CaseState, binding: Binding, facts: Mapping[str, Fact]) -> WorkerScheduled:
    """The next activation of a binding, which sees these facts."""
    firing = state.firings.get(binding.name)
    worker = (
        binding.workers[0].name if firing is None or not firing.wanted else binding.worker_named(firing.wanted).name
    )
    if worker in state.quarantined:
        worker = next((each.name for each in binding.workers if each.name not in state.quarantined), worker)
    stamps = {name: 0 if (fact := facts.get(name)) is None else fact.stamp for name in binding.reads}
    return WorkerScheduled(
        binding=binding.name,
        activation=next_activation(state, binding.name),
        worker=worker,
        stamps=stamps,
        occurrence=occurrence(state, binding) if binding.on.occurs else 0,
        due=due_of(state, binding) if binding.on.times else None,
        cause=max(stamps.values(), default=0),
    )


def first_attempt(scheduled: WorkerScheduled, cause: int) -> WorkerExecutionStarted:
    """The first attempt of an activation that has just been made."""
    return WorkerExecutionStarted(
        binding=scheduled.binding,
        activation=scheduled.activation,
        worker=scheduled.worker,
        attempt=1,
        cause=cause,
    )


def explain(state: CaseState, structure: Structure, loop: LoopControl, binding: Binding) -> Explanation:
    """The verdict on one binding with the facts concerned."""
    name = binding.name

    def said(verdict: Verdict, text: str, facts: Iterable[str] = ()) -> Explanation:
        values = {
            fact: None if (f := state.facts.get(fact)) is None or not f.visible else shown(f.value) for fact in facts
        }
        return Explanation(name, verdict, text, values)

    if state.status.ended:
        again = "; 'casehub case unfault' lets it go on" if state.status is CaseStatus.FAULTED else ""
        return said(Verdict.ENDED, f"the case is {state.status}{again}")
    ending = state.compensations.ending
    if not state.status.working:
        return said(Verdict.SUSPENDED, f"the case is {state.status}; resume it")
    if ending is not None and not binding.compensates:
        return said(Verdict.COMPENSATING, f"the case undoes what it did, and will be {ending.status}: {ending.reason}")
    try:
        verdict = judge(state, binding)
    except GuardError as error:
        return said(Verdict.GUARD_FALSE, str(error), binding.reads)
    if verdict is Verdict.MISSING_FACTS:
        facts = StateFacts(state)
        missing = [fact for fact in binding.requires if not facts.visible(fact)]
        return said(verdict, f"needs {', '.join(_source(structure, state, fact) for fact in missing)}", missing)
    if verdict is Verdict.GUARD_FALSE and binding.when is not None:
        return said(verdict, f"its guard {unmet(binding.when, StateFacts(state))}", sorted(binding.when.reads))
    if verdict is Verdict.COMPENSATION:
        return said(verdict, said_of(state, binding))
    if verdict is Verdict.UNCHANGED and (awaited := upcoming(state, structure, loop, binding)):
        return said(verdict, awaited)
    if verdict is Verdict.UNCHANGED:
        firing = state.firings.get(name)
        if firing is None or firing.stamps is None:
            return said(verdict, "what triggers it has not happened", binding.on.facts)
        failed = (
            f" ({firing.outcome}{': ' if firing.detail else ''}{firing.detail})"
            if firing.then.startswith("fault")
            else ""
        )
        return said(verdict, f"has run on these facts{failed}", binding.watches)
    if verdict is Verdict.RETRY_WAIT:
        return said(verdict, "an attempt is over, and the next one waits for its time")
    if verdict is Verdict.IN_FLIGHT:
        asked = [task.where for task in state.tasks.open.values() if task.binding == name]
        asked += [f"waits for sub-case {child.id}" for child in state.children.open() if child.binding == name]
        return said(verdict, ", ".join(asked[:3]) or "is running")
    held = hold(state, structure, loop, binding)
    if held is not None:
        return said(held[0], held_back(held))
    return said(Verdict.ELIGIBLE, "may fire", binding.reads)


def _source(structure: Structure, state: CaseState, fact: str) -> str:
    writers = [binding.name for binding in structure.writers(fact)]
    known = state.facts.get(fact)
    why = "" if known is None else " (hidden)" if known.hidden else f" (deleted by {known.author})"
    if writers:
        return f"{fact!r}{why}, which {' or '.join(writers)} would write"
    if fact in structure.brought:
        return f"{fact!r}{why}, which a signal would bring"
    return f"{fact!r}{why}, which nobody writes"
