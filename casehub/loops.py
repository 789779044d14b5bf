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


def loops_of(loop: Loops | None, versions: Mapping[str, Structure]) -> dict[str, LoopControl]:
    """The loop control of each version of each definition, over the structure that it works, by hash.

    Raises `SettingsError` for a definition that there is not and for what is no loop control, `DefinitionError` for stages that nobody works.
    """
    given: Mapping[str, LoopControl] = loop if isinstance(loop, Mapping) else {}
    names = [structure.name for structure in versions.values()]
    for name in given:
        if name not in names:
            raise SettingsError(f"loop= names the definition {name!r}; {did_you_mean(name, names)}")
    default = ChoreographyLoopControl() if loop is None or isinstance(loop, Mapping) else loop
    return {version: over(given.get(each.name, default), each) for version, each in versions.items()}


def over(loop: LoopControl, structure: Structure) -> LoopControl:
    """A loop control over the structure that it is to work. Raises what `loops_of` does."""
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
