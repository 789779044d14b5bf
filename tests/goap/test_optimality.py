"""Random small systems: each plan can be done, reaches its goal, and is as cheap and as short as an exhaustive search finds."""

from __future__ import annotations

import heapq
from random import Random

import pytest

from blackboard_ext.goap.planner import Planner
from blackboard_ext.goap.search import Bounds
from blackboard_ext.goap.system import UNIT, Action, Goal, Impossible, Plan

SYSTEMS = 20_000
PARTS = 4
COSTS = (0.0, 0.0, 0.1, 0.5, 1.0, 1.2, 3.0)


def random_system(chance: Random) -> tuple[list[Action], dict[str, bool], Goal]:
    names = [f"c{n}" for n in range(chance.randint(3, 7))]

    def some(least: int, most: int, share: float) -> dict[str, bool]:
        chosen = chance.sample(names, chance.randint(least, min(most, len(names))))
        return {name: chance.random() < share for name in chosen}

    actions = [
        Action(
            name=f"a{n}", needs=some(chance.random() < 0.9, 3, 0.7), brings=some(1, 2, 0.6), cost=chance.choice(COSTS)
        )
        for n in range(chance.randint(4, 12))
    ]
    return actions, some(1, 2, 0.8), Goal(name="g", needs=some(2, 4, 0.7))


def exhaustive(actions: list[Action], world: dict[str, bool], goal: Goal) -> tuple[int, int] | None:
    """The cost, in millionths, and the length of the best way, by Dijkstra over all worlds; None where there is none."""

    def frozen(world: dict[str, bool]) -> frozenset[str]:
        return frozenset(name for name, holds in world.items() if holds)

    start = frozen(world)
    queue, best = [(0, 0, 0, start)], {start: (0, 0)}
    entered = 0
    while queue:
        cost, length, _, at = heapq.heappop(queue)
        here = dict.fromkeys(at, True)
        if goal.reached(here):
            return cost, length
        for action in actions:
            if action.possible(here):
                after = frozen({**here, **action.brings})
                spent = (cost + round(action.cost * UNIT), length + 1)
                if after not in best or spent < best[after]:
                    best[after] = spent
                    entered += 1
                    heapq.heappush(queue, (*spent, entered, after))
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_plans_can_be_done_and_none_is_cheaper(part: int) -> None:
    chance = Random(part)
    found = impossible = longest = 0
    for number in range(SYSTEMS // PARTS):
        actions, start, goal = random_system(chance)
        best = exhaustive(actions, start, goal)
        answer = Planner(actions, Bounds(seconds=60)).plan(start, goal)
        if best is None:
            assert isinstance(answer, Impossible), (part, number)
            impossible += 1
            continue
        assert isinstance(answer, Plan), (part, number)
        assert answer.proved
        world: dict[str, bool | None] = dict(start)
        for action in answer.actions:
            assert action.possible(world), (part, number)
            world = {**action.after(world)}
        assert goal.reached(world), (part, number)
        assert (sum(round(action.cost * UNIT) for action in answer.actions), len(answer.actions)) == best, (
            part,
            number,
        )
        found += 1
        longest = max(longest, len(answer.actions))
    assert min(found, impossible) > SYSTEMS / PARTS / 10
    assert longest >= 7
