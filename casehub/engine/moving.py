"""A case goes on under another version of its definition, in the middle of its work.

It is folded again from its log over the other structure, and takes `Adopt` before anything else. What runs goes on, and
what that brings is taken under the other version: a result fits its attempt, whichever version takes it.
"""

from __future__ import annotations

import asyncio

import anyio

from casehub.engine.live import LiveCase
from casehub.engine.pump import Pump
from casehub.engine.recovery import reload
from casehub.engine.runtime import Runtime, Ticket
from casehub.errors import HubClosedError, InputRefusedError
from casehub.inputs import Adopt
from casehub.parking import lacking, unfit
from casehub.spi import LoopControl, Turn
from casehub.structure import Structure


async def move(pump: Pump, structure: Structure, loop: LoopControl) -> None:
    """Have a case adopt a version; it is in the log when this returns.

    Raises `InputRefusedError` where something in flight has no place in it. Cancelling abandons the wait alone.
    """
    pump.runtime.check_open()
    done: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
    pump.runtime.spawn(_move, pump, structure, loop, Ticket(Adopt(), done))
    await pump.visit(done)


async def _move(scope: anyio.CancelScope, pump: Pump, structure: Structure, loop: LoopControl, ticket: Ticket) -> None:
    try:
        await pump.committed()
        pump.take_role()
        try:
            pump.live = await _moved(pump.live, pump.runtime, structure, loop)
            ticket.input.at = pump.runtime.clock.now()
            pump.inbox.appendleft(ticket)
        finally:
            pump.leave_role(())  # to whoever takes what is in the inbox
    except asyncio.CancelledError:
        ticket.refuse(HubClosedError("the hub was left while a case was moved to another version"))
        raise
    except Exception as error:  # a loop control's own code is run over the log
        ticket.refuse(error)


async def _moved(live: LiveCase, runtime: Runtime, structure: Structure, loop: LoopControl) -> LiveCase:
    """The case, all of it committed, over a structure that it has yet to adopt. Raises `InputRefusedError`."""
    if live.state.status.ended:
        raise InputRefusedError(f"case {live.state.id!r} is {live.state.status}; it has no use for another version")
    if lacks := lacking(live.state, structure):
        raise InputRefusedError(unfit(lacks))
    return await reload(live, runtime, (), structure, loop)
