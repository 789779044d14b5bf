"""Versions of definitions in YAML: the folder `kept` beside the current ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from casehub import DefinitionError, SettingsError
from casehub.cli.application import definitions_of, hub_of, registry_of

CLAIM = """
case: claim
inputs: {document: string}
signals: {amount: integer}
workers:
  write: {set: {letter: '"we pay " + string(amount)'}}
goal: letter
"""
CAPPED = CLAIM.replace("string(amount)", "string(amount > 500 ? 500 : amount)")
VISIT = """
case: visit
inputs: {site: string}
workers: {look: {set: {report: '"seen " + site'}}}
goal: report
"""
LOAN = """
case: loan
inputs: {site: string}
workers:
  inspect: {case: {definition: visit.yaml, start: {site: site}}, writes: report}
goal: report
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`claim` has two versions, `loan` one."""
    (tmp_path / "kept").mkdir()
    for name, text in (("claim", CAPPED), ("kept/claim-1", CLAIM), ("loan", LOAN), ("visit", VISIT)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_what_lies_in_kept_is_kept(folder: Path) -> None:
    registry = registry_of(str(folder))
    assert sorted(registry.definitions) == ["claim", "loan", "visit"]
    (old,) = registry.others
    assert (old.name, old.bindings["write"].worker.computes != "") == ("claim", True)
    assert old.hash != registry.structures["claim"].hash
    assert sorted(each.name for each in definitions_of(str(folder))) == ["claim", "loan", "visit"]


def test_of_one_file_what_is_kept_of_its_names_counts(folder: Path) -> None:
    assert [each.name for each in registry_of(str(folder / "claim.yaml")).others] == ["claim"]
    (folder / "kept" / "loan-1.yaml").write_text("nothing that can be read: [")
    assert registry_of(str(folder / "visit.yaml")).others == []
    with pytest.raises(DefinitionError, match=r"kept/loan-1\.yaml"):  # a worker process would miss it otherwise
        registry_of(str(folder))


def test_what_a_kept_file_names_is_found_beside_it_or_where_it_was(folder: Path) -> None:
    (folder / "kept" / "loan-1.yaml").write_text(LOAN.replace("goal: report", "goal: report\nlimits: {depth: 3}"))
    registry = registry_of(str(folder))
    old = next(each for each in registry.others if each.name == "loan")
    assert old.children["visit"] is registry.structures["visit"]
    (folder / "kept" / "visit.yaml").write_text(VISIT.replace("seen", "saw"))
    registry = registry_of(str(folder))
    old = next(each for each in registry.others if each.name == "loan")
    assert old.children["visit"] in registry.others
    (folder / "kept" / "loan-1.yaml").write_text(LOAN.replace("visit.yaml", "vist.yaml"))
    with pytest.raises(DefinitionError, match=r"vist\.yaml"):
        registry_of(str(folder))


def test_a_version_that_makes_no_difference_is_told(folder: Path) -> None:
    (folder / "kept" / "loan-1.yaml").write_text(LOAN)
    with pytest.raises(SettingsError, match="'loan' was given twice as version"):
        registry_of(str(folder))


def test_two_current_files_of_one_name_are_told_of_the_folder(folder: Path) -> None:
    (folder / "claim-2.yaml").write_text(CLAIM)
    with pytest.raises(SettingsError, match=r"two definitions have the name 'claim'; .* in YAML in the folder 'kept'"):
        hub_of(str(folder), "memory://")


async def test_open_cases_go_on_with_what_is_kept(folder: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'cases.db'}"
    (folder / "claim.yaml").write_text(CLAIM)
    (folder / "kept" / "claim-1.yaml").unlink()
    async with hub_of(str(folder), store) as hub:
        await hub.start("claim", case_id="old", document="a roof")
    (folder / "kept" / "claim-1.yaml").write_text(CLAIM)
    (folder / "claim.yaml").write_text(CAPPED)
    async with hub_of(str(folder / "claim.yaml"), store) as hub:
        await hub.start("claim", case_id="new", document="a car")
        for case in ("old", "new"):
            await hub.case(case).signal(amount=700)
        assert (await hub.case("old").completed())["letter"] == "we pay 700"
        assert (await hub.case("new").completed())["letter"] == "we pay 500"
