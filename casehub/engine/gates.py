"""Gates at work: what a worker has planned is passed, or held for people; once approved it is carried out.

The risk policy is asked beside the case, where it may await; what it said, and what people say, is decided in turns. The
attempt that carries an action out is one of its own, which starts in the turn of the approval: whatever crashes, what
was approved is what is done.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Iterator
from typing import Any, Final

from casehub.actions import ActionApproved, ActionHeld, ActionPlanned, ActionRejected
from casehub.activation import Activation
from casehub.binding import Binding, Worker
from casehub.durations import duration
from casehub.engine.attempts import next_attempt
from casehub.engine.failures import NO_SEED, failed, message_of
from casehub.engine.intake import Intake
from casehub.engine.people import asked_of
from casehub.engine.quarantine import suspended
from casehub.engine.timers import TimerWheel
from casehub.errors import Declined, Permanent
from casehub.events import Event
from casehub.gate import ANSWER, Gate, Planned
from casehub.inputs import Returned
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.task_events import HumanTaskCancelled, HumanTaskCompleted, HumanTaskEnded, HumanTaskExpired, TaskId
from casehub.values import Plain, plain

SHOWN: Final = 500
"""Longest text of an action in a title, in characters."""


async def risk_of(gate: Gate[Any], planned: Planned[object], wheel: TimerWheel) -> str:
    """Why an action is held; empty where its policy lets it pass. A policy that fails, or says nothing, holds."""
    if gate.risk is None:
        return "every action is held"
    said: Any = None  # it is user code: nothing holds it to its annotation
    reason = f"its risk policy took longer than {gate.patience}"
    with wheel.limit(duration(gate.patience)):
        try:
            said = gate.risk(planned.action)
            if inspect.isawaitable(said):
                said = await said
            reason = _reason(said)
        except Exception as error:  # it is user code
            return f"its risk policy raised {type(error).__name__}: {message_of(error)}"
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return "its risk policy was cancelled from within"
    return reason


def _reason(said: Any) -> str:
    """What the answer of a risk policy means: why the action is held, or nothing."""
    if said is False:
        return ""
    if said is True:
        return "it is risky"
    if isinstance(said, str):
        return said and message_of(Exception(said))
    return f"its risk policy said {said!r:.200}, no yes or no"


def returned(intake: Intake, input: Returned) -> Iterable[Event]:
    """What an attempt came to: a plan, or what any worker returns."""
    state = intake.state
    activation = state.activations.get(input.activation)
    if activation is not None and activation.action is None and activation.attempt == input.attempt:
        binding = intake.structure.bindings[activation.binding]
        worker, plan = binding.worker_named(activation.worker), input.value
        if worker.gate is not None and worker.performer is not None and plan is not None:
            if isinstance(plan, Planned):
                return _planned(state, binding, worker.gate, worker.performer, plan, activation, input)
            input.value, input.error = (
                None,
                Permanent(
                    f"worker {worker.name!r} returned a {type(plan).__name__}, and it plans actions; return Planned(action, title)"
                ),
            )
    return intake.returned(input)


def _planned(
    state: CaseState, binding: Binding, gate: Gate[Any], performer: Worker, plan: Planned[object],
    activation: Activation, input: Returned,
) -> Iterator[Event]:  # fmt: skip
    """What a worker has planned is in the log, and waits for people or goes on. One that does not fit has failed."""
    try:
        what = performer.parameters[0].type
        value = what.normalise(plan.action, f"the action that worker {activation.worker!r} plans")
        said = str(plain(plan.title, "the title")).strip()
        title = said or f"{performer.name} {value}"[:SHOWN]
        held = str(plain(input.held, "the reason"))
        tasks = [_task(state, gate, binding, activation, plan, title, n, input) for n in range(1, gate.approvals + 1)]
    except Exception as error:  # a type's own code may raise anything
        yield from failed(state, NO_SEED, binding, activation, input, error, permanent=True)
        return
    about: dict[str, Any] = {"binding": activation.binding, "activation": activation.id}
    yield ActionPlanned(
        action=value,
        title=title,
        attempt=input.attempt,
        charges=input.charges,
        by=f"worker:{activation.worker}",
        **about,
    )
    if held:
        yield ActionHeld(reason=held, approvals=gate.approvals, **about)
        yield from tasks
    else:
        yield from _approved(state, activation, "engine")


def _task(
    state: CaseState, gate: Gate[Any], binding: Binding, activation: Activation, plan: Planned[object], title: str, n: int,
    input: Returned,
) -> Event:  # fmt: skip
    again = f"-{activation.plans + 1}" if activation.plans else ""
    of = f" ({n} of {gate.approvals})" if gate.approvals > 1 else ""
    created = asked_of(
        state,
        TaskId(f"{activation.id}/gate-{n}{again}"),
        gate.task(title + of, plan.description),
        activation,
        binding,
        input.at,
    )
    created.gate, created.form = True, ANSWER.schema()
    return created


def _approved(state: CaseState, activation: Activation, by: str) -> Iterator[Event]:
    about: dict[str, Any] = {"binding": activation.binding, "activation": activation.id, "by": by}
    action = activation.action
    yield ActionApproved(approved_by=tuple(action.approved_by) if action is not None else (), **about)
    if state.status.working and not suspended(state, activation.worker):  # else it starts when that is resumed
        yield next_attempt(activation, by=by)


def decide(state: CaseState, structure: Structure, event: HumanTaskEnded) -> Iterable[Event]:
    """What the end of one of a gate's tasks comes to."""
    activation = state.activations.get(event.activation) if event.gate else None
    if activation is None or activation.action is None or isinstance(event, HumanTaskCancelled):
        return ()
    return _decided(state, structure, activation, event)


def _decided(state: CaseState, structure: Structure, activation: Activation, event: HumanTaskEnded) -> Iterator[Event]:
    action = activation.action
    against = _against(event)
    if against is None:
        if action is not None and len(action.approved_by) >= action.needed:
            yield from _approved(state, activation, event.by)
        return
    yield ActionRejected(reason=against, binding=activation.binding, activation=activation.id, by=event.by)
    result = Returned(
        activation=activation.id, attempt=activation.attempt, error=Declined(against), author=event.by, at=event.at
    )
    yield from failed(state, NO_SEED, structure.bindings[activation.binding], activation, result, result.error)


def _against(event: HumanTaskEnded) -> str | None:
    """Why an action is rejected; None where somebody has approved it."""
    if isinstance(event, HumanTaskExpired):
        return "nobody approved it before its deadline"
    if isinstance(event, HumanTaskCompleted):
        answer: Plain = event.answer
        given = answer if isinstance(answer, dict) else {}
        return (
            None if given.get("approved") is True else str(given.get("reason", "")) or f"{event.author} is against it"
        )
    return str(getattr(event, "reason", "")) or f"{event.author} is against it"
