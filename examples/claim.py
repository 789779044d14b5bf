"""An insurance claim: three workers that never call each other, and a goal."""

import asyncio

from casehub import CaseDefinition, CaseHub

claim = CaseDefinition("claim", goal="decision")


@claim.worker(writes="entities")
async def extract(document: str) -> list[str]:
    return [word for word in document.split() if word.istitle()]


@claim.worker(writes="risk")
async def assess(entities: list[str]) -> float:
    return len(entities) / 10


@claim.worker(writes="decision")
async def decide(risk: float) -> str:
    return "approve" if risk < 0.5 else "refer"


async def main() -> None:
    async with CaseHub(claim) as hub:
        case = await hub.start(claim, document="Ada met Grace in Paris")
        print((await case.completed())["decision"])  # approve


if __name__ == "__main__":
    asyncio.run(main())
