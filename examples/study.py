"""A study with a model: a shared resource, a budget in tokens, retries, a result by its type."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from casehub import Budget, CaseDefinition, CaseHub, Retry, WorkerExecution, WorkerExecutionFailed, absent


@dataclass
class Reply:
    text: str
    tokens: int


@dataclass
class Insights:
    points: list[str]


class Model:
    """Stands in for a language model's client: the first call times out."""

    def __init__(self) -> None:
        self.calls = 0

    async def __aenter__(self) -> "Model":
        return self

    async def __aexit__(self, *exc: object) -> None:
        print(f"model closed after {self.calls} calls")

    async def ask(self, prompt: str, key: str) -> Reply:
        self.calls += 1
        if self.calls == 1:
            raise TimeoutError("no answer")
        return Reply(f"thoughts on {prompt!r}", tokens=1_200)


study = CaseDefinition("study", goal="insights", budget=Budget(tokens=50_000))


@study.resource
async def model() -> AsyncIterator[Model]:
    async with Model() as client:
        yield client


@study.worker(writes="facts", when=absent("facts"), timeout="60s", retry=Retry(4, wait="10ms", on=(TimeoutError,)))
async def research(question: str, model: Model, execution: WorkerExecution) -> list[str]:
    reply = await model.ask(question, key=execution.idempotency_key)
    execution.charge(tokens=reply.tokens)
    return [reply.text]


@study.worker  # without writes=, a returned class is the fact of its name: insights
async def conclude(facts: list[str]) -> Insights:
    return Insights([fact.upper() for fact in facts])


async def main() -> None:
    async with CaseHub(study) as hub:
        case = await hub.start(study, question="shared memory")
        insights = (await case.completed())[Insights]  # typed
        print(insights.points)
        for failure in await case.log.query(WorkerExecutionFailed):
            print(f"attempt {failure.attempt} of {failure.worker}: {failure.error}: {failure.message}")
        print("tokens:", (await case.state()).spending.spent("case", "tokens"))


if __name__ == "__main__":
    asyncio.run(main())
