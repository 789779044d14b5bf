"""What was asked of a log, kept as plain data within bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from casehub.events import WorkerExecutionFailed, WorkerExecutionFinished
from casehub.inquiries import LONGEST, MOST, SIZE, Inquiries


def test_a_question_is_kept_with_the_arguments_that_were_given() -> None:
    asked = Inquiries()
    kinds = (WorkerExecutionFailed, WorkerExecutionFinished)
    asked.note("count", kinds, {"by": "binding", "across": "definition", "since": timedelta(days=7), "worker": None})
    asked.note("query", (), {"since": datetime(2026, 1, 2, tzinfo=UTC), "status": ("FAULTED",), "events": 5})
    assert asked.kept == [
        {
            "verb": "count",
            "kinds": ["WORKER_EXECUTION_FAILED", "WORKER_EXECUTION_FINISHED"],
            "by": "binding",
            "across": "definition",
            "since": "7d",
        },
        {"verb": "query", "since": "2026-01-02T00:00:00+00:00", "status": ["FAULTED"], "events": 5},
    ]
    assert asked.left_out == 0


def test_what_comes_after_the_hundredth_is_counted() -> None:
    asked = Inquiries()
    for number in range(MOST + 7):
        asked.note("tail", (), {"after": number})
    assert (len(asked.kept), asked.kept[-1]["after"], asked.left_out) == (MOST, MOST - 1, 7)


def test_what_would_be_too_large_is_counted() -> None:
    asked = Inquiries()
    for _ in range(MOST):
        asked.note("count", (), {"binding": "b" * LONGEST})
    assert 0 < asked.left_out < MOST
    assert len(str(asked.kept)) < SIZE + 1_000
    asked.note("tail", (), {})  # in order, so nothing later has a place either
    assert asked.kept[-1]["verb"] == "count"


def test_a_long_argument_is_cut_and_says_so() -> None:
    asked = Inquiries()
    asked.note("count", (), {"binding": "b" * 1_000, "status": ["s"] * 300})
    (kept,) = asked.kept
    assert kept["binding"] == "b" * LONGEST + "... 1000 characters in all"
    status = kept["status"]
    assert isinstance(status, list)
    assert status[-1] == "... 300 in all"


def test_text_that_no_store_can_write_is_kept_as_text_that_it_can() -> None:
    asked = Inquiries()
    asked.note("count", ("not a class",), {"binding": "\ud800"})
    assert asked.kept == [{"verb": "count", "kinds": ["not a class"], "binding": "\\ud800"}]
