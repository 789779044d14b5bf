"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casehub.durations import duration, in_words
from casehub.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("2h30m", 9_000),
        ("2h 30m", 9_000),
        (" 7d ", 604_800),
        ("1w", 604_800),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("30m2h", 9_000),
        ("0s", 0),
        ("1d12h30m15s500ms", 131_415.5),
    ],
)
def test_text_is_read_as_numbers_with_units(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


def test_a_timedelta_is_taken_as_it_is() -> None:
    assert duration(timedelta(minutes=5)) == timedelta(minutes=5)


@pytest.mark.parametrize("text", ["", "5", "h", "5 minutes", "1h30", "-5s", "1,5s", "5S", "1e3s", "s5", "5s!", "PT5M"])
def test_anything_else_is_refused_with_an_example_of_what_is_right(text: str) -> None:
    with pytest.raises(SettingsError, match=r"duration '.*' is not one: write numbers with units, such as '90s'"):
        duration(text)


def test_a_bare_number_is_refused_as_it_has_no_unit() -> None:
    with pytest.raises(SettingsError, match=r"duration 0\.5 is not one: write numbers with units, such as '90s'"):
        duration(0.5)  # type: ignore[arg-type]  # on purpose


def test_a_negative_span_is_refused() -> None:
    with pytest.raises(SettingsError, match="is negative"):
        duration(timedelta(seconds=-1))


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(0), "0s"),
        (timedelta(hours=2, minutes=30), "2h30m"),
        (timedelta(days=8), "8d"),
        (timedelta(milliseconds=1_250), "1s250ms"),
        (timedelta(microseconds=1_499), "1ms"),
    ],
)
def test_a_span_is_written_in_words(span: timedelta, words: str) -> None:
    assert in_words(span) == words


@given(st.integers(0, 10**12))
def test_words_are_read_back_as_the_same_span(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)
    assert duration(in_words(span)) == span
