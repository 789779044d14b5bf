"""What the type checkers believe of `user_code.py` is what happens; mypy and pyright themselves are run by `./check`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def user_code(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("typed_user_code", HERE / "user_code.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec.loader.exec_module(module)
    return module


async def test_typed_user_code_runs(user_code: ModuleType) -> None:
    await user_code.work()
    assert "assessed" in user_code.heard
    assert "decision" in user_code.heard


async def test_decorated_functions_stay_what_they_were(user_code: ModuleType) -> None:
    await user_code.decorators_keep_the_type_of_the_function()


async def test_typed_tests_run(user_code: ModuleType) -> None:
    await user_code.a_risky_loan_is_looked_at_twice()


async def test_typed_serializers_run(user_code: ModuleType) -> None:
    await user_code.stored_elsewhere()
