"""Open cases go on under another version of their definition, or stay as they are with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from blackboard_ext import PlanningStrategyLoopControl, StageActivated
from blackboard_ext.strategies import OneAtATime
from casehub import (
    CaseDefinition,
    CaseHub,
    CaseStatus,
    DefinitionAdopted,
    GoalReached,
    HumanTask,
    MilestoneReached,
    SettingsError,
    present,
)


def claim(*, people: bool = True) -> CaseDefinition:
    """Somebody approves an amount; a note may come before."""
    d = CaseDefinition("claim", goal="approved", signals={"note": str})

    if people:

        @d.human_task(writes="approved")
        def approve(amount: int, note: str) -> HumanTask[bool]:
            return HumanTask(f"Pay {amount}?", bool)

    else:

        @d.worker(writes="approved")
        async def decide(amount: int, note: str) -> bool:
            return amount < 10

    return d


async def started(url: str) -> None:
    """`idle` waits for a note, `busy` for somebody's approval, `done` has ended."""
    d = claim()
    async with CaseHub(d, store=url) as hub:
        for id in ("idle", "busy", "done"):
            await hub.start(d, case_id=id, amount=3)
        await hub.case("busy").signal(note="urgent")
        await hub.case("done").cancel()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'cases.db'}"


async def test_a_dry_run_names_the_open_cases_of_another_version_and_changes_nothing(url: str) -> None:
    await started(url)
    now = claim(people=False)
    async with CaseHub(now, store=url, resume=False) as hub:
        position = await hub.log.position()
        found = {each.case: each for each in await hub.migrate(now, dry_run=True)}
        assert set(found) == {"idle", "busy"}
        assert found["idle"].refused == ""
        assert found["busy"].refused == (
            "its definition has changed and lacks approve, which is in flight; bring that back, or keep the version that "
            f"it has, {found['busy'].before}, beside the new one"
        )
        assert found["idle"].before != found["idle"].after == hub.structures["claim"].hash
        assert await hub.log.position() == position


async def test_those_that_can_adopt_it_and_the_others_stay_as_they_are(url: str) -> None:
    await started(url)
    now = claim(people=False)
    async with CaseHub(now, store=url, resume=False) as hub:
        assert {each.case: bool(each.refused) for each in await hub.migrate("claim")} == {"idle": False, "busy": True}
        assert len(await hub.case("idle").log.query(DefinitionAdopted)) == 1
        assert [each.case for each in await hub.migrate("claim")] == ["busy"]
        await hub.case("idle").signal(note="late")
        assert (await hub.case("idle").completed())["approved"] is True
    before = claim()
    async with CaseHub(before, store=url) as hub:  # what was there comes back
        assert await hub.migrate(before) == []
        assert await hub.case("busy").status() is CaseStatus.WAITING
        with pytest.raises(SettingsError, match="no definition 'clam'"):
            await hub.migrate("clam")


async def test_its_turn_tests_milestones_goals_and_stages_anew(url: str) -> None:
    await started(url)
    now = claim()
    now.milestone("known", present("amount"))
    now.goal("small", lambda amount: amount < 10)
    now.stage("deciding", "approve", entry=present("amount"))
    async with CaseHub(now, store=url, resume=False, loop=PlanningStrategyLoopControl(OneAtATime())) as hub:
        assert not [each for each in await hub.migrate(now) if each.refused]
        log = hub.case("idle").log
        (adopted,) = await log.query(DefinitionAdopted)
        follows = [*await log.query(MilestoneReached), *await log.query(GoalReached), *await log.query(StageActivated)]
        assert [event.envelope.turn for event in follows] == [adopted.envelope.turn] * 3
