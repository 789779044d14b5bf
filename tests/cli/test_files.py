"""Definitions in YAML wherever a command takes APP."""

from __future__ import annotations

from tests.cli.program import Program

GREETING = """
case: greeting
inputs: {name: string}
workers:
  greet: {set: {greeting: '"hello " + name'}}
goal: greeting
"""
CLAIM = """
case: claim
workers:
  extract: {run: "stories:extract", writes: entities}
goal: entities
"""


def test_a_file_is_worked(program: Program) -> None:
    (program.folder / "greeting.yaml").write_text(GREETING)
    with program.up("greeting.yaml"):
        result = program("case", "start", "greeting", "name=Ada", "--wait", "-o", "json")
        assert result.code == 0, result.err
        assert result.json["facts"]["greeting"] == "hello Ada"


def test_a_case_of_a_file_is_started_and_explained_without_a_worker_process(program: Program) -> None:
    (program.folder / "greeting.yaml").write_text(GREETING)
    result = program.inside("case", "start", "greeting.yaml", "name=Ada", "--id", "g", "-o", "json")
    assert (result.code, result.json["status"]) == (0, "COMPLETED"), result.err
    explained = program.inside("case", "explain", "g", "--app", "greeting.yaml")
    assert "greet" in explained.out


def test_code_has_to_be_allowed(program: Program) -> None:
    (program.folder / "claim.yaml").write_text(CLAIM)
    words = ("case", "start", "claim.yaml", "document=Ada met Grace")
    refused = program.inside(*words)
    assert refused.code == 8
    assert "claim.yaml:4:18: workers.extract.run: 'stories' is not among the packages" in refused.err
    assert program.inside(*words, "--allow-code", "stories").code == 0
    assert program.inside(*words, "--allow-code", "other", "--allow-code", "stories").code == 0
    assert program.inside("--allow-code", "stories", *words).code == 0
    (program.folder / "casehub.toml").write_text('allow_code = "other, stories"\n')
    assert program.inside(*words).code == 0


def test_a_folder_of_definitions_is_worked(program: Program) -> None:
    cases = program.folder / "cases"
    cases.mkdir()
    empty = program.inside("case", "start", "claim", "--app", "cases")
    assert (empty.code, "has no file that ends in .yaml" in empty.err) == (2, True)
    (cases / "greeting.yaml").write_text(GREETING)
    (cases / "claim.yml").write_text(CLAIM)
    started = program.inside("case", "start", "greeting", "name=Ada", "--app", "cases", "--allow-code", "stories")
    assert started.code == 0, started.err


def test_mistakes_are_told_to_programs_with_their_places(program: Program) -> None:
    (program.folder / "greeting.yaml").write_text(GREETING.replace("+ name", "+ nam"))
    result = program.inside("case", "start", "greeting.yaml", "name=Ada", "-o", "json")
    assert result.code == 8
    assert '"place":"greeting.yaml:5:39"' in result.err


def test_a_missing_extra_is_named_with_the_command_that_installs_it(program: Program) -> None:
    (program.folder / "greeting.yaml").write_text(GREETING)
    code = "import sys; sys.modules['ruamel'] = None; from casehub.cli import main; main(['up', 'greeting.yaml'])"
    result = program.python("-c", code)
    assert (result.code, "pip install 'casehub[yaml]'" in result.err) == (1, True), result.err
