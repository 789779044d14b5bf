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
    def held(self) -> Mapping[tuple[str, str], datetime | None]:
        """The workers that this process leaves alone in new cases too, by definition and name, and until when.

        None: until it is resumed, as it was suspended by hand (`hub.brake`).
        """
        now = self._hub.runtime.clock.now()
        held = {key: hold.until for key, hold in self._hub.runtime.ward.held.items()}
        return {key: until for key, until in held.items() if until is None or until > now}

    async def release(self, definition: str, worker: str, *, by: str = "user", reason: str = "") -> None:
        """End a quarantine before its time, in every case that it holds up.

        Raises `InputRefusedError` for a worker that is not quarantined, naming the nearest that is, and for one that
        somebody has suspended.
        """
        hold = self._hub.runtime.ward.held.get((definition, worker))
        if hold is not None and hold.until is None:
            raise InputRefusedError(
                f"worker {worker!r} is suspended by hand, and no quarantine of it ends that; resume it with "
                f"'casehub resume --worker {worker}'"
            )
        if not await released(self._hub, definition, worker, by=by, reason=reason) and hold is None:
            known = [name for of, name in self.held if of == definition]
            raise InputRefusedError(
                f"worker {worker!r} of definition {definition!r} is not quarantined; "
                f"{did_you_mean(worker, known) if known else 'no worker of it is'}"
            )


async def released(hub: Hospital, definition: str, worker: str, *, by: str, reason: str) -> int:
    """Let a worker be called again in every case that was told not to; how many they are."""
    hub.runtime.ward.release(definition, worker)
    found = await _cases(hub, definition, worker)
    count = 0
    for case in found:
        try:
            await (await hub.pump(case)).submit(ReleaseWorker(worker=worker, by=by, reason=reason))
            count += 1
        except InputRefusedError:
            continue  # it has ended, or its own timer was quicker
    return count


async def quarantines(store: CaseStore, tenant: str, now: datetime) -> dict[tuple[str, str], datetime | None]:
    """The quarantines that a log tells of, by definition and worker, and until when; one that held up no case is in none.

    None: until it is resumed, as it was suspended by hand.
    """
    found: dict[tuple[str, str], datetime | None] = {}
    query = EventQuery(types=concrete((QuarantineEvent,)), tenant=tenant, limit=PAGE)
    while True:
        page = await store.log.query(query)
        for event in page:
            if isinstance(event, WorkerQuarantined) and (event.until is None or event.until > now):
                found[event.definition, event.worker] = event.until
            elif isinstance(event, WorkerReleased):
                found.pop((event.definition, event.worker), None)
        if len(page) < PAGE:
            return found
        query = replace(query, after=page[-1].seq)


async def _cases(hub: Hospital, definition: str, worker: str) -> list[CaseId]:
    """The open cases that a quarantine of a worker holds up; in the log, what a case was told last counts."""
    cases: dict[CaseId, None] = {}
    now = hub.runtime.clock.now()
    after = 0
    while True:
        query = EventQuery(
            types=(WorkerQuarantined.name, WorkerReleased.name),
            tenant=hub.tenant,
            definition=definition,
            worker=worker,
            after=after,
            limit=PAGE,
        )
        page = await hub.runtime.store.log.query(query)
        for event in page:
            if isinstance(event, WorkerQuarantined) and (event.until is None or event.until > now):
                cases[event.case] = None
            else:
                cases.pop(event.case, None)
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
