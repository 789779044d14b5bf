"""The kill loop: a hub under load is killed at a random moment, the next one goes on with its store, and so on.

python -m tests.chaos kills --store sqlite --rounds 200 --seed 7
"""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.forks import answer_of, forked, sleep
from tests.chaos.lives import Life, Place
from tests.chaos.records import Deed

SOONEST: Final = 0.001
LATEST: Final = 0.030
"""Seconds after which a hub is killed ..."""
LONGEST: Final = 0.150
"""... or after up to so many, so that much is under way ..."""
LONG: Final = 0.3
"""... of so many."""
EARLY: Final = 0.2
"""Of so many the time counts from their fork: they are killed while they open the store, or recover."""


@dataclass(slots=True)
class Run:
    """What came of a run. `early`: kills before the hub was open; `opened`: seconds from fork to there, of each."""

    store: str
    seed: int
    rounds: int
    kills: int = 0
    early: int = 0
    opened: list[float] = field(default_factory=list)
    seconds: float = 0.0
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def repeat(self) -> str:
        """The command that does it again."""
        return f"python -m tests.chaos kills --store {self.store} --rounds {self.rounds} --seed {self.seed}"


def kill_loop(place: Place, store: str, rounds: int, seed: int) -> Run:
    """Kill so many hubs, then let one end well. Raises `AssertionError` when a hub ends by itself."""
    run, chance, began = Run(store, seed, rounds), random.Random(seed), time.monotonic()
    journal, life = place.journal(), Life.of(place)
    deeds: dict[str, Deed] = {}
    for number in range(rounds):
        early, latest = chance.random() < EARLY, LONGEST if chance.random() < LONG else LATEST
        delay, of_hub = chance.uniform(SOONEST, latest), chance.getrandbits(32)
        forked_at = time.monotonic()
        known = list(deeds.values())
        child = forked(
            lambda pipe, name=str(number), of_hub=of_hub, known=known: life.under_load(
                name, of_hub, known, lambda: os.write(pipe, b"o")
            ),
            place.errors,
        )
        if not early:
            child.word()
            run.opened.append(time.monotonic() - forked_at)
        sleep(delay)
        code = child.kill()
        if code != -signal.SIGKILL:
            raise AssertionError(
                f"round {number}: a hub ended by itself ({code}); {run.repeat}\n"
                + place.errors.read_text(errors="replace")[-4_000:]
            )
        run.kills += 1
        run.early += early
        journal.sync()
        journal.catch_up(deeds)
    run.found = answer_of(lambda: life.to_the_end(list(deeds.values())), place.errors)
    run.seconds = time.monotonic() - began
    return run
