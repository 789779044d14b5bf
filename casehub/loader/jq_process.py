"""The process that runs jq: a line with a program and its input in, a line with what it comes to out.

It is started with an empty environment, imports nothing of CaseHub, and bounds itself: an evaluation that takes more
processor time than it may ends the process, as jq cannot be interrupted.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from typing import Any

import jq

SECONDS = 0.2
"""Processor time of one evaluation."""
MEMORY = 1 << 30
"""Bytes of the process."""
KEPT = 512
"""Compiled programs that are kept."""


def main() -> None:
    """Answer until there is no more to read."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    programs: dict[str, Any] = {}
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        answer = answered(json.loads(line), programs)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def answered(asked: dict[str, Any], programs: dict[str, Any]) -> dict[str, Any]:
    """`{"results": [...]}`, of which there may be two at most, or `{"error": "..."}`."""
    source = asked["program"]
    try:
        if source not in programs:
            if len(programs) >= KEPT:
                programs.clear()
            programs[source] = jq.compile(source)
        if "input" not in asked:
            return {"results": []}
        results = iter(programs[source].input_value(asked["input"]))
        return {"results": [result for result, _ in zip(results, range(2), strict=False)]}
    except (ValueError, MemoryError) as error:
        return {"error": str(error) or type(error).__name__}


if __name__ == "__main__":
    main()
