"""Another loop control over the decisions of a past case: each is put to it as it was put to the first.

It sees the case, its own view of the plan and what was eligible, all of the version at which the deliberation began, and
the log answers as of the position that it answered as of then. What it writes on the plan goes nowhere: the next decision
is put to it as the log has it, with the recorded writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import anyio

from casehub.decision import Decision, DecisionReplay, DecisionStatus, Difference, decisions_of
from casehub.durations import duration
from casehub.engine.deliberation import Asking, Question, stamps_of
from casehub.events import CaseStarted, DefinitionAdopted, DeliberationStarted, Event
from casehub.folding import apply
from casehub.query import EventLog
from casehub.spi import LoopControl, WorksStages
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.view import CaseView


async def replay_decisions(
    events: Sequence[Event], structure: Structure, loop: LoopControl, log: EventLog, versions: Mapping[str, Structure]
) -> DecisionReplay:
    """Put the decisions of a case to a loop control, up to the first that it takes otherwise.

    `events`: the whole log of the case; `structure`: what it has now; `versions`: others that are known, by hash. A decision
    is put with the version that the case had then, if it is known, else with what it has now. Decisions that have no recorded answer are passed over. Each may take as long as
    the loop control's deadline, in real time. Raises `UnknownNameError` for a binding that the definition has no more.
    """
    now, given, case = structure, loop, events[0].case
    if isinstance(given, WorksStages):
        loop = given.over(now)
    state = CaseState(case, control=loop.initial())
    decisions = iter(decisions_of(events))
    compared = skipped = 0
    for _, turn in groupby(events, key=lambda event: event.turn):
        begun: DeliberationStarted | None = None
        for event in turn:
            apply(state, event)
            if type(event) in loop.handles:
                state.control = loop.apply(state.control, event)
            if isinstance(event, DeliberationStarted):
                begun = event
            elif isinstance(event, CaseStarted | DefinitionAdopted):
                structure = versions.get(event.structure, now)
                if isinstance(given, WorksStages):
                    loop = given.over(structure)
        if begun is None:
            continue
        decision = next(decisions)
        if not decision.status.answered:
            skipped += 1
            continue
        compared += 1
        difference = await _put(decision, begun, state, structure, loop, log)
        if difference is not None:
            return DecisionReplay(case=case, compared=compared, skipped=skipped, difference=difference)
    return DecisionReplay(case=case, compared=compared, skipped=skipped)


async def _put(
    decision: Decision,
    begun: DeliberationStarted,
    state: CaseState,
    structure: Structure,
    loop: LoopControl,
    log: EventLog,
) -> Difference | None:
    """Put one decision to a loop control; None when it decides the same."""
    eligible = [structure.binding(name) for name in begun.eligible]
    view = CaseView(state, dict(state.facts), structure, log, begun.at, plan=loop.view(state))
    asking = Asking(begun, Question(view, eligible, stamps_of(state, eligible)))
    answer = None
    with anyio.move_on_after(duration(loop.deadline).total_seconds()):
        answer = await asking.answer(loop)
    if answer is None:
        return Difference(recorded=decision, error=f"no answer within {loop.deadline}")
    if answer.error is not None:
        return Difference(recorded=decision, error=f"{type(answer.error).__name__}: {answer.error}")
    chosen = tuple(answer.chosen)
    deferred = bool(answer.defer_on) or not (answer.defer_after is None and answer.defer_until is None)
    if (chosen, deferred) == (decision.chosen, decision.status is DecisionStatus.DEFERRED):
        return None
    return Difference(recorded=decision, chosen=chosen, deferred=deferred, rationale=answer.rationale)
