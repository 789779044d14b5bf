"""`CaseTestKit`: a hub for tests, in which time stands still until it is told to pass.

async with CaseTestKit(loan) as kit:
    kit.script(score, TimeoutError(), Risk(0.2))
    case = await kit.start(loan, applicant=ada)
    await kit.advance("2d")
    assert (await case.context())["risk"] == Risk(0.2)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

import anyio
from anyio.abc import TaskGroup

from casehub.adapters.clock import VirtualClock
from casehub.case import Case
from casehub.definition import CaseDefinition
from casehub.durations import Duration, duration
from casehub.engine.live import LiveCase
from casehub.errors import CaseHubError, CaseNotFoundError, HubClosedError, SettingsError, did_you_mean
from casehub.events import CaseId, Event
from casehub.hub import CaseHub
from casehub.loops import Loops
from casehub.purpose import Wanted
from casehub.retention import Retention
from casehub.serialized import FactSerializer
from casehub.spi import CaseStore
from casehub.stepping import Step, Stepper, step_of
from casehub.testing.evidence import WitnessedStore, listed
from casehub.testing.lives import Lives, crash_of
from casehub.testing.scripts import Opener, Resource, ScriptedExecutor, worker_of

E = TypeVar("E", bound=Event)

START: Final = datetime(2030, 1, 1, tzinfo=UTC)
PASSES: Final = 100_000
"""Passes of the event loop after which what still moves is taken to move for ever."""
PATIENCE: Final = 10.0
"""Seconds, of the machine's clock, that a sync worker in its thread may take."""


class CaseTestKit:
    """A `CaseHub` with a store in memory, a clock that moves when it is told to, and workers that follow scripts.

    - `hub`, `clock`: for everything that the kit has no word for. Workers under test sleep by `kit.clock.sleep("1h")`.
    - `kept`, `loop`: as of `CaseHub`; `start`: what time it is at first (aware); `seed`: of the jitter of retries.
    - `retention`: as of `CaseHub`; by default every case is kept.
    - `serializers`: as of `CaseHub`.
    - `step`: every case that `kit.start` starts holds each decision until `kit.step(case)`.

    Leaving it raises `AssertionError` when user code changed a committed event or a fact in place, when a case is not
    what its log folds to, when an event could not be written by a durable store, or when a script ran out. An error
    that leaves the block itself is not replaced; it gets these as notes. Cases may be left open.
    """

    def __init__(
        self,
        *definitions: CaseDefinition,
        kept: Iterable[CaseDefinition] = (),
        loop: Loops | None = None,
        start: datetime = START,
        seed: int = 0,
        step: bool = False,
        retention: Retention | None = None,
        serializers: Sequence[FactSerializer] = (),
    ) -> None:
        self.clock = VirtualClock(start)
        self._store = WitnessedStore()
        self._executor = ScriptedExecutor()
        self._resources: dict[Opener, Resource] = {}
        self._definitions: Sequence[CaseDefinition] = ()
        self._kept: Sequence[CaseDefinition] = ()
        self._take(definitions, kept)

        def make(store: CaseStore) -> CaseHub:
            return CaseHub(
                *self._definitions,
                kept=self._kept,
                loop=loop,
                store=store,
                clock=self.clock,
                executor=self._executor,
                resources=self._resources,
                seed=seed,
                retention=retention,
                serializers=serializers,
            )

        self._lives = Lives(self._store, make)
        self._stepper = Stepper(self.hub)
        self._step = step
        self._stepped: dict[CaseId, str] = {}
        self._numbers: Counter[str] = Counter()
        self._told = 0
        self._stack = AsyncExitStack()
        self._group: TaskGroup | None = None

    @property
    def hub(self) -> CaseHub:
        """The hub; another one after each `restart`."""
        return self._lives.hub

    # ---- life

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            self._group = await opening.enter_async_context(anyio.create_task_group())
            opening.callback(self._close_resources)
            await self._lives.begin(self._group, self._entered)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        lives = await self._live()
        try:
            await self._lives.end(dying=error is not None)
        finally:
            self._group = None
            try:
                await self._stack.aclose()
            except BaseExceptionGroup:
                if self._lives.failure is not None:
                    raise self._lives.failure from error
                raise
        problems = [*self._untold(), *self._store.unwritable, *self._store.changed()]
        if self._lives.crash is not None:
            problems.append(f"{self._lives.crash} has not come: the log has {self._lives.crash.seen} of these since")
        problems += [problem for live in lives for problem in self._store.replayed(live)]
        if problems and error is None:
            raise AssertionError(listed("the test kit found:", problems))
        if problems and error is not None:
            error.add_note(listed("the test kit also found:", problems))
        return None

    def crash_after(self, event: type[Event] | str, times: int = 1) -> None:
        """Let the hub die right after the commit that holds the next event of a class or name, or the `times`-th.

        What is in the log stays. Nothing that would come after it happens: nobody is told, what the events start does
        not run, what runs is called off, and whoever waits gets `HubClosedError`. Raises `SettingsError` for an event
        that there is not; leaving the kit before it has come fails the test.
        """
        self._lives.crash = crash_of(event, times)

    @property
    def crashed(self) -> bool:
        """Whether the hub has died by `crash_after`, and was not restarted."""
        return self._lives.crashed

    async def restart(self, *definitions: CaseDefinition, kept: Iterable[CaseDefinition] = ()) -> None:
        """Go on as a new process: another hub, `kit.hub`, over the same store, scripts and time.

        With `definitions` it is a new release, which has these and keeps `kept`; without, it has what the last one had. A
        hub that lives is killed first. Handles of `kit.start` stay good, and functions that listen to `kit.hub` are
        called by the new one; resources are opened anew.
        """
        if self._group is None:
            raise HubClosedError("the test kit is not open; use it as async with CaseTestKit(...) as kit")
        await self._lives.end(dying=True)
        self._close_resources()
        if definitions:
            self._take(definitions, kept)
        self._resources = {opener: resource.again() for opener, resource in self._resources.items()}
        self._lives.renew()
        await self._lives.begin(self._group, self._entered)

    def _take(self, definitions: Sequence[CaseDefinition], kept: Iterable[CaseDefinition]) -> None:
        """The definitions of the next hub."""
        self._definitions, self._kept = definitions, tuple(kept)
        for definition in (*self._definitions, *self._kept):
            for name, (_, opener) in definition.resources.items():
                self._resources.setdefault(opener, Resource(name, opener, self._spawn))

    def _entered(self) -> None:
        """Before anything runs in a hub: the cases that are stepped stay so."""
        self._stepper = Stepper(self.hub)
        for case, definition in self._stepped.items():
            self._stepper.take(case, definition)

    def _close_resources(self) -> None:
        for resource in self._resources.values():
            resource.close()

    async def _live(self) -> list[LiveCase]:
        """The cases as they are in memory."""
        found: list[LiveCase] = []
        for case in dict.fromkeys(event.case for event in self._store.events):
            try:
                found.append((await self.hub.pump(case)).live)
            except CaseHubError:
                continue  # parked: the hub has said so
        return found

    def _untold(self) -> list[str]:
        """What the test has not been told yet."""
        complaints = self._executor.complaints[self._told :]
        self._told += len(complaints)
        return complaints

    def _spawn(self, function: Callable[..., Any], *arguments: Any) -> None:
        if self._group is not None:
            self._group.start_soon(function, *arguments)

    # ---- cases

    async def start(
        self,
        definition: CaseDefinition | str,
        given: Mapping[str, Any] | None = None,
        /,
        *,
        case_id: str | None = None,
        goal: Wanted | None = None,
        by: str = "user",
        step: bool | None = None,
        **facts: Any,
    ) -> Case:
        """Start a case; it is in the log when this returns. Without `case_id` it is the definition's name and a number.

        `step=True`: hold each of its decisions until `kit.step(case)`. Raises what `hub.start` does.
        """
        if case_id is None:
            name = definition if isinstance(definition, str) else definition.name
            self._numbers[name] += 1
            case_id = f"{name.replace('/', '-').replace('@', '-')}-{self._numbers[name]}"
        if not (self._step if step is None else step):
            case = await self.hub.start(definition, given, case_id=case_id, goal=goal, by=by, **facts)
        else:
            self._stepped[CaseId(case_id)] = definition if isinstance(definition, str) else definition.name
            case = await self._stepper.start(definition, given, case_id=case_id, goal=goal, by=by, **facts)
        return Case(case.id, self._lives)

    def pending(self, case: Case) -> tuple[str, ...]:
        """The bindings that the held decision of a stepped case is about; empty while none is held."""
        return self._stepper.turnstile.held(case.id)

    async def step(self, case: Case) -> Step:
        """Let one decision of a stepped case through, and say what came of it at the present time.

        Raises `AssertionError` when there is none to let through.
        """
        if case.id not in self._stepped:
            raise AssertionError(f"case {case.id!r} is not stepped; start it with kit.start(..., step=True)")
        await self.settle()
        eligible = self.pending(case)
        if not eligible:
            verdicts = [str(each) for each in await case.explain()]
            raise AssertionError(
                listed(f"case {case.id!r} ({await case.status()}) has no decision to make now:", verdicts)
            )
        before = len(self.events(case))
        self._stepper.turnstile.let_through(case.id)
        await self.settle()
        return step_of(eligible, self.events(case)[before:])

    @overload
    def events(self, case: Case | str | None = None) -> list[Event]: ...
    @overload
    def events(self, case: Case | str | None, *kinds: type[E]) -> list[E]: ...
    def events(self, case: Case | str | None = None, *kinds: type[Any]) -> list[Any]:
        """The log so far, of one case or all: events of these classes and their subclasses, or everything.

        Raises `CaseNotFoundError` for a case that is none.
        """
        if case is None:
            found = list(self._store.events)
        else:
            found = self._store.of(case.id if isinstance(case, Case) else CaseId(case))
            if not found:
                known = ", ".join(dict.fromkeys(event.case for event in self._store.events)) or "none"
                raise CaseNotFoundError(f"there is no case {case!r} in this kit; there is: {known}")
        return [event for event in found if isinstance(event, kinds)] if kinds else found

    # ---- workers and resources

    def script(self, worker: Callable[..., Any] | str, /, *results: Any) -> None:
        """Say what the next calls of a worker come to, in order; it replaces an earlier script.

        An exception, instance or class, is raised; a callable is called with the worker's arguments, and awaited if
        need be; anything else is returned. A call past the last result is an error, unless that is `repeat(result)`.
        Raises `SettingsError` for a worker that is none, naming the nearest, and for a human task: people answer that.
        """
        found = worker_of(self.hub.registry.versions.values(), worker)
        if found.form is not None:
            raise SettingsError(
                f"{found.name!r} is a human task, which no script runs; answer it with kit.hub.tasks.complete(...)"
            )
        self._executor.write(found, results)

    def replace(self, opener: Opener, value: Any) -> None:
        """Give workers this value for a resource, from their next call on; its opener is not run.

        Resources that are not replaced are opened when a worker first needs them. Raises `SettingsError` for an opener
        that these definitions do not have.
        """
        resource = self._resources.get(opener)
        if resource is None:
            name = getattr(opener, "__name__", repr(opener))
            known = [each.name for each in self._resources.values()]
            raise SettingsError(f"{name!r} is no resource of these definitions; {did_you_mean(name, known)}")
        resource.replacement = value

    # ---- time

    async def settle(self) -> None:
        """Wait until nothing moves any more at the present virtual time.

        Async code goes on until it waits for time to pass, for an input, or for something outside of this process,
        which is not waited for. Sync workers run in threads and are waited for. Raises `AssertionError` when something
        never comes to rest, or when a script ran out.
        """
        passes = 0
        while True:
            await self._quiet()
            passes += 1
            if not self._executor.in_threads:
                break
            with anyio.move_on_after(PATIENCE) as waiting:
                await self._executor.thread_ended()
            if waiting.cancelled_caught:
                raise AssertionError(
                    f"sync workers still run after {PATIENCE:g} s: {', '.join(self._executor.in_threads)}; "
                    "a worker that waits for the test would wait for ever"
                )
        if complaints := self._untold():
            raise AssertionError(listed("the test kit found:", complaints))

    async def advance(self, span: Duration) -> None:
        """Let virtual time pass, stopping at every timer, alarm and sleeper on the way, each at its exact time."""
        await self.settle()
        until = self.clock.monotonic() + duration(span).total_seconds()
        while (stop := self._next_stop()) is not None and stop <= until + 1e-9:
            self.clock.move_until(stop)
            await self.settle()
        self.clock.move_until(until)
        await self.settle()

    def _next_stop(self) -> float | None:
        """When the next thing happens by itself, on the monotonic time."""
        now, sleepers = self.clock.monotonic(), self.clock.sleepers
        if self.crashed:
            return min((moment for moment in sleepers if moment > now), default=None)
        wheel = self.hub.runtime.wheel
        if wheel.asleep_until in sleepers:
            # The wheel's own naps are skipped: it need not be woken before the next thing on it is due.
            sleepers.remove(wheel.asleep_until)
        upcoming = wheel.next()
        if upcoming is not None:
            sleepers.append(max(upcoming, wheel.asleep_until))
        return min((moment for moment in sleepers if moment > now), default=None)

    async def _quiet(self) -> None:
        """Let the event loop go round until it has nothing to do but to wait."""
        # The queue of an asyncio loop is not public, and nothing public says that it is empty.
        ready: Sequence[object] | None = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:
            await anyio.wait_all_tasks_blocked()
            return
        for _ in range(PASSES):
            await asyncio.sleep(0)
            if not ready:
                return
        running = Counter(event.case for event in self._store.events[-100:])
        raise AssertionError(
            f"something moves without end at {self.clock.now().isoformat()}; "
            f"the last events are of {', '.join(running) or 'no case'}"
        )
