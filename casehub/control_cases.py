"""A case of another process, over the control socket: the verbs of `casehub.Case`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from casehub.case import Wait
from casehub.case_stage import CaseStage
from casehub.durations import Duration, in_words
from casehub.events import CaseId
from casehub.explanation import Explanation, Verdict
from casehub.inputs import SteerStage
from casehub.lifecycle import CaseStatus


class RemoteCase:
    """A case of another process's hub: the verbs of `Case`, whose documentation holds here too."""

    __slots__ = ("_of_hub", "id")

    def __init__(self, id: CaseId, ask: Callable[..., Awaitable[Any]]) -> None:
        self.id = id
        self._of_hub = ask

    def __repr__(self) -> str:
        return f"RemoteCase({self.id!r})"

    async def status(self) -> CaseStatus:
        return CaseStatus(await self._ask("status"))

    async def context(self) -> Mapping[str, Any]:
        """The visible facts, as plain values."""
        found: Mapping[str, Any] = await self._ask("context")
        return found

    async def explain(self, binding: str | None = None) -> list[Explanation]:
        told = await self._ask("explain", binding=binding)
        return [Explanation(each["binding"], Verdict(each["verdict"]), each["text"], each["facts"]) for each in told]

    async def plan(self) -> Mapping[str, Any] | None:
        """The plan as plain values."""
        found: Mapping[str, Any] | None = await self._ask("plan")
        return found

    async def completed(self, timeout: Duration | None = None, *, wait_through_stall: bool = False) -> None:
        await self._ask("completed", timeout=_text(timeout), wait_through_stall=wait_through_stall)

    async def quiescent(self, timeout: Duration | None = None) -> None:
        await self._ask("quiescent", timeout=_text(timeout))

    async def step(self) -> Mapping[str, Any] | None:
        """Let the next decision of a case that is stepped through; None when it has ended or rests."""
        found: Mapping[str, Any] | None = await self._ask("step")
        return found

    async def signal(
        self,
        what: Mapping[str, Any] | str | None = None,
        /,
        *,
        by: str = "user",
        reason: str = "",
        key: str = "",
        expected: int | None = None,
        wait: Wait = "turn",
        timeout: Duration | None = None,
        **facts: Any,
    ) -> None:
        name = what if isinstance(what, str) else None
        brought = facts if what is None or isinstance(what, str) else {**what, **facts}
        await self._ask(
            "signal",
            name=name,
            facts=brought,
            by=by,
            reason=reason,
            key=key,
            expected=expected,
            wait=wait,
            timeout=_text(timeout),
        )

    async def suspend(self, *, by: str = "user", reason: str = "") -> None:
        await self._ask("suspend", by=by, reason=reason)

    async def resume(self, *, by: str = "user", reason: str = "") -> None:
        await self._ask("resume", by=by, reason=reason)

    async def unfault(
        self, facts: Mapping[str, Any] | None = None, *, by: str = "user", reason: str = "", retry: bool = True
    ) -> None:
        await self._ask("unfault", facts=facts or {}, by=by, reason=reason, retry=retry)

    async def reroute(self, binding: str, *, to: str, by: str = "user", reason: str = "") -> None:
        await self._ask("reroute", binding=binding, to=to, by=by, reason=reason)

    async def cancel(self, *, by: str = "user", reason: str = "", grace: Duration = "5s") -> None:
        await self._ask("cancel", by=by, reason=reason, grace=_text(grace))

    async def kill(self, *, by: str = "user", reason: str = "") -> None:
        await self._ask("kill", by=by, reason=reason)

    async def compensate(self, what: str, *, by: str = "user", reason: str = "") -> None:
        await self._ask("compensate", what=what, by=by, reason=reason)

    def stage(self, name: str) -> CaseStage:
        return CaseStage(name, self._steer)

    async def _steer(self, input: SteerStage) -> None:
        await self._ask(
            "stage", stage=input.stage, act=input.verb.value, by=input.by, reason=input.reason, key=input.key
        )

    async def _ask(self, verb: str, **arguments: Any) -> Any:
        return await self._of_hub(verb, case=self.id, **arguments)


def _text(span: Duration | None) -> str | None:
    return in_words(span) if isinstance(span, timedelta) else span
