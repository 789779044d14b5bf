"""How stages live: entered, worked, held, ended, by criteria and by hand. Scenarios 66 to 80 of the design."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from blackboard_ext import (
    CasePlanModel,
    PlanItemAdded,
    PlanItemObsolete,
    PlanningStrategyLoopControl,
    StageActivated,
    StageEvent,
    StageFaulted,
    StageStatus,
    StageSuspended,
)
from blackboard_ext.plan_state import STAGE_TRANSITIONS
from blackboard_ext.steering import ALLOWED, EVENTS
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    Binding,
    Case,
    CaseDefinition,
    CaseEndedError,
    CaseHub,
    CaseStalled,
    CaseStatus,
    CaseView,
    Declined,
    Defer,
    Event,
    IllegalTransitionError,
    InputRefusedError,
    Permanent,
    SelectionDropped,
    WorkerExecutionCancelled,
    WorkerExecutionCompleted,
    WorkerScheduled,
    present,
    reached,
)
from casehub.explanation import Verdict
from casehub.feeding import LogLoopControl
from casehub.plan import PlanView
from casehub.spi import Answer
from casehub.stage import StageVerb
from casehub.testing import CaseTestKit
from tests.staging import Kept, idle

SIGNALS = ["go", "stop", "end", "phase", "more"]


def loop() -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(EverythingEligible())


def definition(name: str = "d", **options: Any) -> CaseDefinition:
    return CaseDefinition(name, goal="end", signals=SIGNALS, **options)


def works(d: CaseDefinition, name: str, *, gate: asyncio.Event | None = None, raising: Exception | None = None) -> str:
    """A worker that writes a fact of its own name, at once, when the gate opens, or never because it raises."""

    async def work(x: int) -> int:
        if gate is not None:
            await gate.wait()
        if raising is not None:
            raise raising
        return x

    d.worker(writes=f"{name}_done", name=name)(work)
    return name


def steps(kit: CaseTestKit, case: Case) -> list[str]:
    return [f"{event.name[6:]} {event.stage}" for event in kit.events(case, StageEvent)]


async def plan(case: Case) -> PlanView:
    found = await case.plan()
    assert found is not None
    return found


async def status(case: Case, stage: str) -> StageStatus:
    found: StageStatus = (await case.state()).control.stage(stage)
    return found


def fired(kit: CaseTestKit, case: Case) -> list[str]:
    return [event.binding for event in kit.events(case, WorkerScheduled)]


# ---- entry and exit (66 to 69)


async def test_an_exit_criterion_ends_a_stage_that_was_not_entered_and_its_parent_does_not_wait_for_it() -> None:
    d = definition()
    d.stage("inner", works(d, "work"), entry=present("phase"), exit=present("stop"))
    d.stage("outer", "inner", entry=present("go"))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await case.signal(stop=True)
        assert steps(kit, case) == [], "a stage within one that is not entered does not exist yet"
        await case.signal(go=True)
        assert steps(kit, case) == ["ACTIVATED outer", "TERMINATED inner", "COMPLETED outer"]
        await case.signal(phase="analysis")
        assert fired(kit, case) == []


async def test_a_stage_whose_entry_and_exit_hold_at_once_is_not_entered() -> None:
    d = definition()
    d.stage("s", works(d, "work"), entry=present("x"), exit=present("x"))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        assert steps(kit, case) == ["TERMINATED s"]
        assert fired(kit, case) == []


@pytest.mark.parametrize(
    "entry", [lambda phase: phase == "analysis", present("phase")], ids=["a function", "an expression"]
)
async def test_a_stage_is_entered_once_when_its_entry_criterion_holds(entry: Any) -> None:
    d = definition()
    d.stage("s", works(d, "work"), entry=entry, autocomplete=False)
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await case.signal(more=1)
        assert await status(case, "s") is StageStatus.PENDING
        await case.signal(phase="analysis")
        await case.signal(more=2)
        assert await status(case, "s") is StageStatus.ACTIVE
        assert steps(kit, case) == ["ACTIVATED s"]


async def test_a_manual_stage_stays_pending_until_somebody_activates_it() -> None:
    d = definition()
    d.stage("s", works(d, "work"), entry=present("go"), manual=True)
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        assert str((await case.explain("work"))[0]) == (
            "work: STAGE_INACTIVE - its stage 's' is PENDING, as its entry criterion present('go') does not hold"
        )
        with pytest.raises(IllegalTransitionError, match=r"its entry criterion present\('go'\) does not hold; bring"):
            await case.stage("s").activate()
        assert not (await plan(case)).stages["s"].enabled
        await case.signal(go=True)
        assert await status(case, "s") is StageStatus.PENDING
        assert (await plan(case)).stages["s"].enabled
        assert "is PENDING, and waits for somebody to activate it" in str((await case.explain("work"))[0])
        await case.stage("s").activate(by="user:ada", reason="ready")
        await kit.settle()
        (entered,) = kit.events(case, StageActivated)
        assert (entered.by, entered.reason) == ("user:ada", "ready")
        assert steps(kit, case) == ["ACTIVATED s", "COMPLETED s"]


async def test_a_case_whose_manual_stage_is_enabled_waits_for_somebody_instead_of_stalling() -> None:
    d = CaseDefinition("d", goal="work_done")
    d.stage("s", works(d, "work"), manual=True)
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        assert await case.status() is CaseStatus.WAITING
        await case.stage("s").activate()
        assert (await case.completed())["work_done"] == 1


async def test_a_case_that_ends_at_rest_does_not_while_a_stage_waits_for_somebody_and_does_after_its_stage_ended() -> (
    None
):
    d = CaseDefinition("d", at_quiescence=True)
    d.stage("s", works(d, "work"), manual=True)
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        assert await case.status() is CaseStatus.WAITING
        await case.stage("s").terminate()
        await case.completed()
        assert fired(kit, case) == []


async def test_an_exit_that_a_workers_output_brings_about_terminates_the_stage_once() -> None:
    gate = asyncio.Event()
    d = definition()
    d.stage("s", works(d, "quick"), works(d, "slow", gate=gate), exit=present("quick_done"))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.signal(more=1)
        assert steps(kit, case) == ["ACTIVATED s", "TERMINATED s"]
        assert [event.binding for event in kit.events(case, WorkerExecutionCancelled)] == ["slow"]


# ---- completion (70 to 73, 79, 80)


async def test_a_stage_completes_when_the_second_of_two_required_bindings_settles() -> None:
    gate = asyncio.Event()
    d = definition()
    d.stage("s", works(d, "first"), works(d, "second", gate=gate))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert steps(kit, case) == ["ACTIVATED s"]
        gate.set()
        await kit.settle()
        await case.signal(more=1)
        assert steps(kit, case) == ["ACTIVATED s", "COMPLETED s"]


@pytest.mark.parametrize("raising", [Permanent("broken"), Declined("not mine")], ids=["faulted", "rejected"])
async def test_a_required_item_that_faults_or_is_rejected_settles(raising: Exception) -> None:
    d = definition()
    d.stage("s", works(d, "work", raising=raising))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert steps(kit, case) == ["ACTIVATED s", "COMPLETED s"]


async def test_a_required_item_that_never_ran_keeps_its_stage_open() -> None:
    d = definition()

    @d.worker(writes="b")
    async def later(more: int) -> int:
        return more

    d.stage("s", works(d, "work"), later)
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert await status(case, "s") is StageStatus.ACTIVE
        await case.signal(more=1)
        await kit.settle()
        assert await status(case, "s") is StageStatus.COMPLETED


async def test_what_another_stage_requires_keeps_no_stage_open() -> None:
    """S102."""
    gate, d = asyncio.Event(), definition()
    d.stage("a", works(d, "slow", gate=gate))
    d.stage("b", works(d, "quick"))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert [await status(case, name) for name in "ab"] == [StageStatus.ACTIVE, StageStatus.COMPLETED]
        gate.set()
        await kit.settle()
        assert await status(case, "a") is StageStatus.COMPLETED


async def test_a_stage_that_requires_nothing_never_completes_by_itself() -> None:
    d = definition()
    d.stage("s", works(d, "work"), optional=["work"])
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert await status(case, "s") is StageStatus.ACTIVE
        await case.stage("s").complete()
        assert await status(case, "s") is StageStatus.COMPLETED


async def test_a_companion_is_not_waited_for_and_an_optional_one_goes_on() -> None:
    gate = asyncio.Event()
    d = definition()
    members = works(d, "work"), works(d, "beside", gate=gate), works(d, "maybe", gate=gate)
    d.stage("s", *members, companions=["beside"], optional=["maybe"])
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert await status(case, "s") is StageStatus.COMPLETED
        assert [event.binding for event in kit.events(case, WorkerExecutionCancelled)] == ["beside"]
        gate.set()
        await kit.settle()
        assert "maybe_done" in await case.context()


async def test_a_parent_completes_after_the_stage_that_it_requires() -> None:
    d = definition()
    d.stage("inner", works(d, "work"))
    d.stage("outer", "inner")
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert steps(kit, case) == ["ACTIVATED outer", "ACTIVATED inner", "COMPLETED inner", "COMPLETED outer"]


@pytest.mark.parametrize("active", [False, True], ids=["pending", "active"])
async def test_no_stage_stays_open_in_one_that_has_completed(active: bool) -> None:
    d = definition()
    d.stage("inner", works(d, "slow", gate=asyncio.Event()), entry=present("go"))
    d.stage("outer", "inner", works(d, "work", gate=(gate := asyncio.Event())), optional=["inner"])
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        if active:
            await case.signal(go=True)
        gate.set()
        await kit.settle()
        assert steps(kit, case)[-2:] == ["TERMINATED inner", "COMPLETED outer"]
        assert [event.binding for event in kit.events(case, WorkerExecutionCancelled)] == ["slow"] * active


async def test_an_optional_stage_that_completes_together_with_its_parent_completes_first() -> None:
    d = definition()
    d.milestone("both", present("work_done"))
    d.stage("inner", "both")
    d.stage("outer", "inner", works(d, "work"), optional=["inner"])
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert steps(kit, case)[-2:] == ["COMPLETED inner", "COMPLETED outer"]


# ---- nesting and gating (74, 78)


async def test_a_child_of_a_pending_parent_stays_pending() -> None:
    d = definition()
    d.stage("inner", works(d, "work"), autocomplete=False, manual=True)
    d.stage("outer", "inner", entry=present("go"))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        with pytest.raises(IllegalTransitionError, match="it lies in 'outer', which is PENDING; it has to be entered"):
            await case.stage("inner").activate()
        assert await status(case, "inner") is StageStatus.PENDING
        assert "its stage 'outer' is PENDING" in str((await case.explain("work"))[0])
        await case.signal(go=True)
        await case.stage("inner").activate()
        assert await status(case, "inner") is StageStatus.ACTIVE


async def test_a_binding_of_a_pending_stage_is_blocked_while_a_free_one_fires() -> None:
    d = definition()
    works(d, "free")
    d.stage("s", works(d, "staged"), entry=present("go"))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert fired(kit, case) == ["free"]
        assert (await case.explain("staged"))[0].verdict is Verdict.STAGE_INACTIVE
        await case.signal(go=True)
        await kit.settle()
        assert fired(kit, case) == ["free", "staged"]


async def test_a_gate_of_a_loop_controls_own_is_not_called_a_stage() -> None:
    class Careful(PlanningStrategyLoopControl):
        def over(self, structure: Any) -> PlanningStrategyLoopControl:
            return Careful(self.strategy, structure=structure)

        def gate(self, state: Any, binding: Binding) -> str | None:
            return "not on a Sunday"

    d = definition()
    d.stage("s", works(d, "work"), entry=present("go"))
    async with CaseTestKit(d, loop=Careful(EverythingEligible())) as kit:
        case = await kit.start(d, x=1)
        assert (await case.explain("work"))[0].verdict is Verdict.STAGE_INACTIVE
        await case.signal(go=True)
        await kit.settle()
        (said,) = await case.explain("work")
        assert (said.verdict, said.text) == (Verdict.GATED, "not on a Sunday")


# ---- suspension


async def test_a_suspended_stage_fires_nothing_takes_results_and_does_not_complete_until_it_is_resumed() -> None:
    gate = asyncio.Event()
    d = definition()

    @d.worker(writes="next")
    async def next_one(slow_done: int) -> int:
        return slow_done

    d.stage("inner", works(d, "slow", gate=gate), optional=["slow"])
    d.stage("outer", "inner", next_one, optional=["inner"])
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.stage("outer").suspend(by="user:ada", reason="holidays")
        (held,) = kit.events(case, StageSuspended)
        assert (held.by, held.reason) == ("user:ada", "holidays")
        gate.set()
        await kit.settle()
        assert "slow_done" in await case.context()
        assert fired(kit, case) == ["slow"]
        text = "next_one: STAGE_INACTIVE - its stage 'outer' is SUSPENDED; resume it"
        assert str((await case.explain("next_one"))[0]) == text
        await case.stage("outer").resume()
        await kit.settle()
        assert fired(kit, case) == ["slow", "next_one"]
        assert steps(kit, case)[2:] == ["SUSPENDED outer", "RESUMED outer", "TERMINATED inner", "COMPLETED outer"]


async def test_a_stage_that_has_all_it_requires_completes_when_it_is_resumed() -> None:
    gate = asyncio.Event()
    d = definition()
    d.stage("s", works(d, "slow", gate=gate))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await case.stage("s").suspend()
        gate.set()
        await kit.settle()
        assert await status(case, "s") is StageStatus.SUSPENDED
        with pytest.raises(
            IllegalTransitionError, match="it is SUSPENDED, and only a stage that is ACTIVE can; resume"
        ):
            await case.stage("s").complete()
        await case.stage("s").resume()
        assert steps(kit, case)[1:] == ["SUSPENDED s", "RESUMED s", "COMPLETED s"]


async def test_stages_within_a_suspended_one_are_neither_entered_nor_completed() -> None:
    gate = asyncio.Event()
    d = definition()
    d.stage("working", works(d, "slow", gate=gate))
    d.stage("coming", works(d, "work"), entry=present("go"))
    d.stage("mid", "working", "coming")
    d.stage("outer", "mid")
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.stage("outer").suspend()
        await case.signal(go=True)
        gate.set()
        await kit.settle()
        assert steps(kit, case)[3:] == ["SUSPENDED outer"]
        with pytest.raises(
            IllegalTransitionError, match="it lies in 'outer', which is SUSPENDED; resume that one first"
        ):
            await case.stage("working").complete()
        with pytest.raises(IllegalTransitionError, match="it lies in 'outer', which is SUSPENDED; resume it first"):
            await case.stage("coming").activate()
        await case.stage("outer").resume()
        await kit.settle()
        assert steps(kit, case)[4:] == [
            "RESUMED outer",
            "COMPLETED working",
            "ACTIVATED coming",
            "COMPLETED coming",
            "COMPLETED mid",
            "COMPLETED outer",
        ]


@pytest.mark.parametrize("stage", ["inner", "outer"])
async def test_an_exit_terminates_a_suspended_stage_and_those_within(stage: str) -> None:
    d = definition()
    d.stage("inner", works(d, "slow", gate=asyncio.Event()))
    d.stage("outer", "inner", exit=present("stop"))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.stage(stage).suspend()
        await case.signal(stop=True)
        assert steps(kit, case)[3:] == ["TERMINATED inner", "TERMINATED outer"]
        assert [event.binding for event in kit.events(case, WorkerExecutionCancelled)] == ["slow"]


async def test_a_pending_item_of_a_suspended_stage_leaves_the_agenda_and_comes_back() -> None:
    class Later:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return Defer(after="1h")

    d = definition()
    d.stage("s", works(d, "work"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Later())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.stage("s").suspend()
        assert not (await case.state()).control.agenda()
        assert len(kit.events(case, PlanItemObsolete)) == 1
        await case.stage("s").resume()
        await kit.settle()
        assert [event.binding for event in kit.events(case, PlanItemAdded)] == ["work", "work"]


async def test_a_choice_that_falls_into_a_suspension_is_dropped_and_made_anew_after_it() -> None:
    gate = asyncio.Event()

    class Slow:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            await gate.wait()
            return eligible

    d = CaseDefinition("d", goal="work_done")
    d.stage("s", works(d, "work"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Slow())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.stage("s").suspend()
        gate.set()
        await kit.settle()
        (dropped,) = kit.events(case, SelectionDropped)
        assert dropped.reason == "its stage 's' is SUSPENDED; resume it"
        assert await case.status() is CaseStatus.WAITING
        await case.stage("s").resume()
        assert (await case.completed())["work_done"] == 1


async def test_what_a_strategy_fires_does_not_have_it_asked_again_for_a_binding_that_a_stage_holds() -> None:
    asked: list[list[str]] = []

    class FirstOnly:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            asked.append([binding.name for binding in eligible])
            return [binding for binding in eligible if binding.name == "a"]

    d = definition()
    works(d, "a", gate=asyncio.Event())
    works(d, "b")
    d.stage("s", works(d, "held"), entry=present("go"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(FirstOnly())) as kit:
        await kit.start(d, x=1)
        await kit.settle()
        assert asked == [["a", "b"]]


async def test_a_suspended_stage_is_suspended_after_a_restart() -> None:
    gate = asyncio.Event()
    d = definition()
    d.stage("s", works(d, "work", gate=gate))
    store = Kept()
    async with CaseHub(d, loop=loop(), store=store) as hub:
        case = await hub.start(d, x=1)
        await case.stage("s").suspend()
        before = (await case.state()).control
    gate.set()
    async with CaseHub(d, loop=loop(), store=store) as hub:
        case = hub.case(case.id)
        await idle()
        assert (await case.state()).control.stages == before.stages == {"s": StageStatus.SUSPENDED}
        await case.stage("s").resume()
        assert await status(case, "s") is StageStatus.COMPLETED


# ---- by hand (68, 76, 77)


@pytest.mark.parametrize(
    ("verb", "end"), [("complete", "COMPLETED"), ("terminate", "TERMINATED"), ("fault", "FAULTED")]
)
async def test_a_stage_that_is_ended_by_hand_takes_along_what_is_in_it(verb: str, end: str) -> None:
    d = definition()
    d.stage("inner", works(d, "deep", gate=asyncio.Event()))
    d.stage("outer", "inner", works(d, "own", gate=asyncio.Event()))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await getattr(case.stage("outer"), verb)(by="user:ada", reason="enough")
        assert steps(kit, case)[2:] == ["TERMINATED inner", f"{end} outer"]
        inner, outer = kit.events(case, StageEvent)[2:]
        assert (outer.by, outer.reason) == ("user:ada", "enough")
        assert (inner.by, inner.reason) == ("user:ada", "its parent 'outer' ended")
        assert {event.binding for event in kit.events(case, WorkerExecutionCancelled)} == {"deep", "own"}
        await case.signal(more=1)
        assert fired(kit, case) == ["deep", "own"]


async def test_of_a_completion_and_a_termination_at_once_one_wins() -> None:
    d = definition()
    d.stage("s", works(d, "slow", gate=asyncio.Event()))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        stage = case.stage("s")
        done = await asyncio.gather(stage.complete(), stage.terminate(), return_exceptions=True)
        assert [type(each) for each in done] == [type(None), IllegalTransitionError]
        assert steps(kit, case) == ["ACTIVATED s", "COMPLETED s"]


async def test_a_fault_of_a_stage_that_has_ended_changes_nothing() -> None:
    d = definition()
    d.stage("done", works(d, "work"))
    d.stage("broken", works(d, "slow", gate=asyncio.Event()))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.stage("broken").fault(reason="no hope")
        before = kit.events(case)
        for stage, state in (("done", "COMPLETED"), ("broken", "FAULTED")):
            with pytest.raises(
                IllegalTransitionError, match=f"cannot fault its stage '{stage}': it is {state}, a terminal"
            ):
                await case.stage(stage).fault()
        assert kit.events(case) == before
        assert [event.stage for event in kit.events(case, StageFaulted)] == ["broken"]


async def test_a_repeated_key_steers_a_stage_once() -> None:
    d = definition()
    d.stage("s", works(d, "slow", gate=asyncio.Event()))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await case.stage("s").suspend(key="k")
        await case.stage("s").resume()
        await case.stage("s").suspend(key="k")
        assert steps(kit, case) == ["ACTIVATED s", "SUSPENDED s", "RESUMED s"]


async def test_a_verb_for_a_stage_that_is_none_names_the_nearest() -> None:
    d = definition()
    d.stage("intake", works(d, "work", gate=asyncio.Event()))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        with pytest.raises(InputRefusedError, match="no stage 'intaek'; did you mean 'intake'"):
            await case.stage("intaek").suspend()
        await case.kill()
        with pytest.raises(CaseEndedError, match="cannot suspend a stage"):
            await case.stage("intake").suspend()


async def test_a_loop_control_that_works_no_stages_refuses_to_steer_one() -> None:
    d = definition()
    works(d, "work")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, x=1)
        with pytest.raises(InputRefusedError, match="its loop control, ChoreographyLoopControl, works none; declare"):
            await case.stage("s").suspend()


async def test_a_stage_of_a_case_that_is_stepped_is_steered_like_any_other() -> None:
    d = definition()
    d.stage("s", works(d, "work"), manual=True)
    async with CaseTestKit(d, loop=loop(), step=True) as kit:
        case = await kit.start(d, x=1)
        await case.stage("s").activate()
        assert (await kit.step(case)).fired == ("work",)
        assert steps(kit, case) == ["ACTIVATED s", "COMPLETED s"]


def test_every_verb_takes_a_step_that_the_life_cycle_has() -> None:
    after = {
        StageVerb.COMPLETE: StageStatus.COMPLETED,
        StageVerb.TERMINATE: StageStatus.TERMINATED,
        StageVerb.FAULT: StageStatus.FAULTED,
        StageVerb.SUSPEND: StageStatus.SUSPENDED,
    }
    assert set(ALLOWED) == set(EVENTS) == set(StageVerb)
    steps_of_verbs = {
        (before, after.get(verb, StageStatus.ACTIVE)) for verb, allowed in ALLOWED.items() for before in allowed
    }
    assert steps_of_verbs == {(before, to) for before, tos in STAGE_TRANSITIONS.items() for to in tos}


async def test_two_who_watch_stages_each_see_every_step() -> None:
    d = definition()
    d.stage("s", works(d, "work", gate=(gate := asyncio.Event())))
    seen: list[list[str]] = [[], []]
    async with CaseTestKit(d, loop=loop()) as kit:

        @kit.hub.on(StageEvent)
        async def one(event: StageEvent) -> None:
            seen[0].append(event.name)

        @kit.hub.on(Event)
        async def other(event: Event) -> None:
            if isinstance(event, StageEvent):
                seen[1].append(event.name)

        case = await kit.start(d, x=1)
        await case.stage("s").suspend()
        await case.stage("s").resume()
        gate.set()
        await kit.settle()
        names = ["STAGE_ACTIVATED", "STAGE_SUSPENDED", "STAGE_RESUMED", "STAGE_COMPLETED"]
        assert seen == [names, names]


async def test_a_milestone_may_enter_a_stage_and_is_a_member_of_another() -> None:
    d = definition()
    d.milestone("half", present("work_done"))
    d.stage("first", works(d, "work"), "half")
    d.stage("second", works(d, "after"), entry=reached("half"))
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert steps(kit, case)[:3] == ["ACTIVATED first", "COMPLETED first", "ACTIVATED second"]
        assert [event.binding for event in kit.events(case, WorkerExecutionCompleted)] == ["work", "after"]


async def test_optional_work_that_a_completed_stage_left_running_is_called_off_when_its_parent_is_terminated() -> None:
    d = definition()
    d.stage("inner", works(d, "work"), works(d, "left", gate=asyncio.Event()), optional=["left"])
    d.stage("outer", "inner", exit=present("stop"), autocomplete=False)
    async with CaseTestKit(d, loop=loop()) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert await status(case, "inner") is StageStatus.COMPLETED
        assert not kit.events(case, WorkerExecutionCancelled)
        await case.signal(stop=True)
        (cancelled,) = kit.events(case, WorkerExecutionCancelled)
        assert (cancelled.binding, cancelled.reason) == ("left", "its parent 'outer' ended")


async def test_stages_are_worked_where_a_log_says_what_has_run() -> None:
    d = definition()
    d.stage("s", works(d, "told"), works(d, "free"), optional=["told"])
    async with CaseTestKit(d, loop=LogLoopControl(loop(), frozenset({"told"}))) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert fired(kit, case) == ["free"]
        assert steps(kit, case) == ["ACTIVATED s", "COMPLETED s"]


@pytest.mark.parametrize("verb", ["activate", "terminate"])
async def test_a_stage_that_changes_is_a_reason_to_ask_the_strategy_again(verb: str) -> None:
    d = CaseDefinition("d", goal="done", signals={"never": int})

    @d.worker(writes="done")
    async def free(x: int) -> int:
        return x

    d.milestone("reviewed", present("never"))
    d.stage("review", "reviewed", manual=True)
    asked: list[StageStatus] = []
    thought = asyncio.Event()
    thought.set()

    class WaitsForTheStage:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            asked.append(plan.stages["review"])
            await thought.wait()
            return () if plan.stages["review"] is StageStatus.PENDING else eligible

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(WaitsForTheStage())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert kit.events(case, CaseStalled)
        thought.clear()
        await case.stage("review").steer(StageVerb(verb))
        completed = asyncio.create_task(case.completed())
        await idle()
        assert not completed.done()  # it has stalled, and is being decided on again
        thought.set()
        assert (await completed)["done"] == 1
        assert len(asked) == 2
