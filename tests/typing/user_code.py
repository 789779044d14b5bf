"""User code as people write it: it passes `mypy --strict` and `pyright` strict, without casts.

`test_typing.py` runs it as well, so what the checkers believe is what happens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict  # that of typing from Python 3.12 on

from casehub import (
    ABSENT,
    AnswerRefusedError,
    Binding,
    Budget,
    Case,
    CaseCompleted,
    CaseContext,
    CaseDefinition,
    CaseEnded,
    CaseFaulted,
    CaseHub,
    CaseStalled,
    CaseStalledError,
    CaseState,
    CaseStatus,
    CaseStatusChanged,
    CaseSummary,
    CaseView,
    ChoreographyLoopControl,
    Compensation,
    Confident,
    ContextChanged,
    Decision,
    DecisionReplay,
    Declined,
    Defer,
    EntityReference,
    Event,
    Explanation,
    Fact,
    FactSerializer,
    Faulted,
    Gate,
    GoalReached,
    HumanTask,
    Limits,
    LoopControl,
    Migration,
    MilestoneReached,
    OnOutcome,
    Permanent,
    Planned,
    PlanView,
    Redaction,
    Reference,
    Refire,
    Retry,
    Selection,
    Signal,
    SignalReceived,
    Slot,
    Task,
    TaskStatus,
    Verdict,
    WorkerEvent,
    WorkerExecution,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
    WorkerScheduled,
    absent,
    all_of,
    any_of,
    confident,
    cron,
    deep_merge,
    every,
    present,
    reached,
)
from casehub.durations import Duration
from casehub.spi import Answer
from casehub.testing import CaseTestKit, Step, VirtualClock, repeat
from casehub.testing.loops import LoopControlContract

# ---- a definition: every option, and workers of every kind


class Application(BaseModel):
    applicant: str
    amount: int
    note: str = ""


@dataclass(frozen=True)
class Risk:
    score: float
    level: Literal["low", "high"]


class Objection(BaseModel):
    text: str


class Approval(BaseModel):
    approved: bool


class Findings(TypedDict):
    facts: list[str]
    sources: int


class Bureau:
    async def look_up(self, name: str, *, key: str) -> int:
        return len(name) if key else 0


loan = CaseDefinition(
    "loan",
    title="Consumer loan",
    goal=any_of("decision", all_of("refused", "informed")),
    inputs=Application,
    signals=[Objection, "hurry"],
    external={"rate": float},
    budget=Budget(calls=50, tokens=10_000, per="day"),
    limits=Limits(firings=200, concurrency=4),
    protected=["applicant"],
)


@loan.resource
async def bureau() -> AsyncIterator[Bureau]:
    yield Bureau()


@loan.worker
async def assess(applicant: str, amount: int, bureau: Bureau, execution: WorkerExecution) -> Risk:
    known = await bureau.look_up(applicant, key=execution.idempotency_key)
    execution.heartbeat()
    execution.charge(tokens=120, money=0.01)
    if amount > 1_000_000:
        assert_type(await execution.ask(HumanTask("Is it insured?", Approval, groups=["risk"])), Approval)
        assert_type(await execution.ask(bool, key="sure"), bool)
    earlier = await execution.log.query(WorkerExecutionFailed, across="definition", since="30d")
    return Risk(amount / 1000 + len(earlier), "low" if known > 2 else "high")


@loan.worker(writes="decision", when=present("risk") & ~present("refused"), refire=Refire.ONCE)
def decide(risk: Risk, hurry: bool, note: str = "") -> str:
    return f"{risk.level} {note} {hurry}"


def too_much(amount: int, risk: Risk) -> bool:
    return amount > 10_000 and risk.level == "high"


@loan.worker(
    name="refuse",
    writes=("refused", "reason"),
    when=too_much,
    on=(
        "risk",
        Signal("hurry"),
        Faulted("assess"),
        CaseStatusChanged,
        every("15m"),
        cron("0 2 * * 1-5", tz="Europe/Berlin"),
    ),
    limit=2,
    refire="always",
    merge=deep_merge,
    retry=Retry(2, wait=timedelta(milliseconds=5), on=(TimeoutError, OSError)),
    timeout="90s",
    on_failed="fault_case",
    on_declined=OnOutcome.IGNORE,
    priority=3,
    cost=0.5,
    estimate=Budget(tokens=100),
    budget=Budget(calls=3),
)
async def refuse(case: CaseView, amount: int) -> Mapping[str, Any]:
    assert_type(case.context, CaseContext)
    return {"refused": True, "reason": ABSENT if amount < 0 else "too much"}


@loan.worker(writes="findings", when=lambda amount: amount > 1_000_000)
async def investigate(applicant: str) -> Findings:
    if not applicant:
        raise Permanent("nobody to look at")
    return {"facts": [applicant], "sources": 1}


@loan.worker(writes="guess", when=confident("risk", 0.5) | absent("risk"))
async def estimate(amount: int) -> Confident[int] | None:
    return Confident(amount // 2, 0.25) if amount else None


@loan.worker(writes=("low", "high"))
async def span(amount: int) -> Mapping[str, Confident[int]]:
    return {"low": Confident(amount, 0.9), "high": Confident(amount * 2, confidence=1)}


@loan.worker(writes="informed", capability="letter")
async def by_post(refused: bool) -> bool:
    raise Declined("no stamps")


@loan.worker(writes="informed", capability="letter")
async def by_mail(refused: bool) -> bool:
    return refused


@loan.human_task(
    writes="approval", when=present("risk"), priority=3, on_declined="reroute", on_expired=OnOutcome.RETRY, timeout="9d"
)
def approve(applicant: str, risk: Risk) -> HumanTask[Approval]:
    return HumanTask(
        f"Approve {applicant}?",
        Approval,
        groups=["underwriters"],
        users=("grace",),
        description=risk.level,
        priority=int(risk.score),
        due="2d",
        follow_up=timedelta(days=1),
        expires="5d",
        deadline=datetime(2040, 1, 1, tzinfo=UTC),
        escalate="3d",
        escalate_to=["managers"],
    )


@loan.human_task(refire="once", writes="seal")
def seal() -> HumanTask[bool]:
    return HumanTask("Seal it", bool)


loan.binding("inform", capability="letter", when=absent("informed"), on_declined="reroute")
loan.milestone("assessed", when=present("risk"), sla="2h30m")
loan.milestone("settled", when=lambda risk, decision: bool(decision and risk), entry=present("risk"))
loan.goal("hopeless", when=lambda risk: risk.score > 99, failure=True)


# ---- gates


@dataclass
class Payment:
    account: str
    amount: int


async def pay(action: Payment, execution: WorkerExecution) -> str:
    return f"{action.amount} to {action.account}"


def pay_now(action: Payment) -> str:
    return action.account


async def is_large(action: Payment) -> bool | str:
    return "it is large" if action.amount > 1_000 else False


payments = CaseDefinition("payments", goal="paid")


@payments.worker(writes="paid", gate=Gate(pay, risk=is_large, groups=["finance"], approvals=2, expires="2d"))
async def order(account: str, amount: int) -> Planned[Payment]:
    return Planned(Payment(account, amount), f"Pay {amount}")


@payments.worker(gate=Gate(pay_now, risk=lambda action: action.amount > 3), writes="refund", retry=Retry(2))
def give_back(account: str, amount: int) -> Planned[Payment] | None:
    return Planned(Payment(account, amount)) if amount else None


async def decorators_keep_the_type_of_the_function() -> None:
    assert_type(give_back("Ada", 0), Planned[Payment] | None)
    assert_type(approve("Ada", Risk(0.1, "low")), HumanTask[Approval])
    assert_type(approve("Ada", Risk(0.1, "low")).form, type[Approval])
    assert_type(decide(Risk(0.1, "low"), hurry=False), str)
    assert_type(await investigate("Ada"), Findings)
    async for one in bureau():
        assert_type(one, Bureau)


# ---- loop controls


class OneAtATime(ChoreographyLoopControl):
    immediate = False
    deadline = "2s"

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Selection | Defer:
        failures = await case.log.count(WorkerExecutionFailed, by="binding", across="definition", since="7d")
        assert_type(failures, Mapping[str, int])
        if not eligible:
            return Defer(after="1h")
        best = min(eligible, key=lambda binding: (failures.get(binding.name, 0), binding.cost))
        return Selection([best], rationale=f"{best.name} failed least")


class FromScratch:
    """The whole contract, with state of its own: how many activations there were."""

    immediate = True
    handles: frozenset[type[Event]] = frozenset({WorkerScheduled})
    deadline: Duration = "1s"

    def initial(self) -> int:
        return 0

    def apply(self, control: int, event: Event) -> int:
        return control + 1

    def react(self, state: CaseState, event: Event) -> Iterable[Event]:
        return ()

    def settle(self, state: CaseState) -> Iterable[Event]:
        return ()

    def view(self, state: CaseState) -> PlanView | None:
        return None

    def gate(self, state: CaseState, binding: Binding) -> str | None:
        return None if binding.name in state.firings or state.fired < 90 else "no more than 90"

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return sorted(eligible, key=lambda binding: -binding.priority)


anything: LoopControl = OneAtATime()

# ---- a hub, its subscribers, a case

former = CaseDefinition("loan", at_quiescence=True)
hub = CaseHub(
    loan, kept=[former], loop={"loan": FromScratch()}, store="memory://", resources={bureau: Bureau()}, seed=7
)
heard: list[str] = []


async def those_that_would_move() -> list[str]:
    found = await hub.migrate(former, dry_run=True)
    assert_type(found, Sequence[Migration])
    return [each.case for each in found if not each.refused]


@hub.on(MilestoneReached, durable="pager")
async def celebrate(event: MilestoneReached) -> None:
    heard.append(event.milestone)


@hub.on(CaseCompleted, CaseFaulted)
async def file(event: CaseCompleted | CaseFaulted) -> None:
    heard.append(event.reason)


@hub.on(WorkerExecutionFinished, GoalReached, CaseStalled)
async def note(event: WorkerExecutionFinished | GoalReached | CaseStalled) -> None:
    heard.append(event.goal if isinstance(event, GoalReached) else event.name)


@hub.on(ContextChanged)
async def any_event(event: Event) -> None:
    heard.append(event.author)


async def follow() -> None:
    with hub.watch(MilestoneReached, after=0) as milestones:
        async for milestone in milestones:
            assert_type(milestone, MilestoneReached)
            assert_type(milestone.late, bool)
            break
    with hub.watch(WorkerEvent, GoalReached, after=0) as both:
        async for one in both:
            assert_type(one, WorkerEvent | GoalReached)
            break
    with hub.watch(CaseEnded, SignalReceived, ContextChanged, after=0) as three:
        async for each in three:
            assert_type(each, CaseEnded | SignalReceived | ContextChanged)
            break


async def work() -> None:
    async with hub as opened:
        assert_type(opened, CaseHub)
        case = await opened.start(loan, applicant="Ada Lovelace", amount=20_000, by="user:ada")
        assert_type(case, Case)
        assert_type(await case.signal(Objection(text="too slow"), by="user:ada", reason="asked"), CaseContext)
        await case.signal({"rate": 0.04}, key="rate-1")
        assert_type(await case.status(), CaseStatus)
        await case.signal(hurry=True, wait="first_wave", timeout="5s")
        try:
            facts = await case.completed(timeout=timedelta(seconds=10))
        except CaseStalledError as error:
            assert_type(error.reasons, tuple[str, ...])
            raise
        assert_type(facts, CaseContext)
        assert_type(facts[Risk], Risk)
        assert_type(facts.last(Objection), Objection | None)
        assert_type(facts.all_of_type(Risk), list[Risk])
        assert_type(facts.fact("decision"), Fact)
        assert_type(facts["decision"], Any)
        assert_type(await case.log.query(ContextChanged, events=5), Sequence[ContextChanged])
        assert_type(await case.facts("decision").history(), list[Fact])
        assert_type(await case.facts("decision").why(), list[Event])
        assert_type(await case.plan(), PlanView | None)
        assert_type(await case.decisions(), Sequence[Decision])
        assert_type(await case.replay_decisions(FromScratch()), DecisionReplay)
        explained = await case.explain("decide")
        assert_type(explained, list[Explanation])
        assert_type(explained[0].verdict, Verdict)
        for task in await opened.tasks.list(user="ada", groups=["underwriters"], status=TaskStatus.OPEN):
            assert_type(task, Task)
            assert_type(task.due, datetime | None)
            try:
                assert_type(await opened.tasks.complete(task.id, Approval(approved=True), by="user:ada"), Task)
            except AnswerRefusedError as wrong:
                assert_type(wrong.fields, dict[str, str])
        assert_type(await opened.cases(status=[CaseStatus.COMPLETED]), Sequence[CaseSummary])
        await follow()


# ---- tests


class TestOneAtATime(LoopControlContract):
    def loop_control(self) -> LoopControl:
        return OneAtATime()


def asked(risk: Risk, hurry: bool, note: str = "") -> str:
    return f"asked about {risk.level} {note} {hurry}"


async def a_risky_loan_is_looked_at_twice() -> None:
    async with CaseTestKit(loan, loop=OneAtATime(), seed=3) as kit:
        kit.script(assess, TimeoutError, repeat(Risk(0.9, "high")))
        kit.script("decide", asked)
        kit.replace(bureau, Bureau())
        case = await kit.start(loan, applicant="Ada", amount=100, step=True)
        assert_type(case, Case)
        step = await kit.step(case)
        assert_type(step, Step)
        assert_type(step.fired, tuple[str, ...])
        await kit.advance("2h")
        assert_type(kit.events(case, WorkerExecutionFailed), list[WorkerExecutionFailed])
        assert_type(kit.events(), list[Event])
        assert_type(kit.clock, VirtualClock)
        assert [event.error for event in kit.events(case, WorkerExecutionFailed)] == ["TimeoutError"]
        assert (await case.context())[Risk].level == "high"


# ---- what is undone

booking = CaseDefinition("booking", goal="paid", compensation=Compensation(on=[CaseStatus.CANCELLED], deadline="2d"))


@booking.worker(writes="seat")
async def reserve(city: str) -> str:
    return f"seat to {city}"


@booking.worker(compensates=reserve, retry=Retry(5, wait="1m"))
async def hand_back(seat: str, execution: WorkerExecution) -> None:
    assert execution.undoes is None or isinstance(execution.undoes, str)


@booking.worker(writes="votes", each="people", need=2, rest="keep")
async def vote(person: str) -> bool:
    return bool(person)


booking.goal("paid", reached("enough"))
booking.milestone("enough", present("votes"))


async def undo_by_hand(case: Case) -> None:
    await case.compensate("reserve", by="user:ada", reason="the wrong city")


# ---- facts that are stored in another way


@dataclass
class Address:
    key: str
    city: str


shipping = CaseDefinition("shipping", goal="label", signals={"address": Address, "phone": str})


async def find_address(key: str) -> Address | None:
    return Address(key, "Paris") if key else None


addresses = EntityReference(Address, key=lambda address: address.key, load=find_address)


@shipping.upcast("phone")
def phone_of(old: int) -> str:
    return str(old)


def in_town(address: Reference[Address]) -> bool:
    return assert_type(address.key, str | int) != ""


@shipping.worker(writes="label", when=in_town)
async def label(address: Address, phone: str) -> str:
    return f"{assert_type(address, Address).city} {phone}"


class Shouting(FactSerializer):
    name = "shouting"

    def handles(self, fact: str, annotation: Any) -> bool:
        return fact == "label"

    def dump(self, value: str, slot: Slot) -> str:
        return value.upper()

    def load(self, form: Any, slot: Slot) -> str:
        return str(form)


async def stored_elsewhere() -> None:
    serializers = [addresses, Redaction("phone", mask=lambda phone: f"{phone}"[:2]), Shouting()]
    async with CaseHub(shipping, serializers=serializers) as hub:
        case = await hub.start(shipping)
        await case.signal(address=Address("a-1", "anywhere"), phone="0123")
        assert (await case.completed())["label"] == "PARIS 01"
        found = await Reference("address", "a-1", addresses).load()
        assert assert_type(found, Address).city == "Paris"
