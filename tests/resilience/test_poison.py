"""Poison: a worker that takes its process with it, or never ends, is given up after so many attempts; others get on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    CaseStatus,
    Retry,
    WorkerExecutionExpired,
    WorkerExecutionInterrupted,
    WorkerExecutionStarted,
)
from casehub.adapters.clock import VirtualClock
from casehub.errors import SettingsError
from tests.resilience.mortal import CASES, CRASHES, definitions
from tests.staging import Kept, eventually, idle

ROOT = Path(__file__).parents[2]


def life(url: str, poison: str) -> subprocess.Popen[str]:
    """One life of the hub that dies."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.resilience.mortal", url],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "POISON": poison}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


async def given_up(url: str) -> None:
    """What a store says after the poison was given up: as many attempts as are allowed, and the others' work is done."""
    bad, good = definitions()
    async with CaseHub(bad, good, store=url) as hub:
        case = hub.case("bad")
        assert [event.attempt for event in await case.log.query(WorkerExecutionStarted)] == [1, 2, 3]
        crashes = await case.log.query(WorkerExecutionInterrupted)
        assert [(event.settled, event.left) for event in crashes] == [(False, False), (False, False), (True, False)]
        ended = [each.case for each in await hub.cases(definition=good, status=CaseStatus.COMPLETED)]
        assert len(ended) == CASES
        (letter,) = await hub.dead_letters.list()
        assert (letter.binding, letter.outcome, letter.attempts) == ("poison", "WORKER_EXECUTION_INTERRUPTED", CRASHES)
        await hub.dead_letters.retry(letter.id, by="user:ada", reason="it is mended")
        assert (await case.completed())["done"] == 1


@pytest.mark.slow
def test_a_worker_that_ends_the_process_is_given_up_after_so_many_crashes_and_retried_by_hand(url: str) -> None:
    """S067. Attempts are in the log before they run, so a process that dies of one leaves its trace."""
    codes = []
    for _ in range(CRASHES + 2):
        process = life(url, "exit")
        said, _ = process.communicate(timeout=240)
        codes.append(process.returncode)
        assert process.returncode in (0, 9), said
        if process.returncode == 0:
            break
    assert codes == [9] * CRASHES + [0]
    asyncio.run(given_up(url))


@pytest.mark.slow
@pytest.mark.chaos
def test_a_worker_that_holds_its_process_up_for_ever_is_given_up_as_often_as_somebody_kills_that(url: str) -> None:
    codes = []
    for _ in range(CRASHES + 2):
        process = life(url, "hang")
        assert process.stdout is not None
        watched = threading.Thread(target=_kill_when_blocked, args=(process,))
        watched.start()
        codes.append(process.wait(240))
        watched.join()
        process.stdout.close()
        if codes[-1] == 0:
            break
    assert codes == [-signal.SIGKILL] * CRASHES + [0]
    asyncio.run(given_up(url))


def _kill_when_blocked(process: subprocess.Popen[str]) -> None:
    """What a supervisor does that watches the log."""
    assert process.stdout is not None
    for line in process.stdout:
        if "loop.blocked" in line:
            process.kill()


async def test_a_worker_that_never_ends_is_given_up_after_so_many_attempts_past_their_limit() -> None:
    """Others of the same definition get on, and the worker is tried again by hand."""
    clock, d = VirtualClock(), CaseDefinition("d", goal="done")
    hanging = True

    @d.worker(writes="done", timeout="30s", retry=Retry(3, wait="1s"))
    async def work(a: int) -> int:
        if a == 13 and hanging:
            await asyncio.Event().wait()
        return a

    async with CaseHub(d, store=Kept(), clock=clock) as hub:
        bad = await hub.start(d, a=13)
        for _ in range(10):
            await idle()
            clock.move("31s")
            good = await hub.start(d, a=1)
            assert (await good.completed())["done"] == 1
        assert len(await bad.log.query(WorkerExecutionStarted)) == 3
        assert [event.settled for event in await bad.log.query(WorkerExecutionExpired)] == [False, False, True]
        hanging = False
        (letter,) = await hub.dead_letters.list()
        await hub.dead_letters.retry(letter.id, by="user:ada")
        assert (await bad.completed())["done"] == 13


async def test_a_hub_that_is_left_in_peace_again_and_again_gives_nothing_up(url: str) -> None:
    """Three times more often than a crash would be forgiven; the attempts are counted all the same."""
    d, runs = CaseDefinition("d", goal="done"), list[int]()
    go = False

    @d.worker(writes="done", retry=Retry(crashes=2))
    async def work(a: int) -> int:
        runs.append(a)
        if not go:
            await asyncio.Event().wait()
        return a

    for n in range(6):
        go = n == 5
        async with CaseHub(d, store=url) as hub:
            case = await hub.start(d, a=1, case_id="c") if not n else hub.case("c")
            await eventually(lambda n=n: len(runs) == n + 1)
            if go:
                assert (await case.completed())["done"] == 1
                events = await case.log.query(WorkerExecutionInterrupted)
                assert [(event.left, event.settled) for event in events] == [(True, False)] * 5
                assert (await case.log.query(WorkerExecutionStarted))[-1].attempt == 6


async def test_a_hub_that_is_left_by_an_error_has_not_been_left_in_peace(url: str) -> None:
    d, runs = CaseDefinition("d", goal="done"), list[int]()

    @d.worker(writes="done")
    async def work(a: int) -> int:
        runs.append(a)
        if len(runs) == 1:
            await asyncio.Event().wait()
        return a

    async def used() -> None:
        async with CaseHub(d, store=url) as hub:
            await hub.start(d, a=1, case_id="c")
            await eventually(lambda: runs)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await used()
    async with CaseHub(d, store=url) as hub:
        await hub.case("c").completed()
        (interrupted,) = await hub.case("c").log.query(WorkerExecutionInterrupted)
        assert not interrupted.left


def test_a_policy_that_gives_up_before_the_first_crash_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        Retry(crashes=0)
