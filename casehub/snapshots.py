"""Snapshots of a hub: written after the commit, beside the work; a case is loaded from its last one and the log behind it.

They are a cache, and the log is the truth. So nothing waits for them: a case is noted when its turn is published, and
written later, as it is then. When more are noted than can be written the new ones are dropped, which makes a load slower
and nothing else. What cannot be read, or tells of what the log does not have, is refused, and the case is folded from
its log as if there were none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import structlog

from casehub.engine.keeping import CONTENT_TYPE, bring_back, control_of, keep
from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.errors import (
    SettingsError,
    SnapshotConflictError,
    SnapshotError,
    StoreError,
    StoreUnavailableError,
)
from casehub.events import CaseId, Event
from casehub.lifecycle import CaseStatus
from casehub.query import MAX_EVENTS, EventLog, EventQuery
from casehub.snapshot import CHECKPOINTS, Checkpoint, Snapshot, SnapshotStore
from casehub.spi import Clock, LoopControl, Turn
from casehub.state import CaseState
from casehub.subcase import parent_of

log = structlog.get_logger("casehub.hub")

WAITING_FOR_THEM: Final = 1_000
"""Cases that wait to be written; past that new ones are dropped."""
REMEMBERED: Final = 10_000
"""Cases of which it is remembered what their last snapshot is; of others that is looked up."""
SHOWN: Final = 1_000
"""Refused snapshots that are remembered with their reason."""
PATIENCE: Final = 2.0
"""Seconds for a snapshot to be read, or for a case to be committed that is to be written."""
AGAIN: Final = 5.0
"""Seconds until a store of snapshots that is away is opened again."""


@dataclass(slots=True)
class _Due:
    """A case that is to be written: its pump, and where its log ends."""

    pump: Pump
    version: int
    seq: int


@dataclass(frozen=True, slots=True)
class Behind:
    """A case as its snapshot has it, and the events behind that; `seq`: where its log ends."""

    state: CaseState
    events: Sequence[Event]
    seq: int


class Snapshots:
    """The snapshots of one hub; without a store, none.

    `saved`, `used`, `dropped`: how many were written, loaded from, and left out; `refused`: cases whose snapshot was not
    used, and why, the last thousand of them; `refusals`: how many in all.
    """

    def __init__(
        self,
        store: SnapshotStore | None,
        checkpoint: Checkpoint,
        events: EventLog,
        clock: Clock,
        tenant: str,
    ) -> None:
        self.saved = self.used = self.dropped = self.refusals = 0
        self.refused: dict[CaseId, str] = {}
        self.pump_of: Callable[[CaseId], Pump | None] = lambda case: None
        self._store = store
        self._every = checkpoint if isinstance(checkpoint, int) else 0
        self._statuses = CHECKPOINTS.get(checkpoint, frozenset(CaseStatus))
        self._events = events
        self._clock = clock
        self._tenant = tenant
        self._due: dict[CaseId, _Due] = {}
        self._versions: dict[CaseId, int] = {}  # 0 for a case that began here
        self._writing = anyio.Lock()
        self._noted = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._open = False
        self._open_again = 0.0

    @property
    def counts(self) -> Mapping[str, int]:
        """How many were saved and dropped, used and refused; nothing where the hub keeps none."""
        if self._store is None:
            return {}
        return {"saved": self.saved, "dropped": self.dropped, "used": self.used, "refused": self.refusals}

    # ---- life

    async def open(self) -> None:
        """Open the store; one that is away is opened later. Raises `SchemaError` and `SettingsError`."""
        if self._store is None or self._open or self._clock.monotonic() < self._open_again:
            return
        try:
            await self._store.open()
        except StoreUnavailableError as error:
            self._open_again = self._clock.monotonic() + AGAIN
            log.warning("snapshots.unavailable", again_in=AGAIN, reason=str(error))
        else:
            self._open = True

    async def close(self) -> None:
        if self._store is not None and self._open:
            self._open = False
            await self._store.close()

    async def flushed(self) -> None:
        """Wait until everything that is noted is written, or dropped."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write what is noted, one case after the other."""
        while True:
            await self._noted.wait()
            while self._due:
                await self._write(next(iter(self._due)))
            self._noted.clear()
            self._idle.set()

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
        if not self._open:
            raise StoreUnavailableError(f"{self._store.describe()}: away, so case {case!r} is not retired yet")
        await self.delete(case)

    async def delete(self, case: str) -> None:
        """Forget the snapshot of a case, and what is noted of it. Its log stays; no error where there is none."""
        store, id = self.store, CaseId(case)
        self._due.pop(id, None)
        async with self._writing:  # what is being written now is deleted, too
            self._versions.pop(id, None)
            self.refused.pop(id, None)
            await store.delete(id, self._tenant)

    # ---- loading

    async def find(self, case: CaseId, loop_of: Callable[[str], LoopControl | None]) -> Behind | None:
        """A case by its snapshot; None where there is none that is good. `loop_of`: by the name of a definition."""
        if self._store is None or not self._open:
            return None
        found: Snapshot | None = None
        try:
            with anyio.move_on_after(PATIENCE):
                found = await self._store.latest(case, self._tenant)
            loop = None if found is None else loop_of(found.definition)
            if found is None or loop is None or control_of(loop) is None:
                return None
            self._remember(case, found.version)
            behind = await self._behind(case, found, loop)
        except StoreUnavailableError as error:
            log.warning("snapshots.unavailable", case=case, reason=str(error))
            return None
        except StoreError as error:
            self._refuse(case, str(error))
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

    def _refuse(self, case: CaseId, reason: str) -> None:
        self.refusals += 1
        self.refused.pop(case, None)
        self.refused[case] = reason
        if len(self.refused) > SHOWN:
            del self.refused[next(iter(self.refused))]
        log.warning("snapshot.refused", case=case, reason=reason)

    # ---- writing

    def note(self, turns: Sequence[Turn]) -> None:
        """Take in turns that are committed: what is to be kept of them is written in time."""
        if self._store is None:
            return
        for turn in turns:
            envelope = turn.envelope
            if not turn.events or envelope.tenant != self._tenant:
                continue
            case, behind = envelope.case, len(turn.events) - 1
            due = self._due.get(case)
            if due is not None:
                due.version, due.seq = envelope.version + behind, envelope.seq + behind
            elif self._is_wanted(turn):
                self._put(case, envelope.version + behind, envelope.seq + behind)
            if envelope.version == 1:
                self._remember(case, 0)

    def _is_wanted(self, turn: Turn) -> bool:
        if not self._every:
            return turn.status in self._statuses
        before = turn.envelope.version - 1
        return (before + len(turn.events)) // self._every > before // self._every

    def _put(self, case: CaseId, version: int, seq: int) -> None:
        pump = self.pump_of(case)
        if pump is None or len(self._due) >= WAITING_FOR_THEM:
            self.dropped += 1
            return
        self._due[case] = _Due(pump, version, seq)
        self._noted.set()
        self._idle.clear()

    async def _write(self, case: CaseId) -> None:
        """Write a case as it is now. Raises nothing but cancellations."""
        due = self._due[case]
        try:
            await self.open()
            snapshot: Snapshot | None = None
            with anyio.move_on_after(PATIENCE) as waiting:
                (snapshot,) = await due.pump.read(lambda live: (self._snapshot(live),))
            if waiting.cancelled_caught:
                raise StoreUnavailableError(f"case {case!r} is not committed yet")
            if snapshot is not None:
                async with self._writing:
                    await self._save(snapshot)
        except Exception as error:  # a store's, or a loop control's, own code: neither may end the hub
            self.dropped += 1
            log.warning("snapshot.dropped", case=case, reason=str(error), error=type(error).__name__)
        finally:
            if self._due.get(case) is due:  # and not what has been noted since
                del self._due[case]

    def _snapshot(self, live: LiveCase) -> Snapshot | None:
        """What is to be written of a case as it is now; None where it has gone on, and is noted again when it rests."""
        state, due = live.state, self._due.pop(live.state.id, None)
        if due is None or state.version != due.version or state.status not in self._statuses:
            return None
        payload = keep(state, live.loop, due.seq)
        if payload is None:
            return None
        return Snapshot(
            id=state.id,
            tenant=state.tenant,
            parent=parent_of(state.id),
            definition=state.definition,
            status=state.status,
            position=state.version,
            content_type=CONTENT_TYPE,
            payload=payload,
            updated_at=self._clock.now(),
        )

    async def _save(self, snapshot: Snapshot) -> None:
        case, store = snapshot.id, self.store
        if not self._open:
            raise StoreUnavailableError("it is away")
        expected = self._versions.get(case)
        if expected is None:
            expected = await self._last(case)
        try:
            written = await store.save(snapshot, expected or None)
        except SnapshotConflictError as error:
            last = await store.latest(case, self._tenant)
            if last is not None and last.position > snapshot.position and self._versions.get(case) != 0:
                self._remember(case, last.version)
                raise StoreError(f"{error} (it is at {last.position}, this one at {snapshot.position})") from error
            written = await store.save(snapshot, None if last is None else last.version)
        self._remember(case, written.version)
        self.refused.pop(case, None)
        self.saved += 1

    async def _last(self, case: CaseId) -> int:
        """The version of the snapshot that is there, 0 for none; one that cannot be read is taken away."""
        try:
            last = await self.store.latest(case, self._tenant)
        except SnapshotError as error:
            self._refuse(case, str(error))
            await self.store.delete(case, self._tenant)
            return 0
        return 0 if last is None else last.version

    def _remember(self, case: CaseId, version: int) -> None:
        self._versions.pop(case, None)
        self._versions[case] = version
        if len(self._versions) > REMEMBERED:
            del self._versions[next(iter(self._versions))]
