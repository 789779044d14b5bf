"""Answers of other strategies, for strategies that ask them."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_ext.spi import PlanningStrategy
from casehub.binding import Binding
from casehub.errors import LoopControlError
from casehub.spi import Defer, Selection

SAID = 300
"""Longest text of an error that goes into a rationale, in characters."""


def selection_of(strategy: PlanningStrategy, answer: object, eligible: Sequence[Binding]) -> Selection:
    """An answer as a `Selection`. Raises `LoopControlError` for what is no answer to this question."""
    if isinstance(answer, Selection):
        selection = answer
    elif isinstance(answer, Defer):
        selection = Selection(defer=answer)
    elif isinstance(answer, Sequence) and not isinstance(answer, str):
        selection = Selection(answer)
    else:
        raise LoopControlError(f"{name_of(strategy)} answered {answer!r}; answer with bindings, a Selection or Defer")
    for place, binding in enumerate(selection.chosen):
        if not any(binding is each for each in eligible):
            raise LoopControlError(f"{name_of(strategy)} chose {binding!r}, which is not eligible")
        if binding in selection.chosen[:place]:
            raise LoopControlError(f"{name_of(strategy)} chose {binding!r} twice")
    return selection


def name_of(strategy: PlanningStrategy) -> str:
    """What a strategy is called in a rationale: one that is made of others by what makes it."""
    return type(getattr(strategy, "whole", strategy)).__name__.removeprefix("_")


def said(error: BaseException) -> str:
    """An error in a line that any store can write."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    clean = " ".join(text.encode("utf-8", "replace").decode().replace("\0", "").split())
    return clean if len(clean) <= SAID else clean[: SAID - 3] + "..."
