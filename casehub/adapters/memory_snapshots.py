"""Snapshots in this process's memory: for tests, and to spare a hub that opens its store again the folding."""

from __future__ import annotations

from collections.abc import Sequence

from casehub.events import CaseId
from casehub.snapshot import Snapshot


class MemorySnapshots:
    """Implements `SnapshotStore`. What was saved is there as long as the object lives, whoever opens it."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: dict[tuple[str, CaseId], Snapshot] = {}

    def describe(self) -> str:
        return "snapshots in memory: they end with the process"

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def save(self, snapshot: Snapshot, expected: int | None = None) -> Snapshot:
        where = (snapshot.tenant, snapshot.id)
        written = self._latest[where] = snapshot.after(self._latest.get(where), expected)
        return written

    async def latest(self, case: CaseId, tenant: str = "default") -> Snapshot | None:
        return self._latest.get((tenant, case))

    async def children(self, parent: CaseId, tenant: str = "default") -> Sequence[Snapshot]:
        found = [each for each in self._latest.values() if each.parent == parent and each.tenant == tenant]
        return sorted(found, key=lambda each: each.id)

    async def delete(self, case: CaseId, tenant: str = "default") -> None:
        self._latest.pop((tenant, case), None)
