"""A case folded from its log; and when the store says no: what was committed, what is done again, what is refused.

The state in memory is the overlay of the turns that failed. It is dropped, and folded again from the log; what was not
committed goes back in front of the inbox, and what runs is left running: a result fits its attempt, not its task.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from casehub.engine.live import LiveCase
from casehub.engine.runtime import Runtime, Ticket
from casehub.envelope import CaseId, Envelope, Event
from casehub.errors import CaseHubError, FactError, LimitError, StoreError, StoreUnavailableError
from casehub.folding import apply
from casehub.inputs import PUT_OFF, Deliberated, Input, Returned
from casehub.query import EventLog
from casehub.spi import CommitResult, Committed, Conflict, Duplicate, LoopControl, Refused, TooLarge, Turn
from casehub.state import CaseState
from casehub.structure import Structure

log = structlog.get_logger("casehub.engine")

PATIENCE: Final = 30.0
"""Longest wait, in seconds, between two looks at a store that is away; the first is 0.05."""
LONGEST: Final = 300.0
"""Longest wait, in seconds, for an input that its case cannot do without and the store refuses."""
CONFLICTS: Final = 3
"""Conflicts in a row after which an input is refused."""

Taken = Sequence[tuple[Ticket, Turn]]


def matters(turn: Turn) -> bool:
    """Whether the store has to know of a turn. One that changed nothing leaves its key: the next with it is no other."""
    return bool(turn.events or turn.key or turn.post)


async def commit(turns: Sequence[Turn], runtime: Runtime) -> Sequence[CommitResult] | None:
    """What the store says of the turns; None when nobody knows what has become of them."""
    try:
        return await runtime.store.commit(turns)
    except StoreUnavailableError as error:
        runtime.failures += 1
        runtime.outage.failed(str(error))
        log.error("store.unavailable", case=turns[0].envelope.case, turns=len(turns), reason=str(error))
        return None
    except StoreError as error:
        if len(turns) == 1:
            runtime.failures += 1
            return [Refused(turns[0].events[0].name if turns[0].events else "", str(error))]
    alone: list[CommitResult] = []
    for turn in turns:  # one of them cannot be written: the others can
        result = await commit([turn], runtime)
        if result is None:
            return None
        alone += result
    return alone


def restore(
    case: CaseId,
    events: Iterable[Event],
    structure: Structure,
    loop: LoopControl,
    log: EventLog,
    chance: random.Random,
    state: CaseState | None = None,
) -> LiveCase:
    """A case from its log: folding only; nothing reacts and nothing is selected. `state`: where to go on from."""
    state = state or CaseState(case, control=loop.initial())
    handles = loop.handles
    for event in events:
        apply(state, event)
        if type(event) in handles:
            state.control = loop.apply(state.control, event)
    return LiveCase(state, structure, loop, log, chance)


async def reload(
    live: LiveCase, runtime: Runtime, taken: Taken, structure: Structure | None = None, loop: LoopControl | None = None
) -> LiveCase:
    """The case folded again from its log, however long the store is away; under what it has, unless another is given.

    What of `taken` is in the log after all is told its position, and so is everybody who listens.
    """
    events: Sequence[Event] | None = None
    wait = 0.05
    while events is None:
        try:
            events = await runtime.store.load(live.state.id, live.state.tenant)
        except StoreUnavailableError as error:
            log.warning("store.unavailable", case=live.state.id, again_in=wait, reason=str(error))
            await runtime.clock.sleep_until(runtime.clock.monotonic() + wait)
            wait = min(wait * 2, PATIENCE)
    for _, turn in taken:
        if not turn.envelope.seq and turn.events and turn.envelope.version <= len(events):
            found = events[turn.envelope.version - 1]
            if _same(found, turn.events[0]):  # another hub may have written there meanwhile
                turn.envelope.seq = found.seq
    if events:
        runtime.bus.catch_up(events[-1].seq)
    state = live.state
    again = restore(state.id, events, structure or live.structure, loop or live.loop, live.log, runtime.chance)
    again.state.definition, again.state.tenant = state.definition, state.tenant
    if structure is None:  # else what was asked was about another version
        again.deliberations = live.deliberations
        again.deliberations.base = None
        again.deliberations.under_way = again.state.deliberation if again.state.deliberating else None
    return again


def sort_out(
    live: LiveCase, taken: Taken, results: Sequence[CommitResult] | None, refuse: Callable[[Ticket, CaseHubError], None]
) -> tuple[list[tuple[Ticket, Turn]], list[Ticket]]:
    """What of a batch is done, and the tickets that are taken again, in order; the rest goes to `refuse`.

    Without results (an unknown outcome) the log decides: a turn that is in it has been found there by `reload`.
    A conflict is somebody else's doing where nothing before it fell: what follows a turn that fell was built on it.
    """
    done: list[tuple[Ticket, Turn]] = []
    again: list[Ticket] = []
    fallen = False
    answers = iter(results or ())
    for ticket, turn in taken:
        result = next(answers, None) if matters(turn) else None
        if not turn.events or isinstance(result, Committed) or (result is None and turn.envelope.seq):
            done.append((ticket, turn))
        elif isinstance(result, Duplicate):
            done.append((ticket, repeated(live, result.seq)))
        elif isinstance(result, TooLarge | Refused):
            if _failing(ticket.input, error := _said_no(result)):
                again.append(ticket)
            else:
                refuse(ticket, error)
        elif isinstance(result, Conflict) and not fallen and ticket.conflicts >= CONFLICTS:
            refuse(ticket, StoreError(f"case {live.state.id!r} is written by somebody else; one hub alone may own it"))
        else:
            ticket.conflicts += isinstance(result, Conflict) and not fallen
            ticket.setbacks += result is None
            again.append(ticket)
        fallen = fallen or not (result is None or isinstance(result, Committed))
    return done, again


def _same(one: Event, other: Event) -> bool:
    """Whether this is the event that was to be written there."""
    return (one.name, one.at, one.by, one.envelope.turn) == (other.name, other.at, other.by, other.envelope.turn)


def _said_no(result: TooLarge | Refused) -> CaseHubError:
    """Why the store will never write a turn."""
    if isinstance(result, Refused):
        return FactError(f"{result.event} cannot be written: {result.reason}")
    return LimitError(
        f"{result.event} of {result.size:,} bytes is larger than the {result.limit:,} that the store takes; "
        "keep the value elsewhere and write a reference to it"
    )


def _failing(input: Input, error: CaseHubError) -> bool:
    """Make a failure of an answer that cannot be written; whether it is an answer that something waits for."""
    if isinstance(input, Returned):
        input.value, input.error = None, error
    elif isinstance(input, Deliberated):
        input.chosen, input.writes, input.queries, input.rationale, input.error = (), (), (), "", error
    else:
        return False
    return True


def refused(ticket: Ticket, error: CaseHubError, case: CaseId) -> float | None:
    """Tell whoever waits; seconds after which an input is taken again, where its case would stand still without it."""
    if ticket.taken is not None or not isinstance(ticket.input, PUT_OFF):
        ticket.refuse(error)
        return None
    ticket.refusals += 1
    wait = min(2.0**ticket.refusals, LONGEST)
    log.error("input.put_off", case=case, kind=type(ticket.input).__name__, again_in=wait, reason=str(error))
    return wait


async def back_off(ticket: Ticket, runtime: Runtime) -> None:
    """Before an input is taken again: at once the first time, then after growing waits."""
    if ticket.setbacks > 1:
        wait = min(0.05 * 2 ** min(ticket.setbacks, 20), PATIENCE)
        await runtime.clock.sleep_until(runtime.clock.monotonic() + wait)


def repeated(live: LiveCase, seq: int) -> Turn:
    """The answer to an input that was taken before: where its turn is, and nothing new."""
    state = live.state
    envelope = Envelope(case=state.id, definition=state.definition, tenant=state.tenant, turn=state.turn, seq=seq)
    return Turn(envelope, status=state.status)
