"""Planned actions: their events, and what an activation remembers of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from casehub.envelope import ActivationId, Event
from casehub.values import Plain


@dataclass(slots=True, kw_only=True)
class ActionEvent(Event):
    """Base: something about the action that an activation has planned."""

    binding: str
    activation: ActivationId


@dataclass(slots=True, kw_only=True)
class ActionPlanned(ActionEvent):
    """A worker has planned it instead of doing it. `charges`: what planning has spent, by unit."""

    action: Plain
    title: str = ""
    attempt: int = 1
    charges: Mapping[str, float] | None = None


@dataclass(slots=True, kw_only=True)
class ActionHeld(ActionEvent):
    """It is held until so many people have approved it. `reason`: what the risk policy said, or why it said nothing."""

    reason: str
    approvals: int = 1


@dataclass(slots=True, kw_only=True)
class ActionApproved(ActionEvent):
    """It is carried out now: enough people have approved it, or the risk policy let it pass (`by` the engine)."""

    approved_by: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ActionRejected(ActionEvent):
    """It is not carried out: somebody was against it, or nobody approved it in time."""

    reason: str


@dataclass(slots=True)
class Action:
    """What was planned. `needed`: approvals; `approved_by`: the people who gave theirs; `approved`: it is carried out."""

    value: Plain
    title: str = ""
    needed: int = 0
    approved_by: list[str] = field(default_factory=list[str])
    approved: bool = False
