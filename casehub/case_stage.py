"""One stage of one case from the outside: what somebody does to it, decided in a turn like every other input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from casehub.inputs import SteerStage
from casehub.stage import StageVerb


class CaseStage:
    """A handle on one stage. It holds names; whether there is such a stage shows when something is done to it.

    Each verb raises `InputRefusedError` for a stage that is none, `IllegalTransitionError` (one of it) where the life
    cycle forbids it, and `CaseEndedError` after the end of the case. A repeated `key` changes nothing.
    """

    __slots__ = ("_steer", "name")

    def __init__(self, name: str, steer: Callable[[SteerStage], Awaitable[object]]) -> None:
        self.name = name
        self._steer = steer

    def __repr__(self) -> str:
        return f"CaseStage({self.name!r})"

    async def activate(self, *, by: str = "user", reason: str = "", key: str = "") -> None:
        """Enter a stage that is declared `manual`, once its entry criterion holds and its parent is active."""
        await self.steer(StageVerb.ACTIVATE, by=by, reason=reason, key=key)

    async def complete(self, *, by: str = "user", reason: str = "", key: str = "") -> None:
        """Take an active stage for done, whatever it still waits for; what runs in it is called off."""
        await self.steer(StageVerb.COMPLETE, by=by, reason=reason, key=key)

    async def terminate(self, *, by: str = "user", reason: str = "", key: str = "") -> None:
        """End a stage as if its exit criterion held; what runs in it is called off."""
        await self.steer(StageVerb.TERMINATE, by=by, reason=reason, key=key)

    async def fault(self, *, by: str = "user", reason: str = "", key: str = "") -> None:
        """End a stage as failed; what runs in it is called off."""
        await self.steer(StageVerb.FAULT, by=by, reason=reason, key=key)

    async def suspend(self, *, by: str = "user", reason: str = "", key: str = "") -> None:
        """Hold an active stage: what runs goes on and its results are taken, nothing new fires in it."""
        await self.steer(StageVerb.SUSPEND, by=by, reason=reason, key=key)

    async def resume(self, *, by: str = "user", reason: str = "", key: str = "") -> None:
        """Let a suspended stage go on."""
        await self.steer(StageVerb.RESUME, by=by, reason=reason, key=key)

    async def steer(self, verb: StageVerb, *, by: str = "user", reason: str = "", key: str = "") -> None:
        """Do what a verb says, for callers who have it as a value."""
        await self._steer(SteerStage(stage=self.name, verb=verb, by=by, reason=reason, key=key))
