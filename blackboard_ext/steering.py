"""What people do to a stage: each verb, the statuses in which it is allowed, and the events that it comes to.

`complete` is for what is done by other means: nothing is waited for any more, so what still runs is called off, and the
stages within that are open are terminated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from blackboard_ext.events import (
    StageActivated,
    StageCompleted,
    StageEvent,
    StageFaulted,
    StageResumed,
    StageSuspended,
    StageTerminated,
)
from blackboard_ext.plan_state import PlanState, StageStatus
from blackboard_ext.stages import end, held_by, may_enter, suspended
from casehub.envelope import Event
from casehub.errors import IllegalTransitionError, InputRefusedError, did_you_mean
from casehub.inputs import SteerStage
from casehub.sentry import StateFacts, unmet
from casehub.stage import Stage, StageVerb
from casehub.state import CaseState
from casehub.structure import Structure

ALLOWED: Final[Mapping[StageVerb, tuple[StageStatus, ...]]] = {
    StageVerb.ACTIVATE: (StageStatus.PENDING,),
    StageVerb.COMPLETE: (StageStatus.ACTIVE,),
    StageVerb.TERMINATE: (StageStatus.PENDING, StageStatus.ACTIVE, StageStatus.SUSPENDED),
    StageVerb.FAULT: (StageStatus.PENDING, StageStatus.ACTIVE, StageStatus.SUSPENDED),
    StageVerb.SUSPEND: (StageStatus.ACTIVE,),
    StageVerb.RESUME: (StageStatus.SUSPENDED,),
}
"""In which statuses each verb is allowed (CMMN 1.1, section 8.4.2)."""
EVENTS: Final[Mapping[StageVerb, type[StageEvent]]] = {
    StageVerb.ACTIVATE: StageActivated,
    StageVerb.COMPLETE: StageCompleted,
    StageVerb.TERMINATE: StageTerminated,
    StageVerb.FAULT: StageFaulted,
    StageVerb.SUSPEND: StageSuspended,
    StageVerb.RESUME: StageResumed,
}
_ENDS: Final = (StageVerb.COMPLETE, StageVerb.TERMINATE, StageVerb.FAULT)


def direct(state: CaseState, structure: Structure, plan: PlanState, input: SteerStage) -> list[Event]:
    """The events that somebody's verb comes to. Raises `InputRefusedError`, `IllegalTransitionError`."""
    stage = structure.stages.get(input.stage)
    if stage is None:
        raise InputRefusedError(
            f"definition {structure.name!r} has no stage {input.stage!r}; {did_you_mean(input.stage, structure.stages)}"
        )
    why = _forbidden(state, structure, plan, stage, input.verb)
    if why:
        raise IllegalTransitionError(f"case {state.id!r} cannot {input.verb} its stage {stage.name!r}: {why}")
    event = EVENTS[input.verb](stage=stage.name, reason=input.reason, by=input.by)
    return list(end(state, structure, plan, stage, event, stage.members)) if input.verb in _ENDS else [event]


def _forbidden(state: CaseState, structure: Structure, plan: PlanState, stage: Stage, verb: StageVerb) -> str:
    """Why the life cycle forbids a verb now, and what would allow it; empty when it does not."""
    status = plan.stage(stage.name)
    if status.ended:
        return f"it is {status}, a terminal status; {_REMEDIES[status]}"
    if status not in ALLOWED[verb]:
        return f"it is {status}, and only a stage that is {' or '.join(ALLOWED[verb])} can; {_REMEDIES[status]}"
    if verb is StageVerb.ACTIVATE:
        parent = held_by(structure, plan, stage.name)
        if parent is not None:
            return f"it lies in {parent!r}, which is {plan.stage(parent)}; {_REMEDIES[plan.stage(parent)]}"
        if stage.entry is not None and not may_enter(state, structure, plan, stage):
            return f"its entry criterion {unmet(stage.entry, StateFacts(state))}; bring that about"
    if verb is StageVerb.COMPLETE:
        parent = suspended(structure, plan, stage.name)
        if parent is not None:
            return f"it lies in {parent!r}, which is {StageStatus.SUSPENDED}; resume that one first"
    return ""


_REMEDIES: Final[Mapping[StageStatus, str]] = {
    StageStatus.PENDING: "it has to be entered or activated first",
    StageStatus.ACTIVE: "it is under way",
    StageStatus.SUSPENDED: "resume it first",
    StageStatus.COMPLETED: "nothing brings it back",
    StageStatus.TERMINATED: "nothing brings it back",
    StageStatus.FAULTED: "nothing brings it back",
}
