"""Schedules at work: which timers a case has for them, and what a timer that comes due is.

A schedule has at most one timer, the one of its next occurrence. It is set once the binding has taken the last one and
is done with it, so a case that cannot use an occurrence collects none, and one that was held up finds the time of the
next one in the past: then its policy for catching up decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from casehub.binding import Binding
from casehub.engine.staging import closed
from casehub.events import Event, TimerCancelled, TimerFired, TimerId, TimerSet
from casehub.policies import Refire
from casehub.schedule import PURPOSE, At, CatchUp, Schedule, moment_of
from casehub.spi import LoopControl
from casehub.state import CaseState
from casehub.structure import Structure

GRACE: Final = timedelta(minutes=1)
"""How late an occurrence may be taken and count as taken at its time."""
MOST: Final = 100
"""Occurrences that `catch_up="all"` makes up for; the earlier ones fall out."""


def wind(state: CaseState, structure: Structure, loop: LoopControl) -> Iterator[Event]:
    """Set and cancel the timers of schedules, so that they are what the state calls for."""
    for timer in list(state.timers):
        if timer.startswith(f"{PURPOSE}:") and timer not in structure.timed:
            yield TimerCancelled(timer=timer)
    for timer, (binding, schedule) in structure.timed.items():
        due = _next(state, structure, loop, binding, schedule, timer)
        known = state.timers.get(timer)
        if due is None:
            if known is not None:
                yield TimerCancelled(timer=timer)
        elif known is None and not _busy(state, binding):
            fresh = not schedule.since and timer not in state.anchors
            yield TimerSet(timer=timer, due=due, since=state.changed_at if fresh else None)
        elif known is not None and due != known:
            yield TimerSet(timer=timer, due=due)


def strike(state: CaseState, structure: Structure, timer: TimerId, now: datetime) -> TimerFired:
    """The event of a timer that has come due: of a schedule's, which of its occurrences it is."""
    by = f"timer:{timer}"
    timed = structure.timed.get(timer)
    if timed is None:
        return TimerFired(timer=timer, by=by)
    binding, schedule = timed
    first = state.timers[timer]
    passed = schedule.passed(_start(state, schedule, timer) or first, first, now)
    if schedule.catch_up == CatchUp.ALL:
        kept = passed[-MOST:]
        return TimerFired(timer=timer, due=kept[0], missed=len(passed) - len(kept), by=by)
    due = passed[-1]
    late = now - due > GRACE or _busy(state, binding)
    skipped = late and schedule.catch_up == CatchUp.SKIP
    return TimerFired(timer=timer, due=due, missed=len(passed) - 1, skipped=skipped, by=by)


def occurred(state: CaseState, binding: Binding) -> int:
    """The version of the latest occurrence of a binding's schedules; 0 before the first."""
    return max((_stamp(state, each.timer(binding.name)) for each in binding.on.times), default=0)


def due_of(state: CaseState, binding: Binding) -> datetime | None:
    """The time of the occurrence that an activation made now is for; None when it is for none."""
    latest = max((each.timer(binding.name) for each in binding.on.times), key=lambda timer: _stamp(state, timer))
    taken = 0 if (firing := state.firings.get(binding.name)) is None else firing.occurrence
    return state.occurred.get(latest) if _stamp(state, latest) > taken else None


def upcoming(state: CaseState, structure: Structure, loop: LoopControl, binding: Binding) -> str:
    """When the next occurrence of a binding's schedules is due, or why none is, in words; empty without schedules."""
    due: list[tuple[datetime, Schedule]] = []
    why: list[str] = []
    for schedule in binding.on.times:
        timer = schedule.timer(binding.name)
        if timer in state.timers:
            due.append((state.timers[timer], schedule))
        elif (held := closed(state, structure, loop, binding)) is not None:
            why.append(f"{schedule}: {held}")
        elif schedule.since and _start(state, schedule, timer) is None:
            why.append(f"{schedule}: {_no_start(state, structure, schedule)}")
        else:
            why.append(f"{schedule}: has no further occurrence")
    if not due:
        return "; ".join(why)
    moment, schedule = min(due, key=lambda entry: entry[0])
    return f"its next occurrence is due {moment:%Y-%m-%d %H:%M:%SZ} ({schedule})"


def _next(
    state: CaseState, structure: Structure, loop: LoopControl, binding: Binding, schedule: Schedule, timer: TimerId
) -> datetime | None:
    """When the next occurrence of a schedule is due; None while it is not in force, and when none is left."""
    if not state.status.active or closed(state, structure, loop, binding) is not None:
        return None
    firing = state.firings.get(binding.name)
    if binding.policy.refire is Refire.ONCE and firing is not None and firing.stamps is not None:
        return None
    start = _start(state, schedule, timer)
    return None if start is None else schedule.following(start, state.occurred.get(timer))


def _start(state: CaseState, schedule: Schedule, timer: TimerId) -> datetime | None:
    """Where a schedule counts from; None while that is not known."""
    if isinstance(schedule, At) and schedule.moment is not None:
        return schedule.moment
    if not schedule.since:
        return state.anchors.get(timer) or state.changed_at
    milestone = state.milestones.get(schedule.since)
    if milestone is not None:
        return milestone.at
    fact = state.facts.get(schedule.since)
    if fact is None or not fact.visible:
        return None
    return moment_of(fact.value) if isinstance(schedule, At) else fact.at


def _no_start(state: CaseState, structure: Structure, schedule: Schedule) -> str:
    """Why it is not known where a schedule counts from."""
    name = schedule.since
    if name in structure.milestones:
        return f"milestone {name!r} is not reached"
    fact = state.facts.get(name)
    if fact is None or not fact.visible:
        return f"fact {name!r} is not there"
    return f"fact {name!r} is {fact.value!r}, which is no moment; write ISO 8601 with an offset"


def _busy(state: CaseState, binding: Binding) -> bool:
    """Whether a binding has an occurrence that it has not taken, or is at work."""
    firing = state.firings.get(binding.name)
    if firing is None:
        return occurred(state, binding) > 0
    return firing.in_flight is not None or occurred(state, binding) > firing.occurrence


def _stamp(state: CaseState, timer: TimerId) -> int:
    return state.occurrences.get(f"TIMER_FIRED:{timer}", 0)
