"""One process of `test_hash_seeds`: what every ready strategy chooses, and what logs fold to, under its PYTHONHASHSEED.

    python -m tests.replay.seeds LOGS [--write]

Plays a case with each ready strategy, and folds the logs in LOGS and the golden log. `--write`: LOGS is made of what was
played. Prints a digest of each, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from blackboard_ext import PlanningStrategy, PlanningStrategyLoopControl
from casehub import CaseDefinition, Event
from casehub.adapters.codec import as_json, from_json
from casehub.dataform import form_of
from casehub.engine import pump
from casehub.folding import apply
from casehub.state import CaseState
from casehub.testing import CaseTestKit
from casehub.validation import build
from tests.extension.test_strategy_contract import READY

GOLDEN = Path(__file__).parent.parent / "golden" / "events.ndjson"
LETTERS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
_STATE = form_of(CaseState)


def story() -> CaseDefinition:
    """Many bindings that are eligible at once, declared out of sets wherever a set may be given."""
    d = CaseDefinition(
        "story",
        goal="end",
        signals={"go", "stop", "more"},
        external={"found": dict[str, int], "lost": Any},
        protected={"go", "by_alpha"},
    )

    async def work(go: int, more: int = 0) -> int:
        return go + more

    async def both(by_alpha: int, found: dict[str, int]) -> frozenset[str]:
        return frozenset(LETTERS[:by_alpha]) | frozenset(found)

    for place, name in enumerate(LETTERS):
        d.worker(name=name, writes=f"by_{name}", priority=place % 3, cost=float(place % 4))(work)
    d.worker(name="gather", writes="gathered")(both)

    @d.worker(writes="end", when=lambda by_theta, by_eta, stop: bool(by_theta and by_eta and stop))
    async def finish(go: int) -> str:
        return "done"

    d.stage("early", "alpha", "beta", "gamma", optional={"alpha", "beta"})
    d.stage("late", "delta", "epsilon", companions={"epsilon"}, entry=lambda by_beta: by_beta > 0)
    return d


async def played(name: str, strategy: PlanningStrategy) -> list[bytes]:
    """The log of a case, as JSON."""
    d = story()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy), seed=1) as kit:
        case = await kit.start(d, go=1)
        await case.signal({"more": 2, "found": {"x": 1}})
        await kit.advance("1h")
        await case.clear()
        await case.signal(go=3, stop=1)
        await kit.advance("1d")
        return [as_json(event).replace(case.id.encode(), name.encode()) for event in await case.log.query(Event)]


def digest(parts: Iterable[bytes]) -> str:
    return sha256(b"\n".join(parts)).hexdigest()[:16]


def plain(state: CaseState) -> dict[str, Any]:
    """What a state is, but for what the loop control keeps; its one set in an order."""
    found: dict[str, Any] = _STATE.plain(replace(state, control=None))
    if "held" in found:  # what is as in a new state is left out
        found["held"] = sorted(found["held"])
    return found


def folded(events: Sequence[Event]) -> str:
    """A digest of the states that a log goes through. What does not fit the state that far, in the golden log, is left out."""
    state: CaseState | None = None
    found: list[bytes] = []
    for place, event in enumerate(events):
        if state is None:
            state = CaseState(event.case)
        try:
            apply(state, event)
        except (KeyError, AttributeError) as error:
            found.append(type(error).__name__.encode())
        if place % 25 == 0 or place == len(events) - 1:
            found.append(to_json(plain(state), inf_nan_mode="constants"))
    return digest(found)


async def plays() -> dict[str, list[bytes]]:
    """The log of a case with each ready strategy."""
    pump.SLICE = math.inf  # how often a pump pauses depends on the machine, and so does who comes back first
    return {name: await played(name.replace(" ", "-"), strategy) for name, strategy in READY.items()}


def main(logs: Path, *, write: bool) -> None:
    found = asyncio.run(plays())
    result: dict[str, Any] = {f"play {name}": digest(log) for name, log in found.items()}
    if write:
        logs.write_bytes(b"\n".join(line for log in found.values() for line in log))
    by_case: dict[str, list[Event]] = defaultdict(list)
    for line in logs.read_bytes().splitlines():
        event = from_json(line)
        by_case[event.case].append(event)
    for case, events in by_case.items():
        result[f"fold {case}"] = folded(events)
    result["golden"] = folded([from_json(line) for line in GOLDEN.read_bytes().splitlines()])
    result["structure"] = build(story()).hash
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), write="--write" in sys.argv)
