"""Human tasks through the control socket: one verb, `task`, for all that `hub.tasks` does with one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from casehub.tasks import Task
from casehub.worklist import Worklist

TaskVerb = Literal["get", "claim", "release", "assign", "delegate", "complete", "decline", "comment"]
_form: Final = TypeAdapter(Task)


def task_json(task: Task) -> dict[str, Any]:
    """A task as plain values."""
    found: dict[str, Any] = _form.dump_python(task, mode="json")
    return found


async def act(
    tasks: Worklist, do: TaskVerb, task: str, by: str, groups: Sequence[str] | None, key: str, to: str, text: str, answer: Any
) -> Mapping[str, Any]:  # fmt: skip
    """Do one thing with one task; the task as that left it. `text`: a comment, or the reason of a refusal."""
    verbs: dict[TaskVerb, Callable[[], Awaitable[Task]]] = {
        "get": lambda: tasks.get(task),
        "claim": lambda: tasks.claim(task, by=by, groups=groups, key=key),
        "release": lambda: tasks.release(task, by=by, key=key),
        "assign": lambda: tasks.assign(task, to, by=by, key=key),
        "delegate": lambda: tasks.delegate(task, to, by=by, groups=groups, key=key),
        "complete": lambda: tasks.complete(task, answer, by=by, groups=groups, key=key),
        "decline": lambda: tasks.decline(task, text, by=by, groups=groups, key=key),
        "comment": lambda: tasks.comment(task, text, by=by, key=key),
    }
    return task_json(await verbs[do]())


class RemoteWorklist:
    """The human tasks of another process's hub: the verbs of `Worklist`, whose documentation holds here too.

    `ask`: puts a verb with its arguments to that process. Lists are read from the database.
    """

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask

    async def get(self, task: str) -> Task:
        return await self._do("get", task, "")

    async def claim(self, task: str, /, *, by: str, groups: Sequence[str] | None = None, key: str = "") -> Task:
        return await self._do("claim", task, by, groups=groups, key=key)

    async def release(self, task: str, /, *, by: str, key: str = "") -> Task:
        return await self._do("release", task, by, key=key)

    async def assign(self, task: str, /, to: str, *, by: str, key: str = "") -> Task:
        return await self._do("assign", task, by, to=to, key=key)

    async def delegate(
        self, task: str, /, to: str, *, by: str, groups: Sequence[str] | None = None, key: str = ""
    ) -> Task:
        return await self._do("delegate", task, by, to=to, groups=groups, key=key)

    async def complete(
        self, task: str, answer: object = None, /, *, by: str, groups: Sequence[str] | None = None, key: str = ""
    ) -> Task:
        return await self._do("complete", task, by, answer=answer, groups=groups, key=key)

    async def decline(
        self, task: str, /, reason: str = "", *, by: str, groups: Sequence[str] | None = None, key: str = ""
    ) -> Task:
        return await self._do("decline", task, by, text=reason, groups=groups, key=key)

    async def comment(self, task: str, /, text: str, *, by: str, key: str = "") -> Task:
        return await self._do("comment", task, by, text=text, key=key)

    async def _do(self, do: TaskVerb, task: str, by: str, **more: Any) -> Task:
        return _form.validate_python(await self._ask("task", do=do, task=task, by=by, **more))
