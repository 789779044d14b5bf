"""A worker that keeps failing is left alone for a while, in every case of its definition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl
from casehub import (
    Answer,
    Binding,
    CaseDefinition,
    CaseHub,
    CaseStatus,
    CaseView,
    Declined,
    InputRefusedError,
    Quarantine,
    Retry,
    SettingsError,
    Verdict,
    WorkerExecutionStarted,
    WorkerQuarantined,
    WorkerReleased,
    WorkerScheduled,
    absent,
)
from casehub.adapters.clock import VirtualClock
from casehub.testing import CaseTestKit
from casehub.testing.scripts import repeat
from tests.staging import Kept, idle


class All:
    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible


broken: set[int] = set()


@pytest.fixture(autouse=True)
def nothing_broken() -> None:
    broken.clear()


def claim(name: str = "claim", **policy: Any) -> CaseDefinition:
    d = CaseDefinition(name, goal="risk")
    policy.setdefault("quarantine", Quarantine(3, within="10m", release="30m"))

    @d.worker(writes="risk", retry=Retry(1), **policy)
    async def assess(amount: int) -> int:
        if amount in broken:
            raise OSError("away")
        return amount

    return d


async def failing(kit: CaseTestKit, times: int, definition: str = "claim", every: str = "0s") -> None:
    """So many cases fail."""
    kit.script("assess", repeat(OSError("away")))
    for _ in range(times):
        await kit.start(definition, amount=1)
        await kit.advance(every)
    await kit.settle()


async def test_after_too_many_failures_in_several_cases_the_next_case_leaves_it_alone_until_its_release() -> None:
    d = claim()
    async with CaseTestKit(d) as kit:
        await failing(kit, 3)
        until = kit.clock.now() + timedelta(minutes=30)
        assert kit.hub.quarantine.held == {("claim", "assess"): until}
        kit.script("assess", 7)
        case = await kit.start(d, amount=2)
        await kit.settle()
        assert [event.name for event in kit.events(case)] == [
            "CASE_STARTED", "TIMER_SET", "WORKER_QUARANTINED", "CONTEXT_CHANGED", "CASE_STATUS_CHANGED",
        ]  # fmt: skip
        (said,) = await case.explain()
        assert said.verdict is Verdict.QUARANTINED
        assert said.text == "assess kept failing, and is quarantined until 2030-01-01 00:30:00Z"
        assert await case.status() is CaseStatus.WAITING
        await kit.advance("29m 59s")
        assert kit.events(case, WorkerExecutionStarted) == []
        await kit.advance("1s")
        assert (await case.completed())["risk"] == 7
        assert kit.events(case, WorkerReleased)[0].by == "timer:quarantine:assess"
        assert kit.hub.quarantine.held == {}


async def test_an_open_case_is_told_before_it_takes_anything_else() -> None:
    d = claim()
    d.signals = {"amount": int}
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await failing(kit, 3)
        await case.signal(amount=5)
        names = [event.name for event in kit.events(case)]
        assert names.index("WORKER_QUARANTINED") < names.index("SIGNAL_RECEIVED")
        assert kit.events(case, WorkerScheduled) == []


@pytest.mark.parametrize(
    ("policy", "every", "held"),
    [
        (Quarantine(3), "0s", True),
        (Quarantine(4), "0s", False),
        (Quarantine(3, within="10m"), "5m", True),
        (Quarantine(3, within="10m"), "6m", False),
        (None, "0s", False),
    ],
)
async def test_how_many_failures_within_how_long_are_too_many(
    policy: Quarantine | None, every: str, held: bool
) -> None:
    d = claim(quarantine=policy)
    async with CaseTestKit(d) as kit:
        await failing(kit, 3, every=every)
        assert bool(kit.hub.quarantine.held) is held


async def test_a_retry_counts_as_a_failure_and_declining_does_not() -> None:
    d = claim()
    async with CaseTestKit(d) as kit:
        kit.script("assess", repeat(Declined("not mine")))
        for _ in range(5):
            await kit.start(d, amount=1)
        await kit.settle()
        assert kit.hub.quarantine.held == {}
    again = CaseDefinition("claim", goal="risk")

    @again.worker(writes="risk", retry=Retry(3, wait="1s"), quarantine=Quarantine(3))
    async def assess(amount: int) -> int:
        raise OSError("away")

    async with CaseTestKit(again) as kit:
        await kit.start(again, amount=1)
        await kit.advance("1m")
        assert list(kit.hub.quarantine.held) == [("claim", "assess")]


async def test_a_quarantine_is_of_one_definition() -> None:
    one, other = claim(), claim("other")
    broken.add(1)
    async with CaseTestKit(one, other) as kit:
        for _ in range(3):
            await kit.start(one, amount=1)
        await kit.settle()
        assert list(kit.hub.quarantine.held) == [("claim", "assess")]
        assert (await (await kit.start(other, amount=2)).completed())["risk"] == 2


async def test_another_worker_of_the_capability_takes_over() -> None:
    d = CaseDefinition("claim", goal="risk")

    @d.worker(writes="risk", capability="rate")
    async def assess(amount: int) -> int:
        return amount

    @d.worker(writes="risk", capability="rate")
    async def guess(amount: int) -> int:
        return -amount

    d.binding("rate", capability="rate", retry=Retry(1), quarantine=Quarantine(3))
    async with CaseTestKit(d) as kit:
        await failing(kit, 3)
        case = await kit.start(d, amount=2)
        assert (await case.completed())["risk"] == -2
        assert kit.events(case, WorkerScheduled)[0].worker == "guess"


async def test_it_is_ended_before_its_time_in_every_case_that_it_holds_up() -> None:
    d = claim()
    store, clock = Kept(), VirtualClock()
    async with CaseHub(d, store=store, clock=clock, resident=1) as hub:
        broken.add(1)
        for _ in range(3):
            await hub.start(d, amount=1)
            await idle()
        held = [await hub.start(d, amount=2) for _ in range(5)]
        await idle()
        assert [await case.status() for case in held] == [CaseStatus.WAITING] * 5
        with pytest.raises(
            InputRefusedError, match="'assses' of definition 'claim' is not quarantined; did you mean 'assess'"
        ):
            await hub.quarantine.release("claim", "assses")
        await hub.quarantine.release("claim", "assess", by="user:ada", reason="it is back")
        assert [(await case.completed())["risk"] for case in held] == [2] * 5
        (event,) = await held[0].log.query(WorkerReleased)
        assert (event.by, event.reason) == ("user:ada", "it is back")
        with pytest.raises(InputRefusedError, match="is not quarantined; no worker of it is"):
            await hub.quarantine.release("claim", "assess")


async def test_a_case_that_it_holds_up_is_held_up_after_a_restart_too_and_released_in_time() -> None:
    d = claim()
    store, clock = Kept(), VirtualClock()
    async with CaseHub(d, store=store, clock=clock) as hub:
        broken.add(1)
        for _ in range(3):
            await hub.start(d, amount=1)
            await idle()
        await hub.start(d, case_id="x", amount=2)
    clock.move("29m")
    async with CaseHub(d, store=store, clock=clock) as hub:
        case, other = hub.case("x"), await hub.start(d, amount=2)
        await idle()
        assert (await case.explain())[0].verdict is Verdict.QUARANTINED
        assert (await other.explain())[0].verdict is Verdict.QUARANTINED  # a new one is left alone too
        clock.move("1m")
        assert (await case.completed())["risk"] == (await other.completed())["risk"] == 2
    async with CaseHub(d, store=store, clock=clock) as hub:
        assert hub.quarantine.held == {}


async def test_a_strategy_is_asked_again_at_its_release() -> None:
    d = claim()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(All())) as kit:
        await failing(kit, 3)
        kit.script("assess", 7)
        case = await kit.start(d, amount=2)
        await kit.settle()
        assert kit.events(case, WorkerScheduled) == []
        await kit.advance("31m")
        assert (await case.completed())["risk"] == 7


async def test_a_case_that_does_not_need_the_worker_does_not_wait_for_it() -> None:
    d = CaseDefinition("claim", at_quiescence=True)

    @d.worker(writes="risk", when=absent("quick"), retry=Retry(1), quarantine=Quarantine(3))
    async def assess(amount: int, quick: bool = False) -> int:
        raise OSError("away")

    async with CaseTestKit(d) as kit:
        for _ in range(3):
            await kit.start(d, amount=1)
        await kit.settle()
        case = await kit.start(d, amount=1, quick=True)
        await kit.settle()
        assert len(kit.events(case, WorkerQuarantined)) == 1
        assert await case.status() is CaseStatus.COMPLETED


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"failures": 1}, "failures=1\\): at least 2"),
        ({"within": "0s"}, "zero is none"),
        ({"release": "0s"}, "zero is none"),
        ({"release": "soon"}, "'soon' is not one"),
    ],
)
def test_a_quarantine_that_makes_no_sense_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        Quarantine(**options)
