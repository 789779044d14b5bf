"""People in whole cases: a process that ends between any two events changes nothing that they see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from casehub import (
    CaseDefinition,
    CaseStatus,
    DefinitionAdopted,
    Event,
    HumanTask,
    TaskId,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
)
from casehub.adapters.codec import as_dict
from casehub.inputs import Claim, Comment, Complete, Decline, Release
from tests.engine.core import Core


def clinic() -> CaseDefinition:
    """Three people, one of whom is late, a second opinion that somebody declines, and a letter at the end."""
    d = CaseDefinition("clinic", goal="letter")

    @d.human_task(writes="history", on_expired="ignore")
    def take_history(patient: str) -> HumanTask[str]:
        return HumanTask(f"Ask {patient}", str, users=["ada"], due="1h", expires="2h")

    @d.human_task(writes="blood")
    def draw_blood(patient: str) -> HumanTask[float]:
        return HumanTask(f"Blood of {patient}", float, groups=["lab"], escalate="30m", escalate_to=["night"])

    @d.human_task(writes="opinion", on_declined="reroute")
    def second_opinion(blood: float) -> HumanTask[str]:
        return HumanTask(f"What of {blood}?", str, users=["joan", "grace"])

    @d.worker(writes="letter")
    async def write(opinion: str, blood: float) -> str:
        return f"{opinion} ({blood})"

    return d


Step = Callable[[Core], Any]
STEPS: tuple[Step, ...] = (
    lambda core: core.start(patient="Mary"),
    lambda core: core.take(Claim(task=TaskId("c/take_history/1"), by="user:ada")),
    lambda core: core.pass_time("45m"),
    lambda core: core.take(Comment(task=TaskId("c/draw_blood/1"), by="user:ada", text="hurry")),
    lambda core: core.take(Claim(task=TaskId("c/draw_blood/1"), by="user:bob", groups=("night",))),
    lambda core: core.pass_time("90m"),
    lambda core: core.take(Complete(task=TaskId("c/draw_blood/1"), by="user:bob", value=4.5)),
    lambda core: core.take(Decline(task=TaskId("c/second_opinion/1"), by="user:joan", reason="on leave")),
    lambda core: core.take(Claim(task=TaskId("c/second_opinion/1"), by="user:grace")),
    lambda core: core.take(Release(task=TaskId("c/second_opinion/1"), by="user:grace")),
    lambda core: core.take(Complete(task=TaskId("c/second_opinion/1"), by="user:grace", value="fine")),
    lambda core: core.run(),
)


def told(events: list[Event]) -> list[Any]:
    """What a log says, but for positions, causes, and what only a restart leaves."""
    found = []
    for event in events:
        if not isinstance(event, WorkerExecutionInterrupted | DefinitionAdopted | WorkerExecutionStarted):
            whole = as_dict(event)
            body = {name: value for name, value in whole["body"].items() if name not in ("attempt", "stamps")}
            found.append((whole["name"], whole["by"], whole["at"], body))
    return found


def played(restart: Callable[[int], bool]) -> Core:
    core = Core(clinic())
    for number, step in enumerate(STEPS):
        step(core)
        if restart(number) and not core.status.ended:
            core.crash()
    return core


def test_the_story_ends_as_it_should() -> None:
    core = played(lambda number: False)
    assert core.status is CaseStatus.COMPLETED
    assert core.facts == {"patient": "Mary", "blood": 4.5, "opinion": "fine", "letter": "fine (4.5)"}
    assert list(core.state.tasks.ended.values()) == [
        "EXPIRED by timer:task-expiry:c/take_history/1",
        "COMPLETED by user:bob",
        "COMPLETED by user:grace",
    ]


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_a_restart_after_any_step_leaves_the_log_that_there_is_without_it(at: int) -> None:
    assert told(played(lambda number: number == at).log) == told(played(lambda number: False).log)


def test_restarts_after_every_step_leave_the_log_that_there_is_without_them() -> None:
    assert told(played(lambda number: True).log) == told(played(lambda number: False).log)
