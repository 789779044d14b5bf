"""Choreography: everything that is eligible runs. The default, and the reference for other loop controls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from casehub.binding import Binding
from casehub.durations import Duration
from casehub.events import Event
from casehub.plan import PlanView
from casehub.spi import Answer
from casehub.state import CaseState
from casehub.view import CaseView


class ChoreographyLoopControl:
    """Selects all that is eligible, at once and without control state."""

    immediate = True
    handles: frozenset[type[Event]] = frozenset()
    deadline: Duration = "1s"

    def initial(self) -> Any:
        return None

    def apply(self, control: Any, event: Event) -> Any:
        return control

    def react(self, state: CaseState, event: Event) -> Iterable[Event]:
        return ()

    def settle(self, state: CaseState) -> Iterable[Event]:
        return ()

    def gate(self, state: CaseState, binding: Binding) -> str | None:
        return None

    def view(self, state: CaseState) -> PlanView | None:
        return None

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        return eligible
