"""A hub that dies: of a worker that ends its process, or that holds up its event loop for ever. Run as a program.

`python -m tests.resilience.mortal URL` works what is open in the store until everything that may end has; a supervisor
starts it again when it has ended otherwise. `POISON` says what the bad worker does: `exit`, `hang` or nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from casehub import CaseDefinition, CaseHub, CaseStatus, Retry

CRASHES = 3
CASES = 20


def definitions() -> tuple[CaseDefinition, CaseDefinition]:
    bad, good = CaseDefinition("bad", goal="done"), CaseDefinition("good", goal="done")

    @bad.worker(writes="done", retry=Retry(crashes=CRASHES))
    async def poison(a: int) -> int:
        match os.environ.get("POISON"):
            case "exit":
                os._exit(9)
            case "hang":
                while True:
                    time.sleep(0.01)  # noqa: ASYNC251 - it blocks the loop, and that is the point
            case _:
                return a

    @good.worker(writes="half")
    async def first(a: int) -> int:
        await asyncio.sleep(0.01)
        return a

    @good.worker(writes="done")
    def second(half: int) -> int:
        return half

    return bad, good


async def main(url: str) -> None:
    bad, good = definitions()
    async with CaseHub(bad, good, store=url) as hub:
        if not await hub.cases(definition=good):
            for n in range(CASES):
                await hub.start(good, a=n, case_id=f"good-{n}")
            await hub.start(bad, a=1, case_id="bad")
        while True:
            cases = await hub.cases()
            rest = {case.case for case in cases if case.status is not CaseStatus.COMPLETED and not case.stalled}
            if not rest:
                return
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
