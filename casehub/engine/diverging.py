"""A copy of a case goes its own way: what it has in flight is not its own, and begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from casehub.engine.intake import Intake, interrupted
from casehub.events import CaseForked, ContextChanged, DefinitionAdopted, DeliberationCancelled, Event, TimerSet
from casehub.inputs import Diverge
from casehub.lifecycle import ActivationStatus
from casehub.schedule import PURPOSE

BY_THE_CALENDAR: Final = (f"{PURPOSE}:", "budget:", "quarantine:")
"""Timers that mean a time of day or a date, whoever waits for them; the others are spans, which go on where they were."""


def diverged(intake: Intake, input: Diverge) -> Iterator[Event]:
    """The first turn of a fork. It leaves the case suspended: what follows from it is another turn's."""
    state = intake.state
    yield CaseForked(
        before=state.status,
        source=input.source,
        source_version=state.version,
        source_seq=input.source_seq,
        reason=input.reason,
        by=input.by,
    )
    if state.structure != intake.structure.hash:
        yield DefinitionAdopted(structure=intake.structure.hash)
    if state.deliberating:
        yield DeliberationCancelled(deliberation=state.deliberation)
    for activation in list(state.activations.values()):
        if activation.status is not ActivationStatus.PENDING:
            yield interrupted(activation, left=True)
    if later := input.at - input.since:
        for timer, due in list(state.timers.items()):
            if not timer.startswith(BY_THE_CALENDAR):
                yield TimerSet(timer=timer, due=due + later)
    if input.facts:
        yield ContextChanged(facts=input.facts, by=input.by, cause=state.version)
