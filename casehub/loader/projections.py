"""Projections of the original: what a worker gets of the facts, and what of its result becomes facts, in jq."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from casehub.errors import Permanent
from casehub.loader.expressions import ExpressionError, Program
from casehub.values import Plain

Function = Callable[[dict[str, Any]], Any]
"""What does a worker's work: a dictionary in, a dictionary out; async or not."""


@dataclass(frozen=True, slots=True)
class Projected:
    """The function of a worker: what is projected for it goes in, what is projected of its result comes out."""

    name: str
    function: Function | None
    given: Program
    found: Program | None

    async def awaited(self, **facts: Plain) -> dict[str, Plain]:
        """The work of an async function."""
        return self._found(await self._code(self._given(facts)))

    def called(self, **facts: Plain) -> dict[str, Plain]:
        """The work of a function that is not."""
        return self._found(self._code(self._given(facts)))

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @property
    def _code(self) -> Function:
        if self.function is None:
            raise Permanent(
                f"worker {self.name!r} has no code; give it by load_definition(..., workers={{{self.name!r}: function}})"
            )
        return self.function

    def _given(self, facts: Mapping[str, Plain]) -> dict[str, Plain]:
        return object_of(self.given.compute(facts), self.given)

    def _found(self, result: Any) -> dict[str, Plain]:
        return {} if self.found is None else object_of(self.found.compute(dict(result or {})), self.found)


def object_of(value: Plain, program: Program) -> dict[str, Plain]:
    if not isinstance(value, dict):
        raise ExpressionError(f"{program.source!r} comes to {value!r}, and an object is needed")
    return value


@dataclass(frozen=True, slots=True)
class Part:
    """One fact of a mapping; it waits for the answer that is mapped."""

    program: Program
    fact: str
    answer: str

    @property
    def source(self) -> str:
        return f"{self.program.source} | .{self.fact}"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.answer,)

    @property
    def optional(self) -> frozenset[str]:
        return frozenset()

    @property
    def apart(self) -> bool:
        return self.program.apart

    def compute(self, facts: Mapping[str, Plain]) -> Plain:
        return object_of(self.program.compute(facts), self.program).get(self.fact)


def keys_of(text: str) -> list[str] | None:
    """The names of an object that a projection makes; None where they cannot be told."""
    text = text.strip()
    found = [re.fullmatch(r'\s*"?([A-Za-z_]\w*)"?\s*(?::.*)?', part, re.DOTALL) for part in _parts(text[1:-1])]
    if not text.startswith("{") or not text.endswith("}") or not all(found):
        return None
    return [match[1] for match in found if match is not None]


def _parts(text: str) -> list[str]:
    """A text at its commas, but for those within brackets and quotes."""
    found, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth and not quoted:
            found.append("")
        else:
            found[-1] += letter
    return found
