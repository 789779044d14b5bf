"""The timeline of a replay: the order of its moments, their cases, what is refused before anything is fed."""

from __future__ import annotations

import pytest

from casehub.definition import CaseDefinition
from casehub.errors import LimitError, SettingsError
from casehub.timeline import Timeline, case_of, strictly, timeline_of
from casehub.validation import build
from tests.replay.logs import Happened, Shop, Told, after, told


def timeline(*traces: Told, most: int = 1_000) -> Timeline:
    return timeline_of(build(Shop().definition), traces, most=most)


def moments(*traces: Told) -> list[tuple[str, str, int]]:
    return [(moment.case, moment.event.activity, moment.place) for moment in timeline(*traces).moments]


def test_steps_are_in_the_order_of_time_and_ties_in_that_of_the_log() -> None:
    assert moments(
        told("a", ("Ordered", 5), ("Paid", 9)),
        told("b", ("Ordered", 0), ("Paid", 5)),
        told("c", ("Ordered", 5)),
    ) == [("b", "Ordered", 0), ("a", "Ordered", 0), ("b", "Paid", 1), ("c", "Ordered", 0), ("a", "Paid", 1)]


def test_an_event_that_is_dated_before_the_one_it_follows_counts_as_of_that_ones_time() -> None:
    found = timeline(told("a", ("Ordered", 9), ("Paid", 2)), told("b", ("Ordered", 5))).moments
    assert [(moment.case, moment.at) for moment in found] == [("b", after(5)), ("a", after(9)), ("a", after(9))]
    assert found[2].event.at == after(2)


def test_events_without_a_meaning_are_counted_and_take_no_place() -> None:
    found = timeline(
        told("a", ("Lost", 0), ("Ordered", 1), ("Found", 2), ("Lost", 3), ("Paid", 4)),
        Told("b", [Happened("Ordered", after(0), attributes={"lifecycle:transition": "start"})]),
    )
    assert [(moment.event.activity, moment.place) for moment in found.moments] == [("Ordered", 0), ("Paid", 1)]
    assert found.unmapped == {"Lost": 2, "Found": 1, "Ordered (start)": 1}
    assert (found.events, found.cases) == (6, {"a": 2, "b": 0})


def test_a_strict_replay_refuses_them_and_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"1 events are of 1 activities .* 'Payd'; did you mean 'Paid'\?"):
        strictly(timeline(told("a", ("Payd", 0))))
    strictly(timeline(told("a", ("Paid", 0))))


def test_an_empty_trace_is_no_case() -> None:
    assert timeline(Told("a", []), told("b", ("Paid", 0))).cases == {"b": 1}


def test_two_traces_of_one_name_are_refused() -> None:
    with pytest.raises(SettingsError, match="two traces that are case 'a'"):
        timeline(told("a", ("Paid", 0)), told("a", ("Paid", 1)))


def test_a_log_that_is_too_large_is_refused_while_it_is_read() -> None:
    def endless() -> Told:
        raise AssertionError("read on")

    traces = (told(str(number), ("Paid", 0)) if number < 4 else endless() for number in range(5))
    with pytest.raises(LimitError, match="more than 3 events"):
        timeline_of(build(Shop().definition), traces, most=3)


def test_a_definition_that_says_nothing_of_activities_is_refused() -> None:
    d = CaseDefinition("d", signals=["a"])
    with pytest.raises(SettingsError, match=r"definition 'd' says of no activity what it means; .*definition.activity"):
        timeline_of(build(d), [])


def test_a_result_of_a_worker_that_returns_a_mapping_needs_a_function() -> None:
    d = CaseDefinition("d")

    @d.worker(writes=["a", "b"])
    async def work(x: int) -> dict[str, int]:
        return {}

    d.activity("Worked", worker=work)
    with pytest.raises(SettingsError, match="worker 'work' returns a mapping of facts; give value="):
        timeline_of(build(d), [])


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("declaration 7", "declaration 7"),
        ("100%", "100%"),
        ("A/2017", "A%2F2017"),
        ("a@b/50%", "a%40b%2F50%25"),
        ("two\nlines", "two%0Alines"),
        ("", "unnamed"),
    ],
)
def test_a_case_is_called_what_the_log_calls_it_as_far_as_an_id_can(name: str, case: str) -> None:
    assert case_of(name) == case


def test_going_on_leaves_out_what_was_taken_and_notices_another_log() -> None:
    found = timeline(told("a", ("Ordered", 0), ("Paid", 1)), told("b", ("Ordered", 2)))
    found.go_on({"a": 1, "other": 9})
    assert [(moment.case, moment.event.activity) for moment in found.moments] == [("a", "Paid"), ("b", "Ordered")]
    assert found.skipped == 1
    with pytest.raises(SettingsError, match="case 'b' has taken 2 activities, and this log has 1 of it"):
        found.go_on({"b": 2})
