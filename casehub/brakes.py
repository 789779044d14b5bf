"""The brake for operators: pulled and released for a hub, over restarts. `hub.brake`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from casehub.engine.brake import ALL, SIGN, Brake, Pull
from casehub.engine.pump import Pump
from casehub.engine.quarantine import Ward
from casehub.engine.runtime import Runtime
from casehub.errors import CaseHubError, InputRefusedError, SettingsError, UnknownNameError, did_you_mean
from casehub.events import CaseId
from casehub.inputs import Hold, Resume, Suspend
from casehub.lifecycle import CaseStatus
from casehub.quarantines import quarantines, released
from casehub.query import CaseQuery, CaseSummary
from casehub.registry import Registry
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
    def registry(self) -> Registry: ...

    async def pump(self, case: CaseId) -> Pump: ...


class Brakes:
    """Holds the cases of a definition, or all, or a worker in all of them: what runs goes on, and nothing new starts."""

    def __init__(self, hub: Machine) -> None:
        self._hub = hub

    @property
    def on(self) -> Mapping[str, Pull]:
        """The brakes that are on, by definition; `""` for the one over all."""
        return dict(self._hub.runtime.brake.on)

    @property
    def workers(self) -> Mapping[str, Pull]:
        """The workers that are suspended, by name."""
        return dict(self._hub.runtime.brake.workers)

    async def pull(
        self, definition: str | None = None, *, worker: str | None = None, by: str = "user", reason: str = ""
    ) -> int:
        """Hold the cases of a definition, or all; how many were at work and are suspended now.

        Cases that wait are suspended as soon as they would move, and new ones begin suspended. With `worker` the cases
        go on, of all definitions, and no attempt of that worker starts in any of them: each is told when it takes
        something, so the answer is 0. Either stays on over restarts. Raises `UnknownNameError` for a definition or a
        worker that the hub lacks.
        """
        if worker is not None:
            await self._suspend(_alone(worker, definition), Pull(by, reason))
            return 0
        name = self._named(definition)
        runtime = self._hub.runtime
        pull = Pull(by, reason)
        async with _moving(runtime.brake):
            await runtime.store.bookmark(_bookmark(name), max(1, await runtime.store.log.position()), self._hub.tenant)
            runtime.brake.on[name] = pull
        count = 0
        async for case in self._cases(name, CaseStatus.STARTING, CaseStatus.RUNNING, CaseStatus.COMPENSATING):
            count += await self._submit(case, Suspend(by=by, reason=pull.said))
        return count

    async def release(
        self, definition: str | None = None, *, worker: str | None = None, by: str = "user", reason: str = ""
    ) -> int:
        """Let the cases go on that a brake holds and no other one does; how many are resumed.

        With `worker` it may be called again; how many cases had been told not to. Raises `InputRefusedError` where the
        brake is not on.
        """
        if worker is not None:
            return await self._resume(_alone(worker, definition), by, reason)
        name = self._named(definition)
        runtime = self._hub.runtime
        if name not in runtime.brake.on:
            what = f"of definition {name!r}" if name else "over all definitions"
            known = ", ".join(each or "all" for each in runtime.brake.on) or "none"
            raise InputRefusedError(f"the brake {what} is not on; on: {known}")
        async with _moving(runtime.brake):
            await runtime.store.bookmark(_bookmark(name), 0, self._hub.tenant)
            runtime.brake.on.pop(name, None)
        count = 0
        async for case in self._cases(name, CaseStatus.SUSPENDED):
            if case.reason.startswith(SIGN) and runtime.brake.over(case.definition) is None:
                count += await self._submit(case, Resume(by=by, reason=reason))
        return count

    async def _suspend(self, worker: str, pull: Pull) -> None:
        known = {name for structure in self._hub.registry.versions.values() for name in workers_of(structure)}
        if worker not in known:
            raise UnknownNameError(f"no definition of this hub has a worker {worker!r}; {did_you_mean(worker, known)}")
        runtime = self._hub.runtime
        async with _moving(runtime.brake):
            await runtime.store.bookmark(_sign(worker), max(1, await runtime.store.log.position()), self._hub.tenant)
            hold_worker(runtime.brake, runtime.ward, self._hub.registry, worker, pull)

    async def _resume(self, worker: str, by: str, reason: str) -> int:
        runtime = self._hub.runtime
        if worker not in runtime.brake.workers:
            known = ", ".join(runtime.brake.workers) or "none"
            raise InputRefusedError(f"worker {worker!r} is not suspended; suspended: {known}")
        async with _moving(runtime.brake):
            await runtime.store.bookmark(_sign(worker), 0, self._hub.tenant)
            runtime.brake.workers.pop(worker, None)
        having = names_with(worker, self._hub.registry)
        return sum([await released(self._hub, name, worker, by=by, reason=reason) for name in having])

    def _named(self, definition: str | None) -> str:
        if definition is not None and definition not in self._hub.registry:
            raise UnknownNameError(
                f"this hub has no definition {definition!r}; {did_you_mean(definition, self._hub.registry.names)}"
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


async def found_in(store: CaseStore, tenant: str, now: datetime, registry: Registry) -> tuple[Brake, Ward]:
    """What a hub that starts finds in the store: the brakes that are on, and the workers to leave alone.

    Raises `StoreUnavailableError`: a hub that cannot tell whether a brake is on does not start.
    """
    brake, ward = Brake(), Ward()
    found = await quarantines(store, tenant, now)
    ward.held.update({key: Hold(until) for key, until in found.items() if until is not None})
    for name in (ALL, *registry.names):
        if await store.bookmark(_bookmark(name), tenant=tenant):
            brake.on[name] = Pull()
    for worker in dict.fromkeys(name for structure in registry.versions.values() for name in workers_of(structure)):
        if await store.bookmark(_sign(worker), tenant=tenant):
            hold_worker(brake, ward, registry, worker, Pull())
    return brake, ward


@asynccontextmanager
async def _moving(brake: Brake) -> AsyncGenerator[None, None]:
    """What `look_again` has read meanwhile may be of before or after: it is not acted on."""
    brake.moves += 1
    try:
        yield
    finally:
        brake.moves += 1


async def look_again(brake: Brake, ward: Ward, store: CaseStore, tenant: str, registry: Registry) -> None:
    """Act on the brakes that other hubs of the store have pulled and released. Raises `StoreUnavailableError`."""
    workers = dict.fromkeys(name for structure in registry.versions.values() for name in workers_of(structure))
    moves = brake.moves
    on = [name for name in (ALL, *registry.names) if await store.bookmark(_bookmark(name), tenant=tenant)]
    held = [worker for worker in workers if await store.bookmark(_sign(worker), tenant=tenant)]
    if brake.moves != moves or moves % 2:
        return
    brake.on = {name: brake.on.get(name) or Pull() for name in on}
    for worker in [worker for worker in held if worker not in brake.workers]:
        hold_worker(brake, ward, registry, worker, Pull())
    for worker in [worker for worker in brake.workers if worker not in held]:
        del brake.workers[worker]
        for name in names_with(worker, registry):
            ward.release(name, worker)


async def pulled(store: CaseStore, tenant: str, definitions: Iterable[str]) -> Sequence[str]:
    """Of these definitions those with the brake on, in words, and `all cases` where the one over all is."""
    names = [name for name in (ALL, *definitions) if await store.bookmark(_bookmark(name), tenant=tenant)]
    return [f"cases of {name}" if name else "all cases" for name in names]


def workers_of(structure: Structure) -> set[str]:
    """The names of a definition's workers."""
    return {worker.name for binding in structure.bindings.values() for worker in binding.workers}


def hold_worker(brake: Brake, ward: Ward, registry: Registry, worker: str, pull: Pull) -> None:
    """Leave a worker alone in the cases of every definition that has it."""
    brake.workers[worker] = pull
    for name in names_with(worker, registry):
        ward.held[name, worker] = Hold(by=pull.by, reason=pull.reason)


def names_with(worker: str, registry: Registry) -> Sequence[str]:
    """The definitions of which a version has a worker."""
    found = (structure.name for structure in registry.versions.values() if worker in workers_of(structure))
    return list(dict.fromkeys(found))


def _alone(worker: str, definition: str | None) -> str:
    if definition is not None:
        raise SettingsError("a worker is suspended over all definitions; give worker= or the definition, not both")
    return worker


def _sign(worker: str) -> str:
    """As `_bookmark`, for a worker that is suspended."""
    return f"~{SIGN}:worker/{worker}"


def _bookmark(name: str) -> str:
    """Where the store keeps that a brake is on: the position at which it was pulled, 0 when it is not."""
    return f"~{SIGN}:{name}"
