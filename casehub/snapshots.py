"""Snapshots of a hub: a case is loaded from its last one and what the log has behind it.

They are a cache, and the log is the truth. `Checkpoints` writes them. What cannot be read, or tells of what the log does
not have, is refused, and the case is folded from its log as if there were none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import structlog

from casehub.checkpoints import Checkpoints
from casehub.engine.keeping import CONTENT_TYPE, bring_back, control_of
from casehub.errors import SettingsError, SnapshotError, StoreError, StoreUnavailableError
from casehub.events import CaseId, Event
from casehub.query import MAX_EVENTS, EventLog, EventQuery
from casehub.snapshot import Checkpoint, Snapshot, SnapshotStore
from casehub.spi import Clock, LoopControl
from casehub.state import CaseState

log = structlog.get_logger("casehub.hub")

PATIENCE: Final = 2.0
"""Seconds for a snapshot to be read; past them the log is."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A case as its snapshot has it, and the events behind that; `seq`: where its log ends."""

    state: CaseState
    events: Sequence[Event]
    seq: int


class Snapshots:
    """The snapshots of one hub; without a store, none. `used`: how many cases were loaded from theirs."""

    def __init__(
        self,
        store: SnapshotStore | None,
        checkpoint: Checkpoint,
        events: EventLog,
        clock: Clock,
        tenant: str,
    ) -> None:
        self.used = 0
        self.checkpoints = Checkpoints(store, checkpoint, clock, tenant)
        self._store = store
        self._events = events
        self._tenant = tenant

    @property
    def saved(self) -> int:
        """How many were written."""
        return self.checkpoints.saved

    @property
    def dropped(self) -> int:
        """How many were left out."""
        return self.checkpoints.dropped

    @property
    def refused(self) -> Mapping[CaseId, str]:
        """Cases whose snapshot was not used, and why, the last thousand of them; until another one takes its place."""
        return self.checkpoints.refusals.reasons

    @property
    def counts(self) -> Mapping[str, int]:
        """How many were saved and dropped, used and refused; nothing where the hub keeps none."""
        if self._store is None:
            return {}
        refused = self.checkpoints.refusals.number
        return {"saved": self.saved, "dropped": self.dropped, "used": self.used, "refused": refused}

    async def flushed(self) -> None:
        """Wait until everything that is to be kept by now is written, or dropped."""
        await self.checkpoints.flushed()

    # ---- asking

    @property
    def store(self) -> SnapshotStore:
        """Where they are. Raises `SettingsError` where the hub keeps none."""
        if self._store is None:
            raise SettingsError("this hub keeps no snapshots; give it snapshots= a store of them, or its URL")
        return self._store

    async def latest(self, case: str) -> Snapshot | None:
        """The snapshot of a case, in memory or not; None where there is none."""
        return await self.store.latest(CaseId(case), self._tenant)

    async def children(self, parent: str) -> Sequence[Snapshot]:
        """The snapshots of the sub-cases of a case, in memory or not, by their ids."""
        return await self.store.children(CaseId(parent), self._tenant)

    async def retire(self, case: CaseId) -> None:
        """As `delete`, of a case that goes with its log; nothing where the hub keeps no snapshots.

        Raises `StoreUnavailableError` while they are away.
        """
        if self._store is None:
            return
        if not self.checkpoints.is_open:
            raise StoreUnavailableError(f"{self._store.describe()}: away, so case {case!r} is not retired yet")
        await self.delete(case)

    async def delete(self, case: str) -> None:
        """Forget the snapshot of a case, and what is noted of it. Its log stays; no error where there is none."""
        await self.checkpoints.forget(self.store, CaseId(case))

    # ---- loading

    async def find(self, case: CaseId, loop_of: Callable[[str], LoopControl | None]) -> Behind | None:
        """A case by its snapshot; None where there is none that is good. `loop_of`: by the name of a definition."""
        if self._store is None or not self.checkpoints.is_open:
            return None
        found: Snapshot | None = None
        try:
            with anyio.move_on_after(PATIENCE):
                found = await self._store.latest(case, self._tenant)
            loop = None if found is None else loop_of(found.definition)
            if found is None or loop is None or control_of(loop) is None:
                return None
            self.checkpoints.remember(case, found.version)
            behind = await self._behind(case, found, loop)
        except StoreUnavailableError as error:
            log.warning("snapshots.unavailable", case=case, reason=str(error))
            return None
        except StoreError as error:
            self.checkpoints.refusals.add(case, str(error))
            return None
        self.used += 1
        return behind

    async def _behind(self, case: CaseId, found: Snapshot, loop: LoopControl) -> Behind:
        if found.content_type != CONTENT_TYPE:
            raise SnapshotError(f"its content type is {found.content_type!r}, and CaseHub writes {CONTENT_TYPE!r}")
        kept = bring_back(found.payload, case, self._tenant, loop)
        state = kept.state
        events: list[Event] = []
        after, more = kept.seq - 1, True
        while more:
            page = await self._events.query(EventQuery(case=case, tenant=self._tenant, after=after, limit=MAX_EVENTS))
            events += page
            more = len(page) == MAX_EVENTS
            after = events[-1].seq if events else after
        last = events[0] if events else None
        stands = (state.version, state.turn, state.changed_at, state.definition)
        if last is None or (last.version, last.turn, last.at, last.definition) != stands:
            raise SnapshotError(
                f"the log does not have the event {case}@{state.version} that it ends with: it is ahead of the log, or of "
                "another one"
            )
        return Behind(state, events[1:], events[-1].seq)
