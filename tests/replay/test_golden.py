"""The golden log folds to the states that it folded to when each of its events was written.

`tests/golden/states.txt` has a line for each line of the log: its kind, and the digest of the state after it. Where a fold
is meant to come to something else, which old logs then do as well, print the lines anew: python -m tests.replay.test_golden
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256

from pydantic_core import to_json

from casehub.adapters.codec import from_json
from casehub.events import CaseId
from casehub.folding import apply
from casehub.state import CaseState
from tests.replay.seeds import GOLDEN, plain

STATES = GOLDEN.parent / "states.txt"
CASE = CaseId("c1")


def states() -> Iterator[str]:
    """What does not fit the state that far says so. Only what is not as in a new state counts: a part that is added to
    all states changes no digest."""
    state = CaseState(CASE)
    for line in GOLDEN.read_bytes().splitlines():
        event = from_json(line)
        event.version = state.version + 1
        left_out = ""
        try:
            apply(state, event)
        except (KeyError, AttributeError) as error:
            left_out = f" {type(error).__name__}"
        digest = sha256(to_json(plain(state), inf_nan_mode="constants")).hexdigest()[:16]
        yield f"{event.name} {digest}{left_out}"


def test_the_golden_log_folds_to_the_states_that_it_folded_to() -> None:
    found, committed = list(states()), STATES.read_text(encoding="utf-8").splitlines()
    assert len(found) > 100
    known = found[: len(committed)]
    changed = [f"{now}, was {was}" for now, was in zip(known, committed, strict=False) if now != was]
    assert not changed, f"from here on another state: {changed[0]}"
    assert found == committed, f"append to {STATES.name}:\n" + "\n".join(found[len(committed) :])


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in states()))
