"""What all cases of a hub share while they are worked, and the tickets that inputs wait on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from casehub.bus import Bus
from casehub.engine.brake import Brake
from casehub.engine.outage import Outage
from casehub.engine.quarantine import Ward
from casehub.engine.standing import Standing
from casehub.engine.timers import TimerWheel
from casehub.engine.watchdog import Watchdog
from casehub.errors import HubClosedError
from casehub.events import WorkerExecutionFinished
from casehub.inputs import Input
from casehub.spi import CaseStore, Clock, Executor, Turn
from casehub.structure import Structure

log = structlog.get_logger("casehub.engine")


@dataclass(slots=True, weakref_slot=True, eq=False)
class Runtime:
    """What the pumps of one hub share. `spawn` runs a job in a task of the hub's group.

    `resources`: by the hash of a structure and their names; `pumping`, `working`: how many pumps hold their role, how many attempts and
    deliberations run; `standing`: among the hubs of the store, None where there is this one only; `ward`: the workers that
    are quarantined; `brake`: what is held; `draining`: nothing new is
    started; `closed`: nothing runs any more; `outage`: who waits for the store; the rest are counts for metrics.
    """

    store: CaseStore
    bus: Bus
    clock: Clock
    wheel: TimerWheel
    outage: Outage
    executor: Executor
    spawn: Callable[..., object]
    chance: random.Random
    resources: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    watchdog: Watchdog = field(default_factory=Watchdog)
    ward: Ward = field(default_factory=Ward)
    standing: Standing | None = None
    brake: Brake = field(default_factory=Brake)
    turns: int = 0
    refused: int = 0
    failures: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    pumping: int = 0
    working: int = 0
    draining: bool = False
    closed: bool = False

    def count(self, outcome: str) -> None:
        """Count how an attempt ended, by the name of its event."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def watch(self, structure: Structure, failure: WorkerExecutionFinished) -> None:
        """Note a failure of a worker that may be quarantined."""
        policy = structure.watched.get(failure.worker)
        if policy is not None:
            self.ward.note(structure.name, failure.worker, policy, failure.at)

    def check_open(self) -> None:
        """Raise `HubClosedError` once nothing runs any more: whoever comes later would wait for ever."""
        if self.closed:
            raise HubClosedError("the hub was left while this was waited for")


@dataclass(slots=True)
class Ticket:
    """An input in the inbox, and who waits for its turn. The turn of an input that changed nothing has no events.

    `conflicts`, `setbacks`: how often somebody else's turn was before its own, and how often the store was away for it;
    `refusals`: how often it was put off.
    """

    input: Input
    taken: asyncio.Future[Turn] | None = None
    conflicts: int = 0
    setbacks: int = 0
    refusals: int = 0

    def answer(self, turn: Turn) -> None:
        if self.taken is not None and not self.taken.done():
            self.taken.set_result(turn)

    def refuse(self, error: Exception) -> None:
        if self.taken is not None and not self.taken.done():
            self.taken.set_exception(error)
        elif self.taken is None:
            log.warning("input.refused", kind=type(self.input).__name__, reason=str(error))
