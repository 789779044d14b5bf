"""What the pages say is true: their Python runs, shown output is what comes out, commands, files and links exist.

The blocks of one page share a namespace, in order, in an empty folder. A block may await at its top level, as in
`python -m asyncio`; functions called `test_...` and suites called `Test...` run at the end of their block. A block in
```` ```text output ```` is what the Python block before it prints; so is each comment behind a `print(...)`.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import re
import shlex
import sys
import tomllib
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError

from casehub.cli import app, ordered
from casehub.loader import loads
from casehub.settings import Settings

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name != "LICENSE.md"
)

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
_PRINTED = re.compile(r"^\s*print\(.*\)  # (?P<text>.+)$", re.MULTILINE)
_LINK = re.compile(
    r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)|!\[[^\]]*\]\((?P<image>[^)\s]+)\)|src(?:set)?=\"(?P<src>[^\"]+)\""
)
_COMMANDS = {
    "cd",
    "curl",
    "echo",
    "export",
    "git",
    "kill",
    "mypy",
    "pip",
    "pyright",
    "pytest",
    "python",
    "ruff",
    "source",
}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the words behind it, its text, and the line of the page that it begins on."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int


def blocks_of(page: str) -> Iterator[Block]:
    for match in _FENCE.finditer(page):
        language, *words = match["info"].split() or [""]
        indent = len(match["indent"])
        text = "".join(line[indent:] if line.strip() else line for line in match["body"].splitlines(keepends=True))
        yield Block(language, tuple(words), text, page.count("\n", 0, match.start()) + 2)


class Player:
    """Runs the Python blocks of one page."""

    def __init__(self, name: str) -> None:
        self.module = types.ModuleType(name)
        self.runner = asyncio.Runner()

    def play(self, block: Block, path: str) -> str:
        """What the block prints."""
        # Lines before it are left blank, so that an error names the line of the page.
        tree = ast.parse("\n" * (block.line - 1) + block.text, path)
        code = compile(tree, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        names = self.module.__dict__
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if code.co_flags & inspect.CO_COROUTINE:
                self.runner.run(_awaited(code, names))
            else:
                exec(code, names)
            for node in tree.body:
                if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name.startswith("test_"):
                    self._test(names[node.name])
                elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                    suite: Any = names[node.name]
                    for name in dir(suite):
                        if name.startswith("test_"):
                            self._test(getattr(suite(), name))
        return out.getvalue()

    def _test(self, function: Callable[[], Any]) -> None:
        if inspect.iscoroutinefunction(function):
            self.runner.run(function())
        else:
            function()

    def close(self) -> None:
        loop = self.runner.get_loop()
        left = asyncio.all_tasks(loop)
        self.runner.close()
        assert not left, f"tasks left behind: {left}"


async def _awaited(code: types.CodeType, names: dict[str, object]) -> None:
    await eval(code, names)


def compare(block: Block, printed: str, shown: Block | None) -> str:
    """What is wrong with the output that the page shows for a block; empty when nothing is."""
    if shown is not None:
        wanted, got = shown.text.rstrip(), printed.rstrip()
        return "" if wanted == got else f"line {shown.line}: the page shows\n{wanted}\n-- and what comes out is\n{got}"
    lines = printed.splitlines()
    missing = [match["text"] for match in _PRINTED.finditer(block.text) if match["text"] not in lines]
    return f"line {block.line}: {missing} does not come out:\n{printed}" if missing else ""


def commands_of(block: Block) -> Iterator[list[str]]:
    """The commands of a shell block, a list of words each; comments and continued lines are taken care of."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        end = next((place for place, word in enumerate(words) if word in (">", "|", "&")), len(words))
        del words[end:]
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words.pop(0)
        if words:
            yield words


def problems_of_command(words: Sequence[str], folder: Path = ROOT) -> Iterator[str]:
    """What of a command does not exist: the command, a file that it names, an object that it names."""
    command, arguments = words[0].removeprefix(".venv/bin/"), words[1:]
    if command.startswith("./"):
        if not (folder / command).is_file():
            yield f"there is no {command}"
    elif command == "casehub":
        yield from problems_of_casehub(arguments)
    elif command not in _COMMANDS:
        yield f"the command {command!r} is not known to this test"
    for argument in arguments:
        if re.fullmatch(r"(examples|docs|tests|benchmarks|casehub)/[\w./-]+", argument):
            if not (folder / argument).exists():
                yield f"there is no {argument}"
        elif match := re.fullmatch(r"(examples\.\w+):(\w+)", argument):
            module = folder / f"{match[1].replace('.', '/')}.py"
            if not module.is_file() or not re.search(
                rf"^(?:(?:async )?def |class )?{match[2]}\b", module.read_text(encoding="utf-8"), re.MULTILINE
            ):
                yield f"there is no {argument}"


def problems_of_casehub(arguments: Sequence[str]) -> Iterator[str]:
    """What the command line itself would say; nothing is run."""
    try:
        app.parse_args(ordered(arguments), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        yield " ".join(str(error).split())


@pytest.mark.parametrize("path", PAGES)
def test_the_python_of_a_page_runs(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    blocks = list(blocks_of((ROOT / path).read_text(encoding="utf-8")))
    player = Player(f"page_{re.sub(r'[^a-z]', '_', path.lower())}")
    monkeypatch.setitem(sys.modules, player.module.__name__, player.module)
    wrong = []
    try:
        for place, block in enumerate(blocks):
            if block.language == "python":
                printed = player.play(block, path)
                after = blocks[place + 1] if place + 1 < len(blocks) else None
                shown = after if after is not None and "output" in after.words else None
                wrong.append(compare(block, printed, shown))
    finally:
        player.close()
    assert not [each for each in wrong if each], "\n\n".join(filter(None, wrong))


@pytest.mark.parametrize("path", PAGES)
def test_the_definitions_of_a_page_load(path: str) -> None:
    for block in blocks_of((ROOT / path).read_text(encoding="utf-8")):
        if block.language == "yaml" and not block.words:
            loads(block.text, f"{path}, from line {block.line}")


@pytest.mark.parametrize("path", PAGES)
def test_the_commands_of_a_page_exist(path: str) -> None:
    wrong = [
        f"line {block.line}: {shlex.join(words)}: {problem}"
        for block in blocks_of((ROOT / path).read_text(encoding="utf-8"))
        if block.language == "sh"
        for words in commands_of(block)
        for problem in problems_of_command(words)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", PAGES)
def test_the_settings_of_a_page_are_settings(path: str) -> None:
    for block in blocks_of((ROOT / path).read_text(encoding="utf-8")):
        if block.language == "toml":
            assert Settings(**tomllib.loads(block.text))


def anchors_of(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = _FENCE.sub("", page)
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


def broken_links(path: str) -> Iterator[str]:
    here = ROOT / path
    for match in _LINK.finditer(_FENCE.sub("", here.read_text(encoding="utf-8"))):
        target = match["target"] or match["image"] or match["src"]
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (here.parent / file).resolve() if file else here
        if not linked.exists() or (anchor and anchor not in anchors_of(linked.read_text(encoding="utf-8"))):
            yield target


@pytest.mark.parametrize("path", PAGES)
def test_the_links_of_a_page_lead_somewhere(path: str) -> None:
    assert list(broken_links(path)) == []


def test_the_languages_of_the_blocks_are_ones_that_are_looked_at() -> None:
    known = {"python", "sh", "text", "mermaid", "toml", "yaml"}
    odd = [
        f"{path}:{block.line}: {block.language or 'no language'}"
        for path in PAGES
        for block in blocks_of((ROOT / path).read_text(encoding="utf-8"))
        if block.language not in known
    ]
    assert odd == []


_PATH = re.compile(r"`((?:casehub|blackboard_ext|tests|examples|docs|benchmarks)/[\w./-]*)`")
_STEP = re.compile(r"^\| `(?P<path>casehub/[\w/]+\.py)` \| `(?P<name>[\w.]+)` \|", re.MULTILINE)


@pytest.mark.parametrize("path", [path for path in PAGES if path != "CONTRIBUTING.md"])  # it names what is to come
def test_the_files_that_a_page_names_exist(path: str) -> None:
    text = _FENCE.sub("", (ROOT / path).read_text(encoding="utf-8"))
    assert [name for name in _PATH.findall(text) if not (ROOT / name).exists()] == []


def test_the_functions_on_the_way_of_an_event_are_where_the_map_says() -> None:
    steps = _STEP.findall((ROOT / "docs/architecture.md").read_text(encoding="utf-8"))
    assert len(steps) > 40
    lost = []
    for path, name in steps:
        found: Any = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            lost.append(f"{path}: {name}")
    assert lost == []


def test_the_map_names_every_module() -> None:
    named = set(_PATH.findall((ROOT / "docs/architecture.md").read_text(encoding="utf-8")))
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "casehub").glob("*.py")}
    folders = {f"{path.parent.relative_to(ROOT).as_posix()}/" for path in (ROOT / "casehub").glob("*/__init__.py")}
    assert sorted((modules | folders) - named) == []


@pytest.mark.parametrize("package", ["casehub.engine", "casehub.loader", "blackboard_ext", "blackboard_ext.strategies"])
def test_a_package_that_is_a_map_of_its_modules_names_every_one(package: str) -> None:
    found = importlib.import_module(package)
    told = set(re.findall(r"\w+", found.__doc__ or ""))
    modules = {path.stem for path in Path(found.__file__ or "").parent.glob("*.py")} - {"__init__"}
    assert sorted(modules - told) == []


# From here on: the runner itself, on made-up pages.


def made_up(*lines: str) -> list[Block]:
    return list(blocks_of("\n".join((*lines, ""))))


def test_blocks_are_found_with_their_place() -> None:
    page = "# T\n\n```python\nx = 1\n```\n\n- item\n\n  ```text output\n  1\n  ```\n"
    assert list(blocks_of(page)) == [
        Block("python", (), "x = 1\n", 4),
        Block("text", ("output",), "1\n", 10),
    ]


def test_blocks_share_a_namespace_and_may_await() -> None:
    player = Player("made_up")
    first, second, third = made_up(
        "```python", "import asyncio", "x = 1", "```",
        "```python", "await asyncio.sleep(0)", "print(x + 1)  # 2", "```",
        "```python", "async def test_it():", "    print('tested')", "```",
    )  # fmt: skip
    assert player.play(first, "page") == ""
    assert player.play(second, "page") == "2\n"
    assert player.play(third, "page") == "tested\n"
    player.close()


def test_output_that_is_not_as_shown_is_found() -> None:
    block, shown = made_up("```python", "print(1)", "```", "```text output", "2", "```")
    assert "the page shows\n2" in compare(block, "1\n", shown)
    assert compare(block, "2\n", shown) == ""


def test_a_comment_behind_a_print_is_compared() -> None:
    (block,) = made_up("```python", "print(1 + 1)  # 3", "```")
    assert "'3'" in compare(block, "2\n", None)
    assert compare(block, "3\n", None) == ""


def test_an_error_names_the_line_of_the_page() -> None:
    player = Player("made_up")
    (block,) = made_up("words", "", "```python", "x = 1", "x.nothing", "```")
    with pytest.raises(AttributeError) as caught:
        player.play(block, "page.md")
    assert caught.traceback[-1].lineno + 1 == 5
    player.close()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("./run --help", ""),
        ("./ruin", "there is no ./ruin"),
        ("python examples/claim.py", ""),
        ("python examples/clam.py", "there is no examples/clam.py"),
        ("frobnicate", "'frobnicate' is not known"),
        ("casehub up examples.claim:claim", ""),
        ("casehub up examples.claim:clam", "there is no examples.claim:clam"),
        ("casehub case strat claim", "Unknown command"),
        ("casehub case list --stauts running", "--stauts"),
        ("casehub case show", "ID"),
    ],
)
def test_commands_are_looked_at(command: str, problem: str) -> None:
    found = list(problems_of_command(command.split()))
    assert (problem in found[0]) if problem else not found


def test_anchors_are_those_of_github() -> None:
    assert anchors_of("# One `case`, two\n\n## What it promises - and not\n") == {
        "one-case-two",
        "what-it-promises---and-not",
    }
