"""Attempts after the first: which activations have their next one now, and who makes it.

An activation in flight that is `PENDING` waits for a retry's timer, for its case to go on, or for its worker to be
resumed; whichever comes starts it.
"""

from __future__ import annotations

from collections.abc import Iterator

from casehub.activation import Activation
from casehub.engine.quarantine import suspended
from casehub.events import Event, TimerFired, WorkerExecutionStarted, WorkerReleased
from casehub.lifecycle import ActivationStatus
from casehub.state import CaseState
from casehub.structure import Structure


def next_attempt(activation: Activation, worker: str = "", by: str = "engine") -> WorkerExecutionStarted:
    """The next attempt of an activation; `worker`: of another one than the last."""
    return WorkerExecutionStarted(
        binding=activation.binding,
        activation=activation.id,
        worker=worker or activation.worker,
        attempt=activation.attempt + 1,
        by=by,
    )


def start_pending(state: CaseState, structure: Structure) -> Iterator[Event]:
    """The next attempt of every activation that waits for nothing."""
    for activation in _waiting(state):
        worker = _next_worker(state, structure, activation)
        if not suspended(state, worker):
            yield next_attempt(activation, worker)


def take_up_again(state: CaseState, structure: Structure, event: WorkerReleased) -> Iterator[Event]:
    """The attempts whose time came while their worker was suspended."""
    for activation in _waiting(state):
        if activation.worker == event.worker and state.status.working:
            yield next_attempt(activation)


def try_again(state: CaseState, event: TimerFired, id: str) -> Iterator[Event]:
    """The attempt that the timer of a retry was set for."""
    for activation in state.activations.values():
        pending = activation.id == id and activation.status is ActivationStatus.PENDING
        if pending and not suspended(state, activation.worker):
            yield next_attempt(activation, by=f"timer:{event.timer}")


def _waiting(state: CaseState) -> Iterator[Activation]:
    """The activations that neither run nor wait for the timer of a retry."""
    for activation in list(state.activations.values()):
        if activation.status is ActivationStatus.PENDING and f"retry:{activation.id}" not in state.timers:
            yield activation


def _next_worker(state: CaseState, structure: Structure, activation: Activation) -> str:
    """The worker of the next attempt: another one where the last has been left out."""
    left_out = state.firings[activation.binding].excluded
    if activation.worker in left_out:
        for worker in structure.bindings[activation.binding].workers:
            if worker.name not in left_out:
                return worker.name
    return activation.worker
