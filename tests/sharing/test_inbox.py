"""Any hub takes any input for any case: what is posted at one is answered by the one that works the case, once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import structlog
from pydantic import BaseModel

from casehub import (
    AnswerRefusedError,
    CaseDefinition,
    CaseEndedError,
    CaseHub,
    CaseStatus,
    FactsChangedError,
    HumanTask,
    IllegalTransitionError,
    InputRefusedError,
    SignalReceived,
    TaskRefusedError,
    WorkerExecutionCompleted,
)
from casehub.adapters.postgres import PostgresStore
from casehub.query import EventQuery
from tests.sharing.hubs import frozen, hub, until


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


meter = CaseDefinition("meter", goal="closed", signals={"pulse": int, "closed": bool})


@meter.worker(writes="reading")
async def read(pulse: int) -> int:
    return 2 * pulse


class Verdict(BaseModel):
    fine: bool
    why: str = ""


desk = CaseDefinition("desk", goal="letter")


@desk.human_task(writes="verdict")
def judge(amount: int) -> HumanTask[Verdict]:
    return HumanTask(f"Is {amount} fine?", Verdict, users=["ada", "joan"])


@desk.worker(writes="letter")
async def write(verdict: Verdict) -> str:
    return verdict.why


async def test_a_signal_at_one_hub_reaches_a_case_at_another_and_is_answered_by_its_turn(postgres_url: str) -> None:
    async with hub(postgres_url, meter) as one, hub(postgres_url, meter) as other:
        case = await one.start(meter, case_id="m")
        context = await other.case("m").signal(pulse=4, by="user:ada", wait="first_wave", timeout="30s")
        assert (context["pulse"], context["reading"]) == (4, 8)
        assert await other.case("m").status() is CaseStatus.WAITING
        (signal,) = await case.log.query(SignalReceived)
        assert signal.by == "user:ada"
        assert (await other.case("m").quiescent("30s"))["reading"] == 8
        waiting = asyncio.ensure_future(other.case("m").completed("30s"))
        await other.case("m").signal(closed=True)
        assert (await waiting)["closed"] is True
        assert (await case.completed("30s"))["closed"] is True


async def test_many_inputs_at_once_are_taken_once_each_in_whatever_order(postgres_url: str) -> None:
    async with hub(postgres_url, meter) as one, hub(postgres_url, meter) as other:
        case = await one.start(meter, case_id="m")
        await asyncio.gather(*((one, other)[n % 2].case("m").signal(pulse=n, by=f"user:{n}") for n in range(40)))
        signals = await case.log.query(SignalReceived)
        assert sorted(signal.by for signal in signals) == sorted(f"user:{n}" for n in range(40))


async def test_a_repeated_key_has_the_outcome_of_the_first(postgres_url: str) -> None:
    async with hub(postgres_url, meter) as one, hub(postgres_url, meter) as other:
        case = await one.start(meter, case_id="m")
        for each in (other, one, other):
            await each.case("m").signal(pulse=7, key="k")
        await asyncio.gather(*(other.case("m").signal(pulse=8, key="l") for _ in range(5)))
        assert len(await case.log.query(SignalReceived)) == 2


async def test_what_the_hub_that_has_the_case_refuses_is_raised_where_it_was_asked(postgres_url: str) -> None:
    async with hub(postgres_url, meter, desk) as one, hub(postgres_url, meter, desk) as other:
        await one.start(meter, case_id="m")
        with pytest.raises(IllegalTransitionError, match="'m'"):
            await other.case("m").resume()
        with pytest.raises(InputRefusedError, match="takes no signal 'puls'; did you mean 'pulse'"):
            await other.case("m").signal(puls=1)
        seen = (await other.case("m").context()).version
        await one.case("m").signal(pulse=1)
        with pytest.raises(FactsChangedError, match="'pulse'"):
            await other.case("m").signal(pulse=2, expected=seen)
        await other.case("m").suspend(by="user:ada", reason="lunch")
        assert await one.case("m").status() is CaseStatus.SUSPENDED
        await other.case("m").cancel(by="user:ada")
        with pytest.raises(CaseEndedError):
            await other.case("m").signal(pulse=1)

        await one.start(desk, case_id="d", amount=3)
        task = await until(lambda: _task(other))
        with pytest.raises(AnswerRefusedError) as unfit:
            await other.tasks.complete(task, {"fine": "perhaps"}, by="user:ada")
        assert list(unfit.value.fields) == ["fine"]
        with pytest.raises(TaskRefusedError):
            await other.tasks.claim(task, by="user:zoe", groups=[])
        claimed = await other.tasks.claim(task, by="user:ada")
        assert claimed.assignee == "ada"
        await other.tasks.complete(task, Verdict(fine=True, why="Naïve \U0001f427"), by="user:ada")
        assert (await other.case("d").completed("30s"))["letter"] == "Naïve \U0001f427"


async def _task(hub: CaseHub) -> str:
    return next((task.id for task in await hub.tasks.list()), "")


async def test_an_input_for_a_hub_that_is_frozen_is_taken_by_who_takes_over(postgres_url: str) -> None:
    async with hub(postgres_url, meter) as one, hub(postgres_url, meter) as other:
        case = await one.start(meter, case_id="m")
        with frozen(one):
            await other.case("m").signal(pulse=3)
            assert (await other.case("m").quiescent("30s"))["reading"] == 6
        await until(lambda: _held(one))
        assert len(await case.log.query(SignalReceived)) == 1
        assert len(await one.log.query(EventQuery(types=(WorkerExecutionCompleted.name,)))) == 1


async def _held(hub: CaseHub) -> bool:
    return isinstance(hub.store, PostgresStore) and hub.store.held


async def test_an_input_that_nobody_answers_says_so_and_stays_in_the_inbox(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("casehub.distant.PATIENCE", 0.1)
    async with hub(postgres_url, meter) as one, hub(postgres_url, meter) as other:
        case = await one.start(meter, case_id="m")

        async def nothing(tenant: str = "default") -> list[object]:
            return []

        monkeypatch.setattr(one.store, "posted", nothing)
        with pytest.raises(TimeoutError, match=r"has not answered within 0\.3 seconds; the input stays in the inbox"):
            await other.case("m").signal(pulse=3, key="k")
        monkeypatch.undo()

        async def taken() -> bool:
            return bool(await case.log.query(SignalReceived))

        await until(taken)
        await other.case("m").signal(pulse=3, key="k")
        assert len(await case.log.query(SignalReceived)) == 1


async def test_a_brake_that_is_pulled_at_one_hub_holds_the_cases_of_all_and_so_does_its_release(
    postgres_url: str,
) -> None:
    async with hub(postgres_url, meter) as one, hub(postgres_url, meter) as other:
        await one.start(meter, case_id="m")
        await other.start(meter, case_id="o")
        await one.brake.pull("meter", by="user:ada", reason="leak")

        async def held() -> bool:
            return bool(other.brake.on)

        await until(held)
        for case in ("m", "o"):
            await other.case(case).signal(pulse=1)
            assert await one.case(case).status() is CaseStatus.SUSPENDED
        assert await one.brake.release("meter") == 2
        for case in ("m", "o"):
            assert (await other.case(case).quiescent("30s"))["reading"] == 2
        await one.brake.pull(worker="read")

        async def suspended() -> bool:
            return bool(other.brake.workers)

        await until(suspended)
        await other.case("o").signal(pulse=3)
        assert (await other.case("o").context())["reading"] == 2
        await one.brake.release(worker="read")
        assert (await other.case("o").quiescent("30s"))["reading"] == 6
