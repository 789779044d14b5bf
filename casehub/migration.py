"""Migration: open cases go on under another version of their definition, or stay as they are with the reason.

A case adopts the current version by itself when it is loaded and its own is not kept. This says beforehand which can, and
makes those do it that nobody has loaded, or whose own version is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from casehub.errors import CaseHubError
from casehub.events import CaseId
from casehub.folding import fold
from casehub.lifecycle import CaseStatus
from casehub.parking import lacking, unfit, why_parked
from casehub.query import CaseQuery
from casehub.registry import Registry
from casehub.spi import CaseStore
from casehub.structure import Structure

PAGE: Final = 1_000
"""Cases that are read at once."""
OPEN: Final = tuple(status for status in CaseStatus if not status.ended)


@dataclass(frozen=True, slots=True)
class Migration:
    """An open case of another version: the hashes of that and of the one to adopt. `refused`: why it cannot go on; empty where it can."""

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

    @property
    def registry(self) -> Registry: ...

    async def move(self, case: CaseId, structure: Structure) -> None: ...


async def migrate(hub: Registrar, structure: Structure, *, dry_run: bool) -> Sequence[Migration]:
    """The open cases of other versions of a definition; those that can have adopted this one, unless it is a `dry_run`."""
    found = [each async for each in migrations(hub.store, hub.tenant, structure, hub.registry.versions)]
    return found if dry_run else [each if each.refused else await _migrated(hub, each, structure) for each in found]


async def migrations(
    store: CaseStore, tenant: str, structure: Structure, known: Container[str]
) -> AsyncIterator[Migration]:
    """The open cases in a store that are of another version than this structure, latest started first.

    `known`: the versions that cases can go on with as they are.
    """
    query = CaseQuery(tenant=tenant, definition=structure.name, statuses=OPEN, limit=PAGE)
    while True:
        page = await store.log.cases(query)
        for case in page:
            state = fold(case.case, await store.load(case.case, tenant))
            if state.structure != structure.hash and not state.status.ended:
                lacks = lacking(state, structure)
                refused = unfit(lacks) if lacks and state.structure in known else why_parked(state, structure)
                yield Migration(case.case, state.structure, structure.hash, refused)
        if len(page) < PAGE:
            return
        query = replace(query, after=page[-1].case)


async def _migrated(hub: Registrar, migration: Migration, structure: Structure) -> Migration:
    """Let the case adopt the version; what it is doing meanwhile may refuse it after all."""
    try:
        await hub.move(migration.case, structure)
    except CaseHubError as error:
        return replace(migration, refused=str(error))
    return migration
