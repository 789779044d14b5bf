"""W4: what is eligible after one fact has changed, among 10 to 10,000 bindings.

A thousand facts; each binding reads one or two of them and has a guard that compares them with a threshold, so about a
third of all bindings is eligible at any time. A change writes one fact; on the hot key every binding reads that fact.
The agenda takes the change as it does in a case: the event folds into the state, the agenda observes it and answers.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from benchmarks.measure import Plan, Run, Sample, Table, interleaved, measured, table_of
from casehub import Binding, CaseDefinition, CaseId, CaseStarted, ChoreographyLoopControl, ContextChanged, Envelope
from casehub.adapters.memory import MemoryStore
from casehub.engine.live import LiveCase
from casehub.engine.recovery import restore
from casehub.folding import apply
from casehub.structure import Structure
from casehub.validation import build
from casehub.values import Plain

NAIVE = "naive loop over all conditions"
INDEX = "dict index (limit)"
AGENDA = "casehub agenda"
COST = "CPU time a change"
HOT = "CPU time a change, hot key"

FACTS = 1_000
SIZES = (10, 100, 1_000, 10_000)
QUICK_SIZES = (10, 100, 1_000)
ENVELOPE = Envelope(case=CaseId("w4"), definition="rules", turn=1, at=datetime.now(UTC))
CHANGES = 20
"""Changes in one repetition."""

Condition = Callable[[Mapping[str, int]], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """It holds while each of its facts is above its threshold."""

    facts: tuple[str, ...]
    thresholds: tuple[int, ...]

    def condition(self) -> Condition:
        if len(self.facts) == 1:
            (name,), (bound,) = self.facts, self.thresholds
            return lambda facts: name in facts and facts[name] > bound
        (name, other), (bound, limit) = self.facts, self.thresholds
        return lambda facts: name in facts and facts[name] > bound and other in facts and facts[other] > limit


def rules_of(size: int, hot: bool) -> list[Rule]:
    chance = random.Random(7)
    rules = []
    for _ in range(size):
        places = chance.sample(range(1, FACTS), chance.choice((1, 2)))
        if hot:
            places[0] = 0
        rules.append(Rule(tuple(f"k{place}" for place in places), tuple(chance.randrange(100) for _ in places)))
    return rules


def first_facts() -> dict[str, int]:
    chance = random.Random(3)
    return {f"k{place}": chance.randrange(100) for place in range(FACTS)}


def changes_of(number: int, hot: bool) -> list[tuple[str, int]]:
    chance = random.Random(5)
    return [("k0" if hot else f"k{chance.randrange(FACTS)}", chance.randrange(100)) for _ in range(number)]


@cache
def structure_of(size: int, hot: bool) -> Structure:
    """The rules as a definition: a worker for each, with a guard over the facts that it reads."""
    definition = CaseDefinition("rules", external={f"k{place}": int for place in range(FACTS)}, at_quiescence=True)
    for place, rule in enumerate(rules_of(size, hot)):
        names = ", ".join(rule.facts)
        test = " and ".join(f"{name} > {bound}" for name, bound in zip(rule.facts, rule.thresholds, strict=True))
        scope: dict[str, Any] = {}
        exec(f"async def b{place}({names}) -> None: ...\nguard = lambda {names}: {test}", scope)
        definition.worker(name=f"b{place}", when=scope["guard"])(scope[f"b{place}"])
    return build(definition)


@cache
def case_of(size: int, hot: bool) -> LiveCase:
    """A case of the rules, before its first facts."""
    structure = structure_of(size, hot)
    started = CaseStarted(structure=structure.hash, envelope=ENVELOPE, version=1)
    loop, log = ChoreographyLoopControl(), MemoryStore().log
    return restore(ENVELOPE.case, (started,), structure, loop, log, random.Random(1))


def change(live: LiveCase, facts: dict[str, Plain]) -> Sequence[Binding]:
    """What is eligible after these facts were written."""
    event = ContextChanged(facts=facts, envelope=ENVELOPE, version=live.state.version + 1)
    apply(live.state, event)
    live.agenda.observe(event)
    return live.agenda.refresh(live.state)


def truth(size: int, hot: bool, changes: Sequence[tuple[str, int]]) -> list[int]:
    """The rules that hold after the changes, by looking at all of them once."""
    facts = {**first_facts(), **dict(changes)}
    return [place for place, rule in enumerate(rules_of(size, hot)) if rule.condition()(facts)]


async def naive(size: int, hot: bool, repetitions: int) -> Sample:
    conditions = [rule.condition() for rule in rules_of(size, hot)]
    facts = first_facts()
    changes = changes_of(CHANGES * repetitions, hot)
    eligible: list[int] = []
    with measured(len(changes)) as sample:
        for name, value in changes:
            facts[name] = value
            eligible = [place for place, condition in enumerate(conditions) if condition(facts)]
    assert eligible == truth(size, hot, changes)
    return sample


async def index(size: int, hot: bool, repetitions: int) -> Sample:
    conditions = [rule.condition() for rule in rules_of(size, hot)]
    readers: dict[str, list[tuple[int, Condition]]] = {}
    for place, rule in enumerate(rules_of(size, hot)):
        for name in rule.facts:
            readers.setdefault(name, []).append((place, conditions[place]))
    facts = first_facts()
    changes = changes_of(CHANGES * repetitions, hot)
    eligible = {place for place, condition in enumerate(conditions) if condition(facts)}
    with measured(len(changes)) as sample:
        for name, value in changes:
            facts[name] = value
            for place, condition in readers.get(name, ()):
                if condition(facts):
                    eligible.add(place)
                else:
                    eligible.discard(place)
    assert sorted(eligible) == truth(size, hot, changes)
    return sample


async def agenda(size: int, hot: bool, repetitions: int) -> Sample:
    live = case_of(size, hot)
    changes = changes_of(CHANGES * repetitions, hot)
    eligible = change(live, dict(first_facts()))
    with measured(len(changes)) as sample:
        for name, value in changes:
            eligible = change(live, {name: value})
    assert [binding.name for binding in eligible] == [f"b{place}" for place in truth(size, hot, changes)]
    return sample


PEERS: dict[str, Callable[[int, bool, int], Awaitable[Sample]]] = {NAIVE: naive, INDEX: index, AGENDA: agenda}


async def run(plan: Plan) -> Sequence[Table]:
    sizes = QUICK_SIZES if plan.quick else SIZES
    tables = []
    for hot in (False, True):
        for size in sizes:
            case_of(size, hot)
        gc.freeze()  # what does not change need not be looked at before every sample
        runs: dict[tuple[str, str], Run] = {
            (name, f"{size:,} bindings"): partial(peer, size, hot) for size in sizes for name, peer in PEERS.items()
        }
        samples = await interleaved(plan, runs, probe=1, most=2_000)
        measure = HOT if hot else COST
        table = table_of("W4", measure, "us", "less", INDEX, samples, lambda each: each.cpu_us)
        if not hot:
            smallest, thousand = (table.value(AGENDA, f"{size:,} bindings") for size in (10, 1_000))
            table.notes.append(f"flatness of the agenda, 1,000 bindings against 10: {thousand / smallest:.2f}")
        tables.append(table)
        gc.unfreeze()
        case_of.cache_clear()
        structure_of.cache_clear()
    return tables
