"""A snapshot: what a case was at one place of its log, so that it need not be folded from the beginning; and its store.

A snapshot is a cache. The log has all that is in it; it may lag behind, be missing, or be refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, Protocol, runtime_checkable

from casehub.envelope import CaseId
from casehub.errors import SettingsError, SnapshotConflictError, SnapshotError
from casehub.lifecycle import CaseStatus

Checkpoint = Literal["waiting", "lifecycle"] | int
"""When a case is kept: when it waits; when it waits, is suspended or has ended; every so many events."""

CHECKPOINTS: Final[Mapping[str | int, frozenset[CaseStatus]]] = {
    "waiting": frozenset({CaseStatus.WAITING}),
    "lifecycle": frozenset({CaseStatus.WAITING, CaseStatus.SUSPENDED, *(each for each in CaseStatus if each.ended)}),
}
"""The statuses in which a case is kept, by the checkpoint policies that have a name."""


def checkpoint_of(given: object) -> Checkpoint:
    """A checkpoint policy, also as a setting has it. Raises `SettingsError` for what is none."""
    text = str(given)
    if text == "waiting":
        return "waiting"
    if text == "lifecycle":
        return "lifecycle"
    if not isinstance(given, bool) and text.isdecimal() and int(text) > 0:
        return int(text)
    raise SettingsError(
        f"checkpoint={given!r}: give 'waiting', 'lifecycle', or a number of events after each of which a case is kept"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One case as it was when `position` events were in its log.

    `version` counts the snapshots of a case from 1, and is the store's to give, as is `created_at`, the time of the first;
    `updated_at`: of this one. `parent`: the case that started it as a sub-case. `payload` is opaque to stores, `content_type`
    says what it is. `metadata`: whatever else somebody wants beside it.
    """

    id: CaseId
    definition: str
    status: CaseStatus
    position: int
    content_type: str
    payload: bytes
    updated_at: datetime
    tenant: str = "default"
    parent: CaseId | None = None
    version: int = 0
    created_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    def after(self, last: Snapshot | None, expected: int | None) -> Snapshot:
        """This one as it follows the last one of its case, which is of version `expected`, None where there is none.

        Raises `SnapshotConflictError` where it is not, `SnapshotError` where it has another parent.
        """
        found = None if last is None else last.version
        if found != expected:
            raise SnapshotConflictError(self.id, expected, found)
        if last is None:
            return replace(self, version=1, created_at=self.updated_at)
        check_parent(self, last.parent)
        return replace(self, version=last.version + 1, created_at=last.created_at)


def check_parent(snapshot: Snapshot, parent: CaseId | None) -> None:
    """Raises `SnapshotError` where the last snapshot of a case had another parent."""
    if snapshot.parent != parent:
        raise SnapshotError(
            f"snapshot of case {snapshot.id!r}: its parent is {parent!r}, and it cannot become {snapshot.parent!r}; a "
            "case is the sub-case of one case, or of none, as long as it is there"
        )


class SnapshotStore(Protocol):
    """Keeps the latest snapshot of each case, for whoever asks; what it loses costs time and nothing else.

    All verbs raise `StoreUnavailableError` while it is away.
    """

    def describe(self) -> str:
        """What it is, in one line for people."""
        ...

    async def open(self) -> None:
        """Raises `StoreUnavailableError`, `SchemaError`, `SettingsError`; nothing is left open then."""
        ...

    async def close(self) -> None: ...

    async def save(self, snapshot: Snapshot, expected: int | None = None) -> Snapshot:
        """Put it in the place of version `expected`, None where there is to be none, and give it as it is written.

        Compare and set: of two that replace the same version one is written. Raises `SnapshotConflictError`, with the
        version that is there, and `SnapshotError` for one with another parent than the last; nothing is changed then.
        """
        ...

    async def latest(self, case: CaseId, tenant: str = "default") -> Snapshot | None:
        """The snapshot of a case, as it was written; None where there is none."""
        ...

    async def children(self, parent: CaseId, tenant: str = "default") -> Sequence[Snapshot]:
        """Those of the sub-cases of a case, not of theirs, by id."""
        ...

    async def delete(self, case: CaseId, tenant: str = "default") -> None:
        """Forget a case; nothing happens where it is unknown. A save that expects a version does not bring it back."""
        ...


Written = Snapshot | SnapshotError
"""What came of a save: what is there now, or why it is not."""


@runtime_checkable
class SavesTogether(Protocol):
    """A store of snapshots that saves several of different cases at little more than the cost of one."""

    async def save_all(self, given: Sequence[tuple[Snapshot, int | None]]) -> Sequence[Written]:
        """As `save` of each with the version that it expects; what came of each, in their order."""
        ...
