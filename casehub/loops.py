"""Which loop control works which definition of a hub."""

from __future__ import annotations

from collections.abc import Mapping

from casehub.engine.choreography import ChoreographyLoopControl
from casehub.errors import DefinitionError, SettingsError, did_you_mean
from casehub.spi import LoopControl, WorksStages
from casehub.structure import Structure
from casehub.validation import unworked_stages

Loops = LoopControl | Mapping[str, LoopControl]
"""One loop control for all definitions, or one by the name of each; choreography for the others."""


def loops_of(loop: Loops | None, structures: Mapping[str, Structure]) -> dict[str, LoopControl]:
    """The loop control of each definition, over the structure that it works.

    Raises `SettingsError` for a definition that there is not and for what is no loop control, `DefinitionError` for stages that nobody works.
    """
    default = ChoreographyLoopControl()
    if isinstance(loop, Mapping):
        for name in loop:
            if name not in structures:
                raise SettingsError(f"loop= names the definition {name!r}; {did_you_mean(name, structures)}")
        return {name: _over(loop.get(name, default), structure) for name, structure in structures.items()}
    return {name: _over(default if loop is None else loop, structure) for name, structure in structures.items()}


def _over(loop: LoopControl, structure: Structure) -> LoopControl:
    if isinstance(loop, type) or not hasattr(loop, "handles"):
        raise SettingsError(
            f"loop= is {loop!r:.200}, which is no loop control; give an instance of one. A planning strategy goes into one: "
            "PlanningStrategyLoopControl(strategy)"
        )
    if isinstance(loop, WorksStages):
        return loop.over(structure)
    if structure.stages:
        raise DefinitionError(structure.name, [unworked_stages(structure, type(loop).__name__)])
    return loop
