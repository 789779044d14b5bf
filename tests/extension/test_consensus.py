"""Rounds to consensus: who speaks in which round, the private space, the cleaner, the decider, and the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from blackboard_ext import FocusChanged, NoteWritten, PlanningStrategyLoopControl
from blackboard_ext.strategies import RoundsToConsensus, Spaces
from casehub import (
    ABSENT,
    Binding,
    CaseContext,
    CaseDefinition,
    Declined,
    DeliberationFailed,
    DeliberationFinished,
    SettingsError,
    absent,
    present,
)
from casehub.testing import CaseTestKit


def debate(*, agreed: bool = False) -> CaseDefinition:
    """Two experts who disagree, until a resolver has written what both can live with."""
    d = CaseDefinition("debate", goal="decision", signals=["hurry"])

    @d.worker(writes="optimist")
    async def hopes(question: str, settled: int = 0) -> int:
        return settled or 9

    @d.worker(writes="pessimist")
    async def fears(question: str, settled: int = 0) -> int:
        return settled or (9 if agreed else 1)

    @d.worker(writes=("settled", "minutes"), when=absent("settled"))
    async def resolve(optimist: int, pessimist: int) -> dict[str, Any]:
        return {"settled": (optimist + pessimist) // 2, "minutes": "a long talk"}

    @d.worker(writes="minutes", when=present("minutes"))
    async def tidy(minutes: str) -> Any:
        return ABSENT

    @d.worker(writes="decision")
    async def decide(optimist: int, pessimist: int) -> int:
        if optimist != pessimist:
            raise Declined("they do not agree")
        return optimist

    return d


def disagree(context: CaseContext) -> Sequence[str]:
    said = context.get("optimist"), context.get("pessimist")
    return ("hopes", "fears") if None not in said and said[0] != said[1] else ()


def strategy(**options: Any) -> RoundsToConsensus:
    roles = {"resolver": "resolve", "cleaner": "tidy", "conflict": disagree}
    return RoundsToConsensus("decide", **{**roles, **options})


async def rounds(d: CaseDefinition, by: RoundsToConsensus) -> tuple[list[tuple[str, ...]], Any, dict[str, Any]]:
    """Who spoke in each round, how the case stands, and the plan."""
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(by)) as kit:
        case = await kit.start(d, question="will it rain?")
        await kit.settle()
        spoken = [event.chosen for event in kit.events(case, DeliberationFinished) if event.chosen]
        failed = [event.message for event in kit.events(case, DeliberationFailed)]
        plan = (await case.state()).control
        return spoken, (await case.context()).get("decision"), {"failed": failed, "plan": plan}


EXPERTS = ("hopes", "fears")
OPENLY: dict[str, Any] = {"rounds": 6, "resolver": "", "conflict": lambda context: ()}


@pytest.mark.parametrize(
    ("agreed", "options", "spoken"),
    [
        (False, {"rounds": 6}, [EXPERTS, ("resolve",), EXPERTS, ("tidy",), ("decide",)]),
        (True, {"rounds": 6}, [EXPERTS, ("decide",)]),
        (False, {"rounds": 3}, [EXPERTS, ("resolve",), EXPERTS, ("decide",)]),
        (False, OPENLY, [EXPERTS, ("resolve",), EXPERTS, ("tidy",), ("decide",)]),
        (False, {**OPENLY, "cleaner": ""}, [EXPERTS, ("resolve",), (*EXPERTS, "tidy"), ("decide",)]),
    ],
    ids=["they disagree", "they agree", "the rounds are over", "no resolver", "no cleaner"],
)
async def test_contributions_resolution_and_tidying_come_before_the_decision(
    agreed: bool, options: dict[str, Any], spoken: list[tuple[str, ...]]
) -> None:
    found = await rounds(debate(agreed=agreed), strategy(**options))
    assert found[:2] == (spoken, 9 if agreed else 5)


async def test_after_the_last_round_the_decider_alone_has_a_turn_and_then_the_case_stalls() -> None:
    d = debate()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy(rounds=1))) as kit:
        case = await kit.start(d, question="will it rain?")
        await kit.settle()
        finished = kit.events(case, DeliberationFinished)
        assert [event.chosen for event in finished] == [EXPERTS, ("decide",), ()]
        assert finished[-1].rationale == "no consensus after 1 rounds"
        assert "no consensus after 1 rounds" in str((await case.explain("resolve"))[0])


async def test_without_a_conflict_nobody_is_taken_aside() -> None:
    spoken, decision, found = await rounds(debate(), RoundsToConsensus("decide", resolver="resolve", cleaner="tidy"))
    assert (spoken, decision) == ([EXPERTS, ("decide",)], None)
    assert "private" not in found["plan"].notes


async def test_the_private_space_and_the_rounds_are_on_the_plan() -> None:
    d = debate()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy(rounds=6))) as kit:
        case = await kit.start(d, question="will it rain?")
        await kit.settle()
        private = [event.value for event in kit.events(case, NoteWritten) if event.key == "private"]
        assert private == [["hopes", "fears"], None]
        because = [event.because for event in kit.events(case, FocusChanged)]
        assert because[:2] == ["hopes, fears in public", "resolve in private about what hopes, fears wrote"]
        plan = (await case.state()).control
        assert plan.notes["rounds"] == [["hopes", "fears"], ["resolve"], ["hopes", "fears"], ["tidy"], ["decide"]]


async def test_a_selector_of_ones_own_reads_both_spaces() -> None:
    seen: list[tuple[int, list[str], tuple[str, ...], int]] = []

    async def last_first(spaces: Spaces, candidates: Sequence[Binding]) -> Sequence[str]:
        seen.append((spaces.round, sorted(spaces.public), spaces.private, len(spaces.spoke)))
        return [candidates[-1].name]

    spoken, _, _ = await rounds(debate(), strategy(selector=last_first, rounds=3))
    assert spoken[:3] == [("fears",), ("hopes",), ("resolve",)]
    assert seen[0] == (1, ["question"], (), 0)
    assert seen[2] == (3, ["optimist", "pessimist", "question"], ("hopes", "fears"), 2)


async def test_a_selector_that_has_nothing_to_add_leaves_it_to_the_decider() -> None:
    async def content(spaces: Spaces, candidates: Sequence[Binding]) -> Sequence[str]:
        return EXPERTS if spaces.round == 1 else ()

    spoken, decision, _ = await rounds(debate(agreed=True), strategy(selector=content))
    assert (spoken, decision) == ([EXPERTS, ("decide",)], 9)


async def test_a_selector_that_names_somebody_without_a_turn_is_an_error() -> None:
    async def confused(spaces: Spaces, candidates: Sequence[Binding]) -> Sequence[str]:
        return ["nobody"]

    spoken, _, found = await rounds(debate(), strategy(selector=confused))
    assert spoken == []
    assert found["failed"] == ["the selector of round 1 chose ['nobody'], who have no turn in it"]


async def test_a_round_ends_when_all_who_speak_in_it_have_ended() -> None:
    d = CaseDefinition("d", goal="decision", signals=["extra"])
    gate = asyncio.Event()

    @d.worker(writes="a")
    async def slow(question: str) -> int:
        await gate.wait()
        return 1

    @d.worker(writes="b")
    async def late(extra: int) -> int:
        return extra

    @d.worker(writes="decision")
    async def decide(a: int, b: int) -> int:
        return a + b

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(RoundsToConsensus("decide"))) as kit:
        case = await kit.start(d, question="?")
        await kit.settle()
        await case.signal(extra=1)
        await kit.settle()
        assert kit.events(case, DeliberationFinished)[-1].rationale == "round 1 is under way"
        gate.set()
        assert (await case.completed())["decision"] == 2
        spoken = [event.chosen for event in kit.events(case, DeliberationFinished) if event.chosen]
        assert spoken == [("slow",), ("late",), ("decide",)]


def test_less_than_one_round_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        RoundsToConsensus("decide", rounds=0)
