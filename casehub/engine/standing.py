"""How a hub stands among the hubs of its store: whether it may begin anything, and what that has cost so far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import anyio
import structlog

from casehub.errors import CaseElsewhereError, CaseHubError, StoreUnavailableError
from casehub.events import CaseId
from casehub.sharing import Elsewhere, SharedStore
from casehub.spi import Claim

log = structlog.get_logger("casehub.engine")
T = TypeVar("T")

AGAIN: Final = 0.1
"""Seconds until a case is claimed again that belongs to a hub which has been killed, it seems."""


class Standing:
    """The lease of a hub as its pumps see it. `fenced`: turns that were refused, as they were another hub's to write.

    `spawn`: runs a job in a task of the hub's group.
    """

    def __init__(self, store: SharedStore, spawn: Callable[..., object]) -> None:
        self.store = store
        self._spawn = spawn
        self.fenced = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def held(self) -> bool:
        """Whether the lease runs: nothing is begun while it does not, as somebody else may be about to."""
        return self.store.held

    async def take_up(
        self, case: CaseId, tenant: str, load: Callable[[Claim], Awaitable[T]], *, ended: bool = False
    ) -> T:
        """What `load` makes of a case that is claimed for it; where that raises, the case is given back.

        Raises `CaseElsewhereError`, `StoreUnavailableError`.
        """
        claim = await self.store.claim(case, tenant, ended=ended)
        while isinstance(claim, Elsewhere) and claim.gone:
            await asyncio.sleep(AGAIN)  # not for longer than a lease
            claim = await self.store.claim(case, tenant, ended=ended)
        if isinstance(claim, Elsewhere):
            raise elsewhere(case, claim.owner, self.store.lease)
        try:
            return await load(claim)
        except CaseHubError:
            await self.release(None, case, claim, tenant)
            raise
        except asyncio.CancelledError:  # nobody here works it, and others may
            with suppress(RuntimeError):  # the hub has been left, and all its cases with it
                self._spawn(self.release, case, claim, tenant)
            raise

    async def release(self, _: anyio.CancelScope | None, case: CaseId, claim: Claim, tenant: str) -> None:
        """Give a case back; whoever has claimed it since keeps it. Where the store is away it stays this hub's."""
        try:
            await self.store.release(case, claim, tenant)
        except StoreUnavailableError as error:
            log.warning("case.not_released", case=case, reason=str(error))

    async def regained(self) -> None:
        """Wait for the next `wake`."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def wake(self) -> None:
        """The lease runs again, or is lost for good: whoever waits goes on, if it has not been called off."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


def elsewhere(case: CaseId, owner: str, lease: float) -> CaseElsewhereError:
    """Why a case cannot be worked here."""
    if owner:
        return CaseElsewhereError(
            f"case {case!r} is worked by another hub, {owner}; ask that one, or try again once it has left: a hub that "
            f"says nothing is put out after {lease:g} seconds",
            owner,
        )
    return CaseElsewhereError(
        f"case {case!r} is not this hub's: the lease of {lease:g} seconds had ended, or the hub is being left; try again, "
        "another hub goes on with it"
    )
