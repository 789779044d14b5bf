"""`examples/travel.py`: the family votes on what is dear, whoever is silent abstains, and no vote counts twice."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from casehub import CaseStatus, ContextChanged, HumanTaskCreated, HumanTaskExpired
from casehub.testing import CaseTestKit
from examples.travel import Plan, Vote, holiday

FAMILY = ["ada", "ben", "cleo"]

PRINTED = """\
01 Jan plan: {'place': 'Iceland', 'price': 4400, 'why': '12 degrees'}
01 Jan votes: [{'yes': True, 'remark': ''}, {'yes': False, 'remark': ''}, {'yes': False, 'remark': ''}, {'yes': False, 'remark': ''}]
01 Jan rejected: ['Iceland']
01 Jan plan: {'place': 'Portugal', 'price': 2600, 'why': '27 degrees'}
03 Jan votes: [{'yes': True, 'remark': ''}, None, {'yes': True, 'remark': ''}, {'yes': False, 'remark': ''}]
03 Jan agreed: Portugal
Portugal for 2600
"""


async def answer(kit: CaseTestKit, **votes: bool) -> None:
    await kit.settle()
    for member, yes in votes.items():
        (task,) = await kit.hub.tasks.list(user=member)
        await kit.hub.tasks.complete(task.id, Vote(yes), by=f"user:{member}")
    await kit.settle()


def test_it_prints_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parent.parent.parent / "examples" / "travel.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTED


async def test_what_the_savings_allow_is_booked_without_a_vote() -> None:
    async with CaseTestKit(holiday) as kit:
        case = await kit.start(holiday, family=FAMILY, savings=10_000)
        assert (await case.completed())["booking"] == "Iceland for 3300"
        assert kit.events(None, HumanTaskCreated) == []


async def test_everybody_has_a_task_of_their_own_and_all_are_waited_for() -> None:
    async with CaseTestKit(holiday) as kit:
        case = await kit.start(holiday, family=FAMILY, savings=5_000)
        await answer(kit, ada=True, cleo=True)
        assert await case.status() is CaseStatus.WAITING
        assert [task.users for task in await kit.hub.tasks.list()] == [("ben",)]
        await answer(kit, ben=False)
        assert (await case.completed())["booking"] == "Iceland for 3300"


async def test_equal_votes_on_two_plans_are_counted_for_each_and_the_last_wish_is_always_left() -> None:
    async with CaseTestKit(holiday) as kit:
        case = await kit.start(holiday, family=FAMILY, savings=1_000)
        await answer(kit, ada=False, ben=False, cleo=True)
        await answer(kit, ada=False, ben=False, cleo=True)
        assert (await case.completed())["booking"] == "the garden for 0"
        plans = [event.facts["plan"] for event in kit.events(case, ContextChanged) if "plan" in event.facts]
        assert plans == [
            {"place": "Iceland", "price": 3300, "why": "12 degrees"},
            {"place": "Portugal", "price": 1950, "why": "27 degrees"},
            {"place": "the garden", "price": 0, "why": "rain"},
        ]


async def test_who_is_silent_for_two_days_abstains_and_nobody_at_all_is_no_majority() -> None:
    async with CaseTestKit(holiday) as kit:
        case = await kit.start(holiday, family=FAMILY, savings=5_000)
        await kit.advance("2d")
        assert len(kit.events(None, HumanTaskExpired)) == 3
        assert (await case.completed())[Plan] == Plan("Portugal", 1950, "27 degrees")  # which needs no vote
