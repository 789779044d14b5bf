"""The shapes of case that are measured, as definitions for the engine and as plain sources for the loops beside it.

- `chain3`: question, facts, draft, final: three steps that follow from one another.
- `chain20`: k0 to k20, each one more than the one before.
- `fan50`: fifty workers that read one fact, and a last one that reads what they wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from casehub import CaseDefinition

QUESTION = "Why do agents need shared memory?"


@dataclass(frozen=True, slots=True)
class Source:
    """A knowledge source: what it reads, what it writes, and how; `function` takes what it reads, in order."""

    name: str
    reads: tuple[str, ...]
    writes: str
    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of case. `given` and `expected`: the fact it starts with and the one it ends with, by the case's number."""

    name: str
    steps: int
    sources: Sequence[Source]
    given: Callable[[int], tuple[str, Any]]
    expected: Callable[[int], tuple[str, Any]]

    @property
    def events(self) -> int:
        """What the engine logs of one case: four events a step, and the case's start, first fact, goal and end."""
        return 4 * self.steps + 4

    def definition(self) -> CaseDefinition:
        """The shape for the engine: async workers with a parameter for each fact that they read."""
        definition = CaseDefinition(self.name, goal=self.expected(0)[0])
        for source in self.sources:
            definition.worker(name=source.name, writes=source.writes)(_worker(source))
        return definition


def _worker(source: Source) -> Callable[..., Any]:
    """The async function with these very parameters that a user would have written."""
    names = ", ".join(source.reads)
    scope: dict[str, Any] = {"function": source.function}
    exec(f"async def {source.name}({names}):\n    return function({names})", scope)
    found: Callable[..., Any] = scope[source.name]
    return found


def _increment(value: int) -> int:
    return value + 1


def _times(number: int) -> Callable[[int], int]:
    return lambda value: value * number


CHAIN3 = Shape(
    "chain3",
    3,
    [
        Source("critic", ("draft",), "final", lambda draft: f"Polished: {draft}"),
        Source("writer", ("facts",), "draft", lambda facts: f"Draft using {facts}"),
        Source("researcher", ("question",), "facts", lambda question: f"[facts gathered about: {question}]"),
    ],
    lambda number: ("question", QUESTION),
    lambda number: ("final", f"Polished: Draft using [facts gathered about: {QUESTION}]"),
)

CHAIN20 = Shape(
    "chain20",
    20,
    [Source(f"s{place}", (f"k{place}",), f"k{place + 1}", _increment) for place in range(20)],
    lambda number: ("k0", number),
    lambda number: ("k20", number + 20),
)

FAN50 = Shape(
    "fan50",
    51,
    [
        *(Source(f"w{place}", ("seed",), f"r{place}", _times(place)) for place in range(50)),
        Source("join", tuple(f"r{place}" for place in range(50)), "total", lambda *values: sum(values)),
    ],
    lambda number: ("seed", number),
    lambda number: ("total", number * sum(range(50))),
)

SHAPES = (CHAIN3, CHAIN20, FAN50)
