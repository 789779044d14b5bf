"""Cases of different shapes for a loop control to work, the logs they leave, and an event of every class."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Any, Final, get_args, get_origin, get_type_hints

from casehub.binding import Binding
from casehub.case import Case
from casehub.definition import CaseDefinition
from casehub.engine.choreography import ChoreographyLoopControl
from casehub.errors import Declined
from casehub.events import EVENT_TYPES, CaseId, Envelope, Event, UnknownEvent
from casehub.policies import OnOutcome, Retry
from casehub.sentry import present
from casehub.spi import Answer, LoopControl
from casehub.testing.kit import CaseTestKit
from casehub.view import CaseView

ROUNDS: Final = 200
"""How often a case is given more time before it counts as endless."""
PATIENT: Final = 10.0
"""Seconds, of the machine's clock, that one select may take in these tests."""

Log = Sequence[Event]


@dataclass(frozen=True, slots=True)
class Occasion:
    """A case to be worked. `scripts`: results of workers; `then`: what comes from outside, a minute after the start."""

    definition: CaseDefinition
    facts: Mapping[str, Any]
    scripts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    then: Callable[[Case], Awaitable[object]] | None = None


async def _endless(**facts: Any) -> None:
    await asyncio.Event().wait()


def occasions() -> Iterator[Occasion]:
    """Cases of different shapes, each made anew."""
    row = CaseDefinition("row", goal="third")

    @row.worker(writes="first")
    async def one(start: int) -> int:
        return start + 1

    @row.worker(writes="second", retry=Retry(3, jitter=False))
    async def two(first: int) -> int:
        return first + 1

    @row.worker(writes="third")
    async def three(second: int) -> int:
        return second + 1

    yield Occasion(row, {"start": 1}, {"two": [TimeoutError("once"), 3]})

    fan = CaseDefinition("fan", goal="joined")

    @fan.worker(writes="left", priority=1)
    async def go_left(start: int) -> int:
        return start

    @fan.worker(writes="middle", priority=3, cost=5.0)
    async def go_straight(start: int) -> int:
        return start * 2

    @fan.worker(writes="right", priority=2, on_exhausted=OnOutcome.IGNORE, retry=Retry(1))
    async def go_right(start: int) -> int:
        raise ValueError("no way")

    @fan.worker(writes="back")
    async def go_back(start: int) -> int:
        raise Declined("not back")

    @fan.worker(writes="joined")
    async def join(left: int, middle: int) -> int:
        return left + middle

    yield Occasion(fan, {"start": 2})
    yield Occasion(fan, {"start": 3}, {"go_straight": [_endless]}, lambda case: case.cancel(reason="changed our mind"))

    stuck = CaseDefinition("stuck", goal="found")

    @stuck.worker(writes="found", retry=Retry(1))
    async def search(start: int) -> int:
        raise LookupError("nothing there")

    yield Occasion(stuck, {"start": 4})

    ring = CaseDefinition("ring", goal="final", signals={"comment": str})
    ring.milestone("drafted", present("draft"), sla="1m")

    @ring.worker(writes="draft")
    async def write(topic: str, comment: str = "", review: int = 0) -> str:
        return f"{topic} {comment} {review}"

    @ring.worker(writes="review", limit=3)
    async def look(draft: str) -> int:
        return len(draft)

    @ring.worker(writes="final", when=lambda comment: comment == "good")
    async def finish(draft: str, comment: str) -> str:
        return draft

    async def comment(case: Case) -> None:
        await case.signal(comment="shorter")
        await case.suspend(reason="lunch")
        await case.resume()
        await case.signal(comment="good")

    yield Occasion(ring, {"topic": "tea"}, then=comment)


async def worked(loop: LoopControl) -> list[Log]:
    """The logs of all these cases, worked by this loop control until they end, stall, or wait for somebody."""
    logs: list[Log] = []
    for occasion in occasions():
        async with CaseTestKit(occasion.definition, loop=loop) as kit:
            for worker, results in occasion.scripts.items():
                kit.script(worker, *results)
            case = await kit.start(occasion.definition, **occasion.facts)
            await _rest(kit, case)
            await kit.advance("1m")
            if occasion.then is not None and not (await case.status()).ended:
                await occasion.then(case)
                await _rest(kit, case)
            logs.append(kit.events(case))
    return logs


async def _rest(kit: CaseTestKit, case: Case) -> None:
    """Give a case what time it needs to come to rest: the machine's for a select, the kit's for timers."""
    for _ in range(ROUNDS):
        await kit.settle()
        pump = await kit.hub.pump(case.id)
        async with asyncio.timeout(PATIENT):
            await pump.until(lambda live: not live.state.deliberating or None)
        state = await case.state()
        if state.status.ended or state.stalled or not state.timers:
            return
        await kit.advance("1m")
    raise AssertionError(f"case {case.id!r} has not come to rest after {ROUNDS} minutes: {kit.events(case)[-5:]}")


@lru_cache(maxsize=1)
def recorded() -> list[Log]:
    """Logs as other loop controls leave them: at once, and after awaiting."""

    class Awaiting(ChoreographyLoopControl):
        immediate = False

        async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            for _ in range(5):
                await asyncio.sleep(0)
            return eligible

    async def both() -> list[Log]:
        return [*await worked(ChoreographyLoopControl()), *await worked(Awaiting())]

    return asyncio.run(both())


@lru_cache(maxsize=1)
def invented() -> Log:
    """An event of every class that is loaded, with made-up values, and one of a class that nobody knows."""
    envelope = Envelope(case=CaseId("invented"), definition="invented", turn=1, at=datetime(2030, 1, 1, tzinfo=UTC))
    found: list[Event] = [UnknownEvent(type="FROM_TOMORROW", body={"a": [1]}, envelope=envelope, version=1)]
    for kind in EVENT_TYPES.values():
        wanted = {f.name for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING}
        try:
            hints = get_type_hints(kind)
            body = {name: _made_up(hints[name]) for name in wanted}
            found.append(kind(**body, envelope=envelope, version=len(found) + 1))
        except Exception:  # noqa: S112 - a class of somebody else's, with fields that cannot be made up
            continue
    return found


def _made_up(hint: Any) -> Any:
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if kind is datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)
    simple: dict[Any, Any] = {int: 1, float: 1.0, bool: True, tuple: (), list: [], dict: {}, Mapping: {}}
    if kind in simple:
        return simple[kind]
    return None if type(None) in get_args(hint) else "made-up"
