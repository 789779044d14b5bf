"""What every store has to answer about human tasks, as tests; part of `casehub.testing.stores`."""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from casehub.events import CaseStarted, GoalReached
from casehub.spi import CaseStore
from casehub.task_events import TaskId
from casehub.tasks import Task, TaskQuery, TaskStatus
from casehub.testing.event_logs import AT, Writing, committed, opened

_STATUSES = (TaskStatus.OPEN, TaskStatus.CLAIMED, TaskStatus.COMPLETED, TaskStatus.EXPIRED)
_ASKED: Sequence[dict[str, Any]] = (
    {}, {"user": "ada"}, {"user": "ada", "groups": ("g1",)}, {"user": "joan", "groups": ("g1", "g2")}, {"groups": ("g2",)},
    {"groups": ()}, {"case": "c1"}, {"definition": "claim"}, {"definition": "no"}, {"binding": "b1", "case": "c0"},
    {"tenant": "other"}, {"tenant": "other", "user": "ada"}, {"task": "c1/b1/1"}, {"task": "c1/b1/9"}, {"user": "nobody"},
)  # fmt: skip
_OF: Sequence[tuple[TaskStatus, ...]] = (
    (), (TaskStatus.OPEN,), (TaskStatus.OPEN, TaskStatus.CLAIMED), (TaskStatus.COMPLETED, TaskStatus.EXPIRED),
    (TaskStatus.CLAIMED, TaskStatus.COMPLETED), (TaskStatus.CANCELLED,),
)  # fmt: skip


def made_task(number: int, *, tenant: str = "default", case: str = "c0") -> Task:
    """A task like others and unlike them, by its number."""
    status = _STATUSES[number % 4]
    has = status is not TaskStatus.OPEN
    return Task(
        id=TaskId(f"{case}/b{number % 3}/{number}"),
        case=Writing(case).case,
        definition=("claim", "loan")[number % 2],
        binding=f"b{number % 3}",
        activation=Writing(case).activation,
        title=f"naïve {number}?",
        created_at=AT,
        changed_at=AT + timedelta(seconds=number),
        status=status,
        assignee=("ada", "joan")[number // 4 % 2] if has else "",
        groups=((), ("g1",), ("g1", "g2"))[number % 3],
        users=((), ("ada", "joan"))[number // 3 % 2],
        declined_by=("joan",) if number % 5 == 0 else (),
        priority=(0, 3, -1)[number // 2 % 3],
        due=None if number % 4 == 3 else AT + timedelta(days=number % 7),
        answer={"approved": [1, 2.5, None]} if status is TaskStatus.COMPLETED else None,
        tenant=tenant,
    )


class TaskListContract:
    """The promises of a store about `Turn.tasks`, a test each; the fixture `store` gives an empty store, not open."""

    async def _filled(self, store: CaseStore) -> list[Task]:
        tasks: list[Task] = []
        for case, tenant in (("c0", "default"), ("c1", "default"), ("c0", "other")):
            writing = Writing(case, tenant=tenant)
            for first in range(0, 40, 8):
                turn = writing.turn(GoalReached(goal="a"))
                made = [made_task(number, tenant=tenant, case=case) for number in range(first, first + 8)]
                turn.tasks = {task.id: task for task in made}
                tasks += made
                await committed(store, turn)
        return tasks

    async def test_tasks_are_found_by_everything_that_can_be_asked_in_their_order(self, store: CaseStore) -> None:
        async with opened(store):
            tasks = await self._filled(store)
            for asked in _ASKED:
                for statuses in _OF:
                    query = TaskQuery(statuses=statuses, **asked)
                    expected = sorted((task for task in tasks if query.matches(task)), key=lambda task: task.urgency)
                    assert list(await store.log.tasks(query)) == expected, query

    async def test_tasks_come_in_pages_that_miss_none(self, store: CaseStore) -> None:
        async with opened(store):
            await self._filled(store)
            for asked in (_ASKED[0], _ASKED[2], _ASKED[6]):
                whole = TaskQuery(statuses=_OF[2], **asked)
                paged: list[Task] = []
                while page := await store.log.tasks(replace(whole, limit=3, after=paged[-1].id if paged else None)):
                    assert len(page) <= 3
                    paged += page
                assert paged == list(await store.log.tasks(whole))

    async def test_a_page_behind_a_task_that_is_none_is_empty(self, store: CaseStore) -> None:
        async with opened(store):
            await self._filled(store)
            assert list(await store.log.tasks(TaskQuery(after=TaskId("c0/none/1")))) == []

    async def test_a_task_is_what_the_last_turn_left_of_it(self, store: CaseStore) -> None:
        writing, task = Writing("c1"), replace(made_task(4, case="c1"), groups=("g1",), users=())
        claimed = replace(task, status=TaskStatus.CLAIMED, assignee="ada", comments=2)
        ended = replace(claimed, status=TaskStatus.COMPLETED, answer={"approved": True}, ended_by="user:ada")
        open_to_g1 = TaskQuery(statuses=_OF[2], groups=("g1",))
        async with opened(store):
            for version, found in ((task, [task]), (claimed, [claimed]), (ended, []), (task, [task])):  # asked again
                turn = writing.turn(CaseStarted())
                turn.tasks = {version.id: version}
                await committed(store, turn)
                assert list(await store.log.tasks(open_to_g1)) == found
                assert list(await store.log.tasks(TaskQuery(task=task.id))) == [version]

    async def test_a_turn_that_is_refused_leaves_no_task(self, store: CaseStore) -> None:
        task = made_task(4, case="c1")
        turn = Writing("c1", version=7).turn(CaseStarted())
        turn.tasks = {task.id: task}
        async with opened(store):
            await store.commit([turn])
            assert list(await store.log.tasks(TaskQuery())) == []

    async def test_tasks_are_there_when_the_store_is_opened_again(self, store: CaseStore) -> None:
        async with opened(store):
            tasks = await self._filled(store)
        async with opened(store):
            found = await store.log.tasks(TaskQuery(tenant="other"))
        assert {task.id for task in found} == {task.id for task in tasks if task.tenant == "other"}
