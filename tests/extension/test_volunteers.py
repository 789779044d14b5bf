"""Volunteers: whoever may work is asked, and the best bids win; a bid that fails or is late is none."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from blackboard_ext import NoteWritten, PlanningStrategyLoopControl
from blackboard_ext.strategies import Volunteers
from casehub import CaseDefinition, CaseView, DeliberationFinished, SettingsError
from casehub.testing import CaseTestKit

Bid = Callable[[CaseView], Awaitable[Any]]


def offers(bid: Any) -> Bid:
    async def answer(case: CaseView) -> Any:
        if isinstance(bid, Exception):
            raise bid
        return bid

    return answer


async def never(case: CaseView) -> float:
    await asyncio.Event().wait()
    return 1.0


async def as_long_as_the_request(case: CaseView) -> float:
    return len(case.context["request"])


def search() -> CaseDefinition:
    """Three workers that can answer a request."""
    d = CaseDefinition("search", goal="never", signals=["never"])
    for name in ("files", "web", "archive"):

        async def work(request: str) -> str:
            return request

        d.worker(writes=f"from_{name}", name=name)(work)
    return d


async def asked(strategy: Volunteers) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    """What the first deliberation chose, why, and the plan's note."""
    d = search()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, request="papers on blackboards")
        with kit.hub.watch(DeliberationFinished, case=case.id, after=0) as answers:
            found = await anext(answers)
        notes: list[Any] = [event.value for event in kit.events(case, NoteWritten)]
        await case.kill()
        return found.chosen, found.rationale, notes[0] if notes else {}


@pytest.mark.parametrize(
    ("bids", "options", "chosen"),
    [
        ({"files": offers(1), "web": offers(2.5), "archive": offers(2)}, {}, ("web",)),
        ({"files": offers(1), "web": offers(2.5), "archive": offers(2)}, {"count": 2}, ("web", "archive")),
        ({"files": offers(1), "web": offers(1)}, {}, ("files",)),
        ({"archive": offers(-1)}, {}, ("archive",)),
        ({"files": as_long_as_the_request, "web": offers(20)}, {}, ("files",)),
        ({"files": offers(None), "web": offers(math.nan), "archive": offers(True)}, {}, ()),
        ({}, {}, ()),
        ({"somebody else": offers(1)}, {}, ()),
    ],
    ids=["best", "best two", "equal", "below zero", "reads the case", "no numbers", "nobody", "unknown"],
)
async def test_the_best_bids_win(bids: dict[str, Bid], options: dict[str, Any], chosen: tuple[str, ...]) -> None:
    assert (await asked(Volunteers(bids, **options)))[0] == chosen


async def test_a_bid_that_raises_or_is_late_is_none_and_the_plan_says_so() -> None:
    bids = {"files": offers(ConnectionError("down\0")), "web": never, "archive": offers(0.1)}
    chosen, rationale, note = await asked(Volunteers(bids, timeout="10ms"))
    assert (chosen, rationale) == (("archive",), "archive bids 0.1")
    assert note == {
        "asked": ["files", "web", "archive"],
        "bids": {"archive": 0.1},
        "no bid": {"files": "raised ConnectionError: down", "web": "was late: no bid in 0.01 s"},
    }


async def test_a_patient_one_waits_for_a_bid_that_an_impatient_one_has_not() -> None:
    async def slow(case: CaseView) -> float:
        await asyncio.sleep(0.05)
        return 9

    bids = {"files": slow, "web": offers(1)}
    assert (await asked(Volunteers(bids, timeout="5ms")))[0] == ("web",)
    assert (await asked(Volunteers(bids, timeout="5s")))[0] == ("files",)


async def test_a_bid_that_comes_after_it_was_called_off_is_late() -> None:
    async def stubborn(case: CaseView) -> float:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return 9

    chosen, _, note = await asked(Volunteers({"files": stubborn, "web": offers(1)}, timeout="10ms"))
    assert (chosen, note["bids"]) == (("web",), {"web": 1})


async def test_all_are_asked_at_once() -> None:
    here: list[str] = []
    all_here = asyncio.Event()

    def meets(name: str) -> Bid:
        async def answer(case: CaseView) -> float:
            here.append(name)
            if len(here) == 3:
                all_here.set()
            await all_here.wait()
            return 1

        return answer

    chosen, _, note = await asked(Volunteers({name: meets(name) for name in ("archive", "web", "files")}))
    assert chosen == ("files",)
    assert list(note["bids"]) == ["files", "web", "archive"]


async def test_where_nobody_bids_the_case_stalls_with_the_reasons() -> None:
    d = search()
    loop = PlanningStrategyLoopControl(Volunteers({"files": offers(None)}))
    async with CaseTestKit(d, loop=loop) as kit:
        case = await kit.start(d, request="papers")
        await kit.settle()
        assert "nobody bids: files does not volunteer" in str((await case.explain("files"))[0])


def test_a_count_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        Volunteers({}, count=0)
