"""A loop control's own part of a case: its state, its events, its gate, its view; kept apart from the facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from casehub import (
    Binding,
    CaseDefinition,
    CaseState,
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    Event,
    SelectionDropped,
    WorkerScheduled,
)
from tests.engine.core import Core, names, of


@dataclass(frozen=True)
class Tally:
    """The control state: what was changed, and what was scheduled."""

    changes: int = 0
    scheduled: tuple[str, ...] = ()


class Counting(ChoreographyLoopControl):
    """Counts, says so in the log, and lets a binding pass twice at most."""

    handles = frozenset({ContextChanged, WorkerScheduled})

    def __init__(self) -> None:
        self.seen: list[CaseView] = []

    def initial(self) -> Any:
        return Tally()

    def apply(self, control: Tally, event: Event) -> Tally:
        if isinstance(event, WorkerScheduled):
            return replace(control, scheduled=(*control.scheduled, event.binding))
        return replace(control, changes=control.changes + 1)

    def react(self, state: CaseState, event: Event) -> Iterable[Event]:
        if isinstance(event, ContextChanged):
            yield SelectionDropped(binding="none", reason=f"change {state.control.changes}")

    def gate(self, state: CaseState, binding: Binding) -> str | None:
        return "twice is enough" if state.control.scheduled.count(binding.name) >= 2 else None

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        self.seen.append(case)
        return eligible


def counted(loop: Counting) -> Core:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d, loop=loop)
    core.start(a=0)
    return core


def test_its_state_is_folded_from_the_events_it_handles_and_comes_back_with_the_log() -> None:
    core = counted(Counting())
    core.run()
    assert core.state.control == Tally(2, ("work",))
    core.reload()
    assert core.state.control == Tally(2, ("work",))


def test_its_events_follow_what_they_react_to_and_name_it_as_their_cause() -> None:
    core = counted(Counting())
    events = core.signal(a=1)
    change, note = of(events, ContextChanged)[0], of(events, SelectionDropped)[0]
    assert note.reason == "change 2"
    assert note.cause == change.version
    assert note.version == change.version + 1


def test_a_replay_applies_and_does_not_react() -> None:
    core = counted(Counting())
    length = len(core.log)
    core.crash()
    assert len(of(core.log[length:], SelectionDropped)) == 0


def test_its_gate_holds_back_what_is_eligible() -> None:
    core = counted(Counting())
    core.run()
    for a in range(1, 5):
        core.signal(a=a)
        core.run()
    assert core.count(WorkerScheduled) == 2
    assert core.why("work").text == "twice is enough"


def test_it_holds_nothing_that_two_cases_would_share() -> None:
    loop = Counting()
    one, other = counted(loop), counted(loop)
    one.run()
    assert one.state.control == Tally(2, ("work",))
    assert other.state.control == Tally(1, ("work",))


def test_what_it_sees_is_the_case_with_everything_of_the_turn_in_it() -> None:
    loop = Counting()
    core = counted(loop)
    view = loop.seen[0]
    assert dict(view.context) == {"a": 0}
    assert (view.id, view.definition, view.now) == (core.state.id, "d", core.now)
    assert view.in_flight == ()


def test_the_control_state_is_no_fact() -> None:
    core = counted(Counting())
    assert core.facts == {"a": 0}
    assert "CONTEXT_CHANGED" in names(core.log)
