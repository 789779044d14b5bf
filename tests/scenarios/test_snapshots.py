"""Cases that are kept, leave with their process, and go on in another one from a snapshot and what the log has behind it.

The rows are those of the persistence scenarios of a peer (Embabel, 5.7), by their numbers:

- 3 to 7, 9 to 11, 14, 15, 17, the contract of a store: `casehub/testing/snapshots.py`, for every store there is.
- 16, a store that cannot find by parent is refused: none of ours is assembled from parts, so there is nothing to refuse.
- 29, a serializer of one's own goes first: it stores facts, not snapshots, as those have facts as they are stored
  (`tests/serializers/test_serializers.py::test_the_first_that_handles_a_fact_stores_it_and_json_the_others`).
- 42, what it writes is no JSON: facts are plain before they get into a state, and a snapshot has nothing else
  (`tests/engine/test_keeping.py`). That it is JSON, and no other thing, is here.
- 34, one event says that a case was restored: here a load writes and says nothing. A case leaves memory and comes back
  whenever there is need, so an event each time would tell of the hub and not of the case, and the log would grow by
  being read. `hub.snapshots.used` counts.
- 35, whoever cancels twice: here the second one is refused and not passed over, so that it is not taken for the one who
  did it, and so is who cancels a case that has completed: an outcome stays. One event and one version, as there.
- 36, a thread that is interrupted keeps its flag: workers are cancelled as tasks; what is told of it is here.
- 44, 50 entries and 25 bindings in 10 ms:
  `tests/engine/test_keeping.py::test_fifty_facts_and_twenty_five_bindings_are_kept_and_brought_back_in_ten_milliseconds`.
- 47 and 48, two nodes: `tests/sharing/test_snapshots.py`, where several hubs have one PostgreSQL.
- 46, identities and a tool context survive: there is no such thing beside the facts but the tenant and the people in the
  log, which are here.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from blackboard_ext.control import PlanningStrategyLoopControl
from blackboard_ext.strategies import OneAtATime
from casehub import (
    Budget,
    CaseCancelled,
    CaseDefinition,
    CaseEnded,
    CaseEndedError,
    CaseHub,
    CaseNotFoundError,
    CaseStatus,
    Event,
    EventQuery,
    HumanTask,
    InputRefusedError,
    SettingsError,
    StoreUnavailableError,
    TaskNotFoundError,
    WorkerExecution,
    WorkerExecutionStarted,
)
from casehub.adapters.memory import MemoryStore
from casehub.adapters.memory_snapshots import MemorySnapshots
from casehub.adapters.sqlite import SQLiteStore
from casehub.adapters.sqlite_snapshots import SQLiteSnapshots
from casehub.encryption import Encryption, KeyRing, new_key
from casehub.engine.keeping import CONTENT_TYPE, sha256
from casehub.errors import SchemaError, SnapshotError
from casehub.events import CaseId
from casehub.folding import fold
from casehub.retention import Retention
from casehub.snapshot import Snapshot
from tests.staging import Kept, idle


@dataclass(frozen=True)
class Answer:
    approved: bool
    note: str


def loans() -> CaseDefinition:
    """Three workers, a person, and one worker more."""
    loan = CaseDefinition("loan", goal="letter", signals=["remark"])

    @loan.worker(writes="name")
    async def read(form: str) -> str:
        return RAN("read") or form.title()

    @loan.worker(writes="risk")
    async def assess(name: str) -> float:
        return RAN("assess") or len(name) / 10

    @loan.worker(writes="offer", budget=Budget(calls=9))
    async def price(name: str, risk: float, execution: WorkerExecution) -> float:
        execution.charge(tokens=7)
        return RAN("price") or 1000 * risk

    @loan.human_task(writes="answer")
    def approve(offer: float) -> HumanTask[Answer]:
        return HumanTask(f"Lend {offer}?", Answer, users=["ada"])

    @loan.worker(writes="letter")
    async def write(answer: Answer, name: str) -> str:
        return RAN("write") or f"{name}: {answer.note}"

    return loan


class Ran(list[str]):
    """Which workers ran."""

    def __call__(self, name: str) -> Any:
        self.append(name)


RAN = Ran()


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@dataclass
class Place:
    """Where a hub keeps its cases, and their snapshots."""

    store: Any
    snapshots: Any

    def hub(self, *definitions: CaseDefinition, **options: Any) -> CaseHub:
        return CaseHub(*(definitions or (loans(),)), store=self.store, snapshots=self.snapshots, **options)


@pytest.fixture
def place() -> Place:
    return Place(Kept(), MemorySnapshots())


@pytest.fixture(params=["one file", "two files", "file and memory", "postgres", "file and redis"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    file = f"sqlite:///{tmp_path}/cases.db?synchronous=NORMAL"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        return Place(url, url)
    if request.param == "file and redis":
        return Place(file, request.getfixturevalue("redis_url"))
    own = {"one file": f"sqlite:///{tmp_path}/cases.db", "two files": f"sqlite:///{tmp_path}/snapshots.db"}
    return Place(file, own.get(request.param) or MemorySnapshots())


async def waiting(hub: CaseHub, case_id: str = "c1", **facts: Any) -> None:
    """A loan that waits for somebody, and that is kept."""
    case = await hub.start("loan", case_id=case_id, **(facts or {"form": "ada"}))
    await case.quiescent(timeout="20s")
    await hub.snapshots.flushed()


async def answered(hub: CaseHub, case_id: str = "c1") -> dict[str, Any]:
    await hub.tasks.complete(f"{case_id}/approve/1", Answer(True, "welcome"), by="user:ada")
    return dict(await hub.case(case_id).completed(timeout="20s"))


def told(events: Sequence[Event]) -> list[str]:
    return [f"{event.version} {event.name}" for event in events]


async def log_of(hub: CaseHub, case: str = "c1") -> list[str]:
    return told(await hub.store.load(CaseId(case), hub.tenant))


async def kept(hub: CaseHub, case: str = "c1") -> Snapshot:
    found = await hub.snapshots.latest(case)
    assert found is not None
    return found


# ---- end to end


async def test_row_37_a_case_that_waits_goes_on_in_another_process_with_versions_1_and_2(places: Place) -> None:
    async with places.hub() as hub:
        await waiting(hub)
        (task,) = await hub.tasks.list()
        first = await kept(hub)
        assert (first.id, first.status, first.version, first.definition) == ("c1", CaseStatus.WAITING, 1, "loan")
        assert first.position == (await hub.case("c1").state()).version
        assert first.content_type == CONTENT_TYPE
    assert RAN == ["read", "assess", "price"]
    async with places.hub() as hub:
        await hub.tasks.complete(task.id, Answer(True, "welcome"), by="user:ada")
        assert (await hub.case("c1").completed(timeout="20s"))["letter"] == "Ada: welcome"
        assert hub.snapshots.used == 1
        await hub.snapshots.flushed()
        second = await kept(hub)
        assert (second.status, second.version) == (CaseStatus.COMPLETED, 2)
        assert second.created_at == first.created_at
    assert RAN == ["read", "assess", "price", "write"]  # and S021: what had finished is not run again


async def test_row_38_an_answer_to_another_task_is_refused_and_changes_nothing(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
        before = await log_of(hub)
    async with place.hub() as hub:
        with pytest.raises(TaskNotFoundError):
            await hub.tasks.complete("c1/approve/2", Answer(True, ""), by="user:ada")
        assert await log_of(hub) == before
        await hub.snapshots.flushed()
        assert (await kept(hub)).version == 1
        assert (await answered(hub))["letter"] == "Ada: welcome"


async def test_row_39_an_unknown_case_is_not_found(place: Place) -> None:
    async with place.hub() as hub:
        with pytest.raises(CaseNotFoundError):
            await hub.case("never").status()
        assert await hub.snapshots.latest("never") is None


async def test_row_40_going_on_starts_nothing_again_and_counts_the_case_once(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
    async with place.hub() as hub:
        await hub.case("c1").status()
        assert hub.snapshots.used == 1
        assert hub._residents_now.resident == 1
        await answered(hub)
        assert [line.split()[1] for line in await log_of(hub)].count("CASE_STARTED") == 1


# ---- loading


async def test_row_23_a_case_that_is_not_in_memory_comes_from_its_snapshot_as_it_was(places: Place) -> None:
    async with places.hub() as hub:
        await waiting(hub)
        before = await hub.case("c1").state()
        log = await log_of(hub)
    async with places.hub() as hub:
        after = await hub.case("c1").state()
        assert hub.snapshots.used == 1
        assert after == before
        assert await log_of(hub) == log
        assert dict(await hub.case("c1").context()) == {"form": "ada", "name": "Ada", "risk": 0.3, "offer": 300.0}


async def test_row_24_what_was_loaded_stays_in_memory(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
    async with place.hub() as hub:
        for _ in range(3):
            await hub.case("c1").status()
        assert hub.snapshots.used == 1


async def test_row_34_a_load_writes_nothing_and_says_nothing(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
        before = await log_of(hub)
    async with place.hub() as hub:
        with hub.watch() as events:
            await hub.case("c1").status()
            await hub.snapshots.flushed()
            assert await log_of(hub) == before
            assert (await kept(hub)).version == 1
            await answered(hub)
            assert (await anext(aiter(events))).version == len(before) + 1


async def test_a_snapshot_that_lags_behind_is_caught_up_from_the_log(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
    async with CaseHub(loans(), store=place.store) as hub:  # one that keeps no snapshots
        await hub.case("c1").signal(remark="hurry")
        await hub.case("c1").signal(remark="please")
        state = await hub.case("c1").state()
    async with place.hub() as hub:
        assert await hub.case("c1").state() == state
        assert hub.snapshots.used == 1
        assert (await answered(hub))["remark"] == "please"
        await hub.snapshots.flushed()
        assert (await kept(hub)).version == 2


async def test_of_a_case_with_a_snapshot_only_what_is_behind_it_is_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.hub() as hub:
        await waiting(hub)
        end = (await hub.case("c1").state()).version
    async with CaseHub(loans(), store=place.store) as hub:
        await hub.case("c1").signal(remark="hurry")
    asked: list[int] = []
    query = MemoryStore.query

    async def counted(store: MemoryStore, what: EventQuery) -> Sequence[Event]:
        found = await query(store, what)
        if what.case is not None:
            asked.append(found[0].version)
        return found

    async def whole() -> None:
        raise AssertionError("the whole log was read")

    place.store.loading = whole
    monkeypatch.setattr(MemoryStore, "query", counted)
    async with place.hub() as hub:
        assert (await hub.case("c1").context())["remark"] == "hurry"
    assert asked == [end]


async def test_a_case_from_its_snapshot_and_one_from_its_log_go_on_the_same(tmp_path: Path) -> None:
    snapshots, logs = MemorySnapshots(), list[list[str]]()
    async with CaseHub(loans(), store=SQLiteStore(tmp_path / "one.db"), snapshots=snapshots) as hub:
        for n in range(3):
            await waiting(hub, f"c{n}", form=f"name {n}")
    shutil.copy(tmp_path / "one.db", tmp_path / "two.db")
    for name, given in (("one.db", snapshots), ("two.db", None)):
        async with CaseHub(loans(), store=SQLiteStore(tmp_path / name), snapshots=given) as hub:
            for n in range(3):
                await answered(hub, f"c{n}")
            assert hub.snapshots.used == (0 if given is None else 3)
            logs.append([line for n in range(3) for line in await log_of(hub, f"c{n}")])
    assert logs[0] == logs[1]


async def test_a_plan_comes_back_with_its_case(place: Place) -> None:
    loop = PlanningStrategyLoopControl(OneAtATime())
    async with place.hub(loop=loop) as hub:
        await waiting(hub)
        before = await hub.case("c1").plan()
        assert before is not None
        assert [item.binding for item in before.ended] == ["read", "assess", "price"]
    async with place.hub(loop=loop) as hub:
        assert await hub.case("c1").plan() == before
        assert hub.snapshots.used == 1
        assert (await answered(hub))["letter"] == "Ada: welcome"


async def test_a_case_of_another_loop_control_is_folded_from_its_log(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
    async with place.hub(loop=PlanningStrategyLoopControl(OneAtATime())) as hub:
        assert (await answered(hub))["letter"] == "Ada: welcome"
        assert hub.snapshots.used == 0
        assert "its control is" in hub.snapshots.refused["c1"]


async def test_tenants_that_share_a_database_have_snapshots_of_their_own(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path}/cases.db", f"sqlite:///{tmp_path}/cases.db")
    for tenant in ("one", "two"):
        async with place.hub(tenant=tenant) as hub:
            await waiting(hub, form=tenant)
    for tenant in ("one", "two"):  # row 46
        async with place.hub(tenant=tenant) as hub:
            assert (await hub.case("c1").context())["name"] == tenant.title()
            assert ((await kept(hub)).tenant, hub.snapshots.used) == (tenant, 1)


# ---- stores and nodes


async def test_row_27_without_a_store_of_snapshots_nothing_is_different() -> None:
    store = Kept()
    async with CaseHub(loans(), store=store) as hub:
        await waiting(hub)
        with pytest.raises(SettingsError, match="this hub keeps no snapshots; give it snapshots="):
            await hub.snapshots.latest("c1")
    async with CaseHub(loans(), store=store) as hub:
        assert (await answered(hub))["letter"] == "Ada: welcome"
        assert (hub.snapshots.saved, hub.snapshots.used, hub.snapshots.dropped) == (0, 0, 0)


async def test_row_28_persist_false_writes_nothing_though_stores_are_given(tmp_path: Path) -> None:
    snapshots = MemorySnapshots()
    async with CaseHub(loans(), store=f"sqlite:///{tmp_path}/cases.db", snapshots=snapshots, persist=False) as hub:
        await hub.start("loan", case_id="c1", form="ada")
        await hub.case("c1").quiescent()
        assert (await answered(hub))["letter"] == "Ada: welcome"
        await hub.start("loan", case_id="c2", form="bob")  # and leaving it open is nobody's mistake
    assert os.listdir(tmp_path) == []
    assert await snapshots.latest(CaseId("c1")) is None


async def test_row_30_a_hub_that_is_made_touches_no_store_of_snapshots(tmp_path: Path) -> None:
    CaseHub(loans(), store=f"sqlite:///{tmp_path}/a.db", snapshots=f"sqlite:///{tmp_path}/b.db")
    assert os.listdir(tmp_path) == []
    hub = CaseHub(loans(), snapshots="postgresql://nobody@127.0.0.1:1/none")
    CaseHub(loans(), snapshots="redis://127.0.0.1:1/0")
    assert hub.definitions.keys() == {"loan"}


async def test_row_31_another_process_finds_it_in_the_same_store_and_in_no_other(places: Place) -> None:
    async with places.hub() as hub:
        await waiting(hub)
    async with places.hub() as hub:
        (found,) = await hub.cases(status=CaseStatus.WAITING)
        assert found.case == "c1"
        assert (await kept(hub)).status is CaseStatus.WAITING
    async with Place(Kept(), MemorySnapshots()).hub() as hub:
        with pytest.raises(CaseNotFoundError):
            await hub.case("c1").status()


# ---- when a case is kept


async def test_row_19_waiting_keeps_no_case_that_has_not_waited(place: Place) -> None:
    held = asyncio.Event()
    slow = CaseDefinition("slow", signals=["more"])

    @slow.worker(writes="b")
    async def work(a: int) -> int:
        await held.wait()
        return a

    async with place.hub(slow, checkpoint="waiting") as hub:
        case = await hub.start("slow", case_id="c1", a=1)
        await case.suspend()
        await hub.snapshots.flushed()
        assert await hub.snapshots.latest("c1") is None
        await case.resume()
        held.set()
        await case.quiescent()
        await hub.snapshots.flushed()
        assert (await kept(hub)).status is (await case.status())


@pytest.mark.parametrize(
    ("checkpoint", "statuses"), [("waiting", ["WAITING"]), ("lifecycle", ["WAITING", "COMPLETED"])]
)
async def test_row_20_lifecycle_keeps_a_case_that_has_ended_and_waiting_does_not(
    place: Place, checkpoint: Any, statuses: list[str]
) -> None:
    seen = Saving(place)
    async with place.hub(checkpoint=checkpoint) as hub:
        await waiting(hub)
        await answered(hub)
        await hub.snapshots.flushed()
    assert [str(each.status) for each in seen.saved] == statuses


@pytest.mark.parametrize("every", [1, 7, 1000])
async def test_every_so_many_events_a_case_is_kept_whatever_it_does(place: Place, every: int) -> None:
    seen = Saving(place)
    async with place.hub(checkpoint=every) as hub:
        await waiting(hub)
        await answered(hub)
        await hub.snapshots.flushed()
        state = await hub.case("c1").state()
        if every == 1:
            assert (await kept(hub)).position == state.version
        assert bool(seen.saved) is (every <= state.version)
        positions = [each.position for each in seen.saved]
        assert all(b - a >= 1 for a, b in itertools.pairwise(positions))
    async with place.hub(checkpoint=every) as hub:
        assert await hub.case("c1").state() == state


@pytest.mark.parametrize("checkpoint", ["never", 0, -1, True, "", 1.5])
def test_what_is_no_checkpoint_policy_is_refused(checkpoint: Any) -> None:
    with pytest.raises(SettingsError, match="checkpoint="):
        CaseHub(loans(), checkpoint=checkpoint)


class Saving:
    """A store of snapshots whose saves are noted, held, or fail."""

    def __init__(self, place: Place) -> None:
        self.saved: list[Snapshot] = []
        self.fails: list[Exception] = []
        self.free = asyncio.Event()
        self.free.set()
        self._save, self._latest = place.snapshots.save, place.snapshots.latest
        self._inner = place.snapshots
        place.snapshots = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def save(self, snapshot: Snapshot, expected: int | None = None) -> Snapshot:
        await self.free.wait()
        if self.fails:
            raise self.fails.pop(0)
        written: Snapshot = await self._save(snapshot, expected)
        self.saved.append(written)
        return written


async def test_a_store_that_is_slow_holds_up_no_case_and_no_turn(place: Place) -> None:
    seen = Saving(place)
    seen.free.clear()
    async with place.hub() as hub:
        case = await hub.start("loan", case_id="c1", form="ada")
        await case.quiescent()
        assert (await answered(hub))["letter"] == "Ada: welcome"
        assert seen.saved == []
        seen.free.set()
        await hub.snapshots.flushed()
        assert [each.status for each in seen.saved][-1] is CaseStatus.COMPLETED


async def test_more_than_can_be_written_are_dropped_and_loaded_from_their_logs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("casehub.checkpoints.WAITING_FOR_THEM", 2)
    seen = Saving(place)
    seen.free.clear()
    async with place.hub() as hub:
        for n in range(5):
            case = await hub.start("loan", case_id=f"c{n}", form=f"n{n}")
            await case.quiescent()
        assert hub.snapshots.dropped >= 2
        seen.free.set()
        await hub.snapshots.flushed()
        assert hub.snapshots.saved + hub.snapshots.dropped == 5
    async with place.hub() as hub:
        for n in range(5):
            assert (await answered(hub, f"c{n}"))["letter"] == f"N{n}: welcome"


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), SnapshotError("full"), ZeroDivisionError("a bug")])
async def test_a_save_that_fails_costs_nothing_but_time(place: Place, error: Exception) -> None:
    seen = Saving(place)
    seen.fails = [error]
    async with place.hub() as hub:
        await waiting(hub)
        assert (hub.snapshots.dropped, hub.snapshots.saved) == (1, 0)
    async with place.hub() as hub:
        assert (await answered(hub))["letter"] == "Ada: welcome"
        assert hub.snapshots.used == 0
        await hub.snapshots.flushed()
        assert (await kept(hub)).version == 1


async def test_a_hub_opens_and_works_while_its_store_of_snapshots_is_away_and_uses_it_when_it_is_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(MemorySnapshots):
        away = True

        async def open(self) -> None:
            if self.away:
                raise StoreUnavailableError("it is away")

    monkeypatch.setattr("casehub.checkpoints.AGAIN", 0.0)
    place.snapshots = Away()
    async with place.hub() as hub:
        await waiting(hub)
        assert (hub.snapshots.dropped, hub.snapshots.saved) == (1, 0)
        Away.away = False
        await answered(hub)
        await hub.snapshots.flushed()
        assert hub.snapshots.saved == 1


async def test_a_store_of_another_schema_is_said_when_the_hub_is_entered(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (a)")
    with pytest.raises(SchemaError, match="not one of CaseHub's"):
        async with CaseHub(loans(), snapshots=f"sqlite:///{path}"):
            pass


# ---- what cannot be trusted


def spoil_head(**changes: Any) -> Callable[[Snapshot], Snapshot]:
    def spoil(snapshot: Snapshot) -> Snapshot:
        head, body = snapshot.payload.splitlines()
        return replace(snapshot, payload=to_json({**from_json(head), **changes}) + b"\n" + body)

    return spoil


def spoil_state(**changes: Any) -> Callable[[Snapshot], Snapshot]:
    """With a checksum that fits, as whoever can write the row may make one."""

    def spoil(snapshot: Snapshot) -> Snapshot:
        head, body = (from_json(line) for line in snapshot.payload.splitlines())
        edited = to_json({**body, "state": body["state"] | changes})
        head["sha256"] = sha256(edited).hexdigest()
        return replace(snapshot, payload=to_json(head) + b"\n" + edited)

    return spoil


SPOILT: dict[str, tuple[Callable[[Snapshot], Snapshot], str]] = {
    "no JSON": (lambda s: replace(s, payload=b"cos\nsystem\n(S'true'\ntR."), "it is no JSON"),
    "cut off": (lambda s: replace(s, payload=s.payload[:-40]), "its checksum does not fit"),
    "another content type": (lambda s: replace(s, content_type="application/x-java"), "its content type is"),
    "another schema": (spoil_head(schema=99), "its schema is 99"),
    "another shape": (spoil_head(shape="older"), "its shape is 'older'"),
    "a callable": (spoil_state(__reduce__=["os.system", ["true"]]), "what is in it is no case"),
    "another case's": (spoil_state(id="c2"), "it is of case 'c2'"),
    "ahead of the log": (spoil_state(version=999, turn=99), "it is ahead of the log, or of another one"),
    "of another log": (spoil_state(changed_at="2020-01-01T00:00:00Z"), "it is ahead of the log, or of another one"),
    "beyond the log": (spoil_head(seq=10**9), "it is ahead of the log, or of another one"),
}


@pytest.mark.parametrize("how", SPOILT)
async def test_rows_42_and_43_a_snapshot_that_cannot_be_trusted_is_refused_and_its_case_and_all_others_go_on(
    place: Place, how: str
) -> None:
    """The log is the truth: the snapshot alone is put aside, with its reason, and the next one takes its place."""
    spoil, reason = SPOILT[how]
    async with place.hub() as hub:
        await waiting(hub)
        await waiting(hub, "good", form="grace")
        snapshot, state = await kept(hub), await hub.case("c1").state()
    place.snapshots._latest["default", "c1"] = spoil(snapshot)
    async with place.hub() as hub:
        assert (await hub.case("good").context())["name"] == "Grace"
        assert await hub.case("c1").state() == state
        assert (hub.snapshots.used, hub.snapshots.counts["refused"]) == (1, 1)
        assert reason in hub.snapshots.refused["c1"]
        assert hub.parked == {}
        assert (await answered(hub))["letter"] == "Ada: welcome"
        await hub.snapshots.flushed()
        assert (await kept(hub)).version == 2
        assert hub.snapshots.refused == {}
    assert RAN.count("read") == 2  # once for each case


async def test_a_row_that_is_damaged_is_taken_away_by_the_next_snapshot(tmp_path: Path) -> None:
    place = Place(Kept(), SQLiteSnapshots(tmp_path / "snapshots.db"))
    async with place.hub() as hub:
        await waiting(hub)
    with closing(sqlite3.connect(tmp_path / "snapshots.db", isolation_level=None)) as connection:
        connection.execute("UPDATE snapshots SET status = 'os.system'")
    async with place.hub() as hub:
        await hub.case("c1").status()
        assert "its row is damaged" in hub.snapshots.refused["c1"]
        await answered(hub)
        await hub.snapshots.flushed()
        assert ((await kept(hub)).version, hub.snapshots.refused) == (1, {})


async def test_a_backup_of_the_log_that_is_older_than_its_snapshots_is_gone_on_with(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path}/cases.db", MemorySnapshots())
    async with place.hub() as hub:
        await waiting(hub)
    shutil.copy(tmp_path / "cases.db", tmp_path / "backup.db")
    async with place.hub() as hub:
        await hub.case("c1").signal(remark="lost with the disk")
        await hub.snapshots.flushed()
    shutil.copy(tmp_path / "backup.db", tmp_path / "cases.db")
    async with place.hub() as hub:
        assert "remark" not in await hub.case("c1").context()
        assert "ahead of the log" in hub.snapshots.refused["c1"]
        await hub.case("c1").signal(remark="anew")
        await hub.snapshots.flushed()
    async with place.hub() as hub:
        assert (await hub.case("c1").context())["remark"] == "anew"
        assert hub.snapshots.used == 1


async def test_the_snapshot_of_a_case_that_there_is_no_more_brings_nothing_back(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
    place.store = Kept()
    async with place.hub() as hub:
        with pytest.raises(CaseNotFoundError):
            await hub.case("c1").status()
        await waiting(hub, form="grace")  # and the id is free
        assert (await hub.case("c1").context())["name"] == "Grace"
    async with place.hub() as hub:
        assert (await hub.case("c1").context())["name"] == "Grace"
        assert hub.snapshots.used == 1


# ---- deleting


async def test_row_26_what_is_deleted_stays_so_and_a_snapshot_on_its_way_goes_with_it(place: Place) -> None:
    seen = Saving(place)
    async with place.hub() as hub:
        await waiting(hub)
        seen.free.clear()
        await answered(hub)
        await idle()
        deleting = asyncio.create_task(hub.snapshots.delete("c1"))
        await idle()
        seen.free.set()
        await deleting
        await hub.snapshots.flushed()
        assert await hub.snapshots.latest("c1") is None
        await hub.snapshots.delete("c1")
        await hub.snapshots.delete("never")
    async with place.hub() as hub:
        assert await hub.case("c1").status() is CaseStatus.COMPLETED
        assert await hub.snapshots.latest("c1") is None


async def test_what_is_retired_takes_its_snapshot_along_and_stays_while_that_cannot_go(place: Place) -> None:
    place.store = MemoryStore()
    async with place.hub(retention=Retention("0s")) as hub:
        await waiting(hub)
        await answered(hub)
        await hub.snapshots.flushed()

        async def away(snapshots: MemorySnapshots, case: CaseId, tenant: str) -> None:
            raise StoreUnavailableError("the snapshots are away")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemorySnapshots, "delete", away)
            with pytest.raises(StoreUnavailableError):
                await hub.retention.run()
        assert await hub.case("c1").status() is CaseStatus.COMPLETED
        assert (await hub.retention.run()).cases == 1
        assert await hub.snapshots.latest("c1") is None
        with pytest.raises(CaseNotFoundError):
            await hub.case("c1").status()


# ---- ends


@pytest.mark.parametrize("before", ["WAITING", "SUSPENDED", "stalled"])
async def test_row_35_a_case_that_is_cancelled_is_so_in_the_log_when_that_is_told_once_and_then_in_its_snapshot(
    place: Place, before: str
) -> None:
    stuck = CaseDefinition("loan", goal="never", signals=["form"])

    @stuck.worker(writes="never", when=lambda form: form == "nobody's")
    async def never(form: str) -> str:
        return form

    definition = stuck if before == "stalled" else loans()
    given = {} if before == "stalled" else {"form": "ada"}
    heard: list[Any] = []
    async with place.hub(definition) as hub:

        @hub.on(CaseEnded)
        async def ended(event: CaseEnded) -> None:
            heard.append((event.name, [type(each) for each in await hub.store.load(event.case)][-1]))

        case = await hub.start("loan", case_id="c1", **given)
        await case._until(lambda live: not live.state.at_work or None, "20s", "rest")
        if before == "SUSPENDED":
            await case.suspend()
        await hub.snapshots.flushed()
        first = await kept(hub)
        await case.cancel(by="user:boss")
        await hub.snapshots.flushed()
        second = await kept(hub)
        assert (second.status, second.version) == (CaseStatus.CANCELLED, first.version + 1)
        log = await log_of(hub)
        with pytest.raises(InputRefusedError):
            await case.cancel(by="user:boss")
        await hub.snapshots.flushed()
        assert ((await kept(hub)).version, await log_of(hub)) == (second.version, log)
    assert heard == [("CASE_CANCELLED", CaseCancelled)]
    async with place.hub(definition) as hub:
        assert await hub.case("c1").status() is CaseStatus.CANCELLED
        assert hub.snapshots.used == 1
        with pytest.raises(CaseEndedError):
            await hub.case("c1").signal(**{"form" if before == "stalled" else "remark": "hello"})
        assert await log_of(hub) == log


async def test_row_35_a_case_that_has_completed_is_not_cancelled_any_more(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
        await answered(hub)
        await hub.snapshots.flushed()
        with pytest.raises(InputRefusedError):
            await hub.case("c1").cancel()
        await hub.snapshots.flushed()
        assert ((await kept(hub)).status, (await kept(hub)).version) == (CaseStatus.COMPLETED, 2)


async def test_row_36_work_that_is_called_off_is_so_in_the_log_before_anybody_hears_of_it(place: Place) -> None:
    began, called_off = asyncio.Event(), asyncio.Event()
    slow = CaseDefinition("slow")

    @slow.worker(writes="b")
    async def work(a: int) -> int:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()
        return a

    heard: list[str] = []
    async with place.hub(slow) as hub:

        @hub.on(CaseEnded)
        async def ended(event: CaseEnded) -> None:
            heard.append((await log_of(hub))[-1])

        case = await hub.start("slow", case_id="c1", a=1)
        await began.wait()
        await case.cancel()
        await called_off.wait()
        await hub.snapshots.flushed()
        assert (await kept(hub)).status is CaseStatus.CANCELLED
    assert [line.split()[1] for line in heard] == ["CASE_CANCELLED"]


async def test_row_53_a_parent_that_is_killed_takes_along_sub_cases_that_only_the_store_has(place: Place) -> None:
    visit = CaseDefinition("visit", goal="report")

    @visit.human_task(writes="report")
    def report(site: str) -> HumanTask[str]:
        return HumanTask(f"Go to {site}", str)

    parent = CaseDefinition("parent", goal="reports")

    @parent.sub_case(visit, writes="reports", takes="report")
    def go(sites: list[str]) -> list[dict[str, str]]:
        return [{"site": site} for site in sites]

    async with place.hub(parent) as hub:
        case = await hub.start("parent", case_id="p", sites=["a", "b"])
        await case.quiescent(timeout="20s")
        await hub.snapshots.flushed()
        children = await hub.snapshots.children("p")
        assert [(each.parent, each.status) for each in children] == [("p", CaseStatus.WAITING)] * 2
    async with place.hub(parent) as hub:
        assert hub._residents_now.resident == 0
        assert list(await hub.snapshots.children("p")) == list(children)  # found without being in memory
        with hub.watch(CaseEnded) as ends:
            await hub.case("p").kill(by="user:boss")
            seen = aiter(ends)
            ended = {(await anext(seen)).case for _ in range(3)}
        assert ended == {"p", *(each.id for each in children)}
        await hub.snapshots.flushed()
        assert {each.status for each in await hub.snapshots.children("p")} == {CaseStatus.CANCELLED}
        assert (await kept(hub, "p")).status is CaseStatus.CANCELLED


async def test_what_is_encrypted_in_the_log_is_so_in_a_snapshot(place: Place) -> None:
    secret = Encryption(KeyRing({"k1": new_key()}), "form", "name")
    async with place.hub(serializers=[secret]) as hub:
        await waiting(hub, form="xylophone")
        assert b"ylophone" not in (await kept(hub)).payload
    async with place.hub(serializers=[secret]) as hub:
        assert (await answered(hub))["letter"] == "Xylophone: welcome"
        assert hub.snapshots.used == 1


# ---- what a peer lacks


async def test_row_41_and_s002_values_come_back_as_the_types_they_were(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
        await answered(hub)
        facts = dict(await hub.case("c1").context())
    async with place.hub() as hub:
        assert dict(await hub.case("c1").context()) == facts
        assert facts["answer"] == Answer(True, "welcome")
        assert hub.snapshots.used == 1


async def test_row_45_what_was_spent_before_the_wait_is_spent(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
    async with place.hub() as hub:
        spending = (await hub.case("c1").state()).spending
        assert hub.snapshots.used == 1
        assert (spending.spent("case", "tokens"), spending.spent("price", "calls")) == (7, 1)


async def test_row_50_two_waits_are_answered_in_any_order(place: Place) -> None:
    both = CaseDefinition("both", goal="end")
    for name in ("left", "right"):

        @both.human_task(name=name, writes=name)
        def ask(a: int) -> HumanTask[int]:
            return HumanTask("How many?", int)

    @both.worker(writes="end")
    async def add(left: int, right: int) -> int:
        return left + right

    for order in (("left", "right"), ("right", "left")):
        case_id = "-".join(order)
        async with place.hub(both) as hub:
            await (await hub.start("both", case_id=case_id, a=1)).quiescent()
        for n, name in enumerate(order):
            async with place.hub(both) as hub:
                await hub.tasks.complete(f"{case_id}/{name}/1", n, by="user:ada")
                await hub.case(case_id).quiescent()
                assert hub.snapshots.used == 1
        async with place.hub(both) as hub:
            assert (await hub.case(case_id).context())["end"] == 1


async def test_row_51_a_case_whose_process_ends_in_the_third_of_five_steps_goes_on_with_the_third(place: Place) -> None:
    steps, runs, stop = CaseDefinition("steps", goal="s5"), Ran(), asyncio.Event()

    async def step(x: int, execution: WorkerExecution) -> int:
        runs(execution.binding)
        if execution.binding == "step3" and not stop.is_set():
            stop.set()
            await asyncio.Event().wait()
        return x + 1

    @steps.worker(writes="s1")
    async def step1(s0: int, execution: WorkerExecution) -> int:
        return await step(s0, execution)

    @steps.worker(writes="s2")
    async def step2(s1: int, execution: WorkerExecution) -> int:
        return await step(s1, execution)

    @steps.worker(writes="s3")
    async def step3(s2: int, execution: WorkerExecution) -> int:
        return await step(s2, execution)

    @steps.worker(writes="s4")
    async def step4(s3: int, execution: WorkerExecution) -> int:
        return await step(s3, execution)

    @steps.worker(writes="s5")
    async def step5(s4: int, execution: WorkerExecution) -> int:
        return await step(s4, execution)

    async def until_it_ends() -> None:
        async with place.hub(steps, checkpoint=1) as hub:
            await hub.start("steps", case_id="c1", s0=0)
            await stop.wait()
            await hub.snapshots.flushed()
            raise ZeroDivisionError  # the process ends

    with pytest.raises(ZeroDivisionError):
        await until_it_ends()
    async with place.hub(steps, checkpoint=1) as hub:
        assert (await hub.case("c1").completed(timeout="20s"))["s5"] == 5
        assert hub.snapshots.used == 1
        state = await hub.case("c1").state()
        assert state == fold(CaseId("c1"), await hub.store.load(CaseId("c1")))
        assert state.spending.spent("case", "calls") == 6  # the third of them twice
    assert runs == ["step1", "step2", "step3", "step3", "step4", "step5"]


async def test_s023_work_in_flight_is_dispatched_once_each_after_a_restart(place: Place) -> None:
    stop, runs = asyncio.Event(), Ran()
    wide = CaseDefinition("wide", goal="all")
    for name in ("a", "b", "c"):

        @wide.worker(name=f"work_{name}", writes=name)
        async def work(x: int, execution: WorkerExecution) -> int:
            runs(execution.binding)
            await stop.wait()
            return x

    @wide.worker(writes="all")
    async def gather(a: int, b: int, c: int) -> int:
        return a + b + c

    async with place.hub(wide, checkpoint=1) as hub:
        await hub.start("wide", case_id="c1", x=1)
        await idle()
        await hub.snapshots.flushed()
    assert sorted(runs) == ["work_a", "work_b", "work_c"]
    runs.clear()
    stop.set()
    async with place.hub(wide, checkpoint=1) as hub:
        assert (await hub.case("c1").completed(timeout="20s"))["all"] == 3
        starts = await hub.case("c1").log.query(WorkerExecutionStarted)
        assert [each.attempt for each in starts if each.binding == "work_a"] == [1, 2]
    assert sorted(runs) == ["work_a", "work_b", "work_c"]


async def test_row_52_a_case_of_another_version_adopts_this_one_or_is_parked_with_the_reason(place: Place) -> None:
    async with place.hub() as hub:
        await waiting(hub)
    without = CaseDefinition("loan", goal="letter", signals=["remark"])

    @without.worker(writes="letter")
    async def write(form: str) -> str:
        return form

    async with place.hub(without) as hub:
        with pytest.raises(InputRefusedError, match="is parked: its definition has changed and lacks approve"):
            await hub.case("c1").status()
        assert hub.snapshots.used == 1
    more = loans()

    @more.worker(writes="copy")
    async def copy(letter: str) -> str:
        return letter

    async with place.hub(more) as hub:
        assert (await answered(hub))["letter"] == "Ada: welcome"
        assert any("DEFINITION_ADOPTED" in line for line in await log_of(hub))
    async with CaseHub(CaseDefinition("other"), store=place.store, snapshots=place.snapshots) as hub:
        with pytest.raises(InputRefusedError, match="is of definition 'loan', which this hub lacks"):
            await hub.case("c1").status()


async def test_a_case_that_has_faulted_goes_on_from_its_snapshot(place: Place) -> None:
    broken = [True]
    fragile = CaseDefinition("fragile", goal="b")

    @fragile.worker(writes="b", on_failed="fault_case")
    async def work(a: int) -> int:
        if broken[0]:
            raise ValueError("broken")
        return a

    async with place.hub(fragile) as hub:
        case = await hub.start("fragile", case_id="c1", a=1)
        await case._until(lambda live: live.state.status.ended or None, "20s", "the end")
    broken[0] = False
    async with place.hub(fragile) as hub:
        assert await hub.case("c1").status() is CaseStatus.FAULTED
        assert hub.snapshots.used == 1
        await hub.case("c1").unfault(by="user:ada")
        assert (await hub.case("c1").completed(timeout="20s"))["b"] == 1
        await hub.snapshots.flushed()
        assert ((await kept(hub)).status, (await kept(hub)).version >= 2) == (CaseStatus.COMPLETED, True)
