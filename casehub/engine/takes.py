"""What a case makes of each kind of input: the first events of its turn, looked up by the input's class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from casehub.engine.children import child_ended
from casehub.engine.gates import returned
from casehub.engine.intake import INTAKE, Intake
from casehub.engine.people import ask, assign, claim, comment, complete, decline, hand_on, release, timer_due
from casehub.engine.unfault import unfaulted
from casehub.events import Event
from casehub.inputs import (
    Ask,
    Assign,
    ChildEnded,
    Claim,
    Comment,
    Complete,
    Decline,
    Delegate,
    Input,
    Release,
    Returned,
    TimerDue,
    Unfault,
)

TAKES: dict[type[Input], Callable[[Intake, Any], Iterable[Event]]] = {
    **INTAKE,
    Ask: ask,
    Returned: returned,
    ChildEnded: child_ended,
    Claim: claim,
    Release: release,
    Assign: assign,
    Delegate: hand_on,
    Complete: complete,
    Decline: decline,
    Comment: comment,
    TimerDue: timer_due,
    Unfault: unfaulted,
}
