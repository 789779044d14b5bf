"""Families of cases: sub-cases are started, told to end, and their parents hear how they ended.

What a turn says about sub-cases becomes inputs of other cases here: a process manager (Hohpe, Woolf: Enterprise
Integration Patterns, 2003) that follows the log from a kept position. It may hear an event twice, after a crash, and
that is harmless: a case is started once under its id, has ended or has not, and its parent takes its end once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

import anyio
import structlog

from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime
from casehub.errors import (
    CaseEndedError,
    CaseExistsError,
    CaseHubError,
    CaseNotFoundError,
    FactError,
    IllegalTransitionError,
    InputRefusedError,
    LimitError,
    StoreUnavailableError,
    did_you_mean,
)
from casehub.events import CaseEnded, CaseId, Event
from casehub.inputs import Cancel, ChildEnded, Start
from casehub.lifecycle import CaseStatus
from casehub.patience import patiently
from casehub.query import EventQuery, concrete
from casehub.registry import Registry
from casehub.residents import Residents
from casehub.spi import CaseStore
from casehub.subcase import parent_of
from casehub.subcase_events import SubCaseCancelled, SubCaseStarted
from casehub.subscribers import Subscriber
from casehub.values import ABSENT, copy

Reach = Callable[[CaseId], Awaitable[Pump]]
log = structlog.get_logger("casehub.hub")

NAME: Final = "casehub:families"
"""The name that the position is kept under."""
TOGETHER: Final = 64
"""Sub-cases that are started, or whose ends are told, at the same time."""


@dataclass(slots=True, eq=False)
class Ear(Subscriber[Event]):
    """What a family hears: the events that concern it, those of one class that come one behind the other together.

    `bound`: the position is not kept beyond it, so that what lies behind is heard again next time.
    """

    bound: int | None = None

    async def hand_on(self, batch: Sequence[Event], store: CaseStore, tenant: str) -> None:
        for _, alike in groupby([event for event in batch if concerns(event)], type):
            events = list(alike)
            for first in range(0, len(events), TOGETHER):
                async with anyio.create_task_group() as hands:
                    for event in events[first : first + TOGETHER]:
                        hands.start_soon(self._hand, event)

    async def _hand(self, event: Event) -> None:
        try:
            await self.handler(event)
        except (Exception, asyncio.CancelledError) as error:
            await self.failed(event, error)

    async def keep(self, store: CaseStore, seq: int, tenant: str) -> None:
        await Subscriber.keep(self, store, seq if self.bound is None else min(seq, self.bound), tenant)


class Family:
    """Passes on what cases and their sub-cases have to tell each other. `reach`: the pump of a case, wherever it is worked."""

    def __init__(self, runtime: Runtime, residents: Residents, registry: Registry, reach: Reach) -> None:
        self._runtime = runtime
        self._reach = reach
        self._residents = residents
        self._registry = registry
        self._ear: Ear | None = None
        self._durable = True

    async def begin(self, spawn: Callable[..., object], *, durable: bool) -> Subscriber[Event]:
        """What follows the log for it, from its kept position; not `durable`: from here on, and it looks after what else
        is asked for, in tasks of `spawn`."""
        self._residents.look_after = partial(spawn, self.look_after)
        self._durable = durable
        if durable:
            await self._skip(self._runtime.bus.position)
        kinds = (SubCaseStarted, SubCaseCancelled, CaseEnded)
        name = NAME if durable else None
        self._ear = Ear(kinds, self.hear, durable=name)
        return self._ear

    async def _skip(self, position: int) -> None:
        """Leave out, once, the log up to a position: it may be long, and no case in it has a sub-case."""
        store, tenant = self._runtime.store, self._residents.tenant
        if not await store.bookmark(NAME, tenant=tenant):
            started = EventQuery(types=concrete((SubCaseStarted,)), tenant=tenant, limit=1)
            if not await store.log.query(started):
                await store.bookmark(NAME, position, tenant=tenant)

    async def hear(self, event: Event) -> None:
        """Do what an event says, however long the store is away.

        What cannot be done here, as a case is parked or its definition lacking, is heard again by the next hub.
        """
        here = self._residents.pumps
        if not (self._durable or self._runtime.standing is None or event.case in here or parent_of(event.case) in here):
            return  # it is of another hub, which follows the log for all
        try:
            await patiently(partial(self._do, event), self._runtime.clock)
        except CaseHubError as error:
            if self._ear is not None and (self._ear.bound is None or self._ear.bound >= event.seq):
                self._ear.bound = event.seq - 1
            log.error("sub_case.left_undone", case=event.case, kind=event.name, seq=event.seq, reason=str(error))

    async def look_after(self, parent: CaseId) -> None:
        """Do what has been left undone for a case whose sub-cases nobody has followed the log for."""
        for event in await patiently(partial(self._undone, parent), self._runtime.clock):
            await self.hear(event)

    async def _undone(self, parent: CaseId) -> Sequence[Event]:
        try:
            pump = await self._reach(parent)
        except CaseHubError:
            return ()
        open = {child.id for child in await pump.read(lambda live: live.state.children.open())}
        about = await self._events(parent, SubCaseStarted, SubCaseCancelled)
        ended = [event for child in open for event in await self._events(child, CaseEnded)]
        return (*(event for event in about if getattr(event, "child", None) in open), *ended)

    async def _events(self, case: CaseId, *kinds: type[Event]) -> Sequence[Event]:
        query = EventQuery(case=case, types=concrete(kinds), tenant=self._residents.tenant)
        return await self._runtime.store.log.query(query)

    async def _do(self, event: Event) -> None:
        if isinstance(event, SubCaseStarted):
            await self._start(event)
        elif isinstance(event, SubCaseCancelled):
            await self._cancel(event)
        elif isinstance(event, CaseEnded):
            await self._tell_of(event.case)

    async def _start(self, event: SubCaseStarted) -> None:
        if not await self._is_wanted(event):
            return
        structure = self._registry.of(event.child_definition, event.child_structure)
        if structure is None:
            raise InputRefusedError(
                f"sub-case {event.child!r} is of definition {event.child_definition!r}, which this hub lacks; "
                f"{did_you_mean(event.child_definition, self._registry.names)}"
            )
        try:
            await self._residents.start(
                event.child,
                structure,
                Start(
                    facts=dict(event.facts),
                    budget=event.budget,
                    trace=event.trace,
                    deadline=event.deadline,
                    by=f"case:{event.case}",
                ),
                fresh=False,
            )
        except CaseExistsError:
            pass
        except (InputRefusedError, LimitError, FactError) as error:  # it will never start, so it has ended
            ended = ChildEnded(child=event.child, status=CaseStatus.FAULTED, reason=f"it could not start: {error}")
            await self._tell(event.case, ended)

    async def _is_wanted(self, event: SubCaseStarted) -> bool:
        """Whether a sub-case is open for its case: what a copied log says of one that has ended, or is another's, is over."""
        try:
            pump = await self._residents.pump(event.case)
        except CaseNotFoundError:
            return False
        except StoreUnavailableError:
            raise
        except CaseHubError:
            return True  # its case cannot be worked here, which is not the sub-case's fault
        return await pump.read(lambda live: live.state.children.is_open(event.child))

    async def _cancel(self, event: SubCaseCancelled) -> None:
        try:
            pump = await self._reach(event.child)
            cancel = Cancel(reason=event.reason, kill=event.kill, by=f"case:{event.case}")
            await pump.submit(cancel, bounded=False)
        except (CaseEndedError, CaseNotFoundError):
            pass
        except IllegalTransitionError:
            pass  # it is about to end: it undoes what it did

    async def _tell_of(self, child: CaseId) -> None:
        parent = parent_of(child)
        if parent is not None and await self._awaits(parent, child):
            pump = await self._reach(child)
            await self._tell(parent, await pump.read(end_of))

    async def _awaits(self, parent: CaseId, child: CaseId) -> bool:
        """Whether a case has yet to hear how a sub-case has ended."""
        try:
            pump = await self._reach(parent)
        except CaseNotFoundError as error:
            log.error("sub_case.without_parent", case=parent, child=child, reason=str(error))
            return False
        return await pump.read(lambda live: not live.state.status.ended and live.state.children.is_open(child))

    async def _tell(self, parent: CaseId, ended: ChildEnded) -> None:
        with suppress(CaseEndedError, CaseNotFoundError):
            pump = await self._reach(parent)
            await pump.submit(ended, bounded=False)


def concerns(event: Event) -> bool:
    """Whether an event is about a sub-case."""
    return not isinstance(event, CaseEnded) or parent_of(event.case) is not None


def end_of(live: LiveCase) -> ChildEnded:
    """What the parent of a case that has ended is told."""
    state = live.state
    facts = {name: copy(fact.value) for name, fact in state.facts.items() if fact.visible and fact.value is not ABSENT}
    charges = {unit: amount for (scope, unit), amount in state.spending.usage.items() if scope == "case"}
    if calls := state.spending.calls.get("case"):
        charges["calls"] = calls
    return ChildEnded(
        child=state.id,
        status=state.status,
        facts=facts,
        reason=state.reason,
        charges=charges or None,
        by=f"case:{state.id}",
    )
