"""How a case ends: by its goals, by its own rule, by a failure; and what is called off before it does."""

from __future__ import annotations

from collections.abc import Iterator

from casehub.engine.agenda import holds
from casehub.engine.children import cancelled
from casehub.errors import IllegalTransitionError
from casehub.events import (
    CaseCancelled,
    CaseCompleted,
    CaseEnded,
    CaseFaulted,
    Event,
    WorkerExecutionCancelled,
    WorkerExecutionFinished,
)
from casehub.inputs import Cancel
from casehub.lifecycle import CASE_TRANSITIONS, CaseStatus, allows, check_case
from casehub.policies import OnOutcome
from casehub.purpose import completion_of
from casehub.state import CaseState
from casehub.structure import Structure


def end_of(state: CaseState, structure: Structure, fault: CaseFaulted | None) -> CaseEnded | None:
    """How the case ends if its goals or its own rule say that it does. `fault`: what a worker's failure came to."""
    if state.goals:
        completion = completion_of(state, structure)
        if completion is not None and completion.satisfied(state.goals):
            return CaseCompleted(before=state.status, reason=f"goal {completion}")
        for goal in structure.goals.values():
            if goal.failure and goal.name in state.goals:
                return CaseFaulted(before=state.status, reason=f"failure goal {goal.name!r} is reached")
    if fault is not None:
        return fault
    if structure.done_when is not None and not state.purpose and holds(structure.done_when, state, "done_when"):
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


def called_off(state: CaseState, end: CaseEnded, *, kill: bool = False, compensates: bool = False) -> Iterator[Event]:
    """The cancellations of everything in flight, so that the end is the last event of the log.

    `kill`: sub-cases undo nothing either; `compensates`: what undoes something goes on.
    """
    if kill:  # first, so that nothing else has them undo what they did
        yield from _called_off(state, end, kill=True, compensates=False)
    for activation in list(state.activations.values()):
        if not (compensates and activation.id in state.compensations.under_way):
            yield WorkerExecutionCancelled(
                binding=activation.binding,
                activation=activation.id,
                worker=activation.worker,
                attempt=activation.attempt,
                reason=f"the case is {end.after}",
            )
    if not isinstance(end, CaseCompleted):  # what is nobody's to wait for outlives a case that completes, and no other
        yield from _called_off(state, end, kill=False, compensates=compensates)


def _called_off(state: CaseState, end: CaseEnded, *, kill: bool, compensates: bool) -> Iterator[Event]:
    """The sub-cases that are told to end; those that do so already, where they are to be quicker."""
    for child in state.children.open():
        undoes = compensates and child.activation in state.compensations.under_way
        if (kill or not child.cancelled) and not undoes:
            yield cancelled(child, f"case {state.id!r} is {end.after}", kill=kill)


def cancellation(state: CaseState, input: Cancel) -> CaseCancelled:
    """The end that somebody asks for.

    Raises `CaseEndedError`, and `IllegalTransitionError` for a case that ends already, once it has compensated.
    """
    check_case(state.id, "be cancelled", state.status, CaseStatus.CANCELLED)
    ending = state.compensations.ending
    if ending is not None and not input.kill:
        raise IllegalTransitionError(
            f"case {state.id!r} cannot be cancelled: it undoes what it did, and will be {ending.status} then; "
            "wait for that, or kill it"
        )
    return CaseCancelled(before=state.status, reason=input.reason, by=input.by)


def may_end(state: CaseState, end: CaseEnded) -> bool:
    """Whether a case can end so now: it does not complete while somebody has something undone."""
    undoing = isinstance(end, CaseCompleted) and bool(state.compensations.under_way)
    return allows(CASE_TRANSITIONS, state.status, end.after) and not undoing


def with_what_is_left(state: CaseState, end: CaseEnded, *, kill: bool) -> CaseEnded:
    """An end with a reason that says what it leaves as it was although it had a compensation."""
    known = state.compensations
    if kill or known.ending is not None:
        end.reason = "; ".join(filter(None, (end.reason, known.left())))
    return end
