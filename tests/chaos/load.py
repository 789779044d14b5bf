"""The cases that a chaos run works: choreography, people, time, sub-cases, strategies that think, failures.

Each worker that is called leaves a row in the ledger. `world` is set before a hub is made: workers are plain functions,
and find their ledger there.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from blackboard_ext import PlanningStrategyLoopControl
from casehub import CaseDefinition, CaseView, HumanTask, Permanent, Retry, WorkerExecution, absent, after
from casehub.binding import Binding
from casehub.spi import Answer
from tests.chaos.records import Ledger


@dataclass(slots=True)
class World:
    """What workers find around them."""

    ledger: Ledger | None = None
    chance: random.Random = field(default_factory=random.Random)

    def effect(self, execution: WorkerExecution) -> None:
        if self.ledger is not None:
            self.ledger.effect(execution.idempotency_key, execution.attempt)

    async def pause(self) -> None:
        """Some work is done at once, some takes a few milliseconds."""
        if self.chance.random() < 0.5:
            await asyncio.sleep(self.chance.random() * 0.004)


world: Final = World()

# ---- choreography: async, in a thread, and once more after a failure

chain = CaseDefinition("chain", goal="end")


@chain.worker(writes="middle")
async def first(begin: int, execution: WorkerExecution) -> int:
    world.effect(execution)
    await world.pause()
    return begin + 1


@chain.worker(writes="end", retry=Retry(3, wait="1ms"))
def second(middle: int, execution: WorkerExecution) -> int:
    world.effect(execution)
    if middle % 7 == 0 and execution.attempt == 1:
        raise OSError("the first attempt at every seventh fails")
    return middle + 1


# ---- signals, each of which is counted

meter = CaseDefinition("meter", goal="closed", signals={"pulse": int, "closed": bool})


@meter.worker(writes="reading")
async def read(pulse: int, execution: WorkerExecution) -> int:
    world.effect(execution)
    return pulse


# ---- people

desk = CaseDefinition("desk", goal="letter")


@desk.human_task(writes="approval")
def approve(amount: int) -> HumanTask[bool]:
    return HumanTask(f"Is {amount} fine?", bool, groups=["desk"], due="1s")


@desk.worker(writes="letter")
async def write(amount: int, approval: bool, execution: WorkerExecution) -> str:
    world.effect(execution)
    await world.pause()
    return f"{amount}: {approval}"


# ---- time

bell = CaseDefinition("bell", goal="rung")


@bell.worker(writes="rung", on=after("1s"))
async def ring(hour: int, execution: WorkerExecution) -> int:
    world.effect(execution)
    return hour


# ---- sub-cases

family = CaseDefinition("family", goal="sum")


@family.sub_case(chain, name="members", writes="ends", takes="end")
def members(numbers: list[int]) -> list[dict[str, int]]:
    return [{"begin": number} for number in numbers]


@family.worker(writes="sum")
async def add(ends: list[int], execution: WorkerExecution) -> int:
    world.effect(execution)
    return sum(ends)


# ---- a strategy that thinks

plan = CaseDefinition("plan", goal="chosen")


@plan.worker(writes="left", when=absent("left"))
async def go_left(start: int, execution: WorkerExecution) -> int:
    world.effect(execution)
    await world.pause()
    return -start


@plan.worker(writes="right", when=absent("right"))
async def go_right(start: int, execution: WorkerExecution) -> int:
    world.effect(execution)
    return start


@plan.worker(writes="chosen")
async def choose(left: int, right: int, execution: WorkerExecution) -> int:
    world.effect(execution)
    return max(left, right)


class Thinking:
    """Takes its time, and then the first."""

    async def select(self, plan: Any, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await world.pause()
        return eligible[:1]


# ---- what can never be done

poison = CaseDefinition("poison", signals={"antidote": int})


@poison.worker(writes="digested")
async def digest(meal: int, execution: WorkerExecution) -> int:
    world.effect(execution)
    raise Permanent("nobody can eat this")


DEFINITIONS: Final = (chain, meter, desk, bell, family, plan, poison)
LOOP: Final = {plan.name: PlanningStrategyLoopControl(Thinking())}
EFFECTFUL: Final = frozenset(
    {"first", "second", "read", "write", "ring", "add", "go_left", "go_right", "choose", "digest"}
)
"""Bindings whose workers leave a row in the ledger at each call."""
