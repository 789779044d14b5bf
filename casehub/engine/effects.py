"""What an event of a class does beyond its fold: to the agenda, by the reactors, to the turn. One look-up for each event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from casehub.engine.agenda import OBSERVERS, Observer
from casehub.engine.endings import fault_of
from casehub.engine.reactors import REACTORS, Reactor
from casehub.envelope import subtypes
from casehub.events import (
    CaseFaulted,
    DefinitionAdopted,
    Event,
    TimerCancelled,
    TimerFired,
    TimerSet,
    WorkerExecutionDeclined,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
    WorkerExecutionInterrupted,
)
from casehub.spi import Turn
from casehub.state import CaseState
from casehub.task_events import HumanTaskEvent


class Noting(Protocol):
    """A case that takes an input. `turn`: what that comes to; `fault`: what the case is to fault of."""

    state: CaseState
    turn: Turn
    fault: CaseFaulted | None


Note = Callable[[Noting, Any], None]
Effects = tuple[Observer | None, tuple[Reactor, ...], Note | None]


def _timer_set(case: Noting, event: TimerSet) -> None:
    case.turn.timers[event.timer] = event.due


def _timer_gone(case: Noting, event: TimerFired | TimerCancelled) -> None:
    case.turn.timers[event.timer] = None


def _task_changed(case: Noting, event: HumanTaskEvent) -> None:
    if (task := case.state.tasks.last) is not None:
        case.turn.tasks[task.id] = task


def _adopted(case: Noting, event: DefinitionAdopted) -> None:
    case.turn.tasks.update(case.state.tasks.open)  # their forms may be others now


def _ended_badly(case: Noting, event: WorkerExecutionFinished) -> None:
    case.fault = fault_of(case.state, event) or case.fault


_NOTES: dict[type[Event], Note] = {
    **dict.fromkeys(subtypes(HumanTaskEvent), _task_changed),
    DefinitionAdopted: _adopted,
    TimerSet: _timer_set,
    TimerFired: _timer_gone,
    TimerCancelled: _timer_gone,
    **dict.fromkeys(
        (WorkerExecutionFailed, WorkerExecutionDeclined, WorkerExecutionExpired, WorkerExecutionInterrupted),
        _ended_badly,
    ),
}


class _Effects(dict[type[Event], Effects]):
    def __missing__(self, kind: type[Event]) -> Effects:
        self[kind] = found = (OBSERVERS.get(kind), REACTORS.get(kind, ()), _NOTES.get(kind))
        return found


EFFECTS = _Effects()
