"""Schedules as data: when their occurrences are due, and what is wrong with those that can never work."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from casehub import CaseDefinition, DefinitionError, Schedule, after, at, cron, every, present
from casehub.schedule import COUNTED, moment_of
from casehub.validation import build

NOON = datetime(2026, 3, 27, 12, tzinfo=UTC)


def first(schedule: Schedule, number: int, start: datetime = NOON) -> list[str]:
    """The first occurrences, without the year."""
    found: list[str] = []
    seen: datetime | None = None
    while len(found) < number and (seen := schedule.following(start, seen)) is not None:
        found.append(f"{seen:%m-%d %H:%M:%S}")
    return found


def test_one_occurrence_after_a_span_and_at_a_moment() -> None:
    assert first(after("2d"), 3) == ["03-29 12:00:00"]
    moment = datetime(2026, 5, 1, 9, tzinfo=UTC)
    assert first(at(moment), 3, start=moment) == ["05-01 09:00:00"]


def test_every_span_is_counted_from_the_start_and_not_from_the_last_time() -> None:
    assert first(every("90m"), 3) == ["03-27 13:30:00", "03-27 15:00:00", "03-27 16:30:00"]
    late = NOON + timedelta(hours=2)  # whoever took it was late
    assert every("90m").following(NOON, late) == NOON + timedelta(hours=3)


def test_a_cron_expression_holds_in_its_time_zone() -> None:
    assert first(cron("0 2 * * 1-5"), 3) == ["03-30 02:00:00", "03-31 02:00:00", "04-01 02:00:00"]
    assert first(cron("0 2 * * 1-5", tz="America/New_York"), 2) == ["03-30 06:00:00", "03-31 06:00:00"]


def test_a_cron_expression_with_six_fields_has_seconds_in_front() -> None:
    assert first(cron("30 0 13 * * *"), 2) == ["03-27 13:00:30", "03-28 13:00:30"]


def test_in_spring_the_hour_that_is_left_out_has_its_occurrence_at_its_end() -> None:
    assert first(cron("30 2 * * *", tz="Europe/Berlin"), 3) == ["03-28 01:30:00", "03-29 01:00:00", "03-30 00:30:00"]


def test_in_autumn_the_hour_that_comes_twice_has_one_occurrence() -> None:
    start = datetime(2026, 10, 23, 12, tzinfo=UTC)
    nightly = cron("30 2 * * *", tz="Europe/Berlin")
    assert first(nightly, 3, start) == ["10-24 00:30:00", "10-25 00:30:00", "10-26 01:30:00"]
    within_the_second = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    following = nightly.following(within_the_second, within_the_second)
    assert following == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_in_autumn_every_quarter_of_an_hour_goes_on_through_both_hours() -> None:
    start = datetime(2026, 10, 24, 23, 50, tzinfo=UTC)
    schedule = cron("*/15 * * * *", tz="Europe/Berlin")
    seen = [start]
    for _ in range(16):
        following = schedule.following(start, seen[-1])
        assert following is not None
        seen.append(following)
    assert {later - earlier for earlier, later in pairwise(seen[1:])} == {timedelta(minutes=15)}


@pytest.mark.parametrize(
    ("schedule", "until", "number", "last"),
    [
        (every("15m"), NOON + timedelta(hours=2, minutes=5), 8, NOON + timedelta(hours=2)),
        (every("1s"), NOON + timedelta(days=3), COUNTED, NOON + timedelta(days=3)),
        (cron("0 * * * *"), NOON + timedelta(hours=5, minutes=1), 5, NOON + timedelta(hours=5)),
        (cron("* * * * *"), NOON + timedelta(days=800), COUNTED, NOON + timedelta(days=800)),
        (cron("0 0 1 1 *"), NOON + timedelta(days=3650), 10, datetime(2036, 1, 1, tzinfo=UTC)),
        (after("2d"), NOON + timedelta(days=9), 1, NOON + timedelta(days=2)),
    ],
    ids=str,
)
def test_what_has_passed_is_counted_from_its_latest(
    schedule: Schedule, until: datetime, number: int, last: datetime
) -> None:
    due = schedule.following(NOON, None)
    assert due is not None
    passed = schedule.passed(NOON, due, until)
    assert (len(passed), passed[-1]) == (number, last)
    if number < COUNTED:
        assert passed[0] == due
    assert sorted(set(passed)) == list(passed)


def test_an_occurrence_that_has_just_come_due_is_all_that_has_passed() -> None:
    for schedule in (every("1h"), cron("0 * * * *"), after("1h")):
        due = schedule.following(NOON, None)
        assert due is not None
        assert list(schedule.passed(NOON, due, due)) == [due]
        assert list(schedule.passed(NOON, due, due - timedelta(seconds=1))) == [due]  # a clock that was set back


def test_a_schedule_says_what_it_is_and_so_does_its_timer() -> None:
    assert str(after("48h", since="approval")) == "after 2d since approval"
    assert str(at("deadline")) == "at deadline"
    assert str(cron("0  2 * * 1-5", tz="Europe/Berlin")) == "cron 0 2 * * 1-5 Europe/Berlin"
    assert every(timedelta(minutes=15)).timer("refresh") == every("15m").timer("refresh") == "time:refresh:every 15m"


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-03-27T12:00:00Z", NOON),
        ("2026-03-27T14:00:00+02:00", NOON),
        ("2026-03-27T12:00:00", None),
        ("2026-03-27", None),
        ("soon", None),
        (12, None),
        (None, None),
    ],
)
def test_the_moment_that_a_fact_holds(value: object, moment: datetime | None) -> None:
    assert moment_of(value) == moment


# ---- what can never work


def wrong(*schedules: Schedule, signals: Any = ("deadline",), name: str = "refresh") -> list[str]:
    d = CaseDefinition("d", signals=signals)
    d.milestone("seen", present("deadline"))

    async def refresh() -> None: ...

    d.worker(name=name, on=schedules)(refresh)
    try:
        build(d)
    except DefinitionError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    "schedule",
    [
        after("2d"),
        after("1s", since="deadline"),
        after("1s", since="seen"),
        at("deadline"),
        at(NOON),
        at(NOON, catch_up="skip"),
        every(timedelta(days=365), catch_up="all"),
        cron("0 0 29 2 *"),
        cron("0 2 * * MON-FRI", tz="Asia/Kolkata", catch_up="skip"),
    ],
    ids=str,
)
def test_nothing_is_wrong_with_a_sound_schedule(schedule: Schedule) -> None:
    assert wrong(schedule) == []


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (every("0s"), "its span '0s' is shorter than a second; give one of at least '1s'"),
        (every("1ms"), "is shorter than a second"),
        (every("-5m"), "duration '-5m' is not one: write numbers with units, such as '90s'"),
        (every(timedelta(hours=-1)), "is negative"),
        (every("15 minutes"), "duration '15 minutes' is not one"),
        (after("40000d"), "is longer than a hundred years; give one of at least '1s' and at most '36525d'"),
        (after("999999999999999d"), "is longer than a hundred years"),
        (after("2d", catch_up="all"), "'after 2d' has one occurrence, and catch_up='all' is for several; say 'once'"),
        (every("1h", catch_up="allways"), "catch_up='allways' is no policy; did you mean 'all'?"),
        (at(datetime(2026, 5, 1, 9)), "2026-05-01 09:00:00 has no time zone, so nobody knows when it is; give it one"),  # noqa: DTZ001 - that is the point
        (cron("61 * * * *"), "cron('61 * * * *'): '61' is no minute, or none that its months have; see crontab(5)"),
        (cron("0 25 * * *"), "'25' is no hour"),
        (cron("0 0 30 2 *"), "'30' is no day-of-month, or none that its months have"),
        (cron("0 0 12 ? * MON"), "'?' is no day-of-month"),
        (cron("0 0 * JANUARY *"), "'JANUARY' is no month"),
        (cron("0 0 * * 8"), "'8' is no day-of-week"),
        (cron("2#1/3 * * * *"), "'2#1/3' is no minute"),
        (cron("* * *"), "cron('* * *') has 3 fields; write five (minute hour day-of-month month day-of-week), or six"),
        (cron("@daily"), "has 1 fields"),
        (cron("0 2 * * *", tz="Europe/Berln"), "there is no time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?"),
        (cron("0 2 * * *", tz="Berlin"), "did you mean 'Europe/Berlin'?"),
        (cron("0 2 * * *", tz="New York"), "did you mean 'America/New_York'?"),
        (cron("0 2 * * *", tz="Bielefeld-Mitte"), "give an IANA name, such as 'Europe/Berlin' or 'UTC'"),
        (cron("0 2 * * *", tz="../etc"), "give an IANA name"),
        (after("1h", since="deadlin"), "'after 1h since deadlin' counts from 'deadlin', which is no milestone and no fact"),
        (after("1h", since="sen"), "did you mean 'seen'?"),
        (at("deadlin"), "did you mean 'deadline'?"),
        (at("seen"), "'at seen' counts from 'seen'"),
    ],
    ids=str,
)  # fmt: skip
def test_a_schedule_that_can_never_work_is_refused_with_its_reason_and_remedy(schedule: Schedule, text: str) -> None:
    (said,) = wrong(schedule)
    assert said.startswith("binding 'refresh': ")
    assert text in said


@pytest.mark.parametrize(("kind", "fine"), [(int, False), (date, False), (datetime, True), (str, True), (Any, True)])
def test_the_fact_that_a_schedule_takes_the_moment_from_can_be_one(kind: Any, fine: bool) -> None:
    said = wrong(at("deadline"), signals={"deadline": kind})
    assert said == ([] if fine else [
        f"binding 'refresh': 'at deadline' takes the moment from fact 'deadline', which is {kind.__name__}; make the fact a datetime"
    ])  # fmt: skip


def test_several_schedules_with_mistakes_are_all_named() -> None:
    assert len(wrong(every("0s"), cron("x"), at("nothing"))) == 3
