"""Every store of snapshots keeps the contract, and what a file or a server adds to it."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from redis.asyncio import Redis

from casehub.adapters.memory_snapshots import MemorySnapshots
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.postgres.snapshots import PostgresSnapshots
from casehub.adapters.redis.snapshots import RedisSnapshots
from casehub.adapters.sqlite import SQLiteStore
from casehub.adapters.sqlite_schema import MIGRATIONS
from casehub.adapters.sqlite_snapshots import SQLiteSnapshots
from casehub.errors import SchemaError, SettingsError, SnapshotError, StoreError, StoreUnavailableError
from casehub.events import CaseId, CaseStarted
from casehub.lookup import snapshots_of
from casehub.testing.event_logs import Writing, committed, opened
from casehub.testing.snapshots import SnapshotContract, in_use, snapshot_of


class Pool:
    """An application's connections, as `psycopg_pool` gives them: transactions, committed on the way out."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.taken = 0

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        self.taken += 1
        with psycopg.connect(self.url, row_factory=psycopg.rows.dict_row) as connection:  # type: ignore[arg-type]  # an application's own
            yield connection


class TestMemorySnapshots(SnapshotContract):
    @pytest.fixture
    def snapshots(self) -> MemorySnapshots:
        return MemorySnapshots()


class TestSQLiteSnapshots(SnapshotContract):
    @pytest.fixture
    def snapshots(self, tmp_path: Path) -> SQLiteSnapshots:
        return SQLiteSnapshots(tmp_path / "snapshots.db")


class TestSQLiteSnapshotsBesideALog(SnapshotContract):
    """In the file of a log that is open in this process."""

    @pytest.fixture
    async def snapshots(self, tmp_path: Path) -> AsyncIterator[SQLiteSnapshots]:
        async with opened(SQLiteStore(tmp_path / "cases.db")):
            yield SQLiteSnapshots(tmp_path / "cases.db")


class TestPostgresSnapshots(SnapshotContract):
    @pytest.fixture
    def snapshots(self, postgres_url: str) -> PostgresSnapshots:
        return PostgresSnapshots(postgres_url)


class TestPostgresSnapshotsBesideALog(SnapshotContract):
    @pytest.fixture
    async def snapshots(self, postgres_url: str) -> AsyncIterator[PostgresSnapshots]:
        async with opened(PostgresStore(postgres_url)):
            yield PostgresSnapshots(postgres_url)


class TestPostgresSnapshotsOverAPool(SnapshotContract):
    """Over an application's own connections."""

    @pytest.fixture
    async def snapshots(self, postgres: str, postgres_url: str) -> PostgresSnapshots:
        async with opened(PostgresStore(postgres_url)):
            pass
        return PostgresSnapshots(postgres_url, pool=Pool(postgres))


class TestRedisSnapshots(SnapshotContract):
    @pytest.fixture
    def snapshots(self, redis_url: str) -> RedisSnapshots:
        return RedisSnapshots(redis_url)


class TestRedisSnapshotsOverAClient(SnapshotContract):
    """Over an application's own client."""

    @pytest.fixture
    async def snapshots(self, redis: str, redis_url: str) -> AsyncIterator[RedisSnapshots]:
        client = Redis.from_url(redis)
        yield RedisSnapshots(client, prefix=redis_url.rpartition("prefix=")[2])
        assert await client.ping()  # it stays the application's
        await client.aclose()


@pytest.mark.parametrize(
    "snapshots", [SQLiteSnapshots("x.db"), PostgresSnapshots("postgresql://h/d"), RedisSnapshots("redis://h")]
)
async def test_what_is_not_open_says_so(snapshots: Any) -> None:
    with pytest.raises(StoreError, match="are not open; use them through a hub"):
        await snapshots.latest(CaseId("c1"))


# ---- SQLite


async def test_snapshots_beside_a_log_never_checkpoint_and_leave_when_it_does(tmp_path: Path) -> None:
    path = tmp_path / "cases.db"
    async with opened(store := SQLiteStore(path)):
        await committed(store, Writing("c1").turn(CaseStarted()))
        snapshots = SQLiteSnapshots(path)
        async with in_use(snapshots):
            pages = 0
            for n in range(20):
                await snapshots.save(snapshot_of(f"c{n}", payload=b"x" * 500_000))
                pages = path.with_name(path.name + "-wal").stat().st_size
            assert pages > 10_000_000
            assert len(await store.load(CaseId("c1"))) == 1
    assert not path.with_name(path.name + "-wal").exists()
    async with in_use(snapshots):
        assert (await snapshots.latest(CaseId("c19"))) is not None


WRITER = """
import asyncio, sys
from casehub.adapters.sqlite_snapshots import SQLiteSnapshots
from casehub.errors import SnapshotConflictError
from casehub.events import CaseId
from casehub.testing.snapshots import in_use, snapshot_of

async def main():
    snapshots, refused = SQLiteSnapshots(sys.argv[1]), 0
    async with in_use(snapshots):
        print("open", flush=True)
        sys.stdin.readline()
        for _ in range(int(sys.argv[2])):
            while True:
                last = await snapshots.latest(CaseId("c1"))
                (written,) = await snapshots.save_all([(snapshot_of("c1"), last.version)])
                if not isinstance(written, SnapshotConflictError):
                    break
                refused += 1
    print(refused)

asyncio.run(main())
"""


async def test_two_processes_that_read_and_then_write_one_file_lose_nothing_and_find_it_locked_never(
    tmp_path: Path,
) -> None:
    """S083. A file of snapshots is the one of ours that two processes may write; a log has one owner."""
    path, times = tmp_path / "snapshots.db", 1_000
    async with in_use(snapshots := SQLiteSnapshots(path)):
        await snapshots.save(snapshot_of("c1"))
    command = [sys.executable, "-c", WRITER, str(path), str(times)]
    pipe = asyncio.subprocess.PIPE
    writers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert await writer.stdout.readline() == b"open\n"
    said = await asyncio.gather(*(writer.communicate(b"\n") for writer in writers))
    assert [writer.returncode for writer in writers] == [0, 0], said
    async with in_use(snapshots):
        last = await snapshots.latest(CaseId("c1"))
        assert last is not None
        assert last.version == 1 + 2 * times


async def test_a_file_of_snapshots_alone_can_become_that_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "cases.db"
    snapshots = SQLiteSnapshots(path)
    async with in_use(snapshots):
        await snapshots.save(snapshot_of("c1"))
    async with opened(store := SQLiteStore(path)):
        await committed(store, Writing("c1").turn(CaseStarted()))
        async with in_use(snapshots):
            assert await snapshots.latest(CaseId("c1")) is not None


async def test_an_older_file_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cases.db"
    with monkeypatch.context() as older:
        older.setattr("casehub.adapters.sqlite_schema.MIGRATIONS", MIGRATIONS[:-1])
        older.setattr("casehub.adapters.sqlite.MIGRATIONS", MIGRATIONS[:-1])
        async with opened(SQLiteStore(path)):
            pass
    with pytest.raises(SchemaError, match="casehub db migrate"):
        await SQLiteSnapshots(path).open()
    assert SQLiteStore(path).schema_version() == MIGRATIONS[-2].version
    async with opened(SQLiteStore(path)):
        pass


async def test_a_damaged_row_or_file_is_said_and_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "snapshots.db"
    async with in_use(snapshots := SQLiteSnapshots(path)):
        await snapshots.save(snapshot_of("bad"))
        good = await snapshots.save(snapshot_of("good"))
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE snapshots SET status = 'os.system' WHERE case_id = 'bad'")
        with pytest.raises(SnapshotError, match="snapshot of case 'bad': its row is damaged"):
            await snapshots.latest(CaseId("bad"))
        assert await snapshots.latest(CaseId("good")) == good
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("DROP TABLE snapshots")
        with pytest.raises(StoreUnavailableError):
            await snapshots.latest(CaseId("good"))
    path.write_bytes(b"no database" * 100)
    with pytest.raises(SchemaError):
        await snapshots.open()


# ---- PostgreSQL


async def test_two_processes_make_an_empty_database_at_the_same_time(postgres_url: str) -> None:
    several = [PostgresSnapshots(postgres_url) for _ in range(4)]
    await asyncio.gather(*(each.open() for each in several))
    saves = [each.save(snapshot_of(f"c{n}")) for n, each in enumerate(several)]
    assert [written.version for written in await asyncio.gather(*saves)] == [1] * 4
    for each in several:
        await each.close()


async def test_the_application_s_pool_is_taken_for_every_question(postgres: str, postgres_url: str) -> None:
    async with opened(PostgresStore(postgres_url)):
        pass
    pool = Pool(postgres)
    async with in_use(PostgresSnapshots(postgres_url, pool=pool)) as snapshots:
        await snapshots.save(snapshot_of("c1"))
        await snapshots.latest(CaseId("c1"))
    assert pool.taken == 2


async def test_a_pool_on_a_database_without_the_tables_says_what_makes_them(postgres: str, postgres_url: str) -> None:
    async with in_use(PostgresSnapshots(postgres_url, pool=Pool(postgres))) as snapshots:
        with pytest.raises(StoreError, match="casehub db migrate"):
            await snapshots.latest(CaseId("c1"))


async def test_a_server_that_is_away_is_said_to_be() -> None:
    with pytest.raises(StoreUnavailableError, match="see that the server runs"):
        await PostgresSnapshots("postgresql://nobody@127.0.0.1:1/none").open()
    with pytest.raises(StoreUnavailableError, match="see that the server runs"):
        await RedisSnapshots("redis://127.0.0.1:1/0").open()


# ---- Redis


async def test_after_questions_that_were_cancelled_each_key_has_its_own_answer(redis_url: str) -> None:
    """S053. A cancelled question leaves no answer behind for who asks next."""
    async with in_use(snapshots := RedisSnapshots(redis_url)):
        for n in range(10):
            await snapshots.save(snapshot_of(f"c{n}", payload=f"of c{n}".encode()))
        answered = 0
        for n in range(2_000):
            asking = asyncio.ensure_future(snapshots.latest(CaseId(f"c{n % 10}")))
            for _ in range(n % 7):
                await asyncio.sleep(0)
            if n % 3:
                asking.cancel()
            try:
                found = await asking
            except asyncio.CancelledError:
                continue
            assert found is not None
            assert (found.id, found.payload) == (f"c{n % 10}", f"of c{n % 10}".encode())
            answered += 1
        assert 600 < answered < 2_000


async def test_a_damaged_hash_and_another_kind_of_key_are_said(redis: str, redis_url: str) -> None:
    prefix = redis_url.rpartition("prefix=")[2]
    async with Redis.from_url(redis) as client, in_use(RedisSnapshots(redis_url)) as snapshots:
        good = await snapshots.save(snapshot_of("good"))
        await snapshots.save(snapshot_of("bad"))
        await client.hset(f"{prefix}:{{default}}:snapshot:bad", "status", "os.system")  # type: ignore[misc]  # redis-py's union
        await client.set(f"{prefix}:{{default}}:snapshot:other", "text")
        with pytest.raises(SnapshotError, match="its hash is damaged"):
            await snapshots.latest(CaseId("bad"))
        with pytest.raises(StoreError, match="WRONGTYPE"):
            await snapshots.latest(CaseId("other"))
        assert await snapshots.latest(CaseId("good")) == good


async def test_a_client_that_reads_text_is_refused_before_it_spoils_anything() -> None:
    client = Redis(decode_responses=True)
    with pytest.raises(SettingsError, match="without decode_responses"):
        RedisSnapshots(client)
    await client.aclose()


# ---- by URL


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory://", MemorySnapshots),
        ("sqlite:///some.db", SQLiteSnapshots),
        ("postgresql://me@localhost/some", PostgresSnapshots),
        ("redis://localhost:6379/1?prefix=mine", RedisSnapshots),
        ("rediss://localhost", RedisSnapshots),
        ("unix:///run/redis.sock", RedisSnapshots),
    ],
)
def test_a_url_says_where_snapshots_are_kept(url: str, kind: type) -> None:
    assert type(snapshots_of(url)) is kind


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mongo://x", "no store of snapshots has the scheme 'mongo'"),
        ("sqlite://host/file", "write sqlite:///file.db"),
        ("sqlite:///a.db?synchronous=FULL", "has no option 'synchronous'"),
    ],
)
def test_a_url_that_names_none_says_so(url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        snapshots_of(url)
