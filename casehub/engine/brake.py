"""The brake: nothing new starts in the cases of a definition, or in any, until it is released.

It is pulled for a hub; what follows is an event in each case: a case that is about to take anything is suspended first,
and one that starts begins suspended. So a case's log says by itself that it was held, and replay needs nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from casehub.errors import IllegalTransitionError
from casehub.inputs import Cancel, Input, Resume, Start, Suspend, Unfault
from casehub.state import CaseState

ALL: Final = ""
"""Stands for every definition."""
SIGN: Final = "brake"
"""What the reason of a case that is held by a brake begins with."""


@dataclass(frozen=True, slots=True)
class Pull:
    """Who pulled it, and why."""

    by: str = "engine"
    reason: str = ""

    @property
    def said(self) -> str:
        """The reason that a case is suspended for."""
        return f"{SIGN}: {self.reason}" if self.reason else SIGN


class Brake:
    """The brakes of a hub that are on. `on`: by definition, `ALL` for every one; `workers`: those that are suspended;
    `moves`: how often this hub has begun or ended to pull or release one.

    What the latter come to in a case is a quarantine without an end.
    """

    def __init__(self) -> None:
        self.on: dict[str, Pull] = {}
        self.workers: dict[str, Pull] = {}
        self.moves = 0

    def over(self, definition: str) -> Pull | None:
        """The brake that holds the cases of a definition."""
        return self.on.get(ALL) or self.on.get(definition)

    def hold(self, state: CaseState, definition: str, input: Input) -> Suspend | None:
        """What a case takes before an input, so that nothing new starts in it.

        A `Start` is marked instead, and a `Cancel`. Raises `IllegalTransitionError` for what lets it go on: the brake is on.
        """
        pull = self.over(definition)
        if pull is None:
            return None
        if isinstance(input, Start):
            input.held = pull.said
        elif isinstance(input, Resume | Unfault):
            raise IllegalTransitionError(
                f"case {state.id!r} cannot go on: the brake is on ({pull.said}); release it with 'casehub resume'"
            )
        elif isinstance(input, Cancel):
            input.held = pull.said
        elif state.status.working and not isinstance(input, Suspend):
            return Suspend(by=pull.by, reason=pull.said, at=input.at)
        return None
