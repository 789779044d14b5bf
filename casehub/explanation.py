"""Why: what holds a binding back, in one vocabulary for `explain`, stall reasons, commands and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """Whether a binding may fire, or the first thing that holds it back. `GATED`: the loop control's own gate;
    `COMPENSATION`: it only undoes what another one did; `COMPENSATING`: its case undoes what it did, and ends then."""

    ELIGIBLE = "ELIGIBLE"
    MISSING_FACTS = "MISSING_FACTS"
    GUARD_FALSE = "GUARD_FALSE"
    UNCHANGED = "UNCHANGED"
    IN_FLIGHT = "IN_FLIGHT"
    RETRY_WAIT = "RETRY_WAIT"
    STAGE_INACTIVE = "STAGE_INACTIVE"
    GATED = "GATED"
    NOT_SELECTED = "NOT_SELECTED"
    LIMIT = "LIMIT"
    BUDGET = "BUDGET"
    QUARANTINED = "QUARANTINED"
    SUSPENDED = "SUSPENDED"
    COMPENSATION = "COMPENSATION"
    COMPENSATING = "COMPENSATING"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a binding does or does not fire. `facts`: the facts concerned with their plain values, None where absent."""

    binding: str
    verdict: Verdict
    text: str
    facts: Mapping[str, object] = field(default_factory=dict[str, object])

    def __str__(self) -> str:
        return f"{self.binding}: {self.verdict} - {self.text}"
