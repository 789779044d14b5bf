"""Several hubs that keep snapshots of the cases of one database: what one of them has kept another one goes on from.

Rows 47 and 48 are those of `tests/scenarios/test_snapshots.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from casehub import CaseDefinition, CaseElsewhereError, CaseHub, CaseStatus, HumanTask, TaskRefusedError
from casehub.adapters.redis.snapshots import RedisSnapshots
from casehub.engine.choreography import ChoreographyLoopControl
from casehub.engine.keeping import bring_back
from casehub.events import CaseId
from casehub.folding import fold
from casehub.spi import SnapshotStore
from casehub.testing.evidence import differences
from tests.sharing.hubs import frozen, hub, moved, status_of, until


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


class Loans:
    """A case that waits for a person, and whose last worker leaves an effect: a letter for each time that it runs."""

    def __init__(self) -> None:
        self.letters: list[str] = []
        self.definition = loan = CaseDefinition("loan", goal="letter", signals=["remark"])

        @loan.human_task(writes="approved")
        def approve(amount: int) -> HumanTask[bool]:
            return HumanTask(f"Lend {amount}?", bool)

        @loan.worker(writes="letter")
        async def write(approved: bool, amount: int) -> str:
            self.letters.append(f"{amount}: {approved}")
            return self.letters[-1]

    def hub(self, url: str, **how: Any) -> CaseHub:
        return hub(url, self.definition, snapshots=how.pop("snapshots", url), **how)


async def waits(at: CaseHub, case_id: str = "c") -> None:
    await (await at.start("loan", case_id=case_id, amount=7)).quiescent("30s")
    await at.snapshots.flushed()


async def answer(at: CaseHub, *, by: str) -> str:
    await at.tasks.complete("c/approve/1", True, by=by)
    return str((await at.case("c").completed("30s"))["letter"])


async def whole(at: CaseHub, case: str = "c") -> None:
    """The snapshot of a case is what its log folds to at its place."""
    snapshot = await at.snapshots.latest(case)
    assert snapshot is not None
    kept = bring_back(snapshot.payload, CaseId(case), "default", ChoreographyLoopControl()).state
    log = await at.store.load(CaseId(case))
    assert list(differences(fold(CaseId(case), log[: snapshot.position]), kept)) == []


async def test_row_31_a_case_goes_on_at_another_hub_from_what_the_first_one_kept(postgres_url: str) -> None:
    loans = Loans()
    async with loans.hub(postgres_url) as other:
        async with loans.hub(postgres_url) as one:
            await waits(one)
        assert await moved(lambda: answer(other, by="user:ada")) == "7: True"
        assert other.snapshots.used == 1
        await other.snapshots.flushed()
        snapshot = await other.snapshots.latest("c")
        assert snapshot is not None
        assert (snapshot.status, snapshot.version) == (CaseStatus.COMPLETED, 2)
        await whole(other)


async def test_row_47_a_hub_with_a_stale_copy_is_refused_before_any_side_effect(postgres_url: str) -> None:
    """One is frozen with a waiting case in memory; the other takes it over, from the snapshot, and completes it."""
    loans, others = Loans(), Loans()
    async with loans.hub(postgres_url) as one, others.hub(postgres_url) as other:
        await waits(one)
        with frozen(one):
            assert await moved(lambda: answer(other, by="user:ada")) == "7: True"
            assert other.snapshots.used == 1
            with pytest.raises((CaseElsewhereError, TaskRefusedError)):
                await answer(one, by="user:bob")
        await until(lambda: _is(other, CaseStatus.COMPLETED))
        with pytest.raises((CaseElsewhereError, TaskRefusedError)):
            await answer(one, by="user:bob")
        for each in (one, other):
            await each.snapshots.flushed()
            await whole(each)
    assert (loans.letters, others.letters) == ([], ["7: True"])


async def _is(at: CaseHub, status: CaseStatus) -> bool:
    return await status_of(at, "c") == status


async def test_row_48_of_two_hubs_that_resume_one_wait_one_does_and_the_other_hears_who_has_it(
    postgres_url: str,
) -> None:
    loans, others = Loans(), Loans()
    async with loans.hub(postgres_url) as starter:
        await waits(starter)
    async with loans.hub(postgres_url) as one, others.hub(postgres_url) as other:
        found = await asyncio.gather(answer(one, by="user:ada"), answer(other, by="user:bob"), return_exceptions=True)
        assert sorted(type(each).__name__ for each in found) in (
            ["CaseElsewhereError", "str"], ["TaskRefusedError", "str"]
        ), found  # fmt: skip
        assert one.snapshots.used + other.snapshots.used >= 1
    assert loans.letters + others.letters == ["7: True"]


@pytest.mark.parametrize("where", ["postgres", "redis"])
async def test_a_case_that_wanders_between_hubs_is_kept_by_whoever_has_it(
    postgres_url: str, where: str, request: pytest.FixtureRequest
) -> None:
    loans = Loans()

    def place() -> SnapshotStore | str:
        return RedisSnapshots(request.getfixturevalue("redis_url")) if where == "redis" else postgres_url

    async with (
        loans.hub(postgres_url, snapshots=place(), linger="0s") as one,
        loans.hub(postgres_url, snapshots=place(), linger="0s") as other,
    ):
        await waits(one)
        for number in range(6):
            at = (one, other)[number % 2]
            await moved(lambda at=at, number=number: at.case("c").signal(remark=number))
            await at.snapshots.flushed()
        assert await moved(lambda: answer(other, by="user:ada")) == "7: True"
        for each in (one, other):
            await each.snapshots.flushed()
        await whole(one)
        assert one.snapshots.used + other.snapshots.used >= 2
        assert one.snapshots.refused == other.snapshots.refused == {}
