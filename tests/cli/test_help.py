"""Help, completion, exit codes: what the command says of itself is so."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from cyclopts import App

from casehub import errors
from casehub.cli import app, run
from casehub.errors import CaseHubError, CaseStalledError, DefinitionError, Problem
from casehub.problems import Exit, kind_of, problem
from tests.cli.program import Program

COMMANDS = {
    "up",
    "doctor",
    "replay",
    *(f"case {name}" for name in (
        "start", "list", "show", "watch", "signal", "facts", "explain", "plan", "agenda", "decisions", "suspend",
        "resume", "stage", "cancel", "kill"
    )),
    "events list",
    "events tail",
    *(f"def {name}" for name in ("validate", "show", "diagram", "diff", "test", "schema")),
    "db check",
    "db migrate",
    "case export",
    "case fork",
    "case import",
    "db backup",
    "db status",
    "retention plan",
    "retention run",
}  # fmt: skip


def commands(parent: App, names: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    for name in parent:
        if name.startswith("-"):
            continue
        child = parent[name]
        if child.default_command is None:
            yield from commands(child, (*names, name))
        else:
            yield " ".join((*names, name)), child


EVERY = dict(commands(app))


def test_the_commands_are_there() -> None:
    assert EVERY.keys() >= COMMANDS


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_page_with_examples_that_parse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*name.split(), "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"Usage: casehub {name}")
    examples = [line for line in str(EVERY[name].help_epilogue).splitlines() if line.startswith("  casehub ")]
    assert examples
    for example in examples:
        assert len(example) <= 80
        words = shlex.split(example.partition(" > ")[0], comments=True)[1:]
        assert words[: len(name.split())] == name.split()
        app.parse_args(words, exit_on_error=False, print_error=False)


def test_help_says_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    for number, text in enumerate(
        (
            "ok", "failed", "usage", "not found", "conflict or wrong status", "not allowed", "timed out",
            "not reachable or owned by another process", "definition invalid",
        )
    ):  # fmt: skip
        assert f"{number} {text}" in page
    assert list(Exit) == list(range(9))


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip()[0].isdigit()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell: str) -> None:
    script = app.generate_completion(shell=shell)  # type: ignore[arg-type]  # one of them
    for word in ("signal", "explain", "stalled", "drain-timeout", "ndjson"):
        assert word in script


def test_completion_is_installed(program: Program) -> None:
    result = program("--install-completion", "--shell", "bash", env={"HOME": str(program.folder)})
    assert result.code == 0, result.err
    assert any("casehub" in path.name for path in program.folder.rglob("*bash-completion*/**/*"))


def test_every_error_has_a_kind_of_its_own() -> None:
    without = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, CaseHubError) and kind_of(kind.__new__(kind)).slug == "failed"
    }
    # bases that are not raised themselves, and what is told in the log: failures of other people's code and of sub-cases
    assert without == {
        "CaseHubError", "LoopControlError", "MergeConflictError", "SnapshotConflictError", "SnapshotError", "StoreError",
        "SubCaseError",
    }  # fmt: skip


def test_a_problem_object_carries_what_the_error_does() -> None:
    invalid = problem(DefinitionError("claim", [Problem("worker 'x'", "it reads nothing", "let it")]))
    assert (invalid["type"], invalid["status"], invalid["error"]) == ("definition-invalid", 422, "DefinitionError")
    assert invalid["problems"] == [{"subject": "worker 'x'", "reason": "it reads nothing", "remedy": "let it"}]
    assert problem(CaseStalledError("c", ["a: MISSING_FACTS"]))["reasons"] == ["a: MISSING_FACTS"]


def test_what_is_nobodys_fault_but_ours_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    mended = App(name="casehub")
    mended.default(broken)
    monkeypatch.setattr("casehub.cli.app", mended)
    with pytest.raises(RuntimeError, match="a bug"):
        run([])
