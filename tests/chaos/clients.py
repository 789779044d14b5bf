"""Those who use a hub in a chaos run: they start cases, send signals, do tasks, cancel, and write down each answer."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import anyio

from casehub import CaseEndedError, CaseExistsError, CaseHub, CaseStatus, HubClosedError, TaskRefusedError
from casehub.errors import CaseElsewhereError, StoreUnavailableError
from casehub.query import CaseQuery
from casehub.tasks import Task
from tests.chaos import load
from tests.chaos.records import Answer, Deed, Journal, Verb

CLIENTS: Final = 12
"""Of these there are so many at once."""
CROWD: Final = 60
"""Open cases above which no further ones are started."""
OPEN: Final = (CaseStatus.STARTING, CaseStatus.RUNNING, CaseStatus.WAITING, CaseStatus.SUSPENDED)
KINDS: Final = {"chain": 30, "meter": 20, "desk": 15, "bell": 15, "family": 12, "plan": 15, "poison": 3}
"""How often a case of which kind is started."""


class Clients:
    """`acked`: called each time that something is acknowledged; `given_up`: dead letters of what was interrupted too often, in the end; `deeds`: what was asked for before, by whoever used the store; what nobody knows the outcome of is asked again."""

    def __init__(self, hub: CaseHub, journal: Journal, deeds: Iterable[Deed], chance: random.Random, name: str) -> None:
        self._hub = hub
        self._journal = journal
        self._chance = chance
        self._name = name
        self.acked: Callable[[], object] = lambda: None
        self._count = 0
        self._crowd = 0
        self.given_up = 0
        self._again = [deed for deed in deeds if deed.answer == "asked"]
        starts = [deed for deed in deeds if deed.verb == "start" and deed.answer == "acked"][-200:]
        over = {deed.case for deed in deeds if deed.answer == "refused" or (deed.facts or {}) == {"closed": True}}
        self._meters = [deed.case for deed in starts if deed.subject == "meter" and deed.case not in over]
        self._others = [deed.case for deed in starts if deed.subject in ("chain", "family", "plan", "bell")][-20:]

    async def use(self) -> None:
        """Use the hub for ever."""
        async with anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                group.start_soon(self._use)

    async def _use(self) -> None:
        await self.ask_again()
        while True:
            await self._chance.choices((self._start, self._signal, self._work, self._cancel), (35, 40, 20, 5))[0]()
            await anyio.lowlevel.checkpoint()

    async def _look_around(self) -> None:
        self._crowd = len(await self._hub.cases(status=OPEN, limit=CROWD + 1))

    async def ask_again(self) -> None:
        """Ask again for what may or may not have been done."""
        while self._again:
            await self.do(self._again.pop())

    async def do(self, deed: Deed) -> Answer:
        """Ask for something, and write down that it was asked for, and what came of it."""
        self._journal.note(deed, "asked")
        try:
            await self._VERBS[deed.verb](self, deed)
        except CaseExistsError:
            pass  # the id is this deed's own, so it was done
        except (CaseEndedError, TaskRefusedError):
            self._journal.note(deed, "refused")
            if deed.case in self._meters:
                self._meters.remove(deed.case)
            return "refused"
        except (HubClosedError, StoreUnavailableError, CaseElsewhereError):
            return "asked"  # nobody knows, or somebody else would
        self._journal.note(deed, "acked")
        self.acked()
        return "acked"

    async def finish(self) -> None:
        """Bring everything to its end: answer each task, close each meter, until only poison is open.

        What was interrupted so often that it became a dead letter is tried again.
        """
        again, self._again = self._again, []
        while (open_cases := await self._open()) or again:
            again = [deed for deed in again if await self.do(deed) == "asked"]
            for task in await self._hub.tasks.list(limit=1_000):
                await self.do(self._complete(task))
            for case, definition in open_cases.items():
                if definition == "meter":
                    await self.do(self._deed("signal", case, facts={"closed": True}))
            for letter in await self._hub.dead_letters.list(limit=100_000):
                if letter.definition != load.poison.name:
                    with suppress(CaseElsewhereError):
                        await self._hub.dead_letters.retry(letter.id, by="user:operator")
                        self.given_up += 1
            await anyio.sleep(0.01)

    async def _open(self) -> Mapping[str, str]:
        """Open cases other than those that were given poison and have taken it."""
        found: dict[str, str] = {}
        lost = {letter.case for letter in await self._hub.dead_letters.list(definition=load.poison.name, limit=100_000)}
        for status in OPEN:
            after = None
            while page := await self._hub.log.cases(CaseQuery(statuses=(status,), after=after)):
                found |= {each.case: each.definition for each in page if each.case not in lost}
                after = page[-1].case
        return found

    # ---- what they do

    def _deed(self, verb: Verb, case: str, subject: str = "", facts: Any = None) -> Deed:
        self._count += 1
        return Deed(verb, case, f"user:{self._name}.{self._count}", subject, facts)

    async def _start(self) -> None:
        kind = self._chance.choices(list(KINDS), list(KINDS.values()))[0]
        if self._crowd > CROWD or self._count % 10 == 9:
            await anyio.sleep(0.01)
            await self._look_around()
        if self._crowd > CROWD:
            return
        if kind == "meter" and len(self._meters) >= 8:
            return
        self._crowd += 1
        deed = self._deed("start", f"{kind}-{self._name}.{self._count + 1}", kind, self._facts(kind))
        if await self.do(deed) != "acked":
            return
        if kind == "meter":
            self._meters.append(deed.case)
        elif kind in ("chain", "family", "plan", "bell"):
            self._others.append(deed.case)

    def _facts(self, kind: str) -> Mapping[str, Any]:
        number = self._chance.randrange(1_000)
        name = {
            "chain": "begin",
            "desk": "amount",
            "bell": "hour",
            "family": "numbers",
            "plan": "start",
            "poison": "meal",
        }
        return {} if kind == "meter" else {name[kind]: [number, number + 1, number + 2] if kind == "family" else number}

    async def _signal(self) -> None:
        if not self._meters:
            return
        case = self._chance.choice(self._meters)
        if self._chance.random() < 0.03:
            self._meters.remove(case)
            await self.do(self._deed("signal", case, facts={"closed": True}))
        else:
            await self.do(self._deed("signal", case, facts={"pulse": self._chance.getrandbits(40)}))

    async def _work(self) -> None:
        for task in await self._hub.tasks.list(limit=3):
            if task.assignee or self._chance.random() < 0.5:
                await self.do(self._complete(task))
            else:
                await self.do(self._deed("claim", task.case, task.id))

    def _complete(self, task: Task) -> Deed:
        deed = self._deed("complete", task.case, task.id, True)
        return replace(deed, by=f"user:{task.assignee}") if task.assignee else deed

    async def _cancel(self) -> None:
        if self._others:
            await self.do(self._deed("cancel", self._others.pop(self._chance.randrange(len(self._others)))))

    # ---- how they do it

    async def _do_start(self, deed: Deed) -> None:
        await self._hub.start(deed.subject, deed.facts, case_id=deed.case, by=deed.by)

    async def _do_signal(self, deed: Deed) -> None:
        await self._hub.case(deed.case).signal(**deed.facts, by=deed.by, key=deed.key)

    async def _do_claim(self, deed: Deed) -> None:
        await self._hub.tasks.claim(deed.subject, by=deed.by, key=deed.key)

    async def _do_complete(self, deed: Deed) -> None:
        await self._hub.tasks.complete(deed.subject, deed.facts, by=deed.by, key=deed.key)

    async def _do_cancel(self, deed: Deed) -> None:
        await self._hub.case(deed.case).kill(by=deed.by)

    _VERBS: Final[Mapping[str, Callable[[Clients, Deed], Awaitable[None]]]] = {
        "start": _do_start, "signal": _do_signal, "claim": _do_claim, "complete": _do_complete, "cancel": _do_cancel,
    }  # fmt: skip


def poisoned(deeds: Iterable[Deed]) -> set[str]:
    """The cases that were given what nobody can do."""
    return {deed.case for deed in deeds if deed.verb == "start" and deed.subject == load.poison.name}
