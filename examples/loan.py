"""A loan application that people decide: a score by a worker, an approval by an underwriter, a letter by a worker."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel, Field

from casehub import CaseDefinition, CaseHub, HumanTask, HumanTaskCreated


class Applicant(BaseModel):
    name: str
    amount: int


class Risk(BaseModel):
    score: float


class Approval(BaseModel):
    approved: bool
    conditions: list[str] = Field(default_factory=list, description="What the applicant has to bring first.")


loan = CaseDefinition("loan", goal="letter")


@loan.worker
async def assess(applicant: Applicant) -> Risk:
    return Risk(score=applicant.amount / 100_000)


@loan.human_task(writes="approval")  # parameters: what the person sees; return type: the form
def approve(applicant: Applicant, risk: Risk) -> HumanTask[Approval]:
    return HumanTask(f"Approve {applicant.name}?", Approval, groups=["underwriters"], due="2d", expires="5d")


@loan.worker(writes="letter")
async def write_letter(applicant: Applicant, approval: Approval) -> str:
    answer = "yes" if approval.approved else "no"
    return f"Dear {applicant.name}: {answer}" + "".join(f", if you bring {each}" for each in approval.conditions)


async def main() -> None:
    hub = CaseHub(loan)

    @hub.on(HumanTaskCreated)
    async def tell(event: HumanTaskCreated) -> None:
        print(f"for {', '.join(event.groups)}: {event.title}")

    async with hub:
        case = await hub.start(loan, applicant=Applicant(name="Grace", amount=20_000))
        await case.quiescent()  # nothing runs any more: it waits for people

        (task,) = await hub.tasks.list(user="ada", groups=["underwriters"])
        await hub.tasks.claim(task.id, by="user:ada", groups=["underwriters"])
        await hub.tasks.complete(task.id, Approval(approved=True, conditions=["a payslip"]), by="user:ada")
        print((await case.completed())["letter"])


if __name__ == "__main__":
    asyncio.run(main())
