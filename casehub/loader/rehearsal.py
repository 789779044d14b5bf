"""Rehearsals: cases of a definition played with made-up answers of its workers, against what is expected of them.

A file of them is YAML: `definition:` (an APP, a path counts from the file), and `cases:`, each with what it starts with,
what workers answer, what happens then, and what is expected in the end.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass, field, replace
from typing import Any, Final

from casehub.binding import Worker
from casehub.definition import CaseDefinition
from casehub.errors import CaseHubError, Declined, FactError
from casehub.events import WorkerScheduled
from casehub.gate import Planned
from casehub.lifecycle import CaseStatus
from casehub.loader.document import Mapping, Node, Sequence
from casehub.loader.mistakes import Mistakes, Place, instead
from casehub.loader.sections import Section, SectionReader
from casehub.loader.vocabulary import Key, Takes
from casehub.loops import Loops
from casehub.registry import Registry
from casehub.structure import Structure
from casehub.testing.kit import CaseTestKit
from casehub.testing.scripts import repeat
from casehub.values import Plain

_FACTS: Final = "facts with their values"
_FILE: Final = {
    "definition": Key(Takes.TEXT, "What is rehearsed: module:attribute, or a path from this file.", required=True),
    "name": Key(Takes.TEXT, "Which one, where there are several."),
    "cases": Key(Takes.MANY, "The cases.", required=True),
}
_CASE: Final = {
    "name": Key(Takes.TEXT, "What it shows.", required=True),
    "start": Key(Takes.ONE, "The facts that it starts with."),
    "answers": Key(Takes.ONE, "What workers answer, by their names."),
    "then": Key(Takes.MANY, "What happens, in order: signals, time."),
    "expect": Key(Takes.ONE, "What is to come of it.", required=True),
}
_ANSWER: Final = {
    "returns": Key(Takes.ANYTHING, "What it returns."),
    "fails": Key(Takes.TEXT, "The text of what it raises."),
    "as": Key(Takes.TEXT, "Which of Python's exceptions it raises."),
    "declines": Key(Takes.TEXT, "The reason why it will not do it."),
}
_STEP: Final = {
    "signal": Key(Takes.ONE, "Facts that somebody brings."),
    "complete": Key(Takes.ONE, "Tasks for people, by their bindings, with the answers."),
    "decline": Key(Takes.ONE, "Tasks that people decline, by their bindings, with the reasons."),
    "advance": Key(Takes.DURATION, "Time that passes."),
    "cancel": Key(Takes.TEXT, "Somebody cancels the case, and why."),
}
_EXPECT: Final = {
    "status": Key(Takes.CHOICE, "The case's status.", choices=tuple(each.value for each in CaseStatus)),
    "facts": Key(Takes.ONE, "Facts with their values."),
    "absent": Key(Takes.NAMES, "Facts that are not there."),
    "ran": Key(Takes.NAMES, "All bindings that fired, in order."),
}


@dataclass(slots=True)
class Rehearsed:
    """What came of one case. `problems`: what was not as expected; empty when all was."""

    name: str
    status: str = ""
    ran: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Case:
    name: str
    start: dict[str, Any]
    answers: Section | None
    then: list[Section]
    expect: Section


class Rehearsal:
    """The cases of one file. `definition`: what it names; `only`: which of several. Raises `DefinitionError` for mistakes."""

    def __init__(self, node: Node | None, mistakes: Mistakes) -> None:
        self._mistakes = mistakes
        self._sections = SectionReader(mistakes)
        top = Mapping(Place(mistakes.file, 1, 1)) if node is None else node
        if isinstance(top, Mapping) and "case" in top.values and "definition" not in top.values:
            remedy = "give the file of its cases, which begins with 'definition:' and the path of this one"
            mistakes.note(top.place, "the file", "is a definition, and cases to play are wanted", remedy)
            section = None
        else:
            section = self._sections.section(top, "", "", _FILE)
        self.definition: str = "" if section is None else section.get("definition", "")
        self.only: str = "" if section is None else section.get("name", "")
        self._cases: list[_Case] = []
        cases = section.value("cases") if section is not None and "cases" in section else Sequence(top.place)
        if not isinstance(cases, Sequence):
            self._sections.expected(cases, "cases", "a list of cases")
            cases = Sequence(top.place)
        for place, each in enumerate(cases.items):
            self._case(each, f"cases[{place}]")
        if len(mistakes):
            raise mistakes.error(mistakes.file)

    def _case(self, node: Node, subject: str) -> None:
        section = self._sections.section(node, "", subject, _CASE)
        if section is None or "expect" not in section:
            return
        expect = self._sections.section(section.value("expect"), "", f"{subject}.expect", _EXPECT)
        steps = section.value("then") if "then" in section else Sequence(node.place)
        if not isinstance(steps, Sequence):
            self._sections.expected(steps, f"{subject}.then", "a list of steps")
            steps = Sequence(node.place)
        then = [self._sections.section(each, "", f"{subject}.then[{at}]", _STEP) for at, each in enumerate(steps.items)]
        start = self._facts(section, "start")
        answers = None
        if "answers" in section and isinstance(section.value("answers"), Mapping):
            answers = Section(section.value("answers"), f"{subject}.answers", {})  # type: ignore[arg-type]  # just looked at
        elif "answers" in section:
            self._sections.expected(section.value("answers"), f"{subject}.answers", "a mapping of workers to answers")
        if expect is not None:
            then_ = [step for step in then if step is not None]
            self._cases.append(_Case(section.get("name", subject), start, answers, then_, expect))

    def _facts(self, section: Section, key: str) -> dict[str, Any]:
        if key not in section:
            return {}
        node = section.value(key)
        if isinstance(node, Mapping):
            return {name.text: value.plain() for name, value in node.entries()}
        self._sections.expected(node, f"{section.subject}.{key}", _FACTS)
        return {}

    async def play(self, definition: CaseDefinition, loop: Loops | None = None) -> list[Rehearsed]:
        """Play all cases, each in a hub of its own on a clock of its own. Raises `DefinitionError` for mistakes."""
        registry = Registry([definition])
        structure, family = registry.structures[definition.name], list(registry.versions.values())
        scripts = [self._scripts(case, family) for case in self._cases]
        for case in self._cases:
            self._check(case, structure, family)
        if len(self._mistakes):
            raise self._mistakes.error(self._mistakes.file)
        return [
            await self._played(case, answers, definition, loop)
            for case, answers in zip(self._cases, scripts, strict=True)
        ]

    async def _played(
        self, case: _Case, answers: Mapped[str, list[Any]], definition: CaseDefinition, loop: Loops | None
    ) -> Rehearsed:
        found = Rehearsed(case.name)
        try:
            async with CaseTestKit(definition, loop=loop) as kit:
                for worker, results in answers.items():
                    kit.script(worker, *results)
                handle = await kit.start(definition, case.start)
                await kit.settle()
                for step in case.then:
                    if "signal" in step:
                        await handle.signal(**self._facts(step, "signal"))
                    for verb in ("complete", "decline"):
                        for binding, answer in self._facts(step, verb).items():
                            await kit.settle()
                            found.problems += await self._person(kit, verb, binding, answer)
                    if "cancel" in step:
                        await handle.cancel(by="user:rehearsal", reason=step.get("cancel"), grace="0s")
                    if "advance" in step:
                        await kit.advance(step.get("advance"))
                    await kit.settle()
                found.status = str(await handle.status())
                found.ran = [event.binding for event in kit.events(handle, WorkerScheduled)]
                found.problems += self._unexpected(
                    case.expect, found, (await kit.hub.case(handle.id).context()), definition
                )
                if found.problems and not CaseStatus(found.status).ended:
                    found.problems += [str(each) for each in await handle.explain()]
        except (AssertionError, CaseHubError) as error:
            found.problems.append(str(error))
        return found

    async def _person(self, kit: CaseTestKit, verb: str, binding: str, answer: Plain) -> list[str]:
        """Do what a person does, in the case or one of its sub-cases; why that cannot be done."""
        open_ = await kit.hub.tasks.list(binding=binding)
        if not open_:
            return [f"{verb}: binding {binding!r} asks nobody now"]
        task = open_[0].id
        person = f"rehearsal-{task.rpartition('/')[2]}" if open_[0].gate else "rehearsal"  # nobody approves twice
        await kit.hub.tasks.assign(task, person, by="user:rehearsal")
        if verb == "complete":
            await kit.hub.tasks.complete(task, answer, by=f"user:{person}")
        else:
            await kit.hub.tasks.decline(task, str(answer), by=f"user:{person}")
        return []

    def _unexpected(self, expect: Section, found: Rehearsed, context: Any, definition: CaseDefinition) -> list[str]:
        problems: list[str] = []
        if "status" in expect and expect.get("status") != found.status:
            problems.append(f"status is {found.status}, and {expect.get('status')} was expected")
        facts = {fact.name: fact.value for fact in context.facts()}
        for name, value in self._facts(expect, "facts").items():
            if name not in facts:
                problems.append(f"fact {name!r} is not there, and {value!r} was expected")
            elif facts[name] != value:
                problems.append(f"fact {name!r} is {facts[name]!r}, and {value!r} was expected")
        problems += [f"fact {name!r} is there: {facts[name]!r}" for name in expect.get("absent", ()) if name in facts]
        if "ran" in expect and expect.get("ran") != found.ran:
            problems.append(f"{', '.join(found.ran) or 'nothing'} ran, and {', '.join(expect.get('ran'))} was expected")
        return problems

    # ---- against the definition

    def _check(self, case: _Case, structure: Structure, family: Iterable[Structure]) -> None:
        """Note expectations of what the definition does not have, and steps of people whom nobody in its family asks."""
        asking = {name for each in family for name in each.bindings}
        known = {*structure.types, *structure.inputs}
        if "facts" in case.expect and isinstance(case.expect.value("facts"), Mapping):
            names = [name for name, _ in case.expect.value("facts").entries()]  # type: ignore[attr-defined]  # a mapping
        else:
            names = []
        absent = case.expect.value("absent") if "absent" in case.expect else None
        names += [] if absent is None else self._sections.names(absent, f"{case.expect.subject}.absent")
        for name in names:
            if name.text not in known:
                self._mistakes.note(
                    name.place, case.expect.subject, f"{name.text!r} is no fact", instead(name.text, known)
                )
        for step in case.then:
            for verb in ("complete", "decline"):
                node = step.value(verb) if verb in step else None
                for name in [key for key, _ in node.entries()] if isinstance(node, Mapping) else []:
                    if name.text not in asking:
                        self._mistakes.note(
                            name.place,
                            f"{step.subject}.{verb}",
                            f"{name.text!r} is no binding",
                            instead(name.text, asking),
                        )
        for name in self._sections.names(case.expect.value("ran"), case.expect.subject) if "ran" in case.expect else ():
            if name.text not in structure.bindings:
                self._mistakes.note(
                    name.place,
                    case.expect.subject,
                    f"{name.text!r} is no binding",
                    instead(name.text, structure.bindings),
                )

    def _scripts(self, case: _Case, family: Iterable[Structure]) -> dict[str, list[Any]]:
        workers: dict[str, tuple[Worker, Structure]] = {}
        for each in family:
            for worker in (worker for binding in each.bindings.values() for worker in binding.workers):
                if worker.sub_case is None:  # what works as cases has answers of their workers
                    workers.setdefault(worker.name, (worker, each))
                if worker.performer is not None:
                    performer = replace(worker.performer, writes=worker.writes, mapping=worker.mapping)
                    workers.setdefault(performer.name, (performer, each))
        found: dict[str, list[Any]] = {}
        for name, value in case.answers.node.entries() if case.answers is not None else ():
            if name.text not in workers:
                self._mistakes.note(name.place, "answers", f"{name.text!r} is no worker", instead(name.text, workers))
                continue
            several = value.items if isinstance(value, Sequence) else [value]
            results = [self._answer(each, *workers[name.text]) for each in several]
            found[name.text] = results if isinstance(value, Sequence) else [repeat(results[0])]
        return found

    def _answer(self, node: Node, worker: Worker, structure: Structure) -> Any:
        """What a script gives: a value of the worker's types, or an exception."""
        subject = f"answers.{worker.name}"
        section = self._sections.section(node, "", subject, _ANSWER)
        if section is None:
            return None
        given = [key for key in ("returns", "fails", "declines") if key in section.node.values]
        if len(given) != 1:
            self._mistakes.note(node.place, subject, "is no answer", "give one of returns, fails and declines")
            return None
        if given[0] == "declines":
            return Declined(section.get("declines", ""))
        if given[0] == "fails":
            kind = getattr(builtins, section.get("as", "RuntimeError"), None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                self._mistakes.note(
                    section.value("as").place,
                    subject,
                    f"{section.get('as')!r} is no exception",
                    "name one of Python's own",
                )
                return None
            return kind(section.get("fails"))
        returned = section.node.values["returns"]
        try:
            return self._typed(returned.plain(), worker, structure)
        except FactError as error:
            self._mistakes.note(returned.place, f"{subject}.returns", str(error), "give a value of its type")
            return None

    def _typed(self, value: Plain, worker: Worker, structure: Structure) -> Any:
        if worker.performer is not None:
            action = worker.performer.parameters[0].type
            return None if value is None else Planned(action.restore(value, f"the action that {worker.name!r} plans"))
        if not worker.mapping:
            return (
                structure.types[worker.writes[0]].restore(value, f"fact {worker.writes[0]!r}")
                if worker.writes
                else None
            )
        if not isinstance(value, dict):
            raise FactError(f"worker {worker.name!r} returns several facts, and {value!r} is no mapping of them")
        return {
            name: structure.types[name].restore(each, f"fact {name!r}") if name in structure.types else each
            for name, each in value.items()
        }
