"""Which loop control works which definition, as a flag, the environment or a file says it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blackboard_ext import PlanningStrategyLoopControl
from casehub import CaseHub, SettingsError
from casehub.cli.application import hub_of
from casehub.settings import Settings, load, variable

MINE = """
from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.strategies import EverythingEligible, OneAtATime
from casehub import CaseDefinition

claim, loan = CaseDefinition("claim", at_quiescence=True), CaseDefinition("loan", at_quiescence=True)
definitions = [claim, loan]


def careful():
    return PlanningStrategyLoopControl(OneAtATime())


def planless():
    return OneAtATime()


def broken():
    raise ValueError("no key")


ready = PlanningStrategyLoopControl(EverythingEligible())
strategy = OneAtATime()
number = 7
"""


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in (*Settings.model_fields, "config"):
        monkeypatch.delenv(variable(name), raising=False)
    yield
    sys.modules.pop("mine", None)


def works(hub: CaseHub, definition: str) -> str:
    """The strategy or loop control that works a definition."""
    loop = hub.loop_of(definition)
    return type(loop.strategy if isinstance(loop, PlanningStrategyLoopControl) else loop).__name__


def named(loop: str) -> tuple[str, str]:
    hub = hub_of("mine:definitions", "memory://", loop=loop)
    return works(hub, "claim"), works(hub, "loan")


@pytest.mark.parametrize(
    ("loop", "claim", "loan"),
    [
        ("", "ChoreographyLoopControl", "ChoreographyLoopControl"),
        ("mine:careful", "OneAtATime", "OneAtATime"),
        ("mine:ready", "EverythingEligible", "EverythingEligible"),
        ("claim=mine:careful", "OneAtATime", "ChoreographyLoopControl"),
        ("claim=mine:careful,loan=mine:ready", "OneAtATime", "EverythingEligible"),
        ("mine:ready, claim = mine:careful", "OneAtATime", "EverythingEligible"),
        ("mine:strategy", "OneAtATime", "OneAtATime"),
        ("claim=mine:planless", "OneAtATime", "ChoreographyLoopControl"),
        ("blackboard_ext.strategies:CheapestFirst", "CheapestFirst", "CheapestFirst"),
        ("casehub:ChoreographyLoopControl", "ChoreographyLoopControl", "ChoreographyLoopControl"),
    ],
)
def test_a_loop_control_is_for_all_definitions_or_for_one(loop: str, claim: str, loan: str) -> None:
    assert named(loop) == (claim, loan)


@pytest.mark.parametrize("source", ["flag", "environment", "file", "table"])
def test_flag_environment_and_file_say_it_alike(source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "claim=mine:careful,loan=mine:ready"
    if source == "environment":
        monkeypatch.setenv("CASEHUB_LOOP", text)
    elif source == "file":
        (tmp_path / "casehub.toml").write_text(f'loop = "{text}"\n')
    elif source == "table":
        (tmp_path / "casehub.toml").write_text('[loop]\nclaim = "mine:careful"\nloan = "mine:ready"\n')
    loaded = load({"loop": text} if source == "flag" else None)
    assert named(loaded.settings.loop) == ("OneAtATime", "EverythingEligible")
    assert loaded.given("loop")


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        ("clam=mine:careful", r"there is no definition 'clam'; did you mean 'claim'\?"),
        ("mine:carefull", r"mine has no 'carefull'; did you mean 'careful'\?"),
        ("mien:careful", "there is no module 'mien'"),
        ("mine", "is no reference; write module:attribute"),
        ("claim=", "is no reference; write module:attribute"),
        ("mine:number", "a int is no strategy; give it async def select"),
        ("mine:broken", "making it raised ValueError: no key"),
        ("blackboard_ext:PlanningStrategyLoopControl", "making it raised TypeError: .*takes no arguments"),
        ("mine:careful,mine:ready", "it names two loop controls for all definitions"),
        ("claim=mine:careful,claim=mine:ready", "it names two loop controls for definition 'claim'"),
    ],
)
def test_what_is_no_loop_control_is_refused_with_what_would_be_one(loop: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        named(loop)
