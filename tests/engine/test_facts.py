"""The context as the turn changes it: one event a change, tombstones, hiding, clearing, equal values."""

from __future__ import annotations

import pytest

from casehub import (
    ABSENT,
    CaseDefinition,
    CaseEndedError,
    ContextChanged,
    Declined,
    SignalReceived,
    absent,
)
from casehub.inputs import Write
from casehub.policies import Retry
from tests.engine.core import NOON, Core, names, of


def open_case(**options: object) -> CaseDefinition:
    """A definition without workers that takes four facts."""
    return CaseDefinition("d", signals=["a", "b", "c", "d"], **options)  # type: ignore[arg-type]  # options by name


def test_a_signal_of_three_facts_is_one_change() -> None:
    core = Core(open_case())
    core.start()
    events = core.signal(a=1, b=2, c=3)
    assert names(events) == ["SIGNAL_RECEIVED", "CONTEXT_CHANGED"]
    assert events[1].facts == {"a": 1, "b": 2, "c": 3}  # type: ignore[attr-defined]  # a ContextChanged
    assert events[0].signals == ("a", "b", "c")  # type: ignore[attr-defined]  # a SignalReceived


def test_a_fact_says_who_wrote_it_when_and_because_of_what() -> None:
    d = CaseDefinition("d")

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1, by="user:ada")
    core.pass_time("1h")
    core.run()
    a, b = core.state.facts["a"], core.state.facts["b"]
    assert (a.by, a.author, a.at) == ("user:ada", "ada", NOON)
    assert (b.by, b.author, b.at) == ("worker:work", "work", core.now)
    caused = next(event for event in core.log if event.version == b.cause)
    assert caused.name == "WORKER_EXECUTION_COMPLETED"
    assert b.stamp == of(core.log, ContextChanged)[-1].version


def test_an_equal_value_is_no_change_and_no_event() -> None:
    core = Core(open_case())
    core.start(a={"x": [1, 2]})
    assert core.signal(a={"x": [1, 2]}) == []
    assert core.count(SignalReceived) == 0


@pytest.mark.parametrize(("before", "after"), [(1, 1.0), (1, True), (0, False), ([1], [1.0]), ({"a": 1}, {"a": True})])
def test_one_one_point_zero_and_true_are_three_values(before: object, after: object) -> None:
    core = Core(open_case())
    core.start(a=before)
    assert names(core.signal(a=after)) == ["SIGNAL_RECEIVED", "CONTEXT_CHANGED"]


def test_of_several_facts_only_the_changed_ones_are_in_the_event() -> None:
    core = Core(open_case())
    core.start(a=1, b=2)
    events = core.signal(a=1, b=3)
    assert of(events, ContextChanged)[0].facts == {"b": 3}


def test_a_worker_that_returns_what_is_there_already_changes_nothing() -> None:
    d = CaseDefinition("d", signals=["b"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return 5

    core = Core(d)
    core.start(a=1, b=5)
    events = core.returns("work", 5)
    assert of(events, ContextChanged) == []
    assert core.state.facts["b"].author == "ada"


def test_deleting_leaves_a_tombstone_with_a_new_stamp() -> None:
    core = Core(open_case())
    core.start(a=1)
    stamp = core.state.stamp("a")
    events = core.delete("a")
    assert of(events, ContextChanged)[0].deleted == ("a",)
    fact = core.state.facts["a"]
    assert fact.value is ABSENT
    assert fact.stamp > stamp
    assert core.facts == {}


def test_deleting_what_is_not_there_is_no_event() -> None:
    core = Core(open_case())
    core.start(a=1)
    assert core.delete("b") == []
    core.delete("a")
    assert core.delete("a") == []


def test_none_is_a_value_and_no_deletion() -> None:
    core = Core(open_case())
    core.start(a=1)
    core.signal(a=None)
    assert core.facts == {"a": None}


def test_a_worker_deletes_with_absent_and_none_writes_nothing() -> None:
    d = CaseDefinition("d", signals=["old"])

    @d.worker(writes=["old", "new"])
    async def renew(a: int) -> dict[str, object] | None:
        return {"old": ABSENT, "new": 1}

    @d.worker(writes="c")
    async def silent(a: int) -> int | None:
        return None

    core = Core(d)
    core.start(a=1, old=1)
    core.run()
    assert core.facts == {"a": 1, "new": 1}
    change = of(core.log, ContextChanged)[-1]
    assert (change.facts, change.deleted) == ({"new": 1}, ("old",))


def test_absence_wakes_a_guard_when_the_fact_is_deleted_or_hidden() -> None:
    d = CaseDefinition("d", signals=["hold", "go"])

    @d.worker(writes="out", when=absent("hold"))
    async def work(go: int) -> int:
        return go

    for way in ("delete", "hide"):
        core = Core(d)
        core.start(hold=True, go=1)
        assert core.running == []
        core.write(**{way: ("hold",)})
        assert core.running == ["work"]


def test_hidden_facts_come_back_when_shown_and_keep_their_author() -> None:
    core = Core(open_case())
    core.start(a=1, b=2)
    core.write(hide=("a",), by="user:bob")
    assert core.facts == {"b": 2}
    assert core.state.facts["a"].author == "ada"
    core.write(show=("a",))
    assert core.facts == {"a": 1, "b": 2}


def test_hiding_twice_or_showing_what_is_shown_is_no_event() -> None:
    core = Core(open_case())
    core.start(a=1)
    assert core.write(show=("a",)) == []
    core.write(hide=("a",))
    assert core.write(hide=("a",)) == []
    assert core.write(hide=("b",)) == []


def test_writing_a_hidden_fact_shows_it_even_with_an_equal_value() -> None:
    core = Core(open_case())
    core.start(a=1)
    core.write(hide=("a",))
    core.signal(a=1)
    assert core.facts == {"a": 1}


def test_clear_deletes_all_but_the_protected_facts() -> None:
    core = Core(open_case(protected=["a"]))
    core.start(a=1, b=2, c=3)
    events = core.write(clear=True)
    assert core.facts == {"a": 1}
    assert set(of(events, ContextChanged)[0].deleted) == {"b", "c"}
    assert core.write(clear=True) == []


def test_clearing_and_writing_at_once_is_one_change() -> None:
    core = Core(open_case())
    core.start(a=1, b=2)
    events = core.write(clear=True, facts={"b": 3})
    assert core.facts == {"b": 3}
    assert len(of(events, ContextChanged)) == 1


def test_get_or_put_writes_only_where_nothing_is() -> None:
    core = Core(open_case())
    core.start(a=1)
    core.write(signals=("a",), facts={"a": 9}, absent_only=True)
    assert core.facts == {"a": 1}
    core.write(signals=("b",), facts={"b": 9}, absent_only=True)
    assert core.facts == {"a": 1, "b": 9}


def test_an_ended_case_takes_no_facts_and_says_that_it_is_terminal() -> None:
    core = Core(open_case())
    core.start(a=1)
    core.cancel()
    for write in (Write(facts={"a": 2}), Write(delete=("a",)), Write(clear=True)):
        with pytest.raises(CaseEndedError, match="terminal"):
            core.take(write)
    assert core.state.facts["a"].value == 1


def test_a_result_of_the_wrong_type_fails_the_attempt_for_good_and_names_the_fact() -> None:
    d = CaseDefinition("d", goal="b", signals=["c"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    events = core.returns("work", "text")
    assert names(events)[0] == "WORKER_EXECUTION_FAILED"
    assert "fact 'b' of worker 'work'" in events[0].message  # type: ignore[attr-defined]  # a WorkerExecutionFailed
    assert events[0].settled  # type: ignore[attr-defined]  # a WorkerExecutionFailed
    assert "b" not in core.facts


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"x": 1}, "wrote 'x', which its writes= does not name"),
        ("text", "returned str, and it declares several facts; return a mapping"),
        ({"b": float("nan")}, "nan is not a JSON number"),
    ],
)
def test_a_result_that_is_none_of_its_facts_fails_the_attempt(value: object, complaint: str) -> None:
    d = CaseDefinition("d")

    @d.worker(writes=["b", "c"])
    async def work(a: int) -> dict[str, object]:
        return {}

    core = Core(d)
    core.start(a=1)
    assert complaint in core.returns("work", value)[0].message  # type: ignore[attr-defined]  # a WorkerExecutionFailed


def test_a_worker_that_declares_no_fact_may_return_nothing_alone() -> None:
    d = CaseDefinition("d")

    @d.worker
    async def notify(a: int) -> None:
        return None

    core = Core(d)
    core.start(a=1)
    assert "declares no fact" in core.returns("notify", 5)[0].message  # type: ignore[attr-defined]  # a WorkerExecutionFailed


def test_a_bad_result_writes_nothing_of_it() -> None:
    d = CaseDefinition("d")

    @d.worker(writes=["b", "c"])
    async def work(a: int) -> dict[str, object]:
        return {}

    core = Core(d)
    core.start(a=1)
    core.returns("work", {"b": 1, "c": object()})
    assert core.facts == {"a": 1}


def test_a_declined_result_writes_nothing() -> None:
    d = CaseDefinition("d", goal="b")

    @d.worker(writes="b", retry=Retry(1))
    async def work(a: int) -> int:
        raise Declined("not mine")

    core = Core(d)
    core.start(a=1)
    core.run()
    assert core.facts == {"a": 1}
