"""Definitions in the format of CaseHub for Java: exactly the keys that its documents show, translated.

A fact is a key of its context. What its conditions name and nothing writes may come at the start or by a signal. Its
workers have no code in the text: functions are given beside it, by name; each takes what the capability projects for it,
as a dictionary, and returns one, of which the capability projects the facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Mapped
from functools import reduce
from typing import Annotated, Any

import structlog
from pydantic import AfterValidator, WithJsonSchema

from casehub.binding import Binding, Trigger, Worker
from casehub.definition import CaseDefinition
from casehub.goals import Goal, GoalExpression
from casehub.loader import jq
from casehub.loader.document import Mapping, Scalar, Sequence
from casehub.loader.expressions import Apart, Condition, ExpressionError, Program, parameters
from casehub.loader.fact_types import Shape
from casehub.loader.groups import group_of
from casehub.loader.mistakes import Mistakes, instead
from casehub.loader.original_keys import MERGES
from casehub.loader.original_terms import TermReader
from casehub.loader.people import Asking
from casehub.loader.places import Places
from casehub.loader.projections import Function, Part, Projected, keys_of
from casehub.loader.sections import Section, SectionReader
from casehub.loader.subcases import Opener
from casehub.policies import UNREPEATED, OnOutcome, PolicyOptions, policy_of
from casehub.sentry import Sentry
from casehub.values import FactType, Plain
from casehub.wiring import Parameter

log = structlog.get_logger("casehub.loader")


class OriginalReader:
    """Reads one definition of the original. `functions`: the code of its workers, by their names."""

    def __init__(self, top: Mapping, mistakes: Mistakes, functions: Mapped[str, Function], opener: Opener) -> None:
        self._mistakes = mistakes
        self._functions = functions
        self._open = opener
        self._sections = SectionReader(mistakes)
        self._terms = TermReader(self._sections)
        self._places = Places(top, mistakes)
        self._top = self._terms.read(top, "definition", "") or Section(top, "", {})
        spec = self._terms.read(self._top.value("spec"), "spec", "spec") if "spec" in self._top else None
        self._spec = spec or Section(Mapping(top.place), "spec", {})
        self._facts: tuple[str, ...] = ()

    def definition(self) -> CaseDefinition:
        """The definition. What is wrong with it is noted."""
        elements = {
            key: self._list(key, kind)
            for key, kind in (("capabilities", "capability"), ("workers", "worker"), ("bindings", "binding"), ("milestones", "milestone"), ("goals", "goal"))
        }  # fmt: skip
        goals = [each.get("name", "") for each in elements["goals"]]
        written = {fact for section in self._projections(elements, "outputProjection") for fact in self._keys(section)}
        written |= {f"{_fact(each.get('name', ''))}_answer" for each in elements["bindings"] if "humanTask" in each}
        self._facts = tuple(sorted(written | self._named(elements)))
        definition = CaseDefinition(
            f"{self._top.get('namespace', 'none')}.{self._top.get('name', 'none')}",
            goal=self._terms.completion(self._spec, "success", goals),
            signals=[fact for fact in self._facts if fact not in written],
            title=f"{self._top.get('name', '')} {self._top.get('version', '')}".strip(),
        )
        workers = self._workers(elements)
        for section in elements["bindings"]:
            self._binding(definition, section, workers)
        for section in elements["milestones"]:
            sla = self._terms.span(section, "slaDuration")
            if "condition" in section:
                definition.milestone(section.get("name", ""), self._condition(section, "condition"), sla=sla)
        failure = self._terms.completion(self._spec, "failure", goals)
        self._goals(definition, elements["goals"], failure)
        self._terms.versions(self._top)
        if "authorization" in self._spec and self._terms.read(
            self._spec.value("authorization"), "authorization", "spec.authorization"
        ):
            log.warning("authorization of a definition is not enforced", definition=definition.name)
        if not self._sections.lost:
            self._places.built(definition)
        return definition

    # ---- names

    def _list(self, key: str, kind: str) -> list[Section]:
        if key not in self._spec:
            return []
        node = self._spec.value(key)
        if not isinstance(node, Sequence):
            self._sections.expected(node, f"spec.{key}", "a list")
            return []
        found = [self._terms.read(each, kind, f"spec.{key}[{place}]") for place, each in enumerate(node.items)]
        for section in found:
            if section is not None and "name" in section:
                name = section.value("name")
                if isinstance(name, Scalar):
                    self._places.element(f"{kind} {name.text!r}", name, section.node)
        return [section for section in found if section is not None]

    def _projections(self, elements: Mapped[str, list[Section]], key: str) -> Iterator[tuple[Section, str]]:
        """Where facts are written: output projections of capabilities, output mappings of human tasks."""
        for section in elements["capabilities"]:
            if key in section:
                yield section, key
        for section in elements["bindings"]:
            for target in ("humanTask", "subCase"):
                task = section.node.values.get(target)
                if isinstance(task, Mapping) and isinstance(task.values.get("outputMapping"), Scalar):
                    yield Section(task, f"{section.subject}.{target}", {"outputMapping": ""}), "outputMapping"

    def _keys(self, projection: tuple[Section, str]) -> list[str]:
        """The keys of an object that is projected."""
        section, key = projection
        node = section.value(key)
        found = keys_of(node.text) if isinstance(node, Scalar) else None
        if found is None:
            self._mistakes.note(
                node.place,
                f"{section.subject}.{key}",
                "is no object whose names can be told",
                "write {name: expression}",
            )
        return found or []

    def _named(self, elements: Mapped[str, list[Section]]) -> set[str]:
        """The facts that conditions and input projections name."""
        texts = [section.get("inputProjection", "") for section in elements["capabilities"]]
        texts += [section.get("condition", "") for section in (*elements["milestones"], *elements["goals"])]
        for section in elements["bindings"]:
            group = section.node.values.get("subCase")
            mapping = group.values.get("inputMapping") if isinstance(group, Mapping) else None
            texts.append(mapping.text if isinstance(mapping, Scalar) else "")
            change = section.node.values.get("on")
            inner = change.values.get("contextChange") if isinstance(change, Mapping) else None
            filter_ = inner.values.get("filter") if isinstance(inner, Mapping) else None
            texts += [section.get("when", ""), filter_.text if isinstance(filter_, Scalar) else ""]
        return {
            match[1]
            for text in texts
            for match in re.finditer(r"(?<![\w\])\"])\.([A-Za-z_]\w*)", re.sub(r'"(?:\\.|[^"\\])*"', '""', text))
        }

    # ---- elements

    def _workers(self, elements: Mapped[str, list[Section]]) -> dict[str, list[tuple[Worker, Section]]]:
        """Workers by capability."""
        capabilities = {section.get("name", ""): section for section in elements["capabilities"]}
        found: dict[str, list[tuple[Worker, Section]]] = {name: [] for name in capabilities}
        for section in elements["workers"]:
            name = section.get("name", "")
            for capability in section.get("capabilities", ()):
                if capability not in capabilities:
                    place = next(
                        (
                            each.place
                            for each in self._sections.names(section.value("capabilities"), "")
                            if each.text == capability
                        ),
                        section.node.place,
                    )
                    self._mistakes.note(
                        place, section.subject, f"{capability!r} is no capability", instead(capability, capabilities)
                    )
                    continue
                given = self._program(capabilities[capability], "inputProjection", ".")
                output = capabilities[capability]
                results = self._program(output, "outputProjection", "") if "outputProjection" in output else None
                facts = self._keys((output, "outputProjection")) if "outputProjection" in output else []
                work = Projected(name, self._functions.get(name), given, results)
                worker = Worker(
                    name if len(section.get("capabilities", ())) == 1 else f"{name}.{capability}",
                    work.awaited if work.is_async else work.called,
                    parameters(given),
                    tuple(facts),
                    True,
                    capability,
                    work.is_async,
                    computes=f"{given.source} -> {'' if results is None else results.source}",
                )
                found[capability].append((worker, section))
        for name in self._functions:
            if name not in {section.get("name") for section in elements["workers"]}:
                self._mistakes.note(
                    self._spec.node.place,
                    "workers=",
                    f"{name!r} is no worker of it",
                    instead(name, [each.get("name", "") for each in elements["workers"]]),
                )
        return found

    def _binding(
        self, definition: CaseDefinition, section: Section, workers: Mapped[str, list[tuple[Worker, Section]]]
    ) -> None:
        name = section.get("name", "")
        targets = [key for key in ("capability", "humanTask", "subCase") if key in section.node.values]
        if len(targets) != 1:
            self._mistakes.note(
                section.node.place,
                section.subject,
                f"has {' and '.join(targets) or 'no target'}",
                "give one of capability, humanTask and subCase",
            )
            return
        trigger, guards = self._terms.trigger(section, self._program)
        if "when" in section:
            guards.append(self._condition(section, "when"))
        guard = reduce(lambda one, other: one & other, guards) if guards else None
        options: PolicyOptions = {}
        if "conflictResolverStrategy" in section:
            options["merge"] = MERGES[section.get("conflictResolverStrategy")]
        if targets == ["capability"]:
            capability = section.get("capability")
            if capability not in workers:
                self._mistakes.note(
                    section.node.values["capability"].place,
                    section.subject,
                    f"{capability!r} is no capability",
                    instead(str(capability), workers),
                )
                return
            if not workers[capability]:
                self._mistakes.note(
                    section.node.values["capability"].place,
                    section.subject,
                    f"no worker has the capability {capability!r}",
                    "declare one",
                )
                return
            self._terms.outcomes(section, options, len(workers[capability]) - 1)
            self._terms.execution(workers[capability][0][1], options)
            able = tuple(worker for worker, _ in workers[capability])
            definition.workers += [worker for worker in able if worker not in definition.workers]
            for worker in able:
                definition.returned[worker.name] = Any
            definition.bindings.append(Binding(name, able, guard, trigger, policy_of(options)))
        elif targets == ["humanTask"]:
            self._human_task(definition, section, guard, trigger, options)
        else:
            self._sub_case(definition, section, guard, trigger, options)

    def _sub_case(
        self,
        definition: CaseDefinition,
        section: Section,
        guard: Sentry | None,
        trigger: Trigger,
        options: PolicyOptions,
    ) -> None:
        group = self._terms.read(section.node.values["subCase"], "subCase", f"{section.subject}.subCase")
        if group is None:
            return
        given = self._program(group, "inputMapping", ".")
        worker = group_of(definition, section.get("name", ""), group, given, self._open, self._mistakes)
        options = {**UNREPEATED, **options}
        definition.workers.append(worker)
        definition.returned[worker.name] = Any
        definition.bindings.append(Binding(worker.name, (worker,), guard, trigger, policy_of(options)))

    def _human_task(
        self,
        definition: CaseDefinition,
        section: Section,
        guard: Sentry | None,
        trigger: Trigger,
        options: PolicyOptions,
    ) -> None:
        name = section.get("name", "")
        task = (
            self._terms.read(section.value("humanTask"), "humanTask", f"{section.subject}.humanTask")
            if "humanTask" in section
            else None
        )
        if task is None or "outputMapping" not in task:
            return
        if task.get("outcomes") == []:
            self._sections.expected(task.value("outcomes"), f"{task.subject}.outcomes", "a list of answers")
        fixed: dict[str, Any] = {"title": task.get("title", name), "groups": task.get("candidateGroups", [])}
        expires = self._terms.span(task, "expiresIn")
        if expires is not None:
            fixed["expires"] = expires
        schema = {
            "type": "object",
            "properties": {"outcome": {"enum": task.get("outcomes", [])}, "comment": {"type": "string"}},
            "required": ["outcome"],
        }
        form = Annotated[dict[str, Any], AfterValidator(Shape(schema)), WithJsonSchema(schema)]
        shown = [
            Parameter(fact, Plain, True, target=fact, type=FactType())
            for fact in sorted(() if guard is None else guard.reads)
        ]
        asking = Asking(form, tuple(shown), fixed, {})
        answer = f"{_fact(name)}_answer"
        person = Worker(
            name, asking, asking.parameters, (answer,), is_async=False, form=FactType(form), computes=str(asking)
        )
        mapping = self._program(task, "outputMapping", "{}", prefix=f".{answer} | ", facts=(answer,))
        facts = self._keys((task, "outputMapping"))
        output = Apart(f"{name}.output", {fact: Part(mapping, fact, answer) for fact in facts})
        worker = Worker(
            f"{name}.output", output, output.parameters, tuple(facts), True, is_async=False, computes=str(output)
        )
        options.setdefault("on_expired", OnOutcome.FAULT_ITEM)
        definition.workers += [person, worker]
        definition.returned.update({person.name: form, worker.name: Any})
        definition.bindings += [
            Binding(name, (person,), guard, trigger, policy_of(options)),
            Binding(worker.name, (worker,)),
        ]

    # ---- goals

    def _goals(self, definition: CaseDefinition, goals: list[Section], failure: GoalExpression | None) -> None:
        """Declare the goals. One that alone is the failure of a case, or is of this kind, is a failure goal; several that
        have to meet are joined."""
        alone = failure is not None and all(failure.satisfied({goal}) for goal in failure.goals)
        conditions: dict[str, Sentry] = {}
        for section in goals:
            name = section.get("name", "")
            if "condition" in section:
                conditions[name] = self._condition(section, "condition")
                named = failure is not None and name in failure.goals
                fails = (named and alone) or (section.get("kind") == "failure" and not named)
                if section.get("kind") == "success" and named:
                    self._mistakes.note(
                        section.node.place, section.subject, f"{name!r} is of one kind, and spec.completion.failure has it as the other",
                        "make the two agree",
                    )  # fmt: skip
                definition.goals.append(Goal(name, conditions[name], fails))
        if failure is not None and not alone and set(failure.goals) <= set(conditions):
            definition.goals.append(
                Goal(
                    "failure",
                    reduce(lambda one, other: one & other, (conditions[name] for name in failure.goals)),
                    failure=True,
                )
            )

    # ---- values

    def _condition(self, section: Section, key: str) -> Sentry:
        return Condition(self._program(section, key, "true"))

    def _program(
        self, section: Section, key: str, default: str, prefix: str = "", facts: tuple[str, ...] = ()
    ) -> Program:
        node = section.node.values.get(key)
        source = node.text if isinstance(node, Scalar) and key in section else default
        try:
            if isinstance(node, Scalar):
                jq.compiled(source, ())  # by itself, for its own places
            return jq.compiled(f"{prefix}({source})" if prefix else source, facts or self._facts)
        except (jq.JqError, ExpressionError) as error:
            if isinstance(node, Scalar):
                at, remedy = (
                    (node.inside(*error.place), error.remedy)
                    if isinstance(error, jq.JqError)
                    else (node.place, "mend it")
                )
                self._mistakes.note(at, f"{section.subject}.{key}", str(error), remedy)
            return jq.JqProgram("true", (), frozenset())


def _fact(name: str) -> str:
    return re.sub(r"\W", "_", name)
