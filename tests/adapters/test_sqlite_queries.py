"""Queries of the SQLite store cost what they answer: each through the index that is there for it, however long the log."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from casehub.adapters.sqlite import SQLiteStore
from casehub.adapters.sqlite_log import Session
from casehub.events import (
    CaseCompleted,
    CaseId,
    CaseStarted,
    ContextChanged,
    Event,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
)
from casehub.lifecycle import CaseStatus
from casehub.query import CaseQuery, EventQuery, concrete
from casehub.spi import Turn
from casehub.testing.event_logs import AT, Writing, committed, opened

EVENTS_PER_CASE = 20
Question = Callable[[Session], Any]


def turns_of(number: int) -> list[Turn]:
    """A case of five turns of four events, as a chain of four workers makes it; every hundredth is of a rare definition."""
    case = Writing(f"c{number:06}", definition="rare" if number % 100 == 42 else f"d{number % 3}")
    turns = []
    for step in range(5):
        about: dict[str, Any] = {"binding": f"b{step}", "worker": f"b{step}", "by": f"worker:b{step}"}
        events: list[Event] = [
            ContextChanged(facts={f"f{step}": number}, binding=about["binding"], by=about["by"], confidence=sure)
            for sure in ({"f": number % 50 / 50} if number < 100 else None, None, None)
        ]
        if step == 0:
            events.insert(0, CaseStarted())
        elif step == 4 and number % 50:
            events.append(CaseCompleted(before=CaseStatus.RUNNING))
        else:
            events.append(WorkerExecutionFailed(**about, activation=case.activation, attempt=1, error="E", message="m"))
        status = CaseStatus.COMPLETED if isinstance(events[-1], CaseCompleted) else CaseStatus.RUNNING
        turn = case.turn(*events, at=AT + timedelta(seconds=10 * number + step), status=status)
        turns.append(turn)
    return turns


async def build(path: Path, events: int) -> None:
    """A log of that many events, of cases that lie between each other."""
    store = SQLiteStore(path, synchronous="NORMAL")
    async with opened(store):
        for first in range(0, events // EVENTS_PER_CASE, 500):
            cases = [turns_of(number) for number in range(first, min(first + 500, events // EVENTS_PER_CASE))]
            for turns in zip(*cases, strict=True):
                await committed(store, *turns)


def session(path: Path) -> Session:
    return Session(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None))


@pytest.fixture
async def asking(tmp_path: Path) -> Any:
    await build(tmp_path / "cases.db", 4_000)
    asking = session(tmp_path / "cases.db")
    with closing(asking.connection):
        yield asking


def plan(asking: Session, question: Question) -> str:
    """How SQLite finds what the question asks for: the plan of each statement that looks at events, cases or timers."""
    statements: list[str] = []
    asking.ask(question)
    asking.connection.set_trace_callback(statements.append)
    answer = asking.ask(question)
    asking.connection.set_trace_callback(None)
    assert answer is not None
    steps = []
    for statement in statements:
        if re.search(r"FROM \(?(SELECT .* FROM )?(events|cases|timers|inputs|subscribers|marks|json_each)", statement):
            steps += [row[3] for row in asking.connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    return "\n".join(steps)


FAILED = concrete([WorkerExecutionFailed])
FINISHED = concrete([WorkerExecutionFinished])
CHANGED = concrete([ContextChanged])
BY_CASE = "SEARCH e USING INDEX events_by_case (case_no=?)"
COVERED = "SEARCH e USING COVERING INDEX events_by_case (case_no=?)"
BY_KIND = "SEARCH i USING PRIMARY KEY (kind=? AND seq>? AND seq<?)"
SURE = "SEARCH s USING COVERING INDEX events_by_confidence (kind=? AND confidence>? AND confidence<?)"
BY_POSITION = "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
LAST = "SEARCH cases USING COVERING INDEX cases_by_definition (tenant=? AND definition=? AND rowid<?)"

PLANS: dict[str, tuple[Question, list[str]]] = {
    "load": (lambda s: s.load(CaseId("c000001"), "default"), [BY_CASE]),
    "a case's events of a kind": (lambda s: s.query(EventQuery(case=CaseId("c000001"), types=CHANGED)), [BY_CASE]),
    "the last five cases' starts": (lambda s: s.query(EventQuery(definition="d1", last_cases=5)), [LAST, BY_CASE]),
    "who changed the context in the last hundred cases": (
        lambda s: s.count(EventQuery(types=CHANGED, definition="d1", last_cases=100), "binding"), [LAST, COVERED],
    ),
    "the newest outcomes of a definition": (
        lambda s: s.query(EventQuery(types=FINISHED, definition="d1", newest=True, limit=5)), [BY_KIND, BY_POSITION],
    ),
    "the newest failures of a binding": (
        lambda s: s.query(EventQuery(types=FAILED, binding="b2", newest=True, limit=5)), [BY_KIND, BY_POSITION],
    ),
    "failures of a week": (
        lambda s: s.count(EventQuery(types=FAILED, definition="d1", since=AT + timedelta(minutes=5)), "binding"),
        [BY_KIND, "SEARCH marks USING PRIMARY KEY (high<?)"],
    ),
    "failures of a definition": (
        lambda s: s.count(EventQuery(types=FAILED, definition="d1"), "binding"), [BY_KIND, "not SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"],
    ),
    "unsure outcomes of a definition": (
        lambda s: s.query(EventQuery(types=CHANGED, definition="d1", confidence_below=0.5)), [SURE],
    ),
    "how many are sure": (lambda s: s.count(EventQuery(confidence_from=0.9), "binding"), [SURE]),
    "unsure outcomes of a case": (lambda s: s.query(EventQuery(case=CaseId("c000001"), confidence_below=0.5)), [BY_CASE]),
    "everything behind a position": (lambda s: s.query(EventQuery(after=100, upto=200)), [BY_POSITION]),
    "the newest of all": (lambda s: s.query(EventQuery(newest=True, limit=5)), [BY_POSITION]),
    "a batch of a tail": (lambda s: s.batch(100, "default"), [BY_POSITION]),
    "cases of a definition": (
        lambda s: s.cases(CaseQuery(definition="d1")), ["SEARCH cases USING INDEX cases_by_definition (tenant=? AND definition=? AND rowid<?)"],
    ),
    "cases of a status": (
        lambda s: s.cases(CaseQuery(statuses=(CaseStatus.WAITING, CaseStatus.FAULTED))),
        ["SEARCH cases USING INDEX cases_by_status (tenant=? AND status=? AND rowid<?)"],
    ),
    "cases of a definition and a status": (
        lambda s: s.cases(CaseQuery(definition="d1", statuses=(CaseStatus.FAULTED,))),
        ["SEARCH cases USING INDEX cases_by_both (tenant=? AND definition=? AND status=? AND rowid<?)"],
    ),
    "stalled cases": (lambda s: s.cases(CaseQuery(stalled=True)), ["SEARCH cases USING INDEX cases_stalled (tenant=? AND rowid<?)"]),
    "active cases": (lambda s: s.active(), ["SEARCH cases USING INDEX cases_by_status (tenant=? AND status=?)"]),
    "due timers": (lambda s: s.due(AT, 100), ["SEARCH timers USING COVERING INDEX timers_by_due (due<?)"]),
    "the next timer": (lambda s: (s.next_due(AT),), ["SEARCH timers USING COVERING INDEX timers_by_due (due>?)"]),
    "the outcome of a key": (
        lambda s: (s.outcome(CaseId("c1"), "k", "default"),), ["SEARCH inputs USING PRIMARY KEY (tenant=? AND case_id=? AND key=?)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
async def test_a_question_is_answered_through_its_index(asking: Session, name: str) -> None:
    question, wanted = PLANS[name]
    steps = plan(asking, question)
    for step in wanted:
        assert (step.removeprefix("not ") in steps) is not step.startswith("not "), steps
    # a scan of `marks` in the order of its key stops at the first row; the others are of what the query itself brings
    scanned = re.findall(r"SCAN (?!marks|part\b|json_each|k VIRTUAL|\(subquery)(\w+)", steps)
    assert scanned == [], steps


async def test_an_answer_is_of_one_moment(asking: Session, tmp_path: Path) -> None:
    def question(asking: Session) -> tuple[int, int]:
        before = asking.position()
        with closing(sqlite3.connect(tmp_path / "cases.db")) as other, other:
            other.execute(
                "INSERT INTO events SELECT seq + 1, case_no, kind, version + 1, turn, at, by, cause, body, confidence FROM events WHERE seq = ?",
                (before,),
            )
        return before, asking.position()

    assert asking.ask(question) == (4_000, 4_000)
    assert asking.ask(Session.position) == 4_001


def fastest(question: Question, asking: Session, rounds: int = 60) -> float:
    """Seconds that the question takes, when nothing else is going on."""
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        asking.ask(question)
        times.append(time.thread_time() - start)
    return min(times)


FLAT: dict[str, Question] = {
    "last cases": lambda s: s.cases(CaseQuery(definition="d1", limit=5)),
    "last cases of a rare definition": lambda s: s.cases(CaseQuery(definition="rare", limit=5)),
    "starts of the last cases": lambda s: s.query(EventQuery(types=("CASE_STARTED",), definition="d1", last_cases=5)),
    "who changed the context lately": lambda s: s.count(
        EventQuery(types=CHANGED, definition="d1", last_cases=100), "binding"
    ),
    "newest outcomes": lambda s: s.query(EventQuery(types=FINISHED, definition="d1", newest=True, limit=5)),
    "newest failures of a binding": lambda s: s.query(EventQuery(types=FAILED, binding="b2", newest=True, limit=5)),
    "one case": lambda s: s.load(CaseId("c000123"), "default"),
    "failures since then": lambda s: s.query(EventQuery(types=FAILED, since=AT + timedelta(seconds=4_000), limit=5)),
    "the newest that are unsure": lambda s: s.query(
        EventQuery(types=CHANGED, confidence_below=0.5, newest=True, limit=5)
    ),
    "active cases of a status": lambda s: s.cases(CaseQuery(statuses=(CaseStatus.SUSPENDED,))),
}


@pytest.mark.slow
async def test_answers_take_no_longer_from_a_log_ten_times_as_long(tmp_path: Path) -> None:
    short, long = tmp_path / "short.db", tmp_path / "long.db"
    await build(short, 10_000)
    await build(long, 100_000)
    one, ten = session(short), session(long)
    with closing(one.connection), closing(ten.connection):
        ratios = {name: fastest(question, ten) / fastest(question, one) for name, question in FLAT.items()}
    assert {name: round(ratio, 1) for name, ratio in ratios.items() if ratio > 3} == {}
