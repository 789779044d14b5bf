"""The search for the cheapest plan: A* over what holds, forwards, within bounds.

The bound from below is that of landmark cuts, so what is independent of each other is not tried in every order. Where
the arcs by which the goal is cheapest can be done as they are, and cost no more than the bound, nothing is searched.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from blackboard_ext.goap.hypergraph import NEVER, LandmarkCuts, Literals
from blackboard_ext.goap.problem import Problem, Repertoire, Start, Step
from blackboard_ext.goap.system import Missing


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a search ends. `nodes`: states looked at; `seconds`: of processor time."""

    nodes: int = 10_000
    seconds: float = 1.0

    def __str__(self) -> str:
        return f"{self.nodes:,} states or {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Found:
    """`steps`: the best way found, None for none; `exhausted`: whether nothing better is left to be found.

    `relied_on`: unknown conditions that it takes to be as it needs them; `missing`: why there can be none.
    """

    steps: Sequence[Step] | None
    exhausted: bool
    relied_on: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()


def cheapest(repertoire: Repertoire, start: Start, goal: Literals, without: Collection[int], bounds: Bounds) -> Found:
    """The cheapest way to a goal. `without`: places of actions that are not used."""
    graph = repertoire.graph
    costs = graph.costs(start.literals, without=without)
    at_least = max((costs.literals[literal] for literal in goal), default=0)
    if at_least >= NEVER:
        return Found(None, exhausted=True, missing=repertoire.missing(goal, costs))
    arcs = graph.arcs_to(goal, costs)
    problem = Problem(repertoire, arcs, start, goal)
    best: Sequence[Step] | None = problem.steps if problem.can_be_done(problem.steps) else None
    at_most = NEVER if best is None else sum(step.weight for step in best)
    exhausted = at_most <= at_least
    if not exhausted:
        useful = [place for place in repertoire.useful(goal, costs) if place not in without]
        whole = Problem(repertoire, useful, start, goal)
        better, exhausted = _search(whole, bounds, at_most)
        if better is not None:
            problem, best = whole, better
    if best is None:
        return Found(None, exhausted)
    steps = problem.in_order(best)
    return Found(steps, exhausted, problem.relied_on(steps))


def _search(problem: Problem, bounds: Bounds, at_most: int) -> tuple[Sequence[Step] | None, bool]:
    """The best way that costs less than `at_most`, None for none, and whether all has been looked at that could be better."""
    cuts, steps, goal = LandmarkCuts(problem.graph, problem.goal_literals), problem.steps, problem.goal
    start = problem.start
    came: dict[int, tuple[int, Step] | None] = {start: None}
    spent, still = {start: 0}, {start: cuts.bound(problem.literals(start))}
    queue = [(still[start], 0, 0, start)]
    end, looked_at, entered = time.process_time() + bounds.seconds, 0, 0
    while queue:
        estimate, _, _, state = heappop(queue)
        if estimate >= at_most:
            break  # the rest costs as much as what is there
        so_far = spent[state]
        if estimate > so_far + still[state]:
            continue  # a cheaper way here has been taken meanwhile
        if not goal & ~state:
            return _way(came, state), True
        looked_at += 1
        if looked_at > bounds.nodes or time.process_time() > end:
            return None, False
        for step in steps:
            if step.needs & ~state:
                continue
            after, cost = step.after(state), so_far + step.weight
            if after == state or cost >= spent.get(after, NEVER):
                continue
            bound = still.get(after)
            if bound is None:
                bound = still[after] = cuts.bound(problem.literals(after))
            if cost + bound >= at_most:
                continue
            spent[after] = cost
            came[after] = (state, step)
            entered += 1
            # Of equal estimates the one with less to go, then the one that came first.
            heappush(queue, (cost + bound, bound, entered, after))
    return None, True


def _way(came: dict[int, tuple[int, Step] | None], state: int) -> list[Step]:
    steps: list[Step] = []
    while (before := came[state]) is not None:
        state, step = before
        steps.append(step)
    return steps[::-1]
