"""Answers of loop controls: what is one, and what is said of what is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from casehub.binding import Binding
from casehub.durations import duration
from casehub.errors import LoopControlError
from casehub.events import Event
from casehub.spi import Defer, LoopControl, Selection
from casehub.values import plain


def check_answer(loop: LoopControl, asked: Sequence[Binding], answer: object) -> tuple[list[Binding], Selection]:
    """An answer as a `Selection` of known bindings. Raises `LoopControlError` for anything that is no answer."""
    name = _name(loop)
    if isinstance(answer, Defer):
        selection = Selection(defer=answer)
    elif isinstance(answer, Selection):
        selection = answer
    else:
        given: Any = answer
        selection = Selection(chosen=given)
    chosen_from: object = selection.chosen
    if not isinstance(chosen_from, Sequence) or isinstance(chosen_from, str):
        raise LoopControlError(
            f"select of {name} answered {chosen_from!r}; answer with bindings, a Selection or Defer(...)"
        )
    if not isinstance(selection.rationale, str):
        raise LoopControlError(f"select of {name} gave the rationale {selection.rationale!r}; give text")
    plain(selection.rationale, f"the rationale of {name}")
    if selection.defer is not None:
        _check_defer(name, selection.defer)
    _check_writes(name, selection.writes)
    offered = {binding.name: binding for binding in asked}
    chosen: dict[str, Binding] = {}
    for binding in chosen_from:
        if not isinstance(binding, Binding):
            raise LoopControlError(f"select of {name} chose {binding!r}, which is no binding; choose out of `eligible`")
        if binding.name not in offered:
            raise LoopControlError(
                f"select of {name} chose {binding!r}, which is not eligible; only {sorted(offered)} are"
            )
        if binding.name in chosen:
            raise LoopControlError(f"select of {name} chose {binding.name!r} twice")
        chosen[binding.name] = offered[binding.name]
    return list(chosen.values()), selection


def _name(loop: LoopControl) -> str:
    """What a loop control calls itself, or its class."""
    return type(loop).__name__ if type(loop).__repr__ is object.__repr__ else repr(loop)


def _check_defer(name: str, defer: Defer) -> None:
    if defer.after is None and defer.until is None and defer.on is None:
        raise LoopControlError(f"select of {name} answered Defer(), which never ends; give after=, until= or on=")
    if defer.until is not None and defer.until.utcoffset() is None:
        raise LoopControlError(f"{name} deferred until {defer.until}, which has no time zone; give an aware time")
    if defer.after is not None:
        duration(defer.after)


def _check_writes(name: str, writes: Sequence[object]) -> None:
    for place, event in enumerate(writes):
        if not isinstance(event, Event):
            raise LoopControlError(f"{name} wrote {event!r}, which is no event; write events of your own class")
        if event.version or any(event is other for other in writes[:place]):
            raise LoopControlError(
                f"{name} wrote {event.name} {event.id}, which is recorded already; make a new event of it"
            )
