"""From actions, a world and a goal to something that can be searched.

Each condition is two literals, that it holds and that it does not. An unknown condition has both of them as long as
nobody knows better; one that cannot be known has neither. An action needs literals, brings some and takes away their
opposites.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from blackboard_ext.goap.hypergraph import NEVER, Costs, Hypergraph, Literals
from blackboard_ext.goap.system import UNIT, Action, Missing, Needs, World

# One number orders plans by cost, then by length, then by how specific their actions are, then by declaration. Each
# part has room for the sum over a plan of a million actions.
_SPECIFIC: Final = 1 << 40
_STEP: Final = 1 << 68
_COST: Final = 1 << 90
SPECIFIC_AT_MOST: Final = 1 << 8
"""Needs of an action beyond which it counts as no more specific."""


class Repertoire:
    """Actions, ready to be planned with again and again."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self.actions = actions
        self.places = {action.name: place for place, action in enumerate(actions)}
        self._numbers: dict[str, int] = {}
        needs = [self._literals(action.needs) for action in actions]
        brings = [self._literals(action.brings) for action in actions]
        weights = [_weight(place, action) for place, action in enumerate(actions)]
        self.graph = Hypergraph(2 * len(self._numbers), needs, brings, weights)
        self._absent = [literal for literal in range(1, self.graph.size, 2) if self.graph.users[literal]]

    def _literals(self, needs: Needs) -> Literals:
        numbers = self._numbers
        return tuple([2 * numbers.setdefault(name, len(numbers)) + (not value) for name, value in needs.items()])

    def wanted(self, needs: Needs) -> Literals:
        """The literals of a goal; a condition that no action knows joins those that are known."""
        literals, graph = self._literals(needs), self.graph
        while graph.size < 2 * len(self._numbers):
            graph.size += 1
            graph.users.append([])
        return literals

    def start(self, world: World, goal: Literals, unknowable: Collection[str]) -> Start:
        """What there is, of what an action or a goal may need."""
        here = {*self._absent, *(literal for literal in goal if literal & 1)}
        unsure: set[int] = set()
        for name, value in world.items():
            number = self._numbers.get(name)
            if number is None or value is False:
                continue
            holds, fails = 2 * number, 2 * number + 1
            here.discard(fails)
            if value:
                here.add(holds)
            elif name not in unknowable:
                here |= {holds, fails}
                unsure |= {holds, fails}
        return Start(here, unsure)

    def useful(self, goal: Literals, costs: Costs) -> list[int]:
        """The places of the actions that can be done and bring what the goal needs, itself or through others of them."""
        literals, needs = costs.literals, self.graph.needs
        can = [place for place, each in enumerate(needs) if all(literals[need] < NEVER for need in each)]
        return sorted(self._towards(goal, can)[1])

    def missing(self, goal: Literals, costs: Costs) -> tuple[Missing, ...]:
        """What of a goal cannot come to be, and what of that which would bring it."""
        wanted, _ = self._towards(goal, range(len(self.actions)))
        names = [*self._numbers]
        return tuple(
            Missing(
                names[literal // 2],
                not literal & 1,
                tuple(a.name for a, brings in zip(self.actions, self.graph.brings, strict=True) if literal in brings),
            )
            for literal in wanted
            if costs.literals[literal] >= NEVER
        )

    def _towards(self, goal: Literals, places: Iterable[int]) -> tuple[list[int], set[int]]:
        """The literals that a goal needs, itself or through what brings them, goal first; and the actions that do."""
        bringers: dict[int, list[int]] = {}
        for place in places:
            for literal in self.graph.brings[place]:
                bringers.setdefault(literal, []).append(place)
        wanted, useful = [*dict.fromkeys(goal)], set[int]()
        seen = set(wanted)
        for literal in wanted:  # grows while it is gone through
            for place in bringers.get(literal, ()):
                if place not in useful:
                    useful.add(place)
                    fresh = [need for need in self.graph.needs[place] if need not in seen]
                    seen.update(fresh)
                    wanted.extend(fresh)
        return wanted, useful

    def condition(self, literal: int) -> str:
        return [*self._numbers][literal // 2]


@dataclass(frozen=True, slots=True)
class Start:
    """`literals`: what there is; `unsure`: those of them that belong to conditions that are unknown."""

    literals: set[int]
    unsure: set[int]


@dataclass(slots=True)
class Step:
    """An action over the bits of a problem."""

    action: Action
    place: int
    needs: int
    adds: int
    keeps: int
    weight: int

    def after(self, state: int) -> int:
        return state & self.keeps | self.adds


class Problem:
    """Some actions over what they and a goal need, and nothing else: a state is the bits of one integer."""

    def __init__(self, repertoire: Repertoire, places: Sequence[int], start: Start, goal: Literals) -> None:
        graph = repertoire.graph
        matters = dict.fromkeys(goal)
        for place in places:
            matters.update(dict.fromkeys(graph.needs[place]))
        self._literals = [*matters]
        bits = {literal: place for place, literal in enumerate(matters)}
        needs = [tuple([bits[literal] for literal in graph.needs[place]]) for place in places]
        brings = [tuple([bits[literal] for literal in graph.brings[place] if literal in bits]) for place in places]
        gone = [[bits[literal ^ 1] for literal in graph.brings[place] if literal ^ 1 in bits] for place in places]
        weights = [graph.weights[place] for place in places]
        self.steps = [
            Step(repertoire.actions[place], place, _bits(needs[n]), _bits(brings[n]), ~_bits(gone[n]), weights[n])
            for n, place in enumerate(places)
        ]
        self.graph = Hypergraph(len(bits), needs, brings, weights)
        self.goal_literals = tuple(bits[literal] for literal in goal)
        self.goal = _bits(self.goal_literals)
        self.start = _bits(bits[literal] for literal in matters if literal in start.literals)
        self._unsure = start.unsure
        self._repertoire = repertoire

    def literals(self, state: int) -> list[int]:
        """The literals of a state, by their bits."""
        found: list[int] = []
        while state:
            lowest = state & -state
            found.append(lowest.bit_length() - 1)
            state ^= lowest
        return found

    def can_be_done(self, steps: Sequence[Step]) -> bool:
        """Whether these steps, in this order, lead to the goal."""
        state = self.start
        for step in steps:
            if step.needs & ~state:
                return False
            state = step.after(state)
        return not self.goal & ~state

    def relied_on(self, steps: Sequence[Step]) -> tuple[str, ...]:
        """The unknown conditions that a plan takes to be as it needs them, in the order in which it does."""
        if not self._unsure:
            return ()
        unsure, found = {*self._unsure}, dict[str, None]()
        for needs, place in [*((step.needs, step.place) for step in steps), (self.goal, -1)]:
            for bit in self.literals(needs):
                if (literal := self._literals[bit]) in unsure:
                    found[self._repertoire.condition(literal)] = None
            for literal in self._repertoire.graph.brings[place] if place >= 0 else ():
                unsure -= {literal, literal ^ 1}
        return tuple(found)

    def in_order(self, steps: Sequence[Step]) -> Sequence[Step]:
        """The same steps, where neighbours can change places the one with more needs first, then the one that serves the goal."""
        ordered, states = [*steps], [self.start]
        for step in ordered:
            states.append(step.after(states[-1]))

        def urgency(step: Step) -> tuple[int, bool, int]:
            return -len(step.action.needs), not step.adds & self.goal, step.weight

        place = 0
        while place < len(ordered) - 1:
            first, second, before = ordered[place], ordered[place + 1], states[place]
            between = second.after(before)
            if (
                not second.needs & ~before
                and not first.needs & ~between
                and first.after(between) == states[place + 2]
                and urgency(second) < urgency(first)
            ):
                ordered[place : place + 2] = second, first
                states[place + 1] = between
                place = max(place - 1, 0)
            else:
                place += 1
        return ordered


def _bits(literals: Iterable[int]) -> int:
    bits = 0
    for literal in literals:
        bits |= 1 << literal
    return bits


def _weight(place: int, action: Action) -> int:
    specific = SPECIFIC_AT_MOST - min(len(action.needs), SPECIFIC_AT_MOST)
    return round(action.cost * UNIT) * _COST + _STEP + specific * _SPECIFIC + place
