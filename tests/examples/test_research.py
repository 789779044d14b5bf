"""`examples/research.py`, played to its end: the answer, the bounded loop, the failure."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

RESEARCH = Path(__file__).parent.parent.parent / "examples" / "research.py"

ANSWER = """\
user wrote 'question'
researcher wrote 'facts'
writer wrote 'draft'
critic wrote 'final'
Polished: Draft using [facts gathered about: Why do agents need shared memory?]
"""

LOOP = """\
The critic wants more research:
  user: question = 'Why do agents need shared memory?'
  critic: final = 'Polished: Draft using [facts from 1 sources about: Why do agents need shared memory?]'
  user: doubt = '3 sources'
  critic: needs_more_research = 1, final deleted
  critic: needs_more_research = 2
  critic: final = 'Polished: Draft using [facts from 3 sources about: Why do agents need shared memory?]'
  user: doubt = 'a proof'
  critic: needs_more_research = 3, final deleted
  critic: needs_more_research = 4
  critic: needs_more_research = 5
  critic: needs_more_research = 6
  researcher stops at firings_per_binding = 6
  researcher: LIMIT - held back by firings_per_binding (6)
"""

FAILURE = """\
The writer fails:
case 'lost-notes' has stalled: nothing is running, nothing is eligible, its goals are unmet
  - critic: MISSING_FACTS - needs 'draft', which writer would write
  - writer: UNCHANGED - has run on these facts (WORKER_EXECUTION_FAILED: the notes cannot be read)
  - goal final is not reached: present('final') does not hold
   3 WORKER_SCHEDULED researcher
   4 WORKER_EXECUTION_STARTED researcher
   5 WORKER_EXECUTION_COMPLETED researcher
   7 WORKER_SCHEDULED writer
   8 WORKER_EXECUTION_STARTED writer
   9 WORKER_EXECUTION_FAILED writer: the notes cannot be read
"""


def test_the_question_is_answered_doubted_in_bounds_and_stalls_where_the_writer_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(RESEARCH), run_name="__main__")
    assert capsys.readouterr().out == f"{ANSWER}\n{LOOP}\n{FAILURE}"


def test_the_critic_never_fires_when_the_writer_fails(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(RESEARCH), run_name="__main__")
    _, failure = capsys.readouterr().out.split("The writer fails:")
    assert "WORKER_SCHEDULED critic" not in failure
