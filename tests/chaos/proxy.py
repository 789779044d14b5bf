"""A TCP proxy that misbehaves as told: between a store and its server, on a port of this machine."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

CHUNK: Final = 16_384
RESET: Final = struct.pack("ii", 1, 0)
"""Of a socket that lingers so: closing it resets the connection."""
BYTES: Final = (500, 40_000)
"""After how many bytes, both ways, something happens to a connection: at least, at most."""
COMMITTING: Final = 0.03
"""Seconds that the server gets to do what it will not be heard to have done."""


class Harm(StrEnum):
    """`CUT`: the connection ends after some bytes, in the middle of a message as like as not. `RESET`: it is reset.
    `CUT_REPLY`: a commit goes through and its answer does not. `BLACK_HOLE`: nothing goes through any more, and nobody
    says so, for a while. `LATENCY`: each piece is late. `THROTTLE`: bytes come a few at a time."""

    CUT = "cut"
    CUT_REPLY = "cut reply"
    RESET = "reset"
    BLACK_HOLE = "black hole"
    LATENCY = "latency"
    THROTTLE = "throttle"


class Proxy:
    """`rate`: the share of connections that are harmed, in one of `harms`; `hole`: seconds that a black hole lasts;
    `done`: what has been done, by kind."""

    def __init__(
        self, target: tuple[str, int], chance: random.Random, *, harms: Sequence[Harm] = tuple(Harm), hole: float = 0.3
    ) -> None:
        self.target = target
        self.chance = chance
        self.rate = 1.0
        self.harms = harms
        self.hole = hole
        self.done: Counter[Harm] = Counter()
        self.port = 0
        self._lines: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listens on `port`, on a free one at first."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            lines = list(self._lines)
            for line in lines:
                line.cancel()
            await asyncio.gather(*lines, return_exceptions=True)

    async def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lines.add(task)
        try:
            far, forth = await asyncio.open_connection(*self.target)
        except OSError:
            back.transport.abort()
            return
        try:
            harm = self.chance.choice(self.harms) if self.chance.random() < self.rate else None
            line = Line(self, harm, self.chance.randint(*BYTES), (back, forth))
            async with asyncio.TaskGroup() as ways:
                ways.create_task(line.carry(near, forth, up=True))
                ways.create_task(line.carry(far, back, up=False))
        except* (OSError, Ended):
            pass
        finally:
            for writer in (back, forth):
                writer.transport.abort()
            self._lines.discard(task)


class Ended(Exception):  # noqa: N818 - no error: one of the two ways of a connection has come to its end
    """The connection is over."""


@dataclass(slots=True)
class Line:
    """One connection. `left`: bytes until something happens to it."""

    proxy: Proxy
    harm: Harm | None
    left: int
    ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    deaf: bool = field(default=False)

    async def carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, up: bool) -> None:
        """One way, until it ends."""
        while piece := await source.read(CHUNK):
            if self.harm is Harm.LATENCY:
                self._note(Harm.LATENCY)
                await asyncio.sleep(self.proxy.chance.random() * 0.01)
            self.left -= len(piece)
            if self.left < 0 and self.harm in (Harm.CUT, Harm.RESET):
                await self._send(sink, piece[: self.left])
                self._end(reset=self.harm is Harm.RESET)
            elif self.left < 0 and self.harm is Harm.BLACK_HOLE:
                self.deaf = True
                self._note(Harm.BLACK_HOLE)
                await asyncio.sleep(self.proxy.hole)
                raise Ended
            elif self.left < 0 and self.harm is Harm.CUT_REPLY and up and b"COMMIT" in piece:
                self.deaf = True
                await self._send(sink, piece)
                await asyncio.sleep(COMMITTING)
                self._end(reset=True)
            elif up or not self.deaf:
                await self._send(sink, piece)
        raise Ended

    async def _send(self, sink: asyncio.StreamWriter, piece: bytes) -> None:
        step = 700 if self.harm is Harm.THROTTLE else CHUNK
        for first in range(0, len(piece), step):
            sink.write(piece[first : first + step])
            await sink.drain()
            if first:
                self._note(Harm.THROTTLE)
                await asyncio.sleep(0.001)

    def _end(self, *, reset: bool) -> None:
        assert self.harm is not None
        self._note(self.harm)
        for writer in self.ends:
            if reset:
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                writer.transport.abort()
            else:
                writer.close()
        raise Ended

    def _note(self, harm: Harm) -> None:
        self.proxy.done[harm] += 1
