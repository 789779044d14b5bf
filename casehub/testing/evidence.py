"""What a test kit holds against the log: that nobody changed what was committed, and that replay gives the live state.

Every event is kept in its JSON form at the moment it is committed, before anybody else sees it. A reader that changes
an event or a fact in place, a loop control whose control state is not what its own events fold to, an event that does
not come back from JSON: each shows as a difference, named.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from pydantic_core import from_json as parse_json

from casehub.adapters.codec import as_json, from_json
from casehub.adapters.memory import MemoryStore
from casehub.engine.keeping import bring_back, keep
from casehub.engine.live import LiveCase
from casehub.engine.recovery import restore
from casehub.errors import FactError
from casehub.events import CaseId, Event
from casehub.query import EventLog
from casehub.spi import Turn
from casehub.state import CaseState

_SNAPSHOTS: Final = 100
"""Snapshots that are tried of one case, about."""
_SHOWN: Final = 200
"""Longest text of a value in a message, in characters."""


class WitnessedStore:
    """A store in memory that keeps the form in which each event was committed. It may be left with open cases.

    `events`: all that were committed, in order; `forms`: their JSON at that moment, None for one that has none;
    `unwritable`: what would have kept a durable store from writing.
    """

    def __init__(self) -> None:
        store = self._store = MemoryStore()
        self.log: EventLog = store
        self.events: list[Event] = []
        self.forms: list[bytes | None] = []
        self.unwritable: list[str] = []
        self.describe = store.describe
        self.close = store.close
        self.commit = store.commit
        self.load = store.load
        self.outcome = store.outcome
        self.active = store.active
        self.due = store.due
        self.next_due = store.next_due
        self.bookmark = store.bookmark
        self.inputs = store.inputs
        self.expired, self.weigh = store.expired, store.weigh
        self.retire, self.sweep, self.retired = store.retire, store.sweep, store.retired

    async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
        def witnessed(turns: Sequence[Turn]) -> None:
            for turn in turns:
                for event in turn.events:
                    self._keep(event)
            published(turns)

        await self._store.open(witnessed)

    def of(self, case: CaseId) -> list[Event]:
        """The committed events of one case."""
        return [event for event in self.events if event.case == case]

    def _keep(self, event: Event) -> None:
        form: bytes | None = None
        try:
            form = as_json(event)
        except FactError as error:
            self.unwritable.append(str(error))
        self.events.append(event)
        self.forms.append(form)

    def changed(self) -> Iterator[str]:
        """A line for each committed event that is not what it was."""
        for event, form in zip(self.events, self.forms, strict=True):
            if form is None:
                continue
            try:
                now = as_json(event)
            except FactError as error:
                yield f"committed event {event.name} {event.id} was changed: {error}"
                continue
            if now != form:
                changes = "; ".join(differences(parse_json(form), parse_json(now)))
                yield f"committed event {event.name} {event.id} was changed: {changes}"

    def replayed(self, live: LiveCase) -> Iterator[str]:
        """A line for each part of a live case that its log, read back from JSON, does not fold to."""
        case = live.state.id
        events: list[Event] = []
        for event, form in zip(self.events, self.forms, strict=True):
            if event.case != case:
                continue
            if form is None:
                return  # said already: it cannot be written
            back = from_json(form)
            if type(back) is not type(event) or as_json(back) != form:
                yield f"event {event.name} {event.id} does not come back from JSON as it was written"
                return
            events.append(back)
        again = restore(case, events, live.structure, live.loop, live.log, random.Random(0)).state  # noqa: S311 - draws nothing
        for difference in differences(again, live.state):
            yield f"case {case!r} is not what its log folds to: {difference}"
        kept = through_snapshots(case, events, live)
        for difference in differences(kept, live.state):
            yield f"case {case!r} is not what its snapshots and the rest of its log come to: {difference}"


def through_snapshots(case: CaseId, events: Sequence[Event], live: LiveCase) -> CaseState:
    """What a log folds to when the case is kept in a snapshot, and brought back, again and again on the way."""
    state = CaseState(case, control=live.loop.initial())
    every = max(len(events) // _SNAPSHOTS, 1)
    for place, event in enumerate(events):
        restore(case, (event,), live.structure, live.loop, live.log, random.Random(0), state)  # noqa: S311 - draws nothing
        if place % every == 0 and (kept := keep(state, live.loop, event.seq)) is not None:
            state = bring_back(kept, case, state.tenant, live.loop).state
    return state


def differences(before: object, now: object, where: str = "") -> Iterator[str]:
    """A line for each place where two values differ in type or value: `facts.risk.value was 1, is 2`.

    Goes into dictionaries, lists, tuples, dataclasses and plain objects; anything else is compared by `==`.
    """
    place = where or "it"
    if before is now:
        return
    if type(before) is not type(now):
        yield f"{place} was {_shown(before)}, is {_shown(now)}"
    elif isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in {**before, **now}:
            inner = f"{where}.{key}".lstrip(".")
            if key not in now:
                yield f"{inner} was {_shown(before[key])}, is gone"
            elif key not in before:
                yield f"{inner} was not there, is {_shown(now[key])}"
            else:
                yield from differences(before[key], now[key], inner)
    elif isinstance(before, list | tuple) and isinstance(now, list | tuple):
        if len(before) != len(now):
            yield f"{place} was {_shown(before)}, is {_shown(now)}"
        else:
            for index, (old, new) in enumerate(zip(before, now, strict=True)):
                yield from differences(old, new, f"{where}[{index}]")
    elif (old_parts := _attributes(before)) is not None and (new_parts := _attributes(now)) is not None:
        yield from differences(old_parts, new_parts, where)
    elif before != now:
        yield f"{place} was {_shown(before)}, is {_shown(now)}"


def _attributes(value: object) -> dict[str, Any] | None:
    """The attributes of an object that has no equality of its own, or is a dataclass."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if type(value).__eq__ is not object.__eq__ or callable(value):
        return None
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name, None) for name in slots}}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def listed(heading: str, problems: Iterable[str]) -> str:
    """A message of one line for each problem."""
    return heading + "".join(f"\n  - {problem}" for problem in problems)
