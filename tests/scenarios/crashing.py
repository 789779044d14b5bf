"""Stories that are played while the hub dies, again and again, and what their logs say beside that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from casehub import (
    CaseDefinition,
    CaseExistsError,
    Event,
    HubClosedError,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
)
from casehub.adapters.codec import as_dict
from casehub.testing import CaseTestKit

Step = Callable[[CaseTestKit], Awaitable[Any]]
PLACES = ("attempt", "stamps", "occurrence")
"""Fields that say where in its log something is."""
CALLS = "calls"
"""Charges that a restart adds to: what it runs again is called again."""


async def played(
    definition: CaseDefinition,
    steps: Sequence[Step],
    crashes: Sequence[int] = (),
    *,
    passes: Collection[Step] = (),
    refused: tuple[type[Exception], ...] = (),
) -> dict[str, list[Event]]:
    """The logs of a story's cases, by case.

    `crashes`: after how many events each hub dies, from its start on; `passes`: steps in which time passes, which it does
    not do again; `refused`: what a step may hear that was taken already.
    """
    left = list(crashes)
    async with CaseTestKit(definition) as kit:
        for number, step in enumerate(steps):
            if left and not number:
                kit.crash_after(Event, left.pop(0))
            await _taken(step, kit, refused)
            while kit.crashed:
                await kit.restart()
                if left:
                    kit.crash_after(Event, left.pop(0))
                await kit.settle()
                if not kit.crashed and step not in passes:
                    await _taken(step, kit, refused)
        return {case: kit.events(case) for case in dict.fromkeys(event.case for event in kit.events())}


async def _taken(step: Step, kit: CaseTestKit, refused: tuple[type[Exception], ...]) -> None:
    with suppress(HubClosedError, CaseExistsError, *refused):
        await step(kit)  # whoever asked asks again, and is not taken twice
    await kit.settle()


def told(logs: dict[str, list[Event]]) -> dict[str, list[Any]]:
    """What logs say, but for places in them and for what only a restart leaves. There is no retry in the stories."""
    return {case: [line for event in log for line in _told_of(event)] for case, log in logs.items()}


def _told_of(event: Event) -> list[Any]:
    again = isinstance(event, WorkerExecutionStarted) and event.attempt > 1
    if again or isinstance(event, WorkerExecutionInterrupted):
        return []
    body = {name: value for name, value in as_dict(event)["body"].items() if name not in PLACES}
    if body.get("charges"):
        body["charges"] = {unit: amount for unit, amount in body["charges"].items() if unit != CALLS}
    return [(event.name, event.by, event.at, body)]


def between(logs: dict[str, list[Event]], first: str) -> range:
    """The numbers of events after which a hub may die. Nothing comes after the turn that ends the `first` case."""
    last = logs[first][-1]
    ending = sum(event.turn == last.turn for event in logs[first])
    return range(1, sum(map(len, logs.values())) - ending + 1)
