"""A question answered by three workers that never call each other, given in the "wrong" order.

First they answer. Then a reader doubts the answer, the critic withdraws it and asks for more research, and the loop
that follows is bounded. Last the writer fails for good, and the stall and the log show where.
"""

import asyncio
from collections.abc import Mapping

from casehub import (
    ABSENT,
    CaseDefinition,
    CaseHub,
    CaseStalledError,
    ContextChanged,
    LimitReached,
    Permanent,
    WorkerEvent,
    WorkerExecutionFailed,
)

QUESTION = "Why do agents need shared memory?"

# ---- the answer

research = CaseDefinition("research", goal="final")


@research.worker(writes="final")
async def critic(draft: str) -> str:
    return f"Polished: {draft}"


@research.worker(writes="draft")
async def writer(facts: str) -> str:
    return f"Draft using [{facts}]"


@research.worker(writes="facts")
async def researcher(question: str) -> str:
    return f"facts gathered about: {question}"


async def answer() -> None:
    hub = CaseHub(research)

    @hub.on(ContextChanged)
    async def tell(event: ContextChanged) -> None:
        for name in event.facts:
            print(f"{event.author} wrote {name!r}")

    async with hub:
        case = await hub.start(research, question=QUESTION)
        print((await case.completed())["final"])


# ---- the loop: no goal, so the case stays open for a reader's doubts

doubted = CaseDefinition("doubted", signals={"doubt": str})
doubted.worker(writes="draft")(writer)


@doubted.worker(name="critic", writes=["final", "needs_more_research"])
async def strict_critic(draft: str, doubt: str = "", needs_more_research: int = 0) -> Mapping[str, object]:
    if doubt in draft:
        return {"final": f"Polished: {draft}"}
    return {"final": ABSENT, "needs_more_research": needs_more_research + 1}


@doubted.worker(name="researcher", writes="facts", limit=6)
async def tireless_researcher(question: str, needs_more_research: int = 0) -> str:
    return f"facts from {needs_more_research + 1} sources about: {question}"


async def argue() -> None:
    hub = CaseHub(doubted)

    @hub.on(ContextChanged)
    async def tell(event: ContextChanged) -> None:
        if event.author in ("user", "critic"):
            wrote = [f"{name} = {value!r}" for name, value in event.facts.items()]
            print(f"  {event.author}:", ", ".join([*wrote, *(f"{name} deleted" for name in event.deleted)]))

    async with hub:
        case = await hub.start(doubted, question=QUESTION)
        await case.quiescent()
        await case.signal(doubt="3 sources", wait="quiescent")  # two more rounds settle it
        await case.signal(doubt="a proof", wait="quiescent")  # no round ever will
        for limit in await case.log.query(LimitReached):
            print(f"  {limit.subject} stops at {limit.limit} = {limit.value}")
        print(f"  {(await case.explain('researcher'))[0]}")
        await case.cancel(reason="no proof to be had")


# ---- the failure

failing = CaseDefinition("failing", goal="final")
failing.worker(writes="final")(critic)
failing.worker(writes="facts")(researcher)


@failing.worker(name="writer", writes="draft")
async def lost_writer(facts: str) -> str:
    raise Permanent("the notes cannot be read")


async def stall() -> None:
    async with CaseHub(failing) as hub:
        case = await hub.start(failing, question=QUESTION, case_id="lost-notes")
        try:
            await case.completed()
        except CaseStalledError as error:
            print(error)
        for event in await case.log.query(WorkerEvent):
            failure = f": {event.message}" if isinstance(event, WorkerExecutionFailed) else ""
            print(f"  {event.version:2} {event.name} {event.worker}{failure}")
        await case.cancel(reason="the writer is to be mended first")


async def main() -> None:
    await answer()
    print("\nThe critic wants more research:")
    await argue()
    print("\nThe writer fails:")
    await stall()


if __name__ == "__main__":
    asyncio.run(main())
