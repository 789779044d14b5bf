"""Each small example, played to its end: what it prints is what its reader is told."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

PRINTED = {
    "claim": "approve\n",
    "incident": """\
203.0.113.9 is blocked
Isolate web-1 (1 of 2) {'host': 'web-1', 'because': 'it talks to 203.0.113.9'}
203.0.113.9 is blocked; web-1 is isolated, once for i-1/contain/1
ACTION_PLANNED worker:contain
ACTION_HELD engine
ACTION_APPROVED user:joan
""",
    "learning": """\
EverythingEligible: flaky in 100 of the first 100 cases, 100 of the last
ThompsonSampling: flaky in 3 of the first 100 cases, 0 of the last
UCB1: flaky in 12 of the first 100 cases, 2 of the last
BestObservedOutcome: flaky in 7 of the first 100 cases, 3 of the last
""",
    "orchestrated": """\
STAGE_ACTIVATED intake
STAGE_ACTIVATED review
STAGE_COMPLETED intake
STAGE_COMPLETED review
approve
""",
    "loan": """\
for underwriters: Approve Grace?
Dear Grace: yes, if you bring a payslip
""",
    "own_loop": """\
lamp 40
  live_feed: 0 failures in 7 days
  price_list: 0 failures in 7 days
table 50
  price_list: 0 failures in 7 days
chair 50
  price_list: 0 failures in 7 days
""",
    "watching": """\
milestone 'packed'
pack: WORKER_EXECUTION_COMPLETED
label: WORKER_EXECUTION_COMPLETED
 4 WORKER_SCHEDULED by engine
 5 WORKER_EXECUTION_STARTED by engine
 6 WORKER_EXECUTION_COMPLETED by worker:pack
 9 WORKER_SCHEDULED by engine
10 WORKER_EXECUTION_STARTED by engine
11 WORKER_EXECUTION_COMPLETED by worker:label
13 GOAL_REACHED by engine
""",
    "study": """\
["THOUGHTS ON 'SHARED MEMORY'"]
attempt 1 of research: TimeoutError: no answer
tokens: 1200.0
model closed after 2 calls
""",
    "tested": """\
eligible ('score',), fired ('score',), written {'risk': {'score': 0.9}}
eligible ('decide',), fired ('decide',), written {'decision': 'refuse'}
""",
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_promises(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTED[name]


@pytest.mark.slow
def test_an_example_runs_from_any_folder(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "claim.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "approve\n", "")
