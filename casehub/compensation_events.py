"""What is recorded about compensation: events of a case, beside those of `casehub.events`, which has their names too."""

from __future__ import annotations

from dataclasses import dataclass

from casehub.envelope import ActivationId, Event


@dataclass(slots=True, kw_only=True)
class CompensationEvent(Event):
    """Base: something about the undoing of what an activation did (BPMN 2.0.2, section 10.5.6).

    `binding`, `activation`: what is undone.
    """

    binding: str
    activation: ActivationId


@dataclass(slots=True, kw_only=True)
class CompensationEnabled(CompensationEvent):
    """The activation is about to complete, and what it did can be undone from here on. `returned`: names of facts."""

    returned: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class CompensationStarted(CompensationEvent):
    """The activation is undone by another one, `undone_by`, whose `WORKER_SCHEDULED` follows. `reason`: of whoever asked."""

    undone_by: ActivationId
    reason: str = ""
