"""Workers that ask people, and whose actions people approve, in cases whose process ends between any two of their events."""

from __future__ import annotations

import pytest

from casehub import (
    CaseDefinition,
    Declined,
    Gate,
    HumanTask,
    Planned,
    Retry,
    WorkerExecution,
)
from tests.scenarios.crashing import Step, between, played, told

CARRIED_OUT: list[tuple[str, str]] = []


async def isolate(action: str, execution: WorkerExecution) -> str:
    CARRIED_OUT.append((action, execution.idempotency_key))
    return f"{action} is isolated"


incident = CaseDefinition("incident", goal="closed")


@incident.worker(writes="scope")
async def ask_around(host: str, execution: WorkerExecution) -> str:
    try:
        owner = await execution.ask(HumanTask("Whose is it?", str, users=["ada"], expires="1d"), key="owner")
    except TimeoutError:
        owner = "nobody"
    try:
        use = await execution.ask(HumanTask("What is it for?", str, users=["ada"]), key="use")
    except Declined as error:
        use = str(error)
    return f"{owner}: {use}, {await execution.ask(int)} machines"


@incident.worker(
    writes="contained",
    gate=Gate(isolate, groups=["secops"], approvals=2, escalate="1d", escalate_to=["directors"]),
    on_declined="retry",
    retry=Retry(3, wait="1h", maximum="1h", jitter=False),
)
async def respond(host: str, scope: str) -> Planned[str]:
    return Planned(host, f"Isolate {host}")


@incident.human_task(writes="note", capability="noting")
def note(contained: str) -> HumanTask[str]:
    return HumanTask("What was it?", str, users=["ada", "joan"])


@incident.worker(writes="note", capability="noting")
async def guess(contained: str) -> str:
    return f"who knows: {contained}"


@incident.worker(writes="closed")
async def close(scope: str, note: str) -> str:
    return f"{scope}; {note}"


incident.binding("take_note", capability="noting", on_declined="reroute")

YES, NO = {"approved": True}, {"approved": False, "reason": "a drill"}
STEPS: tuple[Step, ...] = (
    lambda kit: kit.start(incident, case_id="i", host="db"),
    lambda kit: kit.advance("1d"),
    lambda kit: kit.hub.tasks.decline("i/ask_around/1/use", "a secret", by="user:ada", key="1"),
    lambda kit: kit.hub.tasks.complete("i/ask_around/1/ask-3", 2, by="user:joan", key="2"),
    lambda kit: kit.hub.tasks.complete("i/respond/1/gate-2", YES, by="user:ada", groups=["secops"], key="4"),
    lambda kit: kit.hub.tasks.complete("i/respond/1/gate-1", NO, by="user:joan", groups=["secops"], key="5"),
    lambda kit: kit.advance("1h"),
    lambda kit: kit.advance("1d"),
    lambda kit: kit.hub.tasks.complete("i/respond/1/gate-1-2", YES, by="user:grace", groups=["directors"], key="6"),
    lambda kit: kit.hub.tasks.complete("i/respond/1/gate-2-2", YES, by="user:ada", groups=["secops"], key="7"),
    lambda kit: kit.hub.tasks.decline("i/take_note/1", by="user:joan", key="8"),
    lambda kit: kit.hub.tasks.decline("i/take_note/1", by="user:ada", key="9"),
)
PASSES = (STEPS[1], STEPS[6], STEPS[7])
"""Time that has passed does not pass again."""


async def test_the_story_ends_as_it_should() -> None:
    CARRIED_OUT.clear()
    log = (await played(incident, STEPS))["i"]
    assert log[-1].name == "CASE_COMPLETED"
    names = [event.name for event in log]
    assert {"HUMAN_TASK_EXPIRED", "HUMAN_TASK_REJECTED", "HUMAN_TASK_ESCALATED", "ACTION_REJECTED"} <= set(names)
    assert CARRIED_OUT == [("db", "i/respond/1")]


@pytest.mark.slow
async def test_restarts_between_any_two_events_leave_the_log_that_there_is_without_them() -> None:
    whole = await played(incident, STEPS)
    expected = told(whole)
    for number in between(whole, "i"):
        CARRIED_OUT.clear()
        assert told(await played(incident, STEPS, (number,), passes=PASSES)) == expected, f"after event {number}"
        assert set(CARRIED_OUT) == {("db", "i/respond/1")}, f"after event {number}"
