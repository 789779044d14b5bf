"""Whole cases from beginning to end, told as the people who work on them would."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from casehub import (
    ABSENT,
    Budget,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    Declined,
    MilestoneReached,
    MilestoneSlaViolated,
    Retry,
    WorkerExecution,
    WorkerExecutionDeclined,
    WorkerExecutionStarted,
    WorkerScheduled,
    absent,
    any_of,
    present,
)
from casehub.testing import CaseTestKit, repeat
from tests.staging import Kept, idle


class Applicant(BaseModel):
    name: str
    income: int


@dataclass
class Risk:
    score: float
    grounds: list[str]


Decision = Literal["approve", "refuse"]


def loan() -> CaseDefinition:
    """A loan is scored; small risks are approved at once, others wait for an underwriter."""
    d = CaseDefinition("loan", goal="letter", signals={"decision": Decision, "documents": list[str]}, external={})
    d.milestone("scored", present("risk"), sla="1h")
    d.milestone("decided", present("decision"), entry=present("risk"), sla="2d")

    @d.worker
    async def assess(applicant: Applicant, documents: list[str] | None = None) -> Risk:
        grounds = [] if documents else ["no documents"]
        return Risk(0.2 if applicant.income > 50_000 and documents else 0.8, grounds)

    @d.worker(writes="decision", when=lambda risk: risk.score < 0.5)
    async def wave_through(risk: Risk) -> Decision:
        return "approve"

    @d.worker(writes="letter")
    async def write(applicant: Applicant, decision: Decision) -> str:
        return f"Dear {applicant.name}, we {decision} your loan."

    return d


async def test_a_small_risk_is_approved_without_anybody_looking_at_it() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, applicant=Applicant(name="Ada", income=90_000), documents=["payslip"])
        context = await case.completed()
        assert context["letter"] == "Dear Ada, we approve your loan."
        assert context[Risk] == Risk(0.2, [])
        assert [event.milestone for event in kit.events(case, MilestoneReached)] == ["scored", "decided"]


async def test_a_large_risk_waits_for_the_underwriter_is_late_and_goes_on_when_papers_change_the_picture() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, applicant=Applicant(name="Grace", income=90_000))
        await kit.settle()
        assert await case.status() is CaseStatus.WAITING
        assert (await case.context())[Risk].grounds == ["no documents"]
        await kit.advance("3d")
        assert [event.milestone for event in kit.events(case, MilestoneSlaViolated)] == ["decided"]
        await case.signal(documents=["payslip"], by="user:grace")
        assert (await case.completed())["decision"] == "approve"
        assert kit.events(case, MilestoneReached)[-1].late
        sources = {event.by for event in await case.facts("letter").why()}
        assert {"user:grace", "worker:assess", "worker:wave_through", "worker:write"} <= sources


async def test_the_underwriter_refuses_and_the_letter_says_so() -> None:
    d = loan()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, applicant=Applicant(name="Alan", income=10_000))
        await case.signal(decision="refuse", by="user:underwriter", reason="income")
        assert (await case.completed())["letter"] == "Dear Alan, we refuse your loan."


def incident() -> CaseDefinition:
    """An alert is enriched by rules or a model, contained if it is bad, and closed by an analyst."""
    d = CaseDefinition(
        "incident", goal=any_of("resolved", "false_positive"), signals=["verdict"], budget=Budget(tokens=100)
    )
    d.goal("resolved", present("verdict") & present("report"))
    d.goal("false_positive", lambda severity: severity == 0)

    @d.worker(writes="severity", capability="enriching")
    async def by_rules(alert: str) -> int:
        if "unknown" in alert:
            raise Declined("no rule for it")
        return 0 if "test" in alert else 7

    @d.worker(writes="severity", capability="enriching")
    async def by_model(alert: str, execution: WorkerExecution) -> int:
        execution.charge(tokens=60)
        return 9

    d.binding("enrich", capability="enriching", on_declined="reroute", estimate=Budget(tokens=60))

    @d.worker(writes="contained", when=lambda severity: severity > 8)
    async def isolate(alert: str) -> str:
        return "host isolated"

    @d.worker(writes="report")
    async def summarise(severity: int, verdict: str) -> str:
        return f"severity {severity}: {verdict}"

    return d


async def test_a_test_alert_is_a_false_positive_and_nobody_is_disturbed() -> None:
    d = incident()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, alert="a test of the sirens")
        await case.completed()
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == ["enrich"]


async def test_an_unknown_alert_goes_to_the_model_and_its_host_is_isolated_before_the_analyst_looks() -> None:
    d = incident()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, alert="unknown binary")
        await kit.settle()
        assert kit.events(case, WorkerExecutionDeclined)[0].worker == "by_rules"
        assert (await case.context())["contained"] == "host isolated"
        assert (await case.state()).spending.spent("case", "tokens") == 60
        await case.signal(verdict="malware", by="user:analyst")
        assert (await case.completed())["report"] == "severity 9: malware"


def article() -> CaseDefinition:
    """Research, draft, review; the reviewer sends the text back until it is good."""
    d = CaseDefinition("article", goal="final")

    @d.worker(writes="facts", when=absent("facts") | present("needs_more_research"))
    async def research(question: str) -> list[str]:
        return [question]

    @d.worker(writes="draft")
    async def write(facts: list[str]) -> str:
        return "; ".join(facts)

    @d.worker(writes=["final", "needs_more_research", "facts"])
    async def review(draft: str) -> dict[str, object]:
        if draft.count(";") < 2:
            return {"needs_more_research": draft, "facts": ABSENT}
        return {"final": draft.upper()}

    return d


async def test_a_reviewer_sends_the_text_back_twice_and_the_third_is_printed() -> None:
    d = article()
    async with CaseTestKit(d) as kit:
        kit.script("research", ["one"], ["one", "two"], ["one", "two", "three"])
        case = await kit.start(d, question="why?")
        assert (await case.completed())["final"] == "ONE; TWO; THREE"
        order = [event.binding for event in kit.events(case, WorkerScheduled)]
        assert order == ["research", "write", "review"] * 3


def repair() -> CaseDefinition:
    """A contractor is asked, silence is chased, and a second one is asked after that."""
    d = CaseDefinition("repair", goal="done", signals={"quote": int, "job_done": bool})
    d.milestone("quoted", present("quote"), sla="2d")

    @d.worker(writes="asked", retry=Retry(3, wait="1h", maximum="1h", jitter=False))
    async def ask(trade: str) -> str:
        return f"asked a {trade}"

    @d.worker(writes="chased", on=MilestoneSlaViolated)
    async def chase(asked: str) -> str:
        return "called them"

    @d.worker(writes="order", when=lambda quote: quote <= 500)
    async def order(quote: int) -> str:
        return f"ordered for {quote}"

    @d.worker(writes="done")
    async def pay(order: str, job_done: bool) -> str:
        return "paid"

    return d


async def test_a_silent_contractor_is_chased_and_a_dear_one_bargained_down() -> None:
    d = repair()
    async with CaseTestKit(d) as kit:
        kit.script("ask", ConnectionError("line busy"), "asked a plumber")
        case = await kit.start(d, trade="plumber")
        await kit.advance("1d")
        assert "chased" not in await case.context()
        await kit.advance("1d")
        assert (await case.context())["chased"] == "called them"
        await case.signal(quote=900, wait="quiescent")
        assert "order" not in await case.context()
        await case.signal(quote=450, wait="quiescent")
        assert (await case.context())["order"] == "ordered for 450"
        await case.signal(job_done=True)
        assert (await case.completed())["done"] == "paid"


async def test_a_hundred_repairs_at_once_over_a_restart_each_end_as_one_alone_would() -> None:
    d, store = repair(), Kept()
    async with CaseHub(d, store=store) as hub:
        cases = [await hub.start(d, trade="plumber", case_id=f"r{number}") for number in range(100)]
        await asyncio.gather(*(case.signal(quote=number) for number, case in enumerate(cases[:50])))
        await idle()
    async with CaseHub(d, store=store, resident=10) as hub:
        handles = [hub.case(f"r{number}") for number in range(100)]
        await asyncio.gather(*(case.signal(quote=number) for number, case in enumerate(handles) if number >= 50))
        await asyncio.gather(*(case.signal(job_done=True) for case in handles))
        contexts = await asyncio.gather(*(case.completed() for case in handles))
        assert [context["order"] for context in contexts] == [f"ordered for {number}" for number in range(100)]
        for case in handles:
            started = [event.binding for event in await case.log.query(WorkerExecutionStarted)]
            assert sorted(started) == ["ask", "order", "pay"]


async def test_a_service_that_is_down_for_a_day_delays_a_case_by_a_day() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", retry=Retry(100, wait="1h", maximum="1h", jitter=False))
    async def call(a: int) -> int:
        return a

    async with CaseTestKit(d) as kit:
        kit.script("call", *[ConnectionError("down")] * 24, repeat(7))
        case = await kit.start(d, a=1)
        await kit.advance("23h 59m")
        assert not (await case.status()).ended
        await kit.advance("1m")
        assert (await case.completed())["b"] == 7
