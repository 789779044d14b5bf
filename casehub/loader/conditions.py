"""Conditions: expressions, tests of presence and their combinations, as the sentries that Python makes."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import Any, Final

from cel_expr_python import cel

from casehub.condition import holds
from casehub.loader import jq
from casehub.loader.cel import NO_FACT, CelError, compiled, in_words, named_in
from casehub.loader.code import AllowedCode
from casehub.loader.document import Mapping, Node, Scalar, Sequence
from casehub.loader.expressions import Condition, ExpressionError, Later, Program
from casehub.loader.mistakes import Mistakes
from casehub.loader.sections import SectionReader
from casehub.lookup import is_there
from casehub.sentry import Sentry, absent, as_sentry, confident, present, reached
from casehub.wiring import WiringError

_NEVER: Final = present("nothing")
"""Stands for a condition that could not be read, in a definition that is refused."""


class Wants(StrEnum):
    """What an expression has to come to, where it does not become a fact."""

    TRUTH = "a condition is true or false"
    TEXT = "text was expected"
    NAMES = "a list of names was expected"
    MOMENT = "a time was expected"
    WHEN = "a time, or the text of a duration, was expected"
    SPAN = "the text of a duration was expected"
    WHOLE = "a whole number was expected"
    LIST = "a list was expected"
    VERDICT = "a policy is true or false, or says why in a text"
    ANYTHING = "anything will do"


_KINDS: Final = {
    Wants.TRUTH: (cel.Type.BOOL,),
    Wants.TEXT: (cel.Type.STRING,),
    Wants.NAMES: (cel.Type.List(cel.Type.STRING), cel.Type.LIST),
    Wants.MOMENT: (cel.Type.TIMESTAMP, cel.Type.STRING),
    Wants.WHEN: (cel.Type.TIMESTAMP, cel.Type.STRING),
    Wants.SPAN: (cel.Type.STRING,),
    Wants.WHOLE: (cel.Type.INT,),
    Wants.LIST: (cel.Type.LIST,),
    Wants.VERDICT: (cel.Type.BOOL, cel.Type.STRING),
    Wants.ANYTHING: (),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """An expression that is to be compiled: where it stands and what it is for. `sets`: the fact that it becomes; `names`:
    what it may name instead of facts; `also`: what it may name beside them, of any type."""

    node: Scalar
    subject: str
    program: Later
    sets: str = ""
    wants: Wants = Wants.TRUTH
    names: Mapped[str, cel.Type] | None = None
    also: tuple[str, ...] = ()


class Expressions:
    """The expressions of one file. `facts`: what they may name; `unsure`: there may be others, which nobody can tell."""

    def __init__(self, facts: Mapped[str, Any], language: str, mistakes: Mistakes, *, unsure: bool = False) -> None:
        self.facts = facts
        self.language = language
        self.asked: list[Asked] = []
        self._mistakes = mistakes
        self._unsure = unsure

    def program(
        self, node: Node, subject: str, language: str = "", sets: str = "", wants: Wants = Wants.TRUTH,
        names: Mapped[str, cel.Type] | None = None, also: tuple[str, ...] = (),
    ) -> Program | None:  # fmt: skip
        """The program of an expression; it is compiled by `compile`. `names`: what it may name instead of facts; `also`:
        beside them."""
        known = {**(self.facts if names is None else names), **dict.fromkeys(also)}
        if not isinstance(node, Scalar) or node.value is None or not (sets or isinstance(node.value, str)):
            self._mistakes.note(
                node.place,
                subject,
                f"is {node.kind}, and an expression was expected",
                "write one, such as amount > 1000",
            )
            return None
        if (language or self.language) == "jq":
            return self._jq(node, subject, known)
        reads, optional, _ = named_in(node.text, known)
        program = Later(node.text, reads, optional)
        self.asked.append(Asked(node, subject, program, sets, wants, names, also))
        return program

    def _jq(self, node: Scalar, subject: str, facts: Mapped[str, Any]) -> Program | None:
        if not is_there("jq"):
            self._mistakes.note(
                node.place,
                subject,
                'is jq, which needs the extra "jq"',
                "pip install 'casehub[jq]', or write it in CEL",
            )
            return None
        try:
            return jq.compiled(node.text, facts)
        except jq.JqError as error:
            self._mistakes.note(node.inside(*error.place), subject, error.reason, error.remedy)
        except ExpressionError as error:
            self._mistakes.note(node.place, subject, str(error), "write another expression")
        return None

    def compile(self, types: Mapped[str, cel.Type], fields: Mapped[str, frozenset[str]]) -> dict[str, cel.Type]:
        """Compile all of them; the types of the facts that they set. `types`: of the facts that declare one."""
        known = {name: types.get(name, cel.Type.DYN) for name in self.facts}
        found: dict[str, cel.Type] = {}
        waiting = {each.sets for each in self.asked if each.sets and each.sets not in types}
        rest = [each for each in self.asked if each.sets]
        while rest:
            # Those first that need nothing more; in a ring, one is taken as it is.
            now = [each for each in rest if not waiting & set(each.program.reads)] or rest[:1]
            for each in now:
                rest.remove(each)
                returned = self._compiled(each, known, fields)
                declared = types.get(each.sets)
                if declared is not None:
                    self._check(each, declared, returned)
                elif returned is not None:
                    same = each.sets not in found or found[each.sets] == returned
                    known[each.sets] = found[each.sets] = returned if same else cel.Type.DYN
                waiting.discard(each.sets)
        for each in self.asked:
            if not each.sets:
                names = {**(known if each.names is None else each.names), **dict.fromkeys(each.also, cel.Type.DYN)}
                returned = self._compiled(each, names, fields)
                if (
                    returned is not None
                    and returned not in (*_KINDS[each.wants], cel.Type.DYN)
                    and not _fits(returned, each.wants)
                ):
                    self._mistakes.note(
                        each.node.inside(1, 1), each.subject, f"comes to {in_words(returned)}, and {each.wants}",
                        "compare it with something" if each.wants is Wants.TRUTH else "write another expression",
                    )  # fmt: skip
        return found

    def _compiled(
        self, asked: Asked, known: Mapped[str, cel.Type], fields: Mapped[str, frozenset[str]]
    ) -> cel.Type | None:
        try:
            program = compiled(asked.node.text, known, fields)
        except CelError as error:
            for line, column, reason, remedy in error.found:
                if not (self._unsure and reason.endswith(NO_FACT)):
                    self._mistakes.note(asked.node.inside(line, column), asked.subject, reason, remedy)
            return None
        asked.program.program = program
        return program.returns

    def _check(self, asked: Asked, declared: cel.Type, returned: cel.Type | None) -> None:
        fits = returned is None or declared.is_assignable_from(returned) or cel.Type.DYN in (declared, returned)
        if not fits and (declared, returned) != (cel.Type.DOUBLE, cel.Type.INT):
            self._mistakes.note(
                asked.node.inside(1, 1), asked.subject, f"comes to {in_words(returned or '')}, and {asked.sets!r} is {in_words(declared)}",
                "make the two agree",
            )  # fmt: skip


def _fits(returned: cel.Type, wants: Wants) -> bool:
    return wants is Wants.ANYTHING or (wants is Wants.LIST and returned.name().startswith("LIST"))


class ConditionReader:
    """Reads conditions of one file."""

    def __init__(self, expressions: Expressions, sections: SectionReader, code: AllowedCode) -> None:
        self._expressions = expressions
        self._sections = sections
        self._code = code
        self._parts: dict[str, Callable[[Node, str], list[Sentry]]] = {
            "present": lambda node, subject: [present(*names)] if (names := self._names(node, subject)) else [],
            "absent": lambda node, subject: [absent(*names)] if (names := self._names(node, subject)) else [],
            "reached": lambda node, subject: [reached(name) for name in self._names(node, subject)],
            "holds": lambda node, subject: [holds(name) for name in self._names(node, subject)],
            "all": self._all,
            "any": self._any,
            "confident": self._confident,
            "not": lambda node, subject: [~self.condition(node, subject)],
            "cel": lambda node, subject: self._expression(node, subject, "cel"),
            "jq": lambda node, subject: self._expression(node, subject, "jq"),
            "run": self._function,
        }

    def condition(self, node: Node, subject: str) -> Sentry:
        """The sentry of a node."""
        if isinstance(node, Mapping):
            section = self._sections.section(node, "condition", subject)
            if section is None or not section.values:
                if not node.values:
                    self._sections.expected(node, subject, "a condition")
                return _NEVER
            parts = [
                part for key in section.values for part in self._parts[key](section.value(key), f"{subject}.{key}")
            ]
            return reduce(lambda one, other: one & other, parts) if parts else _NEVER
        if isinstance(node, Sequence):
            self._sections.mistakes.note(
                node.place,
                subject,
                "is a list, and a condition was expected",
                "write all: or any: in front of the list",
            )
            return _NEVER
        found = self._expression(node, subject, "")
        return found[0] if found else _NEVER

    def _names(self, node: Node, subject: str) -> list[str]:
        return [name.text for name in self._sections.names(node, subject)]

    def _expression(self, node: Node, subject: str, language: str) -> list[Sentry]:
        program = self._expressions.program(node, subject, language)
        return [] if program is None else [Condition(program)]

    def _several(self, node: Node, subject: str) -> list[Sentry]:
        if not isinstance(node, Sequence) or not node.items:
            self._sections.expected(node, subject, "a list of conditions")
            return []
        return [self.condition(each, f"{subject}[{place}]") for place, each in enumerate(node.items)]

    def _all(self, node: Node, subject: str) -> list[Sentry]:
        parts = self._several(node, subject)
        return [reduce(lambda one, other: one & other, parts)] if parts else []

    def _any(self, node: Node, subject: str) -> list[Sentry]:
        parts = self._several(node, subject)
        return [reduce(lambda one, other: one | other, parts)] if parts else []

    def _confident(self, node: Node, subject: str) -> list[Sentry]:
        found: list[Sentry] = []
        for name, value in node.entries() if isinstance(node, Mapping) else ():
            least = value.value if isinstance(value, Scalar) else None
            if isinstance(least, int | float) and not isinstance(least, bool) and 0 <= least <= 1:
                found.append(confident(name.text, least))
            else:
                self._sections.expected(value, f"{subject}.{name.text}", "a number from 0 to 1")
        if not isinstance(node, Mapping) or not node.values:
            self._sections.expected(node, subject, "a mapping of facts to numbers from 0 to 1")
        return found

    def _function(self, node: Node, subject: str) -> list[Sentry]:
        if not isinstance(node, Scalar):
            self._sections.expected(node, subject, "module:function")
            return []
        found = self._code.find(node, subject)
        if found is None:
            return []
        try:
            return [as_sentry(found)]
        except WiringError as error:
            self._sections.mistakes.note(node.place, subject, str(error), error.remedy)
            return []
