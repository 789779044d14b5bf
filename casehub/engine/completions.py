"""Attempts that end well: what a result writes, merged with what was written meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator

from casehub.activation import Activation
from casehub.binding import Binding, Worker
from casehub.context import Fact
from casehub.engine.agenda import holds
from casehub.engine.failures import failed
from casehub.engine.results import Result, merged_confidence, result_of
from casehub.errors import FactError
from casehub.events import (
    CompensationEnabled,
    ContextChanged,
    Event,
    PostconditionFailed,
    WorkerExecutionCompleted,
)
from casehub.inputs import Returned
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.values import ABSENT, Absent, Plain, plain, same


def completed(
    state: CaseState, structure: Structure, chance: random.Random, binding: Binding, activation: Activation, input: Returned
) -> Iterator[Event]:  # fmt: skip
    """What a returned value comes to. One that does not fit has failed: `chance` is for that."""
    worker = binding.worker_named(activation.worker)
    try:
        result = result_of(worker, input.value)
        facts, deleted, sure = _written(state, structure, binding, worker, activation, result)
    except Exception as error:  # a merge function, or a type's own code, may raise anything
        yield from failed(state, chance, binding, activation, input, error, permanent=True)
        return
    by = input.author or f"worker:{worker.name}"
    if binding.compensation:
        yield CompensationEnabled(binding=binding.name, activation=activation.id, returned=tuple(result.items))
    yield WorkerExecutionCompleted(
        binding=activation.binding,
        activation=activation.id,
        worker=worker.name,
        attempt=input.attempt,
        wrote=(*facts, *deleted),
        confidence=result.lowest,
        charges=input.charges,
        by=by,
    )
    if facts or deleted:
        yield ContextChanged(
            facts=facts, deleted=deleted, confidence=sure, binding=activation.binding, by=by, cause=state.version
        )
    for name in binding.policy.brings:  # by now the state has what it wrote
        if not holds(structure.conditions[name], state, "condition", name):
            yield PostconditionFailed(
                binding=binding.name, activation=activation.id, condition=name, cause=state.version
            )


def _written(
    state: CaseState, structure: Structure, binding: Binding, worker: Worker, activation: Activation, result: Result
) -> tuple[dict[str, Plain], tuple[str, ...], dict[str, float] | None]:  # fmt: skip
    """What a result writes and deletes, merged with what was written meanwhile, and the confidence of what it writes."""
    facts: dict[str, Plain] = {}
    deleted: list[str] = []
    confidence: dict[str, float] = {}
    for name, item in result.items.items():
        if name not in worker.writes:
            raise FactError(
                f"worker {worker.name!r} wrote {name!r}, which its writes= does not name ({', '.join(worker.writes)}); add it"
            )
        kind, where = structure.types[name], f"fact {name!r} of worker {worker.name!r}"
        mine: Plain | Absent = ABSENT if item is ABSENT else kind.normalise(item, where, state)
        sure = result.sure.get(name)
        theirs = state.facts.get(name)
        if theirs is not None and theirs.stamp > activation.version:
            there = ABSENT if theirs.value is ABSENT else kind.as_json(theirs.value, name, state)
            here = ABSENT if mine is ABSENT else kind.as_json(mine, name, state)
            merged = binding.policy.merge(there, here)
            if merged is not here or not same(here, ABSENT if mine is ABSENT else kind.as_json(mine, name, state)):
                if merged is not ABSENT:
                    sure = merged_confidence(merged, there, sure, theirs)
                    merged = kind.from_json(plain(merged, where), where, state)
                mine = merged
        if mine is not ABSENT:
            if not equal(state, structure, name, mine, sure):
                facts[name] = mine
                if sure is not None:
                    confidence[name] = sure
        elif visible(state, name):
            deleted.append(name)
    return facts, tuple(deleted), confidence or None


def visible(state: CaseState, name: str) -> bool:
    """Whether a fact is there for everybody to see."""
    fact = state.facts.get(name)
    return fact is not None and fact.visible


def equal(state: CaseState, structure: Structure, name: str, value: Plain, confidence: float | None) -> bool:
    """Whether a fact is that already, and as sure."""
    fact = state.facts.get(name)
    return fact is not None and fact.confidence == confidence and unchanged(state, structure, fact, value)


def unchanged(state: CaseState, structure: Structure, fact: Fact, value: Plain) -> bool:
    """Whether what is to be stored is there already. One value may be stored in several ways: by another key, say."""
    if not fact.visible:
        return False
    if same(fact.value, value):
        return True
    kind, stored = structure.types.get(fact.name), fact.value
    return kind is not None and not isinstance(stored, Absent) and kind.alike(stored, value, state)
