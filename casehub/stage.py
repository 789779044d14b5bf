"""Stages (CMMN 1.1): parts of a case that are entered, worked and left, as data on the definition.

A stage names its members: bindings, milestones, other stages. Naming a binding gates it: it fires only while its stage
is active. How stages behave is the loop control's; the default, choreography, has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from casehub.sentry import Sentry


class StageVerb(StrEnum):
    """What somebody can do to one stage of a case."""

    ACTIVATE = "activate"
    COMPLETE = "complete"
    TERMINATE = "terminate"
    FAULT = "fault"
    SUSPEND = "suspend"
    RESUME = "resume"


class StageFault(StrEnum):
    """What a required item that faults does to its stage: it `SETTLE`s like any other, or `FAULT`s the stage."""

    SETTLE = "settle"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage. `members`: names of bindings, milestones and nested stages, in order of declaration.

    `entry`: when it may become active (None: as soon as its parent is); `exit`: when it is terminated; `optional` and
    `companions`: members that its completion does not wait for, companions being called off with it; `autocomplete`:
    it completes when everything required has settled; `on_fault`: see `StageFault`; `manual`: where its entry holds, it
    still waits for somebody to activate it.
    """

    name: str
    members: tuple[str, ...]
    entry: Sentry | None = None
    exit: Sentry | None = None
    optional: frozenset[str] = frozenset()
    companions: frozenset[str] = frozenset()
    autocomplete: bool = True
    on_fault: StageFault = StageFault.SETTLE
    manual: bool = False

    @property
    def required(self) -> tuple[str, ...]:
        """The members that its completion waits for."""
        return tuple(name for name in self.members if name not in self.optional and name not in self.companions)


def parents(stages: Mapping[str, Stage]) -> dict[str, str]:
    """For each member of a stage, the stage; the first that names it, where several do."""
    found: dict[str, str] = {}
    for stage in stages.values():
        for member in stage.members:
            found.setdefault(member, stage.name)
    return found


def cycles(stages: Mapping[str, Stage]) -> Iterator[tuple[str, ...]]:
    """Stages that lie within themselves, as the ring of their names, each ring once."""
    above = parents(stages)
    told: set[str] = set()
    for name in stages:
        ring: list[str] = []
        step: str | None = name
        while step is not None and step not in ring:
            ring.append(step)
            step = above.get(step)
        if step == name and not told & set(ring):
            told.update(ring)
            yield tuple(ring)
