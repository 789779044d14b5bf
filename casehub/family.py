"""Families of cases: sub-cases are started, told to end, and their parents hear how they ended.

What a turn says about sub-cases becomes inputs of other cases here: a process manager (Hohpe, Woolf: Enterprise
Integration Patterns, 2003) that follows the log from a kept position. It may hear an event twice, after a crash, and
that is harmless: a case is started once under its id, has ended or has not, and its parent takes its end once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from casehub.engine.live import LiveCase
from casehub.engine.runtime import Runtime
from casehub.errors import (
    CaseEndedError,
    CaseExistsError,
    CaseHubError,
    CaseNotFoundError,
    InputRefusedError,
    StoreUnavailableError,
)
from casehub.events import CaseEnded, CaseId, Event
from casehub.inputs import Cancel, ChildEnded, Start
from casehub.lifecycle import CaseStatus
from casehub.query import EventQuery, concrete
from casehub.residents import Residents
from casehub.structure import Structure
from casehub.subcase import parent_of
from casehub.subcase_events import SubCaseCancelled, SubCaseStarted
from casehub.subscribers import Subscriber
from casehub.values import ABSENT, copy

log = structlog.get_logger("casehub.hub")

NAME: Final = "casehub:families"
"""The name that the position is kept under."""
AGAIN: Final = 1.0
"""Seconds until a store that is away is asked again."""


class Family:
    """Passes on what cases and their sub-cases have to tell each other."""

    def __init__(self, runtime: Runtime, residents: Residents, structures: Mapping[str, Structure]) -> None:
        self._runtime = runtime
        self._residents = residents
        self._structures = structures

    def subscriber(self, *, durable: bool) -> Subscriber[Event]:
        """What follows the log for it; not `durable`: from here on, and without a position of its own."""
        return Subscriber((SubCaseStarted, SubCaseCancelled, CaseEnded), self.hear, durable=NAME if durable else None)

    async def hear(self, event: Event) -> None:
        """Do what an event says, however long the store is away."""
        while True:
            try:
                if isinstance(event, SubCaseStarted):
                    await self._start(event)
                elif isinstance(event, SubCaseCancelled):
                    await self._cancel(event)
                elif isinstance(event, CaseEnded) and parent_of(event.case) is not None:
                    await self._tell_of(event.case)
                return
            except StoreUnavailableError as error:
                log.warning("store.unavailable", again_in=AGAIN, reason=str(error))
                await self._runtime.clock.sleep_until(self._runtime.clock.monotonic() + AGAIN)

    async def look_after(self, parent: CaseId) -> None:
        """Do what has been left undone for a case that could not be worked when it was heard of."""
        pump = await self._residents.pump(parent)
        open = {child.id for child in await pump.read(lambda live: live.state.children.open())}
        about = await self._events(parent, SubCaseStarted, SubCaseCancelled)
        ended = [event for child in open for event in await self._events(child, CaseEnded)]
        for event in (*(event for event in about if getattr(event, "child", None) in open), *ended):
            await self.hear(event)

    async def _events(self, case: CaseId, *kinds: type[Event]) -> Sequence[Event]:
        query = EventQuery(case=case, types=concrete(kinds), tenant=self._residents.tenant)
        return await self._runtime.store.log.query(query)

    async def _start(self, event: SubCaseStarted) -> None:
        structure = self._structures.get(event.child_definition)
        if structure is None:
            log.error(
                "sub_case.unknown_definition", case=event.case, child=event.child, definition=event.child_definition
            )
            return
        try:
            await self._residents.start(
                event.child, structure, Start(facts=dict(event.facts), by=f"case:{event.case}"), fresh=False
            )
        except CaseExistsError:
            pass
        except CaseHubError as error:  # it will never start, so it has ended
            if isinstance(error, StoreUnavailableError):
                raise
            ended = ChildEnded(child=event.child, status=CaseStatus.FAULTED, reason=f"it could not start: {error}")
            await self._tell(event.case, ended)

    async def _cancel(self, event: SubCaseCancelled) -> None:
        try:
            pump = await self._residents.pump(event.child)
            await pump.submit(Cancel(reason=event.reason, by=f"case:{event.case}"))
        except (CaseEndedError, CaseNotFoundError):
            pass
        except InputRefusedError as error:
            log.error("sub_case.not_cancelled", case=event.case, child=event.child, reason=str(error))

    async def _tell_of(self, child: CaseId) -> None:
        parent = parent_of(child)
        if parent is not None:
            pump = await self._residents.pump(child)
            await self._tell(parent, await pump.read(end_of))

    async def _tell(self, parent: CaseId, ended: ChildEnded) -> None:
        try:
            pump = await self._residents.pump(parent)
            await pump.submit(ended)
        except CaseEndedError:
            pass
        except (CaseNotFoundError, InputRefusedError) as error:
            log.error("sub_case.parent_not_told", case=parent, child=ended.child, reason=str(error))


def end_of(live: LiveCase) -> ChildEnded:
    """What the parent of a case that has ended is told."""
    state = live.state
    facts = {name: copy(fact.value) for name, fact in state.facts.items() if fact.visible and fact.value is not ABSENT}
    charges = {unit: amount for (scope, unit), amount in state.spending.usage.items() if scope == "case"}
    return ChildEnded(
        child=state.id,
        status=state.status,
        facts=facts,
        reason=state.reason,
        charges=charges or None,
        by=f"case:{state.id}",
    )
