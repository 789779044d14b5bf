"""A definition in outline: every element with what it says, as plain data; and what differs between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, get_args, get_origin

from casehub.binding import Binding, Trigger
from casehub.compensation import Compensation
from casehub.durations import in_words
from casehub.policies import Limits, Outcomes, Policy
from casehub.stage import Stage, StageFault
from casehub.structure import Structure
from casehub.values import Plain, type_name

Element = Mapping[str, Plain]
"""What one element says: only what differs from the default."""
Outline = Mapping[str, Mapping[str, Element]]
"""Elements by kind and name."""

ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One element that is not the same in both. `details`: of a changed one, what it said before and says now."""

    kind: str
    name: str
    change: str
    details: Mapping[str, tuple[Plain, Plain]]


def outline(structure: Structure) -> Outline:
    """Everything that a definition says."""
    definition = structure.definition
    limits = {
        each.name: getattr(definition.limits, each.name)
        for each in fields(Limits)
        if getattr(definition.limits, each.name) != each.default
    }
    whole = {
        "goal": None if structure.completion is None else str(structure.completion),
        "done when": None if structure.done_when is None else str(structure.done_when),
        "at quiescence": definition.at_quiescence or None,
        "budget": None if definition.budget is None else str(definition.budget),
        "limits": limits or None,
        "compensation": None if definition.compensation == Compensation() else str(definition.compensation),
        "protected": sorted(definition.protected) or None,
    }
    brought = {**dict.fromkeys(definition.signals, "signal"), **dict.fromkeys(definition.external, "external fact")}
    return {
        "definition": {structure.name: _said(whole)},
        "input": {
            name: _said({"type": _type(structure, name), "optional": not required or None})
            for name, required in structure.inputs.items()
            if name not in brought
        },
        "signal": {name: _said({"type": _type(structure, name)}) for name in definition.signals},
        "external fact": {name: _said({"type": _type(structure, name)}) for name in definition.external},
        "binding": {binding.name: _binding(structure, binding) for binding in structure.bindings.values()},
        "condition": {each.name: _said({"when": str(each.when)}) for each in definition.conditions},
        "milestone": {
            each.name: _said(
                {
                    "when": str(each.when),
                    "entry": None if each.entry is None else str(each.entry),
                    "sla": None if each.sla is None else in_words(each.sla),
                }
            )
            for each in structure.milestones.values()
        },
        "goal": {
            each.name: _said({"when": str(each.when), "failure": each.failure or None})
            for each in structure.goals.values()
        },
        "stage": {stage.name: _stage(stage) for stage in structure.stages.values()},
    }


def differences(before: Outline, now: Outline) -> Sequence[Difference]:
    """What is not the same, in the order of the definitions; what was removed comes last of its kind."""
    found: list[Difference] = []
    for kind in now:
        old, new = before.get(kind, {}), now[kind]
        if kind == "definition":  # each has one, whatever it is called
            old = dict(zip(new, old.values(), strict=True))
        for name, element in new.items():
            if name not in old:
                found.append(Difference(kind, name, ADDED, {}))
            elif old[name] != element:
                keys = dict.fromkeys((*old[name], *element))
                details = {
                    key: (old[name].get(key), element.get(key))
                    for key in keys
                    if old[name].get(key) != element.get(key)
                }
                found.append(Difference(kind, name, CHANGED, details))
        found += [Difference(kind, name, REMOVED, {}) for name in old if name not in new]
    return found


def _binding(structure: Structure, binding: Binding) -> Element:
    policy, plain = binding.policy, Policy()
    outcomes = {
        f"on {each.name}": str(getattr(policy.outcomes, each.name))
        for each in fields(Outcomes)
        if getattr(policy.outcomes, each.name) != each.default
    }
    return _said(
        {
            "workers": [worker.name for worker in binding.workers if worker.name != binding.name] or None,
            "reads": [name for worker in binding.workers for name in worker.reads] or None,
            "writes": {name: _type(structure, name) for name in binding.writes} or None,
            "computes": "; ".join(filter(None, (worker.computes for worker in binding.workers))) or None,
            "when": None if binding.when is None else str(binding.when),
            "on": _trigger(binding.on),
            "refire": None if policy.refire is plain.refire else str(policy.refire),
            "limit": policy.limit,
            "merge": None if policy.merge is plain.merge else policy.merge.__name__,
            "retry": None if policy.retry == plain.retry else str(policy.retry),
            "timeout": None if policy.timeout is None else in_words(policy.timeout),
            **outcomes,
            "priority": policy.priority or None,
            "cost": None if policy.cost == plain.cost else policy.cost,
            "value": policy.value or None,
            "brings": list(policy.brings) or None,
            "estimate": None if policy.estimate is None else str(policy.estimate),
            "budget": None if policy.budget is None else str(policy.budget),
            "quarantine": None if policy.quarantine is None else str(policy.quarantine),
            "compensates": binding.compensates or None,
        }
    )


def _trigger(on: Trigger) -> list[str] | None:
    events = [f"event {event.name}" for event in on.events]
    signals = [f"signal {name}" for name in on.signals]
    faulted = [f"fault of {name}" for name in on.faulted]
    return [*on.facts, *events, *signals, *(str(each) for each in on.times), *faulted] or None


def _stage(stage: Stage) -> Element:
    return _said(
        {
            "members": list(stage.members),
            "entry": None if stage.entry is None else str(stage.entry),
            "exit": None if stage.exit is None else str(stage.exit),
            "optional": sorted(stage.optional) or None,
            "companions": sorted(stage.companions) or None,
            "autocomplete": None if stage.autocomplete else False,
            "on fault": None if stage.on_fault is StageFault.SETTLE else str(stage.on_fault),
            "manual": stage.manual or None,
        }
    )


def _type(structure: Structure, fact: str) -> str:
    kind = structure.types.get(fact)
    annotation = Any if kind is None else kind.annotation
    if get_origin(annotation) is not Annotated:
        return type_name(annotation)
    base, *more = get_args(annotation)
    return " ".join([type_name(base), *(str(each.func) for each in more if hasattr(each, "func"))])


def _said(values: Mapping[str, Any]) -> dict[str, Plain]:
    return {name: value for name, value in values.items() if value is not None}
