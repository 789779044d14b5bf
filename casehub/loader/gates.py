"""Gates: what stands under `gate:` of a worker whose function plans actions, or whose expressions do.

Without code the action is what the worker would set, and to carry it out is to set it.
"""

from __future__ import annotations

from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from typing import Any, Final

from cel_expr_python import cel

from casehub.binding import Worker
from casehub.gate import Gate, Planned
from casehub.loader.code import AllowedCode
from casehub.loader.conditions import Expressions, Wants
from casehub.loader.document import Mapping, Node, Scalar
from casehub.loader.expressions import Computation, ExpressionError, Program, parameters
from casehub.loader.sections import Section, SectionReader
from casehub.values import FactType, Plain
from casehub.wiring import Parameter, Source

_PLAIN: Final = (
    "approvals", "groups", "users", "priority", "due", "expires", "escalate", "escalate_to", "patience",
)  # fmt: skip
ACTION: Final[Mapped[str, cel.Type]] = {"action": cel.Type.DYN}
"""What the expression of a risk policy may name."""


@dataclass(slots=True, eq=False)
class RiskPolicy:
    """An expression over the planned action as a risk policy. `program`: None until the expressions are read."""

    node: Node
    subject: str
    language: str
    program: Program | None = None

    def __call__(self, action: object) -> Any:
        if self.program is None:
            raise ExpressionError("the risk policy is not compiled; load the definition that it is of")
        return self.program.compute({"action": FactType(type(action)).normalise(action, "the planned action")})

    def __str__(self) -> str:
        return "" if self.program is None else f"risk = {' '.join(self.program.source.split())}"


class Planning(Computation):
    """The function of a worker without code that plans what it would set."""

    def __init__(self, name: str, programs: Mapped[str, Program], text: str, title: Program | None) -> None:
        super().__init__(name, programs)
        self._text = text
        self._title = title

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        found = {each.name: each for each in (() if self._title is None else parameters(self._title))}
        return tuple({**found, **{each.name: each for each in super().parameters}}.values())

    async def __call__(self, **facts: Plain) -> Any:
        title = self._text
        if self._title is not None:
            title = str(self._title.compute({name: facts[name] for name in self._title.reads if name in facts}))
        return Planned(self.computed(facts), title)

    def __str__(self) -> str:
        title = self._text if self._title is None else " ".join(self._title.source.split())
        return "; ".join(filter(None, (super().__str__(), title and f"title = {title}")))


async def _set(action: dict[str, Plain]) -> dict[str, Plain]:
    """Carry out what a worker without code has planned."""
    return action


class GateReader:
    """Reads gates."""

    def __init__(self, sections: SectionReader, code: AllowedCode) -> None:
        self._sections = sections
        self._mistakes = sections.mistakes
        self._code = code
        self._titles: dict[str, tuple[Node, str]] = {}

    def gate(self, section: Section) -> Gate[Any] | None:
        """The gate of a worker, if there is one that can be. What is wrong with it is noted."""
        found = self._sections.one(section, "gate", "gate")
        if found is None:
            return None
        sets = "set" in section
        if not sets and "run" not in section:
            self._mistakes.note(
                section.node.keys["gate"].place, section.subject, "has 'gate', and nothing that plans an action",
                "give run: module:function, which returns Planned(action, title), or set",
            )  # fmt: skip
            return None
        if not self._says_who_acts(found, sets):
            return None
        perform: Any = _set if sets else self._code.named(found.value("perform"), f"{found.subject}.perform")
        risk = self._risk(found) if "risk" in found else None
        if "title" in found:
            self._titles[section.subject] = found.value("title"), f"{found.subject}.title"
        if perform is None or ("risk" in found and risk is None):
            return None
        return self._sections.noting(found, lambda: Gate(perform, risk=risk, **found.only(*_PLAIN)))

    def _says_who_acts(self, gate: Section, sets: bool) -> bool:
        """Whether it names code where code acts, and none where expressions do."""
        if sets and "perform" in gate.node.values:
            return self._out_of_place(
                gate, "perform", "and what is approved is what is set", "leave it out, or give run and not set"
            )
        if not sets and "title" in gate.node.values:
            return self._out_of_place(gate, "title", "which the function of run gives", "return Planned(action, title)")
        if not sets and "perform" not in gate.node.values:
            self._mistakes.note(gate.node.place, gate.subject, "lacks 'perform'", "add perform: module:name")
        return sets or "perform" in gate

    def _out_of_place(self, gate: Section, key: str, why: str, remedy: str) -> bool:
        self._mistakes.note(gate.node.keys[key].place, gate.subject, f"has {key!r}, {why}", remedy)
        return False

    def _risk(self, gate: Section) -> Any:
        """The risk policy: a function of allowed code, or an expression that is compiled later."""
        node, subject = gate.value("risk"), f"{gate.subject}.risk"
        if isinstance(node, Scalar):
            return self._code.named(node, subject)
        section = self._sections.section(node, "expression", subject)
        if section is None or len(section.values) != 1:
            if section is not None:
                self._mistakes.note(node.place, subject, "is no policy", "write {cel: action.amount > 1000}")
            return None
        (language,) = section.values
        return RiskPolicy(section.value(language), subject, language)

    def judged(self, worker: Worker, expressions: Expressions) -> str:
        """Have the risk policy of a worker compiled with the other expressions; what it computes with it."""
        risk = None if worker.gate is None else worker.gate.risk
        if isinstance(risk, RiskPolicy) and risk.program is None:
            risk.program = expressions.program(
                risk.node, risk.subject, risk.language, wants=Wants.VERDICT, names=ACTION
            )
        return "; ".join(filter(None, (worker.computes, str(risk) if isinstance(risk, RiskPolicy) else "")))

    def planning(self, section: Section, gate: Gate[Any], computation: Computation, expressions: Expressions) -> Worker:
        """The worker without code that plans what its expressions come to."""
        name, text, title = computation.__name__, "", None
        if section.subject in self._titles:
            node, subject = self._titles[section.subject]
            if isinstance(node, Mapping):
                said = self._sections.section(node, "expression", subject)
                for language in said.values if said is not None else ():
                    title = expressions.program(node.values[language], subject, language, wants=Wants.TEXT)
            else:
                text = self._sections.text(node, subject) or ""
        function = Planning(name, computation.programs, text, title)
        action = Parameter("action", dict, source=Source.ACTION, target="action", type=FactType())
        performer = Worker("set", _set, (action,), ())
        return Worker(
            name, function, function.parameters, tuple(computation.programs), True,
            computes=str(function), gate=gate, performer=performer,
        )  # fmt: skip
