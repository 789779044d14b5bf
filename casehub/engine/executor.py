"""Running one attempt of a worker: its arguments, its time limit, its cancellation.

A sync function runs in a thread and reads a snapshot, as an async one does. What comes back is an input for the case;
nothing else does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import anyio

from casehub.activation import Activation
from casehub.binding import Binding, Worker
from casehub.engine.gates import risk_of
from casehub.engine.questions import Questions
from casehub.engine.threads import Threads
from casehub.engine.timers import Alarm, TimerWheel
from casehub.errors import FactError, SettingsError
from casehub.events import ActivationId
from casehub.gate import Planned
from casehub.humantask import HumanTask
from casehub.inputs import Returned
from casehub.lifecycle import ActivationStatus
from casehub.plain import texts_in
from casehub.serialized import Deferred
from casehub.spi import Executor
from casehub.state import CaseState
from casehub.task_events import HumanTaskEnded
from casehub.values import ABSENT, Owner
from casehub.view import CaseView, WorkerExecution
from casehub.wiring import Source


class LocalExecutor:
    """Runs workers in this process: async ones on the event loop, sync ones in a thread that is abandoned on cancel.

    `threads`: how many run at once; a worker that has none gets one in any event.
    """

    def __init__(self, threads: int = 40) -> None:
        self.threads = Threads(threads)

    async def run(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        is_async: bool,
        began: Callable[[], None] | None = None,
    ) -> Any:
        if is_async:
            return await function(**arguments)
        loop = asyncio.get_running_loop()

        def call() -> Any:
            if began is not None:
                loop.call_soon_threadsafe(began)
            return function(**arguments)

        return await self.threads.run(function, call)


class Attempt:
    """One attempt that runs, or is about to. `called_off`: its result is not wanted any more.

    `view`: of the case as it was committed with the attempt, for a worker that looks in; `questions`: what it asks of people;
    `owner`: whose the facts are.
    """

    __slots__ = (
        "_alarm",
        "_bound",
        "_scope",
        "_view",
        "_wheel",
        "activation",
        "binding",
        "called_off",
        "expired",
        "id",
        "number",
        "owner",
        "questions",
        "worker",
    )

    def __init__(
        self, activation: Activation, binding: Binding, worker: Worker, wheel: TimerWheel, view: CaseView | None,
        questions: Questions | None = None, owner: Owner | None = None,
    ) -> None:  # fmt: skip
        self.activation = activation
        self.id = activation.id
        self.binding = binding
        self.worker = worker
        self.number = activation.attempt
        self.called_off = False
        self.expired = False
        self._scope: anyio.CancelScope | None = None
        self._alarm: Alarm | None = None
        self._bound: float | None = None
        self.questions = questions
        self.owner = owner
        self._view = view
        self._wheel = wheel

    @property
    def case(self) -> str:
        """The id of its case, which its own begins with."""
        return str(self.id).rsplit("/", 2)[0]

    def wanted(self) -> bool:
        """Whether its result counts, as far as this process knows."""
        return not self.called_off

    def call_off(self) -> None:
        """Cancel it. Safe before it runs and after it ended."""
        self.called_off = True
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, executor: Executor, resources: Mapping[str, Any], scope: anyio.CancelScope) -> Returned | None:
        """Run the worker and say what came of it; None when it was called off.

        `scope`: the running task's; it is cancelled when the attempt is, and then nothing may be awaited after this.
        """
        limit, view = self.binding.policy.timeout, self._view
        execution = None
        if view is not None:
            due, undoes = self.activation.due, self.activation.undoes
            execution = WorkerExecution(self.id, self.binding.name, self.number, view, due=due, undoes=undoes)
            execution.asking = partial(self._ask, execution)
            execution.deadline = self._bound = self._inherited(view)
        result = Returned(activation=self.id, attempt=self.number)
        if not self.wanted():
            return None
        self._scope = scope
        worker, gate = self.worker, self.worker.gate
        if (action := self.activation.action) is not None and action.approved and worker.performer is not None:
            worker = worker.performer
        try:
            began = None
            if limit is not None:
                seconds = limit.total_seconds()
                if worker.is_async:
                    self._set_alarm(execution, seconds)
                else:  # once it has a thread
                    began = partial(self._set_alarm, execution, seconds)
                if execution is not None:
                    self._tell(execution, self._wheel.clock.monotonic() + seconds)
                    execution.beat = partial(self._beat, execution, seconds)
            arguments = self._arguments(worker, resources, execution)
            if worker.loads:
                value = await with_loaded(worker, arguments, executor, began)
            else:
                value = await executor.run(worker.function, arguments, is_async=worker.is_async, began=began)
            if gate is not None and isinstance(value, Planned):
                result.held = await risk_of(gate, value, self._wheel)
            result.value = value
        except asyncio.CancelledError as error:
            # A cancellation that neither this scope nor the hub asked for comes from the worker itself: a failure of it.
            task = asyncio.current_task()
            if not scope.cancel_called and (task is None or task.cancelling()):
                raise
            result.error = RuntimeError(f"the worker was cancelled from within: {error or 'CancelledError'}")
        except Exception as error:
            result.error = error
            if worker.secrets:
                result.secrets = tuple(self._secrets(worker))
        finally:
            self._scope = None
            if self.questions is not None:
                self.questions.close()
            if self._alarm is not None:
                self._alarm.cancel()
        if not self.wanted():
            return None
        if self.expired and limit is not None:
            # Whatever it returned or raised after its time was up does not count.
            result.value, result.error, result.expired = None, None, limit.total_seconds()
        if execution is not None and execution.charges:
            result.charges = execution.charges
        return result

    def _arguments(
        self, worker: Worker, resources: Mapping[str, Any], execution: WorkerExecution | None
    ) -> dict[str, Any]:
        """A fresh object for each parameter, as the facts were when the activation was made."""
        arguments: dict[str, Any] = {}
        facts, owner = self.activation.facts, self.owner
        for parameter in worker.parameters:
            source = parameter.source
            if source is Source.FACT:
                fact = facts.get(parameter.target)
                if fact is not None and fact.value is not ABSENT and not fact.hidden:
                    arguments[parameter.name] = parameter.type.restore(fact.value, fact.name, owner)
            elif source is Source.ACTION and self.activation.action is not None:
                arguments[parameter.name] = parameter.type.restore(self.activation.action.value, "the planned action")
            elif source is Source.EXECUTION:
                arguments[parameter.name] = execution
            elif source is Source.VIEW:
                arguments[parameter.name] = self._view
            else:
                arguments[parameter.name] = resources[parameter.target]
        return arguments

    def _secrets(self, worker: Worker) -> Iterator[str]:
        """The texts in the facts of the activation that are secret."""
        for parameter in worker.parameters:
            fact = self.activation.facts.get(parameter.target)
            if parameter.name in worker.secrets and fact is not None and fact.value is not ABSENT:
                with suppress(FactError):
                    yield from texts_in(parameter.type.as_json(fact.value, fact.name, self.owner))

    @property
    def parked(self) -> bool:
        """Whether its worker waits for people."""
        return self.questions is not None and self.questions.parked

    def let_go(self) -> None:
        """Cancel it if its worker waits for people: the log has what it asked for."""
        if self.parked:
            self.call_off()

    async def _ask(self, execution: WorkerExecution, asked: HumanTask[Any] | type[Any], key: str) -> Any:
        """Ask people; its time limit does not run meanwhile, and begins anew with the answer."""
        if self.questions is None:
            raise SettingsError("this execution cannot ask people: its worker is not run by a hub; run it in a CaseHub")
        if self._alarm is not None:
            self._alarm.cancel()
        try:
            return await self.questions.ask(asked, key)
        finally:
            limit = self.binding.policy.timeout
            if limit is not None and not self.questions.parked:
                self._set_alarm(execution, limit.total_seconds())

    def _set_alarm(self, execution: WorkerExecution | None, seconds: float) -> None:
        """Let its time limit count from now."""
        if self._scope is not None:
            self._alarm = self._wheel.alarm(seconds, self._expire)
            if execution is not None:
                self._tell(execution, self._alarm.at)

    def _inherited(self, view: CaseView) -> float | None:
        """When nobody waits for its case any longer, on the monotonic clock."""
        if view.deadline is None or self.activation.undoes is not None:
            return None
        clock = self._wheel.clock
        return clock.monotonic() + (view.deadline - max(clock.now(), view.now)).total_seconds()

    def _tell(self, execution: WorkerExecution, at: float) -> None:
        execution.deadline = at if self._bound is None else min(at, self._bound)

    def _expire(self) -> None:
        self.expired = True
        if self._scope is not None:
            self._scope.cancel()

    def _beat(self, execution: WorkerExecution, seconds: float) -> None:
        if self._alarm is not None:
            self._wheel.move(self._alarm, seconds)
            self._tell(execution, self._alarm.at)


async def with_loaded(
    worker: Worker, arguments: dict[str, Any], executor: Executor, began: Callable[[], None] | None
) -> Any:
    """Run a worker with what its references stand for, each fetched for this attempt and let go after it."""
    async with AsyncExitStack() as stack:
        for name in worker.loads:
            if isinstance(reference := arguments.get(name), Deferred):
                arguments[name] = await stack.enter_async_context(reference.opened())
        return await executor.run(worker.function, arguments, is_async=worker.is_async, began=began)


def answered(event: HumanTaskEnded, attempts: Mapping[ActivationId, Attempt], state: CaseState) -> ActivationId | None:
    """Tell the worker that had asked; the activation to run again where no attempt of this process waits for it."""
    attempt, activation = attempts.get(event.activation), state.activations.get(event.activation)
    if attempt is not None and attempt.questions is not None and not attempt.called_off:
        attempt.questions.end(event)
        return None
    lost = activation is not None and activation.status is ActivationStatus.RUNNING
    return event.activation if lost else None
