"""What is looked for in every select, of a loop control or a strategy: its answer, and what a cancellation does to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from casehub.binding import Binding
from casehub.spi import Defer, Selection

PROMPT: Final = 1.0
"""Seconds, of the machine's clock, in which a cancelled select has to end."""


def faults_of(answer: object, eligible: Sequence[Binding], verb: str = "select") -> list[str]:
    """What is wrong with an answer, in words. `verb`: what gave it."""
    if isinstance(answer, Defer):
        return []
    chosen = answer.chosen if isinstance(answer, Selection) else answer
    if not isinstance(chosen, Sequence) or isinstance(chosen, str):
        return [f"{verb} answered {answer!r}; answer with bindings, a Selection or Defer(...)"]
    faults = [
        f"{verb} chose {binding!r}, which is not among {list(eligible)}"
        for binding in chosen
        if not any(binding is each for each in eligible)
    ]
    if len(set(map(id, chosen))) < len(chosen):
        faults.append(f"{verb} chose a binding twice: {list(chosen)}")
    return faults


async def faults_when_cancelled(select: Callable[[], Awaitable[object]]) -> list[str]:
    """What goes wrong when a select is cancelled before it has begun, and a little later."""
    faults: list[str] = []
    for passes in range(3):
        selecting = asyncio.ensure_future(select())
        for _ in range(passes):
            await asyncio.sleep(0)
        selecting.cancel()
        _, running = await asyncio.wait([selecting], timeout=PROMPT)
        if running:
            return [*faults, f"select still runs {PROMPT:g} s after it was cancelled"]
        if not selecting.cancelled() and (error := selecting.exception()) is not None:
            faults.append(f"select raised {type(error).__name__} when it was cancelled: {error}")
    return faults
