"""Sub-cases as workers: a started activation becomes cases of another definition, and what they come to is its result.

The function that a definition declares for it is called once, in the turn that starts the activation; the facts that it
gave are in `SUB_CASE_STARTED`. Starting them is left to whoever hears that (see `casehub.family`), after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from casehub.activation import Activation
from casehub.binding import Binding, Worker
from casehub.engine.completions import completed
from casehub.engine.failures import NO_SEED, failed
from casehub.engine.intake import Intake
from casehub.engine.limits import left_over
from casehub.errors import Declined, FactError, LimitError, Permanent, SubCaseError
from casehub.events import (
    ActivationId,
    CaseId,
    Event,
    TimerCancelled,
    TimerFired,
    TimerId,
    TimerSet,
    WorkerExecutionCompleted,
    WorkerExecutionFinished,
    WorkerExecutionStarted,
)
from casehub.inputs import ChildEnded, Returned
from casehub.lifecycle import CaseStatus
from casehub.state import CaseState
from casehub.structure import Structure, started_with
from casehub.subcase import Rest, SubCase, child_id, depth_of
from casehub.subcase_events import SubCaseCancelled, SubCaseEnded, SubCaseStarted
from casehub.subcases import Child
from casehub.values import ABSENT, OwnerId, Plain

EXPIRY: Final = "sub-cases-expiry"


# ---- what follows from events


def start_children(state: CaseState, structure: Structure, event: WorkerExecutionStarted) -> Iterable[Event]:
    """The attempt of a worker that stands for sub-cases starts them."""
    if not structure.children:
        return ()
    binding = structure.bindings[event.binding]
    worker = binding.worker_named(event.worker)
    return () if worker.sub_case is None else _started(state, structure, event, binding, worker, worker.sub_case)


def _started(
    state: CaseState, structure: Structure, event: WorkerExecutionStarted, binding: Binding, worker: Worker, spec: SubCase
) -> Iterator[Event]:  # fmt: skip
    activation = state.activations[event.activation]
    result = Returned(activation=activation.id, attempt=event.attempt, at=event.at)
    try:
        starts = _starts(state, structure, activation, worker, spec, event.attempt)
    except Exception as error:  # it is user code
        yield from failed(state, NO_SEED, binding, activation, result, error, permanent=True)
        return
    budget = left_over(state, structure, binding)
    limit = binding.policy.timeout
    due = None if limit is None else event.at + limit
    outlives = not spec.wait or (spec.rest is Rest.KEEP and spec.need is not None)
    deadline = None if outlives else state.deadline_of(activation, due)
    for child, facts in starts.items():
        yield SubCaseStarted(
            child=child,
            binding=binding.name,
            activation=activation.id,
            child_definition=spec.definition,
            child_structure=structure.children[spec.definition].hash,
            facts=facts,
            waited=spec.wait,
            budget=budget,
            trace=state.trace,
            deadline=deadline,
        )
    if not (spec.wait and starts):
        result.value = [] if spec.takes is not None else None
        yield from completed(state, structure, NO_SEED, binding, activation, result)
    elif due is not None:
        yield TimerSet(timer=TimerId(f"{EXPIRY}:{activation.id}"), due=due)


def _starts(
    state: CaseState, structure: Structure, activation: Activation, worker: Worker, spec: SubCase, attempt: int
) -> dict[CaseId, Mapping[str, Plain]]:
    """The facts that each sub-case starts with."""
    limit = structure.definition.limits.depth
    if depth_of(state.id) >= limit:
        raise LimitError(
            f"{limit} cases are around case {state.id!r} already; end the recursion, or raise Limits(depth=)"
        )
    arguments: dict[str, Any] = {}
    for parameter in worker.parameters:
        fact = activation.facts.get(parameter.target)
        if fact is not None and not fact.hidden and fact.value is not ABSENT:
            arguments[parameter.name] = parameter.type.restore(fact.value, fact.name, state)
    given: object = worker.function(**arguments)
    inputs: Sequence[object] = [given]
    if spec.several:
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise FactError(f"sub-case {worker.name!r} gave {given!r:.200}; return a list of its annotated kind")
        inputs = given
    if len(inputs) < (spec.need or 0):
        raise Permanent(f"{spec.need} sub-cases have to complete, and there are {len(inputs)}")
    child = structure.children[spec.definition]
    found: dict[CaseId, Mapping[str, Plain]] = {}
    for number, each in enumerate(inputs, 1):
        if not isinstance(each, Mapping):
            raise FactError(f"sub-case {worker.name!r} gave {each!r:.200}; give its inputs as a mapping")
        id = child_id(activation.id, attempt, number if spec.several else None)
        found[id] = started_with(child, each, OwnerId(id, state.tenant))
    return found


def release_children(state: CaseState, structure: Structure, event: WorkerExecutionFinished) -> Iterable[Event]:
    """Sub-cases that an attempt leaves behind are called off, unless they are kept."""
    return _released(state, structure, event) if structure.children or state.children.known else ()


def _released(state: CaseState, structure: Structure, event: WorkerExecutionFinished) -> Iterator[Event]:
    timer = TimerId(f"{EXPIRY}:{event.activation}")
    if timer in state.timers:
        yield TimerCancelled(timer=timer)
    if isinstance(event, WorkerExecutionCompleted):
        spec = structure.bindings[event.binding].worker_named(event.worker).sub_case
        if spec is None or spec.rest is Rest.KEEP or not spec.wait:
            return
    reason = getattr(event, "reason", "") or f"its activation is over: {event.name}"
    for child in state.children.of(event.activation):
        if child.status is None:
            yield cancelled(child, reason)


def cancelled(child: Child, reason: str, *, kill: bool = False) -> SubCaseCancelled:
    """A sub-case is told to end; `kill`: without undoing what it did."""
    return SubCaseCancelled(
        child=child.id, binding=child.binding, activation=child.activation, reason=reason, kill=kill
    )


def expire_children(state: CaseState, structure: Structure, event: TimerFired) -> Iterator[Event]:
    """The time limit of an activation that waits for sub-cases is over."""
    purpose, _, id = event.timer.partition(":")
    activation = state.activations.get(ActivationId(id)) if purpose == EXPIRY else None
    if activation is None:
        return
    yield from _expired(state, structure.bindings[activation.binding], activation, event.at)


def _expired(state: CaseState, binding: Binding, activation: Activation, at: datetime) -> Iterable[Event]:
    limit = binding.policy.timeout
    seconds = 0.0 if limit is None else limit.total_seconds()
    result = Returned(activation=activation.id, attempt=activation.attempt, expired=seconds, at=at)
    return failed(state, NO_SEED, binding, activation, result, None)


# ---- what comes back


def child_ended(intake: Intake, input: ChildEnded) -> Iterator[Event]:
    """A sub-case has ended: enough of them have completed, or too few still can."""
    state = intake.state
    child = state.children.known.get(input.child)
    if child is None or child.status is not None or state.status.ended:
        return
    activation = state.activations.get(child.activation)
    binding = intake.structure.bindings.get(child.binding)
    spec = None if binding is None else binding.worker_named("" if activation is None else activation.worker).sub_case
    takes = None if spec is None else spec.takes
    yield SubCaseEnded(
        child=child.id,
        binding=child.binding,
        activation=child.activation,
        status=input.status,
        value=None if takes is None else input.facts.get(takes),
        reason=input.reason,
        charges=input.charges,
        by=input.by,
    )
    if binding is not None and activation is not None and spec is not None and child.waited and not child.cancelled:
        yield from _judged(intake, input, binding, activation, spec)


def _judged(
    intake: Intake, input: ChildEnded, binding: Binding, activation: Activation, spec: SubCase
) -> Iterator[Event]:
    tally = intake.state.children.tallies[activation.id]
    need = tally.all if spec.need is None else spec.need
    result = Returned(activation=activation.id, attempt=activation.attempt, author=input.by, by=input.by, at=input.at)
    if tally.completed >= need:
        children = intake.state.children.of(activation.id)
        done = [child for child in children if child.status is CaseStatus.COMPLETED]
        try:
            if spec.takes is not None:
                values = [_value(intake, spec, spec.takes, child) for child in done]
                result.value = values if spec.several else values[0]
        except Exception as unfit:  # it was of another definition when it started
            yield from failed(intake.state, intake.chance, binding, activation, result, unfit, permanent=True)
            return
        yield from completed(intake.state, intake.structure, intake.chance, binding, activation, result)
    elif tally.all - tally.lost < need:
        over = intake.state.timers.get(TimerId(f"{EXPIRY}:{activation.id}"))
        if over is not None and over <= input.at:  # what they were given up for is that their time is over
            yield from _expired(intake.state, binding, activation, input.at)
            return
        children = intake.state.children.of(activation.id)
        lost = "; ".join(
            f"{c.id} is {c.status}: {c.reason}" for c in children if c.status not in (None, CaseStatus.COMPLETED)
        )
        error = Declined(f"{need} of {len(children)} had to complete: {lost}") if spec.several else SubCaseError(lost)
        result.error = error
        yield from failed(intake.state, intake.chance, binding, activation, result, error)


def _value(intake: Intake, spec: SubCase, takes: str, child: Child) -> object:
    if child.value is None:
        return None
    kind = intake.structure.children[spec.definition].types[takes]
    return kind.restore(child.value, takes, OwnerId(child.id, intake.state.tenant))
