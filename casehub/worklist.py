"""`hub.tasks`: what people have to do, over all cases, and the verbs for it.

tasks = await hub.tasks.list(user="ada", groups=["underwriters"])
await hub.tasks.claim(tasks[0].id, by="user:ada", groups=["underwriters"])
await hub.tasks.complete(tasks[0].id, Approval(approved=True), by="user:ada")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from casehub.definition import CaseDefinition
from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime
from casehub.errors import CaseNotFoundError, TaskNotFoundError
from casehub.events import CaseId
from casehub.humantask import person_of
from casehub.inputs import Assign, Claim, Comment, Complete, Decline, Delegate, Release, TaskInput
from casehub.query import EventQuery, concrete
from casehub.registry import Registry
from casehub.state import CaseState
from casehub.task_events import HumanTaskEvent, TaskId
from casehub.tasks import Task, TaskQuery, TaskStatus
from casehub.values import ABSENT, Plain, copy, shown

OPEN: Final = (TaskStatus.OPEN, TaskStatus.CLAIMED)
"""The statuses of tasks that somebody has to do."""
Groups = Sequence[str]


class Tasked(Protocol):
    """What a worklist needs of its hub."""

    tenant: str
    registry: Registry

    @property
    def runtime(self) -> Runtime: ...

    async def pump(self, case: CaseId) -> Pump:
        """The pump of a case, loaded if need be. Raises `CaseNotFoundError`."""
        ...


class Worklist:
    """The human tasks of a hub.

    People are named by `by="user:ada"`. Who may take a task is decided by the names of its users and by `groups`: those
    that the person is in, as the caller knows them; without `groups` the caller vouches for the person. Verbs raise
    `TaskNotFoundError`, `TaskRefusedError` for a task that is somebody else's or has ended, and `CaseEndedError`. What
    they record is in the log when they return, and a repeated `key` changes nothing.
    """

    __slots__ = ("_hub",)

    def __init__(self, hub: Tasked) -> None:
        self._hub = hub

    # ---- looking

    async def list(
        self,
        *,
        user: str | None = None,
        groups: Groups | None = None,
        status: TaskStatus | Sequence[TaskStatus] | None = OPEN,
        definition: CaseDefinition | str | None = None,
        binding: str | None = None,
        case: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[Task]:
        """Tasks of all cases, the most urgent first: by priority, then by due date, then by age.

        `user`: those that a person (`ada` or `user:ada`) has or may take as a member of `groups`; `groups` alone: those
        that are for these. `status`: open ones by default, None for all; `after`: the id to go on behind.
        """
        query = TaskQuery(
            tenant=self._hub.tenant,
            user=None if user is None else person_of(user),
            groups=None if groups is None else tuple(groups),
            statuses=() if status is None else (status,) if isinstance(status, TaskStatus) else tuple(status),
            definition=definition.name if isinstance(definition, CaseDefinition) else definition,
            binding=binding,
            case=None if case is None else CaseId(case),
            after=None if after is None else TaskId(after),
            limit=limit,
        )
        found = await self._hub.runtime.store.log.tasks(query)
        return [with_form(task, self._hub.registry) for task in found]

    async def get(self, task: str) -> Task:
        """One task, with what is to be seen with it. Raises `TaskNotFoundError`."""
        query = TaskQuery(tenant=self._hub.tenant, task=TaskId(task), limit=1)
        found = await self._hub.runtime.store.log.tasks(query)
        if not found:
            raise _unknown(task)
        pump = await self._hub.pump(found[0].case)

        def shown(live: LiveCase) -> Mapping[str, Plain]:
            return shown_with(found[0], live.state)

        return replace(with_form(found[0], self._hub.registry), facts=await pump.read(shown))

    async def history(self, task: str) -> Sequence[HumanTaskEvent]:
        """What happened to a task, comments among it, oldest first."""
        case = case_of(task)
        query = EventQuery(types=concrete([HumanTaskEvent]), tenant=self._hub.tenant, case=case)
        found = await self._hub.runtime.store.log.query(query)
        return [event for event in found if isinstance(event, HumanTaskEvent) and event.task == task]

    # ---- doing

    async def claim(self, task: str, /, *, by: str, groups: Groups | None = None, key: str = "") -> Task:
        """Take a task."""
        return await self._take(Claim(task=TaskId(task), by=by, groups=_tuple(groups), key=key))

    async def release(self, task: str, /, *, by: str, key: str = "") -> Task:
        """Give a task back to its candidates."""
        return await self._take(Release(task=TaskId(task), by=by, key=key))

    async def assign(self, task: str, /, to: str, *, by: str, key: str = "") -> Task:
        """Give a task to somebody, whoever has it and whoever it was for."""
        return await self._take(Assign(task=TaskId(task), to=to, by=by, key=key))

    async def delegate(self, task: str, /, to: str, *, by: str, groups: Groups | None = None, key: str = "") -> Task:
        """Pass a task on that one has, or may take."""
        return await self._take(Delegate(task=TaskId(task), to=to, by=by, groups=_tuple(groups), key=key))

    async def complete(
        self, task: str, answer: object = None, /, *, by: str, groups: Groups | None = None, key: str = ""
    ) -> Task:
        """Answer a task that one has, or may take: an object of the form's type, or a mapping of its fields.

        Raises `AnswerRefusedError` for an answer that does not fit; it names each field, and the task stays as it was.
        `TaskRefusedError` carries the answer of who came too late.
        """
        pump = await self._pump(task)
        asked = [attempt.questions.forms for attempt in pump.attempts.values() if attempt.questions is not None]
        form = next((forms[TaskId(task)] for forms in asked if task in forms), None)
        return await self._take(
            Complete(task=TaskId(task), value=answer, form=form, by=by, groups=_tuple(groups), key=key)
        )

    async def decline(
        self, task: str, /, reason: str = "", *, by: str, groups: Groups | None = None, key: str = ""
    ) -> Task:
        """Refuse a task. What follows is the binding's `on_declined`."""
        return await self._take(Decline(task=TaskId(task), reason=reason, by=by, groups=_tuple(groups), key=key))

    async def comment(self, task: str, /, text: str, *, by: str, key: str = "") -> Task:
        """Write something beside an open task."""
        return await self._take(Comment(task=TaskId(task), text=text, by=by, key=key))

    async def _pump(self, task: str) -> Pump:
        try:
            return await self._hub.pump(case_of(task))
        except CaseNotFoundError:
            raise _unknown(task) from None

    async def _take(self, input: TaskInput) -> Task:
        pump = await self._pump(input.task)
        turn = await pump.submit(input)
        task = turn.tasks.get(input.task)
        if task is None:  # nothing changed, or it was taken before
            (task,) = await self._hub.runtime.store.log.tasks(TaskQuery(tenant=self._hub.tenant, task=input.task))
        return with_form(task, self._hub.registry)


def case_of(task: str) -> CaseId:
    """The case of a task: its id less `/binding/n`, and less the one part more that some have (an attempt, a question).

    Raises `TaskNotFoundError` for what is no id.
    """
    slashes = task.count("/")
    if slashes < 2:
        raise _unknown(task)
    return CaseId(task.rsplit("/", 2 + slashes % 2)[0])


def with_form(task: Task, registry: Registry) -> Task:
    """The task with the JSON Schema of its answer, where its version of the definition is known and asks for it.

    A question of a worker has it from the log.
    """
    if task.ask or task.gate:
        return task
    structure = registry.of(task.definition, task.structure)
    binding = None if structure is None else structure.bindings.get(task.binding)
    for worker in () if binding is None else binding.workers:
        if worker.form is not None:
            return replace(task, form=worker.form.schema())
    return task


def shown_with(task: Task, state: CaseState) -> dict[str, Plain]:
    """The facts to be seen with a task, as they were when it was created; as they are now once it has ended.

    Of a planned action it is the action, `action`.
    """
    activation = state.activations.get(task.activation)
    facts = state.facts if activation is None else activation.facts
    seen = {
        name: copy(shown(value)) for name in task.shows if name in facts and (value := facts[name].value) is not ABSENT
    }
    if task.gate and activation is not None and activation.action is not None:
        seen["action"] = copy(activation.action.value)
    return seen


def _tuple(groups: Groups | None) -> tuple[str, ...] | None:
    return None if groups is None else tuple(groups)


def _unknown(task: str) -> TaskNotFoundError:
    return TaskNotFoundError(
        f"there is no task {task!r} in this hub's store; list them with 'casehub task list', or hub.tasks.list()"
    )
