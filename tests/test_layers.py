"""Imports point one way: the layers as data, and what every module of the two packages keeps to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# layer: its modules (a folder brings all in it). A new module is placed here before anything else.
LAYERS = {
    "nouns": (
        "casehub.actions",
        "casehub.activation",
        "casehub.activities",
        "casehub.binding",
        "casehub.compensation",
        "casehub.compensation_events",
        "casehub.context",
        "casehub.dataform",
        "casehub.decision",
        "casehub.declarations",
        "casehub.declared",
        "casehub.definition",
        "casehub.deliberations",
        "casehub.durations",
        "casehub.each",
        "casehub.envelope",
        "casehub.errors",
        "casehub.events",
        "casehub.explanation",
        "casehub.faults",
        "casehub.folding",
        "casehub.forms",
        "casehub.gate",
        "casehub.goals",
        "casehub.humantask",
        "casehub.inputs",
        "casehub.inquiries",
        "casehub.jsontext",
        "casehub.lifecycle",
        "casehub.milestones",
        "casehub.moment",
        "casehub.plain",
        "casehub.plan",
        "casehub.policies",
        "casehub.problems",
        "casehub.schedule",
        "casehub.sentry",
        "casehub.condition",
        "casehub.serialized",
        "casehub.snapshot",
        "casehub.spending",
        "casehub.stage",
        "casehub.state",
        "casehub.purpose",
        "casehub.tracing",
        "casehub.structure",
        "casehub.subcase",
        "casehub.subcase_events",
        "casehub.subcases",
        "casehub.task_events",
        "casehub.tasks",
        "casehub.timers",
        "casehub.values",
        "casehub.versions",
        "casehub.wiring",
    ),
    "rules": (
        "casehub.compensators",
        "casehub.diagram",
        "casehub.outline",
        "casehub.parking",
        "casehub.query",
        "casehub.renaming",
        "casehub.triggers",
        "casehub.validation",
        "casehub.view",
    ),
    "spi": ("casehub.sharing", "casehub.spi"),
    "bus": ("casehub.bus",),
    "engine": ("casehub.engine",),
    "adapters": ("casehub.adapters",),
    "extension faces": ("blackboard_ext.testing",),  # before the folder it lies in
    "extension": ("blackboard_ext",),
    "composition": (
        "casehub.brakes",
        "casehub.case",
        "casehub.case_stage",
        "casehub.checkpoints",
        "casehub.control",
        "casehub.control_cases",
        "casehub.control_server",
        "casehub.control_tasks",
        "casehub.control_verbs",
        "casehub.copies",
        "casehub.deadletters",
        "casehub.encryption",
        "casehub.distant",
        "casehub.export",
        "casehub.fact_history",
        "casehub.family",
        "casehub.fleet",
        "casehub.feeding",
        "casehub.forks",
        "casehub.hindsight",
        "casehub.hub",
        "casehub.imports",
        "casehub.listening",
        "casehub.lookup",
        "casehub.loops",
        "casehub.metrics",
        "casehub.migration",
        "casehub.opening",
        "casehub.patience",
        "casehub.quarantines",
        "casehub.record",
        "casehub.redaction",
        "casehub.references",
        "casehub.registry",
        "casehub.remote",
        "casehub.replay",
        "casehub.residents",
        "casehub.resting",
        "casehub.resources",
        "casehub.retention",
        "casehub.timeline",
        "casehub.transcript",
        "casehub.sessions",
        "casehub.settings",
        "casehub.signals",
        "casehub.snapshots",
        "casehub.stepping",
        "casehub.subscribers",
        "casehub.supervision",
        "casehub.worklist",
    ),
    "root": ("casehub",),
    "faces": ("casehub.__main__", "casehub.cli", "casehub.http", "casehub.loader", "casehub.testing"),
}

# layer: the layers it may import from, besides itself
SEES = {
    "nouns": set[str](),
    "rules": {"nouns"},
    "spi": {"nouns", "rules"},
    "bus": {"nouns", "rules", "spi"},
    "engine": {"nouns", "rules", "spi", "bus"},
    "adapters": {"nouns", "rules", "spi"},
    "extension": {"nouns", "spi"},
    "extension faces": {"nouns", "rules", "spi", "composition", "root", "faces", "extension"},
    "composition": {"nouns", "rules", "spi", "bus", "engine", "adapters"},
    "root": {"nouns", "rules", "spi", "bus", "engine", "adapters", "composition"},
    "faces": {"nouns", "rules", "spi", "bus", "engine", "adapters", "composition", "root"},
}

# Heavy, or in need of an extra: nothing imports them but themselves. `casehub.lookup` loads them by name; what belongs to
# the extension, whoever uses it.
LOOKED_UP = (
    "blackboard_ext.strategies.language_model",
    "casehub.adapters.postgres",
    "casehub.adapters.rabbitmq",
    "casehub.adapters.redis",
    "casehub.adapters.xes",
    "casehub.encryption",
    "casehub.http",
    "casehub.loader",
)
LOOK_UP = "casehub.lookup"

LENGTH = range(30, 401)
EMPTY_NAMES = {"base", "helper", "helpers", "impl", "manager", "util", "utils"}
UNSAFE_MODULES = {"marshal", "pickle", "shelve"}
UNSAFE_NAMES = {"__import__", "eval", "exec"}


def lies_in(module: str, parent: str) -> bool:
    return module == parent or module.startswith(f"{parent}.")


def layer_of(module: str) -> str | None:
    """The layer that the table gives a module; the package root stands for itself alone."""
    for layer, parents in LAYERS.items():
        if any(module == parent if parent == "casehub" else lies_in(module, parent) for parent in parents):
            return layer
    return None


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that is imported; `from a import b` gives `a.b`, a module or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{origin}.{alias.name}"


def import_problems(module: str, layer: str, tree: ast.Module, package: str) -> Iterator[str]:
    for line, name in imported(tree, package):
        top = name.split(".")[0]
        if top in UNSAFE_MODULES:
            yield f"{line}: {top} runs what it reads"
        if top == "importlib" and module != LOOK_UP:
            yield f"{line}: importlib belongs to {LOOK_UP}"
        if top not in ("casehub", "blackboard_ext"):
            continue
        other = layer_of(name) or "root"  # a name taken from `casehub` itself
        if other != layer and other not in SEES[layer]:
            yield f"{line}: {layer} must not see {name} ({other})"
        for parent in LOOKED_UP:
            if lies_in(name, parent) and not lies_in(module, parent):
                yield f"{line}: {parent} is loaded by {LOOK_UP}, not imported"


def code_problems(layer: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    yield f"{inner.lineno}: import inside a function"
        elif isinstance(node, ast.Name) and node.id in UNSAFE_NAMES:
            yield f"{node.lineno}: {node.id} runs text as code"
        elif isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith) and layer == "nouns":
            yield f"{node.lineno}: a noun awaits nothing"
        if "TYPE_CHECKING" in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", "")):
            yield f"{getattr(node, 'lineno', 1)}: TYPE_CHECKING hides an import from this test"


def problems(path: str, source: str) -> list[str]:
    """Everything that is wrong with a module, given its path from the root of the project and its text."""
    module = module_of(path)
    layer = layer_of(module)
    if layer is None:
        return [f"{module} has no layer: place it in LAYERS"]
    tree = ast.parse(source)
    found = [
        *import_problems(module, layer, tree, module if path.endswith("__init__.py") else module.rpartition(".")[0])
    ]
    found += code_problems(layer, tree)
    if EMPTY_NAMES & set(module.replace(".", "_").split("_")):
        found.append(f"{module} says nothing of what is in it")
    if not ast.get_docstring(tree):
        found.append("no docstring")
    length = len(source.splitlines())
    if length >= LENGTH.stop or (length < LENGTH.start and not Path(path).stem.startswith("__")):
        found.append(f"{length} lines, not {LENGTH.start} to {LENGTH.stop - 1}")
    return list(dict.fromkeys(found))


MODULES = sorted(
    path.relative_to(ROOT).as_posix() for name in ("casehub", "blackboard_ext") for path in (ROOT / name).rglob("*.py")
)


@pytest.mark.parametrize("path", MODULES)
def test_a_module_keeps_to_its_layer(path: str) -> None:
    assert problems(path, (ROOT / path).read_text(encoding="utf-8")) == []


def test_both_packages_are_looked_at() -> None:
    assert {path.split("/")[0] for path in MODULES} == {"blackboard_ext", "casehub"}


# From here on: the checker itself, on made-up text.


def made_up(code: str, lines: int = 60) -> str:
    text = f'"""Made up."""\n{code}\n'
    return text + "#\n" * (lines - text.count("\n"))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("casehub/events.py", "import json\nfrom casehub.errors import FactError"),
        ("casehub/events.py", "from casehub import errors"),
        ("casehub/events.py", "from . import errors\nfrom .values import ABSENT"),
        ("casehub/engine/pump.py", "from casehub.bus import Bus\nfrom .state import State\nfrom ..spi import Clock"),
        ("casehub/adapters/redis.py", "import redis.asyncio\nfrom casehub.adapters.codec import encode"),
        ("casehub/http/routes.py", "from casehub.http.sse import frames\nfrom casehub import CaseHub"),
        ("casehub/hub.py", "from casehub.engine.pump import Pump\nfrom casehub.adapters.memory import MemoryStore"),
        ("casehub/lookup.py", "import importlib\nfrom importlib.metadata import entry_points"),
        ("casehub/engine/pump.py", "import sys\nif sys.version_info >= (3, 14):\n    from uuid import uuid7"),
        ("casehub/engine/pump.py", "async def turn(case):\n    await case.settled()"),
        ("casehub/sentry.py", "def truth(program):\n    return program.eval()"),
        ("blackboard_ext/control.py", "from casehub import spi\nfrom casehub.events import StageEvent"),
        (
            "blackboard_ext/testing/plans.py",
            "from blackboard_ext.plan import Plan\nfrom casehub.testing import CaseTestKit",
        ),
        ("blackboard_ext/goap/planner.py", "from blackboard_ext.plan import Plan"),
    ],
)
def test_the_checker_lets_a_clean_module_pass(path: str, code: str) -> None:
    assert problems(path, made_up(code)) == []


@pytest.mark.parametrize(
    ("path", "code", "complaint"),
    [
        ("casehub/events.py", "from casehub.spi import Clock", "nouns must not see casehub.spi.Clock (spi)"),
        ("casehub/events.py", "from casehub import query", "nouns must not see casehub.query (rules)"),
        ("casehub/events.py", "from casehub import CaseHub", "nouns must not see casehub.CaseHub (root)"),
        ("casehub/spi.py", "import casehub.bus", "spi must not see casehub.bus (bus)"),
        ("casehub/bus.py", "from .engine import pump", "bus must not see casehub.engine.pump (engine)"),
        ("casehub/engine/pump.py", "from ..adapters.memory import Store", "engine must not see casehub.adapters"),
        ("casehub/engine/__init__.py", "from ..adapters import memory", "engine must not see casehub.adapters"),
        ("casehub/adapters/memory.py", "from casehub.engine import state", "adapters must not see casehub.engine"),
        ("casehub/hub.py", "from casehub.cli import main", "composition must not see casehub.cli.main (faces)"),
        ("casehub/__init__.py", "from casehub.testing import CaseTestKit", "root must not see casehub.testing"),
        ("casehub/cli.py", "import blackboard_ext", "faces must not see blackboard_ext (extension)"),
        ("blackboard_ext/control.py", "import casehub", "extension must not see casehub (root)"),
        ("blackboard_ext/control.py", "from casehub.query import Query", "extension must not see casehub.query"),
        ("blackboard_ext/control.py", "import blackboard_ext.testing", "extension must not see blackboard_ext.testing"),
        ("casehub/hub.py", "from casehub.adapters import redis", "casehub.adapters.redis is loaded by casehub.lookup"),
        ("casehub/cli.py", "import casehub.http.routes", "casehub.http is loaded by casehub.lookup"),
        ("casehub/hub.py", "import importlib.metadata", "importlib belongs to casehub.lookup"),
        ("casehub/hub.py", "def late():\n    if True:\n        import json", "import inside a function"),
        ("casehub/lookup.py", "async def late():\n    from json import loads", "import inside a function"),
        ("casehub/hub.py", "from typing import TYPE_CHECKING", "TYPE_CHECKING"),
        ("casehub/hub.py", "import typing\nif typing.TYPE_CHECKING:\n    import json", "TYPE_CHECKING"),
        ("casehub/hub.py", "import pickle", "pickle runs what it reads"),
        ("casehub/hub.py", "from marshal import loads", "marshal runs what it reads"),
        ("casehub/hub.py", "import shelve as shelf", "shelve runs what it reads"),
        ("casehub/hub.py", "answer = eval('42')", "eval runs text as code"),
        ("casehub/hub.py", "run = exec", "exec runs text as code"),
        ("casehub/hub.py", "json = __import__('json')", "__import__ runs text as code"),
        ("casehub/events.py", "async def get(case):\n    return await case", "a noun awaits nothing"),
        ("casehub/engine/utils.py", "", "casehub.engine.utils says nothing"),
        ("casehub/engine/task_manager.py", "", "casehub.engine.task_manager says nothing"),
        ("casehub/adapters/base/sql.py", "", "casehub.adapters.base.sql says nothing"),
        ("casehub/novelty.py", "", "casehub.novelty has no layer"),
    ],
)
def test_the_checker_finds(path: str, code: str, complaint: str) -> None:
    found = problems(path, made_up(code))
    assert len(found) >= 1
    assert any(complaint in line for line in found), found


@pytest.mark.parametrize(
    ("path", "lines", "fine"),
    [
        ("casehub/hub.py", 29, False),
        ("casehub/hub.py", 30, True),
        ("casehub/hub.py", 400, True),
        ("casehub/hub.py", 401, False),
        ("casehub/engine/__init__.py", 3, True),
        ("casehub/__main__.py", 3, True),
        ("casehub/__init__.py", 401, False),
    ],
)
def test_the_checker_counts_lines(path: str, lines: int, fine: bool) -> None:
    assert (problems(path, made_up("", lines)) == []) is fine


def test_the_checker_misses_a_docstring() -> None:
    assert problems("casehub/hub.py", "#\n" * 60) == ["no docstring"]


def test_the_checker_knows_every_layer() -> None:
    assert LAYERS.keys() == SEES.keys()
    assert all(seen <= LAYERS.keys() for seen in SEES.values())
    assert "adapters" not in SEES["engine"]
    assert "engine" not in SEES["adapters"]
