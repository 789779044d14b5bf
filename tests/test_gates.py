"""Gates: what a worker plans is passed by its risk policy, or held until people have approved it, and done once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from casehub import (
    ActionApproved,
    ActionEvent,
    ActionHeld,
    ActionPlanned,
    ActionRejected,
    CaseDefinition,
    CaseHub,
    CaseStalledError,
    CaseStatus,
    DefinitionError,
    Event,
    Gate,
    GateAnswer,
    HubClosedError,
    HumanTaskCancelled,
    HumanTaskCreated,
    InputRefusedError,
    Planned,
    Retry,
    SettingsError,
    TaskRefusedError,
    WorkerExecution,
    WorkerExecutionDeclined,
    WorkerExecutionFailed,
    WorkerExecutionStarted,
)
from casehub.testing import CaseTestKit


@dataclass
class Isolation:
    host: str
    hard: bool = False


class Firewall:
    """What isolates: it keeps the idempotency keys that it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []


def incident(firewall: Firewall, *, on_declined: str = "fault_item", **gate: Any) -> CaseDefinition:
    """A worker that plans to isolate a host, and what isolates it."""
    definition = CaseDefinition("incident", goal="isolated")

    @definition.resource
    async def wall() -> AsyncIterator[Firewall]:
        yield firewall

    async def isolate(action: Isolation, wall: Firewall, execution: WorkerExecution) -> str:
        wall.calls.append((action.host, execution.idempotency_key))
        return f"{action.host} is isolated"

    @definition.worker(writes="isolated", gate=Gate(isolate, **gate), on_declined=on_declined)
    async def respond(host: str) -> Planned[Isolation]:
        return Planned(Isolation(host), f"Isolate {host}")

    return definition


def names(events: list[Any]) -> list[str]:
    return [event.name for event in events]


def is_hard(action: Isolation) -> bool | str:
    return "it cuts everybody off" if action.host.startswith("db") else False


async def test_what_the_policy_passes_is_done_at_once() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, risk=is_hard)) as kit:
        case = await kit.start(definition, host="web-1")
        assert (await case.completed())["isolated"] == "web-1 is isolated"
        assert firewall.calls == [("web-1", "incident-1/respond/1")]
        assert names(kit.events(case, ActionEvent)) == ["ACTION_PLANNED", "ACTION_APPROVED"]
        assert kit.events(case, ActionApproved)[0].by == "engine"


async def test_what_the_policy_holds_waits_for_people_and_is_done_once_they_approve() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, risk=is_hard, groups=["secops"])) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        assert await case.status() is CaseStatus.WAITING
        assert firewall.calls == []
        (held,) = kit.events(case, ActionHeld)
        assert (held.reason, held.approvals) == ("it cuts everybody off", 1)
        (task,) = await kit.hub.tasks.list(groups=["secops"])
        assert task.title == "Isolate db-1"
        shown = await kit.hub.tasks.get(task.id)
        assert shown.facts["action"] == {"host": "db-1", "hard": False}
        assert shown.form["required"] == ["approved"]
        await kit.hub.tasks.complete(task.id, GateAnswer(approved=True), by="user:ada")
        assert (await case.completed())["isolated"] == "db-1 is isolated"
        assert firewall.calls == [("db-1", "incident-1/respond/1")]
        assert kit.events(case, ActionApproved)[0].approved_by == ("ada",)


async def test_who_is_against_it_rejects_it_with_the_reason() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, users=["ada", "joan"], approvals=2)) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        first, second = await kit.hub.tasks.list()
        assert [first.title, second.title] == ["Isolate db-1 (1 of 2)", "Isolate db-1 (2 of 2)"]
        await kit.hub.tasks.complete(first.id, {"approved": False, "reason": "it is month's end"}, by="user:joan")
        with pytest.raises(CaseStalledError, match="month's end"):
            await case.completed()
        (declined,) = kit.events(case, WorkerExecutionDeclined)
        assert (declined.reason, declined.by) == ("it is month's end", "user:joan")
        assert kit.events(case, ActionRejected)[0].by == "user:joan"
        assert [event.task for event in kit.events(case, HumanTaskCancelled)] == [second.id]
        assert firewall.calls == []


async def test_declining_the_task_rejects_the_action() -> None:
    async with CaseTestKit(definition := incident(Firewall())) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await kit.hub.tasks.decline("incident-1/respond/1/gate-1", "not mine to say", by="user:ada")
        assert kit.events(case, WorkerExecutionDeclined)[0].reason == "not mine to say"


async def test_a_quorum_takes_as_many_people() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, approvals=2, groups=["secops"])) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        first, second = await kit.hub.tasks.list()
        await kit.hub.tasks.complete(first.id, {"approved": True}, by="user:ada")
        assert kit.events(case, ActionApproved) == []
        with pytest.raises(TaskRefusedError, match="ada has approved it once"):
            await kit.hub.tasks.complete(second.id, {"approved": True}, by="user:ada")
        await kit.hub.tasks.assign(second.id, "user:ada", by="user:boss")
        with pytest.raises(TaskRefusedError, match="takes others"):
            await kit.hub.tasks.complete(second.id, {"approved": True}, by="user:ada")
        await kit.hub.tasks.assign(second.id, "user:joan", by="user:boss")
        await kit.hub.tasks.complete(second.id, {"approved": True}, by="user:joan")
        await case.completed()
        assert kit.events(case, ActionApproved)[0].approved_by == ("ada", "joan")


async def test_who_has_approved_an_action_may_think_better_of_it_while_it_is_held() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, approvals=2)) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": True}, by="user:ada")
        await kit.hub.tasks.decline("incident-1/respond/1/gate-2", "I was wrong", by="user:ada")
        await kit.settle()
        assert [event.reason for event in kit.events(case, ActionRejected)] == ["I was wrong"]
        assert firewall.calls == []


async def test_what_nobody_approves_in_time_is_rejected() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, approvals=2, expires="4h")) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": True}, by="user:ada")
        await kit.advance("4h")
        assert kit.events(case, WorkerExecutionDeclined)[0].reason == "nobody approved it before its deadline"
        assert firewall.calls == []


async def fails(action: Isolation) -> bool:
    raise ConnectionError("no policy server")


def forgets(action: Isolation) -> bool:
    return None  # type: ignore[return-value]  # as code without types may


async def hangs(action: Isolation) -> bool:
    await asyncio.Event().wait()
    return False


async def cancels(action: Isolation) -> bool:
    raise asyncio.CancelledError


class Unreadable:
    def __repr__(self) -> str:
        raise ValueError("unreadable")


def confuses(action: Isolation) -> bool:
    return Unreadable()  # type: ignore[return-value]  # as code without types may


@pytest.mark.parametrize(
    ("risk", "reason"),
    [
        (cancels, "its risk policy was cancelled from within"),
        (confuses, "its risk policy raised ValueError: unreadable"),
        (fails, "its risk policy raised ConnectionError: no policy server"),
        (forgets, "its risk policy said None, no yes or no"),
        (hangs, "its risk policy took longer than 10s"),
        (lambda action: True, "it is risky"),
        (None, "every action is held"),
    ],
    ids=["is cancelled", "says what nobody can read", "raises", "says nothing", "takes too long", "says yes", "none"],
)
async def test_a_policy_that_does_not_say_no_holds(risk: Callable[[Isolation], Any] | None, reason: str) -> None:
    async with CaseTestKit(definition := incident(Firewall(), risk=risk, patience="10s")) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.advance("10s")
        assert kit.events(case, ActionApproved) == []
        assert [event.reason for event in kit.events(case, ActionHeld)] == [reason]


async def passes(action: Isolation) -> bool:
    await asyncio.sleep(0)
    return False


async def test_a_policy_may_await() -> None:
    async with CaseTestKit(definition := incident(Firewall(), risk=passes)) as kit:
        await (await kit.start(definition, host="db-1")).completed()


async def test_two_actions_held_at_once_are_both_held() -> None:
    done: list[str] = []
    definition = CaseDefinition("incident", goal="closed")

    async def act(action: str) -> str:
        done.append(action)
        return action

    @definition.worker(writes="blocked", gate=Gate(act, users=["ada"]))
    async def block(host: str) -> Planned[str]:
        return Planned(f"block {host}")

    @definition.worker(writes="wiped", gate=Gate(act, users=["ada"]))
    async def wipe(host: str) -> Planned[str]:
        return Planned(f"wipe {host}")

    @definition.worker(writes="closed")
    async def close(blocked: str, wiped: str) -> str:
        return "closed"

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        assert len(await kit.hub.tasks.list(user="ada")) == 2
        await kit.hub.tasks.complete("incident-1/wipe/1/gate-1", {"approved": True}, by="user:ada")
        await kit.settle()
        assert done == ["wipe db-1"]
        assert await case.status() is CaseStatus.WAITING
        await kit.hub.tasks.complete("incident-1/block/1/gate-1", {"approved": True}, by="user:ada")
        await case.completed()
        assert done == ["wipe db-1", "block db-1"]


async def test_a_performer_that_fails_is_tried_again_and_nothing_is_planned_again() -> None:
    definition = CaseDefinition("incident", goal="isolated")

    async def isolate(action: Isolation) -> str:
        raise NotImplementedError

    @definition.worker(writes="isolated", gate=Gate(isolate, users=["ada"]), retry=Retry(3, wait="1m", jitter=False))
    async def respond(host: str) -> Planned[Isolation]:
        return Planned(Isolation(host))

    async with CaseTestKit(definition) as kit:
        kit.script(respond, Planned(Isolation("db-1")))
        kit.script(isolate, ConnectionError(), ConnectionError(), "done")
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": True}, by="user:ada")
        await kit.advance("5m")
        assert (await case.completed())["isolated"] == "done"
        assert len(kit.events(case, ActionPlanned)) == 1


async def test_a_rejected_action_may_be_planned_again() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, on_declined="retry", users=["ada"])) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": False}, by="user:ada")
        await kit.advance("1m")
        (task,) = await kit.hub.tasks.list()
        assert task.id == "incident-1/respond/1/gate-1-2"
        await kit.hub.tasks.complete(task.id, {"approved": True}, by="user:ada")
        await case.completed()
        assert names(kit.events(case, ActionEvent)) == [
            "ACTION_PLANNED", "ACTION_HELD", "ACTION_REJECTED", "ACTION_PLANNED", "ACTION_HELD", "ACTION_APPROVED",
        ]  # fmt: skip


async def test_an_action_that_is_always_rejected_is_planned_as_often_as_retry_says() -> None:
    definition = CaseDefinition("incident", goal="isolated")
    retry = Retry(3, wait="1h", maximum="3h", factor=2, jitter=False)

    async def isolate(action: Isolation) -> str:
        return action.host

    @definition.worker(
        writes="isolated", gate=Gate(isolate, users=["ada"], expires="1d"), on_declined="retry", retry=retry
    )
    async def respond(host: str) -> Planned[Isolation]:
        return Planned(Isolation(host))

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.advance("9d")
        planned = [f"{event.at:%dT%H}" for event in kit.events(case, ActionPlanned)]
        assert planned == ["01T00", "02T01", "03T03"]
        assert await kit.hub.tasks.list() == []
        await case.cancel()


async def test_a_rejected_action_of_several_approvals_may_be_planned_again() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, on_declined="retry", approvals=2)) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": False}, by="user:ada")
        await kit.advance("1m")
        again = [task.id for task in await kit.hub.tasks.list()]
        assert again == ["incident-1/respond/1/gate-1-2", "incident-1/respond/1/gate-2-2"]
        await case.cancel()


async def test_what_is_approved_while_its_worker_is_suspended_is_done_once_that_is_resumed() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall)) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await kit.hub.brake.pull(worker="respond")
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": True}, by="user:ada")
        await kit.settle()
        assert firewall.calls == []
        await kit.restart()
        await kit.settle()
        assert firewall.calls == []
        await kit.hub.brake.release(worker="respond")
        await kit.hub.case(case.id).completed()
        assert len(firewall.calls) == 1


async def test_what_carries_an_action_out_asks_questions_of_its_own() -> None:
    definition = CaseDefinition("incident", goal="isolated")

    async def isolate(action: Isolation, execution: WorkerExecution) -> str:
        return f"{action.host} isolated, {await execution.ask(str)}"

    @definition.worker(writes="isolated", gate=Gate(isolate, users=["ada"]), on_declined="retry")
    async def respond(host: str, execution: WorkerExecution) -> Planned[Isolation]:
        return Planned(Isolation(f"{host}-{await execution.ask(int)}"))

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, host="db")
        await kit.settle()
        await kit.hub.tasks.complete("incident-1/respond/1/ask-1", 7, by="user:joan")
        await kit.settle()
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": False}, by="user:ada")
        await kit.advance("1m")  # it plans anew, and knows its answer
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1-2", {"approved": True}, by="user:ada")
        await kit.settle()
        await kit.hub.tasks.complete("incident-1/respond/1/ask-1", "by hand", by="user:joan")
        assert (await case.completed())["isolated"] == "db-7 isolated, by hand"


async def test_a_suspended_case_does_what_was_approved_once_it_is_resumed() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall)) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await case.suspend()
        await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": True}, by="user:ada")
        await kit.settle()
        assert firewall.calls == []
        await case.resume()
        await case.completed()
        assert len(firewall.calls) == 1


async def test_a_case_that_is_cancelled_calls_the_approval_off() -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall)) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        await case.cancel()
        assert len(kit.events(case, HumanTaskCancelled)) == 1
        assert kit.events(case, ActionRejected) == []
        with pytest.raises(TaskRefusedError):
            await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": True}, by="user:ada")


@pytest.mark.parametrize("kind", [ActionPlanned, ActionHeld, HumanTaskCreated, ActionApproved, WorkerExecutionStarted])
async def test_a_crash_at_any_point_does_what_was_approved_under_one_key(kind: type[Event]) -> None:
    firewall = Firewall()
    async with CaseTestKit(definition := incident(firewall, groups=["secops"])) as kit:
        kit.crash_after(kind)
        try:
            await kit.start(definition, case_id="incident-1", host="db-1")
        except HubClosedError:
            await kit.restart()
        await kit.settle()
        if kit.crashed:
            await kit.restart()
            await kit.settle()
        try:
            await kit.hub.tasks.complete("incident-1/respond/1/gate-1", {"approved": True}, by="user:ada", key="yes")
        except HubClosedError:
            await kit.restart()
        await kit.settle()
        assert await kit.hub.case("incident-1").status() is CaseStatus.COMPLETED
        assert firewall.calls == [("db-1", "incident-1/respond/1")]
        assert len(kit.events("incident-1", ActionPlanned)) == 1


async def test_an_action_held_in_sqlite_is_approved_and_done_in_another_process(tmp_path: Path) -> None:
    firewall = Firewall()
    store = f"sqlite:///{tmp_path / 'cases.db'}"
    async with CaseHub(definition := incident(firewall, approvals=2, groups=["secops"]), store=store) as hub:
        case = await hub.start(definition, case_id="i-1", host="db-1")
        await case.quiescent()
        await hub.tasks.complete("i-1/respond/1/gate-2", {"approved": True}, by="user:ada")
    async with CaseHub(incident(firewall, approvals=2, groups=["secops"]), store=store) as hub:
        (task,) = await hub.tasks.list(groups=["secops"])
        with pytest.raises(TaskRefusedError):
            await hub.tasks.complete(task.id, {"approved": True}, by="user:ada")
        await hub.tasks.complete(task.id, {"approved": True}, by="user:joan")
        assert (await hub.case("i-1").completed("5s"))["isolated"] == "db-1 is isolated"
    assert firewall.calls == [("db-1", "i-1/respond/1")]


async def test_a_case_whose_action_has_lost_its_gate_is_parked(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'cases.db'}"
    async with CaseHub(definition := incident(Firewall()), store=store) as hub:
        await (await hub.start(definition, case_id="i-1", host="db-1")).quiescent()
    changed = CaseDefinition("incident", goal="isolated")

    @changed.worker(writes="isolated")
    async def respond(host: str) -> str:
        raise AssertionError("nobody approved this")

    async with CaseHub(changed, store=store) as hub:
        with pytest.raises(InputRefusedError, match="lacks the gate of respond"):
            await hub.tasks.complete("i-1/respond/1/gate-1", {"approved": True}, by="user:ada")


async def test_a_worker_that_plans_cannot_return_what_only_carrying_out_comes_to() -> None:
    definition = CaseDefinition("incident", goal="isolated")

    async def isolate(action: Isolation) -> str:
        return action.host

    @definition.worker(writes="isolated", gate=Gate(isolate, risk=lambda action: False))
    async def respond(host: str) -> Planned[Isolation]:
        return "done already"  # type: ignore[return-value]  # as code without types may

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, host="db-1")
        await kit.settle()
        (failure,) = kit.events(case, WorkerExecutionFailed)
        assert "'respond' returned a str, and it plans actions; return Planned(action, title)" in failure.message
        assert "isolated" not in await case.context()
        await case.cancel()


async def test_a_worker_may_plan_nothing() -> None:
    definition = CaseDefinition("incident", at_quiescence=True)

    async def isolate(action: Isolation) -> str:
        return action.host

    @definition.worker(writes="isolated", gate=Gate(isolate))
    async def respond(host: str) -> Planned[Isolation] | None:
        return None

    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, host="db-1")
        assert "isolated" not in await case.completed()


# ---- what is refused


def test_a_planned_action_without_a_gate_is_refused() -> None:
    definition = CaseDefinition("incident", goal="isolated")

    @definition.worker(writes="isolated")
    async def respond(host: str) -> Planned[Isolation]:
        return Planned(Isolation(host))

    with pytest.raises(DefinitionError, match="nothing says who may approve it"):
        CaseHub(definition)


def test_a_gate_without_a_planned_action_is_refused() -> None:
    definition = CaseDefinition("incident", goal="isolated")

    async def isolate(action: Isolation) -> str:
        return action.host

    @definition.worker(writes="isolated", gate=Gate(isolate))
    async def respond(host: str) -> str:
        return host

    with pytest.raises(DefinitionError, match="names no planned action"):
        CaseHub(definition)


def test_what_carries_out_another_action_is_refused() -> None:
    definition = CaseDefinition("incident", goal="isolated")

    async def isolate(action: int) -> str:
        return str(action)

    @definition.worker(writes="isolated", gate=Gate(isolate))
    async def respond(host: str) -> Planned[Isolation]:
        return Planned(Isolation(host))

    with pytest.raises(DefinitionError, match="it plans Isolation, and isolate carries out int"):
        CaseHub(definition)


def test_a_policy_of_another_action_is_refused() -> None:
    definition = CaseDefinition("incident", goal="isolated")

    def is_long(action: str) -> bool:
        return len(action) > 3

    @definition.worker(writes="isolated", gate=Gate(isolate_it, risk=is_long))  # type: ignore[arg-type, unused-ignore]
    async def respond(host: str) -> Planned[Isolation]:
        return Planned(Isolation(host))

    with pytest.raises(DefinitionError, match="it plans Isolation, and is_long judges str"):
        CaseHub(definition)


def test_what_carries_an_action_out_may_read_no_facts() -> None:
    definition = CaseDefinition("incident", goal="isolated")

    async def isolate(action: Isolation, host: str) -> str:
        return host

    @definition.worker(writes="isolated", gate=Gate(isolate))
    async def respond(host: str) -> Planned[Isolation]:
        return Planned(Isolation(host))

    with pytest.raises(DefinitionError, match="reads the fact 'host'"):
        CaseHub(definition)


async def isolate_it(action: Isolation) -> str:
    return action.host


@pytest.mark.parametrize(
    ("options", "says"),
    [({"approvals": 0}, "from 1"), ({"users": ["ada"], "approvals": 2}, "only 1 users"), ({"escalate": "1h"}, "both")],
)
def test_a_gate_that_cannot_be_meant_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Gate(isolate_it, **options)
