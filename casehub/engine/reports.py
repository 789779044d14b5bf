"""Work that was done elsewhere and is only reported: what it says to a case.

A report on a binding that is eligible is an activation that begins and ends in one turn, so that a case which is told
what happened has the same log as one that saw it happen. A report that nothing in the case called for is still a fact:
what is written is the worker's, and no activation is made up for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from casehub.binding import Worker
from casehub.engine.agenda import judge, schedule
from casehub.engine.intake import Intake
from casehub.engine.results import result_of
from casehub.errors import FactError, InputRefusedError
from casehub.events import Event, WorkerEvent
from casehub.explanation import Verdict
from casehub.inputs import Reported, Returned, Write
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.values import ABSENT, Plain


def reported(intake: Intake, input: Reported) -> Iterator[Event]:
    """The events of a report. Raises `InputRefusedError`, with nothing recorded, for one that the case cannot take."""
    state, structure = intake.state, intake.structure
    binding = structure.bindings[input.binding]
    if state.status.ended or judge(state, binding) is not Verdict.ELIGIBLE:
        facts, deleted, sure = _written(binding.worker_named(input.worker), input.value, structure, state)
        by = f"worker:{input.worker}"
        yield from intake.write(
            Write(facts=facts, confidence=sure, delete=deleted, notes=input.notes, by=by, at=input.at)
        )
        return
    yield from input.notes
    for event in schedule(state, binding):
        if isinstance(event, WorkerEvent):
            event.worker = input.worker
        yield event
    activation = state.firings[binding.name].in_flight
    if activation is not None:
        yield from intake.returned(Returned(activation=activation, attempt=1, value=input.value, at=input.at))


def _written(
    worker: Worker, value: object, structure: Structure, state: CaseState
) -> tuple[dict[str, Plain], tuple[str, ...], Mapping[str, float]]:
    """What a result writes and deletes when no activation stands behind it: it replaces whatever was there."""
    try:
        result = result_of(worker, value)
        if not result.items.keys() <= set(worker.writes):
            raise FactError(f"it writes {', '.join(worker.writes)}")
        facts = {
            name: structure.types[name].normalise(item, f"fact {name!r} of worker {worker.name!r}", state)
            for name, item in result.items.items()
            if item is not ABSENT
        }
    except FactError as error:
        raise InputRefusedError(
            f"worker {worker.name!r} is reported to have returned what it cannot: {error}"
        ) from error
    return facts, tuple(name for name, item in result.items.items() if item is ABSENT), result.sure
