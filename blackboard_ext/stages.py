"""How stages behave: rounds of transitions over one state, until nothing follows.

In a round every criterion is tested against the state as the round finds it; then exits, completions and entries are
taken, in this order. So the order of declaration never matters, and a stage that becomes active after its items have
settled completes in the next round. The number of rounds is bounded by the life cycles themselves.

An exit criterion ends a stage that has not been entered too, once all around it are active, so that it exists (CMMN 1.1,
section 8.4.2: exit leads from Available to Terminated); where entry and exit hold at once, it is not entered.

A stage never stays open within one that has ended, and nothing but its exit moves one that is suspended or lies in a
suspended one (CMMN 1.1, section 8.4.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from blackboard_ext.events import StageActivated, StageCompleted, StageEvent, StageFaulted, StageTerminated
from blackboard_ext.plan_state import PlanState, StageStatus
from casehub.envelope import Event
from casehub.events import WorkerExecutionCancelled
from casehub.lifecycle import MilestoneStatus
from casehub.sentry import StateFacts, unmet
from casehub.stage import Stage, StageFault
from casehub.state import CaseState
from casehub.structure import Structure

# ---- where stages stand


def around(structure: Structure, name: str) -> Iterator[str]:
    """The stages that a member lies in, innermost first."""
    stage = structure.stage_of.get(name)
    while stage is not None:
        yield stage
        stage = structure.stage_of.get(stage)


def held_by(structure: Structure, plan: PlanState, name: str) -> str | None:
    """The outermost stage around a member that is not active; None when all are."""
    held = None
    for stage in around(structure, name):
        if plan.stage(stage) is not StageStatus.ACTIVE:
            held = stage
    return held


def suspended(structure: Structure, plan: PlanState, name: str) -> str | None:
    """The outermost suspended stage of this one and those around it; None when none is."""
    found = name if plan.stage(name) is StageStatus.SUSPENDED else None
    for stage in around(structure, name):
        if plan.stage(stage) is StageStatus.SUSPENDED:
            found = stage
    return found


def may_enter(state: CaseState, structure: Structure, plan: PlanState, stage: Stage) -> bool:
    """Whether a stage is pending, all around it are active, and its entry criterion holds."""
    if plan.stage(stage.name) is not StageStatus.PENDING or held_by(structure, plan, stage.name) is not None:
        return False
    return stage.entry is None or stage.entry.holds(StateFacts(state))


def enabled(state: CaseState, structure: Structure, plan: PlanState) -> list[str]:
    """The stages that wait for nothing but somebody who activates them (CMMN: Enabled)."""
    return [s.name for s in structure.stages.values() if s.manual and may_enter(state, structure, plan, s)]


def awaited(state: CaseState, structure: Structure, plan: PlanState) -> list[str]:
    """The stages that stay as they are until somebody acts on them."""
    held = [name for name in structure.stages if plan.stage(name) is StageStatus.SUSPENDED]
    return held + enabled(state, structure, plan)


def inactive(state: CaseState, structure: Structure, plan: PlanState, binding: str) -> str | None:
    """Why the stages hold a binding back, in words; None when they do not."""
    name = held_by(structure, plan, binding)
    if name is None:
        return None
    status = plan.stage(name)
    stage = structure.stages[name]
    remedy = ""
    if status is StageStatus.SUSPENDED:
        remedy = "; resume it"
    elif stage.manual and may_enter(state, structure, plan, stage):
        remedy = ", and waits for somebody to activate it"
    elif status is StageStatus.PENDING and stage.entry is not None:
        remedy = f", as its entry criterion {unmet(stage.entry, StateFacts(state))}"
    return f"its stage {name!r} is {status}{remedy}"


# ---- what follows


def next_round(state: CaseState, structure: Structure, plan: PlanState) -> list[Event]:
    """The transitions of one round, with what they call off; empty when nothing follows."""
    fates = _fates(state, structure, plan)
    events: list[Event] = []
    for exits in (True, False):
        for name, fate in fates.items():
            if (fate is StageStatus.TERMINATED) is exits and not _taken(structure, fates, name):
                events += _end(state, structure, plan, structure.stages[name], fate)
    for stage in structure.stages.values():
        ends = stage.name in fates or _taken(structure, fates, stage.name)
        if not stage.manual and not ends and may_enter(state, structure, plan, stage):
            events.append(
                StageActivated(stage=stage.name, reason="" if stage.entry is None else f"entry: {stage.entry}")
            )
    return events


def end(
    state: CaseState, structure: Structure, plan: PlanState, stage: Stage, event: StageEvent, members: Collection[str]
) -> Iterator[Event]:
    """End a stage by its event, the open stages within it first; what runs in these `members` of it is called off."""
    for member in sorted(stage.members):
        nested = structure.stages.get(member)
        if nested is None:
            continue
        if not plan.stage(member).ended:
            gone = StageTerminated(stage=member, reason=f"its parent {stage.name!r} ended", by=event.by)
            yield from end(state, structure, plan, nested, gone, nested.members)
        elif member in members:
            yield from _left(state, structure, nested, f"its parent {stage.name!r} ended")
    yield from _call_off(state, members, f"stage {stage.name!r} is {event.name.removeprefix('STAGE_')}")
    yield event


def _left(state: CaseState, structure: Structure, stage: Stage, reason: str) -> Iterator[Event]:
    """Call off what still runs within a stage that has ended: optional work that its completion left alone."""
    for member in sorted(stage.members):
        if member in structure.stages:
            yield from _left(state, structure, structure.stages[member], reason)
    yield from _call_off(state, stage.members, reason)


def _call_off(state: CaseState, bindings: Collection[str], reason: str) -> Iterator[Event]:
    """Cancel the activations in flight of these bindings."""
    for activation in list(state.activations.values()):
        if activation.binding in bindings:
            yield WorkerExecutionCancelled(
                binding=activation.binding,
                activation=activation.id,
                worker=activation.worker,
                attempt=activation.attempt,
                reason=reason,
            )


def _fates(state: CaseState, structure: Structure, plan: PlanState) -> dict[str, StageStatus]:
    """How each open stage that ends in this round ends, if no stage around it does."""
    seen = StateFacts(state)
    fates: dict[str, StageStatus] = {}
    for stage in structure.stages.values():
        status = plan.stage(stage.name)
        pending = status is StageStatus.PENDING
        if status.ended or (pending and held_by(structure, plan, stage.name) is not None):
            continue
        if stage.exit is not None and stage.exit.holds(seen):
            fates[stage.name] = StageStatus.TERMINATED
        elif pending or suspended(structure, plan, stage.name) is not None:
            continue
        elif stage.on_fault is StageFault.FAULT and _faulty(state, plan, structure, stage):
            fates[stage.name] = StageStatus.FAULTED
        elif stage.autocomplete and stage.required and _all_settled(state, plan, structure, stage):
            fates[stage.name] = StageStatus.COMPLETED
    for name in list(fates):  # a stage completes in the round after the stages within it have ended
        for parent in around(structure, name):
            if fates.get(parent) is StageStatus.COMPLETED:
                del fates[parent]
    return fates


def _taken(structure: Structure, fates: Mapping[str, StageStatus], name: str) -> bool:
    """Whether a stage around this one ends in this round and takes it along."""
    return any(parent in fates for parent in around(structure, name))


def _end(state: CaseState, structure: Structure, plan: PlanState, stage: Stage, fate: StageStatus) -> Iterator[Event]:
    if fate is StageStatus.TERMINATED:
        event: StageEvent = StageTerminated(stage=stage.name, reason=f"exit: {stage.exit}")
    elif fate is StageStatus.FAULTED:
        event = StageFaulted(stage=stage.name, reason=f"{', '.join(_faulty(state, plan, structure, stage))} faulted")
    else:
        event = StageCompleted(stage=stage.name, reason=f"{', '.join(sorted(stage.required))} settled")
    members = stage.companions if fate is StageStatus.COMPLETED else stage.members
    return end(state, structure, plan, stage, event, members)


# ---- members


def _all_settled(state: CaseState, plan: PlanState, structure: Structure, stage: Stage) -> bool:
    return all(_settled(state, plan, structure.stages, name) for name in stage.required)


def _settled(state: CaseState, plan: PlanState, stages: Mapping[str, Stage], name: str) -> bool:
    """Whether a member needs nothing more: it ran and ended, or is achieved, or has ended as a stage.

    A dead letter that is retried has ended, and is about to run again.
    """
    if name in stages:
        return plan.stage(name).ended
    milestone = state.milestones.get(name)
    if milestone is not None:
        return milestone.status is MilestoneStatus.ACHIEVED
    firing = state.firings.get(name)
    return (
        firing is not None
        and bool(firing.outcome)
        and firing.in_flight is None
        and firing.then != "retry"
        and not firing.outcome.endswith("CANCELLED")
    )


def _faulty(state: CaseState, plan: PlanState, structure: Structure, stage: Stage) -> list[str]:
    return [name for name in sorted(stage.required) if _faulted(state, plan, structure.stages, name)]


def _faulted(state: CaseState, plan: PlanState, stages: Mapping[str, Stage], name: str) -> bool:
    if name in stages:
        return plan.stage(name) is StageStatus.FAULTED
    firing = state.firings.get(name)
    return firing is not None and firing.in_flight is None and firing.then.startswith("fault")
