"""An alert of money laundering, investigated in stages by workers, an analyst and a compliance officer.

Who the customer is comes first; transactions and news are then looked at side by side. A senior analyst is asked at
once about a customer with a history, and otherwise only if what is found is grave: what belongs to no stage goes ahead
of all of them. A suspicious activity report (SAR) is drafted, sent back, drafted anew and approved within 30 days. Filing
it cannot be undone: it is planned, and the reporting officer releases it or does not. The authority's gateway is down
then, so that an operator has to try again, and as that plans anew, the officer is asked once more.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from blackboard_ext import PlanningStrategyLoopControl, StageEvent
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    CaseDefinition,
    CaseHub,
    Gate,
    HumanTask,
    HumanTaskCreated,
    Planned,
    Retry,
    WorkerExecution,
    WorkerExecutionDeclined,
    WorkerExecutionFailed,
    any_of,
    present,
)


@dataclass
class Alert:
    account: str
    history: bool = False  # the customer has been reported before


@dataclass
class Entity:
    name: str
    exposed: bool  # a politically exposed person


@dataclass
class Patterns:
    risk: float
    found: str


@dataclass
class Opinion:
    suspicious: bool
    why: str


@dataclass
class Review:
    approved: bool
    remark: str = ""


@dataclass
class Filing:
    """The planned action: what the reporting officer sees is what is sent."""

    report: str


class Gateway:
    """Stands in for the authority's: it takes a report once, however often it is sent with the same key."""

    def __init__(self, *, down: bool = False) -> None:
        self.down = down
        self.received: dict[str, str] = {}

    async def send(self, report: str, key: str) -> str:
        if self.down:
            raise ConnectionError("the gateway does not answer")
        self.received[key] = report
        return f"SAR-{len(self.received)}"


CUSTOMERS = {"NL-1": Entity("Acme Bakery", exposed=False), "NL-2": Entity("Senator Example", exposed=True)}
RISKS = {"NL-1": Patterns(0.2, "daily takings"), "NL-2": Patterns(0.9, "41 deposits just below 10000")}

investigation = CaseDefinition("investigation", goal=any_of("receipt", "cleared"))


@investigation.resource
async def gateway() -> AsyncIterator[Gateway]:
    yield Gateway()


@investigation.worker(writes="entity")
async def resolve_entity(alert: Alert) -> Entity:
    return CUSTOMERS[alert.account]


@investigation.worker(writes="patterns")
async def analyse_patterns(alert: Alert, entity: Entity) -> Patterns:
    return RISKS[alert.account]


@investigation.worker(writes="news")
async def screen_news(entity: Entity) -> list[str]:
    return [f"{entity.name} under inquiry"] if entity.exposed else []


# ---- the analyst: one capability, two bindings, of which one case needs one at most


@investigation.human_task(writes="opinion", capability="senior analyst")
def judge(alert: Alert, entity: Entity | None = None, patterns: Patterns | None = None) -> HumanTask[Opinion]:
    who = entity.name if entity else alert.account
    return HumanTask(f"Is {who} suspicious?", Opinion, groups=["senior analysts"], due="2d")


def is_grave(alert: Alert, entity: Entity, patterns: Patterns) -> bool:
    return not alert.history and (entity.exposed or patterns.risk > 0.8)


investigation.binding("judge_history", capability="senior analyst", when=lambda alert: alert.history, refire="once")
investigation.binding("judge_findings", capability="senior analyst", when=is_grave)


def is_judged(alert: Alert, entity: Entity, patterns: Patterns, opinion: Opinion | None = None) -> bool:
    return opinion is not None or not (alert.history or is_grave(alert, entity, patterns))


@investigation.worker(writes="verdict", when=is_judged)
async def triage(patterns: Patterns, news: list[str], opinion: Opinion | None = None) -> str:
    suspicious = opinion.suspicious if opinion else patterns.risk > 0.5
    return "report" if suspicious else "clear"


@investigation.worker(writes="cleared", when=lambda verdict: verdict == "clear")
async def clear(entity: Entity, verdict: str) -> str:
    return f"{entity.name}: nothing to report"


# ---- the report


def is_to_be_written(verdict: str, review: Review | None = None) -> bool:
    return verdict == "report" and (review is None or not review.approved)


@investigation.worker(writes="draft", when=is_to_be_written, limit=5)
async def draft_report(entity: Entity, patterns: Patterns, news: list[str], review: Review | None = None) -> str:
    text = f"{entity.name}: {patterns.found}; {', '.join(news)}"
    return f"{text} ({review.remark})" if review else text


@investigation.human_task(writes="review")
def approve_report(draft: str) -> HumanTask[Review]:
    return HumanTask(f"Report {draft!r}?", Review, groups=["compliance"], due="5d")


async def send(action: Filing, gateway: Gateway, execution: WorkerExecution) -> str:
    return await gateway.send(action.report, execution.idempotency_key)


@investigation.worker(
    writes="receipt",
    when=lambda review: review.approved,
    gate=Gate(send, groups=["reporting officers"], due="1d"),
    retry=Retry(2, wait="10ms"),
)
async def file_report(entity: Entity, draft: str, review: Review) -> Planned[Filing]:
    return Planned(Filing(draft), f"File the report about {entity.name}")


@investigation.worker(writes="cleared", on=WorkerExecutionDeclined, when=lambda review: review.approved)
async def keep_on_record(entity: Entity, review: Review) -> str:
    """The reporting officer did not release it."""
    return f"{entity.name}: kept on record, not reported"


investigation.milestone("decided by compliance", when=lambda review: review.approved, entry=present("draft"), sla="30d")

investigation.stage("intake", resolve_entity)
investigation.stage("investigation", analyse_patterns, screen_news, entry=present("entity"))
investigation.stage("decision", triage, entry=present("patterns", "news"))
investigation.stage(
    "filing", draft_report, approve_report, file_report, entry=lambda verdict: verdict == "report", autocomplete=False
)


def control() -> PlanningStrategyLoopControl:
    """The loop control that works the stages."""
    return PlanningStrategyLoopControl(EverythingEligible())


# ---- as it went


async def release_report(hub: CaseHub) -> None:
    (task,) = await hub.tasks.list(user="grace", groups=["reporting officers"])
    await hub.tasks.complete(task.id, {"approved": True}, by="user:grace")


async def main() -> None:
    authority = Gateway(down=True)
    hub = CaseHub(investigation, loop=control(), resources={gateway: authority})

    @hub.on(StageEvent, HumanTaskCreated, WorkerExecutionFailed)
    async def tell(event: StageEvent | HumanTaskCreated | WorkerExecutionFailed) -> None:
        if isinstance(event, StageEvent):
            print(f"{event.name} {event.stage}")
        elif isinstance(event, HumanTaskCreated):
            print(f"for {', '.join(event.groups)}: {event.title}")
        else:
            print(f"{event.worker}, attempt {event.attempt}: {event.message}")

    async with hub:
        case = await hub.start(investigation, alert=Alert("NL-2"), case_id="alert-7")
        await case.quiescent()
        await hub.tasks.complete("alert-7/judge_findings/1", Opinion(True, "no such income"), by="user:ada")
        await case.quiescent()
        await hub.tasks.complete("alert-7/approve_report/1", Review(False, "41 deposits in 9 days"), by="user:joan")
        await case.quiescent()
        await hub.tasks.complete("alert-7/approve_report/2", Review(True), by="user:joan")
        await case.quiescent()
        await release_report(hub)
        await case.quiescent()
        (letter,) = await hub.dead_letters.list(definition="investigation")
        print(f"dead letter {letter.id}: {letter.message}")
        authority.down = False
        await hub.dead_letters.retry(letter.id, by="user:edsger", reason="the gateway is up again")
        await case.quiescent()
        await release_report(hub)
        print((await case.completed())["receipt"])


if __name__ == "__main__":
    asyncio.run(main())
