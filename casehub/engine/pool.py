"""The tasks of a hub: a job goes to one that has ended its last, so most jobs cost a wake-up and no task.

A task of anyio's costs ten times what waking one does: its handle, a copy of the context. All of them belong to the hub's
task group as ever, so what ends the group ends them. Each has one cancel scope, which its jobs get: a job may cancel what
it awaits by it; then it awaits nothing any more, and its task ends with it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

IDLE: Final = 256
"""Tasks that wait for a job; those that end when so many do are let go."""

Function = Callable[..., Coroutine[Any, Any, object]]
"""What a job calls: with the cancel scope of its task, then with its arguments."""
Job = tuple[Function, tuple[Any, ...]]


class TaskPool:
    """Runs jobs in tasks of a group, all of them in the context in which the pool was made."""

    __slots__ = ("_context", "_group", "_idle")

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._context = copy_context()
        self._idle: list[asyncio.Future[Job]] = []

    def spawn(self, function: Function, *arguments: Any) -> None:
        """Run a job as soon as the event loop comes round. What it raises ends the group."""
        while self._idle:
            free = self._idle.pop()
            if not free.done():  # as it is when its task was cancelled
                free.set_result((function, arguments))
                return
        _ = self._context.copy().run(self._group.start_soon, self._serve, (function, arguments))

    async def _serve(self, job: Job) -> None:
        with anyio.CancelScope() as scope:
            while True:
                function, arguments = job
                await function(scope, *arguments)
                if len(self._idle) >= IDLE or not self._as_new(scope):
                    return
                free: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
                self._idle.append(free)
                del job, function, arguments  # nothing of a case is kept by who waits
                job = await free

    def _as_new(self, scope: anyio.CancelScope) -> bool:
        """Whether the running task is as it began: what a worker left behind in it is for no other case."""
        task = asyncio.current_task()
        return (
            not scope.cancel_called
            and (task is None or not task.cancelling())
            and anyio.current_effective_deadline() == math.inf  # a scope that was entered and never left
            and _same(copy_context(), self._context)
        )


def _same(one: Context, other: Context) -> bool:
    """Whether two contexts hold the same objects."""
    return len(one) == len(other) and all(other.get(each) is value for each, value in one.items())
