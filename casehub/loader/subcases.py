"""Work that cases of another definition do: what stands under `case:`."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass

from casehub.binding import Worker
from casehub.definition import CaseDefinition
from casehub.loader.conditions import Expressions, Wants
from casehub.loader.document import Mapping, Scalar
from casehub.loader.expressions import Computation, ExpressionError, Inline, Program, parameters
from casehub.loader.sections import Section, SectionReader
from casehub.subcase import Rest, SubCase
from casehub.values import Plain
from casehub.wiring import Parameter

Opener = Callable[[Scalar, str, CaseDefinition], CaseDefinition | None]
"""Loads the definition that a path names, or notes why not. Given the one that names it, which may be the same."""


@dataclass(frozen=True, slots=True)
class Starting:
    """The function of a sub-case: what it, or each of several, starts with."""

    one: Computation
    several: Program | None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.one.parameters if self.several is None else parameters(self.several)

    def __call__(self, **facts: Plain) -> Plain:
        if self.several is None:
            return self.one.computed(facts)
        found = self.several.compute(facts)
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise ExpressionError(f"{self.several.source!r} comes to {found!r}, and a list of objects is needed")
        return found

    def __str__(self) -> str:
        return str(self.one) if self.several is None else " ".join(self.several.source.split())


class SubCaseReader:
    """Reads sub-cases."""

    def __init__(self, sections: SectionReader, opener: Opener) -> None:
        self._sections = sections
        self._open = opener

    def sub_case(self, definition: CaseDefinition, name: str, section: Section, expressions: Expressions) -> Worker:
        """The worker that cases of another definition are."""
        subject = f"{section.subject}.case"
        node = section.value("case")
        case = self._sections.section(node, "case", subject) or Section(Mapping(node.place), subject, {})
        path = case.value("definition") if "definition" in case else None
        found = self._open(path, f"{subject}.definition", definition) if isinstance(path, Scalar) else None
        child = found or CaseDefinition("nothing")  # stands there in a definition that is refused
        definition.sub_cases[child.name] = child
        if ("start" in case) == ("starts" in case):
            self._sections.mistakes.note(
                node.place,
                subject,
                "does not say what it starts with",
                "give start (facts with expressions) or starts (a list of them)",
            )
        programs: dict[str, Program] = {}
        starts = case.value("start") if "start" in case else None
        entries: Mapped[str, object] = starts.values if isinstance(starts, Mapping) else {}
        for fact in entries:
            program = expressions.program(starts.values[fact], f"{subject}.start.{fact}", wants=Wants.ANYTHING)  # type: ignore[union-attr]  # a mapping, as it has entries
            if program is not None:
                programs[fact] = program
        several = None
        if "starts" in case:
            several = expressions.program(case.value("starts"), f"{subject}.starts", wants=Wants.LIST)
        starting = Starting(Inline(name, programs), several)
        written = tuple(section.get("writes", ()))[:1]
        wait = case.get("wait", True)
        takes = (case.get("takes") or (written[0] if written else None)) if wait and found is not None else None
        spec = SubCase(
            child.name,
            takes,
            "starts" in case,
            case.get("need"),
            Rest(case.get("rest", Rest.CANCEL)),
            wait,
        )
        return Worker(
            name, starting, starting.parameters, written, is_async=False, sub_case=spec, computes=str(starting)
        )
