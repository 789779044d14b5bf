"""Definitions that the tests of the command work: small, and held up only by the test that runs them."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.strategies import EverythingEligible
from casehub import CaseDefinition, CaseHub, Confident, HumanTask, Permanent, Quarantine, Retry


@dataclass
class Approval:
    approved: bool
    why: str = ""


# ---- three workers and a goal

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


# ---- a worker that is not sure

guess = CaseDefinition("guess", goal="topic")


@guess.worker(writes="topic")
async def classify(text: str) -> Confident[str]:
    return Confident("invoice", 0.4)


# ---- a case that waits for somebody

payment = CaseDefinition("payment", goal="paid", signals={"approved": bool, "amount": float})


@payment.worker(writes="paid")
async def pay(amount: float, approved: bool) -> str:
    return f"{amount:.2f}" if approved else "nothing"


# ---- a case that gets stuck

stuck = CaseDefinition("stuck", goal="answer")


@stuck.worker(writes="notes")
async def take_notes(question: str) -> str:
    raise Permanent(f"nobody knows {question}")


@stuck.worker(writes="answer")
async def answer(notes: str) -> str:
    return notes


# ---- workers that go on when the test at the other end of a socket says so


async def _told(task: str) -> str:
    reader, writer = await asyncio.open_unix_connection(os.environ["GATE"])
    try:
        writer.write(f"{task}\n".encode())
        return (await reader.readline()).decode().strip()
    finally:
        writer.close()


held = CaseDefinition("held", goal="done")


@held.worker(writes="done")
async def work(task: str) -> str:
    return await _told(task)


deaf = CaseDefinition("deaf", goal="done")


@deaf.worker(name="block", writes="done")
def block(task: str) -> str:
    """Blocks its thread, and cannot be cancelled."""
    with socket.socket(socket.AF_UNIX) as gate:
        gate.connect(os.environ["GATE"])
        gate.sendall(f"{task}\n".encode())
        return gate.recv(100).decode().strip()


# ---- a service that is down while there is a file that says so

held_anew = CaseDefinition("held", goal="done")
"""`held`, with its worker called otherwise."""


@held_anew.worker(writes="done")
def barricade(task: str) -> str:
    return task


flaky = CaseDefinition("flaky", goal="answer")


@flaky.worker(writes="answer", retry=Retry(1), quarantine=Quarantine(2, within="1h", release="1h"))
async def call(number: int) -> int:
    if Path(os.environ["GATE"]).with_name("down").exists():
        raise OSError("no line")
    return number


brittle = CaseDefinition("brittle", goal="answer")


@brittle.worker(writes="answer", retry=Retry(1), on_exhausted="fault_case")
async def reach(number: int) -> int:
    if number < 0:
        raise OSError("no line")
    return number


rated = CaseDefinition("rated", goal="risk")


@rated.worker(writes="risk", capability="rate")
async def assess_alone(amount: int) -> int:
    raise OSError("no line")


@rated.worker(writes="risk", capability="rate")
async def assess_by_hand(amount: int) -> int:
    return amount


rated.binding("rate", capability="rate", retry=Retry(1))


# ---- people

loan = CaseDefinition("loan", goal="letter")


@loan.human_task(writes="approval")
def approve(applicant: str) -> HumanTask[Approval]:
    return HumanTask(f"Approve {applicant}?", Approval, groups=["underwriters"], due="2d", expires="5d", priority=3)


@loan.worker(writes="letter")
async def write_letter(approval: Approval) -> str:
    return "yes" if approval.approved else "no"


everything = [claim, payment, stuck, held, deaf]
hub = CaseHub(claim, payment)
number = 7

# ---- a stage that somebody has to activate, and a loop control that works it

report = CaseDefinition("report", goal="published", signals=["more"])


@report.worker(writes="published")
async def publish(text: str) -> str:
    return text.upper()


report.stage("publication", publish, manual=True)


def planning() -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(EverythingEligible())


# ---- what can never work

broken = CaseDefinition("broken", goal="decision")


@broken.worker(writes="decision")
async def judge(evidense: str) -> str:
    return evidense


@broken.worker(writes="evidence")
async def gather(evidense: str, source: str) -> str:
    return source


broken.goal("unreachable", lambda nowhere: True)


# ---- a case that waits for another, which waits for somebody or is stuck

inquiry = CaseDefinition("inquiry", goal="answer", signals={"heard": str})


@inquiry.sub_case(payment, writes="paid")
def pay_first(heard: str) -> dict[str, float]:
    return {"amount": 3.0}


@inquiry.sub_case(stuck, name="dig", writes="found", takes="answer")
def dig(heard: str) -> dict[str, str]:
    return {"question": heard}


@inquiry.worker(writes="answer")
async def conclude(paid: str, found: str) -> str:
    return f"{paid} {found}"


# ---- a case that undoes what it did

trip = CaseDefinition("trip", goal="home", signals={"home": bool})


@trip.worker(writes="flight")
async def book_flight(city: str) -> str:
    return f"flight to {city}"


@trip.worker(writes="refund", compensates=book_flight)
async def cancel_flight(flight: str) -> str:
    if "Rome" in flight:
        raise Permanent("no refunds")
    return "half"
