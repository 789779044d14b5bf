"""What a server adds to the PostgreSQL store: sessions that end, and servers that stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import structlog

from casehub import CaseDefinition, CaseHub, CaseStarted, GoalReached
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.postgres.connection import Connection, Place
from casehub.adapters.postgres.group import PostgresGroup
from casehub.adapters.postgres.writer import PostgresDatabase
from casehub.errors import SettingsError, StoreError, StoreUnavailableError
from casehub.events import CaseId
from casehub.query import EventQuery
from casehub.spi import Committed, Refused
from casehub.testing.event_logs import Writing, committed, opened
from deploy.packages import MissingServiceError
from deploy.services import Postgres, private_postgres
from tests.staging import eventually


@pytest.fixture
def url(postgres_url: str) -> str:
    """A database whose sessions can be told from those of other tests."""
    (schema,) = parse_qs(urlsplit(postgres_url).query)["schema"]
    return f"{postgres_url}&application_name={schema}"


@pytest.fixture
def store(url: str) -> PostgresStore:
    return PostgresStore(url)


@pytest.fixture
def server(postgres: str) -> Iterator[Postgres]:
    """A server that the test may stop, where there may be one at all."""
    try:
        with private_postgres() as found:
            yield found
    except MissingServiceError as error:
        pytest.skip(f"no PostgreSQL: {error}")


@pytest.fixture(autouse=True)
def _quiet_logs() -> Any:
    with structlog.testing.capture_logs() as said:
        yield said


def end_sessions(store: PostgresStore) -> int:
    """End all sessions of a store on the server; how many there were."""
    (name,) = parse_qs(urlsplit(store.place.url).query)["application_name"]
    with psycopg.connect(store.place.url, application_name="the test", autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s", (name,)
        )
        return len(ended.fetchall())


def counted(runs: list[int]) -> CaseDefinition:
    d = CaseDefinition("d", goal="c", signals=["a"])

    @d.worker(writes="b")
    async def first(a: int) -> int:
        runs.append(a)
        return a

    @d.worker(writes="c")
    async def second(b: int) -> int:
        return b

    return d


# ---- sessions that end


async def test_sessions_that_ended_while_nothing_was_asked_are_replaced_unseen(store: PostgresStore) -> None:
    writing = Writing("c1")
    async with opened(store):
        for number in range(1, 4):
            await committed(store, writing.turn(GoalReached(goal="a")))
            assert await store.position() == number
            assert end_sessions(store) >= 2
        assert len(await store.load(CaseId("c1"))) == 3


async def test_cases_go_on_over_sessions_that_are_ended_under_them(store: PostgresStore) -> None:
    runs: list[int] = []
    definition = counted(runs)
    ended = 0
    async with CaseHub(definition, store=store) as hub:
        for number in range(6):
            cases = [await hub.start(definition, a=10 * number + each) for each in range(10)]
            ended += end_sessions(store)
            for case in cases:
                await asyncio.wait_for(case.completed(), 120)
        position = await store.position()
        found = await store.query(EventQuery())
        assert [event.seq for event in found] == list(range(1, position + 1))
        assert len(await store.query(EventQuery(types=("CASE_COMPLETED",)))) == 60
        assert sorted(set(runs)) == list(range(60))
        assert not [finding for finding in await store.check() if finding.fault]
    assert ended >= 6


async def test_a_commit_that_was_done_but_reported_failed_is_found_in_the_log(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush, fail = PostgresGroup.flush, [True]

    def lost(self: PostgresGroup) -> None:
        flush(self)
        if fail.pop():
            raise psycopg.OperationalError("the connection is lost")

    async with opened(store) as published:
        monkeypatch.setattr(PostgresGroup, "flush", lost)
        turn = Writing("c1").turn(CaseStarted(), key="k")
        with pytest.raises(
            StoreUnavailableError, match="the connection is lost; whether the turns were written is unknown"
        ):
            await store.commit([turn])
        monkeypatch.undo()
        assert published == []
        assert len(await store.load(CaseId("c1"))) == 1
        assert await store.outcome(CaseId("c1"), "k") == 1


async def test_the_log_answers_only_when_a_commit_in_doubt_has_come_to_its_end(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session that was cut off still has the rows and might commit them: it is ended before anybody is told."""
    cut: list[Connection] = []

    def stuck(self: PostgresGroup) -> None:
        self.connection.execute("INSERT INTO marks VALUES (1, 1)")
        cut.append(self.connection)
        raise psycopg.OperationalError("no answer")

    def leave_open(self: PostgresDatabase) -> None:
        self._connection = self._known = None

    async with opened(store):
        monkeypatch.setattr(PostgresGroup, "flush", stuck)
        monkeypatch.setattr(PostgresDatabase, "disconnect", leave_open)
        with pytest.raises(StoreUnavailableError):
            await store.commit([Writing("c1").turn(CaseStarted())])
        monkeypatch.undo()
        assert list(await store.load(CaseId("c1"))) == []
        with pytest.raises(psycopg.OperationalError):
            cut[0].execute("COMMIT")
        cut[0].close()
        await committed(store, Writing("c1").turn(CaseStarted()))


async def test_one_request_that_cannot_be_written_fails_no_other_of_its_group(store: PostgresStore) -> None:
    async with opened(store) as published:
        turns = [Writing(case).turn(CaseStarted()) for case in ("a", "b", "bad", "c")]
        turns[2].envelope.turn = 2**70  # wider than the column
        results = await asyncio.gather(*(store.commit([turn]) for turn in turns), return_exceptions=True)
        assert [type(result) for result in results] == [list, list, StoreError, list]
        assert "out of range" in str(results[2])
        assert sorted(turn.envelope.case for turn in published) == ["a", "b", "c"]
        assert await store.position() == 3


async def test_a_name_that_the_database_cannot_hold_is_refused_alone(store: PostgresStore) -> None:
    async with opened(store):
        refused, good = await store.commit(
            [Writing("c\0").turn(CaseStarted()), Writing("c1").turn(GoalReached(goal="a\0"))]
        )
        assert isinstance(refused, Refused)
        assert good == Committed(1)
        (event,) = await store.load(CaseId("c1"))
        assert event == GoalReached(goal="a\0", version=1)


# ---- a server that stops


@pytest.mark.slow
def sessions(store: PostgresStore) -> int:
    """How many sessions a store has on the server."""
    (name,) = parse_qs(urlsplit(store.place.url).query)["application_name"]
    with psycopg.connect(store.place.url, application_name="the test", autocommit=True) as connection:
        found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (name,))
        return int(found.fetchall()[0][0])


async def test_a_store_answers_and_closes_after_five_thousand_questions_that_nobody_waited_for(
    store: PostgresStore,
) -> None:
    """S077. Cancelled before they are asked, while they are, and as they are answered."""
    async with opened(store):
        await committed(store, Writing("c1").turn(CaseStarted()))
        asking = list[asyncio.Future[Any]]()
        for n in range(5_000):
            kind = store.claim(CaseId("c1")) if n % 5 == 0 else store.load(CaseId("c1"))
            asking.append(asyncio.ensure_future(kind))
            if n % 7 == 0:
                await asyncio.sleep(0.001 * (n % 3))  # some get as far as the server
            asking[n - n % 4].cancel()
            asking[n].cancel()
        ended = await asyncio.gather(*asking, return_exceptions=True)
        given_up = [each for each in ended if isinstance(each, asyncio.CancelledError)]
        assert len(given_up) > 2_500
        assert not [each for each in ended if isinstance(each, Exception)]
        assert [event.name for event in await store.load(CaseId("c1"))] == ["CASE_STARTED"]
        assert sessions(store) <= 5  # writing, the lease, claims, and two that ask
    await eventually(lambda: sessions(store) == 0)


async def test_a_column_that_somebody_adds_under_a_hub_costs_nobody_an_error(store: PostgresStore, url: str) -> None:
    """S081. Statements that were prepared before are prepared again."""
    d = counted([])
    async with CaseHub(d, store=store) as hub:
        for n in range(10):  # often enough that the driver prepares what is asked
            assert (await (await hub.start(d, a=n)).completed())["c"] == n
        with psycopg.connect(store.place.url, autocommit=True) as connection:
            sql = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
            names = [name for (name,) in connection.execute(sql, (store.place.schema,)).fetchall()]
            assert "cases" in names
            for name in names:
                connection.execute(f"ALTER TABLE {store.place.schema}.{name} ADD COLUMN extra integer".encode())
        for n in range(10):
            case = await hub.start(d, a=n)
            assert (await case.completed())["c"] == n
            assert len(await case.log.query(CaseStarted)) == 1
        assert hub.runtime.outage.told == 0
        assert await hub.tasks.list() == []


async def test_cases_wait_for_a_server_that_is_away_and_go_on_when_it_is_back(server: Postgres) -> None:
    runs: list[int] = []
    definition = counted(runs)
    store = PostgresStore(server.url)
    async with CaseHub(definition, store=store) as hub:
        before = await hub.start(definition, a=1)
        await before.completed()
        waiting = await hub.start(definition)
        await asyncio.to_thread(server.stop)
        signal = asyncio.ensure_future(waiting.signal(a=2))
        with pytest.raises(StoreUnavailableError, match="see that the server runs"):
            await store.position()
        await eventually(lambda: bool(hub.runtime.outage.trouble))
        assert not signal.done()
        await asyncio.to_thread(server.start)
        await asyncio.wait_for(signal, 120)
        assert (await asyncio.wait_for(waiting.completed(), 120))["c"] == 2
    assert runs == [1, 2]
    async with CaseHub(definition, store=PostgresStore(server.url)) as hub:
        assert await hub.log.position() == await hub.store.log.position() > 0


async def test_a_server_that_is_not_there_is_named_without_the_password(server: Postgres) -> None:
    await asyncio.to_thread(server.stop)
    store = PostgresStore(server.url.replace("test@", "test:secret@"))
    with pytest.raises(
        StoreUnavailableError, match=rf"postgresql://127\.0\.0\.1:{server.port}/postgres: .*see that the server runs"
    ) as raised:
        await store.open(lambda turns: None)
    assert "secret" not in f"{raised.value} {store.describe()}"


# ---- beside each other


async def test_two_schemas_of_a_database_have_a_log_each(store: PostgresStore, url: str) -> None:
    (schema,) = parse_qs(urlsplit(url).query)["schema"]
    other = PostgresStore(url.replace(f"schema={schema}", f"schema={schema}b"))
    try:
        async with opened(store), opened(other):
            await committed(store, Writing("c1").turn(CaseStarted()))
            assert (await store.position(), await other.position()) == (1, 0)
    finally:
        with psycopg.connect(store.place.url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema}b CASCADE".encode())


async def test_a_reader_sees_beside_a_hub_what_is_committed_and_writes_nothing(store: PostgresStore, url: str) -> None:
    reader = PostgresStore(url, read_only=True)
    async with opened(store):
        await committed(store, Writing("c1").turn(CaseStarted()))
        async with opened(reader):
            assert await reader.position() == 1
            with pytest.raises(StoreError, match="is open read-only"):
                await reader.commit([Writing("c2").turn(CaseStarted())])


# ---- where it goes


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://me@host", "names its database"),
        ("postgresql://me@host/db?schema=a;b", "small letters"),
        ("postgresql://me@host/db?schema=A", "small letters"),
        ("postgresql://me@host/db?lease=soon", "lease=soon: write a number of seconds"),
        ("postgresql://me@host/db?lease=0", "lease=0: write a number of seconds"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, error: str) -> None:
    with pytest.raises(SettingsError, match=error):
        Place.of(url)


def test_a_place_is_told_without_its_password_and_its_options() -> None:
    place = Place.of("postgresql://me:secret@host:5433/db?schema=claims&sslmode=require")
    assert str(place) == "postgresql://host:5433/db?schema=claims"
    assert "sslmode=require" in place.url
    assert "connect_timeout=10" in place.url
    assert Place.of("postgresql://host/db?lease=2.5").lease == 2.5
    assert "connect_timeout=3" in Place.of("postgresql://host/db?connect_timeout=3").url
