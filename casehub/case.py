"""A case from the outside: a handle that holds an id. Whatever it is asked, it asks the case as last committed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, get_args

from casehub.bus import Subscription
from casehub.case_stage import CaseStage
from casehub.context import CaseContext
from casehub.decision import READ, Decision, DecisionReplay, decisions_of
from casehub.durations import Duration, duration
from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime
from casehub.errors import (
    CaseCancelledError,
    CaseElsewhereError,
    CaseFaultedError,
    CaseHubError,
    CaseNotFoundError,
    CaseStalledError,
    InputRefusedError,
    SettingsError,
    did_you_mean,
)
from casehub.events import CaseId, Event, WorkerScheduled
from casehub.explanation import Explanation
from casehub.fact_history import FactHistory
from casehub.hindsight import replay_decisions
from casehub.inputs import Cancel, Compensate, Input, Reroute, Resume, Suspend, Unfault, Write
from casehub.lifecycle import CaseStatus
from casehub.moment import Moment, read_moment
from casehub.plan import PlanView
from casehub.query import CaseLog
from casehub.record import CaseRecord, read_case, with_stalled
from casehub.registry import Registry
from casehub.signals import brought, signalled
from casehub.spi import LoopControl, Turn
from casehub.state import CaseState
from casehub.subcase import parent_of
from casehub.subcases import Child
from casehub.values import Plain, apart

T = TypeVar("T")
Wait = Literal["turn", "first_wave", "quiescent"]


class Cases(Protocol):
    """What a handle needs of its hub."""

    tenant: str

    @property
    def runtime(self) -> Runtime: ...

    @property
    def registry(self) -> Registry: ...

    async def pump(self, case: CaseId) -> Pump:
        """The pump of a case, loaded if need be. Raises `CaseNotFoundError`."""
        ...

    async def pump_anew(self, case: CaseId) -> Pump: ...


class Case:
    """A handle on one case. It stays good when the case leaves memory, ends, or is worked elsewhere."""

    __slots__ = ("_hub", "id")

    def __init__(self, id: CaseId, hub: Cases) -> None:
        self.id = id
        self._hub = hub

    def __repr__(self) -> str:
        return f"Case({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # ---- reading

    async def status(self) -> CaseStatus:
        return await self._read(lambda live: live.state.status)

    async def context(self) -> CaseContext:
        """The facts."""
        return await self._read(_context)

    async def state(self) -> CaseState:
        """Everything that the case's log comes to; read-only for everybody but the engine."""
        return await self._read(lambda live: live.state)

    async def at(self, moment: Moment) -> CaseRecord:
        """The case as it was at a position, at a time, or so long ago: to read, and nothing else.

        Raises `CaseNotFoundError`, and `SettingsError` for a moment before its start, or that has not come.
        """
        runtime = self._hub.runtime
        return await read_case(runtime.store, self.id, self._hub.tenant, read_moment(moment, runtime.clock.now()))

    async def explain(self, binding: str | None = None) -> list[Explanation]:
        """Why a binding, or each, does or does not fire now. Raises `UnknownNameError` for a binding that is none."""
        said, children = await self._read(lambda live: (live.explain(binding), live.state.children.open()))
        return await with_stalled(said, children, self._hub.runtime.store, self._hub.tenant)

    async def plan(self) -> PlanView | None:
        """What the loop control plans: agenda, focus, stages, notes. None for one that keeps no plan: choreography."""
        return await self._read(lambda live: live.loop.view(live.state))

    async def decisions(self) -> Sequence[Decision]:
        """What each deliberation was about and came to, oldest first; none under choreography, which does not ask."""
        await self.status()  # raises where there is no such case
        return decisions_of(await self.log.query(*READ))

    async def replay_decisions(self, loop: LoopControl) -> DecisionReplay:
        """Put the decisions of this case to another loop control, as they were put to its own, up to the first difference.

        Nothing is written. Raises `UnknownNameError` when a decision was about a binding that the definition has no more.
        """
        pump, runtime = await self._hub.pump(self.id), self._hub.runtime
        events = await runtime.store.load(self.id, self._hub.tenant)
        return await replay_decisions(events, pump.live.structure, loop, runtime.store.log, self._hub.registry.versions)

    @property
    def log(self) -> CaseLog:
        """The history of this case, typed. Queries `across="definition"` need `hub.log` or a case's own view."""
        runtime = self._hub.runtime
        return CaseLog(runtime.store.log, self.id, "", self._hub.tenant, now=runtime.clock.now())

    async def children(self) -> Sequence[Child]:
        """Its sub-cases that are open, or count for an activation that waits for more of them."""
        return await self._read(lambda live: list(live.state.children.known.values()))

    @property
    def parent(self) -> CaseId | None:
        """The case whose sub-case this is; None for one that somebody started."""
        return parent_of(self.id)

    def stage(self, name: str) -> CaseStage:
        """One stage of the case, to be activated, completed, terminated, faulted, suspended or resumed by hand."""
        return CaseStage(name, self._submit)

    def facts(self, name: str) -> FactHistory:
        """One fact through time: its history, and the chain of causes that led to it."""
        return FactHistory(self, name)

    # ---- waiting

    async def completed(self, timeout: Duration | None = None, *, wait_through_stall: bool = False) -> CaseContext:
        """Wait until the case has completed; its facts then.

        Raises `CaseStalledError` when nothing can move it (unless `wait_through_stall`), `CaseFaultedError`,
        `CaseCancelledError`, and `TimeoutError` after `timeout`.
        """

        def test(live: LiveCase) -> CaseContext | None:
            state = live.state
            if state.status is CaseStatus.COMPLETED:
                return _context(live)
            if not (wait_through_stall and state.stalled):
                raise_outcome(state)
            return None

        return await self._until(test, timeout, "complete")

    async def quiescent(self, timeout: Duration | None = None) -> CaseContext:
        """Wait until no worker runs and nothing is being decided, in it or in a sub-case that it waits for, or it has
        ended; its facts then."""
        return await self._within(self._rest, timeout, "come to rest")

    async def _rest(self) -> CaseContext:
        runtime = self._hub.runtime
        with runtime.bus.subscribe(Event) as news:
            while True:
                context, children = await self._until(_quiet, None, "")
                for child in children:
                    if await self._moves(child, news):
                        break
                else:
                    return context

    async def _moves(self, child: Child, news: Subscription[Event]) -> bool:
        """Whether an open sub-case was at work, which is waited for, or has still to begin, or to be heard of."""
        try:
            pump = await self._hub.pump(child.id)
        except CaseNotFoundError:
            return bool(await news.batch())
        except CaseHubError:
            return False  # it cannot be worked here
        if await pump.read(lambda live: live.state.status.ended or not live.state.version):  # or it is about to begin
            return bool(await news.batch())
        version = await pump.read(lambda live: live.state.version)
        await Case(child.id, self._hub)._rest()
        return await pump.read(lambda live: live.state.version != version or live.state.status.ended)

    # ---- writing

    async def signal(
        self,
        what: Mapping[str, Any] | str | object = None,
        /,
        *,
        by: str = "user",
        reason: str = "",
        key: str = "",
        expected: int | None = None,
        wait: Wait = "turn",
        timeout: Duration | None = None,
        **facts: Any,
    ) -> CaseContext:
        """Bring facts from outside: one or several by name as one change, or an object whose type a signal declares.

        `wait`: until it is taken (`turn`), until the workers that it starts have come back (`first_wave`), or until
        nothing moves any more (`quiescent`). A repeated `key` changes nothing. `expected`: the `version` of the context that
        the caller saw. Raises `FactsChangedError` where a fact that is brought has changed since, `InputRefusedError` for one
        that the definition lets nobody bring, `CaseEndedError` after the end, `TimeoutError` after `timeout`.
        """
        if wait not in get_args(Wait):
            raise SettingsError(f"wait={wait!r} is no way to wait for a signal; {did_you_mean(wait, get_args(Wait))}")
        pump = await self._hub.pump(self.id)
        write = signalled(pump.live.structure, what, facts, pump.live.state, expected)
        write.by, write.reason, write.key = by, reason, key
        turn = await pump.submit(write)
        if wait == "first_wave":
            await self._until(await self._first_wave(pump, turn, timeout), timeout, "come back from its first wave")
        elif wait == "quiescent":
            return await self.quiescent(timeout)
        return await self.context()

    async def get_or_put(self, name: str, value: Any, *, by: str = "user") -> Any:
        """The value of a fact; `value` becomes it where there is none. Atomic: of many callers one puts."""
        pump = await self._hub.pump(self.id)
        values, sure = apart({name: value})
        plain = brought(pump.live.structure, values, pump.live.state)
        await pump.submit(Write(signals=(name,), facts=plain, confidence=sure, absent_only=True, by=by))
        return (await self.context())[name]

    async def delete(self, *names: str, by: str = "user", reason: str = "") -> None:
        """Delete facts. A tombstone with a new stamp stays, so conditions on absence wake."""
        await self._write(Write(delete=names, by=by, reason=reason))

    async def hide(self, *names: str, by: str = "user") -> None:
        """Hide facts from workers, guards and readers until they are shown or written again."""
        await self._write(Write(hide=names, by=by))

    async def show(self, *names: str, by: str = "user") -> None:
        """Show hidden facts again."""
        await self._write(Write(show=names, by=by))

    async def clear(self, *, by: str = "user", reason: str = "") -> None:
        """Delete every fact that the definition does not protect."""
        await self._write(Write(clear=True, by=by, reason=reason))

    async def suspend(self, *, by: str = "user", reason: str = "") -> None:
        """Hold the case: results of what runs are taken, nothing new fires. Raises `IllegalTransitionError`."""
        await self._submit(Suspend(by=by, reason=reason))

    async def resume(self, *, by: str = "user", reason: str = "") -> None:
        """Let a suspended case go on. Raises `IllegalTransitionError` for one that is not suspended."""
        await self._submit(Resume(by=by, reason=reason))

    async def unfault(
        self, facts: Mapping[str, Any] | None = None, *, by: str = "user", reason: str = "", retry: bool = True
    ) -> None:
        """Let a case that has faulted go on, with `facts` that are brought with it.

        What was called off when it faulted comes up again, and so does what faulted it, with `retry`; without it that is
        a dead letter. Its sub-cases stay ended. Raises `CaseEndedError` or `IllegalTransitionError` for a case in
        another status, `InputRefusedError` where a failure goal still holds, and for a sub-case.
        """
        pump = await self._hub.pump_anew(self.id)
        types, plain, owner = pump.live.structure.types, dict[str, Plain](), pump.live.state
        for name, value in (facts or {}).items():
            if name not in types:
                raise InputRefusedError(f"case {self.id!r} knows no fact {name!r}; {did_you_mean(name, types)}")
            plain[name] = types[name].accept(value, f"fact {name!r}", owner)
        await pump.submit(Unfault(facts=plain, retry=retry, by=by, reason=reason))

    async def reroute(self, binding: str, *, to: str, by: str = "user", reason: str = "") -> None:
        """Give what a binding has in flight, or its dead letter, to another worker of its capability.

        What runs is called off. Raises `InputRefusedError` for a binding or a worker that is none, and
        `IllegalTransitionError` where there is nothing to give, or that worker may not be called.
        """
        await self._submit(Reroute(binding=binding, to=to, by=by, reason=reason))

    async def cancel(self, *, by: str = "user", reason: str = "", grace: Duration = "5s") -> None:
        """End the case, and wait up to `grace` until what was running has come to its end.

        Where it has to undo what it did, it is COMPENSATING until it has, and ends then. Raises `IllegalTransitionError`
        for one that does so already.
        """
        pump = await self._hub.pump(self.id)
        await pump.submit(Cancel(by=by, reason=reason))
        with pump.runtime.wheel.limit(duration(grace)):
            await pump.unwound()

    async def kill(self, *, by: str = "user", reason: str = "") -> None:
        """End the case now: wait for nothing that was running, and undo nothing."""
        await self._submit(Cancel(kill=True, by=by, reason=reason))

    async def compensate(self, what: str, *, by: str = "user", reason: str = "") -> None:
        """Have an activation undone while the case goes on: by its id, or the last one of a binding by its name.

        Raises `InputRefusedError` for what has no compensation, or nothing to undo, and `IllegalTransitionError` where
        nothing may start, or it is at work.
        """
        await self._submit(Compensate(what=what, by=by, reason=reason))

    # ---- how

    async def _submit(self, input: Input) -> Turn:
        return await (await self._hub.pump(self.id)).submit(input)

    async def _write(self, write: Write) -> None:
        pump = await self._hub.pump(self.id)
        for name in (*write.delete, *write.hide, *write.show):
            if name not in pump.live.structure.types:
                raise InputRefusedError(
                    f"case {self.id!r} knows no fact {name!r}; {did_you_mean(name, pump.live.structure.types)}"
                )
        await pump.submit(write)

    async def _read(self, look: Callable[[LiveCase], T]) -> T:
        return await (await self._hub.pump(self.id)).read(look)

    async def _until(self, test: Callable[[LiveCase], T | None], timeout: Duration | None, what: str) -> T:
        await self._hub.pump(self.id)  # raises where there is no such case, however long it is to be waited for
        return await self._within(lambda: self._follow(test), timeout, what)

    async def _follow(self, test: Callable[[LiveCase], T | None]) -> T:
        while True:
            pump = await self._hub.pump(self.id)
            try:
                return await pump.until(test)
            except CaseElsewhereError:
                continue  # another hub works it by now, and it is followed there

    async def _within(self, wait: Callable[[], Awaitable[T]], timeout: Duration | None, what: str) -> T:
        if timeout is None:
            return await wait()
        found: T | None = None
        with self._hub.runtime.wheel.limit(duration(timeout)):
            found = await wait()
        if found is None:
            raise TimeoutError(
                f"case {self.id!r} did not {what} within {timeout}; it goes on, ask it why with explain()"
            )
        return found

    async def _first_wave(
        self, pump: Pump, turn: Turn, timeout: Duration | None
    ) -> Callable[[LiveCase], CaseContext | None]:
        wave = {event.activation for event in turn.events if isinstance(event, WorkerScheduled)}
        if not pump.live.loop.immediate:
            wave = await self._until(_decided, timeout, "decide what follows")

        def test(live: LiveCase) -> CaseContext | None:
            return _context(live) if wave.isdisjoint(live.state.with_workers()) else None

        return test


def raise_outcome(state: CaseState) -> None:
    """Raise what becomes of a case that does not complete; nothing for one that has, or that goes on.

    Raises `CaseStalledError`, `CaseFaultedError` or `CaseCancelledError`.
    """
    if state.stalled and not state.deliberating:  # who is asked again may yet move it
        raise CaseStalledError(state.id, state.stalled)
    if state.status is CaseStatus.FAULTED:
        raise CaseFaultedError(state.id, state.reason)
    if state.status is CaseStatus.CANCELLED:
        raise CaseCancelledError(state.id, state.ended_by, state.reason)


def _context(live: LiveCase) -> CaseContext:
    state = live.state
    return CaseContext(dict(state.facts), live.structure.types, state.version, owner=state)


def _quiet(live: LiveCase) -> tuple[CaseContext, Sequence[Child]] | None:
    state = live.state
    if not state.status.ended and (state.at_work or state.deliberating):
        return None
    waited = [child for child in state.children.open() if child.waited and not child.cancelled]
    return _context(live), () if state.status.ended else waited


def _decided(live: LiveCase) -> set[Any] | None:
    return None if live.state.deliberating else live.state.with_workers()
