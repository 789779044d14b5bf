"""The structure of a case: a definition with its wiring found and its indexes built; what the engine works from.

The index from a fact to what reads it is why a change costs what it touches and not what is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, NotRequired, Required, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from casehub.binding import Binding, Trigger, Worker
from casehub.condition import guarded_by
from casehub.definition import CaseDefinition
from casehub.errors import (
    FactError,
    InputRefusedError,
    LimitError,
    Problem,
    SettingsError,
    UnknownNameError,
    did_you_mean,
)
from casehub.events import Event, TimerId
from casehub.goals import Goal, GoalExpression, Milestone
from casehub.policies import Quarantine, Refire
from casehub.schedule import Schedule
from casehub.sentry import Present, Sentry, milestones_in
from casehub.serialized import FactSerializer, Lenses
from casehub.stage import Stage, parents
from casehub.values import ABSENT, FactType, Owner, Plain
from casehub.versions import version_of
from casehub.wiring import Source, Wires, WiringError

N = TypeVar("N")
K = TypeVar("K")


@dataclass(slots=True)
class Structure:
    """What a definition comes to.

    `types`: of every fact it knows; `conditions`: the named ones, in order of declaration; `inputs`: facts that `start` takes, True where they are required; `brought`:
    facts that may come from outside later; `readers`, `milestones_of`, `goals_of`: from a fact to what reads it;
    `awaiting`, `milestones_awaiting`, `goals_awaiting`: from a milestone to the bindings whose guards test it, and to what
    else does; `stages`: in the order of names; `stage_of`:
    from a member to its stage; `triggered`: from an event class to the bindings that wait for it; `timed`: from a
    timer to the binding and the schedule that it is for; `asks_people`: whether it has human tasks; `watched`: from a
    worker to its quarantine; `children`: of the definitions that its sub-cases have, by name; `hash`: of names,
    reads, writes, policies and conditions, not of function bodies.
    """

    definition: CaseDefinition
    name: str
    hash: str
    bindings: dict[str, Binding]
    conditions: dict[str, Sentry]
    milestones: dict[str, Milestone]
    goals: dict[str, Goal]
    stages: dict[str, Stage]
    stage_of: dict[str, str]
    completion: GoalExpression | None
    done_when: Sentry | None
    types: dict[str, FactType]
    inputs: dict[str, bool]
    brought: dict[str, FactType]
    order: dict[str, int]
    unrequiring: dict[str, Binding]
    readers: dict[str, tuple[Binding, ...]]
    milestones_of: dict[str, tuple[Milestone, ...]]
    goals_of: dict[str, tuple[Goal, ...]]
    awaiting: dict[str, tuple[Binding, ...]]
    milestones_awaiting: dict[str, tuple[Milestone, ...]]
    goals_awaiting: dict[str, tuple[Goal, ...]]
    triggered: dict[type[Event], tuple[Binding, ...]]
    triggered_by_signal: dict[str, tuple[Binding, ...]]
    triggered_by_fault: dict[str, tuple[Binding, ...]]
    timed: dict[TimerId, tuple[Binding, Schedule]]
    watched: dict[str, Quarantine]
    asks_people: bool = False
    children: dict[str, Structure] = field(default_factory=dict[str, "Structure"])

    def binding(self, name: str) -> Binding:
        """One binding by name. Raises `UnknownNameError` naming the nearest."""
        if name not in self.bindings:
            raise UnknownNameError(
                f"definition {self.name!r} has no binding {name!r}; {did_you_mean(name, self.bindings)}"
            )
        return self.bindings[name]

    def condition(self, name: str) -> Sentry:
        """One named condition. Raises `UnknownNameError` naming the nearest."""
        if name not in self.conditions:
            raise UnknownNameError(
                f"definition {self.name!r} has no condition {name!r}; {did_you_mean(name, self.conditions)}"
            )
        return self.conditions[name]

    def written(self) -> set[str]:
        """The facts that workers write."""
        return {name for binding in self.bindings.values() for name in binding.writes}

    def writers(self, fact: str) -> tuple[Binding, ...]:
        """The bindings whose workers write a fact."""
        return tuple(binding for binding in self.bindings.values() if fact in binding.writes)


def structure_of(
    definition: CaseDefinition, execution: type, view: type, serializers: Sequence[FactSerializer] = ()
) -> tuple[Structure, list[Problem]]:
    """The structure of a definition, and what is wrong with its wiring.

    `execution` and `view`: the classes of the engine's own objects that a parameter may ask for. Raises `SettingsError`
    for serializers that cannot be told apart.
    """
    problems: list[Problem] = []
    inputs = _model_fields(definition.inputs)
    lenses = Lenses((*definition.serializers, *serializers), definition.upcasts)
    types = _fact_types(definition, inputs, problems, lenses)
    wires = Wires(
        types, {name: offered for name, (offered, _) in definition.resources.items()}, execution, view, lenses.lens
    )
    served = [
        replace(binding, workers=tuple(_wire_worker(worker, wires, problems) for worker in binding.workers))
        for binding in definition.bindings
    ]
    for binding in served:  # before any condition is wired, which may read by name what workers type
        for worker in binding.workers:
            for parameter in worker.parameters:
                if parameter.fact is not None and parameter.fact not in types:
                    types[parameter.fact] = parameter.type
    for condition in definition.conditions:
        wires.conditions[condition.name] = _sentry(condition.when, wires, f"condition {condition.name!r}", problems)
    undoing = {binding.compensates: binding.name for binding in served if binding.compensates}
    bindings = [
        replace(_wired(binding, wires, problems), compensation=undoing.get(binding.name, "")) for binding in served
    ]
    milestones = [_milestone(milestone, wires, problems) for milestone in definition.milestones]
    goals = [_goal(goal, wires, problems) for goal in definition.goals]
    done_when = None
    if definition.done_when is not None:
        done_when = _sentry(definition.done_when, wires, "done_when", problems)

    written = {name for binding in bindings for name in binding.writes}
    brought = {**definition.signals, **definition.external}
    if definition.inputs is not None:
        required = {name: needed for name, (_, needed) in inputs.items()}
    else:
        required = {}
        for binding in bindings:
            for worker in binding.workers:
                for name in worker.reads:
                    if name not in written and name not in brought:
                        required[name] = required.get(name, False) or name in worker.required
    for name in definition.signals:
        if name not in definition.external:
            required.setdefault(name, False)
    declared = {goal.name for goal in goals}
    if definition.completion is not None:
        goals += [
            Goal(name, Present(name))
            for name in dict.fromkeys(definition.completion.goals)
            if name not in declared and (name in written or name in required or name in brought)
        ]
    named = {binding.name: binding for binding in bindings}
    # By name, so that nothing depends on the order of declaration.
    stages = {s.name: _stage(s, wires, problems) for s in sorted(definition.stages, key=lambda s: s.name)}
    structure = Structure(
        definition=definition,
        name=definition.name,
        hash=version_of(definition, bindings, milestones, goals),
        bindings=named,
        conditions=wires.conditions,
        milestones={milestone.name: milestone for milestone in milestones},
        goals={goal.name: goal for goal in goals},
        stages=stages,
        stage_of=parents(stages),
        completion=definition.completion,
        done_when=done_when,
        types=types,
        inputs=required,
        brought={name: types[name] for name in brought},
        order={name: place for place, name in enumerate(named)},
        unrequiring={binding.name: binding for binding in bindings if not binding.requires},
        readers=_index(named.values(), lambda binding: binding.reads),
        milestones_of=_index(milestones, lambda m: m.when.reads | (frozenset() if m.entry is None else m.entry.reads)),
        goals_of=_index(goals, lambda goal: goal.when.reads),
        awaiting=_index(named.values(), lambda binding: () if binding.when is None else milestones_in(binding.when)),
        milestones_awaiting=_index(
            milestones,
            lambda m: {name for each in (m.when, m.entry) if each is not None for name in milestones_in(each)},
        ),
        goals_awaiting=_index(goals, lambda goal: milestones_in(goal.when)),
        triggered=_index(named.values(), lambda binding: binding.on.events),
        triggered_by_signal=_index(named.values(), lambda binding: binding.on.signals),
        triggered_by_fault=_index(named.values(), lambda binding: binding.on.faulted),
        watched={w.name: b.policy.quarantine for b in named.values() if b.policy.quarantine for w in b.workers},
        timed={each.timer(b.name): (b, each) for b in named.values() for each in b.on.times},
        asks_people=any(worker.form is not None for binding in bindings for worker in binding.workers),
    )
    return structure, problems


def _index(things: Iterable[N], keys: Callable[[N], Iterable[K]]) -> dict[K, tuple[N, ...]]:
    found: dict[K, list[N]] = {}
    for thing in things:
        for key in keys(thing):
            found.setdefault(key, []).append(thing)
    return {key: tuple(entries) for key, entries in found.items()}


def _fact_types(
    definition: CaseDefinition,
    inputs: Mapping[str, tuple[Any, bool]],
    problems: list[Problem],
    lenses: Lenses,
    around: tuple[CaseDefinition, ...] = (),
) -> dict[str, FactType]:
    """The type of each fact that somebody declares: writers first, then inputs, signals and external facts.

    `around`: the definitions whose sub-case it is; what they take of each other in a ring has no type.
    """
    declared: dict[str, list[Any]] = {}
    for worker in definition.workers:
        for name in () if worker.mapping else worker.writes:
            declared.setdefault(name, []).append(_returned(definition, worker, (*around, definition)))
    for name, (annotation, _) in inputs.items():
        declared.setdefault(name, []).append(annotation)
    for name, annotation in {**definition.signals, **definition.external}.items():
        declared.setdefault(name, []).append(annotation)
    declared.update({name: [annotation] for name, annotation in definition.facts.items()})
    for worker in definition.workers:
        for name in worker.writes if worker.mapping else ():
            declared.setdefault(name, [Any])  # a mapping says nothing of its values: what others say holds
    types: dict[str, FactType] = {}
    for name, found in declared.items():
        distinct = [each for place, each in enumerate(found) if each not in found[:place]]
        union: Any = Any if Any in distinct else Union[tuple(distinct)]  # noqa: UP007 - built from parts at run time
        try:
            types[name] = lenses.lens(name, union)
        except FactError as error:
            problems.append(Problem(f"fact {name!r}", str(error), "or return a plain value"))
            types[name] = FactType()
    return types


def _returned(definition: CaseDefinition, worker: Worker, around: tuple[CaseDefinition, ...]) -> Any:
    """The type of what a worker writes; of sub-cases, that of what is taken from them."""
    spec = worker.sub_case
    if spec is None:
        return definition.returned.get(worker.name, Any)
    child = definition.sub_cases[spec.definition]
    if spec.takes is None or child in around:
        return Any
    kind = _fact_types(child, _model_fields(child.inputs), [], Lenses(), around).get(spec.takes)
    annotation: Any = Any if kind is None else kind.annotation
    return list[annotation] if spec.several else annotation


def _model_fields(model: object) -> dict[str, tuple[Any, bool]]:
    """The fields of an inputs model with their types, and whether they are required."""
    if model is None:
        return {}
    if not isinstance(model, type) or not hasattr(model, "__annotations__"):
        raise SettingsError(f"inputs={model!r}: give a class that has the inputs as its fields, such as a dataclass")
    if issubclass(model, BaseModel):
        return {name: (info.annotation, info.is_required()) for name, info in model.model_fields.items()}
    hints = get_type_hints(model, include_extras=True)
    if is_dataclass(model):
        defaults = {f.name for f in fields(model) if f.default is f.default_factory}
        return {name: (hint, name in defaults) for name, hint in hints.items()}
    needed: frozenset[str] = getattr(model, "__required_keys__", frozenset(hints))
    return {
        # Where annotations are text, `__required_keys__` does not know of `NotRequired`.
        name: (get_args(hint)[0], get_origin(hint) is Required)
        if get_origin(hint) in (Required, NotRequired)
        else (hint, name in needed)
        for name, hint in hints.items()
    }


def _wired(binding: Binding, wires: Wires, problems: list[Problem]) -> Binding:
    """A binding whose workers are wired, with its condition, the ones that it needs among it, wired."""
    guarded = guarded_by(binding.when, binding.policy.needs)
    guard = None if guarded is None else _sentry(guarded, wires, f"binding {binding.name!r}", problems)
    own = tuple(dict.fromkeys(name for worker in binding.workers for name in worker.reads))
    reads = tuple(dict.fromkeys((*own, *sorted(() if guard is None else guard.reads), *binding.on.facts)))
    return replace(
        binding,
        when=guard,
        requires=tuple(dict.fromkeys(name for worker in binding.workers for name in worker.required)),
        watches=binding.on.facts or (() if binding.on.occurs else reads),
        reads=reads,
        by_reads=binding.policy.refire is Refire.ON_CHANGE and binding.on == Trigger(),
    )


def _wire_worker(worker: Worker, wires: Wires, problems: list[Problem]) -> Worker:
    parameters = []
    performer = None if worker.performer is None else _wire_worker(worker.performer, wires, problems)
    for parameter in worker.parameters:
        if parameter.source is Source.ACTION:
            parameters.append(parameter)
            continue
        try:
            parameters.append(wires.wire(parameter))
        except WiringError as error:
            problems.append(Problem(f"worker {worker.name!r}", str(error), error.remedy))
            parameters.append(replace(parameter, target=parameter.name))
        except FactError as error:
            problems.append(
                Problem(f"worker {worker.name!r}", f"parameter {parameter.name!r}: {error}", "or wire it as a resource")
            )
            parameters.append(replace(parameter, target=parameter.name))
    secrets = tuple(parameter.name for parameter in parameters if parameter.type.secret)
    loads = tuple(parameter.name for parameter in parameters if parameter.type.loads)
    if loads and not worker.runs:
        problems.append(
            Problem(
                f"worker {worker.name!r}",
                f"its function is called within a turn, and {', '.join(loads)} would have to be fetched",
                "ask for the key, as Reference[...]",
            )
        )
    looks_in = any(parameter.source in (Source.EXECUTION, Source.VIEW) for parameter in parameters)
    looks_in = looks_in or (performer is not None and performer.looks_in)
    return replace(
        worker, parameters=tuple(parameters), looks_in=looks_in, loads=loads, secrets=secrets, performer=performer
    )


def _sentry(sentry: Sentry, wires: Wires, subject: str, problems: list[Problem]) -> Sentry:
    try:
        return sentry.wired(wires)
    except (WiringError, FactError) as error:
        problems.append(Problem(subject, str(error), getattr(error, "remedy", "name the fact as its parameter")))
        return sentry


def _milestone(milestone: Milestone, wires: Wires, problems: list[Problem]) -> Milestone:
    subject = f"milestone {milestone.name!r}"
    entry = None if milestone.entry is None else _sentry(milestone.entry, wires, subject, problems)
    return replace(milestone, when=_sentry(milestone.when, wires, subject, problems), entry=entry)


def _stage(stage: Stage, wires: Wires, problems: list[Problem]) -> Stage:
    subject = f"stage {stage.name!r}"
    entry = None if stage.entry is None else _sentry(stage.entry, wires, subject, problems)
    end = None if stage.exit is None else _sentry(stage.exit, wires, subject, problems)
    return replace(stage, entry=entry, exit=end)


def _goal(goal: Goal, wires: Wires, problems: list[Problem]) -> Goal:
    return replace(goal, when=_sentry(goal.when, wires, f"goal {goal.name!r}", problems))


def started_with(structure: Structure, facts: Mapping[str, Any], owner: Owner) -> dict[str, Plain]:
    """The facts that a case, `owner`, starts with, made plain, an inputs model's defaults among them.

    Raises `InputRefusedError` for a missing or an unknown one, and for one that does not fit its type.
    """
    for name in facts:
        if name not in structure.inputs and not (not structure.definition.strict and name in structure.types):
            raise InputRefusedError(
                f"definition {structure.name!r} takes no input {name!r}; {did_you_mean(name, structure.inputs)}"
            )
    model = structure.definition.inputs
    given = dict(facts)
    if model is not None:
        try:
            whole: Any = TypeAdapter(model).validate_python(given)
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or model.__name__}: {e['msg']}" for e in error.errors(include_url=False)
            )
            raise InputRefusedError(f"definition {structure.name!r} cannot start: {wrong}") from None
        given = (
            whole
            if isinstance(whole, dict)
            else {name: getattr(whole, name) for name in structure.inputs if getattr(whole, name, ABSENT) is not ABSENT}
        )
    missing = [name for name, required in structure.inputs.items() if required and name not in given]
    if missing:
        raise InputRefusedError(
            f"definition {structure.name!r} needs the input {', '.join(map(repr, missing))}; give it to start"
        )
    try:
        return {name: structure.types[name].accept(value, f"input {name!r}", owner) for name, value in given.items()}
    except (FactError, LimitError) as error:
        raise InputRefusedError(str(error)) from None
