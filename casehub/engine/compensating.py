"""A case that ends otherwise than well undoes what it did: when that begins, what is next, when it is over.

A compensation is an activation like others, with retries, time limits and people or sub-cases for workers. It sees what
the activation that it undoes had read and returned as it was then, and everything else as it is now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from casehub.compensation import DEADLINE, Undoable
from casehub.context import Fact
from casehub.engine.agenda import first_attempt, next_activation, scheduling
from casehub.engine.failures import NO_SEED, failed
from casehub.engine.undoing import compensation_of, newest, waits
from casehub.errors import CaseEndedError, FactError, IllegalTransitionError, InputRefusedError, did_you_mean
from casehub.events import (
    CaseCancelled,
    CaseCompensating,
    CaseCompleted,
    CaseEnded,
    CaseFaulted,
    CaseStatusChanged,
    CompensationStarted,
    Event,
    TimerCancelled,
    TimerSet,
    WorkerExecutionCancelled,
)
from casehub.inputs import Compensate, Returned
from casehub.lifecycle import CaseStatus
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.values import ABSENT


def has_to(state: CaseState, structure: Structure, end: CaseEnded) -> bool:
    """Whether a case undoes something before this end."""
    known = state.compensations
    if isinstance(end, CaseCompleted) or known.ending is not None:
        return False
    left = known.under_way or known.failed or newest(state, structure)
    return end.after in structure.definition.compensation.on and bool(left)


def begin(state: CaseState, structure: Structure, end: CaseEnded, held: str | None) -> Iterator[Event]:
    """The case compensates from here on. `held`: why it is suspended meanwhile, empty where it is not, None for as before."""
    if held is None:
        held = state.reason or "it was suspended" if state.status is CaseStatus.SUSPENDED else ""
    yield CaseCompensating(before=state.status, end=end.after, reason=end.reason, by=end.by, cause=end.cause)
    for timer in list(state.timers):
        purpose, _, activation = timer.partition(":")
        if purpose == "retry" and activation not in state.activations:
            yield TimerCancelled(timer=timer)
    limit = structure.definition.compensation.limit
    if limit is not None and state.changed_at is not None:
        yield TimerSet(timer=DEADLINE, due=state.changed_at + limit)
    if held:
        yield CaseStatusChanged(before=CaseStatus.COMPENSATING, after=CaseStatus.SUSPENDED, reason=held, by=end.by)


def next_of(state: CaseState, structure: Structure) -> Iterator[Event] | None:
    """The start of the next compensation; None where there is none, or it has to wait."""
    if state.status is not CaseStatus.COMPENSATING or state.compensations.overdue:
        return None
    undone = newest(state, structure)
    binding = None if undone is None else compensation_of(structure, undone.binding)
    if undone is None or binding is None or waits(state, binding):
        return None
    return undo(state, structure, undone)


def undo(
    state: CaseState, structure: Structure, undone: Undoable, edited: Mapping[str, object] | None = None,
    by: str = "engine", reason: str = "",
) -> Iterator[Event]:  # fmt: skip
    """The activation that undoes another one. `edited`: facts that it sees as they are now, as it does those that are hidden."""
    binding = compensation_of(structure, undone.binding)
    if binding is None:
        return
    now = {name for name, fact in state.facts.items() if fact.hidden} | set(edited or ())
    own = {name: fact for name, fact in undone.facts.items() if name not in now}
    facts: dict[str, Fact] = {**state.facts, **own}
    id = next_activation(state, binding.name)
    yield CompensationStarted(
        binding=undone.binding,
        activation=undone.activation,
        undone_by=id,
        reason=reason,
        by=by,
        cause=undone.version,
    )
    scheduled = scheduling(state, binding, facts)
    scheduled.cause = state.version
    yield scheduled
    missing = [name for name in binding.requires if (fact := facts.get(name)) is None or not _there(fact)]
    if missing:
        error = FactError(f"needs {', '.join(map(repr, missing))}, which is not there")
        result = Returned(activation=id, attempt=0, error=error)
        yield from failed(state, NO_SEED, binding, state.activations[id], result, error, permanent=True)
        return
    yield first_attempt(scheduled, state.version)


def _there(fact: Fact) -> bool:
    return fact.value is not ABSENT and not fact.hidden


def cut_short(state: CaseState) -> Iterator[Event]:
    """The time that a case has to compensate is over: what is under way is called off."""
    for by in list(state.compensations.under_way):
        if (activation := state.activations.get(by)) is not None:
            yield WorkerExecutionCancelled(
                binding=activation.binding,
                activation=by,
                worker=activation.worker,
                attempt=activation.attempt,
                reason="the time to compensate is over",
            )


def end_after(state: CaseState, structure: Structure) -> CaseEnded | None:
    """The end of a case that has compensated; None while it has not."""
    known = state.compensations
    if state.status is not CaseStatus.COMPENSATING or known.ending is None or known.under_way:
        return None
    if not known.overdue and (newest(state, structure) is not None or any(c.cancelled for c in state.children.open())):
        return None
    kind = CaseCancelled if known.ending.status is CaseStatus.CANCELLED else CaseFaulted
    return kind(before=state.status, reason=known.ending.reason, by=known.ending.by)


def by_hand(state: CaseState, structure: Structure, input: Compensate) -> Iterator[Event]:
    """Somebody has an activation undone while its case goes on.

    Raises `InputRefusedError` for what has no compensation, or nothing to undo; `IllegalTransitionError` where nothing
    may start, or it is at work; `CaseEndedError`.
    """
    what, status = input.what, state.status
    if status.ended:
        raise CaseEndedError(f"case {state.id!r} cannot undo {what!r}: it is {status}, a terminal status")
    if not status.active:
        remedy = "resume it first" if status is CaseStatus.SUSPENDED else "it undoes what is left by itself"
        raise IllegalTransitionError(f"case {state.id!r} cannot undo {what!r}: it is {status}; {remedy}")
    name = what.rsplit("/", 2)[1] if what.count("/") > 1 else what
    if (binding := compensation_of(structure, name)) is None:
        near = did_you_mean(name, [each.compensates for each in structure.bindings.values() if each.compensates])
        raise InputRefusedError(f"case {state.id!r} cannot undo {what!r}: nothing compensates binding {name!r}; {near}")
    known = state.compensations
    found = [each for each in known.open() if what in (each.binding, each.activation)]
    if binding.name in {by.rsplit("/", 2)[1] for by in known.under_way}:
        raise IllegalTransitionError(f"case {state.id!r} cannot undo {what!r}: {binding.name} is at work; wait for it")
    if not found:
        raise InputRefusedError(
            f"case {state.id!r} cannot undo {what!r}: it has not completed, or is undone already; see 'casehub case explain'"
        )
    return undo(state, structure, found[-1], by=input.by, reason=input.reason)
