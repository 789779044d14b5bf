"""Resting: which cases in memory have nothing to do, since when, and which of them have to leave.

A case that waits, or that nothing can move, leaves after a while, and at once when too many others rest too. One whose
worker waits for people would run that again, so it leaves only when there are too many, and last.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from casehub.engine.timers import Alarm, TimerWheel
from casehub.events import CaseId

ENDED: Final = 64
"""Cases that have ended and stay in memory a little longer: somebody is about to ask for their outcome."""


class Resting:
    """Cases at rest, since when on the monotonic clock, the longest first.

    `waiting`: those that wait; `asking`: those whose workers wait for people; `ended`: those that have ended. At most
    `bound` of the former two stay, and none of those that wait, or have ended, longer than `linger`; `let_go` is called
    with each that leaves.
    """

    def __init__(self, wheel: TimerWheel, bound: int, linger: timedelta, let_go: Callable[[CaseId], None]) -> None:
        self.waiting: dict[CaseId, float] = {}
        self.asking: dict[CaseId, float] = {}
        self.ended: dict[CaseId, float] = {}
        self._wheel = wheel
        self._bound = max(bound, 1)
        self._linger = linger.total_seconds()
        self._let_go = let_go
        self._leaving: Alarm | None = None

    def forget(self, case: CaseId) -> None:
        """A case rests no more, or is gone."""
        for resting in (self.waiting, self.asking, self.ended):
            resting.pop(case, None)

    def clear(self) -> None:
        """All of them are gone."""
        for resting in (self.waiting, self.asking, self.ended):
            resting.clear()

    def rest(self, resting: dict[CaseId, float], case: CaseId) -> None:
        """A case has come to rest, in one of the three."""
        resting[case] = self._wheel.clock.monotonic()
        while len(self.ended) > ENDED:
            self._oldest_leaves(self.ended)
        while len(self.waiting) + len(self.asking) > self._bound:
            self._oldest_leaves(self.waiting or self.asking)
        if self._leaving is None:
            self._leaving = self._wheel.alarm(self._linger, self._look)

    def _look(self) -> None:
        """Let go of what has rested for long enough, and come back for the next."""
        now, upcoming = self._wheel.clock.monotonic(), list[float]()
        for resting in (self.waiting, self.ended):
            while resting and next(iter(resting.values())) + self._linger <= now:
                self._oldest_leaves(resting)
            upcoming += [since + self._linger - now for since in list(resting.values())[:1]]
        self._leaving = self._wheel.alarm(min(upcoming), self._look) if upcoming else None

    def _oldest_leaves(self, resting: dict[CaseId, float]) -> None:
        oldest = next(iter(resting))
        del resting[oldest]
        self._let_go(oldest)
