"""A hub in a process of its own, which does what it is told line by line; and the cases that such hubs work.

python -m tests.sharing.process URL LEDGER GATE

`start PREFIX NUMBER` starts cases, `stand` says how the hub stands, `leave` ends it. Each answer is a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from casehub import CaseDefinition, CaseElsewhereError, CaseExistsError, CaseHub, StoreUnavailableError, WorkerExecution
from casehub.adapters.loop_thread import LoopThread
from casehub.adapters.postgres import PostgresStore
from casehub.adapters.postgres.hubs import Membership
from tests.chaos.records import Ledger

LATE: Final = 1.0
"""Seconds that the thread which renews is late after a stop."""
MOMENT: Final = 0.02
"""Seconds between two looks at the gate."""


def gated(ledger: Ledger | None = None, gate: Path | None = None) -> CaseDefinition:
    """A worker that waits until a file is there, and one behind it; each call leaves a row in the ledger."""
    definition = CaseDefinition("gated", goal="c")

    def note(execution: WorkerExecution) -> None:
        if ledger is not None:
            ledger.effect(execution.idempotency_key, execution.attempt)

    @definition.worker(writes="b")
    async def first(a: int, execution: WorkerExecution) -> int:
        note(execution)
        while gate is not None and not await asyncio.to_thread(gate.exists):  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(MOMENT)
        return a

    @definition.worker(writes="c")
    async def second(b: int, execution: WorkerExecution) -> int:
        note(execution)
        return b

    return definition


def wake_late() -> None:
    """After a stop, have the thread that renews the lease look later than the workers come back, as it well may: what they
    bring is refused by the store then, and not because the hub has noticed."""
    look = Membership._look  # type: ignore[reportPrivateUsage]  # what is late
    last = [time.monotonic()]

    def late(self: Membership, thread: LoopThread) -> None:
        if time.monotonic() - last[0] > self.place.lease:
            time.sleep(LATE)
        last[0] = time.monotonic()
        look(self, thread)

    Membership._look = late  # type: ignore[method-assign]  # as above


async def serve(url: str, ledger: Path, gate: Path) -> None:
    definition = gated(Ledger(ledger), gate)
    store = PostgresStore(url)
    async with CaseHub(definition, store=store) as hub:
        answer({"hub": store.hub})
        while line := (await asyncio.to_thread(sys.stdin.readline)).split():
            if line[0] == "leave":
                break
            if line[0] == "start":
                for number in range(int(line[2])):
                    await started(hub, definition, f"{line[1]}-{number}", number)
            standing = hub.runtime.standing
            assert standing is not None
            answer(
                {"hub": store.hub, "held": store.held, "fenced": standing.fenced, "cases": hub._residents_now.resident}
            )  # type: ignore[reportPrivateUsage]  # what it has


async def started(hub: CaseHub, definition: CaseDefinition, case: str, number: int) -> None:
    """Start a case, however often the hub is none just now."""
    for _ in range(1_000):
        try:
            await hub.start(definition, case_id=case, a=number)
            return
        except CaseExistsError:
            return
        except (CaseElsewhereError, StoreUnavailableError):
            await asyncio.sleep(MOMENT)
    raise TimeoutError(f"case {case} could not be started")


def answer(said: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    wake_late()
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
