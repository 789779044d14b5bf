"""Code that the definitions of these tests refer to."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from casehub import HumanTask, Planned, Redaction

__all__ = [
    "Applicant",
    "Bank",
    "approve",
    "assess",
    "bank",
    "count",
    "extract",
    "fees",
    "longer",
    "pay",
    "risky",
    "sleep",
]


@dataclass
class Applicant:
    name: str
    income: float = 0.0


class Bank:
    def __init__(self) -> None:
        self.paid: list[str] = []


class BankClosedError(Exception):
    pass


async def bank() -> AsyncIterator[Bank]:
    yield Bank()


async def extract(document: str) -> list[str]:
    return [word for word in document.split() if word.istitle()]


async def assess(entities: list[str]) -> float:
    return len(entities) / 10


async def decide(risk: float) -> str:
    return "approve" if risk < 0.5 else "refer"


def fees(applicant: Applicant) -> Mapping[str, Any]:
    return {"fee": applicant.income / 100, "tax": 1.0}


async def pay(fee: float, bank: Bank) -> str:
    bank.paid.append("fee")
    return f"paid {fee}"


def approve(applicant: Applicant, risk: float) -> HumanTask[bool]:
    return HumanTask(f"Approve {applicant.name}?", bool, groups=["underwriters"])


async def count(word: str, document: str) -> int:
    return document.count(word)


def risky(risk: float) -> bool:
    return risk > 0.5


def longer(theirs: Any, mine: Any) -> Any:
    return max(theirs, mine, key=len)


def _hidden() -> None:
    pass


@dataclass
class Transfer:
    amount: float
    to: str


def plan_transfer(amount: float, payee: str) -> Planned[Transfer]:
    return Planned(Transfer(amount, payee), f"Pay {amount:g} to {payee}")


def plan_each(payee: str, amount: float) -> Planned[Transfer]:
    return Planned(Transfer(amount, payee))


async def transfer(action: Transfer) -> str:
    return f"{action.amount:g} sent to {action.to}"


def is_large(action: Transfer) -> bool:
    return action.amount > 1000


class Passwords(Redaction):
    """Masks passwords."""

    def __init__(self) -> None:
        super().__init__("password")


def split(old: str = "") -> dict[str, str]:
    given, _, family = old.rpartition(" ")
    return {"given": given, "family": family}
