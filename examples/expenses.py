"""Travel expenses: people decide, the system pays, and what should not have happened is flagged.

An employee submits a declaration. Administration checks it, some also go to a budget owner or a pre-approver, and the
supervisor has the last word. Whoever rejects it sends it back to the employee, who corrects and submits it again. Once
it is approved, the payment is requested and handled without anybody's help.

Run it to see one declaration through, or replay a log of many:

    python examples/expenses.py
    casehub replay-log examples/expenses.xes --case examples.expenses:declaration
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from casehub import CaseDefinition, CaseHub, WorkerExecution, present


def now() -> datetime:
    return datetime.now(UTC)


# What people bring in. Each carries its time, so that it can be told which submission a decision was about.


@dataclass
class Draft:
    at: datetime = field(default_factory=now)


@dataclass
class Submission:
    amount: Decimal
    declaration_number: str
    at: datetime = field(default_factory=now)


@dataclass
class Approval:
    role: str
    at: datetime = field(default_factory=now)


@dataclass
class Rejection:
    role: str
    at: datetime = field(default_factory=now)


@dataclass
class Withdrawal:
    at: datetime = field(default_factory=now)


# What the system makes.


@dataclass
class PaymentOrder:
    amount: Decimal
    declaration_number: str
    at: datetime = field(default_factory=now)


@dataclass
class Payment:
    amount: Decimal
    receipt: str = ""


class Bank:
    """Stands in for a bank: pays an order once, however often it is asked with the same key."""

    def __init__(self) -> None:
        self.receipts: dict[str, str] = {}

    async def pay(self, order: PaymentOrder, key: str) -> str:
        return self.receipts.setdefault(key, f"receipt {len(self.receipts) + 1} for {order.declaration_number}")


declaration = CaseDefinition(
    "declaration",
    goal="payment",
    signals={
        "draft": Draft,
        "submission": Submission,
        "administration_check": Approval,
        "budget_check": Approval,
        "pre_approval": Approval,
        "final_approval": Approval,
        "rejection": Rejection,
        "withdrawal": Withdrawal,
    },
)
declaration.milestone("paid", when=present("payment"), entry=present("submission"), sla="28d")


@declaration.resource
async def bank() -> AsyncIterator[Bank]:
    yield Bank()


def approved(submission: Submission, final_approval: Approval, rejection: Rejection | None = None) -> bool:
    """The supervisor has approved what was submitted last, and nobody has rejected it since."""
    return final_approval.at >= submission.at and (rejection is None or rejection.at <= final_approval.at)


def unapproved(
    payment_order: PaymentOrder, final_approval: Approval | None = None, rejection: Rejection | None = None
) -> bool:
    """It was ordered before there was a final approval, or after a rejection had undone that."""
    if final_approval is None or final_approval.at > payment_order.at:
        return True
    return rejection is not None and final_approval.at < rejection.at < payment_order.at


@declaration.worker(writes="correction")
async def send_back(rejection: Rejection, submission: Submission | None = None) -> str:
    """A rejection leads back to the employee: nothing else happens until there is a new submission."""
    what = submission.declaration_number if submission else "the declaration"
    return f"{what} was sent back by {rejection.role.lower()}: correct it and submit it again"


@declaration.worker(when=approved)
async def request_payment(submission: Submission) -> PaymentOrder:
    return PaymentOrder(round(submission.amount, 2), submission.declaration_number)


@declaration.worker
async def handle_payment(payment_order: PaymentOrder, bank: Bank, execution: WorkerExecution) -> Payment:
    receipt = await bank.pay(payment_order, key=execution.idempotency_key)
    return Payment(payment_order.amount, receipt)


@declaration.worker(writes="flag", when=unapproved, on="payment_order")
async def flag_payment(payment_order: PaymentOrder) -> str:
    return f"{payment_order.amount} requested for {payment_order.declaration_number} without a final approval"


# What the steps in the log of the university's old system mean here. Values are filled in by the names of fields.
declaration.activity("Declaration SAVED by EMPLOYEE", signal="draft")
declaration.activity("Declaration SUBMITTED by EMPLOYEE", signal="submission")
declaration.activity("Declaration APPROVED by ADMINISTRATION", signal="administration_check")
declaration.activity("Declaration APPROVED by BUDGET OWNER", signal="budget_check")
declaration.activity("Declaration APPROVED by PRE_APPROVER", signal="pre_approval")
declaration.activity("Declaration FINAL_APPROVED by SUPERVISOR", signal="final_approval")
for role in ("ADMINISTRATION", "BUDGET OWNER", "PRE_APPROVER", "SUPERVISOR", "MISSING"):
    declaration.activity(f"Declaration REJECTED by {role}", signal="rejection")
declaration.activity("Declaration REJECTED by EMPLOYEE", signal="withdrawal")
declaration.activity("Request Payment", worker=request_payment)
declaration.activity("Payment Handled", worker=handle_payment)
declaration.flag("flag")


async def main() -> None:
    async with CaseHub(declaration) as hub:
        case = await hub.start(declaration, case_id="trip-to-delft")
        await case.signal(submission=Submission(Decimal("42.50"), "declaration 7"), by="user:ada")
        await case.signal(rejection=Rejection("SUPERVISOR"), by="user:grace", wait="quiescent")
        print((await case.context())["correction"])

        await case.signal(submission=Submission(Decimal("24.50"), "declaration 7"), by="user:ada")
        await case.signal(administration_check=Approval("ADMINISTRATION"), by="user:joan")
        await case.signal(final_approval=Approval("SUPERVISOR"), by="user:grace")
        payment = (await case.completed())[Payment]
        print(f"paid {payment.amount}: {payment.receipt}")
        for fact in (await case.context()).facts():
            print(f"  {fact.author} wrote {fact.name!r}")


if __name__ == "__main__":
    asyncio.run(main())
