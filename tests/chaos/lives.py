"""The lives of a store: one hub after the other, each under load until it is killed, and the last one, which ends well.

What is here runs in forked processes, see `forks`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import anyio
import anyio._backends._asyncio  # once, and not in each fork
import structlog

from casehub import CaseEnded, CaseHub, CaseStarted, ChoreographyLoopControl, Event, WorkerExecutionCompleted
from casehub.engine.keeping import bring_back
from casehub.lookup import store_of
from casehub.query import CaseQuery, EventQuery
from casehub.spi import CaseStore
from casehub.state import CaseState
from casehub.tasks import TaskQuery
from tests.chaos import load
from tests.chaos.checker import Evidence, Resources, check
from tests.chaos.clients import Clients, poisoned
from tests.chaos.records import Deed, Journal, Ledger

HEARD: Final = (CaseStarted, CaseEnded, WorkerExecutionCompleted)
LEASE: Final = 2.0
"""Seconds that a hub may be silent, where there may be others."""
FEW: Final = 10
"""Cases that wait and stay in memory."""
OFTEN: Final = 7
"""Events after which a snapshot is kept."""
LOOKED_AT: Final = 300
"""Cases that are loaded in the end, the latest, and held against the fold of their whole log."""
MOMENT: Final = 0.1
"""Seconds that a hub is used before it is left."""
UNWINDING: Final = 5.0
"""Seconds in which threads that have been told to end have ended."""
REST: Final = 90.0
"""Seconds in which everything has to come to its end once nobody kills any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run's store is, and what it leaves beside it."""

    folder: Path
    url: str

    @property
    def of_hubs(self) -> str:
        """The URL for hubs: where several may have the store, a killed one is soon taken to be gone."""
        if not self.url.startswith("postgresql"):
            return self.url
        return f"{self.url}{'&' if '?' in self.url else '?'}lease={LEASE:g}"

    @property
    def errors(self) -> Path:
        return self.folder / "errors.log"

    def journal(self) -> Journal:
        return Journal(self.folder / "journal.ndjson")

    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger.db")


def quiet() -> None:
    """What a hub says goes to stderr, and warnings only."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"), logger_factory=structlog.PrintLoggerFactory(open(2, "w", closefd=False))  # noqa: SIM115 - as long as the process
    )  # fmt: skip


@dataclass(slots=True)
class Life:
    """One hub, made before the process is forked in which it lives: making one takes longer than it lives."""

    place: Place
    hub: CaseHub
    ledger: Ledger | None = None

    @classmethod
    def of(cls, place: Place, store: CaseStore | None = None, *, snapshots: bool = True) -> Life:
        """`store`: instead of the one at the place's URL. Few cases stay in memory; `snapshots`: they come back from
        there."""
        hub = CaseHub(
            *load.DEFINITIONS, loop=load.LOOP, store=store or place.of_hubs, snapshots=place.url if snapshots and store is None else None,
            checkpoint=OFTEN, resident=FEW, linger="20ms", seed=0,
        )  # fmt: skip
        life = cls(place, hub)
        life.hub.on(*HEARD, durable="chaos")(life.hear)
        return life

    async def hear(self, event: Event) -> None:
        """The durable subscriber."""
        if self.ledger is not None:
            self.ledger.heard(event.seq)

    def begin(self, seed: int) -> tuple[Journal, Ledger]:
        """In the process that is its own: what it writes into. What it says goes to stderr, warnings and worse."""
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
        self.ledger = load.world.ledger = self.place.ledger()
        load.world.chance = random.Random(seed)
        return self.place.journal(), self.ledger

    def under_load(self, name: str, seed: int, deeds: Iterable[Deed], say: Callable[[bytes], object]) -> None:
        """Live until killed. What is said: `o` once the hub is open, `a` each time that something is acknowledged."""
        journal, _ = self.begin(seed)

        async def live() -> None:
            async with self.hub as hub:
                say(b"o")
                clients = Clients(hub, journal, deeds, random.Random(seed), name)
                clients.acked = lambda: say(b"a")
                await clients.use()

        asyncio.run(live())

    def and_leave(self, name: str, seed: int, deeds: Iterable[Deed], moment: float = MOMENT) -> None:
        """Live for a moment (seconds), drain, and leave."""
        asyncio.run(self.leaving(name, seed, deeds, moment, lambda: None))

    async def leaving(
        self, name: str, seed: int, deeds: Iterable[Deed], moment: float, entered: Callable[[], None]
    ) -> None:
        """As `and_leave`, on a loop that is there, for so many seconds. `entered` is called once the hub is open."""
        journal, _ = self.begin(seed)
        async with self.hub as hub:
            entered()
            with anyio.move_on_after(moment):
                await Clients(hub, journal, deeds, random.Random(seed), name).use()
            await hub.drain("1s")

    async def once(self, name: str) -> None:
        """Live for one deed, a case that is started and waits: of turns, there is one to commit."""
        journal, _ = self.begin(0)
        async with self.hub as hub:
            await Clients(hub, journal, (), random.Random(0), name).do(
                Deed("start", f"{load.meter.name}-{name}", f"user:{name}", load.meter.name, {})
            )
            await hub.drain("1s")

    def to_the_end(self, deeds: Iterable[Deed], beside: int = 0) -> dict[str, Any]:
        """As `last`: what is wrong, by invariant, and how much there was. `beside`: how many hubs had been beside others."""
        found, given_up = self.last(deeds)
        found.beside = beside
        return {
            "problems": check(found),
            "acked": sum(deed.answer == "acked" for deed in found.deeds),
            "cases": len(found.logs),
            "snapshots": len(found.kept),
            "events": len(found.events),
            "effects": len(found.effects),
            "given_up": given_up,
            "effects_repeated": len(found.effects) - len({effect.key for effect in found.effects}),
        }

    def last(self, deeds: Iterable[Deed]) -> tuple[Evidence, int]:
        """The last life: let everything come to its end, and leave the hub. What is there then; and how many dead letters
        there were of what had been interrupted too often, which were tried again."""
        journal, ledger = self.begin(0)
        live: list[CaseState] = []
        kept: list[CaseState] = []
        letters: list[str] = []
        tasks_left: list[int] = []
        given_up: list[int] = []

        async def finish() -> None:
            async with self.hub as hub:
                clients = Clients(hub, journal, deeds, random.Random(0), "end")
                with anyio.move_on_after(REST):  # the checker says what is stuck
                    await clients.finish()
                given_up.append(clients.given_up)
                for case in await hub.cases(limit=LOOKED_AT):
                    pump = await hub.pump(case.case)  # from a snapshot, and what came after it
                    live.append(await pump.read(lambda case: case.state))
                await hub.drain("10s")
                letters.extend(letter.id for letter in await hub.dead_letters.list(limit=100_000))
                kept.extend([state async for state in _kept(hub)])
            tasks_left.append(len(asyncio.all_tasks()) - 1)

        before = _resources(0)
        asyncio.run(finish())
        end = time.monotonic() + UNWINDING
        while threading.active_count() > before.threads and time.monotonic() < end:
            time.sleep(0.01)
        after = _resources(tasks_left[0])
        return asyncio.run(_found(self.place, journal, ledger, live, kept, letters, before, after)), given_up[0]


async def _kept(hub: CaseHub) -> AsyncIterator[CaseState]:
    """What the snapshots have of the cases that there are."""
    if hub.snapshot_store is None:
        return
    await hub.snapshots.flushed()
    after: str | None = None
    while some := await hub.cases(limit=1_000, after=after):
        after = some[-1].case
        for each in some:
            snapshot = await hub.snapshots.latest(each.case)
            if snapshot is not None:
                loop = load.LOOP.get(each.definition) or ChoreographyLoopControl()
                yield bring_back(snapshot.payload, each.case, hub.tenant, loop).state


async def _found(
    place: Place,
    journal: Journal,
    ledger: Ledger,
    live: list[CaseState],
    kept: list[CaseState],
    letters: list[str],
    before: Resources,
    after: Resources,
) -> Evidence:
    store = store_of(place.url, read_only=True)
    await store.open(lambda turns: None)
    try:
        events: list[Event] = []
        while page := await store.log.query(EventQuery(after=events[-1].seq if events else 0)):
            events += page
        cases: list[Any] = []
        while some := await store.log.cases(CaseQuery(after=cases[-1].case if cases else None)):
            cases += some
        timers = list(await store.due(datetime.now(UTC) + timedelta(days=1_000), 100_000))
        tasks = list(await store.log.tasks(TaskQuery(limit=10_000)))
    finally:
        await store.close()
    deeds = journal.deeds()
    return Evidence(
        events=events, cases=cases, timers=timers, tasks=[task for task in tasks if not task.status.ended], live=live, letters=letters,
        deeds=deeds, effects=list(ledger.effects()), hearings=list(ledger.hearings()), heard_kinds=HEARD,
        effectful=load.EFFECTFUL, poisoned=poisoned(deeds), before=before, after=after, loops=load.LOOP, kept=kept,
    )  # fmt: skip


def _resources(tasks: int) -> Resources:
    return Resources(tasks=tasks, threads=threading.active_count(), files=len(os.listdir("/proc/self/fd")))
