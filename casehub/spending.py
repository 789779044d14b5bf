"""What a case has spent: attempts of workers, and what they charged; in all, and since midnight UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


@dataclass(slots=True)
class Spending:
    """Counted for the case as a whole and for each binding. `midnight`: when the next day begins (UTC).

    `inherited`: what a sub-case may spend of what its parent had left, by unit; None where nothing bounds it.
    """

    calls: dict[str, int] = field(default_factory=dict[str, int])
    calls_before_today: dict[str, int] = field(default_factory=dict[str, int])
    usage: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    usage_today: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    midnight: datetime = datetime.min.replace(tzinfo=UTC)
    inherited: Mapping[str, float] | None = None

    def begin_day(self, at: datetime) -> None:
        """Budgets `per="day"` count from midnight UTC."""
        self.midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        self.calls_before_today = dict(self.calls)
        self.usage_today.clear()

    def call(self, binding: str) -> None:
        """An attempt of a binding's worker begins."""
        calls = self.calls
        calls["case"] = calls.get("case", 0) + 1
        calls[binding] = calls.get(binding, 0) + 1

    def charge(self, binding: str, charges: Mapping[str, float]) -> None:
        """What an attempt has charged, by unit; of a sub-case, its calls too."""
        if calls := int(charges.get("calls", 0)):
            for scope in ("case", binding):
                self.calls[scope] = self.calls.get(scope, 0) + calls
        for usage in (self.usage, self.usage_today):
            for scope in ("case", binding):
                for unit, amount in charges.items():
                    if unit == "calls":
                        continue
                    usage[scope, unit] = usage.get((scope, unit), 0.0) + amount

    def spent(self, scope: str, unit: str, *, today: bool = False) -> float:
        """What the case (`scope="case"`) or a binding has spent of `calls`, `tokens` or `money`, in all or today."""
        if unit == "calls":
            before = self.calls_before_today.get(scope, 0) if today else 0
            return float(self.calls.get(scope, 0) - before)
        return (self.usage_today if today else self.usage).get((scope, unit), 0.0)
