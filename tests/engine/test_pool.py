"""The pool: which task a job gets, what its end leaves behind, and what ends with the group."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from casehub import CaseDefinition, CaseHub
from casehub.engine.pool import IDLE, TaskPool

USER: ContextVar[Any] = ContextVar("user", default="nobody")


@asynccontextmanager
async def pool() -> AsyncIterator[TaskPool]:
    async with anyio.create_task_group() as group:
        yield TaskPool(group)
        group.cancel_scope.cancel()


async def rest() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_jobs_one_after_another_need_one_task() -> None:
    tasks = set[asyncio.Task[Any] | None]()

    async def job(scope: anyio.CancelScope) -> None:
        tasks.add(asyncio.current_task())

    async with pool() as jobs:
        for _ in range(5):
            jobs.spawn(job)
            await rest()
    assert len(tasks) == 1


async def test_jobs_at_once_run_at_once() -> None:
    tasks = list[asyncio.Task[Any]]()
    all_run, go = asyncio.Event(), asyncio.Event()

    async def job(scope: anyio.CancelScope) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        if len(tasks) == 2 * IDLE:
            all_run.set()
        await go.wait()

    async with pool() as jobs:
        for _ in range(2 * IDLE):
            jobs.spawn(job)
        await asyncio.wait_for(all_run.wait(), 60)
        go.set()
        for _ in range(10_000):
            if sum(task.done() for task in tasks) == IDLE:
                break
            await asyncio.sleep(0)
        await rest()
        assert len(set(tasks)) == 2 * IDLE
        assert sum(not task.done() for task in tasks) == IDLE  # the others are let go


async def test_a_job_sees_the_context_of_the_pool_and_not_that_of_who_spawns_it() -> None:
    seen = []

    async def job(scope: anyio.CancelScope) -> None:
        seen.append(USER.get())

    async with pool() as jobs:
        token = USER.set("ada")
        jobs.spawn(job)
        await rest()
        USER.reset(token)
    assert seen == ["nobody"]


@pytest.mark.parametrize("left", ["ada", "nobody"])
async def test_what_a_job_leaves_in_its_context_is_gone_for_the_next(left: str) -> None:
    seen = []

    async def job(scope: anyio.CancelScope) -> None:
        seen.append(USER.get("unset"))
        USER.set(left)

    async with pool() as jobs:
        for _ in range(3):
            jobs.spawn(job)
            await rest()
    assert seen == ["unset"] * 3


async def test_once_the_group_is_cancelled_no_job_goes_to_a_task_that_has_ended() -> None:
    began = 0

    async def job(scope: anyio.CancelScope) -> None:
        nonlocal began
        began += 1

    async with anyio.create_task_group() as group:
        jobs = TaskPool(group)
        jobs.spawn(job)
        await rest()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await rest()
            jobs.spawn(job)
            await rest()
    assert began == 2


async def test_a_scope_that_a_job_never_left_ends_the_group_at_once_and_no_later_job() -> None:
    async def job(scope: anyio.CancelScope) -> None:
        anyio.CancelScope(deadline=anyio.current_time() + 3_600).__enter__()

    async def work() -> None:
        async with pool() as jobs:
            jobs.spawn(job)
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await work()
    assert caught.group_contains(RuntimeError, match="isn't the current")


async def test_a_cancellation_that_a_job_swallowed_is_not_held_against_the_next() -> None:
    tasks = list[asyncio.Task[Any] | None]()

    async def job(scope: anyio.CancelScope) -> None:
        task = asyncio.current_task()
        tasks.append(task)
        assert task is not None
        assert not task.cancelling()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)

    async with pool() as jobs:
        for _ in range(2):
            jobs.spawn(job)
            await rest()
    assert len(set(tasks)) == 2


async def test_a_task_that_waits_holds_nothing_of_its_last_job() -> None:
    class Case:
        pass

    async def job(scope: anyio.CancelScope, case: Case) -> None: ...

    async with pool() as jobs:
        for _ in range(2):  # by a new task, and by one that waited
            case = Case()
            gone = weakref.ref(case)
            jobs.spawn(job, case)
            del case
            await rest()
            gc.collect()
            assert gone() is None


async def test_what_a_job_raises_ends_the_group() -> None:
    async def job(scope: anyio.CancelScope, error: Exception | None) -> None:
        if error is not None:
            raise error

    async def work() -> None:
        async with pool() as jobs:
            jobs.spawn(job, None)
            await rest()
            jobs.spawn(job, ValueError("wrong"))
            await rest()

    with pytest.raises(ExceptionGroup) as caught:
        await work()
    assert caught.group_contains(ValueError, match="wrong")


async def test_what_a_worker_leaves_in_its_context_does_not_reach_another_case() -> None:
    definition = CaseDefinition("greeting", goal="greeted")

    @definition.worker(writes="greeted")
    async def greet(name: str) -> Any:
        before = USER.get()
        USER.set(name)
        return before

    async with CaseHub(definition) as hub:
        greeted = [(await (await hub.start(definition, name=name)).completed())["greeted"] for name in ("ada", "grace")]
    assert greeted == ["nobody", "nobody"]
