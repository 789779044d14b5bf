"""Volunteers: who may work is asked, and who offers most for it works.

Source of the pattern: A. Salemi et al., "LLM-based Multi-Agent Blackboard System for Information Discovery in Data
Science", arXiv 2510.01285: a request is posted on the blackboard, and agents volunteer by what they can do, so that nobody
has to know what each of them is good at. Here the request is a fact: whose worker reads it is eligible, and is asked.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio

from blackboard_ext.plan import CasePlanModel
from blackboard_ext.strategies.answers import said
from casehub.binding import Binding
from casehub.durations import Duration, duration
from casehub.errors import SettingsError
from casehub.spi import Answer, CaseView, Selection

Bid = Callable[[CaseView], Awaitable[float | None]]
"""What somebody offers for the case as it is: the more the better; None for no bid."""


class Volunteers:
    """The `count` best bids, of equal ones the first declared. `bids`: by name of the binding; who has none never bids.

    All eligible are asked at once, and `timeout` bounds how long they may take. A bid that raises, is late, or is no
    finite number is no bid. The plan's note `request` has who was asked, what they bid, and why others did not. Where
    nobody bids nothing is chosen: `fallback(Volunteers(...), other)` says what happens then.
    """

    def __init__(self, bids: Mapping[str, Bid], *, timeout: Duration = "1s", count: int = 1) -> None:
        if count < 1:
            raise SettingsError(f"Volunteers(count={count}): at least 1")
        self._bids = dict(bids)
        self._seconds = duration(timeout).total_seconds()
        self._count = count

    async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        asked = [binding for binding in eligible if binding.name in self._bids]
        answers: dict[str, float | str] = {}
        async with anyio.create_task_group() as group:
            for binding in asked:
                group.start_soon(self._ask, case, binding.name, answers)
        offers = {
            binding.name: answers[binding.name] for binding in asked
        }  # in the order asked, not that of the answers
        bids = {name: offer for name, offer in offers.items() if not isinstance(offer, str)}
        silent = {name: why for name, why in offers.items() if isinstance(why, str)}
        if asked:
            plan.note("request", {"asked": [binding.name for binding in asked], "bids": bids, "no bid": silent})
        chosen = sorted((b for b in asked if b.name in bids), key=lambda b: -bids[b.name])[: self._count]
        if not chosen:
            told = [f"{name} {why}" for name, why in silent.items()]
            return Selection(rationale=f"nobody bids: {', '.join(told) or 'nobody was asked'}" if eligible else "")
        because = ", ".join(f"{name} bids {bid:g}" for name, bid in bids.items())
        plan.focus(chosen[0].name, because=because)
        return chosen

    async def _ask(self, case: CaseView, name: str, answers: dict[str, float | str]) -> None:
        """Note a bid, or why there is none."""
        answers[name] = f"was late: no bid in {self._seconds:g} s"
        with anyio.move_on_after(self._seconds) as scope:
            try:
                bid: object = await self._bids[name](case)
            except Exception as error:
                answers[name] = f"raised {said(error)}"
                return
            if scope.cancel_called:  # it went on when it was called off
                return
            if bid is None:
                answers[name] = "does not volunteer"
            elif isinstance(bid, bool) or not isinstance(bid, int | float) or not math.isfinite(bid):
                answers[name] = f"answered {bid!r:.50}, which is no finite number"
            else:
                answers[name] = float(bid)
