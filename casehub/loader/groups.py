"""Sub-cases of the original: one, or a group of them of which some have to complete."""

from __future__ import annotations

import re
from dataclasses import dataclass

from casehub.binding import Worker
from casehub.definition import CaseDefinition
from casehub.loader.document import Scalar
from casehub.loader.expressions import Program, parameters
from casehub.loader.mistakes import Mistakes
from casehub.loader.projections import object_of
from casehub.loader.sections import Section
from casehub.loader.subcases import Opener
from casehub.subcase import Rest, SubCase
from casehub.values import Plain

_MAPPING = re.compile(r"\{\s*([A-Za-z_]\w*)\s*:\s*\.([A-Za-z_]\w*)\s*\}")
_NOBODY = CaseDefinition("nothing")


@dataclass(frozen=True, slots=True)
class Group:
    """The function that says what sub-cases start with: all with the same."""

    given: Program
    total: int | None

    def __call__(self, **facts: Plain) -> Plain:
        start = object_of(self.given.compute(facts), self.given)
        return start if self.total is None else [start] * self.total


def group_of(
    definition: CaseDefinition, name: str, section: Section, given: Program, opener: Opener, mistakes: Mistakes
) -> Worker:
    """The worker that a `subCase` is. Its definition is in a file of its name beside this one."""
    node = section.node.values.get("name")
    child: CaseDefinition | None = None
    if isinstance(node, Scalar):
        path = Scalar(node.place, 1, f"{node.text}.yaml", f"{node.text}.yaml", node.raw)
        child = opener(path, f"{section.subject}.name", definition)
        wanted = f"{section.get('namespace')}.{node.text}"
        if child is not None and child.name != wanted:
            mistakes.note(
                node.place,
                f"{section.subject}.name",
                f"{path.text!r} is of {child.name!r}, and not of {wanted!r}",
                "name the one that is meant",
            )
        version = section.get("version", "")
        kept = "" if child is None else child.title.removeprefix(f"{node.text} ")
        if child is not None and kept not in (child.title, version) and version:
            mistakes.note(
                section.node.values["version"].place, f"{section.subject}.version",
                f"is {version!r}, and {path.text!r} has the version {kept!r}", "name the version of that file",
            )  # fmt: skip
    definition.sub_cases[(child or _NOBODY).name] = child or _NOBODY
    mapping = section.node.values.get("outputMapping")
    found = _MAPPING.fullmatch(section.get("outputMapping", "").strip())
    if found is None and mapping is not None:
        mistakes.note(
            mapping.place, f"{section.subject}.outputMapping", "does not take one fact for one", "write {fact: .fact}"
        )
    total, needed = section.get("totalInGroup"), section.get("requiredCount")
    for key, count, most in (("totalInGroup", total, None), ("requiredCount", needed, total)):
        if count is not None and (count < 1 or (most is not None and count > most)):
            mistakes.note(
                section.node.values[key].place, f"{section.subject}.{key}", f"is {count}, and can never be reached"
                if count >= 1 else f"is {count}, and no group is so small",
                "give at least 1" if most is None else f"give 1 to {most}",
            )  # fmt: skip
    function = Group(given, total)
    spec = SubCase(
        (child or _NOBODY).name,
        found[2] if found and child is not None else None,
        total is not None,
        None if needed is not None and needed < 1 else needed,
        Rest.CANCEL if section.get("onThresholdReached") == "CANCEL" else Rest.KEEP,
    )
    facts = re.findall(r"\{\s*([A-Za-z_]\w*)", section.get("outputMapping", ""))[:1]
    return Worker(name, function, parameters(given), tuple(facts), is_async=False, sub_case=spec, computes=given.source)
