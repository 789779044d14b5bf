"""A case that has faulted goes on: what may be taken back of its end, and what happens again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from casehub.context import Fact
from casehub.engine.agenda import GuardError, holds
from casehub.engine.endings import too_long
from casehub.engine.intake import Intake
from casehub.engine.letters import changed
from casehub.errors import InputRefusedError
from casehub.events import (
    ActivationId,
    CaseUnfaulted,
    ContextChanged,
    DeadLetterRetried,
    DefinitionAdopted,
    Event,
    TimerSet,
)
from casehub.inputs import Unfault
from casehub.lifecycle import CaseStatus, check_case
from casehub.policies import OnOutcome
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.subcase import parent_of
from casehub.values import Plain

SET_AGAIN: Final = ("sla:", "budget:", "quarantine:")
"""Timers that the end of a case put away, and that nothing else sets again."""


def unfaulted(intake: Intake, input: Unfault) -> Iterator[Event]:
    """The case runs again, and what faulted it may.

    Raises `CaseEndedError` or `IllegalTransitionError` for a case that has not faulted, `InputRefusedError` for a
    sub-case and for one that would fault again at once.
    """
    state, structure = intake.state, intake.structure
    check_case(state.id, "be unfaulted", state.status, CaseStatus.RUNNING, (CaseStatus.FAULTED,))
    if (parent := parent_of(state.id)) is not None:
        raise InputRefusedError(
            f"case {state.id!r} cannot be unfaulted: it is a sub-case, and case {parent!r} has been told how it ended; "
            "retry the dead letter of that case, which starts another one"
        )
    facts = changed(state, input.facts)
    for goal in _still_reached(replace(state, facts={**state.facts, **_as_facts(facts, input)}), structure):
        raise InputRefusedError(
            f"case {state.id!r} cannot be unfaulted: failure goal {goal!r} still holds ({structure.goals[goal].when}); "
            "bring the facts with it that end this"
        )
    if (limit := too_long(state, structure)) is not None:
        raise InputRefusedError(f"case {state.id!r} cannot be unfaulted: {limit.reason}")
    if state.structure != structure.hash:
        yield DefinitionAdopted(structure=structure.hash)
    failures = tuple(name for name in state.goals if name not in structure.goals or structure.goals[name].failure)
    yield CaseUnfaulted(goals=failures, reason=input.reason, by=input.by)
    for timer, due in state.put_away.items():
        if timer.startswith(SET_AGAIN):
            yield TimerSet(timer=timer, due=due)
    if facts:
        yield ContextChanged(facts=facts, by=input.by, cause=state.version)
    if input.retry:
        for name, firing in state.firings.items():
            if firing.then == OnOutcome.FAULT_CASE:
                letter = ActivationId(f"{state.id}/{name}/{firing.count}")
                yield DeadLetterRetried(binding=name, activation=letter, reason=input.reason, by=input.by)


def _still_reached(state: CaseState, structure: Structure) -> Iterator[str]:
    """The failure goals that hold."""
    for goal in structure.goals.values():
        try:
            if goal.failure and holds(goal.when, state, "goal", goal.name):
                yield goal.name
        except GuardError as error:
            raise InputRefusedError(f"case {state.id!r} cannot be unfaulted: {error}") from error


def _as_facts(facts: Mapping[str, Plain], input: Unfault) -> dict[str, Fact]:
    return {name: Fact(name, value, 0, input.by, 0, input.at) for name, value in facts.items()}
