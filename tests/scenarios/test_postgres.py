"""A claim with a worker, people and cases of its own, in PostgreSQL, by one hub after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from casehub import CaseDefinition, CaseHub, HumanTask, SettingsError
from casehub.adapters.codec import as_dict
from casehub.events import CaseId, Event
from casehub.task_events import TaskId
from casehub.tasks import TaskQuery

visit = CaseDefinition("visit", goal="report")


@visit.human_task(writes="report")
def report(site: str) -> HumanTask[str]:
    return HumanTask(f"Go to {site}", str, users=["joan"])


claim = CaseDefinition("claim", goal="letter", signals={"urgent": bool})


@claim.worker(writes="risk")
async def assess(document: str) -> float:
    return len(document) / 100


@claim.sub_case(visit, name="inspect", writes="reports", takes="report")
def inspect(risk: float, sites: list[str]) -> list[dict[str, str]]:
    return [{"site": site} for site in sites]


@claim.human_task(writes="approval")
def approve(risk: float, reports: list[str]) -> HumanTask[bool]:
    return HumanTask(f"Approve {risk}: {'; '.join(reports)}?", bool, groups=["underwriters"])


@claim.worker(writes="letter")
async def write(document: str, approval: bool) -> str:
    return f"{document}: {'yes' if approval else 'no'}"


ANSWERS = (
    ("c/inspect/1.2/report/1", "no roof", "user:joan"),
    ("c/inspect/1.1/report/1", "fine", "user:joan"),
    ("c/approve/1", True, "user:ada"),
)


async def told(store: str) -> list[Any]:
    """Play the story, a new hub for each step; what the log says then, but for times."""
    async with CaseHub(claim, visit, store=store) as hub:
        case = await hub.start(claim, case_id="c", document="Naïve \U0001f427", sites=["Elm 1", "Oak 2"])
        await case.quiescent("10s")  # what a hub leaves running runs again, which the log says
    for number, (task, answer, who) in enumerate(ANSWERS):
        async with CaseHub(claim, visit, store=store) as hub:
            await _there(hub, task)
        async with CaseHub(claim, visit, store=store) as hub:
            for _ in range(2):  # asked again under its key it is not done twice
                await hub.tasks.claim(task, by=who, groups=["underwriters"], key=f"claim {number}")
        async with CaseHub(claim, visit, store=store) as hub:
            await hub.tasks.complete(task, answer, by=who, key=f"complete {number}")
            await hub.case(CaseId("c")).quiescent("10s")
    async with CaseHub(claim, visit, store=store) as hub:
        context = await hub.case(CaseId("c")).completed()
        assert context["letter"] == "Naïve \U0001f427: yes"
        assert list(await hub.tasks.list(user="ada", groups=["underwriters"])) == []
        logs = [await hub.store.load(CaseId(case)) for case in ("c", "c/inspect/1.1", "c/inspect/1.2")]
    return [[_without_time(event) for event in log] for log in logs]


async def _there(hub: CaseHub, task: str) -> None:
    """Wait for a task, two minutes at most."""
    for _ in range(12_000):
        if await hub.store.log.tasks(TaskQuery(task=TaskId(task))):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"there is no task {task}")


def _without_time(event: Event) -> Any:
    whole = as_dict(event)
    return {name: value for name, value in whole.items() if name not in ("seq", "at")}


async def test_a_claim_is_told_alike_by_sqlite_and_by_postgresql_over_restarts(
    postgres_url: str, tmp_path: Path
) -> None:
    expected = await told(f"sqlite:///{tmp_path}/cases.db")
    assert [log[-1]["name"] for log in expected] == ["CASE_COMPLETED"] * 3
    assert await told(postgres_url) == expected


@pytest.mark.parametrize("url", ["postgresql://me@host", "postgresql://me@host/db?schema=No"])
def test_a_url_that_can_never_work_is_refused_when_the_hub_is_made(url: str) -> None:
    with pytest.raises(SettingsError, match=r"names its database|small letters"):
        CaseHub(claim, visit, store=url)
