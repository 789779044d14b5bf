"""The version of a definition: a hash of its structure.

Names, reads, writes, policies and conditions count; the bodies of functions do not, so mended code makes no version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from casehub.binding import Binding, Worker
from casehub.compensation import Compensation
from casehub.definition import CaseDefinition
from casehub.goals import Goal, Milestone


def version_of(
    definition: CaseDefinition, bindings: Sequence[Binding], milestones: Sequence[Milestone], goals: Sequence[Goal]
) -> str:
    """The version of a definition, given its wired parts."""
    lines = [
        definition.name,
        str(definition.completion),
        str(definition.done_when),
        str(definition.limits),
        str(definition.budget),
    ]
    if definition.compensation != Compensation():
        lines.append(str(definition.compensation))
    lines += [f"{c.name} {c.when}" for c in definition.conditions]
    lines += [f"{b.name} brings {b.policy.brings}" for b in bindings if b.policy.brings]
    lines += [f"{b.name} {[_named(w) for w in b.workers]} {b.when} {b.on} {_without_functions(b)}" for b in bindings]
    lines += [f"{w.name} {w.computes}" for b in bindings for w in b.workers if w.computes]
    lines += [f"{m.name} {m.when} {m.entry} {m.sla}" for m in milestones]
    lines += [f"{g.name} {g.when} {g.failure}" for g in goals]
    lines += [
        f"{s.name} {s.members} {s.entry} {s.exit} {sorted(s.optional)} {sorted(s.companions)} {s.autocomplete} {s.on_fault} {s.manual}"
        for s in definition.stages
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _named(worker: Worker) -> tuple[object, ...]:
    named = (worker.name, worker.reads, worker.writes, worker.capability)
    if worker.sub_case is not None:
        return (*named, str(worker.sub_case))
    if worker.gate is not None:
        return (*named, str(worker.gate))
    return named if worker.form is None else (*named, "people")


def _without_functions(binding: Binding) -> str:
    policy = binding.policy
    return f"{policy.refire} {policy.limit} {policy.merge.__name__} {policy.retry} {policy.timeout} {policy.outcomes} {policy.estimate} {policy.budget}{policy.quarantine or ''}{policy.compensates}"
