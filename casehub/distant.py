"""A case that another hub works, as it is seen and reached from here: folded from its log, and through the inbox.

Whoever has a handle need not know: a case that is elsewhere takes inputs, is read and is waited for like one that is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from pydantic_core import to_jsonable_python

from casehub import errors
from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime, Ticket
from casehub.engine.standing import Standing
from casehub.envelope import Envelope
from casehub.errors import CaseHubError, HubClosedError, InputRefusedError
from casehub.events import Event
from casehub.inputs import Input
from casehub.lifecycle import CaseStatus
from casehub.spi import Turn

T = TypeVar("T")
Fold = Callable[[], Awaitable[LiveCase]]

PATIENCE: Final = 4
"""Leases for which an answer is waited for: one until a hub that hangs is put out, and some for who takes over."""
CARRIED: Final = ("answer", "fields", "owner")
"""What errors carry besides their message, as far as it is plain."""


class Answers:
    """What hubs say to those who wait here for the outcome of an input. `waiting`: by what the input is called."""

    def __init__(self, standing: Standing) -> None:
        self._store = standing.store
        self.waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}

    async def look(self) -> None:
        """Tell those who wait whatever has been answered. Raises `StoreUnavailableError`."""
        if not self.waiting:
            return
        for post, outcome in (await self._store.answers(list(self.waiting))).items():
            answer = self.waiting.get(post)
            if answer is not None and not answer.done():
                answer.set_result(outcome)

    async def of(self, post: str) -> Mapping[str, Any]:
        """What becomes of an input, for as long as it takes."""
        answer = self.waiting.setdefault(post, asyncio.get_running_loop().create_future())
        try:
            await self.look()
            return await asyncio.shield(answer)
        finally:
            if self.waiting.get(post) is answer:
                del self.waiting[post]


class DistantPump(Pump):
    """Stands for the pump of a case that another hub, `owner`, has. `fold`: the case as its log tells it now."""

    __slots__ = ("_answers", "_fold", "owner")

    def __init__(self, live: LiveCase, runtime: Runtime, answers: Answers, fold: Fold, owner: str) -> None:
        super().__init__(live, runtime, _nothing)
        self._answers = answers
        self._fold = fold
        self.owner = owner

    def post(self, input: Input) -> None:
        self.runtime.spawn(self._send, Ticket(input))

    async def _send(self, _: object, ticket: Ticket) -> None:
        try:
            await self.submit(ticket.input)
        except (CaseHubError, TimeoutError) as error:
            ticket.refuse(error)

    async def submit(self, input: Input, *, bounded: bool = True) -> Turn:
        """Put an input into the store's inbox and wait for what its turn comes to, at the hub that has the case by then.

        Raises what refused it there, and `TimeoutError` when nobody answers in time: it stays in the inbox, and is taken
        once.
        """
        state, standing = self.live.state, self.runtime.standing
        if standing is None:
            raise HubClosedError("a case can be elsewhere only where several hubs share a store")
        post = await standing.store.post(state.id, input, state.tenant)
        limit = timedelta(seconds=PATIENCE * standing.store.lease)
        outcome: Mapping[str, Any] | None = None
        with self.runtime.wheel.limit(limit):
            outcome = await self._answers.of(post)
        if outcome is None:
            raise TimeoutError(
                f"case {state.id!r}: the hub that works it, {self.owner}, has not answered within {limit.total_seconds():g} "
                "seconds; the input stays in the inbox and is taken once: ask for it with the same key, or look at the case"
            )
        if "error" in outcome:
            raise error_of(outcome)
        self.live = await self._fold()
        return self._turn_of(outcome, await self.runtime.store.load(state.id, state.tenant))

    def _turn_of(self, outcome: Mapping[str, Any], events: Sequence[Event]) -> Turn:
        """The turn that an outcome tells of."""
        first = outcome["version"]
        mine = [event for event in events if first <= event.version < first + outcome["events"]]
        envelope = mine[0].envelope if mine else Envelope(case=self.live.state.id, turn=outcome["turn"], version=first)
        return Turn(envelope, mine, CaseStatus(outcome["status"]), outcome["stalled"])

    async def read(self, look: Callable[[LiveCase], T]) -> T:
        self.live = await self._fold()
        return look(self.live)

    async def until(self, test: Callable[[LiveCase], T | None]) -> T:
        with self.runtime.bus.subscribe(Event, case=self.live.state.id) as news:
            while True:
                self.live = await self._fold()
                if (answer := test(self.live)) is not None:
                    return answer
                if not await news.batch():
                    raise HubClosedError("the hub was left while this was waited for")


def _nothing(pump: Pump) -> None:
    """It has nothing that could leave memory."""


def outcome_of_error(error: CaseHubError) -> Mapping[str, Any]:
    """An error as plain data: what it is called, what it says, what else it carries."""
    carried = {name: getattr(error, name) for name in CARRIED if hasattr(error, name)}
    return {"error": type(error).__name__, "message": str(error), "carried": to_jsonable_python(carried, fallback=str)}


def error_of(outcome: Mapping[str, Any]) -> CaseHubError:
    """The error that an outcome tells of."""
    kind = getattr(errors, outcome["error"], InputRefusedError)
    error: CaseHubError = kind.__new__(kind)
    Exception.__init__(error, outcome["message"])
    for name, value in outcome["carried"].items():
        setattr(error, name, value)
    return error
