"""Quiescence: nothing runs and nothing fires, so the case is done, waits for somebody, or is stuck."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from casehub.binding import Binding
from casehub.engine.limits import hold
from casehub.engine.staging import stages_wait
from casehub.events import CaseCompleted, CaseStalled, CaseStatusChanged, Event, MilestoneSlaViolated
from casehub.explanation import Explanation, Verdict
from casehub.lifecycle import CaseStatus
from casehub.purpose import completion_of, criterion
from casehub.sentry import StateFacts, unmet
from casehub.spi import LoopControl
from casehub.state import CaseState
from casehub.structure import Structure

SAID: Final = 3
"""Failures that a case names when it waits."""


def at_rest(
    state: CaseState,
    structure: Structure,
    loop: LoopControl,
    eligible: Collection[Binding],
    explained: Callable[[Binding], Explanation],
    *,
    awaiting: bool,
) -> Event | None:
    """What a case at rest comes to: `CaseCompleted`, a status it takes, `CaseStalled`; None where that is said already.

    `eligible`: what is held back or was not chosen; `awaiting`: a deferred answer is still to come.
    """
    if state.activations:  # all of them are with people
        return _waiting(state)
    resumed = bool(eligible) and None in state.quarantined.values()  # once somebody resumes the worker
    deferred = awaiting or resumed or _moved_by_a_timer(state, structure, loop, held_up=bool(eligible))
    steered = stages_wait(state, structure, loop)
    at_quiescence = structure.definition.at_quiescence and not state.purpose
    if at_quiescence and not (eligible or deferred or steered):
        return CaseCompleted(before=state.status, reason="quiescent")
    endless = completion_of(state, structure) is None and structure.done_when is None and not at_quiescence
    refused = eligible and not deferred and any(hold(state, structure, loop, binding) is None for binding in eligible)
    if not refused and (deferred or steered or structure.brought or endless):
        return _waiting(state)
    if not state.stalled:
        return CaseStalled(reasons=tuple(_reasons(state, structure, explained)))
    return None


def _waiting(state: CaseState) -> Event | None:
    """That the case waits, and which of its bindings have failed for good: who waits for their facts may do so in vain."""
    if state.status is not CaseStatus.RUNNING:
        return None
    failed = [
        f"{name}: {firing.outcome}{': ' if firing.detail else ''}{firing.detail}"
        for name, firing in state.firings.items()
        if firing.then.startswith("fault")
    ]
    more = [f"and {len(failed) - SAID} more"] if len(failed) > SAID else []
    return CaseStatusChanged(
        before=CaseStatus.RUNNING, after=CaseStatus.WAITING, reason="; ".join((*failed[:SAID], *more))
    )


def _moved_by_a_timer(state: CaseState, structure: Structure, loop: LoopControl, *, held_up: bool) -> bool:
    if not state.timers:
        return False
    # A breached service level moves a case only where something listens to it, the end of a quarantine only what it holds.
    idle = ("sla:",) if held_up else ("sla:", "quarantine:")
    for timer in state.timers:
        if not timer.startswith(idle):
            return True
    return any(issubclass(MilestoneSlaViolated, kind) for kind in (*structure.triggered, *loop.handles))


def _reasons(state: CaseState, structure: Structure, explained: Callable[[Binding], Explanation]) -> Iterator[str]:
    """A line for each binding and each goal that is stuck."""
    for binding in structure.bindings.values():
        if binding.compensates:
            continue
        said = explained(binding)
        firing = state.firings.get(binding.name)
        if said.verdict is not Verdict.UNCHANGED or firing is None or firing.then.startswith("fault"):
            yield str(said)
    wanted = (state.purpose,) if state.purpose else [goal.name for goal in structure.goals.values() if not goal.failure]
    for goal in wanted:
        if goal not in state.goals:
            yield f"goal {goal} is not reached: {unmet(criterion(structure, goal), StateFacts(state))}"
