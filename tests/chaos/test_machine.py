"""Whatever is done to a hub in whatever order, over restarts: the invariants hold after each step, and nothing is left
undone in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.chaos.machine import World

Doing = Callable[[World], Awaitable[Any]]
CASES = st.integers(0, 100)
PULSES = st.integers(0, 10**6)


class Stage:
    """The one task in which an example lives: what it is given it does there, one thing after the other."""

    def __init__(self) -> None:
        self._todo: asyncio.Queue[tuple[Doing, asyncio.Future[Any]] | None] = asyncio.Queue()

    async def live(self) -> None:
        world = World()
        async with world.kit:
            while (given := await self._todo.get()) is not None:
                doing, done = given
                try:
                    done.set_result(await doing(world))
                except BaseException as error:
                    done.set_exception(error)

    async def do(self, doing: Doing) -> Any:
        done = asyncio.get_running_loop().create_future()
        self._todo.put_nowait((doing, done))
        return await done

    def end(self) -> None:
        self._todo.put_nowait(None)


class HubMachine(RuleBasedStateMachine):
    """What can be done to a hub. Steps are synchronous; the hub lives on a loop that runs while a step does."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.started = 0
        self.ended = False

    def do(self, doing: Doing) -> Any:
        return self.runner.run(self.stage.do(doing))

    def case(self, number: int) -> str:
        return f"o{number % self.started}"

    @initialize()
    def open(self) -> None:
        async def make() -> tuple[Stage, asyncio.Task[None]]:
            stage = Stage()
            return stage, asyncio.create_task(stage.live())

        self.stage, self.task = self.runner.run(make())

    @precondition(lambda self: self.started < 3)
    @rule(amount=PULSES)
    def start(self, amount: int) -> None:
        self.do(lambda world: world.start(amount))
        self.started += 1

    @precondition(lambda self: self.started)
    @rule(case=CASES, pulse=PULSES)
    def signal(self, case: int, pulse: int) -> None:
        self.do(lambda world: world.signal(self.case(case), pulse))

    @rule(which=CASES)
    def send_again(self, which: int) -> None:
        self.do(lambda world: world.send_again(which))

    @precondition(lambda self: self.started)
    @rule(case=CASES, verb=st.sampled_from(["suspend", "resume", "claim"]))
    def steer(self, case: int, verb: str) -> None:
        self.do(lambda world: getattr(world, verb)(self.case(case)))

    @precondition(lambda self: self.started)
    @rule(case=CASES, verb=st.sampled_from(["cancel", "close"]), rarely=st.integers(0, 3))
    def end(self, case: int, verb: str, rarely: int) -> None:
        if not rarely:
            self.do(lambda world: getattr(world, verb)(self.case(case)))

    @precondition(lambda self: self.started)
    @rule(case=CASES, answer=st.booleans())
    def complete(self, case: int, answer: bool) -> None:
        self.do(lambda world: world.complete(self.case(case), answer))

    @rule(which=CASES, error=st.booleans())
    def end_call(self, which: int, error: bool) -> None:
        async def end(world: World) -> None:
            if world.calls:
                await world.end_call(which, error)

        self.do(end)

    @rule(which=CASES)
    def answer_late(self, which: int) -> None:
        self.do(lambda world: world.answer_late(which))

    @rule(seconds=st.sampled_from([0.5, 1, 5, 29, 31, 61]))
    def pass_time(self, seconds: float) -> None:
        self.do(lambda world: world.pass_time(seconds))

    @rule()
    def die(self) -> None:
        self.do(lambda world: world.die())

    @precondition(lambda self: self.started)
    @rule(case=CASES, pulse=PULSES, events=st.integers(1, 12))
    def die_amid(self, case: int, pulse: int, events: int) -> None:
        self.do(lambda world: world.die_amid(self.case(case), pulse, events))

    @invariant()
    def look(self) -> None:
        if self.started:
            self.do(lambda world: world.look())

    def teardown(self) -> None:
        try:
            if hasattr(self, "stage"):
                self.do(lambda world: world.come_to_rest())
        finally:
            if hasattr(self, "stage"):
                self.stage.end()
                self.runner.run(_ended(self.task))
            self.runner.close()


async def _ended(task: asyncio.Task[None]) -> None:
    await task


def play(examples: int, steps: int, *, same: bool) -> None:
    """`same`: the same examples each time."""
    with structlog.testing.capture_logs():
        run_state_machine_as_test(
            HubMachine,
            settings=settings(
                max_examples=examples, stateful_step_count=steps, deadline=None, print_blob=True, derandomize=same,
                suppress_health_check=list(HealthCheck), database=None,
            ),
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)  # what fails is made smaller first
def test_whatever_is_done_to_a_hub_its_invariants_hold() -> None:
    play(100, 30, same=True)


@pytest.mark.chaos
@pytest.mark.timeout(3_600)
def test_whatever_is_done_to_a_hub_at_length_its_invariants_hold() -> None:
    play(500, 60, same=False)
