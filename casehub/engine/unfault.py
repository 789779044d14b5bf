"""A case that has faulted goes on: what may be taken back of its end, and what happens again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
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
    """The case runs again, and what faulted it may. What was undone counts as not done: the facts that it wrote are gone,
    unless somebody has written them since, and it comes up again.

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
    gone = state.compensations.retracted(state.facts)
    left = replace(state, facts={name: fact for name, fact in state.facts.items() if name not in gone})
    facts = changed(left, structure, input.facts)
    after = replace(left, facts={**left.facts, **_as_facts(facts, input)})
    for goal in _still_reached(after, structure):
        raise InputRefusedError(
            f"case {state.id!r} cannot be unfaulted: failure goal {goal!r} still holds ({structure.goals[goal].when}); "
            "bring the facts with it that end this"
        )
    if (limit := too_long(state, structure)) is not None:
        raise InputRefusedError(f"case {state.id!r} cannot be unfaulted: {limit.reason}")
    if state.structure != structure.hash:
        yield DefinitionAdopted(structure=structure.hash)
    undone = tuple(name for name in state.goals if _undone(after, structure, name, gone))
    yield CaseUnfaulted(goals=undone, reason=input.reason, by=input.by)
    if gone:
        yield ContextChanged(facts={}, deleted=gone, by="engine", cause=state.version)
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


def _undone(state: CaseState, structure: Structure, goal: str, gone: Collection[str]) -> bool:
    """Whether a goal counts as reached no more: one of failure, and one whose facts went with what was undone."""
    found = structure.goals.get(goal)
    if found is None or found.failure:
        return True
    return not found.when.reads.isdisjoint(gone) and not holds(found.when, state, "goal", goal)


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
