"""The PostgreSQL store keeps the contract of stores that several hubs share, and what a server adds to that."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator

import psycopg
import pytest
import structlog

from casehub.adapters.loop_thread import LoopThread
from casehub.adapters.postgres import PostgresStore, schema
from casehub.adapters.postgres.connection import Connection
from casehub.adapters.postgres.hubs import Membership
from casehub.adapters.postgres.schema import MIGRATIONS
from casehub.errors import StoreOwnedError, StoreUnavailableError
from casehub.events import CaseId, CaseStarted, GoalReached
from casehub.inputs import Cancel
from casehub.sharing import Elsewhere
from casehub.spi import Claim, Committed, Duplicate, Fenced
from casehub.testing.event_logs import Writing, committed, opened
from casehub.testing.shared_stores import SharedStoreContract, Stores, by, claimed, two
from tests.staging import eventually


@pytest.fixture
def stores(postgres_url: str) -> Stores:
    return lambda: PostgresStore(f"{postgres_url}&lease=2")


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    connection = Connection(PostgresStore(postgres_url).place)
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def said() -> Iterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as said:
        yield said


def holds_up(connection: Connection) -> bool:
    """Whether another session waits for what this one has locked."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    return connection.execute(waiting).fetchone()[0] > 0


class TestSharedPostgresStore(SharedStoreContract):
    @pytest.fixture
    def stores(self, postgres_url: str) -> Stores:
        return lambda: PostgresStore(f"{postgres_url}&lease=2")


# ---- claims


async def test_in_a_thousand_races_for_a_case_one_of_two_hubs_wins_each(stores: Stores) -> None:
    wins = [0, 0]
    async with two(stores) as (one, other):
        await committed(one, Writing("c1").turn(CaseStarted()))
        claim, owner = await claimed(one, "c1"), one
        for _ in range(1_000):
            await owner.release(CaseId("c1"), claim)
            found = await asyncio.gather(one.claim(CaseId("c1")), other.claim(CaseId("c1")))
            won = [isinstance(each, Claim) for each in found]
            assert sum(won) == 1
            winner = won.index(True)
            wins[winner] += 1
            owner, claim = (one, other)[winner], next(each for each in found if isinstance(each, Claim))
        assert claim.epoch == 1_001
    assert sum(wins) == 1_000


async def test_a_claim_that_waits_for_a_commit_is_one_on_what_that_wrote(
    stores: Stores, connection: Connection
) -> None:
    async with two(stores) as (one, other):
        await committed(one, Writing("c1").turn(CaseStarted()))
        await one.close()
        connection.execute("BEGIN")
        connection.execute("UPDATE cases SET epoch = epoch + 1, owner = ? WHERE case_id = 'c1'", (other.hub,))
        claim = asyncio.ensure_future(other.claim(CaseId("c1")))
        await eventually(lambda: holds_up(connection))
        assert not claim.done()
        connection.execute("COMMIT")
        assert await claim == Claim(other.hub, 2)


# ---- one log


async def test_a_tail_skips_nothing_while_a_writer_holds_its_transaction_open(
    stores: Stores, connection: Connection
) -> None:
    """Positions that were given before they can be seen would be skipped by a tail that has gone on."""
    async with two(stores) as (one, other):
        await committed(one, Writing("c1").turn(CaseStarted()))
        connection.execute("BEGIN")
        connection.execute("SELECT append(?, 1, 1)", (one.hub,))
        connection.execute(
            'INSERT INTO events SELECT moved(2), case_no, kind, 2, 2, at, "by", cause, body FROM events WHERE seq = 1'
        )
        waiting = asyncio.ensure_future(other.commit([Writing("c2").turn(CaseStarted())]))
        await eventually(lambda: holds_up(connection))
        assert not waiting.done()
        assert await other.log.position() == 1
        connection.execute("COMMIT")
        assert await waiting == [Committed(3)]
        assert [event.seq async for batch in other.log.tail() for event in batch] == [1, 2, 3]


async def test_new_kinds_of_two_writers_have_a_number_each(stores: Stores) -> None:
    async with two(stores) as hubs:
        await asyncio.gather(
            *(
                committed(
                    hub, Writing(f"{hub.hub}{case}", definition=f"d{case}").turn(CaseStarted(), GoalReached(goal="a"))
                )
                for case in range(20)
                for hub in hubs
            )
        )
        for case in range(20):
            for hub in hubs:
                first, second = await hubs[0].load(CaseId(f"{hub.hub}{case}"))
                assert (first.name, second.name, first.definition) == ("CASE_STARTED", "GOAL_REACHED", f"d{case}")


async def test_marks_hold_for_what_all_hubs_have_written(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 7)
    async with two(stores) as hubs:
        writing = [Writing(f"c{number}") for number in range(2)]
        for each, hub in zip(writing, hubs, strict=True):
            await committed(hub, each.turn(CaseStarted()))
        for _ in range(30):
            number = random.randrange(2)
            await committed(hubs[number], writing[number].turn(GoalReached(goal="a")))
        with psycopg.connect(hubs[0].place.url) as connection:  # type: ignore[attr-defined]  # the store of this module
            place = hubs[0].place.schema  # type: ignore[attr-defined]
            rows = connection.execute(
                f"SELECT m.seq, m.high, (SELECT max(at) FROM {place}.events e WHERE e.seq <= m.seq) FROM {place}.marks m ORDER BY 1".encode()
            ).fetchall()
    assert len(rows) >= 3
    assert all(high == most for _, high, most in rows)


# ---- the lease


async def test_a_hub_whose_renewer_fails_is_put_out_and_writes_nothing_more(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, said: list[structlog.typing.EventDict]
) -> None:
    one, other = stores(), stores()
    look = Membership._look  # type: ignore[reportPrivateUsage]  # what fails

    def fail(self: Membership, thread: object) -> None:
        if self.boot == dead:
            raise RuntimeError("the renewer is broken")
        look(self, thread)  # type: ignore[arg-type]

    dead = ""
    monkeypatch.setattr(Membership, "_look", fail)
    async with opened(one), opened(other):
        writing = Writing("c1")
        await committed(one, writing.turn(CaseStarted()))
        dead = one.hub
        await eventually(lambda: not one.held)
        claim = await claimed(other, "c1")
        (refused,) = await one.commit([Writing("c1", version=2).turn(GoalReached(goal="no"))])
        assert isinstance(refused, Fenced)
        (none,) = await one.commit([Writing("c9").turn(CaseStarted())])  # it is no hub at all
        assert isinstance(none, Fenced)
        with pytest.raises(StoreUnavailableError, match="this hub has been put out"):
            await one.bookmark("pager", 3)
        assert await committed(other, by(Writing("c1", version=2).turn(GoalReached(goal="yes")), claim)) is None
        dead = ""
        await eventually(lambda: one.fenced)  # it is told as soon as it asks
        gone = one.hub
        await one.rejoin()
        assert one.hub != gone
        assert one.held
        await committed(one, Writing("c9").turn(CaseStarted()))
        assert isinstance(await one.claim(CaseId("c1")), Elsewhere)
    warned = [each for each in said if each["event"] == "hub.lease_not_renewed"]
    assert "the renewer is broken" in warned[0]["reason"]


async def test_a_hub_whose_sessions_are_ended_again_and_again_stays_the_one_it_is(
    postgres_url: str, connection: Connection
) -> None:
    mine = lambda: PostgresStore(f"{postgres_url}&lease=60&application_name=hubs{os.getpid()}")  # noqa: E731 - two of one kind
    async with two(mine) as (one, other):
        hub, writing = one.hub, Writing("c1")
        await committed(one, writing.turn(CaseStarted()))
        for number in range(10):
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ?",
                (f"hubs{os.getpid()}",),
            )
            turn = writing.turn(GoalReached(goal=f"{number}"))
            while True:
                try:
                    results = await one.commit([turn])
                    break
                except StoreUnavailableError:  # ended under the commit: the log knows
                    if len(await one.load(CaseId("c1"))) == turn.envelope.version:
                        results = [Committed(0)]
                        break
            assert isinstance(results[0], Committed)
        await eventually(lambda: one.held and other.held)
        assert (one.hub, one.fenced) == (hub, False)
        assert isinstance(await other.claim(CaseId("c1")), Elsewhere)
        assert [event.version for event in await other.load(CaseId("c1"))] == list(range(1, 12))


async def test_hubs_that_have_all_lost_their_leases_with_the_server_put_nobody_out(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Membership._look  # type: ignore[reportPrivateUsage]  # what fails while the server is away
    away = True

    def fail(self: Membership, thread: LoopThread) -> None:
        if away:
            raise psycopg.OperationalError("the server is away")
        look(self, thread)

    async with two(stores) as (one, other):
        hubs = {one.hub, other.hub}
        monkeypatch.setattr(Membership, "_look", fail)
        await eventually(lambda: not one.held and not other.held)
        away = False
        await eventually(lambda: one.held and other.held)
        assert {each.boot for each in await one.hubs()} == hubs == {one.hub, other.hub}


async def test_a_hub_whose_session_has_ended_is_put_out_before_its_lease_ends(
    postgres_url: str, connection: Connection
) -> None:
    """As a killed process's is: nobody waits for the lease of what is gone."""
    store = PostgresStore(f"{postgres_url}&lease=10")
    async with opened(store):
        connection.execute(
            "INSERT INTO hubs VALUES ('dead', 'killed', now(), now() + interval '1 hour', false, 1, now())"
        )

        async def is_gone() -> bool:
            return all(each.boot != "dead" for each in await store.hubs())

        await eventually(is_gone)


# ---- the schema of an earlier release


async def test_a_process_of_an_earlier_release_is_not_pushed_aside(
    stores: Stores, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(stores().place.url + f"&schema={stores().place.schema}")  # type: ignore[attr-defined]
    monkeypatch.setattr(schema, "MIGRATIONS", MIGRATIONS[:3])
    connection.run(schema.schema_sql(store.place.schema))
    monkeypatch.undo()
    monkeypatch.setattr(schema, "_LOCK_WAIT", 0.1)
    connection.execute("UPDATE ownership SET owner = 'process 7 on there'")
    connection.execute("SELECT pg_advisory_lock(hashtextextended(?, 0))", (f"casehub {store.place.schema}",))
    with pytest.raises(StoreOwnedError, match="brought up to date, and is held by process 7 on there; stop that first"):
        await store.open(lambda turns: None)
    connection.execute("SELECT pg_advisory_unlock_all()")
    async with opened(store):
        assert store.schema_version() == MIGRATIONS[-1].version


async def test_two_hubs_that_open_an_empty_database_at_once_make_it_once(stores: Stores) -> None:
    hubs = [stores() for _ in range(4)]
    await asyncio.gather(*(hub.open(lambda turns: None) for hub in hubs))
    try:
        assert len(await hubs[0].hubs()) == 4
    finally:
        await asyncio.gather(*(hub.close() for hub in hubs))


# ---- the inbox


async def test_a_turn_that_answers_an_input_does_so_in_its_own_transaction_and_once(stores: Stores) -> None:
    writing = Writing("c1")
    async with two(stores) as (one, other):
        await committed(one, writing.turn(CaseStarted()))
        post = await other.post(CaseId("c1"), Cancel(reason="enough"))
        again = await other.post(CaseId("c1"), Cancel(key="k")), await other.post(CaseId("c1"), Cancel(key="k"))
        assert again[0] == again[1]
        assert [(each.post, each.case) for each in await one.posted()] == [(post, "c1"), (again[0], "c1")]
        assert list(await other.posted()) == []  # another hub has the case
        assert await other.answers([post]) == {}
        turn = writing.turn(GoalReached(goal="a"))
        turn.post = post
        await committed(one, turn)
        answer = {"version": 2, "turn": 2, "events": 1, "status": "RUNNING", "stalled": False}
        assert await other.answers([post, again[0], "no"]) == {post: answer}
        late = writing.turn(GoalReached(goal="b"))
        late.post = post
        assert list(await one.commit([late])) == [Duplicate(2)]
        await one.answer(post, {"error": "late"})
        await one.answer(again[0], {"error": "InputRefusedError"})
        assert await other.answers([post, again[0]]) == {post: answer, again[0]: {"error": "InputRefusedError"}}
        assert list(await one.posted()) == []
        assert [event.name for event in await one.load(CaseId("c1"))] == ["CASE_STARTED", "GOAL_REACHED"]


async def test_what_was_posted_for_a_hub_that_is_gone_is_anybodys(stores: Stores) -> None:
    async with two(stores) as (one, other):
        await committed(one, Writing("c1").turn(CaseStarted()))
        post = await other.post(CaseId("c1"), Cancel())
        await one.close()
        assert [each.post for each in await other.posted()] == [post]
