"""The examples that the engine is built for run as they are printed: see `tests/typing/design_code.py`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import anyio
import pytest

from blackboard_ext import FocusChanged
from casehub.testing import CaseTestKit

CODE = Path(__file__).parent.parent / "typing" / "design_code.py"


@pytest.fixture
def design(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, run anew: what one test declares, another does not see."""
    spec = importlib.util.spec_from_file_location("design_code", CODE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec.loader.exec_module(module)
    return module


async def test_workers_that_never_call_each_other_reach_the_goal(
    design: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    await design.work_by_choreography()
    assert capsys.readouterr().out == "approve\n"


async def test_a_strategy_that_asks_the_log_works_the_same_workers_in_stages(design: ModuleType) -> None:
    design.add_the_stages()
    async with design.orchestration() as hub:
        case = await hub.start(design.claim, document="Ada met Grace in Paris")
        assert (await case.completed())["decision"] == "approve"
        (focus,) = await case.log.query(FocusChanged)
        assert (focus.focus, focus.because) == ("reliability", "{} in 7 days")
        with anyio.fail_after(120):
            watched = await design.watch(hub, case, seq=0)
    assert design.celebrated == ["intake", "review"]
    assert sorted(watched) == [
        ("STAGE_ACTIVATED", "intake"),
        ("STAGE_ACTIVATED", "review"),
        ("STAGE_COMPLETED", "intake"),
        ("STAGE_COMPLETED", "review"),
    ]


async def test_a_model_is_a_resource_whose_tokens_count_and_whose_retries_share_a_key(design: ModuleType) -> None:
    async with CaseTestKit(design.study) as kit:
        case = await kit.start(design.study, question="shared memory")
        await kit.advance("30s")
        assert (await case.completed())["final"] == "a fact about shared memory"
        assert (await case.state()).spending.spent("case", "tokens") == 1_200
    (client,) = design.closed
    assert len(client.keys) == 2
    assert len(set(client.keys)) == 1


async def test_a_person_approves_and_the_result_is_typed(
    design: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    await design.work_with_a_person()
    assert capsys.readouterr().out == "approved: True at 0.3\n"


async def test_the_kit_scripts_a_worker_and_fires_every_timer_on_the_way(design: ModuleType) -> None:
    names = await design.work_in_a_test()
    assert names.count("WORKER_EXECUTION_FAILED") == 1  # and the timer of its second attempt was on the way
    assert names.count("WORKER_EXECUTION_COMPLETED") == 1
    assert names[-1] == "CASE_STATUS_CHANGED"  # to WAITING, for the person
    assert "HUMAN_TASK_CREATED" in names
