"""Two processes on one PostgreSQL, one of which is stopped past its lease, killed, or told to leave in the midst of it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from casehub import CaseStatus, WorkerExecutionCompleted
from casehub.adapters.postgres import PostgresStore
from casehub.query import CaseQuery, EventQuery
from casehub.testing.event_logs import opened
from tests.chaos.records import Ledger

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 120.0
LEASE: Final = 2.0
CASES: Final = 20


class Process:
    """A hub in a process of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self._said = folder / "errors"
        self._errors = self._said.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sharing.process", url, str(folder / "ledger.db"), str(folder / "gate")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.hub = self._heard()["hub"]

    def tell(self, *words: object) -> dict[str, Any]:
        """What it answers."""
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)
        return self._heard()

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process has ended by itself\n{self._said.read_text()[-4_000:]}"
        found: dict[str, Any] = json.loads(line)
        return found

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def leave(self) -> None:
        assert self._process.stdin is not None
        print("leave", file=self._process.stdin, flush=True)
        assert self._process.wait(PATIENCE) == 0

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._errors.close()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Scene:
    """Processes, the store as somebody else sees it, and what workers have done."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self.url = f"{url}&lease={LEASE:g}"
        self.folder = folder
        self.ledger = Ledger(folder / "ledger.db")
        self._stack = stack
        stack.callback(self.ledger.close)

    def hub(self) -> Process:
        process = Process(self.url, self.folder)
        self._stack.callback(process.end)
        return process

    def open_gate(self) -> None:
        (self.folder / "gate").touch()

    def close_gate(self) -> None:
        (self.folder / "gate").unlink()

    def called(self, pid: int, prefix: str = "") -> int:
        """How many cases the workers of a process have been called for."""
        effects = [each for each in self.ledger.effects() if each.pid == pid and each.key.startswith(prefix)]
        return len({each.key.partition("/")[0] for each in effects})

    def until(self, test: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not test():
            assert time.monotonic() < end, f"{what}\n{(self.folder / 'errors').read_text()[-4_000:]}"
            time.sleep(0.05)

    def ended(self, number: int) -> None:
        with psycopg.connect(self.store.place.url, autocommit=True) as connection:
            sql = f"SELECT count(*) FROM {self.store.place.schema}.cases WHERE status = 'COMPLETED'".encode()
            self.until(lambda: connection.execute(sql).fetchone() == (number,), f"{number} cases end")

    @property
    def store(self) -> PostgresStore:
        return PostgresStore(self.url, read_only=True)

    def cut(self) -> int:
        """End every session of the hubs on the server; how many there were."""
        with psycopg.connect(self.store.place.url, autocommit=True) as connection:
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = %s AND pid <> pg_backend_pid()",
                (self.application,),
            )
            return len(ended.fetchall())

    application = "casehub"

    async def check(self, number: int) -> None:
        """Every case has ended, each result was taken once, each item has one key, and the log is whole."""
        store = self.store
        async with opened(store):
            cases = await store.log.cases(CaseQuery(limit=10_000))
            assert Counter(each.status for each in cases) == {CaseStatus.COMPLETED: number}
            done = await store.log.query(EventQuery(types=(WorkerExecutionCompleted.name,), limit=100_000))
            keys = [str(getattr(event, "activation", "")) for event in done]
            assert len(keys) == len(set(keys)) == 2 * number
            assert {effect.key for effect in self.ledger.effects()} == set(keys)
            assert [finding for finding in await store.check() if finding.fault] == []


@pytest.fixture
def scene(postgres_url: str, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        found = Scene(f"{postgres_url}&application_name=hubs{os.getpid()}", tmp_path, stack)
        found.application = f"hubs{os.getpid()}"
        yield found


@contextmanager
def stopped(process: Process) -> Iterator[None]:
    process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.signal(signal.SIGCONT)


@pytest.mark.slow
def test_what_a_stopped_process_brings_after_its_lease_is_not_taken(scene: Scene) -> None:
    one = scene.hub()
    one.tell("start", "a", CASES)
    scene.until(lambda: scene.called(one.pid) == CASES, "the first hub calls its workers")
    other = scene.hub()
    with stopped(one):
        scene.until(lambda: scene.called(other.pid) == CASES, "the second hub takes over")
        scene.open_gate()
        scene.ended(CASES)
    scene.until(lambda: one.tell("stand")["hub"] != one.hub, "the first hub joins again")
    stood = one.tell("stand")
    assert stood["fenced"] > 0, "nothing came too late: this shows nothing"
    one.tell("start", "b", 3)  # it is a hub like any other again
    scene.ended(CASES + 3)
    assert scene.called(one.pid, "b-") == 3
    assert other.tell("stand")["fenced"] == 0
    one.leave()
    other.leave()
    asyncio.run(scene.check(CASES + 3))


@pytest.mark.slow
def test_a_rolling_restart_loses_nothing(scene: Scene) -> None:
    hub = scene.hub()
    number = 0
    for turn in range(3):
        number += 5
        hub.tell("start", f"r{turn}", 5)
        upcoming = scene.hub()
        hub.leave()
        hub = upcoming
    scene.open_gate()
    scene.ended(number)
    hub.leave()
    asyncio.run(scene.check(number))


@pytest.mark.chaos
@pytest.mark.timeout(1_800)
def test_hubs_that_are_stopped_killed_and_cut_off_at_random_take_each_result_once(scene: Scene) -> None:
    chance = random.Random(int(os.environ.get("CASEHUB_CHAOS_SEED", "7")))
    hubs = [scene.hub() for _ in range(3)]
    number = fenced = faults = 0
    for turn in range(30):
        alive = chance.choice(hubs)
        alive.tell("start", f"t{turn}", CASES)
        number += CASES
        victim = chance.choice(hubs)
        others = [each for each in hubs if each is not victim]
        fault = chance.choice(("stop", "kill", "cut"))
        faults += 1
        if fault == "stop":
            with stopped(victim):
                others[0].tell("start", f"u{turn}", CASES)
                number += CASES
                time.sleep(chance.uniform(1.0, 2.0) * LEASE)
                scene.open_gate()
            fenced += victim.tell("stand")["fenced"]
        elif fault == "kill":
            scene.open_gate()
            victim.end()
            hubs = [*others, scene.hub()]
        else:
            scene.open_gate()
            assert scene.cut() > 0
        scene.ended(number)
        scene.close_gate()
    assert faults == 30
    assert fenced > 0
    scene.open_gate()
    for hub in hubs:
        hub.leave()
    asyncio.run(scene.check(number))
