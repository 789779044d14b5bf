"""Residents: the cases that are in memory, how they come in and when they leave.

A case is loaded when something is posted to it. One that has ended, that waits for somebody, or that nothing can move,
leaves after a while, and at once when too many others rest too. What is in memory is a cache of the log: leaving loses
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from casehub.engine.live import LiveCase
from casehub.engine.moving import move
from casehub.engine.pump import Pump
from casehub.engine.recovery import restore
from casehub.engine.runtime import Runtime
from casehub.errors import (
    CaseElsewhereError,
    CaseExistsError,
    CaseHubError,
    CaseNotFoundError,
    HubClosedError,
    InputRefusedError,
    LoopControlError,
    StoreUnavailableError,
)
from casehub.events import CaseId, Event
from casehub.inputs import Adopt, Leave, Recover, Start, TimerDue
from casehub.lifecycle import ActivationStatus, CaseStatus
from casehub.loops import over
from casehub.parking import why_parked, why_spoiled
from casehub.patience import patiently
from casehub.registry import Registry, version_in
from casehub.resting import Resting
from casehub.snapshots import Snapshots
from casehub.spi import Claim, DueTimer, LoopControl
from casehub.state import CaseState
from casehub.structure import Structure

log = structlog.get_logger("casehub.hub")

UNWINDING: Final = timedelta(seconds=5)
"""Time for what ran to come to its end, before a case that has ended may go on."""
_RESTING = (CaseStatus.WAITING, CaseStatus.SUSPENDED)


class Residents:
    """The pumps of the cases in memory.

    `parked`: open cases that cannot be worked, and why; `resting`: those in memory that have nothing to do; `asked_only`: nothing comes in that nobody asks for;
    `look_after`: called, where only what is asked for comes in, to do what was left undone for a case with sub-cases.
    `bound`, `linger`: how many cases at rest stay in memory, and how long.
    """

    def __init__(
        self,
        runtime: Runtime,
        registry: Registry,
        loops: Mapping[str, LoopControl],
        tenant: str,
        bound: int,
        linger: timedelta,
        snapshots: Snapshots,
        *,
        asked_only: bool = False,
    ) -> None:
        self.parked: dict[CaseId, str] = {}
        self.snapshots = snapshots
        snapshots.checkpoints.pump_of = lambda case: self._pumps.get(case)  # noqa: PLW0108 - the table may be another one
        self._runtime = runtime
        self._registry = registry
        self._loops = loops
        self.tenant = tenant
        self._asked_only = asked_only
        self._pumps: dict[CaseId, Pump] = {}
        self.resting = Resting(runtime.wheel, bound, linger, self._let_go)
        self._loading: dict[CaseId, asyncio.Future[Pump | None]] = {}
        self._steered: dict[CaseId, LoopControl] = {}
        self._begun = runtime.bus.position
        self.look_after: Callable[[CaseId], object] | None = None

    def steer(self, case: CaseId, loop: LoopControl) -> None:
        """Give one case a loop control of its own, for as long as the hub is open. Say so before it starts."""
        self._steered[case] = loop

    def _loop(self, case: CaseId, structure: Structure) -> LoopControl:
        steered = self._steered.get(case)
        return self._loops[structure.hash] if steered is None else over(steered, structure)

    def _loop_if_known(self, case: CaseId, definition: str) -> LoopControl | None:
        known = next((each for each in self._registry.versions.values() if each.name == definition), None)
        return None if known is None else self._loop(case, known)

    async def start(self, case: CaseId, structure: Structure, input: Start, *, fresh: bool) -> None:
        """Begin a case; `fresh`: its id cannot be taken. Raises `CaseExistsError` when it is."""
        if not fresh and (case in self._pumps or await self._events(case) or case in self._pumps):
            raise _taken(case)
        if self._runtime.standing is not None and (looking := self._loading.get(case)) is not None:
            with suppress(CaseHubError):
                await asyncio.shield(looking)  # it would claim what is begun meanwhile
        pump = self.begin(case, structure)
        try:
            await pump.submit(input)
        except CaseElsewhereError:
            if await self._events(case):
                raise _taken(case) from None
            raise
        except StoreUnavailableError as error:  # it may start yet
            raise StoreUnavailableError(f"whether case {case!r} has started is unknown: {error}") from error
        except CaseHubError as error:
            if not pump.live.state.version:
                self._pumps.pop(case, None)
                pump.forget_waiters(InputRefusedError(f"case {case!r} could not start: {error}"))
            elif isinstance(error, InputRefusedError):  # somebody has started it since this looked
                raise _taken(case) from error
            raise

    def begin(self, case: CaseId, structure: Structure) -> Pump:
        """The pump of a case whose id is not taken; what it gets first is its `Start`."""
        runtime, loop = self._runtime, self._loop(case, structure)
        state = CaseState(case, definition=structure.name, tenant=self.tenant)
        live = LiveCase(state, structure, loop, runtime.store.log, runtime.chance)
        pump = self._pumps[case] = Pump(live, runtime, self._idle)
        if runtime.standing is not None:
            pump.tenure.claim = Claim(runtime.standing.store.hub)
        return pump

    async def pump(self, case: CaseId, *, ended: bool = False) -> Pump:
        """The pump of a case, loaded when it is not in memory; `ended`: to let one go on that has ended.

        Raises `CaseNotFoundError`, `CaseElsewhereError`.
        """
        found = self._pumps.get(case)
        if found is not None:
            return found
        while (loading := self._loading.get(case)) is not None:
            loaded = await asyncio.shield(loading)
            if loaded is not None and (self._pumps.get(case) is loaded or loaded.live.state.status.ended):
                return loaded  # it may have left again before this was woken
        loading = self._loading[case] = asyncio.get_running_loop().create_future()
        pump: Pump | None = None
        try:
            pump = await self._load(case, ended)
            return pump
        except CaseHubError as error:
            loading.set_exception(error)
            loading.exception()
            raise
        finally:
            if not loading.done():
                loading.set_result(pump)  # None where whoever loaded was cancelled: the next one does
            del self._loading[case]

    async def move(self, case: CaseId, structure: Structure) -> None:
        """Let a case go on under a version of its definition. Raises `InputRefusedError` where it cannot."""
        pump = await self.pump(case)
        await pump.committed()
        if pump.live.structure is not structure:
            await move(pump, structure, self._loop(case, structure))

    async def anew(self, case: CaseId) -> Pump:
        """The pump of a case, folded from its log where it has ended: nothing is left of how it came to its end.

        Raises `InputRefusedError` while something of it still comes to its end.
        """
        pump = await self.pump(case)
        if not pump.live.state.status.ended:
            return pump
        with self._runtime.wheel.limit(UNWINDING) as scope:
            await pump.unwound()
            await pump.committed()
        if scope.cancelled_caught:
            raise InputRefusedError(f"workers of case {case!r} still come to their end; try again when they have")
        if self._pumps.get(case) is pump:
            del self._pumps[case]
        return await self.pump(case, ended=True)

    async def _events(self, case: CaseId) -> Sequence[Event]:
        """The log of a case. Raises `StoreUnavailableError`, in time where the store does not answer."""
        runtime = self._runtime
        asking, what = runtime.store.load(case, self.tenant), f"it was asked for case {case!r}"
        return await runtime.outage.bounded(asking, what, runtime.store.log.position)

    async def _load(self, case: CaseId, ended: bool) -> Pump:
        standing = self._runtime.standing
        if standing is None:
            return await self._loaded(case, None)
        return await standing.take_up(case, self.tenant, partial(self._loaded, case), ended=ended)

    async def _loaded(self, case: CaseId, claim: Claim | None) -> Pump:
        runtime = self._runtime
        kept = await self.snapshots.find(case, partial(self._loop_if_known, case))
        events = await self._events(case) if kept is None else kept.events
        if (begun := self._pumps.get(case)) is not None:
            return begun  # it was started while this looked for it
        if not events and kept is None:
            raise CaseNotFoundError(
                f"there is no case {case!r} in this hub's store; list them with 'casehub case list', or hub.cases()"
            )
        if reason := why_spoiled(events):
            self.parked[case] = reason
            raise InputRefusedError(f"case {case!r} is parked: {reason}")
        name, version = (events[0].definition, "") if kept is None else (kept.state.definition, kept.state.structure)
        structure = self._registry.going_on_with(case, name, version_in(events) or version)
        loop = self._loop(case, structure)
        try:
            base = None if kept is None else kept.state
            live = restore(case, events, structure, loop, runtime.store.log, runtime.chance, base)
        except Exception as error:  # as it was written, a log folds: what raises is the loop control's own code
            self.parked[case] = (
                f"loop control {type(loop).__name__} raised {type(error).__name__}: {error} over its log; mend its apply, "
                "or restore a backup if somebody has changed the log"
            )
            raise LoopControlError(f"case {case!r} cannot be taken up: {self.parked[case]}") from error
        state = live.state
        pump = Pump(live, runtime, self._idle)
        pump.tenure.claim = claim
        if reason := why_parked(state, structure):
            self.parked[case] = reason
            raise InputRefusedError(f"case {case!r} is parked: {reason}")
        self._pumps[case] = pump
        if not state.status.ended:
            if state.structure != structure.hash:
                pump.post(Adopt())
            if state.activations or state.deliberating or state.status is CaseStatus.RUNNING:
                pump.post(Recover())
            if self._asked_only:  # what has come due meanwhile was nobody's business
                for timer, due in state.timers.items():
                    runtime.wheel.taken(self.tenant, case, timer, due)
                seq = events[-1].seq if kept is None else kept.seq
                if self.look_after is not None and state.children.open() and seq <= self._begun:
                    self.look_after(case)  # nothing has happened to it since this hub was opened
        self._idle(pump)
        return pump

    def folded(self, case: CaseId, events: Sequence[Event]) -> LiveCase:
        """What a log comes to, for nobody to work. Raises `InputRefusedError` where it could not be worked here."""
        structure = self._registry.going_on_with(case, events[0].definition, version_in(events))
        loop = self._loop(case, structure)
        live = restore(case, events, structure, loop, self._runtime.store.log, self._runtime.chance)
        if not live.state.status.ended and (reason := why_parked(live.state, structure)):
            raise InputRefusedError(f"case {case!r} could not go on here: {reason}")
        return live

    async def resume(self) -> None:
        """Load every case that was being worked when the store was last left."""
        active = await patiently(self._runtime.store.active, self._runtime.clock)
        await self.take_up([case for tenant, case in active if tenant == self.tenant])

    async def take_up(self, cases: Sequence[CaseId]) -> None:
        """Load these cases, to go on with them; those that cannot be worked here are parked, once."""
        for case in cases:
            if case in self._pumps or case in self.parked:
                continue
            try:
                await patiently(partial(self.pump, case), self._runtime.clock)
            except CaseElsewhereError:
                continue  # another hub was quicker
            except CaseHubError as error:
                self.parked[case] = str(error)
                log.error("case.parked", case=case, reason=str(error))

    async def timer_due(self, timer: DueTimer) -> None:
        """Post a timer that has come due to its case. Raises `StoreUnavailableError`."""
        if timer.tenant != self.tenant or (self._asked_only and timer.case not in self._pumps):
            return
        try:
            pump = await self.pump(timer.case)
        except StoreUnavailableError:
            raise
        except CaseElsewhereError:
            self._runtime.wheel.taken(timer.tenant, timer.case, timer.timer)  # by another hub
            return
        except CaseHubError as error:
            log.error("timer.undeliverable", case=timer.case, timer=timer.timer, reason=str(error))
            return
        pump.post(TimerDue(timer=timer.timer, due=timer.due))

    def let_leave(self, case: CaseId) -> bool:
        """Have a case leave memory that has ended; whether it has, or was not there."""
        pump = self._pumps.get(case)
        if pump is None:
            return case not in self._loading
        if pump.busy or not pump.live.state.status.ended:
            return False
        del self._pumps[case]
        self.resting.forget(case)
        return True

    @property
    def pumps(self) -> Mapping[CaseId, Pump]:
        """The pumps of the cases in memory."""
        return self._pumps

    @property
    def resident(self) -> int:
        """How many cases are in memory."""
        return len(self._pumps)

    @property
    def waiting(self) -> int:
        """How many inputs wait for their turn."""
        return sum(len(pump.inbox) for pump in self._pumps.values())

    async def settled(self) -> None:
        """Wait until nothing runs and everything that came back is committed."""
        for pump in list(self._pumps.values()):
            await pump.unwound()
            await pump.committed()

    def call_off(self) -> None:
        """Cancel everything that runs; the log knows what to run again."""
        for pump in self._pumps.values():
            pump.call_off()

    async def leave(self) -> None:
        """Have the log say of what was called off that it was stopped in peace; what is left in doubt counts as a crash."""
        posted = [
            pump
            for pump in self._pumps.values()
            if any(each.status is ActivationStatus.RUNNING for each in pump.live.state.activations.values())
        ]
        for pump in posted:
            pump.post(Leave())
        for pump in posted:
            await pump.committed()

    def forget(self) -> None:
        """Let go of everything, and tell whoever still waits."""
        self._runtime.closed = True
        closed = HubClosedError("the hub was left while this was waited for")
        for pump in self._pumps.values():
            pump.forget_waiters(closed)
        self._pumps.clear()
        self.resting.clear()

    def _idle(self, pump: Pump) -> None:
        """A pump has stopped: of the cases that have ended or wait, the ones that did longest ago leave."""
        state = pump.live.state
        if pump.tenure.lost is not None and self._pumps.get(state.id) is pump:
            del self._pumps[state.id]
        if pump.busy or pump.tenure.lost is not None:
            return
        self.resting.forget(state.id)
        if not state.version:  # its start was refused after nobody waited for that any more
            self._pumps.pop(state.id, None)
        elif state.status.ended:
            self.resting.rest(self.resting.ended, state.id)
        elif pump.attempts:
            self.resting.rest(self.resting.asking, state.id)
        elif state.status in _RESTING or state.stalled or (state.compensations.ending and not state.at_work):
            self.resting.rest(self.resting.waiting, state.id)

    def _let_go(self, case: CaseId) -> None:
        """One that has rested for long leaves, unless it is at work again."""
        pump = self._pumps.get(case)
        if pump is not None and not pump.busy:
            pump.call_off()  # who waits for people is run again when they answer
            del self._pumps[case]
            pump.tenure.give_back(pump.live.state, self._runtime)


def _taken(case: CaseId) -> CaseExistsError:
    return CaseExistsError(f"case {case!r} is there already; give another case_id, or ask hub.case({case!r})")
