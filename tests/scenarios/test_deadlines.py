"""Sub-cases and the time limits around them: what their workers are told, and when their people are asked no longer."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from casehub import (
    Case,
    CaseDefinition,
    CaseHub,
    CaseStarted,
    CaseStatus,
    Gate,
    HumanTask,
    HumanTaskCreated,
    Planned,
    SubCaseStarted,
    WorkerExecution,
    WorkerExecutionFinished,
)
from casehub.inputs import ChildEnded
from casehub.testing import CaseTestKit
from casehub.validation import build
from tests.engine.core import Core, names, of
from tests.staging import idle

DAY = 86_400.0


def look(told: dict[str, float | None], **options: Any) -> CaseDefinition:
    """A case of one worker, which notes until when it has, in seconds of the kit's clock."""
    d = CaseDefinition("look", goal="seen")

    @d.worker(writes="seen", **options)
    async def see(site: str, execution: WorkerExecution) -> str:
        told[execution.case.id] = execution.deadline
        return site

    return d


def signed(kind: str = "task", **options: Any) -> CaseDefinition:
    """A case that people are asked in: by a task, by a worker that runs, or by the gate of a planned action."""
    d = CaseDefinition("signed", goal="seen")
    if kind == "task":

        @d.human_task(writes="seen")
        def sign(site: str) -> HumanTask[str]:
            return HumanTask(f"Sign {site}", str, **options)

    elif kind == "question":

        @d.worker(writes="seen")
        async def asking(site: str, execution: WorkerExecution) -> str:
            return await execution.ask(HumanTask(f"Sign {site}", str, **options))

    else:

        async def act(action: str) -> str:
            return action

        @d.worker(writes="seen", gate=Gate(act, **options))
        async def plan(site: str) -> Planned[str]:
            return Planned(site)

    return d


def around(inner: CaseDefinition, name: str = "outer", writes: str = "seen", **options: Any) -> CaseDefinition:
    """A case that another one is a part of."""
    d = CaseDefinition(name, goal=writes)

    @d.sub_case(inner, name="go", writes=writes, **options)
    def go(site: str) -> dict[str, str]:
        return {"site": site}

    return d


async def asked(case: Case) -> timedelta | None:
    """After how long people are asked no longer, from when they were."""
    (created,) = await case.log.query(HumanTaskCreated)
    return None if created.expires is None else created.expires - created.at


@pytest.mark.parametrize(
    ("outer", "own", "until"),
    [("2d", None, 2 * DAY), ("2d", "1h", 3_600.0), ("1h", "2d", 3_600.0), (None, "1h", 3_600.0), (None, None, None)],
)
async def test_a_worker_of_a_sub_case_has_until_the_earlier_of_its_own_time_limit_and_that_of_its_parent(
    outer: str | None, own: str | None, until: float | None
) -> None:
    told: dict[str, float | None] = {}
    d = around(look(told, timeout=own), timeout=outer)
    async with CaseTestKit(d) as kit:
        await (await kit.start(d, site="Elm 1", case_id="c")).completed()
    assert told == {"c/go/1": until}


async def test_a_heartbeat_moves_a_workers_deadline_up_to_that_of_its_parent_and_no_further() -> None:
    told: list[float | None] = []
    inner = CaseDefinition("look", goal="seen")

    @inner.worker(writes="seen", timeout="90m")
    async def see(site: str, execution: WorkerExecution) -> str:
        for _ in range(3):
            execution.heartbeat()
            told.append(execution.deadline)
            await kit.clock.sleep("20m")
        return site

    d = around(inner, timeout="2h")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, site="Elm 1")
        await kit.advance("1h")
        await idle()
        assert await case.status() is CaseStatus.COMPLETED
    assert told == [5_400.0, 6_600.0, 7_200.0]


@pytest.mark.parametrize(("outermost", "middle", "until"), [("1d", "2d", DAY), ("2d", "1d", DAY), ("1d", None, DAY)])
async def test_what_is_a_part_of_a_part_has_until_the_earliest_of_all_time_limits_around_it(
    outermost: str, middle: str | None, until: float
) -> None:
    told: dict[str, float | None] = {}
    inner = CaseDefinition("inner", goal="signed")

    @inner.worker(writes="seen")
    async def see(site: str, execution: WorkerExecution) -> str:
        told[execution.case.id] = execution.deadline
        assert execution.case.deadline == execution.case.now + timedelta(seconds=until)
        return site

    @inner.human_task(writes="signed")
    def sign(seen: str) -> HumanTask[str]:
        return HumanTask(f"Sign {seen}", str)

    d = around(around(inner, "middle", writes="signed", timeout=middle), writes="signed", timeout=outermost)
    async with CaseTestKit(d) as kit:
        await kit.start(d, site="Elm 1", case_id="c")
        await idle()
        assert told == {"c/go/1/go/1": until}
        child = kit.hub.case("c/go/1/go/1")
        assert await asked(child) == timedelta(seconds=until)
        await kit.advance("1d")
        await idle()
        assert await child.status() is CaseStatus.CANCELLED
        assert await kit.hub.tasks.list() == []


@pytest.mark.parametrize("kind", ["task", "question", "gate"])
@pytest.mark.parametrize(
    ("outer", "own", "hours"), [("2h", None, 2), ("2h", "1h", 1), ("1h", "2h", 1), (None, None, None)]
)
async def test_people_of_a_sub_case_are_asked_until_the_earlier_of_their_own_deadline_and_that_of_its_parent(
    kind: str, outer: str | None, own: str | None, hours: float | None
) -> None:
    d = around(signed(kind, expires=own), timeout=outer)
    async with CaseTestKit(d) as kit:
        await kit.start(d, site="Elm 1", case_id="c")
        await idle()
        assert await asked(kit.hub.case("c/go/1")) == (None if hours is None else timedelta(hours=hours))


@pytest.mark.parametrize("options", [{"wait": False}, {"writes": "all", "takes": "seen", "need": 1, "rest": "keep"}])
async def test_what_may_outlive_its_activation_has_no_deadline_from_it(options: dict[str, Any]) -> None:
    middle = CaseDefinition("middle", goal="seen", signals={"seen": str})

    @middle.sub_case(signed(), name="go", **options)
    def go(site: str) -> list[dict[str, str]]:
        return [{"site": site}, {"site": site}]

    d = around(middle, timeout="1d")
    async with CaseTestKit(d) as kit:
        await kit.start(d, site="Elm 1", case_id="c")
        await idle()
        started = await kit.hub.case("c/go/1").log.query(SubCaseStarted)
        assert [event.deadline for event in started] == [None, None]
        assert await asked(kit.hub.case("c/go/1/go/1.1")) is None


async def test_what_a_sub_case_undoes_past_its_deadline_has_a_time_of_its_own() -> None:
    told: list[float | None] = []
    inner = CaseDefinition("inner", goal="paid", signals=["paid"])

    @inner.worker(writes="booked")
    async def book(site: str, execution: WorkerExecution) -> str:
        told.append(execution.deadline)
        return site

    @inner.worker(compensates=book, timeout="1h")
    async def cancel(booked: str, execution: WorkerExecution) -> None:
        told.append(execution.deadline)

    @inner.human_task(writes="key")
    def hand_over(site: str) -> HumanTask[str]:
        return HumanTask(f"Hand over the key of {site}", str)

    @inner.human_task(compensates=hand_over)
    def take_back(key: str) -> HumanTask[bool]:
        return HumanTask(f"Take back {key}", bool, expires="5d")

    d = CaseDefinition("outer", goal="never", signals=["never"])

    @d.sub_case(inner, name="go", timeout="1d")
    def go(site: str) -> dict[str, str]:
        return {"site": site}

    async with CaseTestKit(d) as kit:
        await kit.start(d, site="Elm 1", case_id="c")
        await idle()
        await kit.hub.tasks.complete("c/go/1/hand_over/1", "key 7", by="user:ada")
        await kit.advance("1d")
        await idle()
        (task,) = await kit.hub.tasks.list()
        assert task.expires == kit.clock.now() + timedelta(days=5)
        await kit.hub.tasks.complete(task.id, True, by="user:ada")
        await idle()
        assert await kit.hub.case("c/go/1").status() is CaseStatus.CANCELLED
    assert told == [DAY, DAY + 3_600]


@pytest.mark.parametrize(("late", "name"), [(0, "WORKER_EXECUTION_EXPIRED"), (-1, "WORKER_EXECUTION_FAILED")])
def test_a_sub_case_that_is_given_up_when_its_time_is_over_has_expired_though_its_end_comes_first(
    late: int, name: str
) -> None:
    core = Core(around(signed(), timeout="1d"))
    core.structure.children = {"signed": build(signed())}
    core.start(site="Elm 1")
    (started,) = of(core.log, SubCaseStarted)
    core.now = started.deadline + timedelta(seconds=late)
    core.take(ChildEnded(child=started.child, status=CaseStatus.FAULTED, reason="nobody signed"))
    assert names(of(core.log, WorkerExecutionFinished)) == [name]


async def test_a_fork_of_a_sub_case_is_nobodys_and_has_no_deadline() -> None:
    async with CaseTestKit(around(signed(), timeout="1d")) as kit:
        await kit.start("outer", site="Elm 1", case_id="c")
        await idle()
        child = kit.hub.case("c/go/1")
        assert (await child.state()).deadline == kit.clock.now() + timedelta(days=1)
        fork = await kit.hub.fork(child.id, fork_id="what-if")
        assert (await fork.state()).deadline is None


async def test_a_deadline_is_in_both_logs_and_outlives_the_process(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'cases.db'}"
    d = around(signed(), timeout="1d")
    async with CaseHub(d, store=store) as hub:
        case = await hub.start(d, site="Elm 1", case_id="c")
        await case.quiescent()
        (said,) = await case.log.query(SubCaseStarted)
        assert said.deadline == said.at + timedelta(days=1)
    async with CaseHub(d, store=store) as hub:
        child = hub.case("c/go/1")
        (started,) = await child.log.query(CaseStarted)
        assert started.deadline == said.deadline
        assert (await child.state()).deadline == said.deadline
        (task,) = await hub.tasks.list()
        assert task.expires == said.deadline
