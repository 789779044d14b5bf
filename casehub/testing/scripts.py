"""What stands in for the world in a test: scripted workers, and resources that are opened only when they are needed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from casehub.binding import Worker
from casehub.engine.executor import LocalExecutor
from casehub.errors import Permanent, SettingsError, did_you_mean
from casehub.structure import Structure

Opener = Callable[[], AsyncIterator[Any]]
_UNSET: Final = object()


@dataclass(frozen=True, slots=True)
class Repeated:
    """The last result of a script, given again and again."""

    result: Any


def repeat(result: Any) -> Repeated:
    """As the last result of a script: every further call of the worker takes it."""
    return Repeated(result)


class Script:
    """The results of one worker, a call at a time. `calls`: how often it was called."""

    def __init__(self, worker: str, results: tuple[Any, ...]) -> None:
        for result in results[:-1]:
            if isinstance(result, Repeated):
                raise SettingsError(f"the script of worker {worker!r} goes on after repeat(...); put that last")
        self.worker = worker
        self.calls = 0
        self._results = results

    def next(self) -> Any:
        """What the next call comes to. Raises `Permanent` when the script is over."""
        self.calls += 1
        if self.calls <= len(self._results):
            result = self._results[self.calls - 1]
            return result.result if isinstance(result, Repeated) else result
        if self._results and isinstance(self._results[-1], Repeated):
            return self._results[-1].result
        raise Permanent(
            f"worker {self.worker!r} was called {self.calls} times and its script has {len(self._results)} results; "
            "give it more, or wrap the last in repeat(...)"
        )


class Resource:
    """A resource of a definition: a value that replaces it, or the opener, which runs when a worker first needs it.

    It is opened and closed in a task of its own, because what an opener holds open may not change tasks.
    """

    def __init__(self, name: str, opener: Opener, spawn: Callable[..., object]) -> None:
        self.name = name
        self.opener = opener
        self.replacement: Any = _UNSET
        self._spawn = spawn
        self._opened: asyncio.Future[Any] | None = None
        self._closing = asyncio.Event()

    async def value(self) -> Any:
        """What workers get. Raises what the opener does."""
        if self.replacement is not _UNSET:
            return self.replacement
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._spawn(self._keep_open, self._opened)
        return await asyncio.shield(self._opened)

    def again(self) -> Resource:
        """The same for another hub, which opens it anew."""
        new = Resource(self.name, self.opener, self._spawn)
        new.replacement = self.replacement
        return new

    def close(self) -> None:
        """Let the opener go on behind its `yield`."""
        self._closing.set()

    async def _keep_open(self, opened: asyncio.Future[Any]) -> None:
        try:
            async with asynccontextmanager(self.opener)() as value:
                opened.set_result(value)
                await self._closing.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)
            opened.exception()  # whoever asked may be gone


class ScriptedExecutor:
    """Runs workers as their scripts say, and those without one as they are.

    `complaints`: what a test has to hear of, though the case goes on; `in_threads`: the sync functions that run now.
    """

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.in_threads: list[str] = []
        self._scripts: list[tuple[Callable[..., Any], Script]] = []
        self._local = LocalExecutor()
        self._ended = asyncio.Event()

    def write(self, worker: Worker, results: tuple[Any, ...]) -> Script:
        """Script a worker, from its next call on."""
        script = Script(worker.name, results)
        self._scripts.insert(0, (worker.function, script))
        return script

    async def run(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        is_async: bool,
        began: Callable[[], None] | None = None,
    ) -> Any:
        script = next((script for scripted, script in self._scripts if scripted == function), None)
        if script is None:
            given = await self._given(arguments)
            if is_async:
                return await function(**given)
            return await self._in_thread(function, given, began)
        if began is not None:
            began()
        try:
            result = script.next()
        except Permanent as error:
            self.complaints.append(str(error))
            raise
        if isinstance(result, BaseException) or (isinstance(result, type) and issubclass(result, BaseException)):
            raise result
        if callable(result):
            result = result(**await self._given(arguments))
            return await result if inspect.isawaitable(result) else result
        return result

    async def thread_ended(self) -> None:
        """Wait until one of the sync functions that run has ended."""
        await self._ended.wait()

    async def _in_thread(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], began: Callable[[], None] | None
    ) -> Any:
        name = getattr(function, "__name__", repr(function))
        self.in_threads.append(name)
        self._ended.clear()
        try:
            return await self._local.run(function, arguments, is_async=False, began=began)
        finally:
            self.in_threads.remove(name)
            self._ended.set()

    async def _given(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if not any(isinstance(value, Resource) for value in arguments.values()):
            return arguments
        given: dict[str, Any] = {}
        for name, value in arguments.items():
            if isinstance(value, Resource):
                try:
                    value = await value.value()
                except Exception as error:
                    self.complaints.append(f"resource {name!r} could not be opened: {type(error).__name__}: {error}")
                    raise
            given[name] = value
        return given


def worker_of(structures: Iterable[Structure], wanted: Callable[..., Any] | str) -> Worker:
    """The worker of a name or a function.

    Raises `SettingsError` when there is none, naming the nearest, or when a name does not say which one is meant.
    """
    able = [
        worker
        for each in structures
        for binding in each.bindings.values()
        for worker in binding.workers
        if worker.sub_case is None  # what says what sub-cases start with is called in the turn, not run
    ]
    workers = [*able, *(each.performer for each in able if each.performer is not None)]
    if isinstance(wanted, str):
        found = [worker for worker in workers if worker.name == wanted]
        if not found:
            raise SettingsError(f"there is no worker {wanted!r}; {did_you_mean(wanted, {w.name for w in workers})}")
        sharing = {worker.name for worker in workers if worker.function == found[0].function} - {wanted}
        if any(worker.function != found[0].function for worker in found) or sharing:
            raise SettingsError(
                f"the name {wanted!r} does not say which worker is meant"
                + (f": {', '.join(sorted(sharing))} runs the same function" if sharing else "")
                + "; script the function itself"
            )
        return found[0]
    by_function = [worker for worker in workers if worker.function == wanted]
    if not by_function:
        name = getattr(wanted, "__name__", repr(wanted))
        raise SettingsError(
            f"{name!r} is no worker of these definitions; {did_you_mean(name, {w.name for w in workers})}"
        )
    return by_function[0]
