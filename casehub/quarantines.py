"""Quarantines for operators: which there are, and ending one before its time, in every case that it holds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime
from casehub.errors import CaseHubError, InputRefusedError, did_you_mean
from casehub.events import CaseId, QuarantineEvent, WorkerQuarantined, WorkerReleased
from casehub.inputs import ReleaseWorker
from casehub.query import EventQuery, concrete
from casehub.spi import CaseStore

PAGE: Final = 1_000
"""Events that are read at once while looking for the cases of a quarantine."""


class Hospital(Protocol):
    """The hub whose workers these are."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def tenant(self) -> str: ...

    async def pump(self, case: CaseId) -> Pump: ...


class Quarantines:
    """The quarantined workers of a hub: `hub.quarantine`."""

    def __init__(self, hub: Hospital) -> None:
        self._hub = hub

    @property
    def held(self) -> Mapping[tuple[str, str], datetime]:
        """The workers that this process leaves alone in new cases too, by definition and name, and until when."""
        now = self._hub.runtime.clock.now()
        return {key: until for key, until in self._hub.runtime.ward.held.items() if until > now}

    async def release(self, definition: str, worker: str, *, by: str = "user", reason: str = "") -> None:
        """End a quarantine before its time, in every case that it holds up.

        Raises `InputRefusedError` for a worker that is not quarantined, naming the nearest that is.
        """
        runtime = self._hub.runtime
        found = await _cases(self._hub, definition, worker)
        if (definition, worker) not in self.held and not found:
            known = [name for of, name in self.held if of == definition]
            raise InputRefusedError(
                f"worker {worker!r} of definition {definition!r} is not quarantined; {did_you_mean(worker, known)}"
            )
        runtime.ward.release(definition, worker)
        for case in found:
            try:
                await (await self._hub.pump(case)).submit(ReleaseWorker(worker=worker, by=by, reason=reason))
            except InputRefusedError:
                continue  # it has ended, or its own timer was quicker


async def quarantines(store: CaseStore, tenant: str, now: datetime) -> dict[tuple[str, str], datetime]:
    """The quarantines that a log tells of, by definition and worker, and until when; one that held up no case is in none."""
    found: dict[tuple[str, str], datetime] = {}
    query = EventQuery(types=concrete((QuarantineEvent,)), tenant=tenant, limit=PAGE)
    while True:
        page = await store.log.query(query)
        for event in page:
            if isinstance(event, WorkerQuarantined) and event.until > now:
                found[event.definition, event.worker] = event.until
            elif isinstance(event, WorkerReleased):
                found.pop((event.definition, event.worker), None)
        if len(page) < PAGE:
            return found
        query = replace(query, after=page[-1].seq)


async def _cases(hub: Hospital, definition: str, worker: str) -> list[CaseId]:
    """The open cases that a quarantine of a worker holds up."""
    cases: dict[CaseId, None] = {}
    now = hub.runtime.clock.now()
    after = 0
    while True:
        query = EventQuery(
            types=(WorkerQuarantined.name,),
            tenant=hub.tenant,
            definition=definition,
            worker=worker,
            after=after,
            limit=PAGE,
        )
        page = await hub.runtime.store.log.query(query)
        cases.update(dict.fromkeys(e.case for e in page if isinstance(e, WorkerQuarantined) and e.until > now))
        if len(page) < PAGE:
            break
        after = page[-1].seq
    held: list[CaseId] = []
    for case in cases:
        try:
            state = (await hub.pump(case)).live.state
            if worker in state.quarantined and not state.status.ended:
                held.append(case)
        except CaseHubError:
            continue  # it is parked, and the hub says so
    return held
