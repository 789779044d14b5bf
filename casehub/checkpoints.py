"""Checkpoints: which cases are to be kept in a snapshot now, and the task that writes them, beside their work.

A case is noted when its turn is published, and written later, as it is then: so nothing waits for a snapshot, and a case
that moves often is in the queue once. When more are noted than can be written the new ones are dropped, which makes a
load slower and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import structlog

from casehub.engine.keeping import CONTENT_TYPE, keep
from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.errors import SnapshotConflictError, SnapshotError, StoreError, StoreUnavailableError
from casehub.events import CaseId
from casehub.lifecycle import CaseStatus
from casehub.snapshot import CHECKPOINTS, Checkpoint, SavesTogether, Snapshot, SnapshotStore
from casehub.spi import Clock, Turn
from casehub.subcase import parent_of

log = structlog.get_logger("casehub.hub")

WAITING_FOR_THEM: Final = 1_000
"""Cases that wait to be written; past that new ones are dropped."""
TOGETHER: Final = 64
"""Cases that are written at the same time."""
REMEMBERED: Final = 10_000
"""Cases of which it is remembered what their last snapshot is; of others that is looked up."""
SHOWN: Final = 1_000
"""Refused snapshots that are remembered with their reason."""
PATIENCE: Final = 2.0
"""Seconds for a case to be committed that is to be written."""
AGAIN: Final = 5.0
"""Seconds until a store of snapshots that is away is opened again."""


@dataclass(slots=True)
class _Due:
    """A case that is to be written: its pump, and where its log ends."""

    pump: Pump
    version: int
    seq: int


class Refusals:
    """Cases whose snapshot was not used, and why, the last thousand of them. `number`: of all refusals."""

    def __init__(self) -> None:
        self.number = 0
        self.reasons: dict[CaseId, str] = {}

    def add(self, case: CaseId, reason: str) -> None:
        self.number += 1
        self.forget(case)
        self.reasons[case] = reason
        if len(self.reasons) > SHOWN:
            del self.reasons[next(iter(self.reasons))]
        log.warning("snapshot.refused", case=case, reason=reason)

    def forget(self, case: CaseId) -> None:
        """Another snapshot has taken its place, or there is none any more."""
        self.reasons.pop(case, None)


class Checkpoints:
    """Writes the snapshots of one hub to a store, if it has one; the store is open while `is_open`.

    `saved`, `dropped`: how many were written, and left out; `pump_of`: the pump of a case that is in memory.
    """

    def __init__(self, store: SnapshotStore | None, checkpoint: Checkpoint, clock: Clock, tenant: str) -> None:
        self.saved = self.dropped = 0
        self.refusals = Refusals()
        self.pump_of: Callable[[CaseId], Pump | None] = lambda case: None
        self.is_open = False
        self._store = store
        self._every = checkpoint if isinstance(checkpoint, int) else 0
        self._statuses = CHECKPOINTS.get(checkpoint, frozenset(CaseStatus))
        self._clock = clock
        self._tenant = tenant
        self._due: dict[CaseId, _Due] = {}
        self._versions: dict[CaseId, int] = {}  # 0 for a case that began here
        self._writing = anyio.Lock()
        self._noted = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._open_again = 0.0

    # ---- life

    async def open(self) -> None:
        """Open the store; one that is away is opened later. Raises `SchemaError` and `SettingsError`."""
        if self._store is None or self.is_open or self._clock.monotonic() < self._open_again:
            return
        try:
            await self._store.open()
        except StoreUnavailableError as error:
            self._open_again = self._clock.monotonic() + AGAIN
            log.warning("snapshots.unavailable", again_in=AGAIN, reason=str(error))
        else:
            self.is_open = True

    async def close(self) -> None:
        if self._store is not None and self.is_open:
            self.is_open = False
            await self._store.close()

    async def flushed(self) -> None:
        """Wait until everything that is noted is written, or dropped."""
        await self._idle.wait()

    async def forget(self, store: SnapshotStore, case: CaseId) -> None:
        """Delete the snapshot of a case, and whatever is on its way."""
        self._due.pop(case, None)
        async with self._writing:  # what is being written now is deleted, too
            self._versions.pop(case, None)
            self.refusals.forget(case)
            await store.delete(case, self._tenant)

    async def run(self) -> None:
        """Write what is noted, several cases at a time."""
        while True:
            await self._noted.wait()
            while self._due:
                await self.open()
                async with self._writing:  # what is taken is not deleted before it is written
                    taken = self._take()
                    await self._write(taken)
                if not taken:
                    await self._until_one_is_committed()
            self._noted.clear()
            self._idle.set()

    # ---- what is to be written

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
                self.remember(case, 0)

    def _is_wanted(self, turn: Turn) -> bool:
        if not self._every:
            return turn.status in self._statuses
        before = turn.envelope.version - 1
        return (before + len(turn.events)) // self._every > before // self._every

    def _put(self, case: CaseId, version: int, seq: int) -> None:
        pump = self.pump_of(case)
        if pump is None:
            return  # it has left, or is another hub's
        if len(self._due) >= WAITING_FOR_THEM:
            self.dropped += 1
            return
        self._due[case] = _Due(pump, version, seq)
        self._noted.set()
        self._idle.clear()

    def _take(self) -> list[Snapshot]:
        """The next cases to be written, as they are now; those that are being committed stay for later."""
        taken: list[Snapshot] = []
        for case, due in list(self._due.items()):
            try:
                found = due.pump.glance(partial(self._looked_at, due))
            except Exception as error:  # a loop control's own code
                self._drop(case, error)
                found = (None,)
            if found is None:
                continue
            del self._due[case]
            if found[0] is not None:
                taken.append(found[0])
            if len(taken) == TOGETHER:
                break
        return taken

    async def _until_one_is_committed(self) -> None:
        """Wait for the case that was noted first; one that takes too long is dropped."""
        case, due = next(iter(self._due.items()), (None, None))
        if case is None or due is None:
            return
        with anyio.move_on_after(PATIENCE) as waiting:
            await due.pump.read(lambda live: True)
        if waiting.cancelled_caught and self._due.get(case) is due:
            del self._due[case]
            self._drop(case, StoreUnavailableError(f"case {case!r} is not committed yet"))

    def _looked_at(self, due: _Due, live: LiveCase) -> tuple[Snapshot | None]:
        return (self._snapshot(live, due),)

    def _snapshot(self, live: LiveCase, due: _Due) -> Snapshot | None:
        """What is to be written of a case as it is now; None where it has gone on, and is noted again when it rests."""
        state = live.state
        if state.version != due.version or state.status not in self._statuses:
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

    async def _write(self, taken: Sequence[Snapshot]) -> None:
        """Raises nothing but cancellations."""
        known = [each for each in taken if each.id in self._versions]
        store = self._store
        if store is not None and self.is_open and len(known) > 1 and isinstance(store, SavesTogether):
            done = await self._write_together(store, known)
            taken = [each for each in taken if each.id not in done]
        for snapshot in taken:
            try:
                await self._save(snapshot)
            except Exception as error:  # a store's own code: none of its errors may end the hub
                self._drop(snapshot.id, error)

    async def _write_together(self, store: SavesTogether, known: Sequence[Snapshot]) -> set[CaseId]:
        """Those that are done with: written, or dropped. Not those that somebody else has written meanwhile."""
        try:
            written = await store.save_all([(each, self._versions[each.id] or None) for each in known])
        except Exception as error:
            for each in known:
                self._drop(each.id, error)
            return {each.id for each in known}
        done: set[CaseId] = set()
        for each, result in zip(known, written, strict=True):
            if isinstance(result, SnapshotConflictError):
                continue
            done.add(each.id)
            if isinstance(result, Snapshot):
                self._written(result)
            else:
                self._drop(each.id, result)
        return done

    def _drop(self, case: CaseId, error: Exception) -> None:
        self.dropped += 1
        log.warning("snapshot.dropped", case=case, reason=str(error), error=type(error).__name__)

    async def _save(self, snapshot: Snapshot) -> None:
        case, store = snapshot.id, self._store
        if store is None or not self.is_open:
            raise StoreUnavailableError("the store of snapshots is away")
        expected = self._versions.get(case)
        if expected is None:
            expected = await self._last(store, case)
        try:
            written = await store.save(snapshot, expected or None)
        except SnapshotConflictError as error:
            last = await store.latest(case, self._tenant)
            if last is not None and last.position > snapshot.position and self._versions.get(case) != 0:
                self.remember(case, last.version)
                raise StoreError(f"{error} (it is at {last.position}, this one at {snapshot.position})") from error
            written = await store.save(snapshot, None if last is None else last.version)
        self._written(written)

    def _written(self, snapshot: Snapshot) -> None:
        self.remember(snapshot.id, snapshot.version)
        self.refusals.forget(snapshot.id)
        self.saved += 1

    async def _last(self, store: SnapshotStore, case: CaseId) -> int:
        """The version of the snapshot that is there, 0 for none; one that cannot be read is taken away."""
        try:
            last = await store.latest(case, self._tenant)
        except SnapshotError as error:
            self.refusals.add(case, str(error))
            await store.delete(case, self._tenant)
            return 0
        return 0 if last is None else last.version

    def remember(self, case: CaseId, version: int) -> None:
        """Note which version of its snapshots a case is at; 0 for none."""
        self._versions.pop(case, None)
        self._versions[case] = version
        if len(self._versions) > REMEMBERED:
            del self._versions[next(iter(self._versions))]
