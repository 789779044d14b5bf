"""`examples/incident.py`: which actions pass by themselves, and which wait for people."""

from __future__ import annotations

import pytest

from casehub import WorkerExecutionStarted
from casehub.testing import CaseTestKit
from examples.incident import incident

ISOLATE = ["Isolate", "Isolate"]


@pytest.mark.parametrize(("attacker", "held"), [("203.0.113.9", ISOLATE), ("203.0.113.80", ["Block", *ISOLATE])])
async def test_an_address_that_others_share_is_blocked_by_people_only_and_logging_never_waits(
    attacker: str, held: list[str]
) -> None:
    async with CaseTestKit(incident) as kit:
        case = await kit.start(incident, host="web-1", attacker=attacker)
        await kit.settle()
        tasks = await kit.hub.tasks.list(user="ada", groups=["secops"])
        assert sorted(task.title.split()[0] for task in tasks) == held
        context = await case.context()
        assert context["logged"] == f"web-1 talked to {attacker}"
        assert ("blocked" in context) is ("Block" not in held)
        assert "isolated" not in context


async def test_an_isolation_that_somebody_rejects_is_not_done() -> None:
    async with CaseTestKit(incident) as kit:
        case = await kit.start(incident, host="web-1", attacker="203.0.113.9")
        await kit.settle()
        task = f"{case.id}/contain/1/gate-1"
        await kit.hub.tasks.complete(task, {"approved": False, "reason": "a drill"}, by="user:ada")
        await kit.settle()
        assert "isolated" not in await case.context()
        assert await kit.hub.tasks.list(user="joan", groups=["secops"]) == []


async def test_an_address_that_neither_model_nor_rules_know_is_looked_up_by_a_person() -> None:
    async with CaseTestKit(incident) as kit:
        case = await kit.start(incident, host="web-1", attacker="198.51.100.1")
        await kit.settle()
        (task,) = [each for each in await kit.hub.tasks.list() if each.binding == "look_up"]
        assert "blocked" not in await case.context()
        await kit.hub.tasks.complete(task.id, 0.2, by="user:ada")
        await kit.settle()
        assert (await case.context())["blocked"] == "198.51.100.1 is blocked"


async def test_a_model_that_keeps_failing_is_not_asked_until_it_is_released() -> None:
    async with CaseTestKit(incident) as kit:
        asked: list[list[str]] = []

        async def another() -> None:
            case = await kit.start(incident, host="web-1", attacker="203.0.113.9")
            await kit.settle()
            started = kit.events(case, WorkerExecutionStarted)
            asked.append([event.worker for event in started if event.binding == "enrich"])

        for _ in range(4):
            await another()
        await kit.advance("1h")
        await another()
        both = ["enrich_by_model", "enrich_by_rules"]
        assert asked == [both, both, both, ["enrich_by_rules"], both]
