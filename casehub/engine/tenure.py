"""Whose a case is, as the pump knows it that works it."""

from __future__ import annotations

from collections.abc import Sequence

from casehub.engine.runtime import Runtime, Ticket
from casehub.engine.standing import elsewhere
from casehub.errors import CaseElsewhereError
from casehub.inputs import Input
from casehub.spi import Claim, CommitResult, Fenced, Turn
from casehub.state import CaseState


class Tenure:
    """`claim`: by what right the turns of a case are written here, None where nobody else could; `lost`: that it is another
    hub's by now."""

    __slots__ = ("claim", "lost")

    def __init__(self) -> None:
        self.claim: Claim | None = None
        self.lost: CaseElsewhereError | None = None

    def sign(self, turn: Turn, input: Input) -> Turn:
        """Say by what right a turn is written, and what it answers."""
        turn.claim, turn.post = self.claim, input.post
        return turn

    def refuses(self, ticket: Ticket) -> bool:
        """Whether an input comes too late, and whoever waits for it has been told so."""
        if self.lost is not None:
            ticket.refuse(self.lost)
        return self.lost is not None

    def give_back(self, state: CaseState, runtime: Runtime) -> None:
        """Let other hubs have a case that leaves memory. One that has ended is nobody's."""
        if runtime.standing is not None and self.claim is not None and not state.status.ended:
            runtime.spawn(runtime.standing.release, state.id, self.claim, state.tenant)

    def lose(self, state: CaseState, owner: str, runtime: Runtime) -> CaseElsewhereError:
        """It is another hub's from here on; what is to be said to whoever waits for it here."""
        lease = 0.0 if runtime.standing is None else runtime.standing.store.lease
        self.lost = elsewhere(state.id, owner, lease)
        runtime.wheel.forget(state.tenant, state.id)
        return self.lost


def refused_by(results: Sequence[CommitResult], runtime: Runtime) -> str | None:
    """The hub that has the case, as far as is known, if turns were refused for that; they are counted."""
    fenced = [result for result in results if isinstance(result, Fenced)]
    if runtime.standing is not None:
        runtime.standing.fenced += len(fenced)
    return fenced[0].owner if fenced else None
