"""Workers: functions of allowed code, or facts computed by expressions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from casehub.binding import Binding, Faulted, Signal, Trigger, Worker
from casehub.definition import CaseDefinition
from casehub.each import Each, of_an_element, of_the_whole, whole
from casehub.gate import Gate
from casehub.loader.code import AllowedCode
from casehub.loader.conditions import ConditionReader, Expressions
from casehub.loader.document import Mapping, Node, Scalar, Sequence
from casehub.loader.expressions import Apart, Computation, Inline, Program
from casehub.loader.fact_types import TypeReader
from casehub.loader.gates import GateReader
from casehub.loader.mistakes import instead
from casehub.loader.people import TaskReader
from casehub.loader.places import Places
from casehub.loader.policies import PolicyReader
from casehub.loader.sections import Section, SectionReader
from casehub.loader.subcases import Opener, SubCaseReader
from casehub.policies import UNREPEATED, OnOutcome, PolicyOptions, policy_of
from casehub.subcase import Rest
from casehub.wiring import WiringError

_KINDS: Final = ("run", "set", "ask", "case")
"""The ways to say what is done."""
WAITING: Final = "waiting"
"""The capability of workers whose binding is not made yet."""


def _nothing() -> None:
    """Stands for code that cannot be found."""


class WorkerReader:
    """Declares workers: functions first, for what they read and write; expressions when the facts are known."""

    def __init__(
        self,
        sections: SectionReader,
        code: AllowedCode,
        policies: PolicyReader,
        places: Places,
        types: TypeReader,
        opener: Opener,
    ) -> None:
        self._sections = sections
        self._mistakes = sections.mistakes
        self._code = code
        self._policies = policies
        self._places = places
        self._tasks = TaskReader(sections, types)
        self._sub_cases = SubCaseReader(sections, opener)
        self._gates = GateReader(sections, code)
        self._gated: dict[str, Gate[Any]] = {}
        self.unsure = False
        """Whether a worker's code was not found and nothing else says what it writes."""

    def declare(self, definition: CaseDefinition, name: str, section: Section) -> None:
        """Declare the worker of a function, for its signature; `bind` gives it its binding, when conditions can be read."""
        given = set(_KINDS) & set(section.node.values)
        if len(given) != 1 and not self._sections.lost:
            self._mistakes.note(
                self._places.key(f"worker {name!r}"), section.subject,
                f"has {' and '.join(key for key in _KINDS if key in given)}" if given else "does not say what is done",
                "give one of run (module:function), set (facts with expressions), ask (of people) and case (of another definition)",
            )  # fmt: skip
        gate = self._gates.gate(section)
        if gate is not None:
            self._gated[name] = gate
        if given in ({"set"}, {"case"}) or (
            given == {"ask"} and "ask" in section and isinstance(section.value("ask"), Mapping)
        ):
            return
        kind = next((key for key in _KINDS if key in given and key in section), None)
        function = None if kind is None else self._code.named(section.value(kind), f"{section.subject}.{kind}")
        names = tuple(section.get("writes", ()))
        if function is None or (
            "gate" in section.node.values and gate is None
        ):  # the definition is refused; what follows from the names is checked all the same
            definition.workers.append(Worker(name, _nothing, (), names, True))
            self.unsure |= kind is not None and function is None and not names
            definition.returned[name] = Any
            return
        several = "writes" not in section or isinstance(section.value("writes"), Sequence)
        writes = names if several else names[0] if names else None
        writes = writes if "writes" in section else None
        if kind == "ask":
            fact = names[0] if names else None
            definition.human_task(name=name, writes=fact, capability=WAITING)(function)
        else:
            definition.worker(name=name, writes=writes, capability=WAITING, gate=gate)(function)

    def written(self, section: Section) -> list[str]:
        """The facts that a worker says it writes."""
        node = section.node.values.get("set")
        if "set" in section and isinstance(node, Mapping):
            return list(node.values)
        return list(section.get("writes", ()))

    def bind(
        self,
        definition: CaseDefinition,
        name: str,
        section: Section,
        expressions: Expressions,
        conditions: ConditionReader,
    ) -> None:
        """Declare the worker's binding, and the worker itself if it is of expressions."""
        options = self._policies.options(section, conditions)
        capability = section.get("capability", "")
        found = [place for place, worker in enumerate(definition.workers) if worker.name == name]
        if not found and {"set", "ask", "case"} & set(section.values):
            if "ask" in section:
                worker = self._tasks.task(name, section, expressions)
            elif "case" in section:
                worker = self._sub_cases.sub_case(definition, name, section, expressions)
            else:
                worker = self._computing(name, section, expressions)
                if name in self._gated:
                    worker = self._gates.planning(
                        section, self._gated[name], cast("Computation", worker.function), expressions
                    )
            definition.returned[name] = Any if worker.form is None else worker.form.annotation
            definition.workers.append(worker)
            found = [len(definition.workers) - 1]
        if not found:
            return
        old = definition.workers[found[0]]
        old = definition.workers[found[0]] = replace(old, computes=self._gates.judged(old, expressions))
        if "as" in section and not self._names_element(section, expressions):
            return
        if "each" in section:
            self._each(definition, found[0], section, options)
            return
        for key in ("need", "rest"):
            if key in section:
                self._mistakes.note(
                    section.node.keys[key].place, section.subject, f"has {key!r}, and no list of which it would be",
                    f"say which with each, or put {key!r} under case",
                )  # fmt: skip
        worker = replace(old, capability=capability)
        if worker.form is not None:
            options.setdefault("on_expired", OnOutcome.FAULT_ITEM)  # nobody is asked twice for what came too late
        if worker.sub_case is not None:
            options = {**UNREPEATED, **options}
        definition.workers[found[0]] = worker
        if not capability:
            self._binding(definition, name, (worker,), section, options)
        elif lost := [
            key
            for key in section.node.values
            if key in section and key not in (*_KINDS, "writes", "each", "need", "rest", "gate", "capability")
        ]:
            self._mistakes.note(
                section.node.keys[lost[0]].place, section.subject, f"has a capability, and {', '.join(lost)} would be of its binding",
                f"give that to a binding with capability: {capability}",
            )  # fmt: skip

    def _each(self, definition: CaseDefinition, place: int, section: Section, options: dict[str, Any]) -> None:
        """Declare a worker again, as one that gets the elements of a list one by one."""
        worker = definition.workers[place]
        if worker.function is _nothing:
            self._binding(definition, worker.name, (worker,), section, options)
            return
        if isinstance(section.node.values.get("ask"), Mapping) and "as" in section:
            self._asked_each(definition, place, section, options)
            return
        if not {"run", "ask"} & set(section.values) or isinstance(section.node.values.get("ask"), Mapping):
            self._mistakes.note(
                section.node.keys["each"].place, section.subject, "has 'each' and nothing that takes an element",
                "give run: module:function, or ask: module:function, or beside a task that is written out as: and a name",
            )  # fmt: skip
            return
        del definition.workers[place]
        on: Trigger = options.pop("on", Trigger())
        declare: Any = (
            definition.human_task if worker.form is not None else partial(definition.worker, gate=worker.gate)
        )
        declare(
            name=worker.name,
            writes=worker.writes if worker.mapping else worker.writes[0] if worker.writes else None,
            on=[*on.facts, *on.events, *map(Signal, on.signals), *on.times, *map(Faulted, on.faulted)],
            capability=section.get("capability", ""),
            **section.only("each", "need", "rest"),
            **options,
        )(worker.function)

    def _names_element(self, section: Section, expressions: Expressions) -> bool:
        """Whether `as` can name an element; noted where it cannot."""
        node, name = section.value("as"), section.get("as")
        reason = remedy = ""
        if "each" not in section or not isinstance(section.node.values.get("ask"), Mapping):
            reason, remedy = "names an element, and no task that is written out is of each", "leave it out"
        elif "capability" in section:
            reason, remedy = "has a capability, and what is done for each element has none", "leave the capability out"
        elif name in expressions.facts:
            reason, remedy = f"calls an element {name!r}, as a fact is called", "call it otherwise"
        if reason:
            self._mistakes.note(node.place, f"{section.subject}.as", reason, remedy)
            return False
        return isinstance(node, Scalar) and self._sections.fact_name(node, f"{section.subject}.as")

    def _asked_each(self, definition: CaseDefinition, place: int, section: Section, options: dict[str, Any]) -> None:
        """Make a task that is written out one that people do for each element of a list."""
        worker = replace(definition.workers[place], capability="")
        wanted = Each(section.get("each"), section.get("need"), Rest(section.get("rest", Rest.CANCEL)))
        policy: PolicyOptions = cast(
            "PolicyOptions", {key: options[key] for key in options if key not in ("when", "on")}
        )
        part = CaseDefinition(f"{definition.name}.{worker.name}", at_quiescence=True)
        part.serializers = definition.serializers
        own = self._sections.noting(section, lambda: policy_of(of_an_element(worker, policy)))
        try:
            starter = whole(worker, wanted, part.name)
        except WiringError as error:
            self._mistakes.note(section.node.keys["each"].place, section.subject, str(error), error.remedy)
            return
        if own is None:
            return
        part.workers.append(worker)
        part.returned[worker.name] = definition.returned[worker.name]
        part.bindings.append(Binding(worker.name, (worker,), policy=own))
        definition.sub_cases[part.name] = part
        definition.workers[place] = starter
        rest: dict[str, Any] = {**of_the_whole(policy, capable=bool(worker.capability))}
        rest.update({key: options[key] for key in ("when", "on") if key in options})
        self._binding(definition, worker.name, (starter,), section, rest)

    def _computing(self, name: str, section: Section, expressions: Expressions) -> Worker:
        node = section.value("set")
        programs = {}
        if "writes" in section:
            self._mistakes.note(
                section.node.keys["writes"].place,
                section.subject,
                "has 'set' and 'writes'",
                "leave 'writes' out: set says what is written",
            )
        if isinstance(node, Mapping) and node.values:
            for fact, value in node.entries():
                program = self._expression(value, f"{section.subject}.set.{fact.text}", fact.text, expressions)
                if self._sections.fact_name(fact, f"{section.subject}.set") and program is not None:
                    programs[fact.text] = program
        else:
            self._sections.expected(node, f"{section.subject}.set", "a mapping of facts to expressions")
        apart = any(program.apart for program in programs.values())
        function = Apart(name, programs) if apart else Inline(name, programs)
        return Worker(
            name, function, function.parameters, tuple(programs), True, is_async=not apart, computes=str(function)
        )

    def _expression(self, node: Node, subject: str, fact: str, expressions: Expressions) -> Program | None:
        """An expression that a fact becomes; a mapping says its language."""
        if not isinstance(node, Mapping):
            return expressions.program(node, subject, sets=fact)
        section = self._sections.section(node, "expression", subject)
        language = next(iter(section.values), "") if section is not None else ""
        return expressions.program(node.values[language], subject, language, sets=fact) if language else None

    def alternatives(
        self, definition: CaseDefinition, name: str, section: Section, conditions: ConditionReader
    ) -> None:
        """Declare the binding of a capability."""
        able = tuple(worker for worker in definition.workers if worker.capability == section.get("capability"))
        if not able and "capability" in section:
            known = dict.fromkeys(worker.capability for worker in definition.workers if worker.capability)
            wanted = section.get("capability")
            self._mistakes.note(
                section.value("capability").place, f"{section.subject}.capability", f"no worker has the capability {wanted!r}",
                instead(wanted, known),
            )  # fmt: skip
        self._binding(definition, name, able, section, self._policies.options(section, conditions))

    def _binding(
        self,
        definition: CaseDefinition,
        name: str,
        workers: tuple[Worker, ...],
        section: Section,
        options: dict[str, Any],
    ) -> None:
        guard, on = options.pop("when", None), options.pop("on", Trigger())
        policy = self._sections.noting(section, lambda: policy_of(cast("PolicyOptions", options)))
        if policy is not None and workers:
            definition.bindings.append(Binding(name, workers, guard, on, policy))

    def check(self, definition: CaseDefinition, expressions: Expressions) -> None:
        """Note expressions that wait for what only their own worker sets."""
        for worker in definition.workers:
            if not isinstance(worker.function, Computation):
                continue
            programs = list(worker.function.programs.values())
            brought = {*definition.signals, *definition.external, *getattr(definition.inputs, "__annotations__", ())}
            for other in definition.workers:
                brought.update(other.writes if other is not worker else ())
            for asked in expressions.asked:
                alone = {*worker.writes} & set(asked.program.reads) - asked.program.optional - brought
                if asked.program in programs and alone:
                    name = min(alone)
                    self._mistakes.note(
                        asked.node.place, asked.subject, f"waits for {name!r}, which nobody but this worker sets",
                        f"set it by a worker of its own, or test present({name})",
                    )  # fmt: skip
