"""Two hubs of one PostgreSQL, stepped against each other: one is frozen at a point, the other one works on, the first goes on.

A hub that is frozen for longer than its lease is put out, and its cases are taken over; what it then goes on with has to
be refused. Where it is frozen amid a transaction the other one may have to wait instead.

    python -m tests.chaos stepped --store postgresql://test@127.0.0.1:5432/postgres --only "before turns are written"
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos import load
from tests.chaos.forks import Fork, answer_of, forked, sleep
from tests.chaos.lives import LEASE, Life, Place
from tests.chaos.points import ENGINE, HIT, LIMIT, POSTGRES, Point, install
from tests.chaos.records import Deed

STEPS: Final = (
    Point("after a case is claimed", f"{POSTGRES}:claim_case", "after", 3),
    Point("before turns are written", f"{POSTGRES}.writer:PostgresDatabase.transact", nth=6),
    Point("after the commit, before it is known", "casehub.adapters.group:Group.settle", nth=6),
    Point("before a case is claimed", f"{POSTGRES}:claim_case", nth=3),
    Point("turns are decided, before the commit", f"{ENGINE}.pump:commit", nth=6),
    Point("after the rows, before the commit", f"{POSTGRES}.connection:Connection.execute", nth=6, given="COMMIT"),
    Point("before a case is given back", f"{POSTGRES}:release_case"),
    Point("after a case is given back", f"{POSTGRES}:release_case", "after"),
)
PATIENCE: Final = 5 * LEASE
"""Seconds in which a hub whose lease has ended is put out, and has noticed once it goes on."""
TOGETHER: Final = 0.3
"""Seconds that both go on."""


@dataclass(slots=True)
class Stepped:
    """What came of it. `missed`: points that nothing came to; `put_out`: those at which the frozen hub was put out, and
    has noticed; `waited`: those at which it was not, since the other one had to wait."""

    store: str
    seed: int
    hit: list[str] = field(default_factory=list[str])
    missed: list[str] = field(default_factory=list[str])
    put_out: list[str] = field(default_factory=list[str])
    waited: list[str] = field(default_factory=list[str])
    found: dict[str, Any] = field(default_factory=dict[str, Any])


def step(place: Place, store: str, chosen: Sequence[Point], seed: int) -> Stepped:
    """At each point: freeze one hub, let another one work, let the first go on, kill both. Then let everything end well."""
    run, journal, life = Stepped(store, seed), place.journal(), Life.of(place)
    deeds: dict[str, Deed] = {}
    chance = random.Random(seed)
    for number, point in enumerate(chosen):
        first = _hub(life, f"a{number}", chance.getrandbits(32), list(deeds.values()), point)
        if first.word(LIMIT) != HIT:
            run.missed.append(point.name)
            first.kill()
            continue
        run.hit.append(point.name)
        ended = rf"hubs=\[[^]]*'process {first.pid} on"
        noticed = _told(place, "hub.put_out_by_others")
        journal.catch_up(deeds)
        second = _hub(life, f"b{number}", chance.getrandbits(32), list(deeds.values()))
        taken = _wait(lambda ended=ended: _told(place, ended) > 0)
        sleep(TOGETHER)  # the other one works what it has taken over
        os.kill(first.pid, signal.SIGCONT)
        seen = taken and _wait(lambda noticed=noticed: _told(place, "hub.put_out_by_others") > noticed)
        (run.put_out if seen else run.waited).append(point.name)
        sleep(TOGETHER)
        for child in (first, second):
            if child.kill() != -signal.SIGKILL:
                raise AssertionError(
                    f"{point.name}: a hub ended by itself\n{place.errors.read_text(errors='replace')[-4_000:]}"
                )
        journal.catch_up(deeds)
    run.found = answer_of(lambda: life.to_the_end(list(deeds.values()), beside=1), place.errors)
    return run


def _hub(life: Life, name: str, seed: int, known: list[Deed], point: Point | None = None) -> Fork:
    def live(pipe: int) -> None:
        def freeze() -> None:
            assert load.world.ledger is not None
            with load.world.ledger.unused():  # a file that both write
                os.write(pipe, HIT)
                os.kill(os.getpid(), signal.SIGSTOP)

        if point is not None:
            install(point, freeze)
        life.under_load(name, seed, known, lambda word: None)

    return forked(live, life.place.errors)


def _told(place: Place, what: str) -> int:
    """How often hubs have said something, which is a regular expression."""
    return len(re.findall(what, place.errors.read_text(errors="replace")))


def _wait(done: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not (so := done()) and time.monotonic() < end:
        sleep(0.02)
    return so
