"""Work in YAML that cases of another definition do."""

from __future__ import annotations

from pathlib import Path

import pytest

from casehub import CaseFaultedError, DefinitionError, WorkerExecutionFailed, load_definition
from casehub.cli.application import definitions_of
from casehub.loader import loads
from casehub.subcase import Rest
from casehub.testing import CaseTestKit
from casehub.validation import build

VISIT = """
case: site-visit
inputs: {address: string, strict: boolean?}
workers: {look: {set: {report: '"seen " + address'}}}
goal: report
"""
ONE = """
case: one
inputs: {address: string}
workers:
  visit: {case: {definition: visits/visit.yaml, start: {address: address, strict: "true"}}, writes: report}
goal: report
"""
SEVERAL = """
case: several
inputs: {sites: "list[string]"}
workers:
  visit:
    case: {definition: visits/visit.yaml, starts: 'sites.map(site, {"address": site})', takes: report, need: 2, rest: keep}
    writes: reports
  size: {set: {seen: reports.size()}}
goal: seen
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "visits").mkdir()
    (tmp_path / "visits" / "visit.yaml").write_text(VISIT)
    (tmp_path / "one.yaml").write_text(ONE)
    (tmp_path / "several.yaml").write_text(SEVERAL)
    return tmp_path


async def test_one_case_does_the_work(folder: Path) -> None:
    d = load_definition(folder / "one.yaml")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, address="12 Elm Road")
        assert (await case.completed())["report"] == "seen 12 Elm Road"


async def test_several_cases_do_the_work(folder: Path) -> None:
    d = load_definition(folder / "several.yaml")
    spec = d.bindings[0].worker.sub_case
    assert spec is not None
    assert (spec.several, spec.need, spec.rest, spec.takes, spec.wait) == (True, 2, Rest.KEEP, "report", True)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, sites=["a", "b"])
        facts = await case.completed()
        assert (facts["reports"], facts["seen"]) == (["seen a", "seen b"], 2)


def test_a_case_that_is_not_waited_for_takes_nothing(folder: Path) -> None:
    text = ONE.replace("}, writes: report}", ", wait: false}}").replace("goal: report", "at_quiescence: true")
    (folder / "one.yaml").write_text(text)
    spec = load_definition(folder / "one.yaml").bindings[0].worker.sub_case
    assert spec is not None
    assert (spec.wait, spec.takes) == (False, None)


def test_a_folder_shares_what_its_files_start(folder: Path) -> None:
    (folder / "visit.yaml").write_text(VISIT)
    for name in ("one", "several"):
        file = folder / f"{name}.yaml"
        file.write_text(file.read_text().replace("visits/visit.yaml", "visit.yaml"))
    found = {each.name: each for each in definitions_of(str(folder))}
    assert found.keys() == {"one", "several", "site-visit"}
    assert found["one"].sub_cases["site-visit"] is found["several"].sub_cases["site-visit"] is found["site-visit"]


def test_what_it_starts_with_is_part_of_the_structure(folder: Path) -> None:
    before = build(load_definition(folder / "one.yaml")).hash
    (folder / "one.yaml").write_text(ONE.replace("start: {address: address,", "start: {address: '\"x\" + address',"))
    assert build(load_definition(folder / "one.yaml")).hash != before


@pytest.mark.parametrize(
    ("old", "new", "place", "problem"),
    [
        ("visits/visit.yaml", "visits/visti.yaml", "5:30", "No such file"),
        ("start: {address: address,", "start: {address: adress,", "5:66", "names 'adress', which is no fact"),
        (', start: {address: address, strict: "true"}', "", "5:17", "does not say what it starts with"),
    ],
)
def test_a_mistake_has_its_place(folder: Path, old: str, new: str, place: str, problem: str) -> None:
    (folder / "one.yaml").write_text(ONE.replace(old, new))
    with pytest.raises(DefinitionError) as caught:
        load_definition(folder / "one.yaml")
    found = [(each.place.removeprefix(f"{folder}/one.yaml:"), str(each)) for each in caught.value.problems]
    assert [(at, problem in said) for at, said in found] == [(place, True)], found


TREE = """
case: tree
inputs: {height: integer}
workers:
  grow:
    case: {definition: tree.yaml, starts: '[{"height": height - 1}, {"height": height - 1}]', takes: size}
    writes: below
    when: height > 0
    on_failed: fault_case
    on_declined: fault_case
  leaf: {set: {size: "1"}, when: height == 0}
  node: {set: {size: 'below[0] + below[1] + 1'}}
goal: size
limits: {depth: 3}
"""


@pytest.mark.parametrize("own", ["tree.yaml", "../trees/tree.yaml"])
async def test_a_case_may_start_cases_of_its_own_definition(tmp_path: Path, own: str) -> None:
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "tree.yaml").write_text(TREE.replace("tree.yaml", own))
    d = load_definition(tmp_path / "trees" / "tree.yaml")
    assert d.sub_cases == {"tree": d}
    assert [each.name for each in definitions_of(str(tmp_path / "trees"))] == ["tree"]
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, height=3)
        assert (await case.completed())["size"] == 15


async def test_how_deep_cases_start_themselves_is_bounded() -> None:
    d = loads(TREE, "tree.yaml")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, height=4)
        with pytest.raises(CaseFaultedError):
            await case.completed()
        (failed,) = await kit.hub.case(f"{case.id}/grow/1.1/grow/1.1/grow/1.1").log.query(WorkerExecutionFailed)
        assert failed.message.startswith("3 cases are around case")


def test_files_that_start_each_other_are_refused(folder: Path) -> None:
    (folder / "visits" / "visit.yaml").write_text(
        "case: site-visit\ninputs: {address: string}\nworkers:\n  back:\n    writes: report\n"
        "    case: {definition: ../one.yaml, start: {address: address}}\ngoal: report\n"
    )
    with pytest.raises(DefinitionError) as caught:
        load_definition(folder / "one.yaml")
    (problem,) = caught.value.problems
    assert "has 1 mistakes of its own" in problem.reason
    assert "'../one.yaml' starts itself in the end" in problem.reason


def test_what_a_file_that_cannot_be_read_would_give_is_no_further_mistake(folder: Path) -> None:
    text = ONE.replace("visits/visit.yaml", "visits/visti.yaml").replace("  visit: {case", "  visit:\n    {case")
    (folder / "one.yaml").write_text(text)
    with pytest.raises(DefinitionError) as caught:
        load_definition(folder / "one.yaml")
    assert ["No such file" in each.reason for each in caught.value.problems] == [True], caught.value


def test_a_mistake_of_the_other_file_is_told_with_its_own_place(folder: Path) -> None:
    (folder / "visits" / "visit.yaml").write_text(VISIT.replace("+ address", "+ adress"))
    with pytest.raises(DefinitionError, match=r"one.yaml:5:30: .*visits/visit.yaml:4:43: .*names 'adress'"):
        load_definition(folder / "one.yaml")
