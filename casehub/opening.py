"""A hub while it is entered: what it is composed of, put to work in order, and everything that runs, brought to its end."""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from casehub.brakes import found_in
from casehub.bus import Bus
from casehub.engine.outage import Outage
from casehub.engine.pool import TaskPool
from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime
from casehub.engine.standing import Standing
from casehub.engine.timers import TimerWheel
from casehub.errors import HubClosedError
from casehub.events import CaseId
from casehub.family import Family
from casehub.fleet import Fleet
from casehub.lifecycle import CaseStatus
from casehub.metrics import observe
from casehub.query import CaseQuery
from casehub.registry import Registry
from casehub.residents import Residents
from casehub.resources import Opener, open_resources
from casehub.retention import Keeper, Retention, retiring
from casehub.sharing import SharedStore
from casehub.snapshot import Checkpoint
from casehub.snapshots import Snapshots
from casehub.spi import CaseStore, Clock, Executor, LoopControl, RetiresCases, SnapshotStore, Turn, Volatile
from casehub.subscribers import Subscriber
from casehub.supervision import supervised

HAND_ON: Final = 5.0
"""Seconds that subscribers and snapshots get, when a hub is left in peace, for what has been committed."""
SAY_SO: Final = 0.5
"""Seconds for the log to hear what was called off as a hub was left in peace."""
COUNTED: Final = 100_000
"""Open cases that are counted, at most, when a hub leaves a store that keeps nothing."""


@dataclass(slots=True, kw_only=True)
class Composition:
    """What a hub is composed of.

    `loops`: by version; `snapshots`: where they are kept, None for none, and `checkpoint`, when; `persists`: whether `store`
    was to keep anything; `chance`: of the jitter of retries; `replaced`: values for resources, instead of opening them;
    `resident`: how many cases that wait stay in memory, and `linger`: how long; `patience`: how long callers wait for
    the store; `resumes`: whether it works what is open in
    the store, unasked; `retention`: how long cases are kept after their end, None for ever.
    """

    registry: Registry
    loops: Mapping[str, LoopControl]
    store: CaseStore
    snapshots: SnapshotStore | None
    checkpoint: Checkpoint
    persists: bool
    clock: Clock
    executor: Executor
    chance: random.Random
    replaced: Mapping[Opener, Any]
    tenant: str
    resident: int
    linger: timedelta
    patience: timedelta
    resumes: bool
    retention: Retention | None


@dataclass(slots=True)
class Opened:
    """What runs of a hub. `fleet`: where several share the store; `persists`: whether its store was to keep anything."""

    runtime: Runtime
    residents: Residents
    fleet: Fleet | None
    keeper: Keeper | None
    group: TaskGroup
    stack: AsyncExitStack
    persists: bool

    async def reach(self, case: CaseId, *, anew: bool = False) -> Pump:
        """The pump of a case, wherever it is worked; `anew`: to let one go on that has ended. Raises `CaseNotFoundError`."""
        return await _reach(self.residents, self.fleet, case, anew=anew)

    async def close(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        subscribers: Sequence[Subscriber[Any]],
    ) -> None:
        """Bring everything to its end and close what was opened. `error`: what the block of the hub raised.

        Raises `HubClosedError` where something that ran stopped the hub from within.
        """
        runtime, residents = self.runtime, self.residents
        runtime.draining = True
        residents.call_off()
        cancelled: asyncio.CancelledError | None = None
        try:
            try:
                if error is None and not isinstance(runtime.store, Volatile):
                    with anyio.move_on_after(SAY_SO):
                        await residents.leave()
            finally:
                runtime.bus.close()
            if error is None:
                with anyio.move_on_after(HAND_ON):
                    for subscriber in subscribers:
                        await subscriber.ended.wait()
                    await residents.snapshots.flushed()
        except asyncio.CancelledError as late:
            kind, error, trace = type(late), (cancelled := late), late.__traceback__
        # Counted once it has been handed on what ended: sub-cases are called off by then.
        lost = await _lost_with(runtime.store, residents.tenant) if self.persists else ()
        self.group.cancel_scope.cancel()
        # What the block raised is its own and passes by the task group; only a cancellation has to go through it.
        passing = (kind, error, trace) if isinstance(error, asyncio.CancelledError) else (None, None, None)
        if await self.stack.__aexit__(*passing):
            raise HubClosedError(
                "the hub was stopped from within: a task of it ended by a CancelledError that nobody had asked for; "
                "find what raises it"
            ) from error
        if cancelled is not None:
            raise cancelled
        if lost and error is None:
            _warn_of(lost)


async def opened(parts: Composition, subscribers: list[Subscriber[Any]]) -> Opened:
    """Open what a hub is composed of, and start what runs; what passes on between cases joins the subscribers."""
    store, tenant, registry = parts.store, parts.tenant, parts.registry
    async with AsyncExitStack() as opening:
        bus = Bus(store.log, tenant=tenant)
        snapshots = Snapshots(parts.snapshots, parts.checkpoint, store.log, parts.clock, tenant)

        def published(turns: Sequence[Turn]) -> None:
            bus.publish(turns)
            snapshots.checkpoints.note(turns)

        await store.open(bus.publish if parts.snapshots is None else published)
        opening.push_async_callback(store.close)
        opening.push_async_callback(snapshots.checkpoints.close)
        await snapshots.checkpoints.open()
        bus.position = await store.log.position()
        brake, ward = await found_in(store, tenant, parts.clock.now(), registry)
        resources = await open_resources(registry, parts.replaced, opening)
        group = anyio.create_task_group()
        wheel = TimerWheel(parts.clock, store)
        spawn = TaskPool(group).spawn
        runtime = Runtime(
            store=store,
            bus=bus,
            clock=parts.clock,
            wheel=wheel,
            outage=Outage(parts.patience),
            executor=parts.executor,
            spawn=spawn,
            chance=parts.chance,
            resources=resources,
            brake=brake,
            ward=ward,
            standing=Standing(store, spawn) if isinstance(store, SharedStore) else None,
        )
        residents = Residents(
            runtime,
            registry,
            parts.loops,
            tenant,
            parts.resident,
            parts.linger,
            snapshots,
            asked_only=not parts.resumes,
        )
        fleet = None
        if runtime.standing is not None:
            fleet = Fleet(runtime, residents, runtime.standing, registry, resumes=parts.resumes)
        if any(each.children for each in registry.versions.values()):
            family = Family(runtime, residents, registry, partial(_reach, residents, fleet))
            subscribers.append(await family.begin(group.start_soon, durable=parts.resumes))
        # What the store raises from here on would come out of the group, wrapped: nothing is asked any more.
        opening.callback(residents.forget)  # once nothing runs any more, and before what it used is closed
        await opening.enter_async_context(group)
        opening.callback(observe(runtime, residents))
        runtime.watchdog.start(runtime.outage.look)
        opening.callback(runtime.watchdog.stop)

        def beside(name: str, run: Callable[..., Awaitable[object]], *arguments: object) -> None:
            _ = group.start_soon(supervised, runtime, name, run, *arguments)

        beside("timers", wheel.run, residents.timer_due)
        beside("checkpoints", snapshots.checkpoints.run)
        for subscriber in subscribers:
            beside(f"subscriber {subscriber.name}", subscriber.run, bus, store, tenant)
        keeper = None
        if isinstance(store, RetiresCases):
            heard = partial(_heard, subscribers, store, tenant)
            keeper = Keeper(
                retiring(store), parts.clock, parts.retention, tenant, residents.let_leave, heard, snapshots.retire
            )
        if fleet is not None:
            beside("fleet", fleet.run)
        elif parts.resumes:
            beside("resumption", residents.resume)
        if parts.resumes and keeper is not None and parts.retention is not None:
            beside("retention", keeper.serve, parts.retention)
        return Opened(runtime, residents, fleet, keeper, group, opening.pop_all(), parts.persists)


async def _reach(residents: Residents, fleet: Fleet | None, case: CaseId, *, anew: bool = False) -> Pump:
    if fleet is not None:
        return await fleet.reach(case, anew=anew)
    return await (residents.anew(case) if anew else residents.pump(case))


async def _heard(subscribers: Sequence[Subscriber[Any]], store: CaseStore, tenant: str) -> int | None:
    """The position up to which the durable subscribers have heard everything; None where there are none."""
    names = [each.durable for each in subscribers if each.durable is not None]
    return min([await store.bookmark(name, tenant=tenant) for name in names], default=None)


async def _lost_with(store: CaseStore, tenant: str) -> Sequence[CaseId]:
    """The open cases that are gone with a store that keeps nothing."""
    if not isinstance(store, Volatile):
        return ()
    query = CaseQuery(tenant=tenant, statuses=tuple(each for each in CaseStatus if not each.ended), limit=COUNTED)
    return [summary.case for summary in await store.log.cases(query)]


def _warn_of(cases: Sequence[CaseId]) -> None:
    warnings.warn(
        f"{len(cases)} open case(s) are lost with this hub's memory store, {cases[0]} among them; "
        "give store='sqlite:///cases.db' to keep them",
        stacklevel=4,
    )
