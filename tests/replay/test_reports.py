"""Reports, notes and bulks: what the engine makes of work that was done elsewhere, and of many inputs at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from casehub import (
    ABSENT,
    CaseDefinition,
    CaseEndedError,
    CaseHub,
    CaseStatus,
    ChoreographyLoopControl,
    ContextChanged,
    Event,
    GoalReached,
    InputRefusedError,
    Limits,
    SignalReceived,
    Verdict,
    WorkerExecutionCompleted,
    WorkerExecutionFailed,
    WorkerExecutionStarted,
    WorkerScheduled,
    absent,
)
from casehub.activities import ActivityRecorded
from casehub.engine.bulk import Entry, take_together
from casehub.engine.live import LiveCase
from casehub.events import CaseId
from casehub.feeding import LogLoopControl
from casehub.inputs import Input, Reported, Start, Write
from tests.engine.core import NOON, Core
from tests.staging import Away, Kept

ALL = frozenset({"knead", "bake"})


def baking(**options: Any) -> CaseDefinition:
    d = CaseDefinition("baking", signals=["flour", "burnt"], **options)

    @d.worker(writes="dough", when=absent("burnt"))
    async def knead(flour: int) -> int:
        return flour + 200

    @d.worker(writes=["bread", "crumbs"])
    async def bake(dough: int) -> dict[str, Any]:
        return {"bread": 1}

    return d


def held(**options: Any) -> Core:
    """A case with flour, whose bindings do not fire by themselves."""
    core = Core(baking(**options), loop=LogLoopControl(ChoreographyLoopControl(), ALL))
    core.start()
    core.signal(flour=500)
    return core


def note() -> ActivityRecorded:
    return ActivityRecorded(activity="Kneaded", logged_at=NOON)


def kinds(events: Sequence[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def report(binding: str, value: object, *notes: Event) -> Reported:
    return Reported(binding=binding, worker=binding, value=value, notes=notes)


# ---- reports


def test_a_held_binding_says_that_the_log_decides() -> None:
    core = held()
    assert core.running == []
    assert core.why("knead").verdict is Verdict.GATED
    assert "the log tells when it has run" in str(core.why("knead"))


def test_a_report_that_was_called_for_begins_and_ends_in_one_turn() -> None:
    core = held()
    events: list[Any] = core.take(report("knead", 700, note()))
    assert kinds(events) == [
        ActivityRecorded,
        WorkerScheduled,
        WorkerExecutionStarted,
        WorkerExecutionCompleted,
        ContextChanged,
    ]
    assert core.facts["dough"] == 700
    assert core.state.activations == {}
    assert events[1].activation == "c/knead/1"
    assert (events[3].by, events[4].by, events[4].cause) == ("worker:knead", "worker:knead", events[3].version)
    assert core.status is CaseStatus.WAITING


def test_a_report_is_refracted_as_a_run_is() -> None:
    core = held()
    core.take(report("knead", 700))
    assert kinds(core.take(report("knead", 800))) == [ContextChanged]  # nothing has changed that it reads
    core.signal(flour=600)
    assert WorkerScheduled in kinds(core.take(report("knead", 900)))


def test_a_report_that_nothing_called_for_writes_as_the_worker_and_makes_no_activation() -> None:
    core = held()
    core.signal(burnt=True)
    events: list[Any] = core.take(report("knead", 700, note()))
    assert kinds(events) == [ActivityRecorded, ContextChanged]
    assert (events[1].by, events[1].binding, events[1].facts) == ("worker:knead", "", {"dough": 700})
    assert core.take(report("knead", 700)) == []  # an equal value is no change


def test_a_report_of_several_facts_writes_and_deletes() -> None:
    core = held()
    core.take(report("bake", {"bread": 1, "crumbs": 9}))
    core.take(report("bake", {"bread": 2, "crumbs": ABSENT}))
    assert {name: core.facts.get(name) for name in ("bread", "crumbs")} == {"bread": 2, "crumbs": None}
    assert core.count(WorkerScheduled) == 0


def test_a_report_can_complete_its_case() -> None:
    core = held(goal="dough")
    events = core.take(report("knead", 700))
    assert GoalReached in kinds(events)
    assert core.status is CaseStatus.COMPLETED
    with pytest.raises(CaseEndedError):
        core.take(report("knead", 800))


def test_a_report_that_fits_no_fact_fails_where_it_was_called_for_and_is_refused_where_it_was_not() -> None:
    core = held()
    events = core.take(report("knead", "much", note()))
    assert kinds(events) == [ActivityRecorded, WorkerScheduled, WorkerExecutionStarted, WorkerExecutionFailed]
    before = core.state.version
    for value in ("much", {"dough": 1}):
        with pytest.raises(InputRefusedError):
            core.take(report("knead", value, note()))
    with pytest.raises(
        InputRefusedError, match="worker 'bake' is reported to have returned what it cannot: worker 'bake' returned int"
    ):
        core.take(report("bake", 3, note()))
    assert core.state.version == before


def test_no_limit_and_no_gate_stands_against_what_has_happened() -> None:
    core = held(limits=Limits(firings=1, firings_per_binding=1))
    for flour in (600, 700):
        core.signal(flour=flour)
        assert WorkerExecutionCompleted in kinds(core.take(report("knead", flour + 200)))


# ---- notes, and a case's own time


def test_notes_are_recorded_before_what_follows_and_alone_where_nothing_does() -> None:
    core = held()
    events = core.take(Write(signals=("flour",), facts={"flour": 501}, notes=(note(),)))
    assert kinds(events) == [ActivityRecorded, SignalReceived, ContextChanged]
    assert kinds(core.take(Write(signals=("flour",), facts={"flour": 501}, notes=(note(),)))) == [ActivityRecorded]


def test_a_note_is_not_recorded_when_its_input_is_refused() -> None:
    core = held(goal="dough")
    core.take(report("knead", 700))
    with pytest.raises(CaseEndedError):
        core.take(Write(facts={"flour": 1}, notes=(note(),)))
    assert core.count(ActivityRecorded) == 0


def test_a_cases_own_time_never_goes_back() -> None:
    core = held()
    core.now = NOON - timedelta(hours=1)
    events = core.signal(flour=501)
    assert {event.at for event in events} == {NOON}
    core.now = NOON + timedelta(hours=1)
    assert core.signal(flour=502)[0].at == NOON + timedelta(hours=1)


# ---- bulks


def always(live: LiveCase, input: Input) -> bool:
    return True


async def begun(hub: CaseHub, *cases: str) -> list[Entry]:
    return [Entry(Start(facts={}, at=NOON), pump=hub.begin("baking", CaseId(case))) for case in cases]


def flour(entry: Entry, amount: int) -> Entry:
    return Entry(Write(signals=("flour",), facts={"flour": amount}, at=NOON), pump=entry.pump)


async def test_a_bulk_takes_the_inputs_of_many_cases_in_one_commit() -> None:
    store = Kept()
    commits: list[int] = []
    store.before = lambda turns: commits.append(len(turns))
    async with CaseHub(baking(), store=store) as hub:
        a, b = await begun(hub, "a", "b")
        entries = [a, b, flour(b, 1), flour(a, 2), flour(b, 1)]
        await take_together(entries, hub.runtime, always)
        assert [entry.error for entry in entries] == [None] * 5
        assert [bool(entry.turn and entry.turn.events) for entry in entries] == [True, True, True, True, False]
        assert commits[0] == 4
        for case, dough in (("a", 202), ("b", 201)):  # what they start runs on
            assert (await hub.case(case).quiescent())["dough"] == dough
        assert (hub.runtime.pumping, hub.runtime.working) == (0, 0)


async def test_what_a_case_refuses_holds_up_what_comes_behind_it_in_that_case_alone() -> None:
    async with CaseHub(baking(), store=Kept()) as hub:
        a, b = await begun(hub, "a", "b")
        again = Entry(Start(facts={}, at=NOON), pump=a.pump)
        entries = [a, b, again, flour(a, 1), flour(b, 1)]
        await take_together(entries, hub.runtime, always)
        assert isinstance(again.error, InputRefusedError)
        assert [bool(entry.turn) for entry in entries] == [True, True, False, False, True]
        assert entries[3].error is None
        await hub.case("b").quiescent()


async def test_a_case_that_is_not_ready_or_is_being_worked_takes_nothing() -> None:
    store = Kept()
    async with CaseHub(baking(), store=store) as hub:
        a, b = await begun(hub, "a", "b")
        waiting = asyncio.Event()
        store.before = lambda turns: waiting.wait()
        b.pump.post(Start(facts={}, at=NOON))
        await asyncio.sleep(0)
        entries = [a, flour(a, 1), flour(b, 1)]
        taking = asyncio.ensure_future(
            take_together(entries, hub.runtime, lambda live, input: not isinstance(input, Write))
        )
        await asyncio.sleep(0)
        waiting.set()
        await taking
        assert [(bool(entry.turn), entry.error) for entry in entries] == [(True, None), (False, None), (False, None)]
        await b.pump.committed()


@pytest.mark.parametrize("lost", [False, True])
async def test_a_bulk_that_the_store_did_not_answer_is_taken_again_by_its_cases(lost: bool) -> None:
    store = Away(1, lost=lost)
    async with CaseHub(baking(), store=store) as hub:
        a, b = await begun(hub, "a", "b")
        entries = [a, b, flour(a, 1), flour(b, 2)]
        await take_together(entries, hub.runtime, always)
        assert all(entry.turn for entry in entries)
        for case, dough in (("a", 201), ("b", 202)):
            assert (await hub.case(case).quiescent())["dough"] == dough
            assert len([e for e in await store.load(CaseId(case)) if isinstance(e, SignalReceived)]) == 1
