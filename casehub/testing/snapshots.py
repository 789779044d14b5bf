"""What every store of snapshots has to do, as tests: for those who write one.

Subclass `SnapshotContract` in a test module, give it a fixture that makes an empty one that is not open, and run pytest
with pytest-asyncio; it is right when all of it passes.

    class TestMySnapshots(SnapshotContract):
        @pytest.fixture
        async def snapshots(self):
            yield MySnapshots(...)
"""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from casehub.errors import SnapshotConflictError, SnapshotError
from casehub.events import CaseId
from casehub.lifecycle import CaseStatus
from casehub.snapshot import SavesTogether, Snapshot
from casehub.spi import SnapshotStore
from casehub.testing.stores import ODD_TEXT

__all__ = ["SnapshotContract", "snapshot_of"]

AT = datetime(2026, 11, 30, 9, 0, 0, 123456, tzinfo=UTC)
LATER = AT + timedelta(microseconds=1)


def snapshot_of(case: str, **changes: Any) -> Snapshot:
    """A snapshot that says as little as one can."""
    return replace(
        Snapshot(
            id=CaseId(case),
            definition="claim",
            status=CaseStatus.WAITING,
            position=7,
            content_type="text/plain",
            payload=b"state",
            updated_at=AT,
        ),
        **changes,
    )


@asynccontextmanager
async def in_use(snapshots: SnapshotStore) -> AsyncIterator[SnapshotStore]:
    """The store, open."""
    await snapshots.open()
    try:
        yield snapshots
    finally:
        await snapshots.close()


class SnapshotContract:
    """The promises of `SnapshotStore`, a test each; the fixture `snapshots` gives an empty one that is not open."""

    # ---- saving

    async def test_a_save_gives_what_is_there_from_then_on(self, snapshots: SnapshotStore) -> None:
        given = snapshot_of("c1", tenant="acme", payload=bytes(range(256)) * 300, metadata={"why": "waiting"})
        async with in_use(snapshots):
            written = await snapshots.save(given)
            assert written == replace(given, version=1, created_at=AT)
            assert await snapshots.latest(CaseId("c1"), "acme") == written

    async def test_one_that_is_to_be_the_first_is_refused_where_there_is_one(self, snapshots: SnapshotStore) -> None:
        async with in_use(snapshots):
            first = await snapshots.save(snapshot_of("c1"))
            with pytest.raises(
                SnapshotConflictError, match="snapshot of case 'c1': there was to be none, and version 1"
            ):
                await snapshots.save(snapshot_of("c1", payload=b"other"))
            assert await snapshots.latest(CaseId("c1")) == first

    async def test_one_that_expects_what_is_there_takes_its_place_as_the_next_version(
        self, snapshots: SnapshotStore
    ) -> None:
        async with in_use(snapshots):
            await snapshots.save(snapshot_of("c1"))
            later = snapshot_of("c1", status=CaseStatus.COMPLETED, position=12, payload=b"two", updated_at=LATER)
            written = await snapshots.save(later, 1)
            assert written == replace(later, version=2, created_at=AT)
            assert await snapshots.latest(CaseId("c1")) == written

    @pytest.mark.parametrize("expected", [1, 3, 0, 99])
    async def test_one_that_expects_another_version_is_refused_with_both_and_nothing_is_touched(
        self, snapshots: SnapshotStore, expected: int
    ) -> None:
        async with in_use(snapshots):
            await snapshots.save(snapshot_of("c1"))
            there = await snapshots.save(snapshot_of("c1", payload=b"two"), 1)
            with pytest.raises(SnapshotConflictError) as caught:
                await snapshots.save(snapshot_of("c1", payload=b"stale", parent=CaseId("p")), expected)
            assert (caught.value.case, caught.value.expected, caught.value.found) == ("c1", expected, 2)
            assert await snapshots.latest(CaseId("c1")) == there
            assert list(await snapshots.children(CaseId("p"))) == []

    async def test_one_that_expects_a_version_of_a_case_that_has_none_is_refused(
        self, snapshots: SnapshotStore
    ) -> None:
        async with in_use(snapshots):
            with pytest.raises(SnapshotConflictError, match="version 1 was to be replaced, and there is none"):
                await snapshots.save(snapshot_of("c1"), 1)
            assert await snapshots.latest(CaseId("c1")) is None

    async def test_of_those_that_replace_one_version_at_the_same_time_exactly_one_is_written(
        self, snapshots: SnapshotStore
    ) -> None:
        async with in_use(snapshots):
            for expected in (None, 1, 2):
                saves = [snapshots.save(snapshot_of("c1", payload=b"%d" % n), expected) for n in range(5)]
                results = await asyncio.gather(*saves, return_exceptions=True)
                (won,) = [each for each in results if isinstance(each, Snapshot)]
                lost = [each for each in results if isinstance(each, SnapshotConflictError)]
                version = (expected or 0) + 1
                assert (won.version, [each.found for each in lost]) == (version, [version] * 4)
                assert await snapshots.latest(CaseId("c1")) == won
            with pytest.raises(SnapshotConflictError):
                await snapshots.save(snapshot_of("c1"), 1)

    async def test_several_are_saved_together_as_each_would_be(self, snapshots: SnapshotStore) -> None:
        if not isinstance(snapshots, SavesTogether):
            return
        async with in_use(snapshots):
            await snapshots.save(snapshot_of("there"))
            await snapshots.save(snapshot_of("p/b/1", parent=CaseId("p")))
            given: list[tuple[Snapshot, int | None]] = [
                (snapshot_of("there", payload=b"next"), 1),
                (snapshot_of("new", metadata={"a": "b"}), None),
                (snapshot_of("stale"), 4),
                (snapshot_of("p/b/1"), 1),
                (snapshot_of("p/b/2", parent=CaseId("p")), None),
            ]
            one, two, stale, dropped, child = await snapshots.save_all(given)
            assert one == replace(given[0][0], version=2, created_at=AT)
            assert two == replace(given[1][0], version=1, created_at=AT)
            assert isinstance(stale, SnapshotConflictError)
            assert (stale.case, stale.expected, stale.found) == ("stale", 4, None)
            assert isinstance(dropped, SnapshotError)
            assert "its parent is 'p'" in str(dropped)
            assert await snapshots.latest(CaseId("there")) == one
            assert await snapshots.latest(CaseId("new")) == two
            assert [each.id for each in await snapshots.children(CaseId("p"))] == ["p/b/1", "p/b/2"]
            assert isinstance(child, Snapshot)

    async def test_metadata_may_be_called_as_what_is_beside_it(self, snapshots: SnapshotStore) -> None:
        names = ("id", "version", "parent", "status", "payload", "tenant", "created_at", "metadata", ODD_TEXT)
        given = snapshot_of("c1", metadata=dict.fromkeys(names, ODD_TEXT))
        async with in_use(snapshots):
            written = await snapshots.save(given)
            assert await snapshots.latest(CaseId("c1")) == written == replace(given, version=1, created_at=AT)

    async def test_odd_text_comes_back_unchanged_wherever_it_stands(self, snapshots: SnapshotStore) -> None:
        parent = CaseId(ODD_TEXT + "p")
        given = snapshot_of(
            ODD_TEXT, tenant=ODD_TEXT, definition=ODD_TEXT, parent=parent, content_type=ODD_TEXT, payload=b""
        )
        async with in_use(snapshots):
            written = await snapshots.save(given)
            assert await snapshots.latest(CaseId(ODD_TEXT), ODD_TEXT) == written
            assert list(await snapshots.children(parent, ODD_TEXT)) == [written]

    # ---- finding

    async def test_a_case_that_nobody_saved_has_none(self, snapshots: SnapshotStore) -> None:
        async with in_use(snapshots):
            await snapshots.save(snapshot_of("c1"))
            assert await snapshots.latest(CaseId("c2")) is None
            assert await snapshots.latest(CaseId("c1"), "other") is None

    async def test_the_children_of_a_case_are_its_own_and_not_those_of_its_children(
        self, snapshots: SnapshotStore
    ) -> None:
        async with in_use(snapshots):
            await snapshots.save(snapshot_of("p"))
            two = await snapshots.save(snapshot_of("p/b/2", parent=CaseId("p")))
            one = await snapshots.save(snapshot_of("p/b/1", parent=CaseId("p")))
            await snapshots.save(snapshot_of("p/b/1/c/1", parent=CaseId("p/b/1")))
            await snapshots.save(snapshot_of("q/b/1", parent=CaseId("q")))
            await snapshots.save(snapshot_of("p/b/3", parent=CaseId("p"), tenant="other"))
            assert list(await snapshots.children(CaseId("p"))) == [one, two]
            assert list(await snapshots.children(CaseId("p/b/2"))) == []
            assert list(await snapshots.children(CaseId(""))) == []

    async def test_tenants_are_apart(self, snapshots: SnapshotStore) -> None:
        async with in_use(snapshots):
            one = await snapshots.save(snapshot_of("c1", tenant="one", payload=b"1"))
            two = await snapshots.save(snapshot_of("c1", tenant="two", payload=b"2"))
            await snapshots.delete(CaseId("c1"), "two")
            assert await snapshots.latest(CaseId("c1"), "one") == one
            assert await snapshots.latest(CaseId("c1"), "two") is None
            assert two.version == 1

    # ---- parents

    @pytest.mark.parametrize("parent", ["q", None])
    async def test_a_parent_is_never_changed_or_dropped(self, snapshots: SnapshotStore, parent: str | None) -> None:
        async with in_use(snapshots):
            there = await snapshots.save(snapshot_of("p/b/1", parent=CaseId("p")))
            changed = snapshot_of("p/b/1", parent=None if parent is None else CaseId(parent), payload=b"other")
            with pytest.raises(SnapshotError, match="its parent is 'p', and it cannot become") as caught:
                await snapshots.save(changed, 1)
            assert not isinstance(caught.value, SnapshotConflictError)
            assert list(await snapshots.children(CaseId("p"))) == [there]
            assert list(await snapshots.children(CaseId("q"))) == []
            await snapshots.save(snapshot_of("c1"))
            with pytest.raises(SnapshotError, match="its parent is None"):
                await snapshots.save(snapshot_of("c1", parent=CaseId("p")), 1)

    # ---- deleting

    async def test_what_is_deleted_is_gone_and_its_parent_does_not_have_it(self, snapshots: SnapshotStore) -> None:
        async with in_use(snapshots):
            await snapshots.save(snapshot_of("p/b/1", parent=CaseId("p")))
            await snapshots.delete(CaseId("p/b/1"))
            assert await snapshots.latest(CaseId("p/b/1")) is None
            assert list(await snapshots.children(CaseId("p"))) == []

    async def test_to_delete_what_is_unknown_or_gone_is_no_error(self, snapshots: SnapshotStore) -> None:
        async with in_use(snapshots):
            await snapshots.delete(CaseId("never"))
            await snapshots.save(snapshot_of("c1"))
            await snapshots.delete(CaseId("c1"))
            await snapshots.delete(CaseId("c1"))
            assert await snapshots.latest(CaseId("c1")) is None

    async def test_a_late_save_does_not_bring_back_what_was_deleted(self, snapshots: SnapshotStore) -> None:
        async with in_use(snapshots):
            await snapshots.save(snapshot_of("c1"))
            await snapshots.delete(CaseId("c1"))
            with pytest.raises(SnapshotConflictError):
                await snapshots.save(snapshot_of("c1"), 1)
            assert await snapshots.latest(CaseId("c1")) is None

    async def test_a_case_of_that_name_that_begins_anew_begins_at_the_first_version(
        self, snapshots: SnapshotStore
    ) -> None:
        async with in_use(snapshots):
            await snapshots.save(snapshot_of("c1", parent=CaseId("p")))
            await snapshots.delete(CaseId("c1"))
            assert (await snapshots.save(snapshot_of("c1", updated_at=LATER))).version == 1
            assert list(await snapshots.children(CaseId("p"))) == []

    # ---- opening

    async def test_what_was_saved_is_there_when_it_is_opened_again(self, snapshots: SnapshotStore) -> None:
        async with in_use(snapshots):
            written = await snapshots.save(snapshot_of("c1"))
        async with in_use(snapshots):
            assert await snapshots.latest(CaseId("c1")) == written
            assert (await snapshots.save(snapshot_of("c1"), 1)).version == 2

    async def test_it_says_what_it_is_in_one_line(self, snapshots: SnapshotStore) -> None:
        assert "snapshots" in snapshots.describe()
        assert "\n" not in snapshots.describe()
