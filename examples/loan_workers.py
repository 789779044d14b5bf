"""The code of `loan.yaml`, which is all that could not be said there; and one application lived through.

casehub up examples/loan.yaml --allow-code examples.loan_workers --loop examples.loan_workers:control
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.strategies import EverythingEligible
from casehub import CaseHub, HumanTaskCreated, load_definition

SCORES = {"Ada": 720, "Grace": 560}
ANSWERS: dict[str, Any] = {
    "north surveyors": 7_000,
    "west surveyors": 6_500,  # nobody in the east answers, and nobody waits for them
    "underwriters": {"approved": True, "comment": "income is steady"},
}


async def read_documents(documents: list[str]) -> Mapping[str, Any]:
    payslips = sum(name.startswith("payslip") for name in documents)
    identity = next((name for name in documents if name.startswith("passport")), None)
    return {"payslips": payslips} if identity is None else {"payslips": payslips, "identity": identity}


async def credit_score(applicant: dict[str, Any], identity: str) -> int:
    return SCORES.get(applicant["name"], 500)


async def write_letter(applicant: dict[str, Any], amount: float, decision: str) -> str:
    return f"Dear {applicant['name']}, your loan of {amount:g} is {decision}."


def control() -> PlanningStrategyLoopControl:
    """The loop control that works the stages."""
    return PlanningStrategyLoopControl(EverythingEligible())


async def main() -> None:
    loan = load_definition(Path(__file__).with_name("loan.yaml"), allow_code=["examples.loan_workers"])
    async with CaseHub(loan, loop=control()) as hub:

        @hub.on(HumanTaskCreated)
        async def ask(event: HumanTaskCreated) -> None:
            print(f"for {event.groups[0]}: {event.title}")
            answer = ANSWERS.get(event.groups[0])
            if answer is not None:
                await hub.tasks.complete(event.task, answer, by="user:ada", groups=event.groups)

        grace = {"name": "Grace", "income": 40_000}
        case = await hub.start(loan, applicant=grace, amount=5_000, property="12 Elm Road")
        await case.signal(documents=["passport.pdf", "payslip-may.pdf"])
        facts = await case.completed()
        print(f"valued at {facts['valuations']}")
        print(facts["letter"])


if __name__ == "__main__":
    asyncio.run(main())
