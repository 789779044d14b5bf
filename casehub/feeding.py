"""Feeding a log into cases: in the order of its time, many cases at once, each of them on its own time.

Every input carries the time it happened at, and a case's own time never goes back, so what follows from an input (a
worker that really runs, its retries, a service level) happens in the log's years, however far the feed has got with
other cases. The hub's clock stands before all of it: nothing comes due by itself, the feed posts each timer at its
time. Within a case nothing is fed before what comes before it is over, whatever it led to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Final

import anyio

from casehub.activities import recorded
from casehub.adapters.clock import SystemClock
from casehub.binding import Binding
from casehub.engine.bulk import Entry, take_together
from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.errors import CaseEndedError, CaseHubError, InputRefusedError
from casehub.events import CaseId, TimerId, WorkerEvent, WorkerExecutionFailed
from casehub.hub import CaseHub
from casehub.inputs import Input, Reported, Start, TimerDue, Write
from casehub.lifecycle import ActivationStatus
from casehub.spi import Answer, DueTimer, KeepsAgenda, LoopControl, WorksStages
from casehub.state import CaseState
from casehub.structure import Structure, started_with
from casehub.timeline import Moment, Timeline
from casehub.values import OwnerId
from casehub.view import CaseView

WINDOW: Final = 1_024
"""Steps that may be under way or waiting at once."""
DEPTH: Final = 2
"""Bulks (a quarter of a window each) that may be under way at once: while the store commits one, the next is taken."""
NAMED: Final = 1_000
"""Most refused and out-of-order activities that are kept by name; all are counted."""
TOLD_EVERY: Final = 250
"""Events between two calls of the progress callback."""
_BEFORE_ALL: Final = datetime(1, 1, 2, tzinfo=UTC)
_TIMERS_FIRST: Final = -1
"""The number of every timer: of what happens at the same time in a case, it comes before the events of the log."""


class LogClock(SystemClock):
    """Says a time before any log's, so that only inputs bring times; spans are the machine's (time limits of workers)."""

    def now(self) -> datetime:
        return _BEFORE_ALL


class LogLoopControl:
    """A definition's own loop control, but for the bindings that the log tells of: it says when these have run."""

    def __init__(self, own: LoopControl, told: frozenset[str]) -> None:
        self._own = own
        self._told = told
        self.immediate = own.immediate
        self.handles = own.handles
        self.deadline = own.deadline
        self.initial = own.initial
        self.apply = own.apply
        self.react = own.react
        self.settle = own.settle
        self.view = own.view
        if isinstance(own, KeepsAgenda):
            self.withdraw = own.withdraw
        if isinstance(own, WorksStages):
            over: Callable[[Structure], LoopControl] = own.over
            self.over = lambda structure: LogLoopControl(over(structure), told)
            self.stage_events = own.stage_events
            self.inactive, self.awaited, self.direct = own.inactive, own.awaited, own.direct

    def gate(self, state: CaseState, binding: Binding) -> str | None:
        return "the log tells when it has run" if binding.name in self._told else self._own.gate(state, binding)

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        ours = [binding for binding in eligible if binding.name not in self._told]
        return await self._own.select(case, ours) if ours else ()


@dataclass(slots=True, kw_only=True)
class Fed:
    """What came of feeding a log.

    `fed`: events that were dealt with; `started`: cases; `signals`, `results`, `timers`: inputs that their cases took;
    `out_of_order`: results that their case had not called for; `refusals` (case, activity, reason) and `disorders`
    (case, activity) name the first thousand of the refused and of those out of order.
    """

    fed: int = 0
    started: int = 0
    signals: int = 0
    results: int = 0
    timers: int = 0
    refused: int = 0
    out_of_order: int = 0
    refusals: list[tuple[str, str, str]] = field(default_factory=list)
    disorders: list[tuple[str, str]] = field(default_factory=list)


Item = tuple[datetime, int, Moment | TimerId]
"""What waits for its turn in a case: when, its number, and a moment of the log or a timer that comes due."""


@dataclass(slots=True, eq=False)
class _Lane:
    """A case that something is to be done with. `queue`: what waits; `under_way`: something has been given to it."""

    case: CaseId
    queue: list[Item] = field(default_factory=list)
    under_way: bool = False
    pump: Pump | None = None


_Sent = list[tuple[_Lane, Item, Entry]]


class Feed:
    """Feeds the moments of a timeline to a hub that is open.

    `started`: the cases that are there already; `progress` is told how many events have been dealt with; `fed`: what
    counts them.
    """

    def __init__(
        self,
        hub: CaseHub,
        timeline: Timeline,
        started: Container[str],
        progress: Callable[[int], None],
        fed: Fed,
        window: int = WINDOW,
    ) -> None:
        self.fed = fed
        self._hub = hub
        self._timeline = timeline
        self._started = started
        self._progress = progress
        self._window = window
        self._now = _BEFORE_ALL
        self._pending = 0  # moments that have been put and are not over
        self._lanes: dict[CaseId, _Lane] = {}
        self._bulk: list[tuple[_Lane, Item]] = []
        self._sent = 0  # bulks that are under way
        self._done: deque[_Sent | _Lane | Exception] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._unfit: dict[int, str] = {}  # moments by number, and why their case could make nothing of them
        self._timers: dict[CaseId, dict[TimerId, datetime]] = {}
        self._due: list[tuple[datetime, CaseId, TimerId]] = []

    async def run(self, timers: Iterable[DueTimer] = ()) -> None:
        """Feed everything; `timers`: those that are set already. Raises what the store raises."""
        for each in timers:
            self._timers.setdefault(each.case, {})[each.timer] = each.due
            heappush(self._due, (each.due, each.case, each.timer))
        for moment in self._timeline.moments:
            if self._due:
                await self._fire_until(moment.at)
            self._now = moment.at
            await self._put(CaseId(moment.case), (moment.at, moment.number, moment))
        await self._fire_until(self._now)
        while self._pending:
            await self._advance()
            await self._fire_until(self._now)
        self._progress(self.fed.fed)

    async def _fire_until(self, moment: datetime) -> None:
        """Let the timers come due that are set up to a moment."""
        while self._due and self._due[0][0] <= moment:
            due, case, timer = heappop(self._due)
            if self._timers.get(case, {}).get(timer) == due:
                await self._put(case, (due, _TIMERS_FIRST, timer))

    async def _put(self, case: CaseId, item: Item) -> None:
        """Line something up for its case, or let it wait there while the case is busy."""
        while self._done or self._pending >= self._window or len(self._bulk) >= self._window // 4:
            await self._advance()
        self._pending += 1
        lane = self._lanes.get(case)
        if lane is None:
            lane = self._lanes[case] = _Lane(case)
        if lane.under_way:
            heappush(lane.queue, item)
        else:
            self._bulk.append((lane, item))

    async def _advance(self) -> None:
        """Do the next thing there is to do: look at what is done, send a bulk, or wait."""
        if self._done:
            done = self._done.popleft()
            if isinstance(done, Exception):
                raise done
            if isinstance(done, _Lane):
                self._free(done)
            else:
                self._account(done)
        elif self._bulk and self._sent < DEPTH:
            await self._send()
        else:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    # ---- there

    async def _send(self) -> None:
        bulk, self._bulk = self._bulk, []
        sent: _Sent = []
        for lane, item in bulk:
            _, _, moment = item
            lane.under_way = True
            if (
                isinstance(moment, Moment)
                and moment.place == 0
                and lane.pump is None
                and lane.case not in self._started
            ):
                sent.append((lane, item, self._begin(lane, moment)))
            if lane.pump is None:
                lane.pump = await self._hub.pump(lane.case)
            input = self._input(moment) if isinstance(moment, Moment) else TimerDue(timer=moment, at=item[0])
            sent.append((lane, item, Entry(input, pump=lane.pump)))
        self._sent += 1
        self._hub.runtime.spawn(self._deliver, sent)

    async def _deliver(self, _: anyio.CancelScope, sent: _Sent) -> None:
        try:
            await take_together([entry for _, _, entry in sent], self._hub.runtime, _ready)
        except Exception as error:  # of a store that cannot go on: the feed ends with it
            self._note(error)
        else:
            self._sent -= 1
            self._note(sent)

    def _begin(self, lane: _Lane, moment: Moment) -> Entry:
        structure = self._timeline.structure
        try:
            facts = started_with(
                structure, self._timeline.inputs.get(moment.case, {}), OwnerId(lane.case, self._hub.tenant)
            )
        except CaseHubError as error:
            raise InputRefusedError(f"case {moment.case!r} of the log cannot start: {error}") from error
        lane.pump = self._hub.begin(structure.name, lane.case)
        return Entry(Start(facts=facts, at=moment.at, by="log"), pump=lane.pump)

    def _input(self, moment: Moment) -> Input:
        """What a moment is for its case; only the activity as it was logged, where the definition can make nothing of it."""
        event, meaning = moment.event, moment.meaning
        note = recorded(event, f"worker:{meaning.worker}" if meaning.worker else "")
        if moment.number in self._unfit:
            return Write(notes=(note,), at=moment.at, reason=self._unfit.pop(moment.number))
        try:
            value = meaning.value(event)
            if meaning.signal:
                owner = OwnerId(moment.case, self._hub.tenant)
                facts = {meaning.signal: meaning.plain(value, f"fact {meaning.signal!r}", owner)}
                return Write(signals=(meaning.signal,), facts=facts, notes=(note,), by=note.by, at=moment.at)
        except Exception as error:  # value= is the user's, and a log may hold anything
            known = isinstance(error, CaseHubError)
            return Write(
                notes=(note,),
                at=moment.at,
                reason=str(error) if known else f"value= raised {type(error).__name__}: {error}",
            )
        return Reported(binding=meaning.binding, worker=meaning.worker, value=value, notes=(note,), at=moment.at)

    # ---- and back

    def _note(self, done: _Sent | _Lane | Exception) -> None:
        self._done.append(done)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _account(self, sent: _Sent) -> None:
        """Count what a bulk came to; what its cases were not ready for waits on."""
        lanes: dict[_Lane, None] = {}
        for lane, item, entry in sent:
            lanes[lane] = None
            _, _, moment = item
            if isinstance(entry.input, Start):
                if entry.error is not None:
                    raise entry.error
                self.fed.started += 1
            elif entry.turn is None and entry.error is None:
                heappush(lane.queue, item)
            elif isinstance(entry.error, InputRefusedError) and not isinstance(entry.error, CaseEndedError):
                self._unfit[item[1]] = str(entry.error)  # it happened all the same: told again, as that alone
                heappush(lane.queue, item)
            else:
                self._pending -= 1
                if isinstance(moment, Moment):
                    self._count(moment, entry)
                elif entry.turn is not None:
                    self.fed.timers += bool(entry.turn.events)
        for lane in lanes:
            pump = lane.pump
            if pump is not None and (pump.pumping or unsettled(pump.live)):
                self._hub.runtime.spawn(self._settle, lane, pump)
            else:
                self._free(lane)

    async def _settle(self, _: anyio.CancelScope, lane: _Lane, pump: Pump) -> None:
        """Wait until what really runs in a case has come to its end."""
        await pump.until(settled)
        await pump.committed()
        self._note(lane)

    def _free(self, lane: _Lane) -> None:
        """A case is done with what it had: line up what has waited for it."""
        if lane.pump is not None:
            self._look_at_timers(lane, lane.pump.live.state)
        lane.under_way = False
        if not lane.queue:
            del self._lanes[lane.case]
        while lane.queue:
            self._bulk.append((lane, heappop(lane.queue)))

    def _look_at_timers(self, lane: _Lane, state: CaseState) -> None:
        """Take over the timers of a case. What is due before the feed's time goes before what waits."""
        known = self._timers.get(lane.case, {})
        timers = {} if state.status.ended else state.timers
        if timers == known:
            return
        for timer, due in timers.items():
            if known.get(timer) == due:
                continue
            if due <= self._now:
                heappush(lane.queue, (due, _TIMERS_FIRST, timer))
                self._pending += 1
            else:
                heappush(self._due, (due, lane.case, timer))
        if timers:
            self._timers[lane.case] = dict(timers)
        else:
            del self._timers[lane.case]

    def _count(self, moment: Moment, entry: Entry) -> None:
        fed, binding = self.fed, moment.meaning.binding
        fed.fed += 1
        if fed.fed % TOLD_EVERY == 0:
            self._progress(fed.fed)
        if isinstance(entry.error, CaseEndedError):
            self._refuse(moment, str(entry.error))
        elif entry.turn is None:
            raise entry.error or RuntimeError("neither a turn nor an error")
        elif isinstance(entry.input, Write):
            if entry.input.signals:
                fed.signals += 1
            else:
                self._refuse(moment, entry.input.reason)
        else:
            own = [event for event in entry.turn.events if isinstance(event, WorkerEvent) and event.binding == binding]
            failed = [event for event in own if isinstance(event, WorkerExecutionFailed)]
            if failed:
                self._refuse(moment, failed[0].message)
                return
            fed.results += 1
            if not own:
                fed.out_of_order += 1
                if len(fed.disorders) < NAMED:
                    fed.disorders.append((moment.case, moment.meaning.label))

    def _refuse(self, moment: Moment, reason: str) -> None:
        self.fed.refused += 1
        if len(self.fed.refusals) < NAMED:
            self.fed.refusals.append((moment.case, moment.meaning.label, reason))


def unsettled(live: LiveCase) -> bool:
    """Whether something really runs in a case, or is being decided; a retry that waits for its time does not."""
    state = live.state
    if not state.activations:
        return state.deliberating
    return state.deliberating or any(each.status is ActivationStatus.RUNNING for each in state.activations.values())


def settled(live: LiveCase) -> bool | None:
    """As a test to wait for."""
    return None if unsettled(live) else True


def _ready(live: LiveCase, input: Input) -> bool:
    """Whether nothing comes before this input: neither what runs, nor a timer that is due by then."""
    timers = live.state.timers
    if timers and not isinstance(input, TimerDue) and min(timers.values()) <= input.at:
        return live.state.status.ended
    return not unsettled(live)
