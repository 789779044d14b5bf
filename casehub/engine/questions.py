"""What a worker asks of people while it runs: `await execution.ask(form)`.

A question is a human task of the worker's activation, under an id that is the same each time the worker runs. Here is
who waits in this process: while it lives, the worker goes on with the answer where it is. Where it does not, the log
has the answer: the worker is run again from its top, and what was asked is answered at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from casehub.activation import Activation
from casehub.errors import Declined, SettingsError
from casehub.humantask import HumanTask
from casehub.inputs import Ask
from casehub.task_events import HumanTaskCompleted, HumanTaskEnded, HumanTaskExpired, TaskId
from casehub.values import FactType, Plain, type_name

MOST: Final = 100
"""Questions that one attempt may ask; a worker that asks without end is mistaken."""


class Questions:
    """The questions of one attempt. `forms`: of those that were asked; `parked`: whether the worker waits for an answer.

    `submit` posts a question to the case and waits until it is in the log; `told` is called when the worker waits.
    """

    __slots__ = (
        "_activation",
        "_answers",
        "_attempt",
        "_binding",
        "_refusals",
        "_submit",
        "_told",
        "_waiting",
        "forms",
    )

    def __init__(
        self, activation: Activation, submit: Callable[[Ask], Awaitable[object]], told: Callable[[], None]
    ) -> None:
        self.forms: dict[TaskId, FactType] = {}
        self._activation, self._binding, self._attempt = activation.id, activation.binding, activation.attempt
        self._answers, self._refusals = dict(activation.answers), dict(activation.refusals)
        self._submit = submit
        self._told = told
        self._waiting: dict[TaskId, asyncio.Future[Plain]] = {}

    @property
    def parked(self) -> bool:
        return bool(self._waiting)

    async def ask(self, asked: HumanTask[Any] | type[Any], key: str) -> Any:
        """The answer, of the form's type. Raises `Declined` and `TimeoutError` where there will be none."""
        if "/" in key or key.isdigit() or not key.isprintable() or key.startswith("gate-"):
            raise SettingsError(
                f"ask(key={key!r}): a key is a name; use printable characters other than '/', not digits alone, no 'gate-' in front"
            )
        if len(self.forms) >= MOST:
            raise SettingsError(f"binding {self._binding!r} has asked {MOST} questions in one run; mend its loop")
        task = TaskId(f"{self._activation}/{key or f'ask-{len(self.forms) + 1}'}")
        if task in self.forms:
            raise SettingsError(f"task {task!r} is asked for twice in one run; give each question a key of its own")
        if not isinstance(asked, HumanTask):
            asked = HumanTask(f"{self._binding}: {type_name(asked)}", asked)
        form = self.forms[task] = FactType(asked.form)
        where = f"the answer to task {task!r}"
        if task in self._answers:
            return form.restore(self._answers[task], where)
        if task in self._refusals:
            raise _refusal(task, self._refusals[task])
        question = Ask(task=task, activation=self._activation, attempt=self._attempt, asked=asked, form=form.schema())
        waiting = self._waiting[task] = asyncio.get_running_loop().create_future()
        try:
            await self._submit(question)
            self._told()
            return form.restore(await waiting, where)
        finally:
            del self._waiting[task]

    def close(self) -> None:
        """The attempt is over: nobody waits any more, whatever tasks its worker has left behind."""
        for waiting in self._waiting.values():
            waiting.cancel()

    def end(self, event: HumanTaskEnded) -> None:
        """Give a question its answer, or say that there will be none."""
        waiting = self._waiting.get(event.task)
        if waiting is None or waiting.done():
            return
        if isinstance(event, HumanTaskCompleted):
            waiting.set_result(event.answer)
        else:
            reason = None if isinstance(event, HumanTaskExpired) else str(getattr(event, "reason", ""))
            waiting.set_exception(_refusal(event.task, reason))


def _refusal(task: TaskId, reason: str | None) -> Exception:
    """What a worker is told of a question that has no answer; without a reason its deadline has passed."""
    if reason is None:
        return TimeoutError(f"nobody answered task {task!r} before its deadline")
    return Declined(reason or "declined")
