"""A loop control of one's own: of two ways to a price, the one that failed least in the last seven days goes first.

`select` is awaited, so it may query the event log (or a model, or a service) before it answers; meanwhile the case goes
on taking in facts.
"""

import asyncio
from collections.abc import Sequence

from casehub import (
    Binding,
    CaseDefinition,
    CaseHub,
    CaseView,
    ChoreographyLoopControl,
    DeliberationFinished,
    Retry,
    Selection,
    WorkerExecutionFailed,
    absent,
)

quote = CaseDefinition("quote", goal="price")


@quote.worker(writes="price", when=absent("price"), retry=Retry(1))
async def live_feed(item: str) -> int:
    raise ConnectionError("the feed is down")


@quote.worker(writes="price", when=absent("price"))
async def price_list(item: str) -> int:
    return 10 * len(item)


class MostReliableFirst(ChoreographyLoopControl):
    """Fires one binding at a time."""

    immediate = False  # select suspends
    deadline = "5s"

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Selection:
        failures = await case.log.count(WorkerExecutionFailed, by="binding", across="definition", since="7d")
        best = min(eligible, key=lambda binding: failures.get(binding.name, 0))
        return Selection([best], rationale=f"{failures.get(best.name, 0)} failures in 7 days")


async def main() -> None:
    async with CaseHub(quote, loop=MostReliableFirst()) as hub:
        for item in ("lamp", "table", "chair"):
            case = await hub.start(quote, item=item)
            print(item, (await case.completed())["price"])
            for answer in await case.log.query(DeliberationFinished):
                print(f"  {', '.join(answer.chosen)}: {answer.rationale}")


if __name__ == "__main__":
    asyncio.run(main())
