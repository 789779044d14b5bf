"""Testing a definition with the kit: scripted workers, and time that passes when it is told to."""

import asyncio
from dataclasses import dataclass

from casehub import CaseDefinition, MilestoneSlaViolated, Retry, WorkerExecutionFailed, present
from casehub.testing import CaseTestKit


@dataclass
class Risk:
    score: float


loan = CaseDefinition("loan", goal="decision", signals={"approval": bool})
loan.milestone("approved", when=present("approval"), sla="2d")


@loan.worker(retry=Retry(3, wait="10m", jitter=False))
async def score(applicant: str) -> Risk:
    raise NotImplementedError("calls the credit bureau; tests script it")


@loan.worker(writes="decision")
async def decide(risk: Risk, approval: bool) -> str:
    return "pay" if approval and risk.score < 0.5 else "refuse"


async def a_timed_out_bureau_is_asked_again_and_a_late_approval_is_noticed() -> None:
    async with CaseTestKit(loan) as kit:  # a hub in memory on a virtual clock
        kit.script(score, TimeoutError("bureau"), Risk(0.2))
        case = await kit.start(loan, applicant="Ada")
        await kit.settle()
        assert [failure.message for failure in kit.events(case, WorkerExecutionFailed)] == ["bureau"]
        await kit.advance("10m")  # the second attempt comes due
        assert (await case.context())[Risk] == Risk(0.2)
        await kit.advance("2d")  # fires every timer on the way
        assert len(kit.events(case, MilestoneSlaViolated)) == 1
        await case.signal(approval=True)
        assert (await case.completed())["decision"] == "pay"


async def one_decision_after_the_other() -> None:
    async with CaseTestKit(loan) as kit:
        kit.script(score, Risk(0.9))
        case = await kit.start(loan, applicant="Ada", approval=True, step=True)
        first = await kit.step(case)
        print(f"eligible {first.eligible}, fired {first.fired}, written {dict(first.written)}")
        second = await kit.step(case)
        print(f"eligible {second.eligible}, fired {second.fired}, written {dict(second.written)}")


async def main() -> None:
    await a_timed_out_bureau_is_asked_again_and_a_late_approval_is_noticed()
    await one_decision_after_the_other()


if __name__ == "__main__":
    asyncio.run(main())
