"""What has to be true of a store after a run, whatever was done to it: one function an invariant, over plain data.

The numbers are those of `docs/reliability.md`. Each function yields a line for each thing that is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from casehub.events import (
    CaseCancelled,
    CaseId,
    CaseStarted,
    ContextChanged,
    Event,
    SignalReceived,
    TimerFired,
    WorkerExecutionCompleted,
    WorkerExecutionFinished,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.folding import apply, fold
from casehub.query import CaseSummary
from casehub.spi import DueTimer, LoopControl
from casehub.state import CaseState
from casehub.subcase import parent_of
from casehub.subcase_events import SubCaseEnded, SubCaseStarted
from casehub.task_events import HumanTaskClaimed, HumanTaskCompleted
from casehub.tasks import Task
from casehub.testing.evidence import differences
from tests.chaos.records import Deed, Effect

DONE_BY: Final[Mapping[str, type[Event]]] = {
    "start": CaseStarted,
    "signal": SignalReceived,
    "claim": HumanTaskClaimed,
    "complete": HumanTaskCompleted,
    "cancel": CaseCancelled,
}
"""The event that a deed comes to, by its verb."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a process holds."""

    tasks: int
    threads: int
    files: int


@dataclass(slots=True)
class Evidence:
    """Everything that a run has left.

    `events`: all of the store's, in the order of their positions; `live`: states as the last hub had them;
    `tasks`: those that are open; `letters`: the activations that are dead letters; `poisoned`: the cases that were given what nobody can do;
    `loops`: the loop controls by definition; `kept`: states as the snapshots have them; `effectful`: bindings whose workers leave an effect at each call; `hearings`: the positions that the durable
    subscriber was called with; `heard_kinds`: what it listens to; `before`, `after`: resources around the last hub; `beside`: how many hubs there were beside the one that was killed.
    """

    events: list[Event]
    cases: list[CaseSummary]
    timers: list[DueTimer]
    tasks: list[Task]
    live: list[CaseState]
    letters: list[str]
    deeds: list[Deed]
    effects: list[Effect]
    hearings: list[int]
    heard_kinds: tuple[type[Event], ...]
    effectful: Collection[str]
    poisoned: Collection[str]
    before: Resources
    after: Resources
    beside: int = 0
    loops: Mapping[str, LoopControl] = field(default_factory=dict[str, LoopControl])
    kept: list[CaseState] = field(default_factory=list[CaseState])
    logs: dict[CaseId, list[Event]] = field(init=False)
    states: dict[CaseId, CaseState] = field(init=False)

    def __post_init__(self) -> None:
        self.read()

    def read(self) -> None:
        """Sort the log by case, and fold it."""
        self.logs = defaultdict(list)
        for event in self.events:
            self.logs[event.case].append(event)
        self.states = {case: self._folded(case, log) for case, log in self.logs.items()}

    def upto(self, case: CaseId, version: int) -> CaseState:
        """What a case was at a version."""
        return self._folded(case, self.logs[case][:version])

    def _folded(self, case: CaseId, log: Sequence[Event]) -> CaseState:
        state = CaseState(case)
        loop = self.loops.get(log[0].definition)
        if loop is None:
            return fold(case, log, state)
        state.control = loop.initial()
        for event in log:
            apply(state, event)
            if type(event) in loop.handles:
                state.control = loop.apply(state.control, event)
        return state


def acknowledged_is_in_the_log(found: Evidence) -> Iterator[str]:
    """I1"""
    done = {(event.case, type(event), event.by) for event in found.events}
    for deed in found.deeds:
        if deed.answer == "acked" and (deed.case, DONE_BY[deed.verb], deed.by) not in done:
            yield f"{deed.verb} of case {deed.case} by {deed.by} was acknowledged and is not in the log"


def positions_are_dense(found: Evidence) -> Iterator[str]:
    """I2"""
    positions = [event.seq for event in found.events]
    if positions != list(range(1, len(positions) + 1)):
        yield f"{len(positions)} events have the positions {positions[:1]} to {positions[-1:]}"
    for case, log in found.logs.items():
        if [event.version for event in log] != list(range(1, len(log) + 1)):
            yield f"the versions of case {case} are {[event.version for event in log]}"
    if (versions := {each.case: each.version for each in found.cases}) != {
        c: len(log) for c, log in found.logs.items()
    }:
        yield f"the rows of cases are not those of the log: {sorted(versions.items())[:5]}"


def state_is_the_fold_of_the_log(found: Evidence) -> Iterator[str]:
    """I3"""
    for live in found.live:
        state = found.states.get(live.id)
        for difference in differences(state, live):
            yield f"case {live.id} in memory is not what its log folds to: {difference}"
    for kept in found.kept:
        for difference in differences(found.upto(kept.id, kept.version), kept):
            yield f"the snapshot of case {kept.id}@{kept.version} is not what the log folds to: {difference}"
    for row in found.cases:
        state = found.states.get(row.case)
        if state is not None and (state.status, bool(state.stalled)) != (row.status, row.stalled):
            yield f"the row of case {row.case} says {row.status}, its log {state.status}"
    kept = Counter((timer.case, timer.timer, timer.due) for timer in found.timers)
    told = Counter((state.id, timer, due) for state in found.states.values() for timer, due in state.timers.items())
    for timer in (kept - told) + (told - kept):
        yield f"timer {timer} is in the log or in the table, and not in both"
    open_tasks = {task.id for state in found.states.values() for task in state.tasks.open.values()}
    for task in {task.id for task in found.tasks} ^ open_tasks:
        yield f"task {task} is open in the log or in the list, and not in both"


def results_are_applied_once(found: Evidence) -> Iterator[str]:
    """I4"""
    for case, log in found.logs.items():
        settled = Counter(
            event.activation for event in log if isinstance(event, WorkerExecutionFinished) and event.settled
        )
        yield from (f"{activation} was settled {times} times" for activation, times in settled.items() if times > 1)
        written = Counter((e.turn, e.binding) for e in log if isinstance(e, ContextChanged) and e.binding)
        yield from (f"{case}: what {who} returned was written {n} times" for (_, who), n in written.items() if n > 1)
        for event in log:
            if (
                isinstance(event, WorkerExecutionCompleted)
                and not written[event.turn, event.binding]
                and _news(log, event)
            ):
                yield f"the result of {event.activation} was never written"
        done = Counter(_deed_of(event) for event in log if type(event) in DONE_BY.values())
        yield from (f"{deed} was done {times} times" for deed, times in done.items() if times > 1)
        occurrences = Counter((event.timer, event.due) for event in log if isinstance(event, TimerFired) and event.due)
        yield from (f"timer {timer} of {case} fired {n} times" for timer, n in occurrences.items() if n > 1)
        children = Counter(event.child for event in log if isinstance(event, SubCaseEnded))
        yield from (f"the end of {child} was heard {n} times" for child, n in children.items() if n > 1)


def effects_have_one_key(found: Evidence) -> Iterator[str]:
    """I5. No binding of a chaos run fires again on the facts that it has fired on, and nothing is compensated."""
    done = {effect.key for effect in found.effects}
    for event in found.events:
        if (
            isinstance(event, WorkerExecutionCompleted)
            and event.binding in found.effectful
            and event.activation not in done
        ):
            yield f"{event.activation} has completed and left no effect"
    begun = {(e.activation, e.attempt) for e in found.events if isinstance(e, WorkerExecutionStarted)}
    for effect in found.effects:
        if (effect.key, effect.attempt) not in begun:
            yield f"attempt {effect.attempt} of {effect.key} had an effect and was never recorded as begun"
    scheduled = Counter(event.activation for event in found.events if isinstance(event, WorkerScheduled))
    yield from (f"{activation} was scheduled {n} times" for activation, n in scheduled.items() if n > 1)
    for case, log in found.logs.items():
        completed = {event.activation for event in log if isinstance(event, WorkerExecutionCompleted)}
        earlier: dict[Any, str] = {}
        for event in log:
            if isinstance(event, WorkerScheduled):
                seen = event.binding, frozenset(event.stamps.items()), event.occurrence, event.due
                if (before := earlier.get(seen)) in completed:
                    yield f"{event.activation} of case {case} repeats {before}, which has completed on the same facts"
                else:
                    earlier[seen] = event.activation


def owners_do_not_overlap(found: Evidence) -> Iterator[str]:
    """I6"""
    once = Counter((effect.key, effect.attempt) for effect in found.effects)
    yield from (f"attempt {attempt} of {key} was called {n} times" for (key, attempt), n in once.items() if n > 1)
    if found.beside:
        return  # a case may go back and forth between hubs that live
    gone: set[tuple[str, int]] = set()
    last: dict[str, int] = {}
    for effect in found.effects:
        case = effect.key.rsplit("/", 2)[0]
        before = last.get(case)
        if before is not None and before != effect.pid:
            gone.add((case, before))
        if (case, effect.pid) in gone:
            yield f"process {effect.pid} worked case {case} after another had taken it over"
        last[case] = effect.pid


def nothing_is_stuck(found: Evidence) -> Iterator[str]:
    """I7"""
    for case, state in found.states.items():
        if not state.status.ended and case not in found.poisoned:
            waits = [*state.tasks.open, *state.timers, *(child.id for child in state.children.open())]
            yield f"case {case} is {state.status} and has not come to its end; it waits for {waits or 'nobody'}"


def subscribers_missed_nothing(found: Evidence) -> Iterator[str]:
    """I9"""
    said = [event.seq for event in found.events if isinstance(event, found.heard_kinds)]
    firsts = list(dict.fromkeys(found.hearings))
    if firsts != said:
        missed = sorted(set(said) - set(firsts))
        made_up = sorted(set(firsts) - set(said))
        yield f"the durable subscriber missed {missed[:5]}, heard of {made_up[:5]} that is not, or heard out of order"


def dead_letters_are_the_poison(found: Evidence) -> Iterator[str]:
    """I10"""
    put_in = {case for case in found.poisoned if case in found.logs and not found.states[case].status.ended}
    taken_out = Counter(letter.rsplit("/", 2)[0] for letter in found.letters)
    for case in put_in ^ taken_out.keys():
        yield f"case {case} was given poison or has a dead letter, and not both"
    yield from (f"case {case} has {n} dead letters" for case, n in taken_out.items() if n > 1)


def nothing_is_made_up(found: Evidence) -> Iterator[str]:
    """I11"""
    asked = {(deed.case, DONE_BY[deed.verb], deed.by): deed for deed in found.deeds}
    sub_cases = {event.child: event for event in found.events if isinstance(event, SubCaseStarted)}
    for event in found.events:
        if isinstance(event, CaseStarted) and (parent := parent_of(event.case)) is not None:
            if event.case not in sub_cases or sub_cases[event.case].case != parent:
                yield f"case {event.case} was started, and its parent does not know"
        elif type(event) in DONE_BY.values() and event.by.startswith("user") and _deed_of(event) not in asked:
            yield f"{event.name} of case {event.case} by {event.by} is in the log, and nobody asked for it"
    for case, log in found.logs.items():
        turns: dict[int, datetime] = {}
        for event in log:
            if turns.setdefault(event.turn, event.at) != event.at:
                yield f"turn {event.turn} of case {case} has two times"
        for event in log:
            deed = asked.get(_deed_of(event))
            if isinstance(event, SignalReceived) and deed is not None:
                brought = next((e.facts for e in log if isinstance(e, ContextChanged) and e.cause == event.version), {})
                if brought != deed.facts:
                    yield f"signal {deed.by} of case {case} brought {brought}, and {deed.facts} was asked for"


def nothing_is_held(found: Evidence) -> Iterator[str]:
    """I12"""
    for name in ("tasks", "threads", "files"):
        before, after = getattr(found.before, name), getattr(found.after, name)
        if after > before:
            yield f"{after} {name} after the hub was left, {before} before it was made"


INVARIANTS: Final[Mapping[str, Callable[[Evidence], Iterator[str]]]] = {
    "I1": acknowledged_is_in_the_log,
    "I2": positions_are_dense,
    "I3": state_is_the_fold_of_the_log,
    "I4": results_are_applied_once,
    "I5": effects_have_one_key,
    "I6": owners_do_not_overlap,
    "I7": nothing_is_stuck,
    "I9": subscribers_missed_nothing,
    "I10": dead_letters_are_the_poison,
    "I11": nothing_is_made_up,
    "I12": nothing_is_held,
}


def check(found: Evidence) -> dict[str, list[str]]:
    """What is wrong, by invariant; empty where nothing is."""
    problems = {name: list(invariant(found)) for name, invariant in INVARIANTS.items()}
    return {name: lines for name, lines in problems.items() if lines}


def _deed_of(event: Event) -> tuple[str, type[Event], str]:
    return event.case, type(event), event.by


def _news(log: Sequence[Event], event: WorkerExecutionCompleted) -> bool:
    """Whether a worker wrote a fact that had not been there."""
    facts = fold(event.case, [each for each in log if each.version < event.version]).facts
    return any(name not in facts for name in event.wrote)
