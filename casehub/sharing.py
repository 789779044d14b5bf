"""The contract of a store that several hubs share: who is there, and whose a case is.

A store that one process owns implements none of this: all cases in it are that process's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from casehub.events import CaseId
from casehub.inputs import Input
from casehub.spi import Claim, Turn
from casehub.values import Plain


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The case is another hub's, until that gives it back or says nothing for as long as its lease is.

    `gone`: the hub has lost its connection, as it does when it is killed: it comes back or is put out before its lease ends.
    """

    owner: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """One of the hubs of a store. `boot`: its start; `left`: seconds of its lease, by the store's clock."""

    boot: str
    name: str
    left: float
    draining: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """What a hub hears of the others: how far the log has got (0: nothing new), whether hubs came or went, and whether
    something was put into the inbox or answered there."""

    position: int = 0
    hubs: bool = False
    inbox: bool = False


@dataclass(frozen=True, slots=True)
class Posted:
    """An input in the inbox, that nobody has answered. `post`: what it is called there."""

    post: str
    case: CaseId
    input: Input


def outcome_of(turn: Turn) -> Mapping[str, Any]:
    """What a turn has come to: where its events are."""
    envelope = turn.envelope
    return {
        "version": envelope.version,
        "turn": envelope.turn,
        "events": len(turn.events),
        "status": turn.status,
        "stalled": turn.stalled,
    }


@runtime_checkable
class SharedStore(Protocol):
    """A `CaseStore` that several hubs have open at once: each case is written by one of them at a time.

    Open, the store is one hub: it renews a lease by the store's own clock, in a thread of its own, until it is closed. Hubs
    whose lease has ended are put out by the others; from then on nothing of theirs is written (`Fenced`), whatever they
    believe. A `commit` names its `Claim`. `due` and `next_due` leave out what other hubs have.
    """

    @property
    def hub(self) -> str:
        """What this start of the hub is called; new with each `open` and `rejoin`."""
        ...

    @property
    def lease(self) -> float:
        """Seconds that the lease runs for from each time it is renewed."""
        ...

    @property
    def held(self) -> bool:
        """Whether the lease still runs, counted by this process alone, on the safe side: false, nothing may be begun."""
        ...

    @property
    def fenced(self) -> bool:
        """Whether the others have put this hub out."""
        ...

    def listen(self, heard: Callable[[News], None]) -> None:
        """Have a function called on the event loop with what there is to hear of other hubs, from here on."""
        ...

    async def rejoin(self) -> None:
        """Be a hub again, as another one, after having been put out. Raises `StoreUnavailableError`."""
        ...

    async def drain(self) -> None:
        """Take up no more cases: whatever is claimed from here on is somebody else's."""
        ...

    async def hubs(self) -> Sequence[Member]:
        """The hubs there are, this one among them, by when they came."""
        ...

    async def claim(self, case: CaseId, tenant: str = "default", *, ended: bool = False) -> Claim | Elsewhere:
        """Take a case up, unless a hub that is there has it; the right that somebody had before is void.

        Of many who try at once one succeeds. A case that has ended stays nobody's, unless `ended` is claimed too; one
        that has not begun is claimed by writing it. A caller who is cancelled has claimed nothing, once that has come to
        its end. Raises `StoreUnavailableError`.
        """
        ...

    async def release(self, case: CaseId, claim: Claim, tenant: str = "default") -> None:
        """Give a case back, unless it has been claimed anew. Raises `StoreUnavailableError`."""
        ...

    async def post(self, case: CaseId, input: Input, tenant: str = "default") -> str:
        """Put an input into the inbox, for the hub that has the case; what it is called there.

        It is there once for each key. Raises `FactError` for an input that cannot be sent.
        """
        ...

    async def posted(self, tenant: str = "default") -> Sequence[Posted]:
        """What nobody has answered of the inbox, for cases that no other hub has, oldest first."""
        ...

    async def answer(self, post: str, outcome: Mapping[str, Plain]) -> None:
        """Say what has become of an input where no turn has: a turn with this `post` says it in its own transaction."""
        ...

    async def answers(self, posts: Sequence[str]) -> Mapping[str, Mapping[str, Plain]]:
        """What has become of these, as far as they are answered: plain data, of a turn `version`, `events` and `turn`."""
        ...

    async def lead(self, name: str, tenant: str = "default") -> bool:
        """Whether this hub is the one that follows the log under a name; it stays so for as long as it is a hub."""
        ...

    async def orphans(self, tenant: str = "default") -> Sequence[CaseId]:
        """The cases that somebody has to work (`STARTING`, `RUNNING`) and no hub that is there has, oldest first."""
        ...
