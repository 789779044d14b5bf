"""The brake for operators: pulled and released for a hub, over restarts. `hub.brake`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from casehub.engine.brake import ALL, SIGN, Brake, Pull
from casehub.engine.pump import Pump
from casehub.engine.quarantine import Ward
from casehub.engine.runtime import Runtime
from casehub.errors import CaseHubError, InputRefusedError, UnknownNameError, did_you_mean
from casehub.events import CaseId
from casehub.inputs import Resume, Suspend
from casehub.lifecycle import CaseStatus
from casehub.quarantines import quarantines
from casehub.query import CaseQuery, CaseSummary
from casehub.spi import CaseStore
from casehub.structure import Structure

PAGE: Final = 1_000
"""Cases that are read at once."""


class Machine(Protocol):
    """The hub that is braked."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def tenant(self) -> str: ...

    @property
    def structures(self) -> Mapping[str, Structure]: ...

    async def pump(self, case: CaseId) -> Pump: ...


class Brakes:
    """Holds the cases of a definition, or all: what runs goes on, and nothing new starts."""

    def __init__(self, hub: Machine) -> None:
        self._hub = hub

    @property
    def on(self) -> Mapping[str, Pull]:
        """The brakes that are on, by definition; `""` for the one over all."""
        return dict(self._hub.runtime.brake.on)

    async def pull(self, definition: str | None = None, *, by: str = "user", reason: str = "") -> int:
        """Hold the cases of a definition, or all; how many were at work and are suspended now.

        Cases that wait are suspended as soon as they would move, and new ones begin suspended. It stays on over
        restarts. Raises `UnknownNameError` for a definition that the hub lacks.
        """
        name = self._named(definition)
        runtime = self._hub.runtime
        pull = runtime.brake.on[name] = Pull(by, reason)
        await runtime.store.bookmark(_bookmark(name), max(1, await runtime.store.log.position()), self._hub.tenant)
        count = 0
        async for case in self._cases(name, CaseStatus.STARTING, CaseStatus.RUNNING):
            count += await self._submit(case, Suspend(by=by, reason=pull.said))
        return count

    async def release(self, definition: str | None = None, *, by: str = "user", reason: str = "") -> int:
        """Let the cases go on that a brake holds and no other one does; how many are resumed.

        Raises `InputRefusedError` where it is not on.
        """
        name = self._named(definition)
        runtime = self._hub.runtime
        if runtime.brake.on.pop(name, None) is None:
            what = f"of definition {name!r}" if name else "over all definitions"
            known = ", ".join(each or "all" for each in runtime.brake.on) or "none"
            raise InputRefusedError(f"the brake {what} is not on; on: {known}")
        await runtime.store.bookmark(_bookmark(name), 0, self._hub.tenant)
        count = 0
        async for case in self._cases(name, CaseStatus.SUSPENDED):
            if case.reason.startswith(SIGN) and runtime.brake.over(case.definition) is None:
                count += await self._submit(case, Resume(by=by, reason=reason))
        return count

    def _named(self, definition: str | None) -> str:
        if definition is not None and definition not in self._hub.structures:
            raise UnknownNameError(
                f"this hub has no definition {definition!r}; {did_you_mean(definition, self._hub.structures)}"
            )
        return ALL if definition is None else definition

    async def _cases(self, name: str, *statuses: CaseStatus) -> AsyncIterator[CaseSummary]:
        query = CaseQuery(tenant=self._hub.tenant, definition=name or None, statuses=statuses, limit=PAGE)
        while True:
            page = await self._hub.runtime.store.log.cases(query)
            for case in page:
                yield case
            if len(page) < PAGE:
                return
            query = replace(query, after=page[-1].case)

    async def _submit(self, case: CaseSummary, input: Suspend | Resume) -> bool:
        """Whether the case took it; one that has moved on meanwhile, or is parked, does not."""
        try:
            await (await self._hub.pump(case.case)).submit(input)
        except CaseHubError:
            return False
        return True


async def found_in(store: CaseStore, tenant: str, now: datetime, definitions: Iterable[str]) -> tuple[Brake, Ward]:
    """What a hub that starts finds in the store: the brakes that are on, and the workers to leave alone.

    Raises `StoreUnavailableError`: a hub that cannot tell whether a brake is on does not start.
    """
    brake, ward = Brake(), Ward()
    ward.held.update(await quarantines(store, tenant, now))
    for name in (ALL, *definitions):
        if await store.bookmark(_bookmark(name), tenant=tenant):
            brake.on[name] = Pull()
    return brake, ward


def _bookmark(name: str) -> str:
    """Where the store keeps that a brake is on: the position at which it was pulled, 0 when it is not."""
    return f"~{SIGN}:{name}"
