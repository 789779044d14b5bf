"""What the engine is compared with: the loop that everybody writes first, and the least that any loop could do."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.shapes import Shape


class NaiveBoard:
    """A blackboard with a line of log for each write; in each round every source is asked whether it can contribute."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.lines: list[str] = []

    def has(self, *names: str) -> bool:
        return all(name in self.facts for name in names)

    def write(self, name: str, value: Any, by: str) -> None:
        self.facts[name] = value
        self.lines.append(f"{by} wrote {name!r}")


class NaiveSource:
    """Can contribute when what it reads is there and what it writes is not."""

    def __init__(self, name: str, reads: tuple[str, ...], writes: str, function: Callable[..., Any]) -> None:
        self.name, self.reads, self.writes, self.function = name, reads, writes, function

    def can_contribute(self, board: NaiveBoard) -> bool:
        return board.has(*self.reads) and not board.has(self.writes)

    def contribute(self, board: NaiveBoard) -> None:
        value = self.function(*[board.facts[name] for name in self.reads])
        board.write(self.writes, value, self.name)


class NaiveLoop:
    """Synchronous; no events, no subscribers, one contribution a round."""

    def __init__(self, shape: Shape) -> None:
        # In the order that makes it look at everything: the source that can contribute next stands last.
        ordered = reversed(shape.sources) if shape.name == "chain20" else shape.sources
        self.shape = shape
        self.sources = [NaiveSource(each.name, each.reads, each.writes, each.function) for each in ordered]

    def run(self, number: int) -> None:
        board = NaiveBoard()
        board.write(*self.shape.given(number), "user")
        while ready := [source for source in self.sources if source.can_contribute(board)]:
            ready[0].contribute(board)
        name, value = self.shape.expected(number)
        assert board.facts[name] == value
        assert len(board.lines) == self.shape.steps + 1


class IndexedLoop:
    """Asynchronous; an index from facts to sources, a count of what each still lacks, and a tuple a change as its log."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.sources = [(each.name, each.reads, each.writes, _awaitable(each.function)) for each in shape.sources]
        self.lacks = [len(each.reads) for each in shape.sources]
        self.readers: dict[str, list[int]] = {}
        for place, each in enumerate(shape.sources):
            for name in each.reads:
                self.readers.setdefault(name, []).append(place)

    async def run(self, number: int) -> None:
        facts: dict[str, Any] = {}
        events: list[tuple[str, str, str, Any, float]] = []
        lacks = self.lacks.copy()
        ready: list[int] = []

        def write(name: str, value: Any, by: str) -> None:
            facts[name] = value
            events.append(("CONTEXT_CHANGED", by, name, value, time.time()))
            for place in self.readers.get(name, ()):
                lacks[place] -= 1
                if not lacks[place]:
                    ready.append(place)

        write(*self.shape.given(number), "user")
        while ready:
            by, reads, writes, function = self.sources[ready.pop()]
            write(writes, await function(*[facts[name] for name in reads]), by)
        name, value = self.shape.expected(number)
        assert facts[name] == value
        assert len(events) == self.shape.steps + 1


def _awaitable(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def call(*values: Any) -> Any:
        return function(*values)

    return call
