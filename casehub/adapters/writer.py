"""The one thread that writes a database: it takes all that is waiting and commits it as one group.

While a group is on its way to the disk the next one gathers, so groups grow with the load by themselves, without a
timer; the event loop hears of a group once.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, TypeVar

from casehub.adapters.group import Connection, Group, Known
from casehub.adapters.loop_thread import LoopThread
from casehub.adapters.written import Where, Written, prepare
from casehub.errors import StoreError
from casehub.spi import CommitResult, Committed, Refused, TooLarge, Turn

GROUP_EVENTS: Final = 2_000
"""A group takes no further request once it has this many events."""

Moment = Literal["written", "idle", "end"]
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Request:
    """What one caller wants written: turns, or a bookmark (tenant, subscriber, position).

    A turn that was refused before it got here is its result already. Decided, it has `results` or an `error`.
    """

    answer: asyncio.Future[Sequence[CommitResult]]
    turns: Sequence[Written | TooLarge | Refused] = ()
    bookmark: tuple[str, str, int] | None = None
    results: list[CommitResult] = field(default_factory=list)
    error: StoreError | None = None

    @property
    def events(self) -> int:
        return sum(len(turn.rows) for turn in self.turns if isinstance(turn, Written))


Work = Callable[[Connection, Known], Any]
"""Statements that are a transaction of their own, and what they come to."""


@dataclass(slots=True, eq=False)
class Job:
    """What is written besides turns. Done, it has a `value` or an `error`."""

    answer: asyncio.Future[Any]
    work: Work
    value: Any = None
    error: StoreError | None = None


def decide(group: Group, requests: Sequence[Request]) -> None:
    """Take the requests into a group, and give each its results."""
    for request in requests:
        if request.bookmark is not None:
            group.bookmarks.append(request.bookmark)
        failed: set[Where] = set()
        request.results = [group.decide(turn, failed) if isinstance(turn, Written) else turn for turn in request.turns]


class Database(ABC):
    """The connection that writes, used in the writer's thread alone. After an error it is closed, and the next group opens another."""

    patience: float | None = None
    """Seconds without a request after which it wants to hear so; None: never."""

    @abstractmethod
    def connect(self) -> object:
        """Make the connection and the schema where they are not there. Raises the driver's errors and `StoreError`s."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection, which takes back what is open. Nothing where there is none."""

    @abstractmethod
    def transact(self, requests: Sequence[Request]) -> None:
        """One transaction: decide, write, commit. Raises the driver's errors."""

    @abstractmethod
    def work(self, work: Work) -> Any:
        """One transaction of other statements; what they come to. Raises the driver's errors."""

    @abstractmethod
    def at_fault(self, error: Exception) -> bool:
        """Whether the database is the reason, and not what was to be written."""

    @abstractmethod
    def explained(self, error: Exception) -> StoreError:
        """The error as callers get it."""

    def write(self, group: Sequence[Request]) -> None:
        """Gives every request its results or its error."""
        try:
            self.transact(group)
        except Exception as error:
            self.disconnect()
            if len(group) > 1 and not self.at_fault(error):
                for request in group:  # one of them cannot be written: the others can
                    self.write([request])
            else:
                for request in group:
                    request.results, request.error = [], self.explained(error)
                    request.error.__cause__ = error

    def do(self, job: Job) -> None:
        """Gives a job its value or its error."""
        try:
            job.value = self.work(job.work)
        except Exception as error:
            self.disconnect()
            job.error = self.explained(error)
            job.error.__cause__ = error

    @abstractmethod
    def tend(self, moment: Moment) -> None:
        """Look after what is beside the transactions: after each group, when idle for its `patience`, before the end."""


class Writer:
    """The writer as the event loop sees it: made, used and closed on the loop's thread.

    `published` is called there with the committed turns, in commit order, before their callers hear of it.
    """

    def __init__(
        self, name: str, database: Database, published: Callable[[Sequence[Turn]], None], event_bytes: int
    ) -> None:
        self._published = published
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[Exception | None] = self._loop.create_future()
        self._waiting: SimpleQueue[Request | Job | None] = SimpleQueue()
        self._put_off: Job | None = None
        self._database = database
        self._event_bytes = event_bytes
        self._thread = LoopThread(name, self._serve)

    async def started(self) -> None:
        """Raises what kept it from opening the database."""
        error = await self._started
        if error is not None:
            raise error

    async def commit(self, turns: Sequence[Turn]) -> Sequence[CommitResult]:
        """A caller who is cancelled does not hear the answer; the turns are written, or not, all the same."""
        request = Request(self._loop.create_future(), [prepare(turn, self._event_bytes) for turn in turns])
        self._waiting.put(request)
        return await request.answer

    async def bookmark(self, tenant: str, subscriber: str, seq: int) -> None:
        request = Request(self._loop.create_future(), bookmark=(tenant, subscriber, seq))
        self._waiting.put(request)
        await request.answer

    async def do(self, work: Callable[[Connection, Known], T]) -> T:
        """Statements that are a transaction of their own; what they come to."""
        job = Job(self._loop.create_future(), work)
        self._waiting.put(job)
        done: T = await job.answer
        return done

    async def close(self) -> None:
        """Waits until everything is written that was asked for, and nothing is open any longer."""
        self._waiting.put(None)
        await self._thread.ended()

    def _settle(self, group: Sequence[Request]) -> None:
        turns: list[Turn] = []
        for request in group:
            for written, result in zip(request.turns, request.results, strict=False):  # none after an error
                if isinstance(result, Committed) and isinstance(written, Written):
                    written.turn.envelope.seq = result.seq
                    turns.append(written.turn)
        try:
            if turns:
                self._published(turns)
        finally:
            for request in group:
                if request.answer.done():
                    continue  # the caller was cancelled
                if request.error is None:
                    request.answer.set_result(request.results)
                else:
                    request.answer.set_exception(request.error)

    def _hand_over(self, job: Job) -> None:
        if job.answer.done():
            return  # the caller was cancelled
        if job.error is None:
            job.answer.set_result(job.value)
        else:
            job.answer.set_exception(job.error)

    # ---- from here on: in the writer's thread

    def _serve(self, thread: LoopThread) -> None:
        database = self._database
        try:
            database.connect()
        except Exception as error:
            database.disconnect()
            thread.tell(_set_result, self._started, error)
            return
        thread.tell(_set_result, self._started, None)
        while group := self._next():
            if isinstance(group, Job):
                database.do(group)
                thread.tell(self._hand_over, group)
            else:
                database.write(group)
                thread.tell(self._settle, group)
            database.tend("written")
        database.tend("end")
        database.disconnect()

    def _next(self) -> list[Request] | Job | None:
        """All that is waiting, up to the bound or a job; a job; nothing at the end."""
        waiting = self._waiting
        if (job := self._put_off) is not None:
            self._put_off = None
            return job
        try:
            first = waiting.get(timeout=self._database.patience)
        except Empty:
            self._database.tend("idle")
            first = waiting.get()
        if first is None or isinstance(first, Job):
            return first
        group, events = [first], first.events
        while events < GROUP_EVENTS:
            try:
                request = waiting.get_nowait()
            except Empty:
                break
            if request is None:
                waiting.put(None)  # nothing comes after it
                break
            if isinstance(request, Job):
                self._put_off = request
                break
            group.append(request)
            events += request.events
        return group


def _set_result(answer: asyncio.Future[Exception | None], error: Exception | None) -> None:
    if not answer.done():
        answer.set_result(error)
