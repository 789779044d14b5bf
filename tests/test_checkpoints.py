"""Checkpoints: which cases are written, as what, and what becomes of one that somebody else has written too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from casehub import CaseId, CaseStatus, ChoreographyLoopControl, Envelope, GoalReached, Turn
from casehub.adapters.clock import VirtualClock
from casehub.adapters.memory_snapshots import MemorySnapshots
from casehub.checkpoints import Checkpoints
from casehub.engine.keeping import bring_back
from casehub.errors import SnapshotError
from casehub.snapshot import Snapshot
from casehub.state import CaseState
from casehub.testing.snapshots import snapshot_of

AT = datetime(2030, 1, 1, tzinfo=UTC)
C = CaseId("c")


class Pump:
    """A case in memory, as far as checkpoints look at it."""

    def __init__(self, state: CaseState) -> None:
        self.live: Any = SimpleNamespace(state=state, loop=ChoreographyLoopControl())
        self.uncommitted = False
        self.committed = asyncio.Event()

    def glance(self, look: Callable[[Any], Any]) -> Any:
        return None if self.uncommitted else look(self.live)

    async def read(self, look: Callable[[Any], Any]) -> Any:
        await self.committed.wait()
        return look(self.live)


def turn(version: int, *, status: CaseStatus = CaseStatus.WAITING, tenant: str = "default", events: int = 1) -> Turn:
    """A turn that ends with this version, at a position a hundred times as high."""
    first = version - events + 1
    envelope = Envelope(case=C, tenant=tenant, version=first, seq=100 * version - events + 1, at=AT)
    return Turn(envelope, [GoalReached(goal="g") for _ in range(events)], status)


@asynccontextmanager
async def writing(store: MemorySnapshots, pump: Pump, **how: Any) -> AsyncIterator[Checkpoints]:
    checkpoints = Checkpoints(store, how.pop("checkpoint", "lifecycle"), VirtualClock(AT), "default")
    checkpoints.pump_of = lambda case: pump  # type: ignore[assignment,return-value]  # as far as it is looked at
    await checkpoints.open()
    task = asyncio.create_task(checkpoints.run())
    try:
        yield checkpoints
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def waiting(version: int, status: CaseStatus = CaseStatus.WAITING) -> CaseState:
    return CaseState(C, definition="claim", status=status, version=version)


async def latest(store: MemorySnapshots) -> Snapshot:
    found = await store.latest(C)
    assert found is not None
    return found


async def test_a_case_is_written_as_it_is_with_the_position_of_its_last_event() -> None:
    store, pump = MemorySnapshots(), Pump(waiting(5))
    async with writing(store, pump) as checkpoints:
        checkpoints.note([turn(3, events=3), turn(5, events=2)])
        await checkpoints.flushed()
        found = await latest(store)
        assert (found.position, found.version, found.updated_at) == (5, 1, AT)
        assert bring_back(found.payload, C, "default", ChoreographyLoopControl()).seq == 500
        assert (checkpoints.saved, checkpoints.dropped) == (1, 0)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (waiting(7), "it has gone on, by a turn whose answer was lost"),
        (waiting(3), "what is in memory is not what was told of"),
        (waiting(5, CaseStatus.RUNNING), "it does not wait any more"),
    ],
)
async def test_a_case_that_is_not_as_it_was_noted_is_left_for_the_next_time(state: CaseState, why: str) -> None:
    store = MemorySnapshots()
    async with writing(store, Pump(state)) as checkpoints:
        checkpoints.note([turn(5)])
        await checkpoints.flushed()
        assert await store.latest(C) is None, why
        assert checkpoints.dropped == 0


@pytest.mark.parametrize(
    "noted",
    [
        turn(5, tenant="other"),
        turn(5, status=CaseStatus.RUNNING),
        Turn(Envelope(case=C, version=6, seq=500), [], CaseStatus.WAITING),
    ],
)
async def test_what_is_another_tenants_or_changed_nothing_or_does_not_rest_is_not_noted(noted: Turn) -> None:
    store = MemorySnapshots()
    async with writing(store, Pump(waiting(5))) as checkpoints:
        checkpoints.note([noted])
        await checkpoints.flushed()
        assert await store.latest(C) is None


async def test_a_case_that_is_being_committed_is_written_once_it_is() -> None:
    store, pump = MemorySnapshots(), Pump(waiting(5))
    pump.uncommitted = True
    async with writing(store, pump) as checkpoints:
        checkpoints.note([turn(5)])
        for _ in range(10):
            await asyncio.sleep(0)
        assert await store.latest(C) is None
        pump.uncommitted = False
        pump.committed.set()
        await checkpoints.flushed()
        assert (await latest(store)).position == 5


async def test_one_that_is_never_committed_is_dropped_and_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.checkpoints.PATIENCE", 0.0)
    store, pump = MemorySnapshots(), Pump(waiting(5))
    pump.uncommitted = True
    async with writing(store, pump) as checkpoints:
        checkpoints.note([turn(5)])
        await checkpoints.flushed()
        assert checkpoints.dropped == 1


@pytest.mark.parametrize(("theirs", "stays"), [(4, False), (5, False), (6, True)])
async def test_what_somebody_else_has_written_stays_only_where_it_is_further(theirs: int, stays: bool) -> None:
    store = MemorySnapshots()
    async with writing(store, Pump(waiting(5))) as checkpoints:
        checkpoints.note([turn(5)])
        await checkpoints.flushed()
        await store.save(snapshot_of(C, position=theirs, payload=b"theirs"), 1)
        checkpoints.pump_of = lambda case: Pump(waiting(5))  # type: ignore[assignment,return-value]  # as above
        checkpoints.note([turn(5)])
        await checkpoints.flushed()
        found = await latest(store)
        assert (found.payload == b"theirs") is stays
        assert found.version == (2 if stays else 3)
        assert checkpoints.dropped == stays
        checkpoints.pump_of = lambda case: Pump(waiting(9))  # type: ignore[assignment,return-value]  # as above
        checkpoints.note([turn(9)])
        await checkpoints.flushed()
        assert (await latest(store)).position == 9


async def test_a_case_that_begins_here_replaces_what_is_left_of_one_that_is_gone() -> None:
    store = MemorySnapshots()
    await store.save(snapshot_of(C, position=99))
    async with writing(store, Pump(waiting(1))) as checkpoints:
        checkpoints.note([turn(1)])
        await checkpoints.flushed()
        found = await latest(store)
        assert (found.position, found.version) == (1, 2)


async def test_the_versions_that_are_remembered_are_bounded_and_looked_up_where_they_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("casehub.checkpoints.REMEMBERED", 2)
    store = MemorySnapshots()
    async with writing(store, Pump(waiting(5))) as checkpoints:
        for version in (5, 6):
            for n in range(4):
                case = CaseId(f"c{n}")
                state = CaseState(case, definition="claim", status=CaseStatus.WAITING, version=version)
                checkpoints.pump_of = lambda case, state=state: Pump(state)  # type: ignore[assignment,misc]  # as above
                noted = turn(version)
                noted.envelope.case = case
                checkpoints.note([noted])
                await checkpoints.flushed()
        found = [await store.latest(CaseId(f"c{n}")) for n in range(4)]
        assert [each.version for each in found if each is not None] == [2, 2, 2, 2]
        assert checkpoints.dropped == 0


async def test_several_are_written_together_and_one_that_is_refused_fails_no_other() -> None:
    class Together(MemorySnapshots):
        together = 0

        async def save_all(self, given: Any) -> Any:
            Together.together += len(given)
            return [SnapshotError("full") if s.id == "c1" else await self.save(s, expected) for s, expected in given]

    store = Together()
    async with writing(store, Pump(waiting(1))) as checkpoints:
        pumps = {f"c{n}": Pump(CaseState(CaseId(f"c{n}"), status=CaseStatus.WAITING, version=1)) for n in range(5)}
        checkpoints.pump_of = pumps.get  # type: ignore[assignment]  # as above
        turns = [turn(1) for _ in pumps]
        for case, each in zip(pumps, turns, strict=True):
            each.envelope.case = CaseId(case)
        checkpoints.note(turns)
        await checkpoints.flushed()
        assert (Together.together, checkpoints.saved, checkpoints.dropped) == (5, 4, 1)
