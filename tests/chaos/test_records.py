"""What a killed process has written down is read as far as it got."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.chaos.records import Deed, Journal


def test_a_line_that_was_cut_off_says_nothing_and_hides_nothing(tmp_path: Path) -> None:
    journal, path = Journal(tmp_path / "journal"), tmp_path / "journal"
    one, two = Deed("start", "c", "user:1", facts={"a": 1}), Deed("cancel", "c", "user:2")
    journal.note(one, "asked")
    journal.note(one, "acked")
    path.write_bytes(path.read_bytes()[:-20])
    deeds: dict[str, Deed] = {}
    journal.catch_up(deeds)
    assert list(deeds.values()) == [one]
    Journal(path).note(two, "asked")
    journal.catch_up(deeds)
    assert list(deeds.values()) == journal.deeds() == [one, two]


def test_what_was_done_once_has_been_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    deed = Deed("start", "c", "user:1")
    for answer in ("asked", "acked", "asked", "refused"):
        journal.note(deed, answer)
    assert journal.deeds() == [replace(deed, answer="acked")]
