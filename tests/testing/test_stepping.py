"""Stepping in the hub's own time, as the command line does it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from casehub import CaseDefinition, CaseHub, CaseStatus, InputRefusedError, SettingsError, WorkerScheduled, absent
from casehub.stepping import Stepper
from casehub.testing import Step


def claim() -> CaseDefinition:
    definition = CaseDefinition("claim", goal="decision", external={"stop": bool})

    @definition.worker(writes="words")
    async def extract(document: str) -> list[str]:
        await asyncio.sleep(0)
        return document.split()

    @definition.worker(writes="length")
    def measure(document: str) -> int:
        return len(document)

    @definition.worker(writes="decision", when=absent("stop"))
    async def decide(words: list[str], length: int) -> str:
        return f"{len(words)} of {length}"

    return definition


async def test_each_step_is_waited_for() -> None:
    definition = claim()
    async with CaseHub(definition) as hub:
        stepper = Stepper(hub)
        case = await stepper.start(definition, document="a b")
        assert await stepper.pending(case) == ("extract", "measure")
        steps: list[Step] = []
        while (step := await stepper.step(case)) is not None:
            steps.append(step)
        assert steps[0].chosen == ("extract", "measure")
        assert steps[-1].written == {"decision": "2 of 3"}
        assert {name: value for step in steps for name, value in step.written.items()} == {
            "words": ["a", "b"],
            "length": 3,
            "decision": "2 of 3",
        }
        versions = [event.version for step in steps for event in step.events]
        assert versions == list(range(versions[0], versions[-1] + 1))
        assert await case.status() is CaseStatus.COMPLETED


async def test_a_case_that_rests_has_no_step() -> None:
    definition = claim()
    async with CaseHub(definition) as hub:
        stepper = Stepper(hub)
        case = await stepper.start(definition, case_id="mine", document="a b")
        assert case.id == "mine"
        await case.signal(stop=True)
        while await stepper.step(case):
            pass
        assert await case.status() is CaseStatus.WAITING
        assert await stepper.pending(case) == ()
        await case.cancel()


async def test_nothing_fires_before_its_step_however_long_that_takes() -> None:
    definition = claim()
    async with CaseHub(definition) as hub:
        stepper = Stepper(hub)
        case = await stepper.start(definition, document="a b")
        for _ in range(100):
            await asyncio.sleep(0)
        assert await case.log.query(WorkerScheduled) == []
        await case.cancel()
        assert await stepper.step(case) is None


async def test_two_cases_are_stepped_apart() -> None:
    definition = claim()
    async with CaseHub(definition) as hub:
        stepper = Stepper(hub)
        one, two = [await stepper.start(definition, document="a") for _ in range(2)]
        assert await stepper.step(one) is not None
        assert await two.log.query(WorkerScheduled) == []
        await one.cancel()
        await two.cancel()


@pytest.mark.parametrize(
    ("definition", "facts", "error"),
    [("claim", {"documant": "a"}, InputRefusedError), ("clam", {"document": "a"}, SettingsError)],
)
async def test_what_the_hub_refuses_is_refused(definition: str, facts: dict[str, Any], error: type[Exception]) -> None:
    async with CaseHub(claim()) as hub:
        with pytest.raises(error):
            await Stepper(hub).start(definition, **facts)
