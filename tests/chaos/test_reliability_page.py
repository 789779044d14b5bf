"""The page about reliability names tests that are there, and its figures are those that were measured."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.chaos.checker import INVARIANTS
from tests.chaos.figures import PAGE, ROOT, figure_of, kept, page_with

ROW = re.compile(r"^\| (G\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
SCENARIO = re.compile(r"^\| (S\d+) \| (.+?) \|$", re.MULTILINE)
NAMED = re.compile(r"`((?:tests|casehub/testing)/[^`]+?)::(test_[^`]+)`")
OPEN = ROOT.parent / "shared" / "guarantees.md"
"""The list that the scenarios are from, where it lies beside the project."""
GUARANTEES = ROW.findall(PAGE.read_text(encoding="utf-8"))


def test_each_guarantee_is_on_the_page_once() -> None:
    assert [number for number, *_ in GUARANTEES] == [f"G{number}" for number in range(1, 28)]


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("row", GUARANTEES, ids=[row[0] for row in GUARANTEES])
def test_the_tests_that_a_guarantee_names_are_there(row: tuple[str, ...]) -> None:
    _, _, _, tests, status = row
    named = re.findall(r"`(tests/[^`]+?)::(test_[^`]+)`", tests)
    assert status in ("holds", "not yet") or status.startswith("partly: "), status
    assert bool(named) is (status != "not yet")
    for path, name in named:
        assert name in functions_of(path)


SCENARIOS = SCENARIO.findall(PAGE.read_text(encoding="utf-8"))


def test_each_scenario_is_on_the_page_once_and_in_order() -> None:
    numbers = [number for number, _ in SCENARIOS]
    assert numbers
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(("number", "answer"), SCENARIOS, ids=[number for number, _ in SCENARIOS])
def test_a_scenario_has_tests_that_are_there_or_a_reason_for_having_none(number: str, answer: str) -> None:
    named = NAMED.findall(answer)
    assert answer.count("::") == len(named)
    assert named or answer.startswith("not yet: ")
    for path, name in named:
        assert name in functions_of(path)


def test_no_open_scenario_is_missing_from_the_page() -> None:
    if not OPEN.is_file():
        pytest.skip("the list of scenarios does not lie beside this project")
    _, _, rest = OPEN.read_text(encoding="utf-8").partition("### 3A.")
    listed = re.findall(r"^\| (S\d+) \|", rest.partition("### 3C.")[0].partition("### 3B.")[0], re.MULTILINE)
    assert listed
    assert set(listed) == {number for number, _ in SCENARIOS}


def test_each_invariant_of_the_checker_is_explained() -> None:
    explained = re.findall(r"^\| (I\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert explained == list(INVARIANTS)


def test_the_figures_on_the_page_are_those_that_were_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_with(page, kept()) == page


def test_a_thousand_hubs_were_killed_on_each_store_and_nothing_was_lost() -> None:
    kills = {each.store: each for each in kept() if each.harness == "random kills"}
    assert set(kills) == {"SQLite", "PostgreSQL"}
    for each in kept():
        assert each.wrong == each.lost == each.twice == each.stuck == each.keys == 0
        assert each.acked > 0
    assert all(each.faults >= 1_000 for each in kills.values())


def test_a_run_without_faults_is_no_figure() -> None:
    run = {"kills": 0, "opened": [], "store": "sqlite", "seed": 1, "found": {"problems": {}, "acked": 5}}
    with pytest.raises(ValueError, match="shows nothing"):
        figure_of(run, date="2030-01-01", commit="abc")


def test_what_is_wrong_is_counted_under_its_name() -> None:
    found = {
        "problems": {"I1": ["a", "b"], "I4": ["c"], "I7": ["d"], "I5": ["e"], "I12": ["f"]},
        "acked": 5,
        "effects": 4,
        "effects_repeated": 1,
    }
    run = {"kills": 3, "opened": [0.1, 0.2], "store": "sqlite", "seed": 1, "found": found}
    figure = figure_of(run, date="2030-01-01", commit="abc")
    assert (figure.lost, figure.twice, figure.stuck, figure.keys, figure.wrong) == (2, 1, 1, 1, 6)
    assert (figure.faults, figure.opened) == (3, 200)
