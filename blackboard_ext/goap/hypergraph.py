"""Actions as a directed hypergraph over literals, with nothing ever taken away: what a goal costs at least.

`costs` finds what each literal costs where an action costs what its dearest need does (h_max, Bonet & Geffner 2001, by a
shortest-path search over hyperarcs, Knuth 1977): exact where each action needs one thing. `landmark_cuts` adds up actions
of which every plan has one (LM-cut, Helmert & Domshlak 2009). Neither ever overestimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

NEVER: Final = 1 << 200
"""The cost of what cannot come to be."""
Literals = tuple[int, ...]


@dataclass(slots=True)
class Costs:
    """What each literal costs at least, and by which arc (its place) it is cheapest, -1 where by none."""

    literals: list[int]
    by: list[int]


class Hypergraph:
    """Arcs over `size` literals: arc `n` needs all of `needs[n]`, brings all of `brings[n]`, and costs `weights[n]`."""

    def __init__(
        self, size: int, needs: Sequence[Literals], brings: Sequence[Literals], weights: Sequence[int]
    ) -> None:
        self.size = size
        self.needs = needs
        self.brings = brings
        self.weights = weights
        self.users: list[list[int]] = [[] for _ in range(size)]
        self.free = [place for place, each in enumerate(needs) if not each]
        self.counts = [len(each) for each in needs]
        for place, each in enumerate(needs):
            for literal in each:
                self.users[literal].append(place)

    def bringers(self) -> list[list[int]]:
        """The arcs that bring each literal."""
        found: list[list[int]] = [[] for _ in range(self.size)]
        for place, each in enumerate(self.brings):
            for literal in each:
                found[literal].append(place)
        return found

    def costs(self, start: Iterable[int], weights: Sequence[int] | None = None, without: Iterable[int] = ()) -> Costs:
        """By Dijkstra, with a counter an arc. `start`: what there is, for nothing; `without`: arcs that are not used."""
        weights = self.weights if weights is None else weights
        users, brings = self.users, self.brings
        literals, by, lacking = [NEVER] * self.size, [-1] * self.size, self.counts.copy()
        for place in without:
            lacking[place] = -1  # never counted down to nothing
        queue: list[tuple[int, int]] = []
        for literal in start:
            literals[literal] = 0
            if users[literal]:
                queue.append((0, literal))
        for place in self.free:
            if lacking[place] == 0:
                for brought in brings[place]:
                    if weights[place] < literals[brought]:
                        literals[brought], by[brought] = weights[place], place
                        queue.append((weights[place], brought))
        heapify(queue)
        while queue:
            cost, literal = heappop(queue)
            if cost > literals[literal]:
                continue
            for place in users[literal]:
                lacking[place] -= 1
                if lacking[place] == 0:
                    after = cost + weights[place]  # the last need is the dearest
                    for brought in brings[place]:
                        if after < literals[brought]:
                            literals[brought] = after
                            by[brought] = place
                            if users[brought]:
                                heappush(queue, (after, brought))
        return Costs(literals, by)

    def arcs_to(self, goal: Iterable[int], costs: Costs) -> list[int]:
        """The arcs by which the literals of a goal are cheapest, and those by which what these need is, in order of cost."""
        needs, literals, by = self.needs, costs.literals, costs.by
        chosen: dict[int, tuple[int, int]] = {}
        queue = [*goal]
        while queue:
            literal = queue.pop()
            place = by[literal]
            if place >= 0 and place not in chosen:
                dearest = max([literals[need] for need in needs[place]], default=0)
                chosen[place] = (dearest + self.weights[place], place)
                queue.extend(needs[place])
        return sorted(chosen, key=chosen.__getitem__)


class LandmarkCuts:
    """Bounds from below for what a goal costs from different starts."""

    def __init__(self, graph: Hypergraph, goal: Literals) -> None:
        self._graph = graph
        self._goal = goal
        self._bringers = graph.bringers()

    def bound(self, start: Sequence[int]) -> int:
        """What reaching the goal costs at least; `NEVER` where it cannot be reached."""
        graph = self._graph
        weights = [*graph.weights]
        total = 0
        while True:
            literals = graph.costs(start, weights).literals
            dearest = max(self._goal, key=literals.__getitem__, default=-1)
            if dearest < 0 or literals[dearest] == 0:
                return total
            if literals[dearest] >= NEVER:
                return NEVER
            # Each arc hangs on its dearest need, and the goal on its dearest literal.
            hangs_on = [max(each, key=literals.__getitem__) if each else -1 for each in graph.needs]
            cut = self._cut(start, self._zone(dearest, hangs_on, weights), hangs_on)
            cheapest = min(weights[place] for place in cut)
            total += cheapest
            for place in cut:
                weights[place] -= cheapest

    def _zone(self, dearest: int, hangs_on: Sequence[int], weights: Sequence[int]) -> set[int]:
        """The literals from which the goal costs nothing more."""
        zone, queue = {dearest}, [dearest]
        while queue:
            for place in self._bringers[queue.pop()]:
                before = hangs_on[place]
                if weights[place] == 0 and before >= 0 and before not in zone:
                    zone.add(before)
                    queue.append(before)
        return zone

    def _cut(self, start: Iterable[int], zone: set[int], hangs_on: Sequence[int]) -> list[int]:
        """The arcs that lead into a zone from what can come to be without it: every plan has one of them."""
        supported: dict[int, list[int]] = {}
        for place, literal in enumerate(hangs_on):
            supported.setdefault(literal, []).append(place)
        cut: list[int] = []
        queue = [-1, *start]  # -1: where what needs nothing hangs
        seen = set(queue)
        while queue:
            for place in supported.get(queue.pop(), ()):
                brings = self._graph.brings[place]
                if not zone.isdisjoint(brings):
                    cut.append(place)
                    continue
                for brought in brings:
                    if brought not in seen:
                        seen.add(brought)
                        queue.append(brought)
        return cut
