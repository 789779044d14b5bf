"""`examples/incident.py`: which actions pass by themselves, and which wait for people."""

from __future__ import annotations

import pytest

from casehub.testing import CaseTestKit
from examples.incident import incident


@pytest.mark.parametrize(("shared", "held"), [(0.8, ["Isolate"] * 2), (0.9, ["Block"] + ["Isolate"] * 2)])
async def test_an_address_that_others_share_is_blocked_by_people_only_and_logging_never_waits(
    shared: float, held: list[str]
) -> None:
    async with CaseTestKit(incident) as kit:
        case = await kit.start(incident, host="web-1", attacker="203.0.113.9", shared=shared)
        await kit.settle()
        tasks = await kit.hub.tasks.list(user="ada", groups=["secops"])
        assert sorted(task.title.split()[0] for task in tasks) == held
        context = await case.context()
        assert context["logged"] == "web-1 talked to 203.0.113.9"
        assert ("blocked" in context) is (shared <= 0.8)
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
