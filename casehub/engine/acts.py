"""What a case's pump does about a committed event, by the event's class: what starts, what is called off, what is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from casehub.engine.deliberation import Asking
from casehub.engine.executor import Attempt, answered
from casehub.engine.live import LiveCase
from casehub.engine.questions import Questions
from casehub.engine.runtime import Runtime
from casehub.engine.waiters import Waiters
from casehub.envelope import subtypes
from casehub.events import (
    ActivationId,
    DeliberationCancelled,
    DeliberationStarted,
    Event,
    WorkerExecutionCancelled,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
    WorkerExecutionRerouted,
    WorkerExecutionStarted,
)
from casehub.inputs import Input, Recover
from casehub.spi import Turn
from casehub.task_events import HumanTaskEnded

Work = Attempt | Asking
"""What runs for a case, outside of its turns."""


class Working(Protocol):
    """A pump, as far as its acts see it: what runs for its case, and the ways in. `asking`: the deliberation under way."""

    live: LiveCase
    runtime: Runtime
    attempts: dict[ActivationId, Attempt]
    asking: Asking | None
    waiters: Waiters

    def post(self, input: Input) -> None: ...

    async def submit(self, input: Input, *, bounded: bool = True) -> Turn: ...


Act = Callable[[Working, Any, list[Work]], None]


def _begin(pump: Working, event: WorkerExecutionStarted, work: list[Work]) -> None:
    live = pump.live
    activation = live.state.activations.get(event.activation)
    if activation is None or activation.attempt != event.attempt:
        return
    binding = live.structure.bindings[activation.binding]
    worker = binding.worker_named(activation.worker)
    if not worker.runs:
        return  # people do it, or cases of their own
    # What it sees is what is committed, whatever comes before it runs.
    view = live.view(pump.runtime.bus.position) if worker.looks_in else None
    questions = Questions(activation, pump.submit, pump.waiters.wake) if worker.looks_in else None
    attempt = Attempt(activation, binding, worker, pump.runtime.wheel, view, questions, live.state)
    pump.attempts[activation.id] = attempt
    work.append(attempt)


def _count(pump: Working, event: WorkerExecutionFinished, work: list[Work]) -> None:
    pump.runtime.count(event.name)


def _fail(pump: Working, event: WorkerExecutionFinished, work: list[Work]) -> None:
    pump.runtime.count(event.name)
    pump.runtime.watch(pump.live.structure, event)


def _cancel(pump: Working, event: WorkerExecutionCancelled | WorkerExecutionRerouted, work: list[Work]) -> None:
    _count(pump, event, work)
    running = pump.attempts.get(event.activation)
    if running is not None:
        running.call_off()


def _begin_to_ask(pump: Working, event: DeliberationStarted, work: list[Work]) -> None:
    deliberations = pump.live.deliberations
    if deliberations.under_way == event.deliberation and deliberations.question is not None:
        pump.asking = Asking(event, deliberations.question)
        work.append(pump.asking)


def _ask_no_more(pump: Working, event: DeliberationCancelled, work: list[Work]) -> None:
    if pump.asking is not None:
        pump.asking.call_off()


def _tell(pump: Working, event: HumanTaskEnded, work: list[Work]) -> None:
    if event.ask and (lost := answered(event, pump.attempts, pump.live.state)):
        pump.post(Recover(activation=lost))


ACTS: Mapping[type[Event], Act] = {
    WorkerExecutionStarted: _begin,
    **dict.fromkeys(subtypes(HumanTaskEnded), _tell),
    **dict.fromkeys(subtypes(WorkerExecutionFinished), _count),
    WorkerExecutionFailed: _fail,
    WorkerExecutionExpired: _fail,
    **dict.fromkeys((WorkerExecutionCancelled, WorkerExecutionRerouted), _cancel),
    DeliberationStarted: _begin_to_ask,
    DeliberationCancelled: _ask_no_more,
}


def started_by(pump: Working, turn: Turn, work: list[Work]) -> None:
    """What a committed turn starts and calls off; what is to be run joins `work`."""
    pump.runtime.turns += 1
    for event in turn.events:
        act = ACTS.get(type(event))
        if act is not None:
            act(pump, event, work)
    for due in turn.timers.values():
        if due is not None:
            pump.runtime.wheel.note(due)
