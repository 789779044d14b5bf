"""Confidence: how sure the author of a fact is of it, from the worker to the log and back into conditions."""

from __future__ import annotations

from typing import Any

import pytest

from casehub import (
    ABSENT,
    CaseDefinition,
    CaseHub,
    Confident,
    ContextChanged,
    DefinitionError,
    FactError,
    WorkerExecutionCompleted,
    WorkerExecutionFailed,
    confident,
    deep_merge,
    first_writer_wins,
    last_writer_wins,
)
from casehub.adapters.sqlite import SQLiteStore
from casehub.testing import CaseTestKit
from tests.engine.core import Core, of


def guessing(**options: Any) -> CaseDefinition:
    d = CaseDefinition("guessing", goal="end", signals={"hint": int, "end": int})

    @d.worker(writes="guess", **options)
    async def think(question: str, hint: int = 0) -> Confident[int]:
        return Confident(hint, 0.25 + hint / 10)

    return d


def begun(definition: CaseDefinition) -> Core:
    core = Core(definition)
    core.start(question="?")
    return core


def test_a_worker_says_how_sure_it_is_and_the_log_and_the_context_have_it() -> None:
    core = begun(guessing())
    core.run()
    assert core.facts["guess"] == 0
    (changed,) = of(core.log, ContextChanged, binding="think")
    assert (changed.facts, changed.confidence) == ({"guess": 0}, {"guess": 0.25})
    (completed,) = of(core.log, WorkerExecutionCompleted)
    assert completed.confidence == 0.25
    context = core.live.view().context
    assert context.fact("guess").confidence == 0.25
    assert context.fact("question").confidence is None
    assert context["guess"] == 0


def test_each_of_several_facts_has_its_own_and_the_outcome_has_the_lowest() -> None:
    d = CaseDefinition("d", goal="end", signals=["end"])

    @d.worker(writes=("a", "b", "c", "gone"))
    async def think(question: str) -> dict[str, object]:
        return {"a": Confident("x", 0.5), "b": Confident(2, 1), "c": 3, "gone": Confident(ABSENT, 0.1)}

    core = begun(d)
    core.run()
    (changed,) = of(core.log, ContextChanged, binding="think")
    assert changed.confidence == {"a": 0.5, "b": 1.0}
    (completed,) = of(core.log, WorkerExecutionCompleted)
    assert completed.confidence == 0.1


def test_the_confidence_of_a_mapping_is_that_of_the_facts_that_have_none_of_their_own() -> None:
    d = CaseDefinition("d", goal="end", signals=["end"])

    @d.worker(writes=("a", "b"))
    async def think(question: str) -> Confident[dict[str, object]]:
        return Confident({"a": 1, "b": Confident(2, 0.9)}, 0.4)

    core = begun(d)
    core.run()
    (changed,) = of(core.log, ContextChanged, binding="think")
    assert changed.confidence == {"a": 0.4, "b": 0.9}


def test_an_outcome_may_be_sure_of_having_nothing_to_write() -> None:
    d = CaseDefinition("d", goal="end", signals=["end"])

    @d.worker(writes="a")
    async def think(question: str) -> Confident[int] | None:
        return Confident(None, 0.6)  # type: ignore[arg-type]  # what the test is about

    core = begun(d)
    core.run()
    (completed,) = of(core.log, WorkerExecutionCompleted)
    assert (completed.confidence, completed.wrote) == (0.6, ())
    assert not of(core.log, ContextChanged, binding="think")


@pytest.mark.parametrize("given", [-0.1, 1.1, float("nan"), float("inf"), True, "0.5", None])
def test_what_is_no_confidence_is_refused(given: Any) -> None:
    with pytest.raises(FactError, match=r"confidence .* is none; give a number from 0 .* to 1"):
        Confident(1, given)
    with pytest.raises(FactError, match="is none; give a number from 0"):
        confident("guess", given)


def test_a_worker_that_gives_none_that_is_one_fails_and_says_so() -> None:
    d = CaseDefinition("d", goal="end", signals=["end"])

    @d.worker(writes="a")
    async def think(question: str) -> Confident[int]:
        return Confident(1, 80)

    core = begun(d)
    core.run()
    failed = of(core.log, WorkerExecutionFailed)[0]
    assert "confidence 80 is none" in failed.message


def test_the_type_of_the_fact_is_that_of_the_value() -> None:
    d = CaseDefinition("d", goal="end", signals=["end"])

    @d.worker(writes="a")
    async def think(question: str) -> Confident[int] | Confident[str] | None:
        return Confident("x", 0.5)

    core = begun(d)
    assert core.structure.types["a"].annotation == int | str
    core.run()
    assert core.facts["a"] == "x"


def test_a_parameter_that_asks_for_a_confidence_is_refused_with_the_way_to_get_it() -> None:
    d = CaseDefinition("d", goal="end", signals=["end"])

    @d.worker(writes="a")
    async def think(question: Confident[str]) -> int:
        return 1

    with pytest.raises(DefinitionError, match=r"case\.context\.fact\(name\)\.confidence"):
        CaseHub(d)


# ---- what is a change


def test_an_equal_value_of_another_confidence_is_a_change_and_one_of_the_same_is_none() -> None:
    core = Core(CaseDefinition("d", goal="end", signals={"x": int, "end": int}))
    core.start()
    stamps: list[int] = []
    for sure in ({"x": 0.5}, {"x": 0.5}, {"x": 0.6}, {}, {}):
        core.write(signals=("x",), facts={"x": 1}, confidence=sure)
        assert core.state.facts["x"].confidence == sure.get("x")
        stamps.append(core.state.stamp("x"))
    first, again, surer, unsaid, last = stamps
    assert first == again < surer < unsaid == last


def test_who_reads_a_fact_runs_again_when_only_its_confidence_has_changed() -> None:
    d = CaseDefinition("d", goal="end", signals={"x": int, "end": int})

    @d.worker(writes="seen")
    async def look(x: int) -> int:
        return x

    core = Core(d)
    core.start()
    for sure in (0.5, 0.5, 0.6):
        core.write(signals=("x",), facts={"x": 1}, confidence={"x": sure})
        core.run()
    assert core.worked == ["look", "look"]


@pytest.mark.parametrize(
    ("merge", "theirs", "value", "confidence"),
    [
        (last_writer_wins, 0.3, {"a": 2}, 0.8),
        (last_writer_wins, 0.9, {"a": 2}, 0.8),
        (first_writer_wins, 0.9, {"b": 1}, 0.9),
        (deep_merge, 0.3, {"a": 2, "b": 1}, 0.3),
        (deep_merge, 0.9, {"a": 2, "b": 1}, 0.8),
        (lambda theirs, mine: {"c": 0}, 0.3, {"c": 0}, 0.3),
    ],
)
def test_a_merged_value_is_as_sure_as_the_less_sure_of_what_is_in_it(
    merge: Any, theirs: float, value: dict[str, int], confidence: float
) -> None:
    d = CaseDefinition("d", goal="end", signals={"x": dict[str, int], "end": int}, strict=False)

    @d.worker(writes="x", merge=merge)
    async def think(question: str) -> Confident[dict[str, int]]:
        return Confident({"a": 2}, 0.8)

    core = begun(d)
    core.write(signals=("x",), facts={"x": {"b": 1}}, confidence={"x": theirs})
    core.run()
    assert (core.facts["x"], core.state.facts["x"].confidence) == (value, confidence)


# ---- conditions


def test_a_guard_waits_until_the_fact_is_sure_enough() -> None:
    d = guessing()

    @d.worker(writes="end", when=confident("guess", 0.7))
    async def act(guess: int) -> int:
        return guess

    core = begun(d)
    core.run()
    assert "its guard confident('guess', 0.7) does not hold" in str(core.why("act"))
    core.signal(hint=5)
    core.run()
    assert core.facts["end"] == 5


@pytest.mark.parametrize(
    ("sure", "holds"), [({"x": 0.7}, True), ({"x": 0.69}, False), ({}, False), (None, False)], ids=str
)
def test_a_fact_that_is_not_there_or_has_no_confidence_is_not_sure_enough(
    sure: dict[str, float] | None, holds: bool
) -> None:
    d = CaseDefinition("d", goal="end", signals={"x": int, "end": int})
    d.milestone("sure", confident("x", 0.7))
    core = Core(d)
    core.start()
    if sure is not None:
        core.write(signals=("x",), facts={"x": 1}, confidence=sure)
    assert (core.state.milestone("sure").status == "ACHIEVED") is holds


# ---- from outside


async def test_a_start_and_a_signal_may_bring_a_confidence() -> None:
    d = CaseDefinition("d", goal="end", signals={"x": int, "end": int}, external={"y": int})

    @d.worker(writes="z")
    async def look(question: str) -> str:
        return question

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, question=Confident("?", 0.5))
        await case.signal(x=Confident(1, 0.25))
        assert await case.get_or_put("y", Confident(2, 0.75)) == 2
        assert {fact.name: fact.confidence for fact in (await case.context()).facts()} == {
            "question": 0.5,
            "z": None,
            "x": 0.25,
            "y": 0.75,
        }
        history = await case.facts("x").history()
        assert [fact.confidence for fact in history] == [0.25]


# ---- the log


async def test_the_log_is_asked_by_confidence(tmp_path: Any) -> None:
    d = guessing()
    async with CaseHub(d, store=SQLiteStore(tmp_path / "cases.db", synchronous="NORMAL")) as hub:
        case = await hub.start(d, question="?")
        for hint in (1, 3, 7):
            await case.signal(hint=hint, wait="quiescent")
        found = await case.log.query(WorkerExecutionCompleted, confidence_from=0.35, confidence_below=0.95)
        assert [event.confidence for event in found] == [0.35, 0.55]
        assert await case.log.count(WorkerExecutionCompleted, confidence_below=0.5) == {"WORKER_EXECUTION_COMPLETED": 2}
        facts = await case.log.query(ContextChanged, confidence_from=0.9)
        assert [event.facts for event in facts] == [{"guess": 7}]
        await case.kill()
