"""Dead letters: activations that ended in a fault, and what may be done about them.

A case has at most one for a binding: its last activation, if that ended so, and nothing has been decided about it. A
binding that fires again has left its dead letter behind. So the state tells, and nothing keeps a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from casehub.compensation import Undoable
from casehub.engine.compensating import undo
from casehub.engine.completions import unchanged
from casehub.errors import CaseEndedError, IllegalTransitionError, InputRefusedError, did_you_mean
from casehub.events import ActivationId, ContextChanged, DeadLetterDiscarded, DeadLetterRetried, Event
from casehub.inputs import DiscardLetter, RetryLetter
from casehub.lifecycle import CaseStatus
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.values import Plain


def retried(state: CaseState, structure: Structure, input: RetryLetter) -> Iterator[Event]:
    """The binding may fire again, on the facts as they are now, `input.facts` among them.

    Raises `InputRefusedError` for what is no dead letter, and for a fact that the binding does not read.
    """
    binding = check_letter(state, input.activation)
    reads = structure.bindings[binding].reads if binding in structure.bindings else ()
    for name in input.facts:
        if name not in reads:
            raise InputRefusedError(
                f"dead letter {input.activation!r} cannot be retried with {name!r}: binding {binding!r} reads no such fact; "
                f"{did_you_mean(name, reads)}"
            )
    undone = compensated(state, input.activation)
    yield DeadLetterRetried(binding=binding, activation=input.activation, reason=input.reason, by=input.by)
    edited = changed(state, structure, input.facts)
    if edited:
        yield ContextChanged(facts=edited, by=input.by, cause=state.version)
    if undone is not None and state.status.active:  # one that compensates comes to it by itself
        yield from undo(state, structure, undone, input.facts)


def discarded(state: CaseState, input: DiscardLetter) -> Iterator[Event]:
    """The failure is settled. Raises `InputRefusedError` for what is no dead letter."""
    binding = check_letter(state, input.activation)
    yield DeadLetterDiscarded(binding=binding, activation=input.activation, reason=input.reason, by=input.by)


def check_letter(state: CaseState, activation: str) -> str:
    """The binding of a dead letter. Raises `InputRefusedError` or `CaseEndedError` for an activation that is none."""
    _, binding, number = activation.rsplit("/", 2)
    firing = state.firings.get(binding)
    what = f"activation {activation!r} is no dead letter"
    if firing is None or not number.isdigit() or not 0 < int(number) <= firing.count:
        raise InputRefusedError(f"{what}: the case has no such activation; list them with 'casehub dead-letters list'")
    if firing.count > int(number):
        raise IllegalTransitionError(f"{what} any more: its binding has fired again since; look at its last activation")
    if firing.in_flight is not None:
        raise IllegalTransitionError(f"{what}: it is at work; wait for how it ends")
    if not firing.then.startswith("fault"):
        decided = {"retry": "it has been retried", "discard": "it has been discarded"}
        raise IllegalTransitionError(
            f"{what}: {decided.get(firing.then, 'it did not end in a fault')}; there is nothing to do"
        )
    if state.status is CaseStatus.FAULTED:
        raise CaseEndedError(
            f"{what}: case {state.id!r} is FAULTED; unfault it first: 'casehub case unfault {state.id}'"
        )
    if state.status.ended:
        raise CaseEndedError(
            f"{what}: case {state.id!r} is {state.status}, a terminal status; start a new case instead"
        )
    return binding


def compensated(state: CaseState, letter: ActivationId) -> Undoable | None:
    """What a dead letter was to undo; None for one of work that goes forward.

    Raises `IllegalTransitionError` where it may not start now.
    """
    undone = state.compensations.failed.get(letter)
    what = f"dead letter {letter!r} cannot be retried: case {state.id!r}"
    if undone is None and state.compensations.ending is not None:
        raise IllegalTransitionError(f"{what} undoes what it did, and starts nothing else")
    if undone is not None and not state.status.working:
        raise IllegalTransitionError(f"{what} is {state.status}; resume it first")
    return undone


def changed(state: CaseState, structure: Structure, facts: Mapping[str, Plain]) -> dict[str, Plain]:
    """Those of the facts that are not there already, with the same value."""
    found = {name: state.facts.get(name) for name in facts}
    return {
        name: facts[name]
        for name, fact in found.items()
        if fact is None or not unchanged(state, structure, fact, facts[name])
    }
