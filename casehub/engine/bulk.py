"""Many inputs for many cases at once: taken in their order, their turns committed together.

For feeds that have thousands of inputs at hand: no task, no future and no request to the store for each of them. Who
gives in a bulk takes the role of each pump for it; what the turns start goes on in tasks of its own, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.engine.recovery import commit, matters
from casehub.engine.runtime import Runtime, Ticket
from casehub.inputs import Input
from casehub.spi import Turn

Ready = Callable[[LiveCase, Input], bool]
"""Whether a case is ready for an input, after what it has taken before."""


@dataclass(slots=True, eq=False)
class Entry(Ticket):
    """An input of a bulk. With `turn` it is committed, with `error` refused; with neither its case was not ready."""

    pump: Pump = field(kw_only=True)
    turn: Turn | None = None
    error: Exception | None = None

    def answer(self, turn: Turn) -> None:
        self.turn = turn

    def refuse(self, error: Exception) -> None:
        self.error = error


@dataclass(slots=True, eq=False)
class _Share:
    """What of a bulk one case has. `ready`: for the inputs that are still to come."""

    ready: bool
    taken: list[tuple[Ticket, Turn]] = field(default_factory=list)


async def take_together(entries: Sequence[Entry], runtime: Runtime, ready: Ready) -> None:
    """Take the inputs of a bulk; those of one case keep their order.

    A case that is being worked is not ready, nor is one that has refused an input for those that come behind it.
    """
    shares: dict[Pump, _Share] = {}
    roles: list[Pump] = []
    turns: list[Turn] = []
    for entry in entries:
        pump = entry.pump
        share = shares.get(pump)
        if share is None:
            share = shares[pump] = _Share(ready=not pump.pumping)
            if share.ready:
                pump.take_role()
                roles.append(pump)
        share.ready = share.ready and ready(pump.live, entry.input)
        if share.ready:
            pump.take(entry, share.taken)
            if entry.error is not None:
                share.ready = False
            elif matters(turn := share.taken[-1][1]):
                turns.append(turn)
    results = await commit(turns, runtime) if turns else ()
    known = None if results is None else dict(zip(map(id, turns), results, strict=True))
    for pump in roles:
        taken = shares[pump].taken
        own = None if known is None else [known[id(turn)] for _, turn in taken if matters(turn)]
        pump.leave_role(await pump.finish(taken, own))
    for pump in roles:
        if any(isinstance(entry, Entry) and not (entry.turn or entry.error) for entry, _ in shares[pump].taken):
            await pump.committed()  # the store said no, and the case takes them again
