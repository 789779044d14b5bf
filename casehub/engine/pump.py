"""The pump: the one writer of a case.

A case is an object, not a task. One task at a time holds its pump role: it takes inputs from the inbox, turns them
into turns, commits, and starts what the turns say. Before it awaits a lone worker or a deliberation it gives the role
up; whoever posts meanwhile starts a new pump, and when the await ends the task takes the role back or, if it is taken,
posts its result and ends. So an hour-long worker holds nothing up, and nothing arriving costs no task.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import anyio

from casehub.engine.acts import Work, started_by
from casehub.engine.deliberation import Asking
from casehub.engine.executor import Attempt
from casehub.engine.live import LiveCase
from casehub.engine.notices import notices
from casehub.engine.recovery import back_off, commit, matters, refused, reload, repeated, sort_out
from casehub.engine.runtime import Runtime, Ticket
from casehub.engine.tenure import Tenure, refused_by
from casehub.engine.waiters import Waiters
from casehub.errors import CaseHubError, LimitError, StoreUnavailableError
from casehub.events import ActivationId
from casehub.inputs import NEVER, Input, TimerDue
from casehub.spi import CommitResult, Committed, Turn

T = TypeVar("T")

BATCH: Final = 16
"""Inputs that a pump takes before it commits."""
SLICE: Final = 0.001
"""Seconds after which a pump lets the event loop go round."""
_ALL_WELL: Final = frozenset({Committed})


class Pump:
    """The inbox of a case and the role of working it."""

    __slots__ = (
        "_idle",
        "_lap",
        "_taken",
        "_uncommitted",
        "asking",
        "attempts",
        "inbox",
        "live",
        "pumping",
        "runtime",
        "tenure",
        "visitors",
        "waiters",
    )

    def __init__(self, live: LiveCase, runtime: Runtime, idle: Callable[[Pump], None]) -> None:
        self.live = live
        self._idle = idle
        self._lap = 0.0  # when this pump last let the event loop go round
        self.runtime = runtime
        self.inbox: deque[Ticket] = deque()
        self.pumping = False
        self.attempts: dict[ActivationId, Attempt] = {}
        self.visitors = 0
        self.tenure = Tenure()
        self.asking: Asking | None = None
        self._taken: Sequence[tuple[Ticket, Turn]] = ()
        self._uncommitted = False
        self.waiters = Waiters(runtime)

    # ---- from outside

    def post(self, input: Input) -> None:
        """Put an input into the inbox; nobody waits for it."""
        self._enter(Ticket(input))

    async def submit(self, input: Input, *, bounded: bool = True) -> Turn:
        """Put an input into the inbox and wait for its turn to be committed.

        Raises what refused it, or `LimitError` when the inbox is full and `bounded`: what the case itself has led to is
        not; `StoreUnavailableError` when the store does not answer in time: the input stays in the inbox. Cancelling
        abandons the wait and nothing else.
        """
        return await self.visit(self._submit(input, bounded))

    async def _submit(self, input: Input, bounded: bool) -> Turn:
        bound = self.live.structure.definition.limits.inbox
        if bounded and len(self.inbox) >= bound:
            full = f"the inbox of case {self.live.state.id!r} holds {bound} inputs; wait, or raise Limits(inbox=)"
            raise LimitError(full)
        if input.key:
            state = self.live.state
            asking = self.runtime.store.outcome(state.id, input.key, state.tenant)
            seen = await self.runtime.outage.bounded(asking, f"what became of input {input.key!r}")
            if seen is not None:
                return repeated(self.live, seen)
        taken: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._enter(Ticket(input, taken))
        return await taken

    async def read(self, look: Callable[[LiveCase], T]) -> T:
        """Look at the case as last committed."""
        if not self._uncommitted:
            return look(self.live)
        (seen,) = await self.visit(self.waiters.until(lambda live: (look(live),), looking=True))
        return seen

    def glance(self, look: Callable[[LiveCase], T]) -> T | None:
        """Look at the case as last committed; None while there is more of it in memory than that."""
        return None if self._uncommitted else look(self.live)

    async def until(self, test: Callable[[LiveCase], T | None]) -> T:
        """Wait until `test` of the committed case gives something; what it raises comes through."""
        if not self._uncommitted and (answer := test(self.live)) is not None:
            return answer
        return await self.visit(self.waiters.until(test))

    async def unwound(self) -> None:
        """Wait until nothing that this pump started runs any more; who waits for people is not waited for."""
        while self.attempts:
            for attempt in self.attempts.values():
                attempt.let_go()
            await self.waiters.woken()

    async def committed(self) -> None:
        """Wait until the inbox is empty and what was taken is committed."""
        while self.pumping:
            await self.waiters.woken()

    async def visit(self, wait: Awaitable[T]) -> T:
        """Wait for something; the case stays in memory meanwhile."""
        self.visitors += 1
        try:
            return await wait
        finally:
            self._left()

    def _left(self) -> None:
        self.visitors -= 1
        if not self.busy:
            self._idle(self)

    @property
    def busy(self) -> bool:
        """Whether something runs, waits to run, or is waited for; a worker that waits for people does not run."""
        runs = self.pumping or self.inbox or self.asking or self.visitors
        return bool(runs) or any(not attempt.parked for attempt in self.attempts.values())

    def forget_waiters(self, error: Exception) -> None:
        """Tell whoever waits that nobody will answer."""
        self.waiters.refuse(error)
        self._refuse_all(error)

    def give_up(self, error: StoreUnavailableError) -> None:
        """Tell everybody who waits for the store that it is away; what they have posted stays."""
        self.waiters.give_up(error)
        self._refuse_all(error)

    def _refuse_all(self, error: Exception) -> None:
        for ticket in (*(ticket for ticket, _ in self._taken), *self.inbox):
            if ticket.taken is not None:
                ticket.refuse(error)

    def call_off(self) -> None:
        """Cancel everything that runs, for good: the log knows what to run again."""
        for attempt in self.attempts.values():
            attempt.call_off()
        if self.asking is not None:
            self.asking.call_off()

    def lose(self, owner: str = "") -> None:
        """The case is another hub's: what runs of it here is called off, and nothing of it is taken any more."""
        lost = self.tenure.lose(self.live.state, owner, self.runtime)
        self.call_off()
        self.forget_waiters(lost)
        self._taken, self._uncommitted = (), True  # nobody is told any more what it had come to
        self.inbox.clear()
        self._idle(self)

    # ---- the role

    def _enter(self, ticket: Ticket) -> None:
        self.runtime.check_open()
        if self.tenure.refuses(ticket):
            return
        if ticket.input.at is NEVER:
            ticket.input.at = self.runtime.clock.now()
        self.inbox.append(ticket)
        if not self.pumping:
            self.take_role()
            self.runtime.spawn(self._pump)

    def leave_role(self, work: Sequence[Work]) -> None:
        """Give up the role that another took for this case; a task goes on with what there is to do."""
        if work or self.inbox:
            self.runtime.spawn(self._pump, work)
        else:
            self._give_role_up()
            self._idle(self)

    def take_role(self) -> None:
        self.pumping = True
        self.runtime.pumping += 1

    def _give_role_up(self) -> None:
        self.pumping = False
        self.runtime.pumping -= 1
        self.waiters.wake()

    async def _pump(self, scope: anyio.CancelScope, begun: Sequence[Work] = ()) -> None:
        self._lap = time.perf_counter()
        work = await self._rounds([*begun])
        while work:
            self._give_role_up()
            result = await self._work(work[0], scope)
            if result is not None and self.tenure.lost is None:
                result.at = self.runtime.clock.now()
                self.inbox.append(Ticket(result))
            if self.pumping:
                return  # somebody else has taken the role, and takes the result
            self.take_role()
            if scope.cancel_called:
                self.leave_role(())  # the worker was called off, and its task ends with it
                return
            work = await self._rounds([])
        self._give_role_up()
        self._idle(self)

    async def _rounds(self, work: list[Work]) -> list[Work]:
        """Take all that is in the inbox; what is left to do then is one thing at most, the rest runs apart."""
        while self.inbox or len(work) > 1:
            if self.inbox:
                self._start_apart(work)  # what one round starts does not wait for the next
                if self.inbox[0].setbacks:
                    await back_off(self.inbox[0], self.runtime)
                work = await self._round()
            else:
                self._start_apart(work[1:])
                del work[1:]
                await asyncio.sleep(0)  # the others begin before the first goes on
            if time.perf_counter() - self._lap > SLICE:
                await asyncio.sleep(0)
                self._lap = time.perf_counter()
        if self.runtime.draining:
            self._leave(work)
        return work

    def _start_apart(self, work: list[Work]) -> None:
        if self.runtime.draining:
            self._leave(work)
        for each in work:
            self.runtime.spawn(self._work_apart, each)

    def _leave(self, work: list[Work]) -> None:
        """Start nothing: the log has it as started, and who opens the store next runs it."""
        for each in work:
            if isinstance(each, Attempt):
                self.attempts.pop(each.id, None)
            elif self.asking is each:
                self.asking = None
        work.clear()
        self.waiters.wake()

    async def _round(self) -> list[Work]:
        """Take a batch of inputs, commit their turns, and answer with what they start."""
        self._taken = taken = list[tuple[Ticket, Turn]]()
        for _ in range(min(BATCH, len(self.inbox))):
            self.take(self.inbox.popleft(), taken)
        turns = [turn for _, turn in taken if matters(turn)]
        if not turns:
            return await self.finish(taken, ())
        self.runtime.outage.begin(self)
        results = await commit(turns, self.runtime)
        work = await self.finish(taken, results)
        if results is not None or not self.inbox:
            self.runtime.outage.end(self)
        return work

    def take(self, ticket: Ticket, taken: list[tuple[Ticket, Turn]]) -> None:
        """Add the turn that an input leads to, or tell whoever waits what refuses it. Only who has the role may."""
        self._uncommitted = True
        try:
            if self.runtime.brake.on or self.runtime.ward.held or self.live.state.quarantined:
                self._give_notice(ticket.input, taken)
            turn = self.live.take(ticket.input)
            if self.runtime.standing is not None:
                self.tenure.sign(turn, ticket.input)
            taken.append((ticket, turn))
        except CaseHubError as error:
            self.runtime.refused += 1
            self._refuse(ticket, error)

    def _refuse(self, ticket: Ticket, error: CaseHubError) -> None:
        """Tell whoever waits; what the case itself cannot do without is put off instead, and keeps the case in memory."""
        if (wait := refused(ticket, error, self.live.state.id)) is not None:
            self.visitors += 1
            self.runtime.wheel.alarm(wait, partial(self._take_up, ticket))

    def _take_up(self, ticket: Ticket) -> None:
        self.visitors -= 1
        if not self.runtime.closed:
            self._enter(ticket)

    def _give_notice(self, input: Input, taken: list[tuple[Ticket, Turn]]) -> None:
        """Let the case take what the hub has to tell it first."""
        live, runtime = self.live, self.runtime
        told = notices(runtime.brake, runtime.ward, runtime.clock, live.state, live.structure.name, input)
        taken.extend((Ticket(notice), self.tenure.sign(live.take(notice), notice)) for notice in told)

    async def finish(self, taken: Sequence[tuple[Ticket, Turn]], results: Sequence[CommitResult] | None) -> list[Work]:
        """After the commit: answer, and say what is started. `results`: of the turns that matter to the store."""
        done = taken
        if results is None or not set(map(type, results)) <= _ALL_WELL:
            if (owner := refused_by(results or (), self.runtime)) is not None:
                self.lose(owner)
                return []
            done = await self._recover(taken, results)
        self._taken, self._uncommitted = (), False
        work: list[Work] = []
        for ticket, turn in done:
            if turn.events:
                started_by(self, turn, work)
            if isinstance(ticket.input, TimerDue):
                state, timer = self.live.state, ticket.input.timer
                self.runtime.wheel.taken(state.tenant, state.id, timer, state.timers.get(timer))
            ticket.answer(turn)
        self.waiters.tell(self.live)
        return work

    # ---- work

    async def _work_apart(self, scope: anyio.CancelScope, work: Work) -> None:
        result = await self._work(work, scope)
        if result is not None:
            self.post(result)
        elif not self.pumping:
            self._idle(self)

    async def _work(self, work: Work, scope: anyio.CancelScope) -> Input | None:
        self.runtime.working += 1
        try:
            standing = self.runtime.standing
            if standing is not None and not standing.held:
                await standing.regained()  # while the lease of the hub does not run, nothing is begun
            if isinstance(work, Asking):
                return await self._ask(work)
            resources = self.runtime.resources.get(self.live.structure.hash, {})
            try:
                return await work.run(self.runtime.executor, resources, scope)
            finally:
                if self.attempts.get(work.id) is work:
                    del self.attempts[work.id]
                self.waiters.wake()
        finally:
            self.runtime.working -= 1

    async def _ask(self, asking: Asking) -> Input | None:
        try:
            return await asking.run(self.live.loop, self.runtime.wheel)
        finally:
            if self.asking is asking:
                self.asking = None

    async def _recover(
        self, taken: Sequence[tuple[Ticket, Turn]], results: Sequence[CommitResult] | None
    ) -> list[tuple[Ticket, Turn]]:
        """Find out what was committed, go on from there, and put back what was not."""
        self.live = await reload(self.live, self.runtime, taken)
        done, again = sort_out(self.live, taken, results, self._refuse)
        self.inbox.extendleft(reversed(again))
        return done
