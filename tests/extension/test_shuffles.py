"""The order in which things are declared, and in which people listen, changes nothing of what happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl, StageEvent
from casehub import (
    Binding,
    CaseDefinition,
    CaseEnded,
    CaseView,
    GoalReached,
    MilestoneReached,
    Permanent,
    WorkerExecutionFinished,
    WorkerScheduled,
    present,
    reached,
)
from casehub.spi import Answer
from casehub.testing import CaseTestKit

TOLD = (StageEvent, WorkerScheduled, WorkerExecutionFinished, MilestoneReached, GoalReached, CaseEnded)


class ByName:
    """Fires everything in the order of names: eligible bindings come in order of declaration."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return sorted(eligible, key=lambda binding: binding.name)


def shuffled(chance: random.Random) -> CaseDefinition:
    """Stages of every kind, nested three deep, whose parts are declared in an order of chance."""
    d = CaseDefinition("d", goal="done", signals=["go", "note", "never"])

    def mixed(*members: str) -> list[str]:
        return chance.sample(members, len(members))

    def worker(name: str, after: str, *, fails: bool = False) -> Callable[[], object]:
        async def work(x: int) -> int:
            if fails:
                raise Permanent("broken")
            return x

        return lambda: d.worker(writes=f"{name}_done", name=name, when=present(after))(work)

    declarations: list[Callable[[], object]] = [
        *(worker(name, "x") for name in ("a1", "a2", "d1", "e1", "e2")),
        worker("b1", "a1_done"),
        worker("b2", "a2_done", fails=True),
        worker("c1", "note"),
        worker("f1", "go"),
        worker("f2", "f1_done"),
        lambda: d.milestone("gathered", present("a1_done", "a2_done")),
        lambda: d.goal("done", present("f2_done")),
        lambda: d.stage("root", *mixed("gather", "check", "extra", "final"), optional=mixed("extra")),
        lambda: d.stage("gather", *mixed("a1", "a2", "gathered", "beside"), companions=["beside"]),
        lambda: d.stage("beside", "c1"),
        lambda: d.stage("check", *mixed("b1", "b2", "inner"), entry=reached("gathered"), on_fault="fault"),
        lambda: d.stage("inner", *mixed("d1"), entry=present("b1_done")),
        lambda: d.stage("extra", *mixed("late", "doomed", "brief", "idle"), autocomplete=False),
        lambda: d.stage("idle", "c4", entry=present("never")),
        lambda: d.stage("late", "e1", entry=present("note")),
        lambda: d.stage("doomed", "e2", exit=present("a1_done"), autocomplete=False),
        lambda: d.stage("brief", *mixed("c2", "c3"), optional=mixed("c2", "c3")),
        worker("c2", "x"),
        worker("c3", "a1_done"),
        worker("c4", "x"),
        lambda: d.stage("final", *mixed("f1", "f2"), manual=True, entry=present("go")),
    ]
    for declare in chance.sample(declarations, len(declarations)):
        declare()
    return d


def said(event: Any) -> str:
    subject = next((getattr(event, of) for of in ("stage", "binding", "milestone", "goal") if hasattr(event, of)), "")
    return f"{event.name} {subject} {getattr(event, 'reason', '')}".strip()


async def trace(seed: int) -> list[str]:
    """What happens in a case of these declarations, and that three listeners hear all of its stages."""
    chance = random.Random(seed)
    d = shuffled(chance)
    heard: dict[str, list[str]] = {"one": [], "two": [], "three": []}
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(ByName())) as kit:
        for listener in chance.sample(list(heard), len(heard)):

            async def hear(event: StageEvent, listener: str = listener) -> None:
                heard[listener].append(said(event))

            kit.hub.on(StageEvent)(hear)
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.stage("extra").suspend()
        await case.signal(note=1)
        await case.stage("extra").resume()
        await kit.settle()
        await case.signal(go=1)
        await case.stage("final").activate()
        await case.completed()
        await kit.settle()
        stages = [said(event) for event in kit.events(case, StageEvent)]
        assert list(heard.values()) == [stages] * 3
        return [said(event) for event in kit.events(case, *TOLD)]


PORTIONS = [range(start, start + 40) for start in range(0, 1_000, 40)]
"""A thousand orders in portions, so that none of these tests takes long on a machine that is busy."""


@pytest.mark.parametrize(
    "seeds",
    [PORTIONS[0], *(pytest.param(seeds, marks=pytest.mark.slow) for seeds in PORTIONS[1:])],
    ids=lambda seeds: f"{seeds.start} to {seeds.stop - 1}",
)
async def test_every_order_of_declaration_and_of_listeners_gives_one_trace(seeds: range) -> None:
    first = await trace(-1)
    ends = ("COMPLETED", "TERMINATED", "FAULTED", "SUSPENDED", "RESUMED")
    assert all(any(line.startswith(f"STAGE_{end} ") for line in first) for end in ends), first
    for seed in seeds:
        assert await trace(seed) == first, seed
