"""Oscillation: the same bindings fire in the same cycle, over and over.

Each undoes what the other did, or asks for what the other has given: the facts go round and the case does not go on.
"""

from __future__ import annotations

from collections.abc import Sequence

ROUNDS = 5
"""How often a cycle repeats before it counts as oscillation."""
LONGEST = 10
"""Longest cycle that is looked for, in firings."""


def cycle_in(fired: Sequence[str], rounds: int = ROUNDS) -> tuple[str, ...]:
    """The shortest cycle of two or more bindings that the last firings repeat `rounds` times; empty when there is none.

    A binding that fires alone again and again is no oscillation: its firing limit bounds it.
    """
    for length in range(2, LONGEST + 1):
        if len(fired) < length * rounds:
            return ()
        cycle = tuple(fired[-length:])
        if len(set(cycle)) < 2:
            continue
        recent = fired[-length * rounds :]
        if all(tuple(recent[place : place + length]) == cycle for place in range(0, len(recent), length)):
            return cycle
    return ()
