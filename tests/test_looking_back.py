"""A case as it was, a fork of it, and a case taken from one store to another."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from casehub import (
    CaseDefinition,
    CaseExistsError,
    CaseForked,
    CaseHub,
    CaseNotFoundError,
    CaseStatus,
    ContextChanged,
    FileError,
    HumanTask,
    HumanTaskCreated,
    InputRefusedError,
    Retention,
    SettingsError,
    WorkerExecution,
    WorkerExecutionStarted,
    absent,
    present,
    transcript,
)
from casehub.adapters.codec import as_json
from casehub.adapters.memory import MemoryStore
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.sqlite import SQLiteStore
from casehub.events import CaseId, Event
from casehub.folding import fold
from casehub.imports import Import, import_into
from casehub.query import EventQuery
from casehub.renaming import renamed
from casehub.testing import CaseTestKit
from tests.staging import Kept

keys: list[str] = []
loan = CaseDefinition("loan", goal="decision", signals={"amount": float, "note": str}, external=("go",))


@loan.worker(writes="risk")
async def assess(amount: float, execution: WorkerExecution) -> float:
    keys.append(execution.idempotency_key)
    return amount / 1_000


@loan.worker(writes="decision", when=absent("decision"))
async def decide(risk: float, go: bool) -> str:
    return "approve" if risk < 0.5 else "refer"


async def positions(case: str, kit: CaseTestKit, kind: type[Event]) -> list[int]:
    return [event.seq for event in await kit.hub.store.load(CaseId(case)) if isinstance(event, kind)]


# ---- looking


async def test_a_case_is_seen_as_it_was_at_a_position_and_at_a_time() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=100.0)
        await case.quiescent()
        before = kit.clock.now()
        (first, *_) = await positions(case.id, kit, ContextChanged)
        await kit.advance("1d")
        await case.signal(amount=900.0)
        await case.quiescent()
        await case.signal(go=True)
        await case.completed()
        early = await case.at(first)
        assert (await early.context())["amount"] == 100.0
        assert "risk" not in await early.context()
        assert early.state.status is CaseStatus.RUNNING
        for past in (await case.at(before), await case.at("1d"), await case.at(timedelta(days=1))):
            assert (await past.context())["risk"] == 0.1
            assert past.state.status is CaseStatus.WAITING
            assert [fact.value for fact in await past.facts("amount").history()] == [100.0]
            assert await past.log.count(ContextChanged) == {"CONTEXT_CHANGED": 2}
        now = await case.at(await kit.hub.log.position())
        assert now.state == await case.state()


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("1", "had not started at position 1; it began at position"),
        (99_999, "position 99999 has not come yet"),
        (0, "positions begin with 1"),
        ("2100-01-01", "has not come yet"),
        ("yesterday", "is no moment; give a position"),
        ("2029-12-31T12:00:00Z", "had not started at 2029-12-31"),
    ],
)
async def test_a_moment_that_is_none_is_refused(at: int | str, said: str) -> None:
    async with CaseTestKit(loan) as kit:
        await kit.start(loan, amount=1.0)
        case = await kit.start(loan, amount=1.0)
        with pytest.raises(SettingsError, match=said):
            await case.at(at)
        with pytest.raises(CaseNotFoundError):
            await kit.hub.case("none").at(1)


# ---- forking


async def test_a_fork_begins_with_the_log_of_its_source_and_goes_its_own_way() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=900.0)
        await case.quiescent()
        at = await kit.hub.log.position()
        await case.signal(go=True)
        assert (await case.completed())["decision"] == "refer"
        source = await kit.hub.store.load(case.id)
        other = await kit.hub.fork(case.id, at, {"risk": 0.1}, fork_id="what-if", by="user:ada", reason="what if")
        await other.quiescent()
        assert await other.status() is CaseStatus.WAITING
        await other.signal(go=True)
        assert (await other.completed())["decision"] == "approve"
        assert list(await kit.hub.store.load(case.id)) == list(source)
        log = await kit.hub.store.load(other.id)
        copied = [event for event in source if event.seq <= at]
        assert [event.name for event in log[: len(copied)]] == [event.name for event in copied]
        assert [event.at for event in log[: len(copied)]] == [event.at for event in copied]
        assert [event.version for event in log] == list(range(1, len(log) + 1))
        forked = log[len(copied)]
        assert isinstance(forked, CaseForked)
        assert (forked.source, forked.source_version, forked.source_seq) == (case.id, len(copied), at)
        assert (forked.by, forked.reason) == ("user:ada", "what if")
        assert case.id not in b"".join(
            as_json(event) for event in log if not isinstance(event, CaseForked)
        ).decode().replace(f"forked from {case.id}", "")
        fact = await other.facts("risk").history()
        assert [each.by for each in fact] == ["worker:assess", "user:ada"]


async def test_a_fork_folds_by_itself_when_its_source_is_gone() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=900.0)
        await case.quiescent()
        other = await kit.hub.fork(case.id, fork_id="kept")
        await case.kill()
        await kit.advance("1m")
        await kit.hub.retention.run(Retention("0s"))
        with pytest.raises(CaseNotFoundError):
            await kit.hub.case(case.id).status()
        await kit.restart()
        other = kit.hub.case(other.id)
        assert (await other.context())["risk"] == 0.9
        await other.signal(go=True)
        await other.completed()


async def test_work_in_flight_begins_anew_under_a_key_of_the_fork() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=1.0)
        await case.quiescent()
        (began,) = await positions(case.id, kit, WorkerExecutionStarted)
        keys.clear()
        other = await kit.hub.fork(case.id, began, fork_id="again")
        await other.quiescent()
        assert keys == ["again/assess/1"]
        assert (await other.context())["risk"] == 0.001


async def test_a_moment_within_a_turn_is_that_of_the_turn_before() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=1.0)
        await case.quiescent()
        (began,) = await positions(case.id, kit, WorkerExecutionStarted)
        last_of_first = began
        log = await kit.hub.store.load(case.id)
        middle = next(event for event in log if event.turn == 2)
        assert log[middle.version].turn == 2
        other = await kit.hub.fork(case.id, middle.seq, fork_id="f")
        forked = next(event for event in await kit.hub.store.load(other.id) if isinstance(event, CaseForked))
        assert forked.source_seq == last_of_first


async def test_an_end_is_not_forked_and_the_moment_before_is_named() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=1.0)
        await case.signal(go=True)
        await case.completed()
        log = await kit.hub.store.load(case.id)
        last = max(event.seq for event in log if event.turn < log[-1].turn)
        with pytest.raises(InputRefusedError, match=f"is COMPLETED by then.*the last position before that is {last}"):
            await kit.hub.fork(case.id)
        await (await kit.hub.fork(case.id, last)).completed()
        with pytest.raises(InputRefusedError, match=r"knows no fact 'amuont'; did you mean 'amount'"):
            await kit.hub.fork(case.id, last, {"amuont": 1.0})
        with pytest.raises(CaseExistsError):
            await kit.hub.fork(case.id, last, fork_id=case.id)
        with pytest.raises(InputRefusedError, match="is no id"):
            await kit.hub.fork(case.id, last, fork_id="a/b/1")


desk = CaseDefinition("desk", goal="answer")


@desk.human_task(writes="answer")
def ask(question: str) -> HumanTask[str]:
    return HumanTask(f"{question}?", str, users=["ada", "joan"], due="2d", expires="5d")


async def test_people_are_asked_again_with_new_times_and_the_source_keeps_its_task() -> None:
    async with CaseTestKit(desk) as kit:
        case = await kit.start(desk, question="Why")
        (task,) = await kit.hub.tasks.list(case=case.id)
        await kit.hub.tasks.claim(task.id, by="user:ada")
        at = await kit.hub.log.position()
        await kit.advance("4d")
        other = await kit.hub.fork(case.id, at, fork_id="f")
        (mine,) = await kit.hub.tasks.list(case="f")
        assert mine.id.startswith("f/ask/1")
        assert mine.assignee == ""
        assert mine.due == kit.clock.now() + timedelta(days=2)
        (theirs,) = await kit.hub.tasks.list(case=case.id)
        assert (theirs.id, theirs.assignee) == (task.id, "ada")
        await kit.advance("2d")  # the source's expires, the fork's does not
        assert await kit.hub.tasks.list(case=case.id) == []
        await kit.hub.tasks.complete(mine.id, "because", by="user:joan")
        assert (await other.completed())["answer"] == "because"


slow = CaseDefinition("slow", goal="done", signals={"done": bool})
slow.milestone("checked", present("done"), sla="10h")


async def test_spans_go_on_in_a_fork_where_they_were_at_that_moment() -> None:
    async with CaseTestKit(slow) as kit:
        case = await kit.start(slow)
        start, seq = kit.clock.now(), await kit.hub.log.position()
        await kit.advance("4h")
        for at, left in ((None, 6), (seq, 10), (start + timedelta(hours=1), 9)):
            state = await (await kit.hub.fork(case.id, at)).state()
            assert state.timers == {"sla:checked": kit.clock.now() + timedelta(hours=left)}
        await kit.advance("7h")
        assert (await case.state()).milestones["checked"].sla == "BREACHED"


inner = CaseDefinition("inner", goal="heard", signals={"heard": str})
outer = CaseDefinition("outer", goal="told")


@outer.sub_case(inner, takes="heard", writes="told")
def tell_them(text: str) -> dict[str, str]:
    return {}


async def test_sub_cases_under_way_start_again_and_those_of_the_source_are_left_alone() -> None:
    async with CaseTestKit(outer, inner) as kit:
        case = await kit.start(outer, text="x")
        await case.quiescent()
        (child,) = await case.children()
        other = await kit.hub.fork(case.id, fork_id="f")
        await other.quiescent()
        (own,) = await other.children()
        assert own.id.startswith("f/tell_them/1")
        await kit.hub.case(own.id).signal(heard="yes")
        assert (await other.completed())["told"] == "yes"
        assert await kit.hub.case(child.id).status() is CaseStatus.WAITING
        assert await case.status() is CaseStatus.WAITING


async def test_sub_cases_that_had_ended_are_not_started_again() -> None:
    async with CaseTestKit(outer, inner) as kit:
        case = await kit.start(outer, text="x")
        await case.quiescent()
        (child,) = await case.children()
        await kit.hub.case(child.id).signal(heard="yes")
        await case.completed()
        log = await kit.hub.store.load(case.id)
        at = max(event.seq for event in log if event.turn < log[-1].turn)
        await kit.hub.fork(case.id, at, fork_id="f")
        await kit.hub.case("f").quiescent()
        started = {each.case for each in await kit.hub.cases(definition="inner")}
        assert started == {child.id, "f/tell_them/1~2"}


async def test_a_fork_of_a_suspended_case_is_suspended() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=1.0)
        await case.suspend()
        other = await kit.hub.fork(case.id)
        assert await other.status() is CaseStatus.SUSPENDED
        await other.resume()
        await other.signal(go=True)
        await other.completed()


async def test_a_crash_right_after_a_fork_leaves_it_whole_and_suspended() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=1.0)
        await case.quiescent()
        kit.crash_after(CaseForked)
        with pytest.raises(Exception):  # noqa: B017, PT011 - the hub dies of it
            await kit.hub.fork(case.id, fork_id="f")
        await kit.restart()
        other = kit.hub.case("f")
        assert await other.status() is CaseStatus.SUSPENDED
        await other.resume()
        await other.signal(go=True)
        await other.completed()


def test_what_users_wrote_is_not_taken_for_an_id() -> None:
    event = ContextChanged(facts={"c1": "c1/assess/1"}, by="user:c1", binding="c1")
    copy = renamed(event, event.envelope, "c1", "c2")
    assert copy == event
    started = HumanTaskCreated(task="c1/ask/1/2", binding="ask", activation="c1/ask/1", title="c1/ask/1", by="case:c1")  # type: ignore[arg-type]  # ids are text
    copy = renamed(started, started.envelope, "c1", "c2")
    assert (copy.task, copy.activation, copy.title, copy.by) == ("c2/ask/1/2", "c2/ask/1", "c1/ask/1", "case:c2")


async def test_a_fork_goes_on_from_every_turn_of_its_source() -> None:
    async with CaseTestKit(loan, desk) as kit:
        case = await kit.start(loan, amount=100.0)
        await case.quiescent()
        await case.signal(note="hello", key="k")
        await case.suspend()
        await case.resume()
        await case.signal(go=True)
        await case.completed()
        log = await kit.hub.store.load(case.id)
        for turn in range(1, log[-1].turn):
            at = max(event.seq for event in log if event.turn == turn)
            other = await kit.hub.fork(case.id, at, fork_id=f"f{turn}")
            if await other.status() is CaseStatus.SUSPENDED:
                await other.resume()
            await other.quiescent()
            await other.signal(note="again", key="k")
            noted = any("note" in event.facts for event in log if isinstance(event, ContextChanged) and event.seq <= at)
            assert (await other.context())["note"] == ("hello" if noted else "again")
            if not (await other.status()).ended:
                await other.signal(go=True)
            assert (await other.completed())["decision"] == "approve"


async def test_a_fork_under_a_brake_is_held() -> None:
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=1.0)
        await case.quiescent()
        await kit.hub.brake.pull("loan", by="user:ada")
        other = await kit.hub.fork(case.id, fork_id="f")
        assert await other.status() is CaseStatus.SUSPENDED


async def test_keys_that_were_taken_at_one_position_all_come_along() -> None:
    store, one = MemoryStore(), []
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=1.0)
        await case.quiescent()
        one.append(transcript.ToldCase(await kit.hub.store.load(case.id), {"a": 1, "b": 1, "c": 2, "d": 77}))
    await store.open(lambda turns: None)
    await import_into(store, Import(transcript.Transcript(one)))
    assert set(await store.inputs(case.id)) == {"a", "b", "c", "d"}
    await store.close()


# ---- export and import


async def filled(hub: CaseHub) -> None:
    """Cases in every state that matters: ended, open with people, with sub-cases, with a timer, with keys."""
    done = await hub.start(loan, case_id="done", amount=1.0)
    await done.signal(go=True, key="once")
    await done.completed()
    await (await hub.start(desk, case_id="asks", question="Why")).quiescent()
    family = await hub.start(outer, case_id="family", text="x")
    await family.quiescent()
    waits = await hub.start(loan, case_id="waits", amount=900.0)
    await waits.signal(note="hello", key="noted")
    await waits.signal(note="hello", key="again")  # changes nothing, and leaves its key
    await waits.quiescent()


ALL: Sequence[str] = ("done", "asks", "family", "waits")


def bodies(events: Sequence[Event]) -> list[object]:
    """Events as they are outside of stores, but for positions."""
    return [{**json.loads(as_json(event)), "seq": 0} for event in events]


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    if request.param == "postgres":
        return PostgresStore(request.getfixturevalue("postgres_url"))
    return SQLiteStore(tmp_path / "source.db", synchronous="NORMAL") if request.param == "sqlite" else Lasting()


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[object]:
    if request.param == "sqlite":
        yield SQLiteStore(tmp_path / "target.db", synchronous="NORMAL")
        return
    base, schema = request.getfixturevalue("postgres"), f"target_{os.getpid()}"
    store = PostgresStore(f"{base}{'&' if '?' in base else '?'}schema={schema}")
    yield store
    with psycopg.connect(store.place.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


class Lasting(Kept):
    """A store in memory that lists inputs."""

    async def inputs(self, case: CaseId, tenant: str = "default") -> dict[str, int]:
        return dict(await self.store.inputs(case, tenant))


async def test_what_is_exported_and_imported_is_the_same_on_every_store(source, target, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]  # any of the stores
    logs = {}
    async with CaseHub(loan, desk, outer, inner, store=source, retention=None) as hub:
        await filled(hub)
        for case in ALL:
            transcript.write(tmp_path / f"{case}.ndjson", await transcript.tell(hub.store, case))
        for summary in await hub.cases():
            logs[summary.case] = await hub.store.load(summary.case)
        tasks = [task.id for task in await hub.tasks.list()]
    async with CaseHub(loan, desk, outer, inner, store=target, retention=None) as hub:
        for case in ALL:
            await hub.bring_in(transcript.read(tmp_path / f"{case}.ndjson"))
        assert {each.case for each in await hub.cases()} == set(logs)
        for case, events in logs.items():
            found = await hub.store.load(case)
            assert bodies(found) == bodies(events)
            assert fold(case, found) == fold(case, events)
        assert [task.id for task in await hub.tasks.list()] == tasks
        assert await hub.store.outcome(CaseId("done"), "once") is not None
        assert await hub.store.outcome(CaseId("waits"), "again") is not None
        waits = hub.case("waits")
        await waits.signal(note="other", key="noted")
        assert (await waits.context())["note"] == "hello"
        await waits.signal(go=True)
        assert (await waits.completed())["decision"] == "refer"
        await hub.tasks.complete(tasks[0], "because", by="user:ada")
        await hub.case("asks").completed()
        (child,) = await hub.case("family").children()
        await hub.case(child.id).signal(heard="yes")
        assert (await hub.case("family").completed())["told"] == "yes"
    checked = await _checked(target)
    assert checked == []


async def _checked(store: SQLiteStore | PostgresStore) -> list[str]:
    await store.open(lambda turns: None)
    try:
        return [each.text for each in await store.check() if each.fault]
    finally:
        await store.close()


async def test_a_case_goes_on_under_another_id_and_for_another_tenant(tmp_path: Path) -> None:
    async with CaseHub(desk, outer, inner, retention=None) as hub:
        family = await hub.start(outer, case_id="family", text="family/tell_them/1")
        await family.quiescent()
        transcript.write(tmp_path / "f.ndjson", await transcript.tell(hub.store, "family"))
        told = await hub.bring_in(transcript.read(tmp_path / "f.ndjson"), case_id="other")
        assert list(told.cases) == ["other", "other/tell_them/1"]
        await hub.case("other/tell_them/1").signal(heard="yes")
        done = await hub.case("other").completed()
        assert (done["told"], done["text"]) == ("yes", "family/tell_them/1")
        assert await family.status() is CaseStatus.WAITING
        await family.kill()
    async with CaseHub(desk, outer, inner, tenant="acme", store=SQLiteStore(tmp_path / "a.db"), retention=None) as hub:
        await hub.bring_in(transcript.read(tmp_path / "f.ndjson"))
        await hub.case("family/tell_them/1").signal(heard="no")
        assert (await hub.case("family").completed())["told"] == "no"
        assert await hub.log.count(EventQuery(tenant="default")) == {"": 0}


async def test_nothing_is_brought_in_that_could_not_go_on(tmp_path: Path) -> None:
    async with CaseTestKit(loan, desk) as kit:
        await (await kit.start(desk, question="Why")).quiescent()
        await (await kit.start(loan, amount=1.0)).quiescent()
        told = {case.definition: await transcript.tell(kit.hub.store, case.case) for case in await kit.hub.cases()}
        with pytest.raises(CaseExistsError, match="import it under another id"):
            await kit.hub.bring_in(told["loan"])
        with pytest.raises(InputRefusedError, match="is no id"):
            await kit.hub.bring_in(told["loan"], case_id="../x")
        dry = await kit.hub.bring_in(told["loan"], case_id="x", dry_run=True)
        assert (dry.dry_run, list(dry.open)) == (True, ["x"])
        with pytest.raises(CaseNotFoundError):
            await kit.hub.case("x").status()
    async with CaseTestKit(loan) as kit:
        with pytest.raises(InputRefusedError, match="which this hub lacks"):
            await kit.hub.bring_in(told["desk"])
        assert await kit.hub.log.position() == 0


async def test_a_sub_case_alone_needs_an_id_of_its_own() -> None:
    store = MemoryStore()
    async with CaseTestKit(outer, inner) as kit:
        case = await kit.start(outer, text="x")
        await case.quiescent()
        (child,) = await case.children()
        alone = await transcript.tell(kit.hub.store, child.id)
    await store.open(lambda turns: None)
    with pytest.raises(InputRefusedError, match="is a sub-case of 'outer-1', which is not here"):
        await import_into(store, Import(alone))
    done = await import_into(store, Import(alone, case_id="mine"))
    assert list(done.cases) == ["mine"]
    await store.close()


# ---- files


async def a_file(tmp_path: Path) -> Path:
    path = tmp_path / "case.ndjson"
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, amount=1.0)
        await case.signal(go=True, key="k")
        await case.completed()
        transcript.write(path, await transcript.tell(kit.hub.store, case.id))
    return path


async def test_a_file_that_was_changed_or_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    whole = path.read_bytes()
    assert transcript.read(path).size > 10
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place])
        with pytest.raises(FileError):
            transcript.read(path)
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(FileError):
            transcript.read(path)


def sealed(lines: list[bytes]) -> bytes:
    """Lines with a seal that fits them."""
    text = b"".join(line + b"\n" for line in lines)
    return text + b'{"sha256":"%b"}\n' % hashlib.sha256(text).hexdigest().encode()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"format":1', b'"format":2', "it is of format 2"),
        (b'"casehub":"transcript"', b'"casehub":"other"', "it is no transcript"),
        (b'"version":3', b'"version":4', "this is no event 3"),
        (b'"tenant":"default"', b'"tenant":"other"', "this is no event"),
        (b'"cause":1', b'"cause":900', "which it cannot"),
        (b'"status":"COMPLETED"', b'"status":"RUNNING"', "is not what is said of case"),
        (b'"structure":"', b'"structure":"x', "is not what is said of case"),
        (b'"name":"CASE_STARTED"', b'"name":"GOAL_REACHED"', "this is no GOAL_REACHED"),
        (b'"turn":2', b'"turn":9', "does not follow"),
        (b'"inputs":{', b'"inputs":{"x":"y",', "ValueError"),
    ],
)
async def test_a_file_that_is_sealed_and_does_not_fit_together_is_refused(
    tmp_path: Path, old: bytes, new: bytes, said: str
) -> None:
    path = await a_file(tmp_path)
    lines = path.read_bytes().split(b"\n")[:-2]
    place = next(number for number, line in enumerate(lines) if old in line)
    lines[place] = lines[place].replace(old, new, 1)
    path.write_bytes(sealed(lines))
    with pytest.raises(FileError, match=said):
        transcript.read(path)


async def test_more_or_less_than_the_head_says_is_refused(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    lines = path.read_bytes().split(b"\n")[:-2]
    for wrong in ([*lines, b"{}"], lines[:-1], [lines[0]], [lines[0], *lines[1:], *lines[1:]]):
        path.write_bytes(sealed(wrong))
        with pytest.raises(FileError):
            transcript.read(path)
    path.write_bytes(b"")
    with pytest.raises(FileError, match="it is no transcript"):
        transcript.read(path)
    with pytest.raises(FileError, match="it is no file"):
        transcript.read(tmp_path)
