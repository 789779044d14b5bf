"""W7: the cheapest plan of L actions among 5 L: a dearer one beside each step, and three distractors a step.

The distractors of the easy systems can never be done; those of the hard ones always can, and lead nowhere, which
multiplies the states that a forward search may look at by two for each of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from heapq import heappop, heappush

from benchmarks.measure import Plan, Run, Sample, Table, interleaved, measured, table_of
from blackboard_ext.goap import Action, Goal, Planner
from blackboard_ext.goap import Plan as ActionPlan

LIMIT = "Dijkstra over conditions (limit)"
FORWARD = "forward search over states"
ANEW = "casehub planner, made anew for each plan"
PLANNER = "casehub planner"
COST = "CPU time a plan"
LENGTHS = (5, 20, 100, 1_000)
FORWARD_AT_MOST = {"easy": 100, "hard": 5}
"""The longest plans that a search over states finds within seconds."""


@cache
def system(length: int, hard: bool) -> Sequence[Action]:
    chance = random.Random(1)
    actions = [
        Action(name=f"{name}{place}", needs={f"t{place}": True}, brings={f"t{place + 1}": True}, cost=cost)
        for place in range(length)
        for name, cost in (("step", 1), ("detour", 3))
    ]
    for place in range(3 * length):
        needs = f"t{chance.randrange(length)}" if hard else f"u{chance.randrange(3 * length)}"
        actions.append(Action(name=f"other{place}", needs={needs: True}, brings={f"d{place}": True}, cost=1))
    chance.shuffle(actions)
    return actions


def verified(actions: Sequence[Action], length: int) -> None:
    world: dict[str, bool | None] = {"t0": True}
    for action in actions:
        assert action.possible(world)
        world.update(action.brings)
    assert world[f"t{length}"]
    assert sum(action.cost for action in actions) == length


def dijkstra(actions: Sequence[Action], length: int) -> Sequence[Action]:
    """The least that finds it, its index built each time: a counter an action, nothing ever taken away (Knuth 1977)."""
    users: dict[str, list[Action]] = {}
    lacking: dict[str, int] = {}
    for action in actions:
        lacking[action.name] = len(action.needs)
        for condition in action.needs:
            users.setdefault(condition, []).append(action)
    best: dict[str, tuple[float, Action | None]] = {"t0": (0, None)}
    queue: list[tuple[float, str]] = [(0, "t0")]
    while queue:
        cost, condition = heappop(queue)
        if cost > best[condition][0]:
            continue
        for action in users.get(condition, ()):
            lacking[action.name] -= 1
            if lacking[action.name]:
                continue
            after = max([best[need][0] for need in action.needs]) + action.cost
            for brought in action.brings:
                if brought not in best or after < best[brought][0]:
                    best[brought] = (after, action)
                    heappush(queue, (after, brought))
    found: dict[str, tuple[float, Action]] = {}
    wanted = [f"t{length}"]
    while wanted:
        cost, by = best[wanted.pop()]
        if by is not None and by.name not in found:
            found[by.name] = (cost, by)
            wanted.extend(by.needs)
    return [action for _, action in sorted(found.values(), key=lambda each: each[0])]


def forward(actions: Sequence[Action], length: int) -> Sequence[Action]:
    """As in a first textbook: A* over sets of conditions; what is left to do counts as one step."""
    goal, start = f"t{length}", frozenset(["t0"])
    prepared = [(frozenset(action.needs), frozenset(action.brings), action) for action in actions]
    spent, came = {start: 0.0}, dict[frozenset[str], tuple[frozenset[str], Action]]()
    queue: list[tuple[float, int, frozenset[str]]] = [(0.0, 0, start)]
    entered = 0
    while goal not in (state := heappop(queue)[2]):
        for needs, brings, action in prepared:
            if needs <= state and not brings <= state:
                after, cost = state | brings, spent[state] + action.cost
                if cost < spent.get(after, 1e18):
                    spent[after], came[after] = cost, (state, action)
                    entered += 1
                    heappush(queue, (cost + (goal not in after), entered, after))
    found: list[Action] = []
    while state != start:
        state, action = came[state]
        found.append(action)
    return found[::-1]


def planned(actions: Sequence[Action], length: int) -> Sequence[Action]:
    """From the actions as they are declared, all made anew."""
    return answer(Planner(actions), length)


@cache
def planner(length: int, hard: bool) -> Planner:
    return Planner(system(length, hard))


def answer(planner: Planner, length: int) -> Sequence[Action]:
    """What a strategy does for each decision: its planner knows the actions of the definition."""
    found = planner.plan({"t0": True}, Goal(name="goal", needs={f"t{length}": True}))
    assert isinstance(found, ActionPlan)
    assert found.proved
    return found.actions


async def sampled(
    peer: Callable[[Sequence[Action], int], Sequence[Action]], length: int, hard: bool, repetitions: int
) -> Sample:
    actions = system(length, hard)
    found: Sequence[Action] = ()
    with measured(repetitions) as sample:
        for _ in range(repetitions):
            found = peer(actions, length)
    verified(found, length)
    return sample


async def run(plan: Plan) -> Sequence[Table]:
    runs: dict[tuple[str, str], Run] = {}
    for hard in (False, True):
        for length in LENGTHS[: 3 if plan.quick else 4]:
            kind = "hard" if hard else "easy"
            known = planner(length, hard)
            peers = {LIMIT: dijkstra, ANEW: planned, PLANNER: lambda _, length, known=known: answer(known, length)}
            if length <= FORWARD_AT_MOST[kind]:
                peers[FORWARD] = forward
            runs |= {(name, f"{length:,} {kind}"): partial(sampled, peer, length, hard) for name, peer in peers.items()}
    samples = await interleaved(plan, runs, probe=1)
    return [table_of("W7", COST, "us", "less", LIMIT, samples, lambda each: each.cpu_us)]
