"""A definition with stages, strategies for it, and what is none: for the commands that show plans and decisions."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl
from blackboard_ext.strategies import LeastRecentlyFailed
from casehub import Binding, CaseDefinition, CaseView, Defer, Permanent, WorkerExecutionFailed, present
from casehub.spi import Answer

trip = CaseDefinition("trip", goal="done", signals={"go": bool})


@trip.worker(writes="route", priority=2)
async def plan_route(place: str) -> str:
    return f"to {place}"


@trip.worker(writes="bag")
async def pack(place: str) -> str:
    return f"for {place}"


@trip.worker(writes="done")
async def leave(route: str, bag: str, go: bool) -> str:
    return f"{route} with a bag {bag}"


trip.stage("before", "home", leave)
trip.stage("home", plan_route, pack)
trip.stage("away", entry=present("done"))
trip.stage("hotel", manual=True)
trip.milestone("ready", present("bag"))


class Careful:
    """The first, for a reason."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await case.log.count(WorkerExecutionFailed, by="binding", across="definition", since="7d")
        plan.focus("care", because="one thing after the other")
        plan.note("asked", (plan.get("asked", int) or 0) + 1)
        return () if case.in_flight else eligible[:1]


class Hasty:
    """Everything."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        plan.focus("haste", because="time is money")
        return eligible


class Unmade:
    def __init__(self, what: str) -> None:
        self.what = what

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible


class NoStrategy:
    pass


class Waiting:
    """Nothing, for a long time."""

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return Defer(after="1h")


def careful() -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(Careful())


def waiting() -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(Waiting())


def reliable() -> PlanningStrategyLoopControl:
    return PlanningStrategyLoopControl(LeastRecentlyFailed())


# ---- a case without a plan

walk = CaseDefinition("walk", goal="done")


@walk.worker(writes="done")
async def stroll(place: str) -> str:
    return place


# ---- two workers of which one may be out of order

race = CaseDefinition("race", goal="done")


@race.worker(writes="done")
async def flaky(x: int) -> int:
    if x:
        raise Permanent("out of order")
    return x


@race.worker(writes="done")
async def steady(x: int) -> int:
    return x
