"""A tree of YAML becomes a `CaseDefinition`, or all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Mapped
from dataclasses import field, make_dataclass
from typing import Any

from cel_expr_python import cel

from casehub.compensation import Compensation
from casehub.definition import CaseDefinition
from casehub.goals import GoalExpression, all_of, any_of
from casehub.loader.code import AllowedCode
from casehub.loader.conditions import ConditionReader, Expressions
from casehub.loader.document import Mapping, Node, Scalar, Sequence
from casehub.loader.expressions import Computation
from casehub.loader.fact_types import Declared, TypeReader, cel_type, fields_in
from casehub.loader.mistakes import Mistakes, instead
from casehub.loader.places import Places
from casehub.loader.policies import PolicyReader
from casehub.loader.sections import Section, SectionReader
from casehub.loader.subcases import Opener
from casehub.loader.vocabulary import SECTIONS, Takes
from casehub.loader.workers import WorkerReader
from casehub.policies import Limits
from casehub.serialized import FactSerializer
from casehub.structure import structure_of
from casehub.view import CaseView, WorkerExecution


class DefinitionReader:
    """Reads one definition: names first, then what refers to them, then the expressions, then the whole."""

    def __init__(self, top: Mapping, mistakes: Mistakes, code: AllowedCode, opener: Opener) -> None:
        self._mistakes = mistakes
        self._code = code
        self._sections = SectionReader(mistakes)
        self._types = TypeReader(mistakes, code.find)
        self._policies = PolicyReader(self._sections, code)
        self._places = Places(top, mistakes)
        self._workers = WorkerReader(self._sections, code, self._policies, self._places, self._types, opener)
        self._top = self._sections.section(top, "definition", "") or Section(top, "", {})

    def definition(self) -> CaseDefinition:
        """The definition. What is wrong with it is noted."""
        top = self._top
        inputs = self._declared("inputs")
        facts = {name: each.annotation for name, each in self._declared("facts").items()}
        signals, external = self._brought("signals"), self._brought("external")
        definition = self._empty(inputs, facts, signals, external)
        for reference in self._sections.names(top.value("resources"), "resources") if "resources" in top else ():
            opener = self._code.find(reference, "resources")
            if opener is not None:
                definition.resource(opener)
        for fact, function in self._upcasts():
            definition.upcast(fact)(function)
        workers = dict(self._named("workers", "worker"))
        for name, section in workers.items():
            self._workers.declare(definition, name, section)
        known: dict[str, Any] = dict.fromkeys((*inputs, *facts, *signals, *external))
        for section in workers.values():
            known.update(dict.fromkeys(self._workers.written(section)))
        for worker in definition.workers:
            known.update(dict.fromkeys((*worker.writes, *(parameter.name for parameter in worker.parameters))))
        expressions = Expressions(known, top.get("expressions", "cel"), self._mistakes, unsure=self._workers.unsure)
        conditions = ConditionReader(expressions, self._sections, self._code)
        for name, section in workers.items():
            self._workers.bind(definition, name, section, expressions, conditions)
        order = {name: place for place, name in enumerate(workers)}
        definition.workers.sort(key=lambda worker: order[worker.name])  # alternatives are tried as they stand
        for name, section in self._named("bindings", "binding"):
            self._workers.alternatives(definition, name, section, conditions)
        self._rest(definition, conditions)
        self._workers.check(definition, expressions)
        self._compile(definition, expressions)
        if not self._sections.lost:
            self._places.built(definition, code=not self._code.missing)
        return definition

    # ---- what stands alone

    def _empty(
        self, inputs: Mapped[str, Declared], facts: dict[str, Any], signals: dict[str, Any], external: dict[str, Any]
    ) -> CaseDefinition:
        top = self._top
        model = None
        if "inputs" in top:
            model = make_dataclass(
                "Inputs",
                [
                    (name, each.annotation) if each.required else (name, each.annotation, _default(each.default))
                    for name, each in inputs.items()
                ],
                kw_only=True,
            )
        limits = self._sections.one(top, "limits", "limits")
        undo = self._sections.one(top, "compensation", "compensation")
        return CaseDefinition(
            top.get("case", self._mistakes.file),
            goal=self._goal(top.value("goal"), "goal") if "goal" in top else None,
            at_quiescence=top.get("at_quiescence", False),
            inputs=model,
            facts=facts,
            signals=signals,
            external=external,
            budget=self._policies.budget(top, "budget"),
            limits=None if limits is None else self._sections.noting(limits, lambda: Limits(**limits.values)),
            compensation=None if undo is None else self._sections.noting(undo, lambda: Compensation(**undo.values)),
            protected=top.get("protected", ()),
            strict=top.get("strict", True),
            title=top.get("title", ""),
            serializers=tuple(self._serializers()),
        )

    def _declared(self, key: str) -> dict[str, Declared]:
        """Names of facts with their types."""
        top = self._top
        found: dict[str, Declared] = {}
        if key not in top:
            return found
        node = top.value(key)
        if not isinstance(node, Mapping):
            self._sections.expected(node, key, "a mapping of names to types")
            return found
        for name, value in node.entries():
            if self._sections.fact_name(name, key):
                found[name.text] = declared = self._types.declared(value, f"{key}.{name.text}")
                self._places.element(f"fact {name.text!r}", name, value)
                if key != "inputs" and not declared.required:
                    self._mistakes.note(
                        value.place, f"{key}.{name.text}", "has a default or is optional, and only inputs are",
                        "leave that out",
                    )  # fmt: skip
        return found

    def _brought(self, key: str) -> dict[str, Any]:
        top = self._top
        if key in top and not isinstance(top.value(key), Mapping):
            names = self._sections.names(top.value(key), key)
            return {name.text: Any for name in names if self._sections.fact_name(name, key)}
        return {name: each.annotation for name, each in self._declared(key).items()}

    def _serializers(self) -> Iterator[FactSerializer]:
        """What is made by what `serializers` names."""
        top = self._top
        for reference in self._sections.names(top.value("serializers"), "serializers") if "serializers" in top else ():
            maker = self._code.find(reference, "serializers")
            try:
                made = None if maker is None else maker()
            except Exception as error:  # it is user code
                made = error
            if isinstance(made, FactSerializer):
                yield made
            elif maker is not None:
                self._mistakes.note(
                    reference.place, "serializers", f"{reference.text!r} gives {made!r:.200}, which is no FactSerializer",
                    "name a class of one, or a function that makes one, without parameters",
                )  # fmt: skip

    def _upcasts(self) -> Iterator[tuple[str, Any]]:
        """The facts that `upcasts` names, with their functions."""
        top = self._top
        node = top.value("upcasts") if "upcasts" in top else None
        if node is not None and not isinstance(node, Mapping):
            self._sections.expected(node, "upcasts", Takes.FUNCTIONS)
        for name, value in node.entries() if isinstance(node, Mapping) else ():
            found = self._code.named(value, f"upcasts.{name.text}")
            if self._sections.fact_name(name, "upcasts") and found is not None:
                yield name.text, found

    def _goal(self, node: Node, subject: str) -> GoalExpression | str:
        if isinstance(node, Scalar):
            return self._sections.text(node, subject) or "nothing"
        if isinstance(node, Mapping) and len(node.values) == 1:
            ((key, parts),) = node.entries()
            if key.text in ("all_of", "any_of"):
                join = all_of if key.text == "all_of" else any_of
                if isinstance(parts, Sequence) and parts.items:
                    return join(*(self._goal(each, f"{subject}.{key.text}") for each in parts.items))
                self._sections.expected(parts, f"{subject}.{key.text}", "a list of goals")
            else:
                self._mistakes.note(
                    key.place, subject, f"{key.text!r} is no key of it", instead(key.text, ("all_of", "any_of"))
                )
        else:
            self._sections.expected(node, subject, "a goal, or all_of or any_of with a list of goals")
        return "nothing"

    # ---- milestones, goals, stages, activities

    def _rest(self, definition: CaseDefinition, conditions: ConditionReader) -> None:
        top = self._top
        if "done_when" in top:
            node = top.value("done_when")
            self._places.element("done_when", top.node.keys["done_when"], node)
            definition.done_when = conditions.condition(node, "done_when")
        for name, section in self._named("conditions", "named_condition"):
            definition.condition(name, self._criterion(section, "when", conditions))
        for name, section in self._named("milestones", "milestone"):
            if "when" in section:
                definition.milestone(
                    name,
                    conditions.condition(section.value("when"), f"{section.subject}.when"),
                    entry=self._criterion(section, "entry", conditions),
                    sla=section.get("sla"),
                )
        for name, section in self._named("goals", "goal"):
            if "when" in section:
                when = conditions.condition(section.value("when"), f"{section.subject}.when")
                definition.goal(name, when, failure=section.get("failure", False))
        for name, section in self._named("stages", "stage"):
            definition.stage(
                name,
                *section.get("members", ()),
                entry=self._criterion(section, "entry", conditions),
                exit=self._criterion(section, "exit", conditions),
                **section.only("optional", "companions", "autocomplete", "manual", "on_fault"),
            )
        for label, section in self._named("activities", "activity"):
            value = self._code.named(section.value("value"), f"{section.subject}.value") if "value" in section else None
            self._sections.noting(
                section,
                lambda: definition.activity(label, value=value, **section.only("signal", "worker", "transition")),  # noqa: B023 - called at once
            )
        for flag in top.get("flags", ()):
            definition.flag(flag)
        if "flags" in top:
            for scalar in self._sections.names(top.value("flags"), "flags"):
                self._places.element(f"flag {scalar.text!r}", scalar, scalar)

    def _criterion(self, section: Section, key: str, conditions: ConditionReader) -> Any:
        return conditions.condition(section.value(key), f"{section.subject}.{key}") if key in section else None

    # ---- the whole

    def _compile(self, definition: CaseDefinition, expressions: Expressions) -> None:
        structure, _ = structure_of(definition, WorkerExecution, CaseView)
        computing = [worker for worker in definition.workers if isinstance(worker.function, Computation)]
        computed = {name for worker in computing for name in worker.writes} - set(definition.facts)
        declared = {name: kind.annotation for name, kind in structure.types.items() if name not in computed}
        fields = {name: known for name, kind in declared.items() if (known := fields_in(kind)) is not None}
        found = expressions.compile({name: cel_type(kind) for name, kind in declared.items()}, fields)
        definition.facts.update({name: _annotation(kind) for name, kind in found.items()})

    # ---- reading

    def _named(self, key: str, kind: str) -> Iterator[tuple[str, Section]]:
        """The elements of a mapping of names; where a condition may stand instead of a mapping, it is its `when`."""
        top = self._top
        if key not in top:
            return
        node = top.value(key)
        if not isinstance(node, Mapping):
            self._sections.expected(node, key, f"a mapping of names to {kind.replace('_', ' ')}s")
            return
        for name, value in node.entries():
            subject = f"{key}.{name.text}"
            if not name.text:
                self._mistakes.note(name.place, key, "has an element without a name", "name it")
                continue
            self._places.element(f"{kind.rpartition('_')[2]} {name.text!r}", name, value)
            if kind == "worker":
                self._places.element(f"binding {name.text!r}", name, value)
            if kind in ("named_condition", "milestone", "goal") and _is_condition(value):
                wrapped = Mapping(value.place, value.size, {"when": name}, {"when": value})
                yield name.text, Section(wrapped, subject, {"when": value})
                continue
            section = self._sections.section(value, kind, subject)
            if section is not None:
                yield name.text, section


def _is_condition(node: Node) -> bool:
    """Whether a condition stands where a mapping with a condition could."""
    return not isinstance(node, Mapping) or (
        "when" not in node.values and bool(set(node.values) & set(SECTIONS["condition"]))
    )


def _default(value: Any) -> Any:
    return field(default_factory=lambda: value) if isinstance(value, list | dict) else field(default=value)


def _annotation(kind: cel.Type) -> Any:
    """The type of a fact that an expression makes."""
    simple: Iterable[tuple[cel.Type, Any]] = (
        (cel.Type.STRING, str), (cel.Type.BOOL, bool), (cel.Type.INT, int), (cel.Type.DOUBLE, float),
    )  # fmt: skip
    return next((annotation for other, annotation in simple if other == kind), Any)
