"""The SQLite store keeps the contract of stores, and what a file adds to it: groups, disks, migrations, queries."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from casehub.adapters import group, sqlite_writer, writer
from casehub.adapters.group import Known
from casehub.adapters.sqlite import SQLiteStore
from casehub.adapters.sqlite_writer import SQLiteDatabase
from casehub.adapters.writer import Request
from casehub.errors import SchemaError, SettingsError, StoreError, StoreUnavailableError
from casehub.events import EVENT_TYPES, CaseId, CaseStarted, ContextChanged, Event, GoalReached, TimerId
from casehub.query import EventQuery
from casehub.spi import Committed, Refused, TooLarge, Turn
from casehub.testing.event_logs import AT, Writing, committed, opened
from casehub.testing.stores import StoreContract


class TestSQLiteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(tmp_path / "cases.db")


class TestSQLiteStoreWithMarksEverywhere(StoreContract):
    """Where the index by kind ends within every case, cases are forgotten at once, and tails are short."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SQLiteStore:
        monkeypatch.setattr(group, "MARK_EVERY", 7)
        monkeypatch.setattr(group, "KNOWN_CASES", 3)
        monkeypatch.setattr("casehub.adapters.sql_log.TAIL_BATCH", 10)
        return SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")


class TestSQLiteStoreThatReadsAlong(StoreContract):
    """Where every query means more kinds than are looked up one by one."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SQLiteStore:
        monkeypatch.setattr("casehub.adapters.sql_log.KINDS_MOST", 0)
        return SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cases.db"


@pytest.fixture
def store(path: Path) -> SQLiteStore:
    return SQLiteStore(path, synchronous="NORMAL")


def files(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir())


def size(path: Path, suffix: str = "") -> int:
    return path.with_name(path.name + suffix).stat().st_size


def started(*cases: str) -> list[Turn]:
    return [Writing(case).turn(CaseStarted()) for case in cases]


@dataclass
class Held:
    """A writer that waits before each group. `go`: let it go on; `taken`: it has a group; `sizes`: of the groups so far."""

    go: threading.Event = field(default_factory=threading.Event)
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    sizes: list[int] = field(default_factory=list)


@contextmanager
def held_writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    held, loop, write = Held(), asyncio.get_running_loop(), SQLiteDatabase.write

    def waiting(self: SQLiteDatabase, group: Sequence[Request]) -> None:
        held.sizes.append(len(group))
        loop.call_soon_threadsafe(held.taken.set)
        assert held.go.wait(120)
        write(self, group)

    monkeypatch.setattr(SQLiteDatabase, "write", waiting)
    try:
        yield held
    finally:
        held.go.set()


# ---- groups


async def test_all_that_waits_is_committed_as_one_group(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_writer(monkeypatch) as held:
        async with opened(store) as published:
            tasks = [asyncio.ensure_future(store.commit([turn])) for turn in started(*(f"c{n}" for n in range(50)))]
            await asyncio.sleep(0)
            held.go.set()
            results = await asyncio.gather(*tasks)
            assert [result for (result,) in results] == [Committed(seq) for seq in range(1, 51)]
            assert len(published) == 50
    assert sum(held.sizes) == 50
    assert len(held.sizes) <= 2  # what the writer took before all were there, and the rest


async def test_a_group_is_bounded(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_EVENTS", 10)
    with held_writer(monkeypatch) as held:
        async with opened(store):
            turns = [Writing(f"c{n}").turn(*(GoalReached(goal="a") for _ in range(4))) for n in range(30)]
            tasks = [asyncio.ensure_future(store.commit([turn])) for turn in turns]
            await asyncio.sleep(0)
            held.go.set()
            await asyncio.gather(*tasks)
    assert sum(held.sizes) == 30
    assert max(held.sizes) == 3


async def test_the_loop_hears_of_a_group_once(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_writer(monkeypatch) as held:
        heard: list[int] = []
        await store.open(lambda turns: heard.append(len(turns)))
        try:
            tasks = [asyncio.ensure_future(store.commit([turn])) for turn in started(*(f"c{n}" for n in range(20)))]
            await asyncio.sleep(0)
            held.go.set()
            await asyncio.gather(*tasks)
        finally:
            await store.close()
    assert heard == held.sizes


async def test_one_request_that_cannot_be_written_fails_no_other_of_its_group(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held_writer(monkeypatch) as held:
        async with opened(store) as published:
            turns = started("a", "b", "bad", "c")
            turns[2].envelope.turn = 2**70  # wider than SQLite's integers
            tasks = [asyncio.ensure_future(store.commit([turn])) for turn in turns]
            await asyncio.sleep(0)
            held.go.set()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [list, list, StoreError, list]
            assert "OverflowError" in str(results[2])
            assert [turn.envelope.case for turn in published] == ["a", "b", "c"]
            assert await store.position() == 3
            assert not [finding for finding in await store.check() if finding.fault]


async def test_an_event_that_is_too_large_or_no_json_fails_its_turn_alone(path: Path) -> None:
    store = SQLiteStore(path, event_bytes=100)
    fits = ContextChanged(facts={"a": "x" * 10})
    size = len(b'{"facts":{"a":""},"deleted":[],"hidden":[],"shown":[],"confidence":null,"binding":""}')
    async with opened(store) as published:
        results = await store.commit(
            [
                Writing("a").turn(fits),
                Writing("b").turn(GoalReached(goal="a"), ContextChanged(facts={"a": "x" * (101 - size)})),
                Writing("c").turn(ContextChanged(facts={"a": "x" * (100 - size)})),
                Writing("d").turn(ContextChanged(facts={"a": object()})),  # type: ignore[dict-item]
                Writing("e").turn(GoalReached(goal="a")),
            ]
        )
        assert results[:3] == [Committed(1), TooLarge("CONTEXT_CHANGED", 101, 100), Committed(2)]
        refused = results[3]
        assert isinstance(refused, Refused)
        assert (refused.event, results[4]) == ("CONTEXT_CHANGED", Committed(3))
        assert "'d'" in refused.reason
        assert [turn.envelope.case for turn in published] == ["a", "c", "e"]
        assert await store.position() == 3


@pytest.mark.parametrize("where", ["case", "tenant", "definition", "key", "timer", "by", "binding"])
async def test_an_identifier_that_is_no_text_is_refused(store: SQLiteStore, where: str) -> None:
    bad = "\ud800"
    case, tenant, definition = (bad if where == name else "fine" for name in ("case", "tenant", "definition"))
    event = ContextChanged(facts={}, binding=bad if where == "binding" else "b", by=bad if where == "by" else "engine")
    turn = Writing(case, tenant=tenant, definition=definition).turn(event, key=bad if where == "key" else "")
    turn.timers[TimerId(bad if where == "timer" else "t")] = AT
    async with opened(store):
        refused, good = await store.commit([turn, *started("c1")])
        assert isinstance(refused, Refused)
        assert "use valid text" in refused.reason or "cannot be written" in refused.reason
        assert good == Committed(1)


@pytest.mark.parametrize("where", ["key", "by", "binding"])
async def test_an_identifier_of_another_type_is_refused(store: SQLiteStore, where: str) -> None:
    bad: Any = 5
    event = ContextChanged(facts={}, binding=bad if where == "binding" else "b", by=bad if where == "by" else "engine")
    async with opened(store):
        turn = Writing("c").turn(event, key=bad if where == "key" else "")
        refused, good = await store.commit([turn, *started("c1")])
        assert isinstance(refused, Refused)
        assert refused.event == "CONTEXT_CHANGED"
        assert "a turn of case 'c'" in refused.reason
        assert good == Committed(1)


async def test_an_event_of_a_class_that_cannot_be_read_back_is_refused(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EVENT_TYPES, "UNREADABLE", Event)  # so that the class is gone again afterwards

    @dataclass(slots=True, kw_only=True)
    class Unreadable(Event):
        what: Nowhere = None  # type: ignore[name-defined]  # noqa: F821

    async with opened(store):
        refused, good = await store.commit([Writing("c").turn(Unreadable()), *started("c1")])
        assert isinstance(refused, Refused)
        assert "its fields cannot be read back" in refused.reason
        assert good == Committed(1)


async def test_a_subscriber_that_raises_keeps_nobody_from_their_answer(store: SQLiteStore) -> None:
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))

    def published(turns: Sequence[Turn]) -> None:
        raise ZeroDivisionError

    await store.open(published)
    try:
        assert list(await store.commit(started("c1"))) == [Committed(1)]
    finally:
        await store.close()
    assert isinstance(heard[0]["exception"], ZeroDivisionError)


async def test_a_question_whose_asker_gave_up_is_dropped_quietly(store: SQLiteStore) -> None:
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))
    async with opened(store):
        for _ in range(20):
            asking = asyncio.ensure_future(store.position())
            await asyncio.sleep(0)
            asking.cancel()
        assert await store.position() == 0
    assert heard == []


async def test_the_latest_time_is_known_again_after_opening(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "MARK_EVERY", 7)
    writing = Writing("c1")
    async with opened(store):
        await committed(store, writing.turn(GoalReached(goal="late"), at=AT + timedelta(hours=10)))
    async with opened(store):
        for _ in range(10):
            await committed(store, writing.turn(GoalReached(goal="early")))
        found = await store.query(EventQuery(since=AT + timedelta(hours=5)))
        assert found == [GoalReached(goal="late", version=1)]


# ---- the disk


async def test_a_full_disk_fails_the_group_and_the_store_works_again_afterwards(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [0]
    connect = SQLiteDatabase.connect

    def limited(self: SQLiteDatabase) -> tuple[sqlite3.Connection, Known]:
        connection, known = connect(self)
        connection.execute(f"PRAGMA max_page_count = {pages[0] or 1_000_000}")
        return connection, known

    monkeypatch.setattr(SQLiteDatabase, "connect", limited)
    one, two = Writing("c1"), Writing("c2")
    async with opened(store) as published:
        await committed(store, one.turn(CaseStarted()), two.turn(CaseStarted()))
        pages[0] = 1  # the pages there are now, no more
        big, small = one.turn(ContextChanged(facts={"a": "x" * 200_000})), two.turn(GoalReached(goal="a"))
        with pytest.raises(StoreUnavailableError, match=r"cases\.db: database or disk is full.*load the case"):
            await store.commit([big, small])
        assert (big.envelope.seq, small.envelope.seq) == (0, 0)
        assert len(published) == 2
        assert len(await store.load(CaseId("c1"))) == len(await store.load(CaseId("c2"))) == 1
        pages[0] = 0
        assert list(await store.commit([big, small])) == [Committed(3), Committed(4)]
        assert not [finding for finding in await store.check() if finding.fault]


async def test_a_database_that_somebody_else_has_locked_is_unavailable_and_comes_back(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "BUSY", 0.01)
    writing = Writing("c1")
    async with opened(store):
        await committed(store, writing.turn(CaseStarted()))
        turn = writing.turn(GoalReached(goal="a"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError, match="locked"):
                await store.commit([turn])
            other.execute("ROLLBACK")
        assert list(await store.commit([turn])) == [Committed(2)]


async def test_somebody_who_reads_for_long_holds_up_no_commit(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "WAL_PAGES", 20)
    writing = Writing("c1")
    async with opened(store):
        await committed(store, writing.turn(CaseStarted()))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
            for _ in range(30):
                await committed(store, writing.turn(GoalReached(goal="a")))
            assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
        assert await store.position() == 31


async def test_the_wal_does_not_grow_without_end_under_load(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "WAL_PAGES", 50)
    writing = Writing("c1")
    async with opened(store):
        for _ in range(300):
            await committed(store, writing.turn(ContextChanged(facts={"a": "x" * 3000})))
        assert size(path, "-wal") < 150 * 4096
        assert size(path) > 300 * 3000 / 2  # it went into the database


async def test_in_an_idle_moment_the_wal_moves_into_the_database(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "IDLE", 0.01)
    loop, moved = asyncio.get_running_loop(), asyncio.Event()
    checkpoint = SQLiteDatabase.checkpoint

    def noticed(self: SQLiteDatabase, mode: Any) -> None:
        checkpoint(self, mode)
        loop.call_soon_threadsafe(moved.set)

    monkeypatch.setattr(SQLiteDatabase, "checkpoint", noticed)
    async with opened(store):
        await committed(store, Writing("c1").turn(ContextChanged(facts={"a": "x" * 100_000})))
        await asyncio.wait_for(moved.wait(), 120)
        assert size(path) > 100_000


@pytest.mark.parametrize(("synchronous", "level"), [("FULL", 2), ("NORMAL", 1)])
def test_the_connection_that_writes_is_set_up_for_what_is_promised(path: Path, synchronous: Any, level: int) -> None:
    database = SQLiteDatabase(str(path), synchronous)
    connection, _ = database.connect()
    pragmas = {name: connection.execute(f"PRAGMA {name}").fetchone() for name in ("synchronous", "journal_mode", "wal_autocheckpoint", "mmap_size")}  # fmt: skip
    assert pragmas == {"synchronous": (level,), "journal_mode": ("wal",), "wal_autocheckpoint": (0,), "mmap_size": (0,)}
    database.disconnect()


# ---- opening and closing


async def test_closing_writes_what_is_queued_and_leaves_one_file_and_its_lock(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set(threading.enumerate())
    with held_writer(monkeypatch) as held:
        await store.open(lambda turns: None)
        tasks = [asyncio.ensure_future(store.commit([turn])) for turn in started("a")]
        await held.taken.wait()
        tasks += [asyncio.ensure_future(store.commit([turn])) for turn in started("b", "c")]
        await asyncio.sleep(0)
        closing_ = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        held.go.set()
        await closing_
        assert held.sizes == [1, 2]
        assert [result for (result,) in await asyncio.gather(*tasks)] == [Committed(1), Committed(2), Committed(3)]
    assert set(threading.enumerate()) == threads
    assert files(path) == ["cases.db", "cases.db.lock"]
    assert path.with_name("cases.db.lock").read_text() == ""
    async with opened(store):
        assert await store.position() == 3


async def test_a_cancelled_close_closes_all_the_same(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set(threading.enumerate())
    with held_writer(monkeypatch) as held:
        await store.open(lambda turns: None)
        await store.position()
        commit = asyncio.ensure_future(store.commit(started("a")))
        await asyncio.sleep(0)
        closing_ = asyncio.ensure_future(store.close())
        for _ in range(20):  # also when it waits for the writer already
            await asyncio.sleep(0)
            closing_.cancel()
        held.go.set()
        with pytest.raises(asyncio.CancelledError):
            await closing_
        assert list(await commit) == [Committed(1)]
    assert set(threading.enumerate()) == threads
    assert files(path) == ["cases.db", "cases.db.lock"]


async def test_a_close_in_a_cancelled_scope_closes_all(store: SQLiteStore, path: Path) -> None:
    threads = set(threading.enumerate())
    await store.open(lambda turns: None)
    await committed(store, *started("a"))
    assert await store.position() == 1
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.close()
    assert set(threading.enumerate()) == threads
    assert files(path) == ["cases.db", "cases.db.lock"]


def open_files() -> list[str]:
    return sorted(str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if "cases" in str(link.resolve()))


async def test_a_cancelled_open_leaves_nothing_behind(store: SQLiteStore, path: Path) -> None:
    threads = set(threading.enumerate())
    for number in range(30):
        opening = asyncio.ensure_future(store.open(lambda turns: None))
        for _ in range(number % 6):
            await asyncio.sleep(0)
        opening.cancel()
        (outcome,) = await asyncio.gather(opening, return_exceptions=True)
        if outcome is None:  # it was faster
            await store.close()
        assert set(threading.enumerate()) == threads
        assert open_files() == []
    async with opened(store):
        await committed(store, *started("a"))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path.write_bytes(b"no database, but quite some text\n" * 200), SchemaError),
        (lambda path: path.mkdir(), StoreUnavailableError),
    ],
    ids=["a text", "a directory"],
)
async def test_an_open_that_fails_leaves_nothing_behind(
    store: SQLiteStore, path: Path, make: Callable[[Path], object], error: type[StoreError]
) -> None:
    threads = set(threading.enumerate())
    make(path)
    for _ in range(2):
        with pytest.raises(error, match=r"cases\.db"):
            await store.open(lambda turns: None)
    assert set(threading.enumerate()) == threads
    assert open_files() == []
    assert files(path) == ["cases.db", "cases.db.lock"]


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"nowhere/cases\.db\.lock: No such file.*make the directory"):
        await SQLiteStore(tmp_path / "nowhere" / "cases.db").open(lambda turns: None)


@pytest.mark.parametrize("path_", ["", ":memory:"])
def test_a_path_that_names_no_file_is_refused(path_: str) -> None:
    with pytest.raises(SettingsError, match="MemoryStore"):
        SQLiteStore(path_)


def test_an_unknown_synchronous_is_refused(path: Path) -> None:
    with pytest.raises(SettingsError, match="'FULL' or 'NORMAL'"):
        SQLiteStore(path, synchronous="OFF")  # type: ignore[arg-type]
