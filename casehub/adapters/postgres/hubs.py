"""The hubs of a PostgreSQL database: how one of them keeps its lease, and puts out those that have not kept theirs.

The lease is renewed in a thread of its own, so a blocked event loop does not lose it. That the session of a hub has ended
is known before its lease ends: a process that was killed is put out sooner than one that is frozen.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final
from uuid import uuid4

import psycopg
import structlog

from casehub.adapters.loop_thread import LoopThread
from casehub.adapters.postgres.connection import LOST, Connection, Place
from casehub.sharing import Member, News

log = structlog.get_logger("casehub.store")

LOOKS: Final = 1.0
"""Seconds between two looks at the other hubs, at most; a lease is renewed at each, and three times in its length."""
GRACE: Final = 0.2
"""The part of a lease that a hub gets to make another session, when its session has ended."""

_JOIN: Final = """INSERT INTO hubs (boot, name, joined, expires, draining, pid, began)
SELECT ?, ?, clock_timestamp(), clock_timestamp() + make_interval(secs => ?), false, pid, backend_start
FROM pg_stat_activity WHERE pid = pg_backend_pid()"""
_RENEW: Final = """UPDATE hubs AS h SET expires = clock_timestamp() + make_interval(secs => ?), draining = ?,
    pid = a.pid, began = a.backend_start, missed = NULL
FROM pg_stat_activity AS a WHERE a.pid = pg_backend_pid() AND h.boot = ? RETURNING h.boot"""
_MISS: Final = """UPDATE hubs AS h SET missed = clock_timestamp() WHERE boot <> ? AND missed IS NULL
AND NOT EXISTS (SELECT FROM pg_stat_activity AS a WHERE a.pid = h.pid
    AND coalesce(a.backend_start, h.began) = h.began)"""  # another user's is not shown
_PUT_OUT: Final = """DELETE FROM hubs WHERE boot <> ?
AND (expires < clock_timestamp() OR missed < clock_timestamp() - make_interval(secs => ?)) RETURNING name"""
_LEAVE: Final = "DELETE FROM hubs WHERE boot = ? RETURNING boot"
_TELL: Final = "SELECT pg_notify(channel(), 'hubs')"
_HUBS: Final = """SELECT boot, name, extract(epoch FROM expires - clock_timestamp())::float, draining
FROM hubs ORDER BY joined, boot"""


def hubs_of(connection: Connection) -> Sequence[Member]:
    """The hubs there are, by when they came."""
    return [Member(*row) for row in connection.execute(_HUBS).fetchall()]


def drain_hub(connection: Connection, boot: str) -> None:
    connection.execute("UPDATE hubs SET draining = true WHERE boot = ?", (boot,))


class Membership:
    """One hub among the hubs of a database: its lease, and what it hears of the others.

    Made and asked on the event loop's thread; `heard` is called there. A renewal counts from before it was sent.
    """

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.name = name
        self.boot = uuid4().hex
        self.draining = False
        self.fenced = False
        self.heard: Callable[[News], None] | None = None
        self._until = time.monotonic() + place.lease
        self._since = -math.inf  # when the thread made its session, unless that is the one that it was given
        self._joining: asyncio.Future[None] | None = None
        self._connection: Connection | None = None
        self._lock = Lock()
        self._ending = False
        self._wakes, self._waker = os.pipe()
        self._thread: LoopThread | None = None

    @property
    def held(self) -> bool:
        """Whether the lease still runs, as far as this process can tell."""
        return not self.fenced and time.monotonic() < self._until

    def join(self, connection: Connection) -> None:
        """Become one of the hubs, in whatever thread; the session is for `start` to go on with. Raises psycopg's errors."""
        began = time.monotonic()
        connection.execute(
            "SET synchronous_commit TO off"
        )  # a lease that a crash of the server takes was renewed too late
        self._listen(connection)
        connection.execute(_JOIN, (self.boot, self.name, self.place.lease))
        connection.execute(_TELL)
        self._until = began + self.place.lease
        self._connection = connection

    def start(self) -> None:
        """Keep the lease from here on."""
        self._thread = LoopThread("casehub-postgres-lease", self._serve)

    async def again(self) -> None:
        """After having been put out: be a hub under another name of its start."""
        joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self.boot = uuid4().hex
            self.fenced, self._until, self._joining = False, 0.0, joined
        self.wake()
        await joined

    def wake(self) -> None:
        """Have the thread look now."""
        os.write(self._waker, b"\0")

    async def close(self) -> None:
        """Leave the hubs: their cases are free at once."""
        self._ending = True
        self.wake()
        if self._thread is not None:
            await self._thread.ended()
        elif self._connection is not None:
            self._connection.close()
        os.close(self._wakes)
        os.close(self._waker)

    # ---- from here on: in the thread

    def _serve(self, thread: LoopThread) -> None:
        pause = min(LOOKS, self.place.lease / 3)
        while not self._ending:
            try:
                self._look(thread)
                self._wait(thread, time.monotonic() + pause)
            except Exception as error:  # whatever it is, the lease is not renewed, and runs out
                log.warning("hub.lease_not_renewed", hub=self.name, reason=" ".join(str(error).split()))
                self._disconnect()
                self._sleep(pause / 4)
        self._leave()

    def _look(self, thread: LoopThread) -> None:
        """Renew the lease, and put out who has not."""
        connection = self._connected()
        began = time.monotonic()
        lease = self.place.lease
        with self._lock:
            boot, fenced, joining = self.boot, self.fenced, self._joining
        if fenced:
            return
        if joining is not None:
            connection.execute(_JOIN, (boot, self.name, lease))
            connection.execute(_TELL)
            self._joining = None
        elif connection.execute(_RENEW, (lease, self.draining, boot)).fetchone() is None:
            self.fenced = True
            thread.tell(self._tell, News(hubs=True))
            return
        self._until = began + lease
        if joining is not None:
            thread.tell(_joined, joining)
        connection.execute(_MISS, (boot,))
        if began - self._since < lease * GRACE:
            return  # after the server was away, others get the time to come back that this one had
        out = [name for (name,) in connection.execute(_PUT_OUT, (boot, lease * GRACE)).fetchall()]
        if out:
            log.warning("hub.put_out", hubs=out, by=self.name, lease=lease)
            connection.execute(_TELL)
            thread.tell(self._tell, News(hubs=True))

    def _wait(self, thread: LoopThread, until: float) -> None:
        """Pass on what the others say, until it is time to look again."""
        connection = self._connected()
        waiting = select.poll()
        waiting.register(connection.raw.fileno(), select.POLLIN)
        waiting.register(self._wakes, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            self._hear(thread, connection)
            ready = dict(waiting.poll(left * 1_000))
            if self._wakes in ready:
                os.read(self._wakes, 1_024)
                return

    def _hear(self, thread: LoopThread, connection: Connection) -> None:
        position, hubs, inbox = 0, False, False
        for said in connection.raw.notifies(timeout=0):
            what, _, rest = said.payload.partition(" ")
            if what == "hubs":
                hubs = True
            elif what == "inbox":
                inbox = True
            elif what == "log" and not rest.startswith(self.boot):
                position = max(position, int(rest.rpartition(" ")[2]))
        if position or hubs or inbox:
            thread.tell(self._tell, News(position, hubs, inbox))

    def _tell(self, news: News) -> None:
        if self.heard is not None:
            self.heard(news)

    def _sleep(self, seconds: float) -> None:
        ready, _, _ = select.select([self._wakes], [], [], seconds)
        if ready:
            os.read(self._wakes, 1_024)

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = Connection(self.place)
            try:
                connection.execute("SET synchronous_commit TO off")
                self._listen(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._since = time.monotonic()
        return self._connection

    def _listen(self, connection: Connection) -> None:
        (channel,) = connection.execute("SELECT channel()").fetchone()
        connection.run(f"LISTEN {channel}")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _leave(self) -> None:
        try:
            connection = self._connected()
            connection.execute(_LEAVE, (self.boot,))
            connection.execute(_TELL)
        except (*LOST, psycopg.Error) as error:
            log.warning("hub.not_left", hub=self.name, reason=str(error), lease=self.place.lease)
        self._disconnect()


def _joined(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
