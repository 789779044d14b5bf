"""What stages, and a loop control's own gate, hold back. The loop control works the stages; the engine asks it."""

from __future__ import annotations

from collections.abc import Sequence

from casehub.binding import Binding
from casehub.envelope import Event
from casehub.spi import LoopControl, WorksStages
from casehub.state import CaseState
from casehub.structure import Structure


def stage_events(structure: Structure, loop: LoopControl) -> tuple[type[Event], ...]:
    """The classes of the events that say what becomes of the stages of a definition; none where it has no stages."""
    return tuple(loop.stage_events) if structure.stages and isinstance(loop, WorksStages) else ()


def inactive(state: CaseState, structure: Structure, loop: LoopControl, binding: Binding) -> str | None:
    """Why the stages that a binding lies in hold it back, in words; None when they do not."""
    if binding.name in structure.stage_of and isinstance(loop, WorksStages):
        return loop.inactive(state, binding)
    return None


def closed(state: CaseState, structure: Structure, loop: LoopControl, binding: Binding) -> str | None:
    """Why a stage or the loop control's gate holds a binding back, in words; None when neither does."""
    outside = inactive(state, structure, loop, binding)
    return loop.gate(state, binding) if outside is None else outside


def staged(state: CaseState, structure: Structure, loop: LoopControl, eligible: Sequence[Binding]) -> Sequence[Binding]:
    """Those of the eligible bindings that no stage holds back, in their order."""
    if not structure.stages:
        return eligible
    return [binding for binding in eligible if inactive(state, structure, loop, binding) is None]


def stages_wait(state: CaseState, structure: Structure, loop: LoopControl) -> bool:
    """Whether a stage stays as it is until somebody acts on it."""
    return bool(structure.stages) and isinstance(loop, WorksStages) and bool(loop.awaited(state))
