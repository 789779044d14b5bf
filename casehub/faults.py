"""What is decided about failures: events of a case, beside those of `casehub.events`, which has their names too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from casehub.envelope import ActivationId, Event


@dataclass(slots=True, kw_only=True)
class DeadLetterEvent(Event):
    """Base: what was decided about an activation that ended in a fault.

    In messaging a dead letter is a message that cannot be delivered (Hohpe and Woolf, Enterprise Integration Patterns,
    2003). `reason`: why, for people.
    """

    binding: str
    activation: ActivationId
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class DeadLetterRetried(DeadLetterEvent):
    """The binding may fire again on what the activation ran on; edited facts follow as a `CONTEXT_CHANGED`.

    `worker`: who is to do it; empty for whoever comes first.
    """

    worker: str = ""


@dataclass(slots=True, kw_only=True)
class DeadLetterDiscarded(DeadLetterEvent):
    """Nobody will try again: the failure is settled."""


@dataclass(slots=True, kw_only=True)
class QuarantineEvent(Event):
    """Base: something about a worker that is left alone."""

    worker: str


@dataclass(slots=True, kw_only=True)
class WorkerQuarantined(QuarantineEvent):
    """No new activation goes to the worker until `until` (UTC): it failed too often, in this case and others.

    Without `until` somebody has suspended it (`reason`), until it is resumed: then no attempt of it starts at all.
    """

    until: datetime | None = None
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class WorkerReleased(QuarantineEvent):
    """Its quarantine is over: its time has come, or somebody ended it."""

    reason: str = ""
