"""What is to be undone next in a case that compensates, and what that waits for.

The newest completion comes first, one at a time; sub-cases that were told to end come before, as what they did is newer
still.
"""

from __future__ import annotations

from casehub.binding import Binding
from casehub.compensation import Undoable
from casehub.engine.quarantine import locked
from casehub.state import CaseState
from casehub.structure import Structure


def newest(state: CaseState, structure: Structure) -> Undoable | None:
    """The completed activation that is to be undone first; None where nothing can be that is left."""
    for each in reversed(state.compensations.undoable.values()):
        if compensation_of(structure, each.binding) is not None:
            return each
    return None


def compensation_of(structure: Structure, binding: str) -> Binding | None:
    """The binding that undoes what another one did."""
    found = structure.bindings.get(binding)
    return None if found is None else structure.bindings.get(found.compensation)


def waits(state: CaseState, binding: Binding) -> str:
    """Why what is next cannot be undone by a binding now, in words; empty where it can."""
    for child in state.children.open():
        if child.cancelled:
            return f"waits until sub-case {child.id} has ended, which undoes what it did"
    for by, undone in state.compensations.under_way.items():
        return f"waits until {by} has undone {undone.activation}"
    return locked(state, binding) or ""


def said_of(state: CaseState, binding: Binding) -> str:
    """What a compensation that is not at work has to do, in words."""
    left = [each.activation for each in state.compensations.undoable.values() if each.binding == binding.compensates]
    if not left:
        return f"undoes {binding.compensates}, of which nothing is left to undo"
    if state.compensations.ending is None:
        return f"undoes {', '.join(left)} if the case ends otherwise than well"
    return f"undoes {', '.join(left)}; {waits(state, binding) or 'what was done later comes first'}"
