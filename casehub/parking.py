"""Parking: an open case that no version here can go on with is left as it is until that is mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from casehub.errors import FactError
from casehub.events import EVENT_TYPES, Event, UnknownEvent
from casehub.lifecycle import ActivationStatus
from casehub.plain import TAG
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.values import FactType

_UNKNOWN: Final = FactType()
"""Of a fact that the definition does not know any more."""


def why_spoiled(events: Iterable[Event]) -> str:
    """Why a log cannot be folded: an event in it is not what its class takes; empty where it can."""
    for event in events:
        if type(event) is UnknownEvent and event.type in EVENT_TYPES:
            return (
                f"event {event.version} of its log, {event.type}, is not as this release writes it; restore a backup if "
                "somebody has changed the log, or use the release that has written it"
            )
    return ""


def why_parked(state: CaseState, structure: Structure) -> str:
    """Why a case cannot be worked by a version of its definition, and what to do; empty where it can, or has ended."""
    if not (lacks := lacking(state, structure)):
        return "" if state.status.ended else _unreadable(state, structure)
    return (
        f"its definition has changed and lacks {lacks}, which is in flight; bring that back, or keep the version that it "
        f"has, {state.structure}, beside the new one"
    )


def lacking(state: CaseState, structure: Structure) -> str:
    """What is in flight in an open case and has no place in a version of its definition, in words; empty for nothing."""
    return "" if state.status.ended else ", ".join(_gone(state, structure))


def unfit(lacks: str) -> str:
    """Why a case stays with the version that it has, in words."""
    return f"that version lacks {lacks}, which is in flight; until that is over the case goes on with its own"


def _unreadable(state: CaseState, structure: Structure) -> str:
    """Why what a serializer stored cannot be read: it, or its key, is not there, or somebody has changed the log."""
    for fact in state.facts.values():
        if type(fact.value) is dict and TAG in fact.value:
            try:
                structure.types.get(fact.name, _UNKNOWN).restore(fact.value, fact.name, state)
            except FactError as error:
                return str(error)
    return ""


def _gone(state: CaseState, structure: Structure) -> Iterator[str]:
    """What is in flight, by its binding, and has no place in a definition."""
    for activation in state.activations.values():
        binding = structure.bindings.get(activation.binding)
        if binding is None:
            yield activation.binding
        elif activation.action is not None and binding.worker_named(activation.worker).gate is None:
            yield f"the gate of {activation.binding}"
        elif activation.status is ActivationStatus.DELEGATED:  # what comes back of a plain worker is taken as it is
            worker = binding.worker_named(activation.worker)
            tasks = state.tasks.of(activation.id)
            if activation.id in state.children.tallies and worker.sub_case is None:
                yield f"{activation.binding} as sub-cases"
            elif any(not (task.ask or task.gate) for task in tasks) and worker.form is None:
                yield f"{activation.binding} as a human task"
