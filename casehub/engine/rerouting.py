"""Rerouting by hand: work goes to another worker of its capability, while it is under way or after it has failed."""

from __future__ import annotations

from collections.abc import Iterator

from casehub.activation import Activation
from casehub.binding import Binding
from casehub.engine.attempts import next_attempt
from casehub.engine.compensating import undo
from casehub.engine.intake import Intake
from casehub.engine.letters import check_letter, compensated
from casehub.errors import IllegalTransitionError, InputRefusedError, did_you_mean
from casehub.events import (
    ActivationId,
    DeadLetterRetried,
    Event,
    TimerCancelled,
    TimerId,
    WorkerExecutionRerouted,
)
from casehub.inputs import Reroute
from casehub.policies import OnOutcome
from casehub.state import CaseState


def rerouted(intake: Intake, input: Reroute) -> Iterator[Event]:
    """What is in flight of a binding goes on with another worker; a dead letter of it is retried by that one.

    Raises `CaseEndedError`, `InputRefusedError` for a binding or a worker that is none, or that has the work already, and
    `IllegalTransitionError` where there is nothing to give, or the worker may not be called.
    """
    state = intake.state
    intake.check_open("be rerouted")
    bindings = intake.structure.bindings
    if input.binding not in bindings:
        raise InputRefusedError(
            f"case {state.id!r} has no binding {input.binding!r}; {did_you_mean(input.binding, bindings)}"
        )
    binding = bindings[input.binding]
    firing = state.firings.get(binding.name)
    if firing is None:
        raise IllegalTransitionError(
            f"binding {binding.name!r} of case {state.id!r} has not fired: nothing is to be rerouted"
        )
    activation = None if firing.in_flight is None else state.activations[firing.in_flight]
    _check_worker(state, binding, input.to, activation)
    if activation is None:
        letter = ActivationId(f"{state.id}/{binding.name}/{firing.count}")
        check_letter(state, letter)
        undone = compensated(state, letter)
        yield DeadLetterRetried(
            binding=binding.name, activation=letter, worker=input.to, reason=input.reason, by=input.by
        )
        if undone is not None and state.status.active:
            yield from undo(state, intake.structure, undone)
        return
    if not state.status.working:
        raise IllegalTransitionError(f"case {state.id!r} is {state.status}: nothing starts in it; resume it first")
    if (timer := TimerId(f"retry:{activation.id}")) in state.timers:
        yield TimerCancelled(timer=timer)
    yield WorkerExecutionRerouted(
        binding=binding.name,
        activation=activation.id,
        worker=activation.worker,
        attempt=activation.attempt,
        settled=False,
        then=OnOutcome.REROUTE.value,
        to=input.to,
        reason=input.reason,
        by=input.by,
    )
    started = next_attempt(activation, input.to, input.by)
    started.cause = state.version
    yield started


def _check_worker(state: CaseState, binding: Binding, to: str, activation: Activation | None) -> None:
    names = [worker.name for worker in binding.workers]
    if to not in names:
        raise InputRefusedError(f"binding {binding.name!r} has no worker {to!r}; {did_you_mean(to, names)}")
    if activation is not None and activation.worker == to:
        raise InputRefusedError(f"worker {to!r} has {activation.id!r} already; choose another")
    if to in state.quarantined:
        until = state.quarantined[to]
        how = "suspended; resume it" if until is None else f"quarantined until {until:%Y-%m-%d %H:%M:%SZ}; release it"
        raise IllegalTransitionError(f"worker {to!r} may not be called: it is {how}, or choose another")
