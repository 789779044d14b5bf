"""Stepping: a case that waits for permission before each decision, so that one can be looked at after the other.

For tests (`kit.step(case)`) and for people at a terminal (`casehub case start --step`). What is stepped is the loop
control: workers, timers and inputs go on as ever, but nothing fires until somebody lets the next selection through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from casehub.binding import Binding
from casehub.case import Case
from casehub.definition import CaseDefinition
from casehub.durations import Duration
from casehub.engine.live import LiveCase
from casehub.envelope import new_case_id
from casehub.events import CaseId, ContextChanged, DeliberationFinished, Event, SelectionDropped, WorkerScheduled
from casehub.hub import CaseHub
from casehub.purpose import Wanted
from casehub.spi import Answer, KeepsAgenda, KeepsControl, LoopControl, WorksStages
from casehub.structure import Structure
from casehub.values import ABSENT, Absent, Plain
from casehub.view import CaseView

FOREVER: Final = "36500d"
"""How long a decision may be held: whoever steps may look around meanwhile, in a debugger too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One decision, and what came of it until the next one or until nothing moved.

    `eligible`, `chosen`, `fired`, `dropped`: names of bindings; `written`: facts by name with their plain values,
    `ABSENT` for a deleted one; `events`: all of the case's in order, the one that ended the deliberation first.
    """

    eligible: tuple[str, ...]
    chosen: tuple[str, ...] = ()
    fired: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    rationale: str = ""
    written: Mapping[str, Plain | Absent]
    events: tuple[Event, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without the events."""
        return {
            "eligible": list(self.eligible),
            "chosen": list(self.chosen),
            "fired": list(self.fired),
            "dropped": list(self.dropped),
            "rationale": self.rationale,
            "written": {name: value for name, value in self.written.items() if value is not ABSENT},
            "deleted": [name for name, value in self.written.items() if value is ABSENT],
        }


def step_of(eligible: Sequence[str], events: Iterable[Event]) -> Step:
    """The step that these events of one case make."""
    seen = tuple(events)
    written: dict[str, Plain | Absent] = {}
    answer: DeliberationFinished | None = None
    for event in seen:
        if isinstance(event, ContextChanged):
            written.update(event.facts)
            written.update(dict.fromkeys(event.deleted, ABSENT))
        elif isinstance(event, DeliberationFinished) and answer is None:
            answer = event
    return Step(
        eligible=tuple(eligible),
        chosen=() if answer is None else answer.chosen,
        fired=tuple(event.binding for event in seen if isinstance(event, WorkerScheduled)),
        dropped=tuple(event.binding for event in seen if isinstance(event, SelectionDropped)),
        rationale="" if answer is None else answer.rationale,
        written=written,
        events=seen,
    )


class Turnstile:
    """Holds the decisions of cases, one a case, until each is let through."""

    def __init__(self) -> None:
        self._held: dict[CaseId, tuple[tuple[str, ...], asyncio.Future[None]]] = {}
        self._open: set[CaseId] = set()

    def held(self, case: CaseId) -> tuple[str, ...]:
        """The bindings that the held decision of a case is about; empty while none is held."""
        found = self._held.get(case)
        return () if found is None or found[1].done() else found[0]

    def let_through(self, case: CaseId) -> None:
        """Let the held decision of a case go on; nothing happens when none is held."""
        if self.held(case):
            self._held[case][1].set_result(None)

    def open(self, case: CaseId) -> None:
        """Let every decision of a case go on from here: nobody steps it any more."""
        self._open.add(case)
        self.let_through(case)

    async def wait(self, case: CaseId, eligible: Iterable[str]) -> None:
        """Hold a decision until it is let through."""
        if case in self._open:
            return
        through: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held[case] = (tuple(eligible), through)
        try:
            await through
        finally:
            if self._held.get(case, (None, None))[1] is through:
                del self._held[case]


class SteppingLoopControl:
    """Another loop control, whose every selection waits at a turnstile first. It decides nothing itself.

    The time that a selection may take does not count while a case is stepped. A stall is not handed over: there is no
    binding to show as what the step is about.
    """

    immediate = False
    deadline: Duration = FOREVER

    def __init__(self, inner: LoopControl, turnstile: Turnstile) -> None:
        self._inner = inner
        self._turnstile = turnstile
        self.handles = inner.handles
        self.initial = inner.initial
        self.apply = inner.apply
        self.react = inner.react
        self.gate = inner.gate
        self.settle = inner.settle
        self.view = inner.view
        if isinstance(inner, KeepsAgenda):
            self.withdraw = inner.withdraw
        if isinstance(inner, KeepsControl):
            self.control_form = inner.control_form
            self.dump_control, self.load_control = inner.dump_control, inner.load_control
        if isinstance(inner, WorksStages):
            self.stage_events = inner.stage_events
            self.inactive, self.awaited, self.direct = inner.inactive, inner.awaited, inner.direct
            self.over = self._over

    def _over(self, structure: Structure) -> LoopControl:
        inner = self._inner
        return SteppingLoopControl(inner.over(structure), self._turnstile) if isinstance(inner, WorksStages) else self

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        await self._turnstile.wait(case.id, [binding.name for binding in eligible])
        return await self._inner.select(case, eligible)


class Stepper:
    """Starts cases of an open hub that are stepped, and steps them."""

    def __init__(self, hub: CaseHub) -> None:
        self.turnstile = Turnstile()
        self._hub = hub

    async def start(
        self,
        definition: CaseDefinition | str,
        given: Mapping[str, Any] | None = None,
        /,
        *,
        case_id: str | None = None,
        goal: Wanted | None = None,
        by: str = "user",
        **facts: Any,
    ) -> Case:
        """Start a case that holds each decision until it is stepped. Raises what `hub.start` does."""
        case = new_case_id() if case_id is None else case_id
        self.take(case, definition)
        return await self._hub.start(definition, given, case_id=case, goal=goal, by=by, **facts)

    def take(self, case: str, definition: CaseDefinition | str) -> None:
        """Hold the decisions of a case that this hub has not taken up yet."""
        self._hub.steer(case, SteppingLoopControl(self._hub.loop_of(definition), self.turnstile))

    async def pending(self, case: Case) -> tuple[str, ...]:
        """Wait for the next decision and say which bindings it is about; empty when the case ends or rests first."""
        while True:
            pump = await self._hub.pump(case.id)
            deciding = await pump.until(_deciding)
            if not deciding or self.turnstile.held(case.id):
                return self.turnstile.held(case.id)
            await asyncio.sleep(0)  # the deliberation is in the log, its select is about to be called

    async def step(self, case: Case) -> Step | None:
        """Let the next decision through and say what came of it, in the hub's own time.

        Waits for the decision, then for the one after it or until nothing moves. None when there is no decision to
        let through: the case has ended, has stalled, or waits for somebody.
        """
        eligible = await self.pending(case)
        if not eligible:
            return None
        state = await case.state()
        before, number = state.version, state.deliberation
        self.turnstile.let_through(case.id)
        pump = await self._hub.pump(case.id)
        await pump.until(lambda live: not _is_deciding(live, number) or None)
        await self.pending(case)
        return step_of(eligible, [event for event in await case.log.query(Event) if event.version > before])


def _is_deciding(live: LiveCase, number: int) -> bool:
    return live.state.deliberating and live.state.deliberation == number


def _deciding(live: LiveCase) -> bool | None:
    """Whether a decision is being made; None while that may still come."""
    state = live.state
    if state.deliberating:
        return True
    return False if state.status.ended or not state.at_work else None
