"""The definitions of a hub: of each name a current version, which new cases are of, and others that are kept.

An open case goes on with the version that it has, as long as that is here; else it adopts the current one. A name of which
all versions are kept ones takes no new cases by that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from casehub.definition import CaseDefinition
from casehub.errors import InputRefusedError, SettingsError, did_you_mean
from casehub.events import CaseId, CaseStarted, DefinitionAdopted, Event
from casehub.serialized import FactSerializer
from casehub.structure import Structure
from casehub.validation import build


class Registry:
    """Definitions and those of their sub-cases, by name and version.

    `definitions`, `structures`: the current ones, by name; `versions`: all, by hash, the current ones first;
    `serializers`: as of the hub. Raises
    `DefinitionError` for a definition that can never work, `SettingsError` where two current ones have one name or two that
    were given are the same version.
    """

    def __init__(
        self,
        current: Iterable[CaseDefinition],
        kept: Iterable[CaseDefinition] = (),
        serializers: Sequence[FactSerializer] = (),
    ) -> None:
        self.definitions = _current(current)
        self.structures = {name: build(definition, serializers) for name, definition in self.definitions.items()}
        self.versions = {structure.hash: structure for structure in self.structures.values()}
        built = {structure.definition: structure for structure in self.structures.values()}
        given, implied = _kept(kept, built)
        for definition in (*given, *implied):
            structure = build(definition, serializers)
            same = self.versions.setdefault(structure.hash, structure)
            if same is not structure and definition in given:
                raise SettingsError(
                    f"definition {structure.name!r} was given twice as version {structure.hash}: the bodies of functions "
                    "make no version, and its open cases go on with either; leave one out"
                )
            built[definition] = same  # the sub-cases of two versions are often the same
        for structure in self.versions.values():
            structure.children = {name: built[child] for name, child in structure.definition.sub_cases.items()}

    def __contains__(self, name: object) -> bool:
        """Whether a version of this name is here, current or kept."""
        return any(structure.name == name for structure in self.versions.values())

    @property
    def names(self) -> Sequence[str]:
        """The names of all definitions, those without a current version last."""
        return list(dict.fromkeys(structure.name for structure in self.versions.values()))

    def of(self, name: str, version: str) -> Structure | None:
        """What a case of this definition and version goes on with: its own, else the current one; None without either."""
        found = self.versions.get(version)
        return found if found is not None and found.name == name else self.structures.get(name)

    def going_on_with(self, case: CaseId, name: str, version: str) -> Structure:
        """As `of`, for a case. Raises `InputRefusedError` where nothing of its definition is here."""
        structure = self.of(name, version)
        if structure is not None:
            return structure
        if name in self:
            raise InputRefusedError(
                f"case {case!r} is of version {version} of definition {name!r}, of which this hub keeps only others; keep "
                "that one too, or give one that is current"
            )
        raise InputRefusedError(
            f"case {case!r} is of definition {name!r}, which this hub lacks; {did_you_mean(name, self.names)}"
        )

    @property
    def others(self) -> Sequence[Structure]:
        """The versions that are kept."""
        return [each for each in self.versions.values() if each is not self.structures.get(each.name)]

    def meant(self, definition: CaseDefinition | str) -> Structure:
        """The current version of a name; of a definition itself, its own. Raises `SettingsError` where there is none."""
        name = definition if isinstance(definition, str) else definition.name
        if isinstance(definition, str):
            structure = self.structures.get(name)
        else:
            structure = next((each for each in self.versions.values() if each.definition is definition), None)
        if structure is not None:
            return structure
        if isinstance(definition, str) and name in self:
            raise SettingsError(
                f"definition {name!r} is only kept for its open cases; give CaseHub the version that new ones are to be of"
            )
        raise SettingsError(
            f"this hub has no definition {name!r}; {did_you_mean(name, self.names)} (pass it to CaseHub)"
        )


def version_in(events: Sequence[Event]) -> str:
    """The version that a case has, in its log; empty where that does not say it."""
    for event in reversed(events):
        if isinstance(event, CaseStarted | DefinitionAdopted):
            return event.structure
    return ""


def _current(definitions: Iterable[CaseDefinition]) -> dict[str, CaseDefinition]:
    """Definitions and those of their sub-cases, by name."""
    found: dict[str, CaseDefinition] = {}
    waiting = list(definitions)
    if len(set(waiting)) < len(waiting):
        raise SettingsError("a definition was given twice; give each once")
    for definition in waiting:  # which grows meanwhile
        if found.setdefault(definition.name, definition) is not definition:
            raise SettingsError(
                f"two definitions have the name {definition.name!r}; rename one of them, or, where they are versions of "
                "one, keep the other for its open cases: CaseHub(new, kept=[old]), or in YAML in the folder 'kept' beside it"
            )
        waiting += [each for each in definition.sub_cases.values() if each not in waiting]
    return found


def _kept(
    definitions: Iterable[CaseDefinition], current: Mapping[CaseDefinition, Structure]
) -> tuple[list[CaseDefinition], list[CaseDefinition]]:
    """The versions that were given to be kept, and those that come with them as their sub-cases."""
    given = list(definitions)
    for definition in given:
        if definition in current:
            raise SettingsError(
                f"definition {definition.name!r} is a current one, and kept= has it too; leave it out there"
            )
    if len(set(given)) < len(given):
        raise SettingsError("kept= has a definition twice; give each once")
    every = list(given)
    for definition in every:  # which grows meanwhile
        every += [each for each in definition.sub_cases.values() if each not in every and each not in current]
    return given, every[len(given) :]
