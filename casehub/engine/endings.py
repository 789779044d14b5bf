"""How a case ends: by its goals, by its own rule, by a failure; and what is called off before it does."""

from __future__ import annotations

from collections.abc import Iterator

from casehub.engine.agenda import holds
from casehub.engine.children import cancelled
from casehub.events import (
    CaseCompleted,
    CaseEnded,
    CaseFaulted,
    Event,
    WorkerExecutionCancelled,
    WorkerExecutionFinished,
)
from casehub.policies import OnOutcome
from casehub.state import CaseState
from casehub.structure import Structure


def end_of(state: CaseState, structure: Structure, fault: CaseFaulted | None) -> CaseEnded | None:
    """How the case ends if its goals or its own rule say that it does. `fault`: what a worker's failure came to."""
    completion = structure.completion
    if state.goals:
        if completion is not None and completion.satisfied(state.goals):
            return CaseCompleted(before=state.status, reason=f"goal {completion}")
        for goal in structure.goals.values():
            if goal.failure and goal.name in state.goals:
                return CaseFaulted(before=state.status, reason=f"failure goal {goal.name!r} is reached")
    if fault is not None:
        return fault
    if structure.done_when is not None and holds(structure.done_when, state, "done_when"):
        return CaseCompleted(before=state.status, reason=f"done_when {structure.done_when}")
    return None


def too_long(state: CaseState, structure: Structure) -> CaseFaulted | None:
    """The fault of a case whose log has reached its limit."""
    limit = structure.definition.limits.events
    if state.version < limit:
        return None
    reason = f"its log has {state.version} events and the limit is {limit}; mend the loop, or raise Limits(events=)"
    return CaseFaulted(before=state.status, reason=reason)


def fault_of(state: CaseState, event: WorkerExecutionFinished) -> CaseFaulted | None:
    """The fault of the case that an outcome comes to by its binding's policy."""
    if event.then != OnOutcome.FAULT_CASE:
        return None
    why = getattr(event, "message", "") or getattr(event, "reason", "") or event.name
    return CaseFaulted(before=state.status, reason=f"worker {event.worker!r}: {why}", cause=event.version)


def called_off(state: CaseState, end: CaseEnded) -> Iterator[Event]:
    """The cancellations of everything in flight, so that the end is the last event of the log."""
    for activation in list(state.activations.values()):
        yield WorkerExecutionCancelled(
            binding=activation.binding,
            activation=activation.id,
            worker=activation.worker,
            attempt=activation.attempt,
            reason=f"the case is {end.after}",
        )
    if not isinstance(end, CaseCompleted):  # what is nobody's to wait for outlives a case that completes, and no other
        for child in state.children.open():
            if not child.cancelled:
                yield cancelled(child, f"case {state.id!r} is {end.after}")
