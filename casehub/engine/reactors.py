"""What follows from an event: pure functions from the state and the event to events, looked up by the event's class.

A reactor sees the state with the event already in it. What it returns is recorded and reacted to in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from casehub.compensation import DEADLINE
from casehub.engine.agenda import holds, touched
from casehub.engine.attempts import take_up_again, try_again
from casehub.engine.children import expire_children, release_children, start_children
from casehub.engine.compensating import cut_short
from casehub.engine.gates import decide
from casehub.engine.people import clear_timers, close_tasks, delegate, set_timers
from casehub.engine.quarantine import come_to_its_end
from casehub.envelope import subtypes
from casehub.events import (
    ContextChanged,
    Event,
    GoalReached,
    MilestoneActivated,
    MilestoneReached,
    MilestoneSlaViolated,
    TimerCancelled,
    TimerFired,
    TimerId,
    TimerSet,
    WorkerExecutionFinished,
    WorkerExecutionStarted,
    WorkerReleased,
)
from casehub.goals import Goal, Milestone
from casehub.lifecycle import MilestoneStatus, SlaStatus
from casehub.sentry import Present
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.task_events import HumanTaskCreated, HumanTaskEnded

T = TypeVar("T")
Reactor = Callable[[CaseState, Structure, Any], Iterable[Event]]


def at_start(state: CaseState, structure: Structure) -> Iterator[Event]:
    """Once the facts that a case starts with are there, or those it has meet another structure: milestones without an
    entry criterion are awaited, and conditions that hold already are tested, as if everything had changed. A case that
    compensates tests nothing any more."""
    if state.compensations.ending is not None:
        return
    for milestone in structure.milestones.values():
        if milestone.entry is None and state.milestone(milestone.name).status is MilestoneStatus.PENDING:
            yield from _activate(state, milestone)
    yield from list(_try_milestones(state, structure.milestones.values()))
    yield from _try_goals(state, structure.goals.values())


def try_milestones(state: CaseState, structure: Structure, event: ContextChanged) -> Iterable[Event]:
    """Milestones that read a changed fact; a case that compensates tests nothing any more."""
    concerned = _concerned(structure.milestones_of, event)
    return _try_milestones(state, concerned) if concerned and state.compensations.ending is None else ()


def _try_milestones(state: CaseState, concerned: Iterable[Milestone]) -> Iterator[Event]:
    for milestone in concerned:
        status = state.milestone(milestone.name).status
        if status is MilestoneStatus.PENDING:
            if milestone.entry is not None and holds(milestone.entry, state, "the entry of milestone", milestone.name):
                yield from _activate(state, milestone)
        elif status is MilestoneStatus.ACTIVE:
            yield from _reach(state, milestone)


def try_activated_milestone(state: CaseState, structure: Structure, event: MilestoneActivated) -> Iterable[Event]:
    """A milestone whose criterion holds already when it becomes active is reached at once."""
    return _reach(state, structure.milestones[event.milestone])


def stop_sla(state: CaseState, structure: Structure, event: MilestoneReached) -> Iterator[Event]:
    """A reached milestone needs its timer no more."""
    timer = TimerId(f"sla:{event.milestone}")
    if timer in state.timers:
        yield TimerCancelled(timer=timer)


def try_goals(state: CaseState, structure: Structure, event: ContextChanged) -> Iterable[Event]:
    """Goals that read a changed fact and have not been reached."""
    if state.purpose and state.purpose not in structure.goals:
        return _try_purpose(state, structure, event)
    concerned = _concerned(structure.goals_of, event)
    return _try_goals(state, concerned) if concerned and state.compensations.ending is None else ()


def _try_purpose(state: CaseState, structure: Structure, event: ContextChanged) -> Iterator[Event]:
    """The goals, and the fact that the case was started for."""
    if state.compensations.ending is None:
        yield from _try_goals(state, _concerned(structure.goals_of, event))
        if state.purpose not in state.goals and holds(Present(state.purpose), state, "goal", state.purpose):
            yield GoalReached(goal=state.purpose)


def _try_goals(state: CaseState, concerned: Iterable[Goal]) -> Iterable[Event]:
    return [
        GoalReached(goal=goal.name)
        for goal in concerned
        if goal.name not in state.goals and holds(goal.when, state, "goal", goal.name)
    ]


def try_what_waited(state: CaseState, structure: Structure, event: MilestoneReached) -> Iterator[Event]:
    """Milestones and goals that waited for this one. What would hold without it has been told by what made it hold."""
    name = event.milestone
    milestones, goals = structure.milestones_awaiting.get(name, ()), structure.goals_awaiting.get(name, ())
    if (milestones or goals) and state.compensations.ending is None:
        before = replace(state, milestones={each: known for each, known in state.milestones.items() if each != name})
        told = {_about(each) for each in (*_try_milestones(before, milestones), *_try_goals(before, goals))}
        for each in (*_try_milestones(state, milestones), *_try_goals(state, goals)):
            if _about(each) not in told:
                yield each


def _about(event: Event) -> tuple[str, str]:
    return event.name, getattr(event, "milestone", "") or getattr(event, "goal", "")


def take_timer(state: CaseState, structure: Structure, event: TimerFired) -> Iterator[Event]:
    """What a timer was set for: a service level, the next attempt of a worker, the end of a quarantine, the time that
    a case has to compensate."""
    purpose, _, name = event.timer.partition(":")
    if purpose == "sla" and state.milestone(name).status is MilestoneStatus.ACTIVE:
        yield MilestoneSlaViolated(milestone=name, by=f"timer:{event.timer}")
    elif event.timer == DEADLINE:
        yield from cut_short(state)
    elif purpose == "quarantine":
        yield from come_to_its_end(state, event.timer)
    elif purpose == "retry" and state.status.working:
        yield from try_again(state, event, name)


def _activate(state: CaseState, milestone: Milestone) -> Iterator[Event]:
    # The timer first: a milestone that is reached as soon as it is active cancels it.
    if milestone.sla is not None and state.changed_at is not None:
        yield TimerSet(timer=TimerId(f"sla:{milestone.name}"), due=state.changed_at + milestone.sla)
    yield MilestoneActivated(milestone=milestone.name)


def _reach(state: CaseState, milestone: Milestone) -> Iterator[Event]:
    if holds(milestone.when, state, "milestone", milestone.name):
        yield MilestoneReached(milestone=milestone.name, late=state.milestone(milestone.name).sla is SlaStatus.BREACHED)


def _concerned(index: dict[str, tuple[T, ...]], event: ContextChanged) -> Collection[T]:
    """The things that read a fact which the event touches, each once."""
    if not index or index.keys().isdisjoint(names := touched(event)):
        return ()
    found: dict[int, T] = {}
    for name in names:
        for thing in index.get(name, ()):
            found[id(thing)] = thing
    return found.values()


REACTORS: dict[type[Event], tuple[Reactor, ...]] = {
    ContextChanged: (try_milestones, try_goals),
    MilestoneActivated: (try_activated_milestone,),
    MilestoneReached: (stop_sla, try_what_waited),
    TimerFired: (take_timer, expire_children),
    WorkerExecutionStarted: (delegate, start_children),
    **dict.fromkeys(subtypes(WorkerExecutionFinished), (close_tasks, release_children)),
    WorkerReleased: (take_up_again,),
    HumanTaskCreated: (set_timers,),
    **dict.fromkeys(subtypes(HumanTaskEnded), (clear_timers, decide)),
}
