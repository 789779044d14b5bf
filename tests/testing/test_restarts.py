"""The test kit's hub dies after an event and goes on as a new process would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest

from casehub import (
    Case,
    CaseCompleted,
    CaseDefinition,
    CaseStatus,
    ContextChanged,
    Event,
    HubClosedError,
    SettingsError,
    SignalReceived,
    TimerFired,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
    WorkerScheduled,
    every,
)
from casehub.testing import CaseTestKit, VirtualClock


class Model:
    """Something to open and to close."""


def chain(calls: list[str] | None = None) -> CaseDefinition:
    """Two workers, one after the other; `calls` gets who was called."""
    claim = CaseDefinition("claim", goal="decision", signals={"note": str, "other": str})
    called = [] if calls is None else calls

    @claim.worker(writes="entities")
    async def extract(document: str) -> list[str]:
        called.append("extract")
        return document.split()

    @claim.worker(writes="decision")
    async def decide(entities: list[str]) -> str:
        called.append("decide")
        return "approve"

    return claim


async def test_nothing_comes_after_the_commit_that_the_hub_dies_of() -> None:
    calls: list[str] = []
    heard: list[str] = []
    async with CaseTestKit(chain(calls)) as kit:

        @kit.hub.on()
        async def hear(event: Event) -> None:
            heard.append(event.name)

        kit.crash_after(WorkerScheduled, 2)
        case = await kit.start("claim", document="a b")
        with pytest.raises(HubClosedError):
            await case.completed()
        await kit.settle()
        assert kit.crashed
        assert calls == ["extract"]
        assert [event.name for event in kit.events(case)][-2:] == ["WORKER_SCHEDULED", "WORKER_EXECUTION_STARTED"]
        assert "WORKER_EXECUTION_COMPLETED" not in heard
        assert len(kit.events(case, WorkerScheduled)) == 2


async def test_a_new_hub_goes_on_where_the_log_ends_and_handles_stay_good() -> None:
    calls: list[str] = []
    async with CaseTestKit(chain(calls)) as kit:
        kit.crash_after("WORKER_SCHEDULED", 2)
        case = await kit.start("claim", document="a b")
        await kit.settle()
        dead = kit.hub
        await kit.restart()
        assert not kit.crashed
        assert kit.hub is not dead
        assert (await case.completed())["decision"] == "approve"
        assert calls == ["extract", "decide"]
        assert len(kit.events(case, WorkerExecutionInterrupted)) == 1


async def test_who_starts_a_case_of_which_the_hub_dies_is_not_answered() -> None:
    async with CaseTestKit(chain()) as kit:
        kit.crash_after(WorkerScheduled)
        with pytest.raises(HubClosedError):
            await kit.start("claim", document="a b")
        await kit.restart()
        assert (await kit.hub.case("claim-1").completed())["decision"] == "approve"


async def test_turns_behind_the_one_that_the_hub_dies_of_are_lost_with_their_batch() -> None:
    definition = CaseDefinition("notes", goal="never", signals={"note": str, "other": str, "never": str})
    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition)
        kit.crash_after(SignalReceived)
        async with anyio.create_task_group() as group:
            for name in ("note", "other"):
                group.start_soon(refused, case, name)
        await kit.restart()
        assert [event.signals for event in kit.events(case, SignalReceived)] == [("note",)]
        await case.signal(other="y")
        assert dict(await case.context()) == {"note": "x", "other": "y"}


async def refused(case: Case, name: str) -> None:
    with pytest.raises(HubClosedError):
        await case.signal({name: "x"})


async def test_what_runs_when_the_hub_dies_is_called_off_and_runs_again() -> None:
    claim = CaseDefinition("claim", goal="slow", signals={"note": str})
    clock: list[VirtualClock] = []
    ended: list[str] = []

    @claim.worker(writes="slow")
    async def work(document: str) -> str:
        try:
            await clock[0].sleep("1h")
        except asyncio.CancelledError:
            ended.append("called off")
            raise
        ended.append("done")
        return "done"

    async with CaseTestKit(claim) as kit:
        clock.append(kit.clock)
        case = await kit.start(claim, document="a")
        await kit.settle()
        kit.crash_after(ContextChanged)
        with pytest.raises(HubClosedError):
            await case.signal(note="hello")
        assert ended == ["called off"]
        await kit.restart()
        await kit.advance("1h")
        assert (await case.completed())["slow"] == "done"
        assert ended == ["called off", "done"]


async def test_scripts_go_on_where_they_were() -> None:
    async with CaseTestKit(claim := chain()) as kit:
        kit.script("extract", ["a"], ["b"])
        kit.crash_after(WorkerExecutionStarted, 2)
        first = await kit.start(claim, document="x")
        await kit.settle()
        await kit.restart()
        assert (await first.completed())["entities"] == ["a"]
        second = await kit.start(claim, document="x")
        assert (await second.completed())["entities"] == ["b"]


async def test_functions_that_listen_are_called_by_the_new_hub() -> None:
    live: list[str] = []
    durable: list[int] = []
    async with CaseTestKit(claim := chain()) as kit:

        @kit.hub.on(CaseCompleted)
        async def hear(event: CaseCompleted) -> None:
            live.append(event.case)

        @kit.hub.on(durable="audit")
        async def audit(event: Event) -> None:
            durable.append(event.seq)

        kit.crash_after(CaseCompleted)
        case = await kit.start(claim, document="x")
        await kit.settle()
        await kit.restart()
        await kit.settle()
        assert live == []  # it was not told before, and is told what comes from here on
        assert sorted(set(durable)) == list(range(1, len(kit.events(case)) + 1))
        await (await kit.start(claim, document="x")).completed()
        await kit.settle()
        assert live == ["claim-2"]


async def test_resources_are_opened_anew() -> None:
    claim = CaseDefinition("claim", goal="answer")
    said: list[str] = []

    @claim.resource
    async def model() -> AsyncIterator[Model]:
        said.append("open")
        yield Model()
        said.append("close")

    @claim.worker(writes="answer")
    async def ask(question: str, model: Model) -> str:
        return f"{question} 42"

    async with CaseTestKit(claim) as kit:
        await (await kit.start(claim, question="how many?")).completed()
        await kit.restart()
        await (await kit.start(claim, question="how many?")).completed()
    assert said == ["open", "close", "open", "close"]


async def test_a_stepped_case_stays_stepped() -> None:
    async with CaseTestKit(claim := chain()) as kit:
        case = await kit.start(claim, document="x", step=True)
        assert (await kit.step(case)).fired == ("extract",)
        await kit.restart()
        await kit.settle()
        assert kit.pending(case) == ("decide",)
        assert (await kit.step(case)).fired == ("decide",)


async def test_time_passes_while_no_hub_runs() -> None:
    definition = CaseDefinition("nightly", goal="never", signals={"never": str})

    @definition.worker(writes="report", on=every("1d", catch_up="once"))
    async def refresh() -> str:
        return "fresh"

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition)
        kit.crash_after(TimerFired)
        await kit.advance("5d")
        assert kit.crashed
        assert (
            kit.events(case, TimerFired)[0].at
            == kit.events(case)[0].at + (kit.clock.now() - kit.events(case)[0].at) / 5
        )
        await kit.restart()
        await kit.settle()
        assert (await case.context())["report"] == "fresh"


async def test_a_hub_that_lives_may_be_restarted_also_within_a_limit_of_time() -> None:
    async with CaseTestKit(claim := chain()) as kit:
        case = await kit.start(claim, document="x")
        with anyio.fail_after(120):
            await kit.restart()
        assert (await case.completed())["decision"] == "approve"
        assert await case.status() is CaseStatus.COMPLETED


async def test_a_crash_after_no_event_names_the_nearest() -> None:
    async with CaseTestKit(chain()) as kit:
        with pytest.raises(SettingsError, match="did you mean 'WORKER_SCHEDULED'"):
            kit.crash_after("WORKER_SHEDULED")
        with pytest.raises(SettingsError, match="from 1"):
            kit.crash_after(WorkerScheduled, 0)


async def test_a_crash_that_has_not_come_fails_the_test() -> None:
    async def told() -> None:
        async with CaseTestKit(chain()) as kit:
            kit.crash_after(WorkerScheduled, 3)
            await (await kit.start("claim", document="x")).completed()

    with pytest.raises(AssertionError, match=r"crash_after\(WorkerScheduled, 3\) has not come: the log has 2"):
        await told()


async def test_a_kit_may_be_left_with_its_hub_dead() -> None:
    async with CaseTestKit(chain()) as kit:
        kit.crash_after(WorkerScheduled, 2)
        await kit.start("claim", document="x")
        await kit.settle()
    with pytest.raises(HubClosedError):
        await kit.restart()
