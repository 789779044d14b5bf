"""Events of sub-cases, in the log of the case that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from casehub.envelope import ActivationId, CaseId, Event
from casehub.lifecycle import CaseStatus
from casehub.values import Plain


@dataclass(slots=True, kw_only=True)
class SubCaseEvent(Event):
    """Base: something about one sub-case, `child`. `activation`: the one that is worked as it."""

    child: CaseId
    binding: str
    activation: ActivationId


@dataclass(slots=True, kw_only=True)
class SubCaseStarted(SubCaseEvent):
    """A case of `child_definition` is started with these facts. `waited`: whether its activation waits for it.

    `child_structure`: the version of it that this case's own names; empty in logs that do not say it.
    `budget`: what is left of the budgets that it spends from too, by unit; None where there is none. `trace`: of this case,
    which is the sub-case's too. `deadline`: when it is called off if it has not ended (UTC), for the time limit of its activation
    or of a case around this one; None without one, and for a sub-case that may outlive its activation.
    """

    child_definition: str
    facts: Mapping[str, Plain]
    waited: bool = True
    budget: Mapping[str, float] | None = None
    child_structure: str = ""
    trace: str = ""
    deadline: datetime | None = None


@dataclass(slots=True, kw_only=True)
class SubCaseCancelled(SubCaseEvent):
    """It is told to end: it is not needed any more. Its `SUB_CASE_ENDED` follows when it has.

    `kill`: at once, without undoing what it did.
    """

    reason: str = ""
    kill: bool = False


@dataclass(slots=True, kw_only=True)
class SubCaseEnded(SubCaseEvent):
    """It has ended, and how. `value`: the fact that is its result, if it has it; `charges`: what it has spent."""

    status: CaseStatus
    value: Plain = None
    reason: str = ""
    charges: Mapping[str, float] | None = None
