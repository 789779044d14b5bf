"""Hearing what happens: a function called for each event of a class, and events as an async iterator."""

import asyncio

from casehub import (
    CaseDefinition,
    CaseHub,
    GoalReached,
    MilestoneReached,
    WorkerEvent,
    WorkerExecutionFinished,
    present,
)

order = CaseDefinition("order", goal="parcel")
order.milestone("packed", when=present("box"))


@order.worker(writes="box")
async def pack(item: str) -> str:
    return f"{item} in a box"


@order.worker(writes="parcel")
async def label(box: str, address: str) -> str:
    return f"{box}, to {address}"


hub = CaseHub(order)


@hub.on(MilestoneReached)  # live; with durable="pager" it keeps its position: at least once over restarts
async def celebrate(event: MilestoneReached) -> None:
    print(f"milestone {event.milestone!r}")


@hub.on(WorkerExecutionFinished)  # the base class: completed, failed, declined, expired, cancelled
async def count(event: WorkerExecutionFinished) -> None:
    print(f"{event.worker}: {event.name}")


async def main() -> None:
    async with hub:
        case = await hub.start(order, item="a lamp", address="12 Elm Road")
        await case.completed()
        with hub.watch(WorkerEvent, GoalReached, case=case.id, after=0) as events:  # from the first event on
            async for event in events:
                print(f"{event.version:2} {event.name} by {event.by}")
                if isinstance(event, GoalReached):
                    break


if __name__ == "__main__":
    asyncio.run(main())
