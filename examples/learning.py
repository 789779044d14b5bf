"""Two services can translate, and one fails in three of five calls. A bandit learns from the log which one to ask.

Choreography asks both in every case. Nothing is trained, and nothing is kept in memory: the strategy counts in the event
log how the runs of past cases ended, so a restart loses none of it.
"""

import asyncio
import random

from blackboard_ext import PlanningStrategy, PlanningStrategyLoopControl
from blackboard_ext.strategies import UCB1, BestObservedOutcome, EverythingEligible, ThompsonSampling
from casehub import CaseDefinition, CaseHub, Permanent, WorkerScheduled, absent

CASES = 200

translation = CaseDefinition("translation", goal="translated")


@translation.worker(writes="translated", when=absent("translated"))
async def flaky(number: int) -> str:
    if random.Random(f"outage {number}").random() < 0.6:
        raise Permanent("out of order")
    return f"text {number}, by flaky"


@translation.worker(writes="translated", when=absent("translated"))
async def steady(number: int) -> str:
    return f"text {number}, by steady"


async def asked_flaky(strategy: PlanningStrategy) -> list[bool]:
    """Of each case in a row whether the flaky service was asked."""
    asked: list[bool] = []
    async with CaseHub(translation, loop=PlanningStrategyLoopControl(strategy)) as hub:
        for number in range(CASES):
            case = await hub.start(translation, number=number, case_id=f"{number}")  # draws depend on it
            await case.completed()
            ran = await case.log.query(WorkerScheduled, binding="flaky")
            asked.append(bool(ran))
    return asked


async def main() -> None:
    for strategy in (EverythingEligible(), ThompsonSampling(seed=1), UCB1(), BestObservedOutcome()):
        asked = await asked_flaky(strategy)
        first, last = sum(asked[: CASES // 2]), sum(asked[CASES // 2 :])
        print(f"{type(strategy).__name__}: flaky in {first} of the first 100 cases, {last} of the last")


if __name__ == "__main__":
    asyncio.run(main())
