"""What happens to a fact that changed while a worker ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from casehub import (
    ABSENT,
    CaseDefinition,
    ContextChanged,
    WorkerExecutionCompleted,
    WorkerExecutionFailed,
    deep_merge,
    fail,
    first_writer_wins,
    last_writer_wins,
)
from casehub.policies import Merge
from tests.engine.core import Core, of


def writing(merge: Merge | None = None) -> Core:
    """A case in which `work` runs and will write `out`, which is `{"base": 0}` so far."""
    d = CaseDefinition("d", signals=["out", "go"])
    options: dict[str, Any] = {} if merge is None else {"merge": merge}

    @d.worker(writes="out", **options)
    async def work(go: int) -> object:
        return None

    d.returned["work"] = Any
    core = Core(d)
    core.start(out={"base": 0}, go=1)
    assert core.running == ["work"]
    return core


def test_a_fact_that_was_there_before_the_worker_started_is_no_conflict() -> None:
    core = writing(fail)
    core.returns("work", {"mine": 1})
    assert core.facts["out"] == {"mine": 1}


def test_by_default_the_last_writer_wins() -> None:
    core = writing()
    core.signal(out={"theirs": 1})
    core.returns("work", {"mine": 1})
    assert core.facts["out"] == {"mine": 1}


@pytest.mark.parametrize(
    ("merge", "merged"),
    [
        (last_writer_wins, {"mine": 1}),
        (first_writer_wins, {"theirs": 1}),
        (deep_merge, {"theirs": 1, "mine": 1}),
        (lambda theirs, mine: [theirs, mine], [{"theirs": 1}, {"mine": 1}]),
    ],
)
def test_the_policy_decides_about_a_fact_that_changed_meanwhile(merge: Merge, merged: object) -> None:
    core = writing(merge)
    core.signal(out={"theirs": 1})
    core.returns("work", {"mine": 1})
    assert core.facts["out"] == merged


def test_fail_makes_the_attempt_fail_and_the_fact_stays() -> None:
    core = writing(fail)
    core.signal(out={"theirs": 1})
    events = core.returns("work", {"mine": 1})
    assert of(events, WorkerExecutionFailed)[0].error == "MergeConflictError"
    assert core.facts["out"] == {"theirs": 1}


def test_first_writer_wins_changes_nothing_and_completes() -> None:
    core = writing(first_writer_wins)
    core.signal(out={"theirs": 1})
    events = core.returns("work", {"mine": 1})
    assert of(events, WorkerExecutionCompleted)
    assert of(events, ContextChanged) == []


def test_deep_merge_joins_dictionaries_and_replaces_the_rest() -> None:
    theirs = {"a": {"x": 1, "y": [1]}, "b": 1}
    mine = {"a": {"y": [2], "z": 3}, "c": {"d": 4}}
    assert deep_merge(theirs, mine) == {"a": {"x": 1, "y": [2], "z": 3}, "b": 1, "c": {"d": 4}}
    assert theirs == {"a": {"x": 1, "y": [1]}, "b": 1}
    assert deep_merge([1], {"a": 1}) == {"a": 1}
    assert deep_merge({"a": 1}, "text") == "text"


def test_what_deep_merge_gives_shares_nothing_with_what_it_took() -> None:
    mine: dict[str, Any] = {"a": {"b": []}}
    merged: Any = deep_merge({"c": 1}, mine)
    merged["a"]["b"].append(1)
    assert mine == {"a": {"b": []}}


def test_a_conflict_that_only_hid_the_fact_merges_with_what_is_under_it() -> None:
    core = writing(deep_merge)
    core.write(hide=("out",))
    core.returns("work", {"mine": 1})
    assert core.facts["out"] == {"base": 0, "mine": 1}


def raising(theirs: Any, mine: Any) -> Any:
    return theirs["no such key"]


def changing(theirs: Any, mine: Any) -> Any:
    theirs.update(mine)
    return theirs


def test_a_merge_function_that_raises_fails_the_attempt_and_not_the_case() -> None:
    core = writing(raising)
    core.signal(out={"theirs": 1})
    events = core.returns("work", {"mine": 1})
    assert of(events, WorkerExecutionFailed)[0].error == "KeyError"
    assert not core.status.ended


def test_a_merge_function_that_changes_what_it_was_given_changes_no_history() -> None:
    core = writing(changing)
    core.signal(out={"theirs": 1})
    core.returns("work", {"mine": 1})
    assert core.facts["out"] == {"theirs": 1, "mine": 1}
    assert [event.facts.get("out") for event in of(core.log, ContextChanged)[1:]] == [
        {"theirs": 1},
        {"theirs": 1, "mine": 1},
    ]


@pytest.mark.parametrize("merged", [object(), float("nan"), {1: 2}, {1, 2}])
def test_what_a_merge_function_gives_must_be_a_value_like_any_other(merged: object) -> None:
    core = writing(lambda theirs, mine: merged)  # type: ignore[arg-type, return-value]  # on purpose
    core.signal(out={"theirs": 1})
    events = core.returns("work", {"mine": 1})
    assert of(events, WorkerExecutionFailed)[0].error == "FactError"
    assert core.facts["out"] == {"theirs": 1}


def test_what_a_merge_function_gives_must_fit_the_type_of_the_fact() -> None:
    d = CaseDefinition("d", signals={"n": int})

    @d.worker(writes="n", merge=lambda theirs, mine: "text")
    async def work(go: int) -> int:
        return 1

    core = Core(d)
    core.start(go=1)
    core.signal(n=5)
    events = core.returns("work", 7)
    assert of(events, WorkerExecutionFailed)[0].error == "FactError"
    assert core.facts["n"] == 5


@pytest.mark.parametrize(("merge", "left"), [(fail, {}), (first_writer_wins, {})])
def test_a_deletion_meanwhile_is_a_conflict_too(merge: Callable[[Any, Any], Any], left: dict[str, object]) -> None:
    core = writing(merge)
    core.delete("out")
    core.returns("work", {"mine": 1})
    assert core.facts == {"go": 1, **left}


@pytest.mark.parametrize("merge", [fail, first_writer_wins])
def test_deleting_what_changed_meanwhile_is_a_conflict_too(merge: Merge) -> None:
    d = CaseDefinition("d", signals=["out", "go"])

    @d.worker(writes=["out"], merge=merge)
    async def work(go: int) -> dict[str, object]:
        return {"out": ABSENT}

    core = Core(d)
    core.start(out=1, go=1)
    core.signal(out=2)
    core.returns("work", {"out": ABSENT})
    assert core.facts["out"] == 2
