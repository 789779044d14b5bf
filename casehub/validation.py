"""What in a definition can never work, found when a hub is built: the thing, the reason, the remedy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from casehub.compensators import compensators
from casehub.definition import CaseDefinition
from casehub.errors import DefinitionError, Problem, did_you_mean
from casehub.policies import Refire
from casehub.sentry import Sentry, milestones_in
from casehub.serialized import FactSerializer
from casehub.stage import cycles
from casehub.structure import Structure, structure_of
from casehub.triggers import known_facts, occasions, schedules
from casehub.values import type_name
from casehub.view import CaseView, WorkerExecution
from casehub.wiring import Parameter, Source

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
_DIGITS = re.compile(r"\d+")
SLIP = 0.8
"""How alike two names must be for one to be taken for a slip of the other."""


def build(definition: CaseDefinition, serializers: Sequence[FactSerializer] = ()) -> Structure:
    """The structure of a definition that can work, whose own serializers come before the others. Raises `DefinitionError` with everything that cannot."""
    structure, problems = structure_of(definition, WorkerExecution, CaseView, serializers)
    found = [*definition.problems, *problems]
    for check in _CHECKS:
        found.extend(check(structure))
    if found:
        raise DefinitionError(definition.name, list(dict.fromkeys(found)))
    return structure


def skeleton(definition: CaseDefinition) -> list[Problem]:
    """What is wrong with the names of a definition's elements, whatever its code reads and writes."""
    structure, _ = structure_of(definition, WorkerExecution, CaseView)
    return [problem for check in _OF_NAMES for problem in check(structure)]


def _name(structure: Structure) -> Iterator[Problem]:
    if not _NAME.fullmatch(structure.name):
        yield Problem(
            f"definition {structure.name!r}",
            "its name is no name: logs, commands and addresses use it",
            "use up to 100 letters, digits, '.', '_' and '-', a letter first",
        )


def _duplicate_names(structure: Structure) -> Iterator[Problem]:
    definition = structure.definition
    for what, names in (
        ("worker", [worker.name for worker in definition.workers]),
        ("binding", [binding.name for binding in definition.bindings]),
        ("milestone", [milestone.name for milestone in definition.milestones]),
        ("goal", [goal.name for goal in definition.goals]),
        ("condition", [condition.name for condition in definition.conditions]),
        ("stage", [stage.name for stage in definition.stages]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield Problem(
                    f"{what} {name!r}", f"is declared {count} times", "give each a name of its own with name="
                )


def _facts_that_nobody_brings(structure: Structure) -> Iterator[Problem]:
    """Facts that are read and neither written, nor inputs, nor brought from outside."""
    if not structure.definition.strict:
        return
    written, known = structure.written(), known_facts(structure)
    open_inputs = structure.definition.inputs is None
    for binding in structure.bindings.values():
        for worker in binding.workers:
            for name in worker.reads:
                near = _slips(name, written)
                if name not in known:
                    yield _nobody(f"worker {worker.name!r}", "reads", name, known)
                elif open_inputs and name in structure.inputs and name not in structure.brought and near:
                    yield Problem(
                        f"worker {worker.name!r}",
                        f"reads {name!r}, which nobody writes; did you mean {near[0]!r}",
                        f"or, if {name!r} is an input, declare it with inputs=",
                    )
    for subject, sentry in _sentries(structure):
        for name in sorted(sentry.reads):
            if name not in known:
                yield _nobody(subject, "tests", name, known)


def _slips(name: str, written: Iterable[str]) -> list[str]:
    """Written facts that the name may be a slip of; names that differ in their numbers alone are meant to."""
    likely = [other for other in written if _DIGITS.sub("", other) != _DIGITS.sub("", name)]
    return get_close_matches(name, likely, n=1, cutoff=SLIP)


def _nobody(subject: str, verb: str, name: str, known: Iterable[str]) -> Problem:
    return Problem(
        subject,
        f"{verb} {name!r}, which nobody writes and which is no input and no signal",
        f"{did_you_mean(name, known)} (or declare it with signals= or external=)",
    )


def _triggers(structure: Structure) -> Iterator[Problem]:
    known = known_facts(structure)
    for binding in structure.bindings.values():
        for name in binding.on.facts:
            if name not in known and structure.definition.strict:
                yield _nobody(f"binding {binding.name!r}", "waits for a change of", name, known)
        endless = binding.policy.refire is not Refire.ONCE and not binding.compensates
        if not binding.reads and not binding.on.occurs and endless:
            yield Problem(
                f"binding {binding.name!r}",
                "reads no fact and has no trigger, so it fires once, at the start",
                "say refire='once' if that is meant, or name what it reads",
            )


def _goals(structure: Structure) -> Iterator[Problem]:
    expression = structure.completion
    if expression is None:
        return
    if expression.empty:
        yield Problem(
            "goal", f"the expression {expression} is empty and would hold at once", "name the goals that it joins"
        )
    known = known_facts(structure)
    for name in dict.fromkeys(expression.goals):
        if name not in structure.goals:
            yield Problem(
                f"goal {name!r}",
                "is used but not declared, and no fact has this name",
                did_you_mean(name, {*structure.goals, *known}),
            )
        elif structure.goals[name].failure:
            yield Problem(
                f"goal {name!r}",
                "faults the case by itself, and would complete it",
                "leave it out of goal=, or out of the failure goals",
            )


def _types(structure: Structure) -> Iterator[Problem]:
    """Readers whose type cannot be what the fact is."""
    for binding in structure.bindings.values():
        for worker in binding.workers:
            for parameter in worker.parameters:
                if parameter.source is Source.FACT and _misfit(structure, parameter):
                    declared = structure.types[parameter.target].annotation
                    yield Problem(
                        f"worker {worker.name!r}",
                        f"reads {parameter.target!r} as {type_name(parameter.annotation)}, and it is {type_name(declared)}",
                        "make the two types agree",
                    )


def _misfit(structure: Structure, parameter: Parameter) -> bool:
    declared = structure.types.get(parameter.target)
    if declared is None:
        return False
    one, other = declared.annotation, parameter.annotation
    if not isinstance(one, type) or not isinstance(other, type) or one is other:
        return False
    if {object, Any} & {one, other}:  # `Any` is a class, of which nothing else is one
        return False
    return not (issubclass(one, other) or issubclass(other, one) or {one, other} <= {int, float})


def _writers(structure: Structure) -> Iterator[Problem]:
    for binding in structure.bindings.values():
        for worker in binding.workers:
            for name in worker.writes:
                if not name.isidentifier():
                    yield Problem(
                        f"worker {worker.name!r}",
                        f"writes {name!r}, which is no name",
                        "use letters, digits and underscores",
                    )


def _people(structure: Structure) -> Iterator[Problem]:
    """What says what to ask people is called in the turn, so it can only compute."""
    for binding in structure.bindings.values():
        for worker in binding.workers:
            if worker.form is None:
                continue
            others = [p.name for p in worker.parameters if p.source is not Source.FACT]
            if worker.is_async or others:
                why = f"asks for {', '.join(others)}" if others else "is async"
                yield Problem(
                    f"human task {worker.name!r}",
                    f"{why}, and it is called while the case is decided, where nothing may be awaited",
                    "make it a plain function of facts; let a worker before it write what else it needs",
                )


def _conditions(structure: Structure) -> Iterator[Problem]:
    """What is brought is a condition, and what is one can be known."""
    for binding in structure.bindings.values():
        for name in binding.policy.brings:
            if name not in structure.conditions:
                yield Problem(
                    f"binding {binding.name!r}",
                    f"brings {name!r}, which is no condition",
                    did_you_mean(name, structure.conditions),
                )
    known = known_facts(structure)
    for name, sentry in structure.conditions.items() if structure.definition.strict else ():
        for fact in sorted(sentry.reads - known):
            yield Problem(f"condition {name!r}", f"reads {fact!r}, which nobody writes", did_you_mean(fact, known))


def _gates(structure: Structure) -> Iterator[Problem]:
    """What carries an action out reads no facts: what people approve is the action, and it is all that is done."""
    workers = [worker for binding in structure.bindings.values() for worker in binding.workers]
    for worker, performer in [(worker, worker.performer) for worker in workers if worker.performer is not None]:
        for parameter in performer.parameters:
            if parameter.source is Source.FACT:
                yield Problem(
                    f"worker {worker.name!r}",
                    f"{performer.name} carries out its actions and reads the fact {parameter.target!r}",
                    "put that into the action, which is what is approved",
                )


def _sub_cases(structure: Structure) -> Iterator[Problem]:
    """What says what a sub-case starts with is called in the turn, and what is taken from one has to be there."""
    for worker in structure.definition.workers:
        spec, subject = worker.sub_case, f"sub-case {worker.name!r}"
        if spec is None:
            continue
        child = structure.definition.sub_cases[spec.definition]
        if worker.is_async:
            yield Problem(
                subject,
                "is async, and it is called while the case is decided, where nothing may be awaited",
                "make it a plain function of facts; let a worker before it write what else it needs",
            )
        if spec.need is not None and (spec.need < 1 or not spec.several):
            why = "starts one" if not spec.several else f"needs {spec.need} of them"
            yield Problem(subject, f"{why}, and need= says how many of several complete", "leave need= out, or mend it")
        facts = {*child.facts, *child.signals, *child.external, *(n for w in child.workers for n in w.writes)}
        facts |= {parameter.name for w in child.workers for parameter in w.parameters}
        facts |= set(getattr(child.inputs, "__annotations__", ()))
        if spec.takes is not None and spec.takes not in facts:
            yield Problem(
                subject,
                f"takes {spec.takes!r} of {child.name!r}, which has no such fact; {did_you_mean(spec.takes, facts)}",
                "name one with takes=",
            )


def _never_asked(structure: Structure) -> Iterator[Problem]:
    """Workers that no binding runs, and conditions that no change can make hold."""
    bound = {worker.name for binding in structure.bindings.values() for worker in binding.workers}
    for worker in structure.definition.workers:
        if worker.capability and worker.name not in bound:
            yield Problem(
                f"worker {worker.name!r}",
                f"no binding asks for its capability {worker.capability!r}, so it never runs",
                f"declare binding(name, capability={worker.capability!r})",
            )
    for subject, sentry in _sentries(structure):
        if not sentry.reads and not milestones_in(sentry) and subject.startswith(("goal", "milestone")):
            yield Problem(
                subject,
                f"its condition {sentry} reads no fact, so no change ever tests it",
                "name the facts that it depends on",
            )


def _activities(structure: Structure) -> Iterator[Problem]:
    """What activities and flags name has to be there."""
    definition = structure.definition
    workers = {worker.name for binding in structure.bindings.values() for worker in binding.workers}
    for label, count in Counter(each.label for each in definition.activities).items():
        if count > 1:
            yield Problem(f"activity {label!r}", f"is declared {count} times", "say once what it means")
    for each in definition.activities:
        if each.signal and each.signal not in structure.brought:
            yield Problem(
                f"activity {each.label!r}",
                f"is the signal {each.signal!r}, which signals= does not declare",
                did_you_mean(each.signal, structure.brought),
            )
        if each.worker and each.worker not in workers:
            yield Problem(
                f"activity {each.label!r}",
                f"is the result of {each.worker!r}, and no binding runs a worker of this name",
                did_you_mean(each.worker, workers),
            )
    for fact in definition.flags:
        if fact not in structure.written():
            yield Problem(f"flag {fact!r}", "is a fact that no worker writes", did_you_mean(fact, structure.written()))


def _sentries(structure: Structure) -> Iterator[tuple[str, Sentry]]:
    for binding in structure.bindings.values():
        if binding.when is not None:
            yield f"binding {binding.name!r}", binding.when
    for milestone in structure.milestones.values():
        yield f"milestone {milestone.name!r}", milestone.when
        if milestone.entry is not None:
            yield f"milestone {milestone.name!r}", milestone.entry
    for goal in structure.goals.values():
        yield f"goal {goal.name!r}", goal.when
    for stage in structure.stages.values():
        for criterion in (stage.entry, stage.exit):
            if criterion is not None:
                yield f"stage {stage.name!r}", criterion
    if structure.done_when is not None:
        yield "done_when", structure.done_when


def _stages(structure: Structure) -> Iterator[Problem]:
    known = {*structure.bindings, *structure.milestones, *structure.stages}
    for stage in structure.stages.values():
        subject = f"stage {stage.name!r}"
        for member in stage.members:
            if member not in known:
                yield Problem(
                    subject, f"names {member!r}, which is no binding, milestone or stage", did_you_mean(member, known)
                )
            elif structure.stage_of[member] != stage.name:
                yield Problem(
                    subject, f"names {member!r}, which stage {structure.stage_of[member]!r} has", "name it in one stage"
                )
        for member in sorted((stage.optional | stage.companions) - set(stage.members)):
            yield Problem(
                subject, f"calls {member!r} optional or a companion, which is no member", "name it as a member too"
            )
    for subject, sentry in _sentries(structure):
        for milestone in sorted(milestones_in(sentry)):
            if milestone not in structure.milestones:
                yield Problem(
                    subject, f"waits for the milestone {milestone!r}", did_you_mean(milestone, structure.milestones)
                )
    for ring in cycles(structure.stages):
        yield Problem(
            f"stage {ring[0]!r}", f"lies within itself: {' in '.join((*ring, ring[0]))}", "take one out of the other"
        )


def unworked_stages(structure: Structure, loop: str) -> Problem:
    """The problem of a definition with stages and a loop control that works none."""
    return Problem(
        f"stage {next(iter(structure.stages))!r}",
        f"needs a loop control that works stages, and {loop} works none",
        "give CaseHub a PlanningStrategyLoopControl as loop=, or the command a strategy: --loop "
        "blackboard_ext.strategies:EverythingEligible",
    )


_CHECKS = (
    _name,
    _stages,
    _duplicate_names,
    _facts_that_nobody_brings,
    _triggers,
    occasions,
    schedules,
    _goals,
    _types,
    _writers,
    _people,
    _conditions,
    _gates,
    _sub_cases,
    compensators,
    _never_asked,
    _activities,
)
_OF_NAMES = (_name, _stages, _duplicate_names, compensators)
