"""The claim of the first example, in two stages, under a strategy that asks the event log before it answers.

The workers are those of `claim.py`, unchanged: `stage(...)` names them, and `loop=` turns choreography into orchestration.
"""

import asyncio
from collections.abc import Sequence

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl, StageEvent
from casehub import Binding, CaseDefinition, CaseHub, CaseView, WorkerExecutionFailed

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


claim.stage("intake", extract)
claim.stage("review", assess, decide)


class MostReliableFirst:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        failures = await case.log.count(WorkerExecutionFailed, by="binding", across="definition", since="7d")
        best = sorted(eligible, key=lambda binding: failures.get(binding.name, 0))[:1]
        plan.focus("reliability", because=f"{failures} in 7 days")
        return best


async def main() -> None:
    hub = CaseHub(claim, loop=PlanningStrategyLoopControl(MostReliableFirst()))

    @hub.on(StageEvent)
    async def tell(event: StageEvent) -> None:
        print(event.name, event.stage)

    async with hub:
        case = await hub.start(claim, document="Ada met Grace in Paris")
        print((await case.completed())["decision"])


if __name__ == "__main__":
    asyncio.run(main())
