"""Several hubs of one database in one process, and a way to freeze one of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar
from unittest.mock import patch

from casehub import CaseDefinition, CaseElsewhereError, CaseHub
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.postgres.hubs import Membership
from casehub.sharing import Posted

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds that something gets which takes a lease or so, on a machine that does much else."""


class Gate:
    """Holds workers until it is opened, and notes which of them came: case and idempotency key."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.came: list[str] = []

    async def wait(self, key: str) -> None:
        self.came.append(key)
        await self.open.wait()


def hub(url: str, *definitions: CaseDefinition, lease: float = 3, **how: object) -> CaseHub:
    """A hub of its own start, whatever else this process has."""
    return CaseHub(*definitions, store=PostgresStore(f"{url}&lease={lease:g}"), **how)  # type: ignore[arg-type]  # as given


async def until(test: Callable[[], Awaitable[T | None]], patience: float = PATIENCE) -> T:
    """What `test` gives in the end."""
    end = time.monotonic() + patience
    while True:
        found = await test()
        if found:
            return found
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.02)


async def status_of(hub: CaseHub, case: str) -> str:
    """The status of a case, whoever works it."""
    (found,) = [each for each in await hub.cases() if each.case == case]
    return found.status


async def moved(call: Callable[[], Awaitable[T]]) -> T:
    """What a call gives, once the case has come to this hub."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return await call()
        except CaseElsewhereError:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)


@contextmanager
def frozen(*hubs: CaseHub) -> Iterator[None]:
    """The leases of these hubs are not renewed and their inboxes not looked at, as those of a process that is stopped."""
    look, posted = Membership._look, PostgresStore.posted  # type: ignore[reportPrivateUsage]  # what stands still
    theirs = {each.store.hub for each in hubs if isinstance(each.store, PostgresStore)}

    def stand_still(self: Membership, thread: object) -> None:
        if self.boot not in theirs:
            look(self, thread)  # type: ignore[arg-type]  # as given

    async def see_nothing(self: PostgresStore, tenant: str = "default") -> Sequence[Posted]:
        return [] if self.hub in theirs else await posted(self, tenant)

    with patch.object(Membership, "_look", stand_still), patch.object(PostgresStore, "posted", see_nothing):
        yield
