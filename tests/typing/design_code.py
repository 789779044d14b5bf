"""The examples that the engine is built for, line for line; `tests/examples/test_design.py` plays them.

Around them is only what they leave to their reader: the classes that they name, the loan's other workers, and functions
where they await at the top level. Both type checkers read it strictly.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl, StageCompleted, StageEvent
from casehub import (
    Binding,
    Budget,
    Case,
    CaseDefinition,
    CaseHub,
    CaseView,
    HumanTask,
    Retry,
    WorkerExecution,
    WorkerExecutionFailed,
    absent,
)
from casehub.testing import CaseTestKit

# ---- workers that never call each other

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


async def work_by_choreography() -> None:
    async with CaseHub(claim) as hub:
        case = await hub.start(claim, document="Ada met Grace in Paris")
        print((await case.completed())["decision"])  # approve


# ---- orchestration, in which no line of the workers changes


def add_the_stages() -> None:
    """On the definition above, which the first example works without stages."""
    claim.stage("intake", extract)
    claim.stage("review", assess, decide)


class MostReliableFirst:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        failures = await case.log.count(WorkerExecutionFailed, by="binding", across="definition", since="7d")
        best = sorted(eligible, key=lambda binding: failures.get(binding.name, 0))[:1]
        plan.focus("reliability", because=f"{failures} in 7 days")
        return best


def orchestration() -> CaseHub:
    hub = CaseHub(claim, loop=PlanningStrategyLoopControl(MostReliableFirst()))

    # ---- subscribers

    @hub.on(StageCompleted)  # live; with durable="pager" it keeps its position: at least once over restarts
    async def celebrate(event: StageCompleted) -> None:
        celebrated.append(event.stage)

    return hub


celebrated: list[str] = []


async def watch(hub: CaseHub, case: Case, seq: int) -> list[tuple[str, str]]:
    watched: list[tuple[str, str]] = []
    with hub.watch(StageEvent, case=case.id, after=seq) as events:
        async for event in events:
            watched.append((event.name, event.stage))
            if isinstance(event, StageCompleted) and event.stage == "review":
                break
    return watched


# ---- a model, people, tests


@dataclass
class Reply:
    facts: list[str]
    tokens: int


class Model:
    """Stands in for a language model's client: its first call times out."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def __aenter__(self) -> "Model":
        return self

    async def __aexit__(self, *exc: object) -> None:
        closed.append(self)

    async def ask(self, question: str, *, key: str) -> Reply:
        self.keys.append(key)
        if len(self.keys) == 1:
            raise TimeoutError("no answer")
        return Reply([f"a fact about {question}"], tokens=1_200)


closed: list[Model] = []


study = CaseDefinition("study", goal="final", budget=Budget(tokens=50_000))


@study.resource
async def model() -> AsyncIterator[Model]:
    async with Model() as client:
        yield client


@study.worker(writes="facts", when=absent("facts"), timeout="60s", retry=Retry(4, on=(TimeoutError,)))
async def research(question: str, model: Model, execution: WorkerExecution) -> list[str]:
    reply = await model.ask(question, key=execution.idempotency_key)
    execution.charge(tokens=reply.tokens)
    return reply.facts


@study.worker(writes="final")
async def write(facts: list[str]) -> str:
    return "; ".join(facts)


@dataclass
class Applicant:
    name: str


@dataclass
class Risk:
    score: float


@dataclass
class Approval:
    approved: bool


@dataclass
class Insights:
    points: list[str]


loan = CaseDefinition("loan", goal="insights")
ada = Applicant("Ada")


@loan.worker
async def score(applicant: Applicant) -> Risk:
    return Risk(len(applicant.name) / 10)


@loan.human_task(writes="approval")  # parameters: what the person sees; return type: the form
def approve(applicant: Applicant, risk: Risk) -> HumanTask[Approval]:
    return HumanTask(f"Approve {applicant.name}?", Approval, groups=["underwriters"], due="2d", expires="5d")


@loan.worker
async def conclude(approval: Approval, risk: Risk) -> Insights:
    return Insights([f"approved: {approval.approved} at {risk.score}"])


async def work_with_a_person() -> None:
    async with CaseHub(loan) as hub:
        case = await hub.start(loan, applicant=ada)
        await case.quiescent()
        (task,) = await hub.tasks.list(groups=["underwriters"])
        await hub.tasks.complete(task.id, Approval(approved=True), by="user:ada")
        insights = (await case.completed())[Insights]  # typed
        print(*insights.points)


async def work_in_a_test() -> list[str]:
    async with CaseTestKit(loan) as kit:  # a CaseHub with memory store, virtual clock, scripted workers
        kit.script(score, TimeoutError(), Risk(0.2))
        case = await kit.start(loan, applicant=ada)
        await kit.advance("2d")  # fires every timer on the way
        assert (await case.context())[Risk] == Risk(0.2)
        return [event.name for event in kit.events(case)]
