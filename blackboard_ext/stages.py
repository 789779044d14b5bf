"""How stages behave: rounds of transitions over one state, until nothing follows.

In a round every criterion is tested against the state as the round finds it; then exits, completions and entries are
taken, in this order. So the order of declaration never matters, and a stage that becomes active after its items have
settled completes in the next round. The number of rounds is bounded by the life cycles themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from blackboard_ext.events import StageActivated, StageCompleted, StageFaulted, StageTerminated
from blackboard_ext.plan import PlanState, StageStatus
from casehub.envelope import Event
from casehub.events import WorkerExecutionCancelled
from casehub.lifecycle import MilestoneStatus
from casehub.sentry import Facts, StateFacts
from casehub.stage import Stage, StageFault
from casehub.state import CaseState
from casehub.structure import Structure


def next_round(state: CaseState, structure: Structure, plan: PlanState) -> list[Event]:
    """The transitions of one round, with what they call off; empty when nothing follows."""
    seen = StateFacts(state)
    fates = _fates(state, structure, plan, seen)
    own = [stage for stage in structure.stages.values() if stage.name in fates and not _taken(structure, fates, stage)]
    leaving = [
        event
        for stage in own
        if fates[stage.name] is StageStatus.TERMINATED
        for event in terminate(state, structure, plan, stage, f"exit: {stage.exit}")
    ]
    ending = [
        event
        for stage in own
        if fates[stage.name] is not StageStatus.TERMINATED
        for event in _end(state, plan, structure, stage, fates[stage.name])
    ]
    entering = [event for event in _entries(structure, plan, seen) if not _within(structure, fates, event.stage)]
    return [*leaving, *ending, *entering]


def gate(structure: Structure, plan: PlanState, binding: str) -> str | None:
    """Why the stages hold a binding back, in words; None when they do not."""
    stage = structure.stage_of.get(binding)
    while stage is not None:
        status = plan.stage(stage)
        if status is not StageStatus.ACTIVE:
            return f"its stage {stage!r} is {status}"
        stage = structure.stage_of.get(stage)
    return None


def terminate(
    state: CaseState, structure: Structure, plan: PlanState, stage: Stage, reason: str, by: str = "engine"
) -> Iterator[Event]:
    """End a stage and all within it, innermost first, and call off what runs in them."""
    yield from _clear(state, structure, plan, stage, stage.members, by)
    yield from call_off(state, stage.members, f"stage {stage.name!r} is TERMINATED")
    yield StageTerminated(stage=stage.name, reason=reason, by=by)


def _clear(
    state: CaseState, structure: Structure, plan: PlanState, stage: Stage, members: Iterable[str], by: str = "engine"
) -> Iterator[Event]:
    """End the stages among these members of a stage; one that has ended may have optional work left in it."""
    for member in members:
        nested = structure.stages.get(member)
        if nested is None:
            continue
        if not plan.stage(member).ended:
            yield from terminate(state, structure, plan, nested, f"its parent {stage.name!r} ended", by)
        else:
            yield from _clear(state, structure, plan, nested, nested.members, by)
            yield from call_off(state, nested.members, f"its parent {stage.name!r} ended")


def call_off(state: CaseState, bindings: tuple[str, ...] | frozenset[str], reason: str) -> Iterator[Event]:
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


def _fates(state: CaseState, structure: Structure, plan: PlanState, seen: Facts) -> dict[str, StageStatus]:
    """How each active stage that ends in this round would end, left to itself."""
    fates: dict[str, StageStatus] = {}
    for stage in structure.stages.values():
        required = stage.required
        if plan.stage(stage.name) is not StageStatus.ACTIVE:
            continue
        if stage.exit is not None and stage.exit.holds(seen):
            fates[stage.name] = StageStatus.TERMINATED
        elif stage.on_fault is StageFault.FAULT and _faulty(state, plan, structure, stage):
            fates[stage.name] = StageStatus.FAULTED
        elif (
            stage.autocomplete and required and all(_settled(state, plan, structure.stages, name) for name in required)
        ):
            fates[stage.name] = StageStatus.COMPLETED
    return fates


def _taken(structure: Structure, fates: Mapping[str, StageStatus], stage: Stage) -> bool:
    """Whether a stage around this one ends in this round and takes it along; a completed one takes its companions."""
    name, parent = stage.name, structure.stage_of.get(stage.name)
    while parent is not None:
        fate = fates.get(parent)
        if fate is not None and (fate is not StageStatus.COMPLETED or name in structure.stages[parent].companions):
            return True
        name, parent = parent, structure.stage_of.get(parent)
    return False


def _within(structure: Structure, fates: Mapping[str, StageStatus], name: str) -> bool:
    """Whether a stage around this one ends in this round."""
    parent = structure.stage_of.get(name)
    while parent is not None and parent not in fates:
        parent = structure.stage_of.get(parent)
    return parent is not None


def _end(state: CaseState, plan: PlanState, structure: Structure, stage: Stage, fate: StageStatus) -> Iterator[Event]:
    faulted = fate is StageStatus.FAULTED
    members = [name for name in stage.members if faulted or name in stage.companions]
    yield from _clear(state, structure, plan, stage, members)
    yield from call_off(state, frozenset(members), f"stage {stage.name!r} is {fate}")
    if faulted:
        yield StageFaulted(stage=stage.name, reason=f"{', '.join(_faulty(state, plan, structure, stage))} faulted")
    else:
        yield StageCompleted(stage=stage.name, reason=f"{', '.join(stage.required)} settled")


def _faulty(state: CaseState, plan: PlanState, structure: Structure, stage: Stage) -> list[str]:
    return [name for name in stage.required if _faulted(state, plan, structure.stages, name)]


def _entries(structure: Structure, plan: PlanState, seen: Facts) -> Iterator[StageActivated]:
    for stage in structure.stages.values():
        if plan.stage(stage.name) is not StageStatus.PENDING:
            continue
        parent = structure.stage_of.get(stage.name)
        if parent is not None and plan.stage(parent) is not StageStatus.ACTIVE:
            continue
        if stage.entry is None or stage.entry.holds(seen):
            yield StageActivated(stage=stage.name, reason="" if stage.entry is None else f"entry: {stage.entry}")


def _settled(state: CaseState, plan: PlanState, stages: Mapping[str, Stage], name: str) -> bool:
    """Whether a member needs nothing more: it ran and ended, or is achieved, or has ended as a stage."""
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
        and not firing.outcome.endswith("CANCELLED")
    )


def _faulted(state: CaseState, plan: PlanState, stages: Mapping[str, Stage], name: str) -> bool:
    if name in stages:
        return plan.stage(name) is StageStatus.FAULTED
    firing = state.firings.get(name)
    return firing is not None and firing.in_flight is None and firing.then.startswith("fault")
