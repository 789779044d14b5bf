"""What of the bindings that compensate others can never work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields

from casehub.binding import Trigger
from casehub.errors import Problem, did_you_mean
from casehub.policies import OnOutcome, Policy
from casehub.structure import Structure


def compensators(structure: Structure) -> Iterator[Problem]:
    """What is undone has to be there, by one binding, which has no condition of its own."""
    undone = Counter(binding.compensates for binding in structure.bindings.values())
    for name, binding in structure.bindings.items():
        subject, of = f"binding {name!r}", structure.bindings.get(binding.compensates)
        if not binding.compensates:
            continue
        if of is None:
            others = [each.name for each in structure.bindings.values() if not each.compensates]
            yield Problem(
                subject,
                f"compensates {binding.compensates!r}, which is no binding",
                did_you_mean(binding.compensates, others),
            )
        elif of.compensates:
            yield Problem(
                subject,
                f"compensates {of.name!r}, which undoes something itself",
                "leave compensates= out; what undoes is not undone",
            )
        elif undone[of.name] > 1:
            yield Problem(
                subject,
                f"compensates {of.name!r}, and {undone[of.name] - 1} more do",
                "let one of them do it all; what is undone has one compensation",
            )
        policy, own = binding.policy, Policy()
        given = {"when": binding.when is not None, "on": binding.on != Trigger()}
        given |= {option: getattr(policy, option) != getattr(own, option) for option in ("refire", "limit", "priority")}
        if useless := [option for option, said in given.items() if said]:
            yield Problem(
                subject,
                f"compensates {binding.compensates!r} and says {', '.join(f'{each}=' for each in useless)}, which is never asked",
                "leave that out; let its worker decide what there is to undo",
            )
        if OnOutcome.FAULT_CASE in (getattr(policy.outcomes, each.name) for each in fields(policy.outcomes)):
            yield Problem(
                subject,
                f"compensates {binding.compensates!r} and would fault the case, which ends anyway",
                "leave 'fault_case' out; what is not undone is named in the reason of the end",
            )
        if name in structure.stage_of:
            yield Problem(
                f"stage {structure.stage_of[name]!r}",
                f"names {name!r}, which compensates {binding.compensates!r} and runs when no stage is worked any more",
                "leave it out of the members",
            )
