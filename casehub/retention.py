"""Retention: how long cases are kept after their end, and the keeper that retires them, a round at a time.

A family goes together, a case with all its sub-cases, when the last of them ended long enough ago; what a durable
subscriber of the hub has still to hear stays. With a folder, each family is a transcript in it first (see
`casehub.transcript`). Nothing is held up: each step is a small transaction of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

import anyio
import structlog

from casehub.durations import Duration, duration, in_words
from casehub.errors import CaseHubError, FileError, SettingsError, StoreUnavailableError
from casehub.events import CaseId
from casehub.query import CaseSummary
from casehub.spi import CaseStore, Clock, RetiresCases
from casehub.transcript import tell, write

log = structlog.get_logger("casehub.retention")

ROUND: Final = 10_000
"""Cases that one round retires at most; where more are due, the next round follows after `SOON`."""
FAMILIES: Final = 50
"""Families that are looked for at a time."""
BATCH: Final = 20
"""Cases that one transaction retires."""
ROWS: Final = 500
"""Rows of events that one transaction deletes."""
SIDE: Final = 1_000
"""Of so many events of a case, one more transaction may be needed for what is kept beside them."""
SOON: Final = timedelta(minutes=1)
"""From the start of a hub to its first round, and between rounds that leave something."""
KEPT: Final = 1_000
"""Families that cannot go, after which a round gives up."""
PLANNED: Final = 100_000
"""Families that a plan counts at most."""
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long cases are kept after their end. `archive`: the folder for what is retired; without it, it is deleted.

    `every`: how often the hub looks for what is due. Raises `SettingsError` for spans that are none.
    """

    after: Duration = "90d"
    archive: str | os.PathLike[str] | None = None
    every: Duration = "1h"

    def __post_init__(self) -> None:
        for name in ("after", "every"):
            if duration(getattr(self, name)) < timedelta(0) or (name == "every" and not duration(self.every)):
                raise SettingsError(f"retention {name}={getattr(self, name)!r}: a span of time is more than nothing")

    def __str__(self) -> str:
        done = f"archived in {os.fspath(self.archive)}" if self.archive is not None else "deleted"
        after = self.after if isinstance(self.after, str) else in_words(self.after)
        return f"cases are {done} {after} after their end"


KEEP: Final = Retention()
"""What holds where nobody says otherwise."""


def retention_of(after: str, archive: str = "") -> Retention | None:
    """What two settings come to; None for `off`."""
    return None if after == OFF else Retention(after, archive or None)


class Retiring(CaseStore, RetiresCases, Protocol):
    """A store that lets go of cases."""


def retiring(store: CaseStore) -> Retiring:
    """The store, as one that lets go of cases. Raises `SettingsError` for one that does not."""
    if isinstance(store, RetiresCases):
        return store
    raise SettingsError(f"{type(store).__name__} retires no cases; give retention=None, or another store")


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCases:
    """What retention has to do with the cases of a definition. `size`: bytes in their events, as far as the store knows."""

    definition: str
    cases: int
    rows: int
    size: int


@dataclass(slots=True)
class Round:
    """What a round came to. `left`: it stopped at its bound; `kept`: families that could not go, and why."""

    cases: int = 0
    events: int = 0
    left: bool = False
    kept: dict[CaseId, str] = field(default_factory=dict[CaseId, str])


class Keeper:
    """Retires what is due. `leave`: has a case leave memory, and says whether it could; `heard`: the position up to which
    every durable subscriber has heard everything, None where there is none; `forget`: takes away what is kept of a case
    elsewhere, before it goes."""

    def __init__(
        self,
        store: Retiring,
        clock: Clock,
        retention: Retention | None = None,
        tenant: str = "default",
        leave: Callable[[CaseId], bool] = lambda case: True,
        heard: Callable[[], Awaitable[int | None]] | None = None,
        forget: Callable[[CaseId], Awaitable[None]] | None = None,
    ) -> None:
        self.retention = retention
        self._store = store
        self._clock = clock
        self._tenant = tenant
        self._leave = leave
        self._heard = heard
        self._forget = forget
        self._at_work = anyio.Lock()

    async def serve(self, retention: Retention) -> None:
        """Rounds by the clock, for ever: where an earlier process left off, and where it was due."""
        store, clock = self._store, self._clock
        every = duration(retention.every)
        wait = min(SOON, every)
        while True:
            try:
                await self._sweep()  # what a process left that was killed
                ran_at = (await store.retired(self._tenant)).ran_at
                if ran_at is not None:
                    wait = min(max(wait, ran_at + every - clock.now()), every)
                await clock.sleep_until(clock.monotonic() + wait.total_seconds())
                done = await self.round(retention)
                if not done.left:
                    await store.retired(self._tenant, clock.now())
                wait = min(SOON, every)
            except CaseHubError as error:
                log.error("retention.failed", reason=str(error))
                await clock.sleep_until(clock.monotonic() + every.total_seconds())

    async def plan(self, retention: Retention | None = None) -> Sequence[DueCases]:
        """What is due now, by definition; nothing is changed."""
        held = self._held(retention)
        cases: dict[str, list[CaseSummary]] = {}
        for family in await self._store.expired(self._clock.now() - duration(held.after), self._tenant, PLANNED):
            for case in family:
                cases.setdefault(case.definition, []).append(case)
        found: list[DueCases] = []
        for name, those in sorted(cases.items()):
            weights = [await self._store.weigh(those[first : first + ROWS]) for first in range(0, len(those), ROWS)]
            rows, size = (sum(each) for each in zip(*weights, strict=True))
            found.append(DueCases(definition=name, cases=len(those), rows=rows, size=size))
        return found

    async def run(self, retention: Retention | None = None) -> Round:
        """Retire everything that is due, round by round. Raises `StoreUnavailableError`."""
        held, done = self._held(retention), Round(left=True)
        while done.left:
            last = await self.round(held)
            done.cases, done.events, done.left = done.cases + last.cases, done.events + last.events, last.left
            done.kept |= last.kept
        await self._store.retired(self._tenant, self._clock.now())
        return done

    def _held(self, retention: Retention | None) -> Retention:
        held = retention or self.retention
        if held is None:
            raise SettingsError("retention is off: cases are kept for ever; say how long, such as Retention('90d')")
        return held

    async def round(self, retention: Retention, most: int = ROUND) -> Round:
        """Retire what is due, up to so many cases. Raises `StoreUnavailableError`."""
        async with self._at_work:
            done = Round()
            before = self._clock.now() - duration(retention.after)
            heard = None if self._heard is None else await self._heard()
            while done.cases < most and len(done.kept) < KEPT:
                families = await self._store.expired(before, self._tenant, FAMILIES + len(done.kept))
                families = [family for family in families if family[-1].case not in done.kept]
                if not families:
                    break
                for family in families:
                    await self._retire(family, retention, heard, done)
                    if done.cases >= most:
                        break
            else:
                done.left = True
            if done.cases or done.kept:
                log.info("retention.ran", cases=done.cases, events=done.events, kept=len(done.kept), left=done.left)
            return done

    async def _retire(
        self, family: Sequence[CaseSummary], retention: Retention, heard: int | None, done: Round
    ) -> None:
        root = family[-1].case
        if heard is not None and any(case.seq > heard for case in family):
            done.kept[root] = "a durable subscriber has still to hear how it ended"
            return
        if not all(self._leave(case.case) for case in family):
            done.kept[root] = "something of it still comes to its end"
            return
        if retention.archive is not None and (reason := await self._archive(family, Path(retention.archive))):
            done.kept[root] = reason
            log.error("retention.not_archived", case=root, reason=reason)
            return
        if self._forget is not None:
            for case in family:
                await self._forget(case.case)
        for first in range(0, len(family), BATCH):
            left = list(family[first : first + BATCH])
            for _ in range(2 + sum(case.version for case in left) // SIDE):
                gone = set(await self._store.retire(left))
                done.cases += len(gone)
                done.events += sum(case.version for case in left if case.case in gone)
                left = [case for case in left if case.case not in gone]
                if not left:
                    break
            await self._sweep()
            if left:
                done.kept[root] = "it has moved meanwhile"
                return

    async def _archive(self, family: Sequence[CaseSummary], folder: Path) -> str:
        """Write a family to the folder; why it could not be, empty where it was."""
        try:
            found = await tell(self._store, family[-1].case, self._tenant)
            told = {case.id for case in found.cases}
            if stray := [case.case for case in family if case.case not in told]:
                return f"sub-case {stray[0]!r} is not told of by its case; delete without an archive, or export it yourself"
            await anyio.to_thread.run_sync(lambda: write(archived(folder, family[-1]), found, over=True))
        except StoreUnavailableError:
            raise
        except CaseHubError as error:
            return str(error)
        return ""

    async def _sweep(self) -> None:
        while await self._store.sweep(ROWS):
            await anyio.lowlevel.checkpoint()


def archived(folder: Path, case: CaseSummary) -> Path:
    """Where in an archive a case is: by the month it ended, then by a name that is its id's and no path, and unique.

    Makes the folders. Raises `FileError` where one of them is a link, or cannot be made.
    """
    month = folder / f"{case.changed_at:%Y-%m}"
    digest = hashlib.sha256(f"{case.tenant}\0{case.case}\0{case.first}".encode()).hexdigest()[:16]
    shown = re.sub(r"[^A-Za-z0-9_-]+", "-", case.case)[:60].strip("-")
    try:
        month.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise FileError(f"archive {month}: {error.strerror}; see that it can be written") from error
    if month.is_symlink():
        raise FileError(f"archive {month}: it is a link; give the folder itself")
    return month / f"{shown or 'case'}-{digest}.ndjson"
