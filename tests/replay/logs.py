"""A small definition and made-up logs that the tests of replaying share."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from casehub.activities import LoggedEvent, LoggedTrace
from casehub.adapters.codec import as_dict
from casehub.definition import CaseDefinition
from casehub.events import Event
from casehub.policies import Retry
from casehub.query import EventQuery
from casehub.replay import ReplaySummary, replay
from casehub.sentry import present
from tests.staging import Kept

MONDAY = datetime(2017, 5, 1, 9, tzinfo=UTC)


@dataclass(frozen=True)
class Happened:
    """One event of a log."""

    activity: str
    at: datetime
    resource: str | None = None
    role: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """One trace of a log."""

    case: str
    events: Sequence[LoggedEvent]
    attributes: Mapping[str, Any] = field(default_factory=dict)


def after(minutes: float) -> datetime:
    """So many minutes after the log's first Monday morning."""
    return MONDAY + timedelta(minutes=minutes)


def told(case: str, *steps: tuple[str, float], **attributes: Any) -> Told:
    """A trace of activities, each with its minute."""
    return Told(case, [Happened(name, after(minutes), "Ada", "CLERK", attributes) for name, minutes in steps])


@dataclass
class Order:
    at: datetime
    amount: float = 0.0


class Shop:
    """A definition of orders. `ran`: what its workers did, which is nothing where a log tells their results."""

    def __init__(self, failures: int = 0) -> None:
        self.ran: list[str] = []
        self.failures = failures
        shop = self.definition = CaseDefinition("shop", goal="parcel", signals={"order": Order, "paid": Any})
        shop.milestone("sent", present("parcel"), entry=present("order"), sla="2h")

        @shop.worker(writes="box", when=present("paid"))
        async def pack(order: Order) -> dict[str, Any]:
            self.ran.append("pack")
            return {}

        @shop.worker(writes="parcel")
        async def send(box: dict[str, Any]) -> dict[str, Any]:
            self.ran.append("send")
            return {}

        @shop.worker(
            writes="alarm",
            when=lambda order: order.amount > 100,
            retry=Retry(5, wait="10m", maximum="1h", jitter=False),
        )
        async def warn(order: Order) -> str:
            self.ran.append("warn")
            if len([each for each in self.ran if each == "warn"]) <= self.failures:
                raise ConnectionError("nobody answers")
            return f"{order.amount} is a lot"

        shop.activity("Ordered", signal="order")
        shop.activity("Paid", signal="paid")
        shop.activity("Packed", worker=pack)
        shop.activity("Sent", worker=send)
        shop.flag("alarm")

    async def replay(self, traces: Iterable[LoggedTrace], store: Kept | None = None, **options: Any) -> ReplaySummary:
        return await replay(self.definition, traces, store=store or Kept(), **options)


WHOLE = (("Ordered", 0), ("Paid", 5), ("Packed", 10), ("Sent", 20))


async def events_of(store: Kept, case: str) -> list[Event]:
    return list(await store.load(case))  # type: ignore[arg-type]  # an id is text


async def log_of(store: Kept, case: str) -> list[dict[str, Any]]:
    """A case's log as JSON, without the positions that other cases have a part in."""
    found = [as_dict(event) for event in await events_of(store, case)]
    return [{key: value for key, value in event.items() if key != "seq"} for event in found]


async def cases_of(store: Kept) -> set[str]:
    return {event.case for event in await store.log.query(EventQuery(types=("CASE_STARTED",)))}


def made_up(seed: int, cases: int = 25) -> list[Told]:
    """A log with everything in it: other orders, repetitions, ties, times that go back, amounts that alarm."""
    chance = random.Random(seed)
    log = []
    for number in range(cases):
        minute = chance.randrange(0, 300)
        events: list[Happened] = []
        names = [name for name, _ in WHOLE]
        for _ in range(chance.randrange(0, 3)):
            names.insert(chance.randrange(len(names) + 1), chance.choice(("Ordered", "Paid", "Packed", "Sent", "Lost")))
        for name in names:
            amount = chance.choice((5.0, 20.0, 500.0))
            events.append(Happened(name, after(minute), chance.choice((None, "Ada")), None, {"amount": amount}))
            minute += chance.choice((-3, 0, 0, 1, 7, 15, 60, 200))
        log.append(Told(f"order-{number}", events))
    return log
