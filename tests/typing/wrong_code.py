"""Mistakes that type checkers find. Each `type: ignore` is a check: both complain about one that is not needed."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from casehub import (
    Budget,
    Case,
    CaseCompleted,
    CaseDefinition,
    CaseFaulted,
    CaseHub,
    ChoreographyLoopControl,
    Gate,
    MilestoneReached,
    present,
)

claim = CaseDefinition("claim", goal="decision")
hub = CaseHub(claim)


@claim.worker(writes="decision")
async def decide(document: str) -> str:
    return document


claim.worker(writes="decision", timeout=90)  # type: ignore[call-overload]  # seconds, minutes?
claim.worker(writes="decision", retries=3)  # type: ignore[call-overload]  # it is called retry
claim.milestone("decided", present("decision"), sla=3)  # type: ignore[arg-type]


def gated(action: str) -> str:
    return action


Gate(gated, risk=len)  # type: ignore[arg-type]  # neither yes nor a reason


@hub.on(CaseCompleted)  # type: ignore[arg-type]  # the function takes another class
async def file(event: CaseFaulted) -> None: ...


class NotAwaited(ChoreographyLoopControl):
    def select(self, case: object, eligible: object) -> list[str]:  # type: ignore[override]
        return []


class NoLoopControl:
    immediate = True


async def work(case: Case) -> None:
    CaseHub(claim, loop=NoLoopControl())  # type: ignore[arg-type]
    await hub.start(decide)  # type: ignore[arg-type]
    await hub.start(document="Ada")  # type: ignore[call-arg]
    await case.signal(document="Ada", wait="forever")  # type: ignore[arg-type]
    (await case.completed()).last("decision")  # type: ignore[arg-type]
    Budget(call=3)  # type: ignore[call-arg]
    with hub.watch(MilestoneReached) as events:
        async for event in events:
            assert event.goal  # type: ignore[attr-defined]
    with hub.watch("MILESTONE_REACHED"):  # type: ignore[call-overload]
        pass
