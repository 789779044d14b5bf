"""Cases are kept for a while after their end, then archived or deleted, whatever else the hub does."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from casehub import (
    CaseCompleted,
    CaseDefinition,
    CaseHub,
    CaseNotFoundError,
    CaseStatus,
    FileError,
    Permanent,
    Retention,
    SettingsError,
    transcript,
)
from casehub.adapters.clock import VirtualClock
from casehub.adapters.memory import MemoryStore
from casehub.adapters.sqlite import SQLiteStore
from casehub.errors import StoreUnavailableError
from casehub.query import CaseQuery, CaseSummary
from casehub.retention import KEEP, Keeper, archived, retiring
from casehub.testing import CaseTestKit
from casehub.testing.event_logs import AT, committed, opened
from casehub.testing.retention import whole
from tests.staging import Kept, idle

echo = CaseDefinition("echo", goal="said")


@echo.worker(writes="said")
async def say(text: str) -> str:
    if text == "boom":
        raise Permanent("boom")
    return text


wait = CaseDefinition("wait", goal="said", signals={"said": str})

inner = CaseDefinition("inner", goal="heard", signals={"heard": str})
outer = CaseDefinition("outer", goal="told")


@outer.sub_case(inner, takes="heard", writes="told")
def ask(text: str) -> dict[str, str]:
    return {}


async def left(kit: CaseTestKit) -> list[str]:
    return sorted(case.case for case in await kit.hub.cases())


def test_cases_are_kept_ninety_days_unless_something_else_is_said() -> None:
    assert CaseHub(echo)._parts.retention is KEEP
    assert (KEEP.after, KEEP.archive) == ("90d", None)
    assert str(KEEP) == "cases are deleted 90d after their end"
    assert str(Retention(timedelta(days=2), archive="old")) == "cases are archived in old 2d after their end"


async def test_an_ended_case_goes_after_its_time_and_an_open_one_stays() -> None:
    async with CaseTestKit(echo, wait, retention=Retention("90d")) as kit:
        case = await kit.start(echo, text="hello")
        await kit.hub.start(wait, case_id="open")
        await kit.advance("89d")
        assert await left(kit) == sorted([case.id, "open"])
        await kit.advance("2d")
        assert await left(kit) == ["open"]
        with pytest.raises(CaseNotFoundError):
            await kit.hub.case(case.id).status()
        assert await kit.hub.case("open").status() is CaseStatus.WAITING


async def test_without_retention_everything_is_kept() -> None:
    async with CaseTestKit(echo, retention=None) as kit:
        case = await kit.start(echo, text="hello")
        await kit.advance("4000d")
        assert await left(kit) == [case.id]
        with pytest.raises(SettingsError, match="retention is off"):
            await kit.hub.retention.plan()
        (due,) = await kit.hub.retention.plan(Retention("1d"))
        assert (due.definition, due.cases) == ("echo", 1)


async def test_a_round_comes_every_so_often_and_after_a_restart_when_it_is_due() -> None:
    async with CaseTestKit(echo, retention=Retention("1h", every="10h")) as kit:
        first = await kit.start(echo, text="a")
        await kit.advance("2m")  # the first round: nothing is due
        await kit.advance("9h")
        assert await left(kit) == [first.id]
        await kit.restart()
        await kit.advance("50m")
        assert await left(kit) == [first.id]
        await kit.advance("20m")
        assert await left(kit) == []


async def test_a_family_goes_when_the_last_of_it_has_ended_long_enough_ago() -> None:
    async with CaseTestKit(outer, inner, retention=Retention("10d")) as kit:
        case = await kit.start(outer, text="hello")
        await case.quiescent()
        (child,) = await case.children()
        await case.cancel()
        await kit.advance("9d")
        assert await left(kit) == sorted([case.id, child.id])
        await kit.advance("2d")
        assert await left(kit) == []


async def test_a_faulted_case_that_goes_on_again_stays() -> None:
    async with CaseTestKit(echo, retention=Retention("10d")) as kit:
        case = await kit.start(echo, text="boom")
        await case.kill()
        await kit.advance("11d")
        assert await left(kit) == []


async def test_what_a_durable_subscriber_has_still_to_hear_stays() -> None:
    store, clock = Retiring(), VirtualClock()
    heard = asyncio.Event()
    hub = CaseHub(echo, store=store, clock=clock, retention=Retention("1d"))

    @hub.on(CaseCompleted, durable="pager")
    async def page(event: CaseCompleted) -> None:
        await heard.wait()

    async with hub:
        case = await hub.start(echo, text="hello")
        await case.completed()
        clock.move("2d")
        done = await hub.retention.run()
        assert (done.cases, list(done.kept)) == (0, [case.id])
        heard.set()
        await _until_kept(hub)
        assert (await hub.retention.run()).cases == 1


async def _until_kept(hub: CaseHub) -> None:
    for _ in range(1_000):
        if await hub.store.bookmark("pager") == await hub.log.position():
            return
        await idle()
    raise AssertionError("the subscriber never kept its position")


class Retiring(Kept):
    """A store in memory that is kept, and retires."""

    def __init__(self) -> None:
        super().__init__()
        self.away = 0

    async def expired(self, *asked: object) -> Sequence[Sequence[CaseSummary]]:
        if self.away:
            self.away -= 1
            raise StoreUnavailableError("the store is away")
        return await self.store.expired(*asked)  # type: ignore[arg-type]  # handed on

    async def weigh(self, cases: Sequence[CaseSummary]) -> tuple[int, int]:
        return await self.store.weigh(cases)

    async def retire(self, cases: Sequence[CaseSummary]) -> Sequence[str]:
        return await self.store.retire(cases)

    async def sweep(self, rows: int) -> int:
        return await self.store.sweep(rows)

    async def retired(self, *asked: object) -> object:
        return await self.store.retired(*asked)  # type: ignore[arg-type]  # handed on


async def test_a_round_that_fails_comes_again() -> None:
    store, clock = Retiring(), VirtualClock()
    store.away = 1
    async with CaseHub(echo, store=store, clock=clock, retention=Retention("1h", every="2h")) as hub:
        await (await hub.start(echo, text="hello")).completed()
        for _ in range(12):
            clock.move("1h")
            await idle()
        assert store.away == 0
        assert list(await hub.cases()) == []


def test_a_store_that_retires_nothing_is_refused_when_retention_is_asked_for() -> None:
    CaseHub(echo, store=Kept())
    with pytest.raises(SettingsError, match="Kept retires no cases"):
        CaseHub(echo, store=Kept(), retention=Retention("1d"))


@pytest.mark.parametrize("wrong", [{"after": "soon"}, {"every": "0s"}, {"after": timedelta(days=-1)}])
def test_spans_that_are_none_are_refused(wrong: Mapping[str, str]) -> None:
    with pytest.raises(SettingsError):
        Retention(**wrong)  # type: ignore[arg-type]  # that is what is tested


# ---- archives


async def test_a_case_is_archived_before_it_goes(tmp_path: Path) -> None:
    async with CaseTestKit(outer, inner, retention=Retention("1d", archive=tmp_path / "old")) as kit:
        case = await kit.start(outer, text="hello")
        await case.quiescent()
        (child,) = await case.children()
        await kit.hub.case(child.id).signal(heard="yes")
        await case.completed()
        events = await kit.hub.store.load(case.id)
        await kit.advance("2d")
        await kit.hub.retention.run()  # waits for the round that has begun
        assert await left(kit) == []
    (file,) = (tmp_path / "old").rglob("*.ndjson")
    assert file.parent.name == "2030-01"
    assert file.stat().st_mode & 0o777 == 0o600
    found = transcript.read(file)
    assert [each.id for each in found.cases] == [case.id, child.id]
    assert list(found.cases[0].events) == list(events)


async def test_a_case_that_cannot_be_archived_stays(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("in the way")
    async with CaseTestKit(echo, retention=Retention("1d", archive=tmp_path / "old")) as kit:
        case = await kit.start(echo, text="hello")
        await case.completed()
        kit.clock.move("2d")
        assert await left(kit) == [case.id]
        done = await kit.hub.retention.run()
        assert done.cases == 0
        assert "old" in done.kept[case.id]
        (tmp_path / "old").unlink()
        await kit.hub.retention.run()
        assert await left(kit) == []


NAMES = [
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    "CON",
    "%2e%2e",
    "nul\0",
    "x" * 5_000,
    "\u2024\u2024",
    "-rf",
    "",
    "a b",
    "~root",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_id_leads_out_of_the_archive(name: str, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    case = CaseSummary(
        case=name, definition="../x", status=CaseStatus.COMPLETED, version=1, seq=1, started_at=AT, changed_at=AT,
        tenant="../../t",
    )  # fmt: skip
    path = archived(root, case)
    assert path.parent.parent == root
    assert path.resolve().is_relative_to(root.resolve())
    assert path.name.isascii()
    assert len(path.name) < 100
    assert path.name[0] not in ".-"


def test_an_archive_follows_no_link(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "archive", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    os.symlink(elsewhere, root / f"{AT:%Y-%m}")
    case = CaseSummary(
        case="c1", definition="claim", status=CaseStatus.COMPLETED, version=1, seq=1, started_at=AT, changed_at=AT
    )
    with pytest.raises(FileError, match="it is a link"):
        archived(root, case)


# ---- the work


async def test_a_round_is_bounded_and_run_goes_on_to_the_end(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")
    clock = VirtualClock(AT + timedelta(days=9))
    async with opened(store):
        for number in range(130):
            await committed(store, *whole(f"c{number}"))
        keeper = Keeper(retiring(store), clock, Retention("1d"))
        (due,) = await keeper.plan()
        assert (due.definition, due.cases, due.rows) == ("claim", 130, 130 * 7)
        assert due.size > 130
        first = await keeper.round(Retention("1d"), most=60)
        assert (first.cases, first.left) == (60, True)
        done = await keeper.run()
        assert (done.cases, done.events, done.left) == (70, 280, False)
        assert list(await store.log.cases(CaseQuery())) == []
        assert await keeper.plan() == []
        assert (await store.retired()).ran_at == clock.now()


async def test_turns_are_committed_between_the_steps_of_a_round(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")
    steps: list[str] = []

    class Noted(SQLiteStore):
        async def sweep(self, rows: int) -> int:
            found = await super().sweep(rows)
            steps.append("swept")
            return found

    store = Noted(tmp_path / "cases.db", synchronous="NORMAL")
    async with opened(store):
        await committed(store, *whole("long", long=5_000))
        keeper = Keeper(retiring(store), VirtualClock(AT + timedelta(days=9)), Retention("1d"))

        async def write() -> None:
            for number in range(20):
                await committed(store, *whole(f"new{number}", days=20))
                steps.append("committed")

        writing = asyncio.create_task(write())
        await keeper.run()
        await writing
    assert steps.count("swept") > 10
    between = steps[steps.index("swept") : len(steps) - steps[::-1].index("swept")]
    assert "committed" in between


async def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")
    async with opened(store):
        await committed(store, *whole("c1"))
        ((case,),) = await store.expired(AT + timedelta(days=1))
        await store.retire([case])
    clock = VirtualClock(AT + timedelta(days=9))
    async with CaseHub(echo, store=store, clock=clock) as hub:
        with closing(sqlite3.connect(store.path)) as connection:
            while connection.execute("SELECT count(*) FROM events").fetchone()[0]:  # noqa: ASYNC110 - it is in the file
                await asyncio.sleep(0.01)
        assert list(await hub.cases()) == []


async def test_who_reads_along_misses_nothing_behind_a_gap_that_retention_made() -> None:
    async with CaseTestKit(echo, wait) as kit:
        seen: list[str] = []
        await kit.start(echo, text="before")
        kept = await kit.hub.start(wait, case_id="kept")
        await kit.start(echo, text="between")
        start = 0
        await kit.advance("1m")
        assert (await kit.hub.retention.run(Retention("0s"))).cases == 2
        await kit.restart()  # what was published before it is in the log alone
        await kit.start(echo, text="behind", case_id="behind")
        with kit.hub.watch(after=start) as events:
            while events.position < await kit.hub.log.position():
                seen += [event.case for event in await events.batch()]
        assert list(dict.fromkeys(seen)) == ["kept", "behind"]
        assert len(seen) == await kit.hub.log.position() - (await kit.hub.store.retired()).events  # type: ignore[attr-defined]  # this one retires
        await kit.hub.case(kept.id).kill()


async def test_memory_forgets_what_is_retired() -> None:
    store = MemoryStore()
    async with opened(store):
        for number in range(50):
            await committed(store, *whole(f"c{number}"))
        await Keeper(retiring(store), VirtualClock(AT + timedelta(days=9)), Retention("1d")).run()
        assert store._events == []
        assert await store.position() == 200
