"""One fact of one case through time, read from its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from casehub.context import CaseContext, Fact
from casehub.errors import FactError, did_you_mean
from casehub.events import CaseId, ContextChanged, Event, WorkerScheduled
from casehub.query import CaseLog
from casehub.values import ABSENT


class Recorded(Protocol):
    """What a fact's history is read from: a case's handle, or its record."""

    @property
    def id(self) -> CaseId: ...

    @property
    def log(self) -> CaseLog: ...

    async def context(self) -> CaseContext: ...


class FactHistory:
    """One fact of one case through time."""

    __slots__ = ("_case", "name")

    def __init__(self, case: Recorded, name: str) -> None:
        self._case = case
        self.name = name

    async def value(self) -> Any:
        """Its value now. Raises `KeyError` when it is not there."""
        return (await self._case.context())[self.name]

    async def history(self) -> list[Fact]:
        """Every value it had, oldest first; a deletion is a fact whose value is `ABSENT`."""
        found: list[Fact] = []
        for event in await self._case.log.query(ContextChanged):
            if self.name in event.facts or self.name in event.deleted:
                value: Any = event.facts.get(self.name, ABSENT)
                confidence = event.confidence.get(self.name) if event.confidence else None
                found.append(Fact(self.name, value, event.version, event.by, event.cause, event.at, confidence))
        return found

    async def why(self) -> list[Event]:
        """The chain of causes: the event that wrote it, what that followed from, and so on to the facts it was made of.

        Sources come first. Raises `FactError` for a fact that never was.
        """
        events: Sequence[Event] = await self._case.log.query(Event)
        by_version = {event.version: event for event in events}
        written = [
            e for e in events if isinstance(e, ContextChanged) and (self.name in e.facts or self.name in e.deleted)
        ]
        if not written:
            known = {name for event in events if isinstance(event, ContextChanged) for name in event.facts}
            raise FactError(f"case {self._case.id!r} never had a fact {self.name!r}; {did_you_mean(self.name, known)}")
        chain: dict[int, Event] = {}
        waiting = [written[-1].version]
        while waiting:
            version = waiting.pop()
            event = by_version.get(version)
            if event is None or version in chain:
                continue
            chain[version] = event
            waiting.append(event.cause)
            if isinstance(event, ContextChanged) and event.binding:
                scheduled = [
                    e
                    for e in events
                    if isinstance(e, WorkerScheduled) and e.binding == event.binding and e.version < version
                ]
                if scheduled:
                    waiting.append(scheduled[-1].version)
                    waiting.extend(stamp for stamp in scheduled[-1].stamps.values() if stamp)
        return [chain[version] for version in sorted(chain)]
