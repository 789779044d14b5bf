"""The code of `loan.yaml`, which is all that could not be said there; and one application lived through.

casehub up examples/loan.yaml --allow-code examples.loan_workers --loop examples.loan_workers:control
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.strategies import EverythingEligible
from casehub import CaseHub, load_definition

SCORES = {"Ada": 720, "Grace": 560}


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
        case = await hub.start(loan, applicant={"name": "Grace", "income": 40_000}, amount=5_000)
        await case.signal(documents=["passport.pdf", "payslip-may.pdf"], wait="quiescent")

        (task,) = await hub.tasks.list(user="ada", groups=["underwriters"])
        print(task.title)
        await hub.tasks.claim(task.id, by="user:ada", groups=["underwriters"])
        await hub.tasks.complete(task.id, {"approved": True, "comment": "income is steady"}, by="user:ada")
        print((await case.completed())["letter"])


if __name__ == "__main__":
    asyncio.run(main())
