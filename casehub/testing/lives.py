"""The lives of a test kit's hub: one hub after the other over the same store, and how one of them dies.

A hub that dies is a process that ends: what it has committed stays, and nothing that comes after its last commit
happens. The next one finds the store as it was left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime
from casehub.errors import HubClosedError, SettingsError, did_you_mean
from casehub.events import EVENT_TYPES, CaseId, Event
from casehub.family import NAME as FAMILIES
from casehub.hub import CaseHub
from casehub.query import CaseSummary, EventLog
from casehub.registry import Registry
from casehub.spi import CaseStore, CommitResult, Committed, DueTimer, ListsInputs, Retired, RetiresCases, Turn


class Died(Exception):  # noqa: N818 - it is no error of anybody: it ends a block as the end of a process would
    """What a hub that dies is left by."""


@dataclass(slots=True)
class Crash:
    """When a hub is to die: after the commit that holds the last of so many events of a kind."""

    kind: type[Event]
    times: int
    seen: int = 0

    def __str__(self) -> str:
        return f"kit.crash_after({self.kind.__name__}, {self.times})"

    def meets(self, turn: Turn) -> bool:
        """Take in a turn that is committed; whether it is the one to die after."""
        self.seen += sum(isinstance(event, self.kind) for event in turn.events)
        return self.seen >= self.times


def crash_of(event: type[Event] | str, times: int) -> Crash:
    """The crash that is meant. Raises `SettingsError` for a name that no event has, naming the nearest."""
    if isinstance(event, str):
        kind = EVENT_TYPES.get(event)
        if kind is None:
            raise SettingsError(f"there is no event {event!r}; {did_you_mean(event, EVENT_TYPES)}")
        event = kind
    if times < 1:
        raise SettingsError(f"kit.crash_after(times={times}): count events from 1")
    return Crash(event, times)


class WholeStore(CaseStore, RetiresCases, ListsInputs, Protocol):
    """A store that can do everything that stores can."""


class Line:
    """The store as one hub has it. Once it is cut nothing goes through any more; whoever asks waits for the hub's end.

    Turns are committed one by one while a crash is set, so that none is in the log behind the one that the hub dies of.
    """

    def __init__(self, store: WholeStore, crash: Callable[[], Crash | None], die: Callable[[], None]) -> None:
        self.log: EventLog = store.log
        self.describe = store.describe
        self.close = store.close
        self.cut = False
        self.ended = anyio.Event()
        self._silent = False
        self._store = store
        self._crash = crash
        self._die = die

    async def open(self, published: Callable[[Sequence[Turn]], None]) -> None:
        def passed_on(turns: Sequence[Turn]) -> None:
            if not (self.cut or self._silent):
                published(turns)

        await self._store.open(passed_on)

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        await self._through()
        if self._crash() is None:
            return await self._store.commit(turns)
        results: list[CommitResult] = []
        for turn in turns:
            results += await self._commit(turn)
        return results

    async def _commit(self, turn: Turn) -> Sequence[CommitResult]:
        crash = self._crash()
        if crash is None:
            return await self._store.commit([turn])
        before = crash.seen
        self._silent = crash.meets(turn)  # what it dies of is not published
        results = await self._store.commit([turn])
        if not isinstance(results[0], Committed):
            crash.seen, self._silent = before, False
        elif self._silent:
            self.cut = True
            self._die()
            await self._through()
        return results

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        await self._through()
        return await self._store.load(case, tenant)

    async def outcome(self, case: CaseId, key: str, tenant: str = "default") -> int | None:
        await self._through()
        return await self._store.outcome(case, key, tenant)

    async def active(self) -> Sequence[tuple[str, CaseId]]:
        await self._through()
        return await self._store.active()

    async def due(self, now: datetime, limit: int = 100) -> Sequence[DueTimer]:
        await self._through()
        return await self._store.due(now, limit)

    async def next_due(self, after: datetime | None = None) -> datetime | None:
        await self._through()
        return await self._store.next_due(after)

    async def bookmark(self, subscriber: str, seq: int | None = None, tenant: str = "default") -> int:
        await self._through()
        return await self._store.bookmark(subscriber, seq, tenant)

    async def inputs(self, case: CaseId, tenant: str = "default") -> Mapping[str, int]:
        await self._through()
        return await self._store.inputs(case, tenant)

    async def expired(
        self, before: datetime, tenant: str = "default", limit: int = 100
    ) -> Sequence[Sequence[CaseSummary]]:
        await self._through()
        return await self._store.expired(before, tenant, limit)

    async def weigh(self, cases: Sequence[CaseSummary]) -> tuple[int, int]:
        await self._through()
        return await self._store.weigh(cases)

    async def retire(self, cases: Sequence[CaseSummary]) -> Sequence[CaseId]:
        await self._through()
        return await self._store.retire(cases)

    async def sweep(self, rows: int) -> int:
        await self._through()
        return await self._store.sweep(rows)

    async def retired(self, tenant: str = "default", ran_at: datetime | None = None) -> Retired:
        await self._through()
        return await self._store.retired(tenant, ran_at)

    async def _through(self) -> None:
        """Go on, or wait until the hub has ended. Raises `HubClosedError` to whoever does not end with it."""
        if self.cut:
            await self.ended.wait()
            raise HubClosedError("this hub of the test kit has died; go on with await kit.restart()")


class Lives:
    """One hub after the other. `hub`: the present one; `crash`: when it is to die; `crashed`: whether it has; `failure`:
    what ended one that should have lived.

    A handle that asks here for its hub is good for all of them.
    """

    def __init__(self, store: WholeStore, make: Callable[[CaseStore], CaseHub]) -> None:
        self.crash: Crash | None = None
        self.crashed = False
        self.failure: Exception | None = None
        self._store = store
        self._make = make
        self._dying = False
        self._over = anyio.Event()
        self._line = self._new_line()
        self.hub = make(self._line)
        self.tenant = self.hub.tenant

    # ---- what a handle asks

    @property
    def runtime(self) -> Runtime:
        return self.hub.runtime

    @property
    def registry(self) -> Registry:
        return self.hub.registry

    async def pump(self, case: CaseId) -> Pump:
        return await self.hub.pump(case)

    async def pump_anew(self, case: CaseId) -> Pump:
        return await self.hub.pump_anew(case)

    # ---- life

    async def begin(self, group: TaskGroup, entered: Callable[[], None]) -> None:
        """Enter the hub, in a task of its own; `entered` is called before anything runs in it."""
        await group.start(self._live, entered)

    def renew(self) -> None:
        """Make the next hub, with the functions that the last one called for events."""
        last, self.crashed, self._dying = self.hub, False, False
        self._over, self._line = anyio.Event(), self._new_line()
        self.hub = self._make(self._line)
        for each in last.subscribers:
            if each.durable != FAMILIES:  # a hub has its own for that
                self.hub.on(*each.kinds, case=each.case, durable=each.durable)(each.handler)

    async def end(self, *, dying: bool) -> None:
        """Leave the hub and wait until it is left. `dying`: as a process that is killed, which hands nothing on."""
        self._dying = dying
        self._over.set()
        with anyio.CancelScope(shield=True):
            await self._line.ended.wait()

    def _new_line(self) -> Line:
        return Line(self._store, lambda: self.crash, self._die)

    def _die(self) -> None:
        self.crash = None
        self.crashed = self._dying = True
        self._over.set()

    async def _live(self, entered: Callable[[], None], *, task_status: TaskStatus[None]) -> None:
        line = self._line
        try:
            async with self.hub:
                entered()
                task_status.started()
                await self._over.wait()
                if self._dying:
                    line.cut = True
                    raise Died
        except Died:
            pass
        except Exception as error:
            self.failure = error
            raise
        finally:
            line.ended.set()
