"""What a store that several hubs share has to do, as tests: for those who write one.

Subclass `SharedStoreContract` in a test module, and give it a fixture `stores`: a function that gives another store, not
open, each time it is called, all of them on one empty database, with leases of a second or two. What is asked of every
store is `StoreContract`.
"""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Protocol

from casehub.events import CaseCompleted, CaseId, CaseStarted, GoalReached, TimerId
from casehub.lifecycle import CaseStatus
from casehub.query import CaseQuery
from casehub.sharing import Elsewhere, News, SharedStore
from casehub.spi import CaseStore, Claim, Committed, Fenced, Turn
from casehub.testing.event_logs import AT, Writing, committed, opened

__all__ = ["SharedStoreContract"]

PATIENCE = 30.0
"""Seconds that something gets which takes a lease or so."""


class Shared(CaseStore, SharedStore, Protocol):
    """Both contracts."""


Stores = Callable[[], Shared]


@asynccontextmanager
async def two(stores: Stores) -> AsyncGenerator[tuple[Shared, Shared], None]:
    """Two hubs of a database."""
    one, other = stores(), stores()
    async with opened(one), opened(other):
        yield one, other


async def claimed(store: Shared, case: str) -> Claim:
    """Take a case up, as soon as nobody has it."""
    end = time.monotonic() + PATIENCE
    while isinstance(claim := await store.claim(CaseId(case)), Elsewhere):
        assert time.monotonic() < end, f"{case} stays with {claim.owner}"
        await asyncio.sleep(0.02)
    return claim


def by(turn: Turn, claim: Claim) -> Turn:
    turn.claim = claim
    return turn


class SharedStoreContract:
    """The promises of `SharedStore`, a test each."""

    # ---- whose a case is

    async def test_a_case_is_the_hubs_that_began_it_until_that_leaves(self, stores: Stores) -> None:
        writing = Writing("c1")
        async with two(stores) as (one, other):
            await committed(one, writing.turn(CaseStarted()))
            found = await other.claim(CaseId("c1"))
            assert isinstance(found, Elsewhere)
            assert found.owner == next(each.name for each in await other.hubs() if each.boot == one.hub)
            (refused,) = await other.commit([writing.turn(GoalReached(goal="no"))])
            assert refused == Fenced(found.owner)
            await one.close()
            claim = await other.claim(CaseId("c1"))  # at once
            assert isinstance(claim, Claim)
            writing.version, writing.number = 2, 1
            await committed(other, by(writing.turn(GoalReached(goal="yes")), claim))
            assert [event.seq for event in await other.load(CaseId("c1"))] == [1, 2]

    async def test_of_two_that_claim_at_once_exactly_one_succeeds(self, stores: Stores) -> None:
        cases = [CaseId(f"c{number}") for number in range(100)]
        async with two(stores) as (one, other):
            third = stores()
            async with opened(third):
                await committed(third, *(Writing(case).turn(CaseStarted()) for case in cases))
            assert list(await one.orphans()) == list(await other.orphans()) == cases
            for case in cases:
                found = await asyncio.gather(one.claim(case), other.claim(case))
                assert sorted(type(each).__name__ for each in found) == ["Claim", "Elsewhere"]
            assert list(await one.orphans()) == []

    async def test_what_is_given_back_is_free_and_a_later_claim_makes_an_earlier_one_void(self, stores: Stores) -> None:
        writing = Writing("c1")
        async with two(stores) as (one, other):
            await committed(one, writing.turn(CaseStarted()))
            first, second = await claimed(one, "c1"), await claimed(one, "c1")
            assert second.epoch > first.epoch
            await one.release(CaseId("c1"), first)  # void by now
            assert isinstance(await other.claim(CaseId("c1")), Elsewhere)
            (late,) = await one.commit([by(writing.turn(GoalReached(goal="a")), first)])
            assert isinstance(late, Fenced)
            await one.release(CaseId("c1"), second)
            third = await other.claim(CaseId("c1"))
            assert isinstance(third, Claim)
            assert third.epoch > second.epoch
            writing.version = 2
            await committed(other, by(writing.turn(GoalReached(goal="b")), third))
            (stale,) = await one.commit([by(Writing("c1", version=2).turn(GoalReached(goal="c")), second)])
            assert isinstance(stale, Fenced)
            assert await other.load(CaseId("c1")) == [CaseStarted(version=1), GoalReached(goal="b", version=2)]

    async def test_a_turn_that_changes_nothing_is_fenced_as_others_are(self, stores: Stores) -> None:
        async with two(stores) as (one, other):
            await committed(one, Writing("c1").turn(CaseStarted()))
            first = await claimed(one, "c1")
            await one.release(CaseId("c1"), first)
            await claimed(other, "c1")
            (refused,) = await one.commit([by(Writing("c1", version=2).turn(key="k"), first)])
            assert isinstance(refused, Fenced)
            assert await one.outcome(CaseId("c1"), "k") is None

    async def test_a_case_that_has_ended_is_nobodys_unless_it_is_claimed_as_such(self, stores: Stores) -> None:
        writing = Writing("c1")
        async with two(stores) as (one, other):
            await committed(one, writing.turn(CaseStarted()))
            await committed(one, writing.turn(CaseCompleted(before=CaseStatus.RUNNING), status=CaseStatus.COMPLETED))
            read = await other.claim(CaseId("c1"))
            assert isinstance(read, Claim)
            assert isinstance(await one.claim(CaseId("c1")), Claim)  # as was the other's
            claim = await other.claim(CaseId("c1"), ended=True)
            assert isinstance(claim, Claim)
            await committed(other, by(writing.turn(GoalReached(goal="again")), claim))
            assert isinstance(await one.claim(CaseId("c1"), ended=True), Elsewhere)

    async def test_a_hub_that_drains_takes_up_nothing_but_what_is_its_own(self, stores: Stores) -> None:
        async with two(stores) as (one, other):
            await committed(one, Writing("mine").turn(CaseStarted()))
            await committed(other, Writing("free").turn(CaseStarted()))
            await other.release(CaseId("free"), await claimed(other, "free"))
            await one.drain()
            assert [each.draining for each in await other.hubs() if each.boot == one.hub] == [True]
            assert isinstance(await one.claim(CaseId("free")), Elsewhere)
            assert isinstance(await one.claim(CaseId("mine")), Claim)
            await committed(one, Writing("new").turn(CaseStarted()))
            assert isinstance(await other.claim(CaseId("free")), Claim)

    async def test_who_is_cancelled_has_claimed_nothing(self, stores: Stores) -> None:
        async with two(stores) as (one, other):
            await committed(one, Writing("c1").turn(CaseStarted()))
            await one.release(CaseId("c1"), await claimed(one, "c1"))
            for n in range(40):
                claiming = asyncio.ensure_future(one.claim(CaseId("c1")))
                for _ in range(3 * n):
                    await asyncio.sleep(0)
                claiming.cancel()
                with suppress(asyncio.CancelledError):
                    claim = await claiming  # at any moment of it, and after it
                    assert isinstance(claim, Claim)
                    await one.release(CaseId("c1"), claim)
                await other.release(CaseId("c1"), await claimed(other, "c1"))

    async def test_tenants_have_cases_of_one_name(self, stores: Stores) -> None:
        async with two(stores) as (one, other):
            await committed(one, Writing("c1", tenant="acme").turn(CaseStarted()))
            await committed(other, Writing("c1").turn(CaseStarted()))
            assert isinstance(await other.claim(CaseId("c1")), Claim)
            assert isinstance(await other.claim(CaseId("c1"), "acme"), Elsewhere)
            assert isinstance(await one.claim(CaseId("c1")), Elsewhere)

    async def test_timers_are_seen_by_whose_case_it_is_and_by_all_where_it_is_nobodys(self, stores: Stores) -> None:
        turn = Writing("c1").turn(CaseStarted())
        turn.timers[TimerId("t")] = AT
        later = AT + timedelta(days=1)
        async with two(stores) as (one, other):
            await committed(one, turn)
            assert [timer.timer for timer in await one.due(later)] == ["t"]
            assert (list(await other.due(later)), await other.next_due()) == ([], None)
            await one.release(CaseId("c1"), await claimed(one, "c1"))
            assert [timer.timer for timer in await other.due(later)] == ["t"]
            assert await other.next_due() == await one.next_due() == AT

    # ---- the lease

    async def test_a_lease_is_renewed_for_as_long_as_the_store_is_open(self, stores: Stores) -> None:
        async with two(stores) as (one, other):
            await committed(one, Writing("c1").turn(CaseStarted()))
            await asyncio.sleep(2 * one.lease)
            assert one.held
            assert isinstance(await other.claim(CaseId("c1")), Elsewhere)
            assert {each.boot for each in await one.hubs()} == {one.hub, other.hub}
            assert all(0 < each.left <= one.lease for each in await one.hubs())

    async def test_a_blocked_event_loop_keeps_its_lease(self, stores: Stores) -> None:
        async with two(stores) as (one, _):
            hub = one.hub
            time.sleep(2 * one.lease)  # noqa: ASYNC251 - as user code may
            assert one.held
            await committed(one, Writing("c1").turn(CaseStarted()))
            assert (one.hub, one.fenced) == (hub, False)

    async def test_hubs_hear_what_others_commit_and_that_they_come_and_go(self, stores: Stores) -> None:
        heard: list[News] = []
        one, other = stores(), stores()

        async def hear(what: Callable[[News], bool]) -> None:
            end = time.monotonic() + PATIENCE
            while not any(what(news) for news in heard):
                assert time.monotonic() < end, heard
                await asyncio.sleep(0.01)
            heard.clear()

        async with opened(one):
            one.listen(heard.append)
            async with opened(other):
                await hear(lambda news: news.hubs)
                await committed(other, Writing("c1").turn(CaseStarted(), GoalReached(goal="a")))
                await hear(lambda news: news.position == 2)
                await committed(one, Writing("c2").turn(CaseStarted()))
                await committed(other, Writing("c3").turn(CaseStarted()))
                await hear(lambda news: news.position == 4)
            await hear(lambda news: news.hubs)

    async def test_one_hub_leads_under_a_name_until_it_leaves(self, stores: Stores) -> None:
        async with two(stores) as (one, other):
            assert await one.lead("pager")
            assert await one.lead("pager")
            assert not await other.lead("pager")
            assert await other.lead("pager", "acme")
            await one.close()
            assert await other.lead("pager")

    # ---- one log

    async def test_positions_are_dense_and_in_commit_order_whoever_writes(self, stores: Stores) -> None:
        async with two(stores) as hubs:
            seen: list[int] = []
            tail = asyncio.ensure_future(self._tail(hubs[0], seen, 400))
            await asyncio.gather(
                *(self._write(hub, f"{number}-{case}") for number, hub in enumerate(hubs) for case in range(10))
            )
            await asyncio.wait_for(tail, PATIENCE)
            assert seen == list(range(1, 401))
            for number, case in itertools.product(range(2), range(10)):
                log = await hubs[1].load(CaseId(f"{number}-{case}"))
                assert [event.version for event in log] == list(range(1, 21))

    async def test_the_positions_that_are_told_are_those_of_the_log(self, stores: Stores) -> None:
        async with two(stores) as (one, other):
            a, b = Writing("a"), Writing("b")
            await committed(one, a.turn(CaseStarted()))
            await committed(other, b.turn(CaseStarted(), GoalReached(goal="x")))
            turn = a.turn(GoalReached(goal="y"), key="k")
            assert list(await one.commit([turn])) == [Committed(4)]
            assert turn.envelope.seq == 4
            assert await other.outcome(CaseId("a"), "k") == 4
            assert [event.seq for event in await other.load(CaseId("a"))] == [1, 4]
            summaries = {each.case: (each.first, each.seq) for each in await one.log.cases(CaseQuery())}
            assert summaries == {"a": (1, 4), "b": (2, 3)}

    async def _write(self, hub: Shared, case: str) -> None:
        writing = Writing(case)
        for number in range(20):
            await committed(hub, writing.turn(CaseStarted() if not number else GoalReached(goal=f"{number} {case}")))

    async def _tail(self, store: Shared, seen: list[int], number: int) -> None:
        while len(seen) < number:
            async for events in store.log.tail(seen[-1] if seen else 0):
                seen += [event.seq for event in events]
            await asyncio.sleep(0)
