"""What a case makes of each kind of input: the first events of its turn, looked up by the input's class.

A cancellation and the answer of a deliberation are not here: `LiveCase` takes them, as they end or settle its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from casehub.engine.children import child_ended
from casehub.engine.diverging import diverged
from casehub.engine.gates import returned
from casehub.engine.intake import Intake
from casehub.engine.people import ask, assign, claim, comment, complete, decline, hand_on, release, timer_due
from casehub.engine.reports import reported
from casehub.engine.rerouting import rerouted
from casehub.engine.unfault import unfaulted
from casehub.events import Event
from casehub.inputs import (
    Adopt,
    Ask,
    Assign,
    ChildEnded,
    Claim,
    Comment,
    Compensate,
    Complete,
    Decline,
    Delegate,
    DiscardLetter,
    Diverge,
    HoldWorkers,
    Input,
    Leave,
    Recover,
    Release,
    ReleaseWorker,
    Reported,
    Reroute,
    Resume,
    RetryLetter,
    Returned,
    Start,
    SteerStage,
    Suspend,
    TimerDue,
    Unfault,
    Write,
)

TAKES: dict[type[Input], Callable[[Intake, Any], Iterable[Event]]] = {
    Start: Intake.start,
    Write: Intake.write,
    Returned: returned,
    Reported: reported,
    TimerDue: timer_due,
    Recover: Intake.recover,
    Leave: Intake.leave,
    Adopt: Intake.adopt,
    Diverge: diverged,
    Suspend: Intake.suspend,
    Resume: Intake.resume,
    Unfault: unfaulted,
    Reroute: rerouted,
    SteerStage: Intake.steer_stage,
    RetryLetter: Intake.retry_letter,
    DiscardLetter: Intake.discard_letter,
    HoldWorkers: Intake.hold_workers,
    ReleaseWorker: Intake.release_worker,
    Compensate: Intake.compensate,
    Ask: ask,
    ChildEnded: child_ended,
    Claim: claim,
    Release: release,
    Assign: assign,
    Delegate: hand_on,
    Complete: complete,
    Decline: decline,
    Comment: comment,
}
