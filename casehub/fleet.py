"""A hub among the hubs of its store: it takes over what nobody has, hears what others commit, and knows when it is out.

Where one process owns the store there is none of this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from casehub.brakes import look_again
from casehub.distant import Answers, DistantPump, outcome_of_error
from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime
from casehub.engine.standing import AGAIN, Standing
from casehub.errors import CaseElsewhereError, CaseHubError, HubClosedError, StoreUnavailableError
from casehub.events import CaseId
from casehub.inputs import Resume, Unfault
from casehub.patience import patiently
from casehub.registry import Registry
from casehub.residents import Residents
from casehub.sharing import News, Posted, SharedStore, outcome_of

log = structlog.get_logger("casehub.hub")

LOOKS: Final = 3
"""How often, in the time of a lease, a hub looks for cases that nobody has."""


class Fleet:
    """Keeps a hub among the others. `resumes`: it takes over cases that nobody has, unasked."""

    def __init__(
        self, runtime: Runtime, residents: Residents, standing: Standing, registry: Registry, *, resumes: bool
    ) -> None:
        self._runtime = runtime
        self._registry = registry
        self._residents = residents
        self._standing = standing
        self._store: SharedStore = standing.store
        self._resumes = resumes
        self._changed = asyncio.Event()
        self._lapsed = False
        self._answers = Answers(standing)
        self._braking = asyncio.Lock()
        self._taking: set[str] = set()
        self._store.listen(self._hear)

    async def reach(self, case: CaseId, *, anew: bool = False) -> Pump:
        """The pump of a case, here or elsewhere; `anew`: to let one go on that has ended. Raises `CaseNotFoundError`."""
        end = time.monotonic() + self._store.lease
        while True:
            while self._store.fenced:
                await self._standing.regained()
            try:
                return await (self._residents.anew(case) if anew else self._residents.pump(case))
            except CaseElsewhereError as error:
                if error.owner:
                    fold = partial(self._fold, case)
                    return DistantPump(await fold(), self._runtime, self._answers, fold, error.owner)
                if self._runtime.draining or time.monotonic() > end:
                    raise
            await asyncio.sleep(AGAIN)  # it has been put out, and will hear of it in a moment

    async def _fold(self, case: CaseId) -> LiveCase:
        return self._residents.folded(case, await self._runtime.store.load(case, self._residents.tenant))

    async def run(self) -> None:
        """Look after it until cancelled, `LOOKS` times in a lease and whenever hubs come or go."""
        while True:
            self._changed.clear()
            if self._store.fenced:
                await self._join_again()
            self._look_at_the_lease()
            if self._resumes and not self._runtime.draining:
                await self._patiently(self._take_over)
            await self._patiently(self._look_for_brakes)
            await self._patiently(self._look_into_the_inbox)
            try:
                await asyncio.wait_for(self._changed.wait(), self._store.lease / LOOKS)
            except TimeoutError:
                continue

    def _hear(self, news: News) -> None:
        if news.position:
            for case in list(self._residents.resting.ended):  # it may go on there: who asks for it is told from the log
                self._residents.let_leave(case)
            self._runtime.bus.catch_up(news.position)
        if news.inbox or (news.position and self._answers.waiting):
            self._changed.set()
        if news.hubs:
            self._changed.set()
            self._runtime.wheel.note(self._runtime.clock.now())  # timers of cases that nobody has any more

    def _look_at_the_lease(self) -> None:
        """Say so when nothing may be begun any more, and let what waits for that begin."""
        if self._store.held:
            if self._lapsed:
                log.warning("hub.lease_regained", hub=self._store.hub)
            self._lapsed = False
            self._standing.wake()
        elif not self._lapsed:
            self._lapsed = True
            log.error(
                "hub.lease_lapsed",
                hub=self._store.hub,
                lease=self._store.lease,
                reason="it could not be renewed: nothing is begun until it is; see that the database can be reached",
            )

    async def _join_again(self) -> None:
        """Other hubs have put this one out: what it has in memory is theirs, and it begins anew."""
        log.error("hub.put_out_by_others", hub=self._store.hub, lease=self._store.lease, cases=self._residents.resident)
        for pump in list(self._residents.pumps.values()):
            pump.lose()
        self._standing.wake()
        await self._patiently(self._store.rejoin)
        log.warning("hub.joined_again", hub=self._store.hub)
        self._runtime.bus.catch_up(await self._patiently(self._runtime.store.log.position))

    async def _take_over(self) -> None:
        found = await self._store.orphans(self._residents.tenant)
        await self._residents.take_up(found)

    async def _look_for_brakes(self) -> None:
        runtime = self._runtime
        async with self._braking:  # what was read first is acted on first
            await look_again(runtime.brake, runtime.ward, runtime.store, self._residents.tenant, self._registry)

    async def _look_into_the_inbox(self) -> None:
        """Take what others have put there for cases that are here, or nobody's; hear what they have answered."""
        await self._answers.look()
        for posted in await self._store.posted(self._residents.tenant):
            unasked = self._resumes or posted.post in self._answers.waiting or posted.case in self._residents.pumps
            if unasked and posted.post not in self._taking:
                self._taking.add(posted.post)
                self._runtime.spawn(self._take, posted)

    async def _take(self, _: object, posted: Posted) -> None:
        """Answer an input: its turn does so, or what refuses it."""
        try:
            if isinstance(posted.input, Resume | Unfault):
                await self._look_for_brakes()  # one that holds the case may have been released just now
            anew = isinstance(posted.input, Unfault)
            pump = await (self._residents.anew(posted.case) if anew else self._residents.pump(posted.case))
            outcome = outcome_of(await pump.submit(posted.input))
        except (CaseElsewhereError, StoreUnavailableError, HubClosedError):
            return  # whoever has the case does it, or this hub when it looks again
        except CaseHubError as error:
            outcome = outcome_of_error(error)
        finally:
            self._taking.discard(posted.post)
        with suppress(StoreUnavailableError):
            await self._store.answer(posted.post, outcome)

    async def _patiently(self, ask: Callable[[], Awaitable[int | None]]) -> int:
        return await patiently(ask, self._runtime.clock) or 0
