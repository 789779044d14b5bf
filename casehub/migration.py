"""Migration: open cases go on under the definition that there is now, or stay as they are with the reason.

A case adopts the definition of the hub that loads it; this says beforehand which can, and makes those do it that nobody
has loaded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from casehub.engine.pump import Pump
from casehub.errors import CaseHubError
from casehub.events import CaseId
from casehub.folding import fold
from casehub.lifecycle import CaseStatus
from casehub.parking import why_parked
from casehub.query import CaseQuery
from casehub.spi import CaseStore
from casehub.structure import Structure

PAGE: Final = 1_000
"""Cases that are read at once."""
OPEN: Final = tuple(status for status in CaseStatus if not status.ended)


@dataclass(frozen=True, slots=True)
class Migration:
    """An open case of another version: the hashes of both structures. `refused`: why it cannot go on; empty where it can."""

    case: CaseId
    before: str
    after: str
    refused: str = ""


class Registrar(Protocol):
    """The hub whose cases these are."""

    @property
    def store(self) -> CaseStore: ...

    @property
    def tenant(self) -> str: ...

    async def pump(self, case: CaseId) -> Pump: ...


async def migrate(hub: Registrar, structure: Structure, *, dry_run: bool) -> Sequence[Migration]:
    """The open cases of another version of a definition; those that can have adopted this one, unless it is a `dry_run`."""
    found = [each async for each in migrations(hub.store, hub.tenant, structure)]
    return found if dry_run else [each if each.refused else await _migrated(hub, each) for each in found]


async def migrations(store: CaseStore, tenant: str, structure: Structure) -> AsyncIterator[Migration]:
    """The open cases in a store that are of another version than this structure, latest started first."""
    query = CaseQuery(tenant=tenant, definition=structure.name, statuses=OPEN, limit=PAGE)
    while True:
        page = await store.log.cases(query)
        for case in page:
            state = fold(case.case, await store.load(case.case, tenant))
            if state.structure != structure.hash and not state.status.ended:
                yield Migration(case.case, state.structure, structure.hash, why_parked(state, structure))
        if len(page) < PAGE:
            return
        query = replace(query, after=page[-1].case)


async def _migrated(hub: Registrar, migration: Migration) -> Migration:
    """Load the case, which makes it adopt the definition; what it is doing meanwhile may refuse it after all."""
    try:
        pump = await hub.pump(migration.case)
        await pump.committed()
    except CaseHubError as error:
        return replace(migration, refused=str(error))
    return migration
