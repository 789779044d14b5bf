"""Quarantine: a worker that keeps failing, over all cases of a hub, is left alone for a while.

Failures are counted in memory, over cases; what follows is an event in each case that it holds up: `WORKER_QUARANTINED`
before the case takes anything else, and `WORKER_RELEASED` when its timer comes due. So a case's log says by itself why a
binding did not fire. A process that starts anew counts from nothing, and reads in the log whom to leave alone.

A worker that somebody suspends (`casehub.brakes`) is in a quarantine without an end, which holds its retries too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime

import structlog

from casehub.binding import Binding
from casehub.errors import CaseEndedError, InputRefusedError, did_you_mean
from casehub.events import (
    Event,
    TimerCancelled,
    TimerId,
    TimerSet,
    WorkerQuarantined,
    WorkerReleased,
)
from casehub.inputs import Hold, HoldWorkers, ReleaseWorker
from casehub.policies import Quarantine
from casehub.state import CaseState

log = structlog.get_logger("casehub.engine")


class Ward:
    """The workers of a hub that are quarantined, and the failures that count towards it."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], Hold] = {}
        self._failures: dict[tuple[str, str], deque[datetime]] = {}

    def note(self, definition: str, worker: str, policy: Quarantine, at: datetime) -> None:
        """A failure; the one that is too many begins a quarantine."""
        key = (definition, worker)
        failures = self._failures.setdefault(key, deque(maxlen=policy.failures))
        failures.append(at)
        if len(failures) == policy.failures and at - failures[0] <= policy.span and key not in self.held:
            failures.clear()
            until = at + policy.pause
            self.held[key] = Hold(until)
            log.warning("worker.quarantined", definition=definition, worker=worker, until=until.isoformat())

    def missing(self, definition: str, known: Mapping[str, datetime | None], now: datetime) -> dict[str, Hold]:
        """The quarantined workers of a definition that a case does not know of; one may be suspended on top of it."""
        for key in [key for key, hold in self.held.items() if hold.until is not None and hold.until <= now]:
            del self.held[key]
        return {
            worker: hold
            for (of, worker), hold in self.held.items()
            if of == definition and (worker not in known or (hold.until is None and known[worker] is not None))
        }

    def release(self, definition: str, worker: str) -> None:
        """End a quarantine."""
        self.held.pop((definition, worker), None)


def quarantined(state: CaseState, workers: Mapping[str, Hold]) -> Iterator[Event]:
    """The events of a case that is told of quarantined workers."""
    for worker, hold in workers.items():
        if hold.until is not None:
            yield TimerSet(timer=_timer(worker), due=hold.until)
        elif _timer(worker) in state.timers:
            yield TimerCancelled(timer=_timer(worker))
        yield WorkerQuarantined(worker=worker, until=hold.until, reason=hold.reason, by=hold.by)


def held(state: CaseState, input: HoldWorkers) -> Iterator[Event]:
    """What an open case records of quarantined workers."""
    return quarantined(state, {} if state.status.ended else input.workers)


def released(state: CaseState, input: ReleaseWorker) -> Iterator[Event]:
    """The end of a quarantine before its time. Raises `InputRefusedError` where there is none."""
    if state.status.ended:
        raise CaseEndedError(f"case {state.id!r} is {state.status}, a terminal status; there is nothing to release")
    if input.worker not in state.quarantined:
        hint = did_you_mean(input.worker, state.quarantined) if state.quarantined else "none is"
        raise InputRefusedError(f"worker {input.worker!r} is not quarantined in case {state.id!r}; {hint}")
    if _timer(input.worker) in state.timers:
        yield TimerCancelled(timer=_timer(input.worker))
    yield WorkerReleased(worker=input.worker, reason=input.reason, by=input.by)


def come_to_its_end(state: CaseState, timer: TimerId) -> Iterator[Event]:
    """The timer of a quarantine has come due."""
    worker = timer.partition(":")[2]
    if worker in state.quarantined:
        yield WorkerReleased(worker=worker, by=f"timer:{timer}")


def locked(state: CaseState, binding: Binding) -> str | None:
    """Why no worker of a binding may be called, in words; None when one may."""
    if not state.quarantined or any(worker.name not in state.quarantined for worker in binding.workers):
        return None
    names = ", ".join(worker.name for worker in binding.workers)
    ends = [until for worker in binding.workers if (until := state.quarantined[worker.name]) is not None]
    if not ends:
        return f"{names} is suspended; resume it with 'casehub resume --worker'"
    return f"{names} kept failing, and is quarantined until {min(ends):%Y-%m-%d %H:%M:%SZ}"


def suspended(state: CaseState, worker: str) -> bool:
    """Whether somebody has suspended a worker: no attempt of it starts, not even one of an activation under way."""
    return worker in state.quarantined and state.quarantined[worker] is None


def _timer(worker: str) -> TimerId:
    return TimerId(f"quarantine:{worker}")
