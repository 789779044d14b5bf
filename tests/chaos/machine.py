"""A hub under whatever Hypothesis can think of, beside a model of what has to come of it.

What is asked for are deeds, as in the runs that kill processes, so the same checker looks at the same invariants after
every step. The model knows what cases were told and what their workers returned, and what follows for their facts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from casehub import (
    CaseDefinition,
    CaseEnded,
    CaseEndedError,
    CaseStarted,
    HubClosedError,
    HumanTask,
    IllegalTransitionError,
    Retry,
    TaskRefusedError,
    WorkerExecution,
    WorkerExecutionCompleted,
    after,
)
from casehub.events import Event
from casehub.inputs import Returned
from casehub.query import CaseQuery
from casehub.tasks import TaskQuery
from casehub.testing import CaseTestKit
from tests.chaos.checker import INVARIANTS, Evidence, Resources
from tests.chaos.records import Deed, Effect, Verb

KINDS: Final = (CaseStarted, CaseEnded, WorkerExecutionCompleted)
LIMIT: Final = 30.0
"""Seconds that an attempt may take."""
ATTEMPTS: Final = 3
NOTHING: Final = Resources(0, 0, 0)
FAR: Final = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Call:
    """A worker that runs and waits to be told how to end."""

    case: str
    execution: WorkerExecution
    pulse: int
    end: asyncio.Future[int]


@dataclass(slots=True)
class Told:
    """What a case was told: the model. `seen`: what its worker last returned; `closed`: it ends once it is not suspended."""

    amount: int
    pulse: int | None = None
    seen: int | None = None
    approval: bool | None = None
    open: bool = True
    suspended: bool = False
    closed: bool = False


@dataclass(slots=True)
class World:
    """One example: the kit, the model, and what is recorded beside them. `life`: how many hubs there have been."""

    kit: CaseTestKit = field(init=False)
    cases: dict[str, Told] = field(default_factory=dict[str, Told])
    calls: list[Call] = field(default_factory=list[Call])
    deeds: list[Deed] = field(default_factory=list[Deed])
    effects: list[Effect] = field(default_factory=list[Effect])
    hearings: list[int] = field(default_factory=list[int])
    last: list[Deed] = field(default_factory=list[Deed])
    life: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        order, part = self._definitions()
        self.kit = CaseTestKit(order, part)
        self.kit.hub.on(*KINDS, durable="machine")(self._hear)

    def _definitions(self) -> tuple[CaseDefinition, CaseDefinition]:
        part = CaseDefinition("part", goal="made", signals={"pulse": int})

        @part.worker(writes="made")
        async def make(size: int, execution: WorkerExecution) -> int:
            self.effects.append(Effect(execution.idempotency_key, execution.attempt, self.life))
            return size

        order = CaseDefinition("order", goal="closed", signals={"pulse": int, "closed": bool})

        @order.worker(writes="seen", retry=Retry(ATTEMPTS, wait="1s", jitter=False), timeout=f"{LIMIT:g}s")
        async def work(pulse: int, execution: WorkerExecution) -> int:
            self.effects.append(Effect(execution.idempotency_key, execution.attempt, self.life))
            call = Call(execution.case.id, execution, pulse, asyncio.get_running_loop().create_future())
            self.calls.append(call)
            try:
                return await call.end
            finally:
                self.calls.remove(call)

        @order.human_task(writes="approval")
        def approve(amount: int) -> HumanTask[bool]:
            return HumanTask(f"Is {amount} fine?", bool, groups=["desk"], due="1h")

        @order.worker(writes="reminded", on=after("1m"))
        async def remind(amount: int, execution: WorkerExecution) -> int:
            self.effects.append(Effect(execution.idempotency_key, execution.attempt, self.life))
            return amount

        @order.sub_case(part, name="parts", writes="parts", takes="made")
        def parts(amount: int) -> list[dict[str, int]]:
            return [{"size": amount}, {"size": amount + 1}]

        return order, part

    async def _hear(self, event: Event) -> None:
        self.hearings.append(event.seq)

    # ---- what can be done to it

    async def start(self, amount: int) -> None:
        deed = self._deed("start", f"o{len(self.cases)}", subject="order", facts={"amount": amount})
        self.cases[deed.case] = Told(amount)
        await self.do(deed, self.kit.start("order", deed.facts, case_id=deed.case, by=deed.by))

    async def signal(self, case: str, pulse: int) -> None:
        deed = self._pulse(case, pulse)
        if await self._send(deed):
            self.cases[case].pulse = deed.facts["pulse"]

    async def send_again(self, which: int) -> None:
        """A client that has not heard the answer asks again, with the same key."""
        sent = [deed for deed in self.deeds if deed.verb == "signal"]
        if sent:
            deed = sent[which % len(sent)]
            try:
                await self.kit.hub.case(deed.case).signal(**deed.facts, by=deed.by, key=deed.key)
            except CaseEndedError:
                assert not self.cases[deed.case].open or deed.answer == "refused"

    async def close(self, case: str) -> None:
        told = self.cases[case]
        if not told.closed and await self._send(self._deed("signal", case, facts={"closed": True})):
            told.closed, told.open = True, told.suspended

    async def cancel(self, case: str) -> None:
        deed = self._deed("cancel", case)
        if await self.do(deed, self.kit.hub.case(case).kill(by=deed.by)):
            self.cases[case].open = False

    async def suspend(self, case: str) -> None:
        told = self.cases[case]
        try:
            await self.kit.hub.case(case).suspend()
        except (IllegalTransitionError, CaseEndedError):
            assert told.suspended or not told.open
        else:
            told.suspended = True

    async def resume(self, case: str) -> None:
        told = self.cases[case]
        try:
            await self.kit.hub.case(case).resume()
        except (IllegalTransitionError, CaseEndedError):
            assert not told.suspended or not told.open
        else:
            told.suspended, told.open = False, not told.closed

    async def claim(self, case: str) -> None:
        deed = self._deed("claim", case, f"{case}/approve/1")
        await self.do(deed, self.kit.hub.tasks.claim(deed.subject, by=deed.by, groups=["desk"], key=deed.key))

    async def complete(self, case: str, answer: bool) -> None:
        """By whoever has the task, or may take it."""
        (task,) = await self.kit.hub.log.tasks(TaskQuery(task=f"{case}/approve/1"))
        deed = self._deed("complete", case, task.id, answer, f"user:{task.assignee}" if task.assignee else "")
        told = self.cases[case]
        if await self.do(
            deed, self.kit.hub.tasks.complete(deed.subject, answer, by=deed.by, groups=["desk"], key=f"{self.count}")
        ):
            assert told.approval is None
            told.approval = answer
        else:
            assert told.approval is not None or not told.open

    async def end_call(self, which: int, error: bool) -> None:
        """Let a worker that runs return, or raise."""
        call = self.calls[which % len(self.calls)]
        if error:
            call.end.set_exception(OSError("away"))
        else:
            call.end.set_result(call.pulse)
            self.cases[call.case].seen = call.pulse

    async def answer_late(self, which: int) -> None:
        """A result comes once more, or of an attempt that is over."""
        done = [effect for effect in self.effects if "/work/" in effect.key]
        running = {(call.execution.idempotency_key, call.execution.attempt) for call in self.calls}
        over = [effect for effect in done if (effect.key, effect.attempt) not in running]
        if over:
            effect = over[which % len(over)]
            pump = await self.kit.hub.pump(effect.key.rsplit("/", 2)[0])
            if not pump.live.state.status.ended:
                pump.post(Returned(activation=effect.key, attempt=effect.attempt, value=-1, by="worker:work"))

    async def pass_time(self, seconds: float) -> None:
        await self.kit.advance(f"{seconds:g}s")

    async def die(self) -> None:
        """The process is killed, and another one takes its place."""
        self.calls.clear()
        self.life += 1
        await self.kit.restart()

    async def die_amid(self, case: str, pulse: int, events: int) -> None:
        """The process is killed while a signal is taken, after so many events; the client asks the next one again."""
        kit, deed = self.kit, self._pulse(case, pulse)
        kit.crash_after(Event, events)
        with suppress(HubClosedError, CaseEndedError):
            await kit.hub.case(case).signal(**deed.facts, by=deed.by, key=deed.key)
        await kit.settle()
        kit._lives.crash = None
        if kit.crashed:
            await self.die()
            await kit.settle()
        if await self._send(deed):
            self.cases[case].pulse = deed.facts["pulse"]

    # ---- what has to be so

    async def look(self) -> None:
        """After each step: the invariants, and the facts that the model expects."""
        await self.kit.settle()
        found = await self.evidence()
        for name in ("I1", "I2", "I3", "I4", "I5", "I6", "I9", "I11"):
            assert list(INVARIANTS[name](found)) == [], name
        for case, told in self.cases.items():
            state = found.states[case]
            assert state.status.ended is not told.open, (case, state.status)
            facts = {name: fact.value for name, fact in state.facts.items()}
            assert facts["amount"] == told.amount
            assert facts.get("pulse") == told.pulse
            assert facts.get("seen") == told.seen
            assert facts.get("approval") == told.approval

    async def come_to_rest(self) -> None:
        """At the end: resume what is suspended, let workers return and time pass, and see that nothing is left undone."""
        for case, told in self.cases.items():
            if told.open and told.suspended:
                await self.resume(case)
        for _ in range(ATTEMPTS + 1):
            await self.kit.settle()
            while self.calls:
                await self.end_call(0, error=False)
                await self.kit.settle()
            await self.pass_time(60)
        await self.look()
        letters = {letter.case for letter in await self.kit.hub.dead_letters.list(limit=1_000)}
        for case, told in self.cases.items():
            if told.open:
                facts = await self.kit.hub.case(case).context()
                assert facts["reminded"] == told.amount
                assert facts["parts"] == [told.amount, told.amount + 1]
                assert told.seen == told.pulse or case in letters

    async def evidence(self) -> Evidence:
        store = self.kit._store
        residents = self.kit.hub._residents_now
        return Evidence(
            events=store.events, cases=list(await store.log.cases(CaseQuery())), timers=list(await store.due(FAR, 10_000)),
            tasks=[task for task in await store.log.tasks(TaskQuery(limit=1_000)) if not task.status.ended],
            live=[pump.live.state for pump in residents._pumps.values()], letters=[], deeds=self.deeds,
            effects=self.effects, hearings=self.hearings, heard_kinds=KINDS, effectful={"work", "remind", "make"},
            poisoned=(), before=NOTHING, after=NOTHING,
        )  # fmt: skip

    # ---- how it is done

    def _deed(self, verb: Verb, case: str, subject: str = "", facts: Any = None, by: str = "") -> Deed:
        self.count += 1
        return Deed(verb, case, by or f"user:{self.count}", subject, facts)

    def _pulse(self, case: str, pulse: int) -> Deed:
        """A signal that is no other's: one that brings what is there already is not in the log."""
        deed = self._deed("signal", case)
        return replace(deed, facts={"pulse": pulse * 1_000 + self.count})

    async def _send(self, deed: Deed) -> bool:
        return await self.do(deed, self.kit.hub.case(deed.case).signal(**deed.facts, by=deed.by, key=deed.key))

    async def do(self, deed: Deed, doing: Awaitable[Any]) -> bool:
        """Ask for something, and note what came of it; whether it was done."""
        try:
            await doing
        except (CaseEndedError, TaskRefusedError):
            self.deeds.append(replace(deed, answer="refused"))
            return False
        self.deeds.append(replace(deed, answer="acked"))
        return True
