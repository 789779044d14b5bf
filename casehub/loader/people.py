"""Tasks for people: what stands under `ask:`."""

from __future__ import annotations

from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from casehub.binding import Worker
from casehub.durations import duration
from casehub.errors import FactError, SettingsError
from casehub.humantask import HumanTask
from casehub.loader.conditions import Expressions, Wants
from casehub.loader.document import Mapping, Node, Scalar
from casehub.loader.expressions import ExpressionError, Program, parameters
from casehub.loader.fact_types import TypeReader
from casehub.loader.sections import Section, SectionReader
from casehub.loader.vocabulary import Takes
from casehub.values import FactType, Plain
from casehub.wiring import Parameter

_SAID: Final = {
    "priority": Wants.WHOLE, "due": Wants.WHEN, "follow_up": Wants.WHEN, "expires": Wants.SPAN, "escalate": Wants.WHEN,
    "title": Wants.TEXT, "description": Wants.TEXT,
    "groups": Wants.NAMES, "users": Wants.NAMES, "escalate_to": Wants.NAMES,
    "deadline": Wants.MOMENT,
}  # fmt: skip
"""What a task says, with what an expression of it comes to."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The function of a human task: what to ask, of the facts that it shows. `fixed`: what depends on none."""

    form: Any
    shows: tuple[Parameter, ...]
    fixed: Mapped[str, Any]
    programs: Mapped[str, Program]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What is shown and what its expressions read; required if one of them requires it."""
        found = {each.name: each for each in self.shows}
        for program in self.programs.values():
            for each in parameters(program):
                known = found.get(each.name)
                if known is None or (known.optional and not each.optional):
                    found[each.name] = each
        return tuple(found.values())

    def __call__(self, **facts: Plain) -> HumanTask[Any]:
        said = dict(self.fixed)
        for key, program in self.programs.items():
            value = program.compute({name: facts[name] for name in program.reads if name in facts})
            said[key] = _meant(value, _SAID[key], program)
        return HumanTask(said.pop("title"), self.form, **said)

    def __str__(self) -> str:
        said = [f"{key} {value}" for key, value in self.fixed.items()]
        return "; ".join(
            [*said, *(f"{key} = {' '.join(program.source.split())}" for key, program in self.programs.items())]
        )


def _meant(value: Plain, wants: Wants, program: Program) -> Plain | datetime:
    """What an expression came to, as a task takes it. Raises `ExpressionError` for what it does not."""
    if wants in (Wants.WHEN, Wants.MOMENT):
        found = _moment(value)
        if found is not None and found.utcoffset() is not None:
            return found
    if wants is Wants.MOMENT:
        raise ExpressionError(f"{program.source!r} comes to {value!r}, and a deadline is a time with a time zone")
    if wants in (Wants.WHEN, Wants.SPAN) and not _is_span(value):
        expected = (
            "a duration such as 2d" if wants is Wants.SPAN else "a time with a time zone, or a duration such as 2d"
        )
        raise ExpressionError(f"{program.source!r} comes to {value!r}, and {expected} is needed")
    if wants is Wants.WHOLE and (isinstance(value, bool) or not isinstance(value, int)):
        raise ExpressionError(f"{program.source!r} comes to {value!r}, and a whole number is needed")
    return value


def _moment(value: Plain) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _is_span(value: Plain) -> bool:
    try:
        return isinstance(value, str) and duration(value) is not None
    except SettingsError:
        return False


class TaskReader:
    """Reads human tasks."""

    def __init__(self, sections: SectionReader, types: TypeReader) -> None:
        self._sections = sections
        self._mistakes = sections.mistakes
        self._types = types

    def task(self, name: str, section: Section, expressions: Expressions) -> Worker:
        """The worker that stands for people. With `each` its first parameter is the element, as `as` calls it."""
        subject = f"{section.subject}.ask"
        node = section.value("ask")
        ask = self._sections.section(node, "ask", subject) or Section(Mapping(node.place), subject, {})
        declared = self._types.declared(ask.value("form"), f"{subject}.form").annotation if "form" in ask else Any
        element = tuple(section.only("as").values())
        fixed: dict[str, Any] = {}
        programs: dict[str, Program] = {}
        for key in _SAID:
            if key in ask:
                self._said(ask.value(key), key, f"{subject}.{key}", fixed, programs, expressions, element)
        if ("escalate" in ask) != ("escalate_to" in ask):
            self._mistakes.note(
                ask.node.place,
                subject,
                "says when or to whom to escalate, and not both",
                "give escalate and escalate_to",
            )
        shows = [
            Parameter(each.text.removesuffix("?"), Plain, each.text.endswith("?"), target=each.text.removesuffix("?"), type=FactType())
            for each in (self._sections.names(ask.value("shows"), f"{subject}.shows") if "shows" in ask else ())
        ]  # fmt: skip
        asking = Asking(declared, tuple(shows), fixed, programs)
        written = section.get("writes", ())
        if len(written) != 1:
            self._mistakes.note(
                section.node.place if "writes" not in section else section.value("writes").place, section.subject,
                "does not say which fact the answer becomes", "add writes: and a name",
            )  # fmt: skip
        form = FactType(declared)
        try:
            form.schema()
        except FactError as error:
            self._mistakes.note(ask.value("form").place, f"{subject}.form", str(error), "give another type")
        given = {each: Parameter(each, Plain, target=each, type=FactType()) for each in element}
        given.update({each.name: each for each in asking.parameters if each.name not in given})
        return Worker(
            name, asking, tuple(given.values()), tuple(written)[:1], computes=str(asking), is_async=False, form=form
        )

    def _said(
        self,
        node: Node,
        key: str,
        subject: str,
        fixed: dict[str, Any],
        programs: dict[str, Program],
        expressions: Expressions,
        element: tuple[str, ...],
    ) -> None:
        """Something that stands there, or that an expression comes to."""
        wants = _SAID[key]
        if isinstance(node, Mapping):
            section = self._sections.section(node, "expression", subject)
            for language in section.values if section is not None else ():
                program = expressions.program(node.values[language], subject, language, wants=wants, also=element)
                if program is not None:
                    programs[key] = program
        elif wants is Wants.TEXT:
            fixed[key] = self._sections.text(node, subject) or "nothing"
        elif wants is Wants.NAMES:
            fixed[key] = [each.text for each in self._sections.names(node, subject)]
        else:
            value = self._value(node, wants, subject)
            if value is not None:
                fixed[key] = value

    def _value(self, node: Node, wants: Wants, subject: str) -> Any:
        """A number, a span or a time that stands there; None, and noted, where it is none."""
        if wants is Wants.WHOLE:
            return self._sections.simple(node, Takes.INTEGER, subject)
        found = _moment(node.value) if isinstance(node, Scalar) else None
        if wants is Wants.SPAN or (wants is Wants.WHEN and found is None):
            return self._sections.simple(node, Takes.DURATION, subject)
        if found is None or found.utcoffset() is None:
            self._mistakes.note(
                node.place, subject, f"is {node.kind}, and a time with a time zone was expected",
                "write it as 2030-01-01T09:00:00Z, or {cel: fact}",
            )  # fmt: skip
            return None
        return found
