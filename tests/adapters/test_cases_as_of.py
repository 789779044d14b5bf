"""The list of cases as of a position: as it was, whatever has happened since."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from casehub.adapters.memory import MemoryStore
from casehub.events import CaseCompleted, CaseStalled, CaseStarted, CaseStatusChanged, GoalReached
from casehub.lifecycle import CaseStatus
from casehub.query import CaseQuery, CaseSummary, cases_as_of
from casehub.spi import Turn
from casehub.testing.event_logs import Writing, committed, opened

RUNNING, WAITING, COMPLETED = CaseStatus.RUNNING, CaseStatus.WAITING, CaseStatus.COMPLETED
FILTERS: Sequence[tuple[CaseStatus, ...]] = ((), (RUNNING,), (COMPLETED,), (RUNNING, WAITING))


def turns(chance: random.Random, number: int) -> list[Turn]:
    """Turns of cases that start, wait, stall, go on and end, mixed."""
    writings: list[tuple[Writing, CaseStatus]] = []
    made: list[Turn] = []
    for _ in range(number):
        open_ones = [each for each in writings if each[1] is not COMPLETED]
        if not open_ones or chance.random() < 0.2:
            writing = Writing(f"c{len(writings)}", definition=chance.choice(["claim", "loan"]))
            made.append(writing.turn(CaseStarted()))
            writings.append((writing, RUNNING))
            continue
        writing, status = each = chance.choice(open_ones)
        kind = chance.choice(["move", "goal", "stall", "end"])
        after = {"move": WAITING if status is RUNNING else RUNNING, "end": COMPLETED}.get(kind, status)
        if kind == "move":
            made.append(writing.turn(CaseStatusChanged(before=status, after=after, reason="moved"), status=after))
        elif kind == "end":
            made.append(writing.turn(CaseCompleted(before=status, reason="over"), status=after))
        elif kind == "stall":
            made.append(writing.turn(CaseStalled(reasons=("stuck",)), status=status, stalled=True))
        else:
            made.append(writing.turn(GoalReached(goal="g"), status=status))
        writings[writings.index(each)] = (writing, after)
    return made


@pytest.mark.parametrize("seed", range(8))
async def test_it_is_what_the_list_was_then(seed: int) -> None:
    chance, store = random.Random(seed), MemoryStore()
    queries = [
        CaseQuery(definition=definition, statuses=statuses, limit=limit)
        for definition in (None, "claim")
        for statuses in FILTERS
        for limit in (1, 3, 100)
    ]
    then: dict[int, list[Sequence[CaseSummary]]] = {}
    async with opened(store):
        for turn in turns(chance, 60):
            await committed(store, turn)
            then[await store.position()] = [await store.cases(query) for query in queries]
        for position, answers in then.items():
            for query, answer in zip(queries, answers, strict=True):
                found = [said(row) for row in await cases_as_of(store, query, position)]
                assert found == [said(row) for row in answer], (position, query)


def said(row: CaseSummary) -> tuple[object, ...]:
    """What a summary says; whether a case is stalled is the fold's to say, and these logs are made up."""
    return (row.case, row.status, row.version, row.seq, row.first, row.started_at, row.changed_at, row.reason)


async def test_what_moves_between_its_questions_changes_nothing() -> None:
    class Restless(MemoryStore):
        """Something happens whenever the list is asked for."""

        async def cases(self, query: CaseQuery) -> Sequence[CaseSummary]:
            await committed(self, ending.turn(CaseCompleted(before=RUNNING), status=COMPLETED))
            return await super().cases(query)

    store, ending, other = Restless(), Writing("ending"), Writing("other")
    async with opened(store):
        await committed(store, other.turn(CaseStarted()), ending.turn(CaseStarted()))
        query = CaseQuery(statuses=(RUNNING,), limit=10)
        found = await cases_as_of(store, query, await store.position())
        assert [(row.case, row.status) for row in found] == [("ending", RUNNING), ("other", RUNNING)]
