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

from tests.chaos.forks import Fork, answer_of, forked, sleep
from tests.chaos.lives import Life, Place
from tests.chaos.records import Deed

MOMENTS: Final = {"forked": 2, "open": 3, "acked": 5}
"""What a hub has come to when its time begins to run, and how often it is that: then it is killed while it opens the
store, while it recovers, or in the thick of it."""
SOONEST: Final = 0.001
LATEST: Final = 0.030
"""Seconds after which it is killed."""
WORDS: Final = {"open": b"o", "acked": b"a"}


@dataclass(slots=True)
class Run:
    """What came of a run. `beside`: how many other hubs work the store while one is killed; `moments`: kills by what the hub had come to; `opened`: seconds from the fork until it was open."""

    store: str
    seed: int
    rounds: int
    beside: int = 0
    kills: int = 0
    moments: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MOMENTS, 0))
    opened: list[float] = field(default_factory=list)
    seconds: float = 0.0
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def repeat(self) -> str:
        """The command that does it again."""
        return (
            f"python -m tests.chaos kills --store {self.store} --rounds {self.rounds} --seed {self.seed} "
            f"--beside {self.beside}"
        )


def kill_loop(place: Place, store: str, rounds: int, seed: int, beside: int = 0) -> Run:
    """Kill so many hubs, then let one end well. Raises `AssertionError` when a hub ends by itself.

    With others `beside` it, which takes a store that several may have, the oldest one is killed.
    """
    run, chance, began = Run(store, seed, rounds, beside), random.Random(seed), time.monotonic()
    journal, lives = place.journal(), [Life.of(place), Life.of(place, snapshots=False)]
    deeds: dict[str, Deed] = {}
    alive: list[Fork] = []
    for number in range(rounds + beside):
        (moment,) = chance.choices(list(MOMENTS), list(MOMENTS.values()))
        delay, of_hub = chance.uniform(SOONEST, LATEST), chance.getrandbits(32)
        life = chance.choice(lives)  # what one life leaves in snapshots another one does not go by
        forked_at = time.monotonic()
        known = list(deeds.values())
        child = forked(
            lambda pipe, name=str(number), of_hub=of_hub, known=known, life=life: life.under_load(
                name, of_hub, known, lambda word: os.write(pipe, word)
            ),
            place.errors,
        )
        if moment != "forked":
            said = child.word()
            run.opened.append(time.monotonic() - forked_at)
            while WORDS[moment] not in said and (word := child.word()):
                said += word
        sleep(delay)
        alive.append(child)
        if len(alive) <= beside:
            continue
        code = alive.pop(0).kill()
        if code != -signal.SIGKILL:
            raise AssertionError(
                f"round {number}: a hub ended by itself ({code}); {run.repeat}\n"
                + place.errors.read_text(errors="replace")[-4_000:]
            )
        run.kills += 1
        run.moments[moment] += 1
        journal.sync()
        journal.catch_up(deeds)
    for child in alive:
        run.kills += child.kill() == -signal.SIGKILL
    journal.catch_up(deeds)
    run.found = answer_of(lambda: lives[0].to_the_end(list(deeds.values()), beside), place.errors)
    run.seconds = time.monotonic() - began
    return run
