"""The control blackboard: what it keeps, how stages behave at their edges, and what a definition may not say."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from blackboard_ext import (
    CasePlanModel,
    FocusChanged,
    NoteWritten,
    OscillationDetected,
    PlanItem,
    PlanItemAdded,
    PlanItemEvent,
    PlanItemObsolete,
    PlanningStrategyLoopControl,
    StageEvent,
    StageStatus,
)
from blackboard_ext.plan_state import PlanState
from blackboard_ext.strategies import (
    CheapestFirst,
    EverythingEligible,
    HighestPriority,
    LeastRecentlyFailed,
    OneAtATime,
)
from casehub import (
    ABSENT,
    Binding,
    CaseDefinition,
    CaseHub,
    CaseView,
    Defer,
    DefinitionError,
    Event,
    Limits,
    LoopControl,
    Permanent,
    SettingsError,
    WorkerExecutionCancelled,
    WorkerScheduled,
    present,
    reached,
)
from casehub.lifecycle import ActivationStatus
from casehub.spi import Answer
from casehub.testing import CaseTestKit, LoopControlContract
from tests.staging import Kept, idle


def three(**goal: object) -> CaseDefinition:
    """Three independent workers of different priority and cost."""
    d = CaseDefinition("three", goal="c", signals=["more"], **goal)  # type: ignore[arg-type]

    @d.worker(writes="a", priority=1, cost=3)
    async def first(x: int) -> int:
        return x

    @d.worker(writes="b", priority=5, cost=2)
    async def second(x: int) -> int:
        return x

    @d.worker(writes="c", priority=3, cost=1)
    async def third(x: int) -> int:
        return x

    return d


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        (EverythingEligible(), ["first", "second", "third"]),
        (OneAtATime(), ["first", "second", "third"]),
        (HighestPriority(), ["second", "third"]),
        (CheapestFirst(), ["third"]),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_a_strategy_decides_what_fires_and_in_which_order(strategy: object, order: list[str]) -> None:
    d = three()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:  # type: ignore[arg-type]
        case = await kit.start(d, x=1)
        await case.completed()
        assert [event.binding for event in kit.events(case, WorkerScheduled)] == order


async def test_history_changes_what_is_chosen() -> None:
    d = CaseDefinition("d", goal="done")

    @d.worker(writes="done")
    async def flaky(x: int) -> int:
        raise Permanent("out of order")

    @d.worker(writes="done", name="steady")
    async def steady(x: int) -> int:
        return x

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(LeastRecentlyFailed())) as kit:
        fired: list[list[str]] = []
        for number in range(2):
            case = await kit.start(d, x=number)
            await case.completed()
            fired.append([event.binding for event in kit.events(case, WorkerScheduled)])
        assert fired == [["flaky", "steady"], ["steady"]]


class Noting:
    """Writes on the plan, and waits."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        plan.note("asked", (plan.get("asked", int) or 0) + 1)
        plan.focus("patience", because="nothing is urgent")
        return Defer(after="1h")


async def test_what_a_strategy_writes_survives_a_restart_and_is_no_fact() -> None:
    d = three()
    store = Kept()
    loop = PlanningStrategyLoopControl(Noting())
    async with CaseHub(d, loop=loop, store=store) as hub:
        case = await hub.start(d, x=1)
        await idle()
        before = (await case.state()).control
        assert (before.focus, before.because, before.notes) == ("patience", "nothing is urgent", {"asked": 1})
        assert [item.binding for item in before.agenda()] == ["second", "third", "first"]
        assert dict(await case.context()) == {"x": 1}
    async with CaseHub(d, loop=loop, store=store) as hub:
        assert (await hub.case(case.id).state()).control == before


class OnlyFirst:
    """Moves everything up, and fires one binding."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        for binding in eligible:
            plan.prioritise(binding, 9)
        return [binding for binding in eligible if binding.name == "first"]


async def test_a_plan_is_true_again_after_the_case_was_worked_without_one() -> None:
    d = CaseDefinition("d", goal="end", signals=["x", "end"])
    going = asyncio.Event()

    @d.worker(writes="a")
    async def first(x: int) -> int:
        if x != 2:
            await going.wait()
        return x

    @d.worker(writes="b")
    async def second(x: int) -> int:
        return x

    store = Kept()
    planned = PlanningStrategyLoopControl(OnlyFirst())
    async with CaseHub(d, loop=planned, store=store) as hub:
        case = await hub.start(d, case_id="c", x=1)
        await idle()
        plan = (await case.state()).control
        assert {name: (item.id, item.status) for name, item in plan.items.items()} == {
            "first": ("c/first/1", ActivationStatus.RUNNING),
            "second": ("c/second/1", ActivationStatus.PENDING),
        }
    going.set()
    async with CaseHub(d, store=store) as hub:  # choreography: both run to their end
        await idle()
        assert sorted((await hub.case("c").state()).facts) == ["a", "b", "x"]
    async with CaseHub(d, loop=planned, store=store) as hub:
        case = hub.case("c")
        await case.signal(x=2)
        await idle()
        plan = (await case.state()).control
        assert {name: (item.id, item.priority) for name, item in plan.items.items()} == {"second": ("c/second/2", 9)}
        assert [(item.id, item.status) for item in plan.ended] == [("c/first/2", ActivationStatus.COMPLETED)]
    going.clear()
    async with CaseHub(d, store=store) as hub:
        await hub.case("c").signal(x=3)
        await idle()
    async with CaseHub(d, loop=planned, store=store) as hub:
        case = hub.case("c")
        await case.signal(x=4)  # `first` runs still, and `second` is eligible again
        await idle()
        plan = (await case.state()).control
        assert {name: (item.id, item.status) for name, item in plan.items.items()} == {
            "first": ("c/first/3", ActivationStatus.RUNNING),
            "second": ("c/second/4", ActivationStatus.PENDING),
        }


async def test_writes_of_an_answer_that_fails_are_discarded() -> None:
    class Broken:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            plan.note("half", "done")
            raise ValueError("no")

    d = three()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Broken())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert not kit.events(case, NoteWritten)
        assert (await case.state()).control.notes == {}


async def test_a_binding_that_is_eligible_no_more_leaves_the_agenda() -> None:
    class Later:
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return Defer(after="1h")

    d = CaseDefinition("d", goal="b", signals=["x", "y"])

    @d.worker(writes="b")
    async def needs_x(x: int) -> int:
        return x

    @d.worker(writes="c")
    async def needs_y(y: int) -> int:
        return y

    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(Later())) as kit:
        case = await kit.start(d, x=1, y=1)
        await kit.settle()
        await case.delete("x")
        await kit.settle()
        assert [event.binding for event in kit.events(case, PlanItemAdded)] == ["needs_x", "needs_y"]
        assert [event.binding for event in kit.events(case, PlanItemObsolete)] == ["needs_x"]


async def test_a_stage_that_becomes_active_after_its_items_settled_completes_at_once() -> None:
    d = CaseDefinition("d", goal="end", signals=["go", "end"])

    @d.worker(writes="a")
    async def work(x: int) -> int:
        return x

    d.milestone("worked", present("a"))
    d.stage("inner", "worked")
    d.stage("outer", "inner", entry=present("go"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert not kit.events(case, StageEvent)
        await case.signal(go=True)
        assert [(event.name, event.stage) for event in kit.events(case, StageEvent)] == [
            ("STAGE_ACTIVATED", "outer"),
            ("STAGE_ACTIVATED", "inner"),
            ("STAGE_COMPLETED", "inner"),
            ("STAGE_COMPLETED", "outer"),
        ]


async def test_a_stage_that_ends_takes_the_stages_within_it_along() -> None:
    d = CaseDefinition("d", goal="end", signals=["stop", "end"])

    @d.worker(writes="a")
    async def work(end: int) -> int:
        return end

    d.stage("inner", work)
    d.stage("outer", "inner", exit=present("stop"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d)
        await case.signal(stop=True)
        plan = (await case.state()).control
        assert plan.stages == {"outer": StageStatus.TERMINATED, "inner": StageStatus.TERMINATED}


async def test_bindings_that_go_round_are_reported_once() -> None:
    d = CaseDefinition("d", goal="end", signals=["end"], limits=Limits(firings=40))

    @d.worker(writes=("ping", "pong"), when=present("ping"))
    async def to_pong(ping: int) -> dict[str, object]:
        return {"ping": ABSENT, "pong": ping + 1}

    @d.worker(writes=("ping", "pong"), when=present("pong"))
    async def to_ping(pong: int) -> dict[str, object]:
        return {"pong": ABSENT, "ping": pong + 1}

    d.signals["ping"] = int
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible(), rounds=3)) as kit:
        case = await kit.start(d, ping=1)
        await kit.settle()
        (found,) = kit.events(case, OscillationDetected)
        assert set(found.cycle) == {"to_ping", "to_pong"}


async def test_without_the_opt_in_there_is_no_plan_and_no_stage_event() -> None:
    d = three()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        assert (await case.state()).control is None
        assert not kit.events(case, PlanItemEvent, StageEvent, FocusChanged)
        assert kit.events(case, Event)


@pytest.mark.parametrize(
    ("declare", "complaint"),
    [
        (lambda d: d.stage("s", "work"), "needs a loop control that works stages"),
        (lambda d: d.stage("s", "wrok"), "names 'wrok', which is no binding, milestone or stage; did you mean 'work'"),
        (lambda d: (d.stage("s", "work"), d.stage("t", "work")), "which stage 's' has"),
        (lambda d: (d.stage("s", "t"), d.stage("t", "s")), "lies within itself"),
        (lambda d: d.stage("s", "work", entry=reached("dnoe")), "waits for the milestone 'dnoe'; did you mean 'done'"),
        (lambda d: d.stage("s", optional=["work"]), "calls 'work' optional or a companion, which is no member"),
        (lambda d: d.goal("g", reached("dnoe")), "waits for the milestone 'dnoe'; did you mean 'done'"),
    ],
    ids=["no planning loop", "a typo", "two stages", "a ring", "a milestone", "optional", "a goal"],
)
def test_stages_that_can_never_work_are_refused(declare: object, complaint: str) -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    d.milestone("done", present("b"))
    declare(d)  # type: ignore[operator]
    with pytest.raises(DefinitionError, match=complaint):
        CaseHub(d)


def staged(gate: asyncio.Event, **options: Any) -> CaseDefinition:
    """A stage of a quick worker and one that waits, or that fails at once when the case says so."""
    d = CaseDefinition("staged", goal="end", signals=["end"])

    @d.worker(writes="quick")
    async def quick(x: int) -> int:
        return x

    @d.worker(writes="slow")
    async def slow(x: int) -> int:
        if x < 0:
            raise Permanent("below zero")
        await gate.wait()
        return x

    d.stage("work", quick, slow, **options)
    return d


@pytest.mark.parametrize(
    ("options", "x", "status", "cancelled"),
    [
        ({}, 1, StageStatus.ACTIVE, []),
        ({"optional": ["slow"]}, 1, StageStatus.COMPLETED, []),
        ({"companions": ["slow"]}, 1, StageStatus.COMPLETED, ["slow"]),
        ({"companions": ["slow"], "autocomplete": False}, 1, StageStatus.ACTIVE, []),
        ({}, -1, StageStatus.COMPLETED, []),
        ({"on_fault": "fault"}, -1, StageStatus.FAULTED, ["quick"]),
    ],
    ids=["required", "optional", "companion", "no autocomplete", "a fault settles", "a fault faults"],
)
async def test_each_option_of_a_stage_changes_how_it_ends(
    options: dict[str, Any], x: int, status: StageStatus, cancelled: list[str]
) -> None:
    d = staged(asyncio.Event(), **options)
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, x=x)
        await kit.settle()
        assert (await case.state()).control.stage("work") is status
        assert [event.binding for event in kit.events(case, WorkerExecutionCancelled)] == cancelled
        await case.kill()


def nested(**options: Any) -> CaseDefinition:
    """A worker that never ends in the stage `inner`, in `mid`, in `outer`, which has a worker of its own."""
    d = CaseDefinition("nested", goal="end", signals=["go", "stop", "end"])

    @d.worker(writes="a")
    async def endless(x: int) -> int:
        await asyncio.Event().wait()
        return x

    @d.worker(writes="b")
    async def own(go: int) -> int:
        if go < 0:
            raise Permanent("below zero")
        return go

    d.stage("inner", endless, exit=present("stop"))
    d.stage("mid", "inner")
    d.stage("outer", "mid", own, **options)
    return d


@pytest.mark.parametrize(
    ("options", "signals", "end"),
    [
        ({"exit": present("stop")}, {"stop": 1}, "TERMINATED"),
        ({"companions": ["mid"]}, {"go": 1}, "COMPLETED"),
        ({"on_fault": "fault"}, {"go": -1}, "FAULTED"),
    ],
    ids=["both exit at once", "a companion", "a fault"],
)
async def test_the_stages_within_one_that_ends_end_once_with_what_runs_in_them(
    options: dict[str, Any], signals: dict[str, Any], end: str
) -> None:
    async with CaseTestKit(d := nested(**options), loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        await case.signal(**signals)
        await kit.settle()
        assert [event.binding for event in kit.events(case, WorkerExecutionCancelled)] == ["endless"]
        assert [f"{event.name[6:]} {event.stage}" for event in kit.events(case, StageEvent)][3:] == [
            "TERMINATED inner",
            "TERMINATED mid",
            f"{end} outer",
        ]


async def test_an_optional_stage_is_not_entered_in_the_round_in_which_its_parent_ends_but_ends_with_it() -> None:
    d = CaseDefinition("d", goal="end", signals=["end"])

    @d.worker(writes="a")
    async def work(x: int) -> int:
        return x

    d.milestone("later", present("end"))
    d.stage("inner", "later", entry=present("a"))
    d.stage("outer", "inner", work, optional=["inner"])
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, x=1)
        await kit.settle()
        assert [f"{event.name[6:]} {event.stage}" for event in kit.events(case, StageEvent)] == [
            "ACTIVATED outer",
            "TERMINATED inner",
            "COMPLETED outer",
        ]


@pytest.mark.parametrize("seed", range(20))
async def test_the_order_of_declaration_never_matters(seed: int) -> None:
    d = CaseDefinition("d", goal="c")
    declarations: list[Any] = []

    async def one(x: int) -> int:
        return x

    async def two(a: int) -> int:
        return a

    async def three_(b: int) -> int:
        return b

    d.worker(writes="a", name="one")(one)
    d.worker(writes="b", name="two")(two)
    d.worker(writes="c", name="three")(three_)
    d.milestone("half", present("a"))
    declarations = [
        lambda: d.stage("first", "one"),
        lambda: d.stage("second", "two", entry=reached("half")),
        lambda: d.stage("third", "three", entry=present("b")),
        lambda: d.stage("all", "first", "second", "third"),
    ]
    random.Random(seed).shuffle(declarations)
    for declare in declarations:
        declare()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(EverythingEligible())) as kit:
        case = await kit.start(d, x=1)
        await case.completed()
        found = [f"{event.name[6:]} {event.stage}" for event in kit.events(case, StageEvent)]
        assert found == [
            "ACTIVATED all",
            "ACTIVATED first",
            "COMPLETED first",
            "ACTIVATED second",
            "COMPLETED second",
            "ACTIVATED third",
            "COMPLETED third",
            "COMPLETED all",
        ]


class TestTheContract(LoopControlContract):
    """The loop control of the extension keeps the contract of all loop controls."""

    def loop_control(self) -> LoopControl:
        return PlanningStrategyLoopControl(OneAtATime())


@pytest.mark.parametrize("rounds", [1, 11])
def test_rounds_that_a_plan_could_not_see_are_refused(rounds: int) -> None:
    with pytest.raises(SettingsError, match="from 2 to 10"):
        PlanningStrategyLoopControl(OneAtATime(), rounds=rounds)


def test_what_is_written_on_a_draft_is_on_it_alone_until_it_is_adopted() -> None:
    state = PlanState(items={"work": PlanItem("d/work/1", "work")}, notes={"old": 1})
    plan = CasePlanModel(state.view({}, {}))
    plan.note("before", 1)
    draft = plan.draft()
    draft.note("within", 2)
    draft.prioritise("work", 7)
    draft.set_aside("cost", 3)
    draft.focus("drafting")
    assert (draft.get("before", int), draft.get("within", int)) == (1, 2)
    assert (plan.get("within", int), plan.agenda[0].priority, plan.resources, plan.focused_on) == (None, 0, {}, "")
    assert len(plan.writes) == 1
    plan.adopt(draft)
    assert (plan.get("within", int), plan.agenda[0].priority, plan.focused_on) == (2, 7, "drafting")
    assert [event.name for event in plan.writes] == [
        "NOTE_WRITTEN",
        "NOTE_WRITTEN",
        "PLAN_ITEM_PRIORITISED",
        "RESOURCE_BUDGETED",
        "FOCUS_CHANGED",
    ]
