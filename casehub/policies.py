"""Policies: what a definition says about repeating, merging, failing, limits and budgets."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, TypedDict, TypeVar

from casehub.durations import Duration, duration
from casehub.errors import MergeConflictError, SettingsError, did_you_mean
from casehub.values import Absent, Plain, copy


class Refire(StrEnum):
    """When a binding that has fired may fire again.

    `ON_CHANGE` is refraction (Forgy's OPS5): only when the stamp of something it reads has changed since. `ONCE`:
    never. `ALWAYS`: whenever its condition holds, up to its limit.
    """

    ON_CHANGE = "on_change"
    ONCE = "once"
    ALWAYS = "always"


class OnOutcome(StrEnum):
    """What follows when an attempt ends badly.

    `RETRY`: further attempts as the binding's `Retry` allows; `REROUTE`: another worker of the capability gets it, the
    one that ended badly is left out; `FAULT_ITEM`: the activation is over and the case stays open; `FAULT_CASE`: the
    case faults at once; `IGNORE`: the activation counts as done without a result.
    """

    RETRY = "retry"
    REROUTE = "reroute"
    FAULT_ITEM = "fault_item"
    FAULT_CASE = "fault_case"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What follows which bad outcome; `exhausted`: what follows when no attempt and no other worker is left."""

    failed: OnOutcome = OnOutcome.RETRY
    declined: OnOutcome = OnOutcome.FAULT_ITEM
    expired: OnOutcome = OnOutcome.RETRY
    exhausted: OnOutcome = OnOutcome.FAULT_ITEM

    def __post_init__(self) -> None:
        if self.exhausted in (OnOutcome.RETRY, OnOutcome.REROUTE):
            raise SettingsError(
                f"Outcomes(exhausted={self.exhausted.value!r}): nothing is left to try; say fault_item, fault_case or ignore"
            )


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how fast a failed attempt is repeated.

    `attempts` counts the first one. The wait before attempt n+1 is `wait * factor ** (n - 1)`, at most `maximum`: 30 s
    where it is not said, or `wait` if that is longer. With `jitter` it is drawn evenly from zero to that ("full jitter",
    M. Brooker, AWS Architecture Blog, 2015).
    `on`: the exceptions that are retried; others are permanent. Waits are durable: they outlive the process.
    `crashes`: how often the process may end under one activation before it is given up: it may be what ends it. From the
    third on there are waits as after failures, so that others get on. A process that is stopped in peace is no crash.
    """

    attempts: int = 3
    wait: Duration = "1s"
    factor: float = 2.0
    maximum: Duration | None = None
    jitter: bool = True
    on: tuple[type[BaseException], ...] = (Exception,)
    crashes: int = field(default=10, repr=False)  # not of the text that a version is made of: it is for operators

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise SettingsError(f"Retry(attempts={self.attempts}): the first attempt counts, so at least 1")
        if self.crashes < 1:
            raise SettingsError(f"Retry(crashes={self.crashes}): at least 1, the one after which it is given up")
        if self.factor < 1:
            raise SettingsError(f"Retry(factor={self.factor}): at least 1, or waits would shrink")
        if self.maximum is None:
            object.__setattr__(self, "maximum", max("30s", self.wait, key=duration))
        duration(self.wait)
        duration(self.maximum or self.wait)

    def delay(self, attempt: int, chance: random.Random) -> timedelta:
        """The wait after failed attempt number `attempt`."""
        span, maximum = duration(self.wait), duration(self.maximum or self.wait)
        try:
            longest = min(span * self.factor ** (attempt - 1), maximum)
        except OverflowError:
            longest = maximum if span else span
        return longest * chance.random() if self.jitter else longest


@dataclass(frozen=True, slots=True)
class Quarantine:
    """When a worker that keeps failing is left alone: after `failures` of its attempts `within` a span, for `release`.

    Failures and expiries count, in all cases of the definition that a hub works.
    """

    failures: int = 5
    within: Duration = "10m"
    release: Duration = "10m"

    def __post_init__(self) -> None:
        if self.failures < 2:
            raise SettingsError(f"Quarantine(failures={self.failures}): at least 2, or the first failure would do it")
        if not self.span or not self.pause:
            raise SettingsError("Quarantine(): within= and release= are spans of time, and zero is none")

    @property
    def span(self) -> timedelta:
        return duration(self.within)

    @property
    def pause(self) -> timedelta:
        return duration(self.release)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one case. What is past one is held back with the verdict `LIMIT`, or ends the case with its reason.

    `firings_per_binding` and `firings` hold bindings back; `events` faults the case (a log that long is a loop);
    `concurrency` is how many activations may be in flight; `inbox` how many inputs may wait; `depth` how many cases may be
    around a sub-case.
    """

    firings_per_binding: int = 1_000
    firings: int = 10_000
    events: int = 100_000
    concurrency: int = 100
    inbox: int = 10_000
    depth: int = 10

    def __post_init__(self) -> None:
        for name in ("firings_per_binding", "firings", "events", "concurrency", "inbox", "depth"):
            if getattr(self, name) < 1:
                raise SettingsError(f"Limits({name}={getattr(self, name)}): at least 1")


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent: `calls` of workers, `tokens`, `money`; a case as a whole, or `per="day"` (UTC)."""

    calls: int | None = None
    tokens: float | None = None
    money: float | None = None
    per: str | None = None

    def __post_init__(self) -> None:
        if self.per not in (None, "day"):
            raise SettingsError(f"Budget(per={self.per!r}): either None, for the whole case, or 'day'")
        if self.calls is None and self.tokens is None and self.money is None:
            raise SettingsError("Budget(): bounds nothing; give calls=, tokens= or money=")
        for unit, bound in self.units().items():
            if bound < 0:
                raise SettingsError(f"Budget({unit}={bound:g}): what may be spent cannot be negative")

    def units(self) -> dict[str, float]:
        """The bounded units with their bounds."""
        bounds = {"calls": self.calls, "tokens": self.tokens, "money": self.money}
        return {unit: float(bound) for unit, bound in bounds.items() if bound is not None}


Merged = Plain | Absent
Merge = Callable[[Merged, Merged], Merged]
"""A merge policy: `(theirs, mine) -> merged`, called when the fact changed while the worker ran.

All three are plain values, or `ABSENT` where the fact was, is to be, or ends up deleted.
"""


def last_writer_wins(theirs: Merged, mine: Merged) -> Merged:
    """What this worker wrote stands."""
    return mine


def first_writer_wins(theirs: Merged, mine: Merged) -> Merged:
    """What was written meanwhile stands."""
    return theirs


def fail(theirs: Merged, mine: Merged) -> Merged:
    """Two writers are an error: the attempt fails with `MergeConflictError`."""
    raise MergeConflictError("the fact changed while the worker ran, and its binding merges by 'fail'; run it again")


def deep_merge(theirs: Merged, mine: Merged) -> Merged:
    """Dictionaries are joined key by key, this worker's entries over the others; anything else is replaced."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        merged: dict[str, Any] = dict(theirs)
        for key, value in mine.items():
            merged[key] = deep_merge(merged[key], value) if key in merged else value
        return copy(merged)
    return mine


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything a binding says beyond what it reads and writes."""

    refire: Refire = Refire.ON_CHANGE
    limit: int | None = None
    merge: Merge = last_writer_wins
    retry: Retry = field(default_factory=Retry)
    timeout: timedelta | None = None
    outcomes: Outcomes = field(default_factory=Outcomes)
    priority: int = 0
    cost: float = 1.0
    value: float = 0.0
    needs: tuple[str, ...] = ()
    brings: tuple[str, ...] = ()
    estimate: Budget | None = None
    budget: Budget | None = None
    quarantine: Quarantine | None = None
    compensates: str = ""


Named = str | Callable[..., bool | None]
"""A condition, by its name or its function."""


class PolicyOptions(TypedDict, total=False):
    """The options of a binding as `worker(...)` and `binding(...)` take them.

    `refire`: see `Refire`; `limit`: how often it may fire in a case; `merge`: what happens to a fact that changed while
    the worker ran; `retry`, `timeout`: of one attempt; `on_failed`, `on_declined`, `on_expired`, `on_exhausted`: see
    `OnOutcome`; `priority`, `cost`, `value`: for loop controls that weigh; `needs`, `brings`:
    conditions, or their functions, without which it does not fire, and that hold when it has completed (see
    `casehub.condition`); `estimate`: what an attempt is expected to charge,
    reserved before it runs; `budget`: what all its attempts in a case may spend; `quarantine`: when it keeps failing;
    `compensates`: the binding, or the function of its worker, whose work it undoes (see `casehub.compensation`).
    """

    refire: Refire | str
    limit: int | None
    merge: Merge
    retry: Retry
    timeout: Duration | None
    on_failed: OnOutcome | str
    on_declined: OnOutcome | str
    on_expired: OnOutcome | str
    on_exhausted: OnOutcome | str
    priority: int
    cost: float
    value: float
    needs: Named | Sequence[Named]
    brings: Named | Sequence[Named]
    estimate: Budget | None
    budget: Budget | None
    quarantine: Quarantine | None
    compensates: str | Callable[..., Any]


UNREPEATED: PolicyOptions = {
    "on_failed": OnOutcome.FAULT_ITEM, "on_declined": OnOutcome.FAULT_ITEM, "on_expired": OnOutcome.FAULT_ITEM,
}  # fmt: skip
"""The options of activations that take long and are worked by others, sub-cases: nothing is tried again by itself."""
BESIDE = ("name", "writes", "when", "on", "each", "need", "rest", "capability", "gate")
"""The other options of `worker(...)` and `binding(...)`: what an unknown one may have been meant to be."""
C = TypeVar("C", bound=StrEnum)

_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    "limit": (int, "a whole number"),
    "priority": (int, "a whole number"),
    "cost": ((int, float), "a number"),
    "value": ((int, float), "a number"),
    "retry": (Retry, "Retry(...)"),
    "budget": (Budget, "Budget(...)"),
    "estimate": (Budget, "Budget(...)"),
    "quarantine": (Quarantine, "Quarantine(...)"),
    "compensates": (str, "the name of a binding, or the function of its worker"),
}
"""What options have to be, for people without a type checker."""


def policy_of(options: PolicyOptions) -> Policy:
    """The policy that these options mean. Raises `SettingsError` for an option or a value that is none."""
    for option in options:
        if option not in PolicyOptions.__annotations__:
            known = (*PolicyOptions.__annotations__, *BESIDE)
            raise SettingsError(f"a binding has no option {option!r}; {did_you_mean(option, known)}")
    for option, (kinds, wanted) in _KINDS.items():
        given: object = options.get(option)
        if given is not None and not isinstance(given, kinds):
            raise SettingsError(f"{option}={given!r}: give {wanted}")
    merge: object = options.get("merge", last_writer_wins)
    if not callable(merge):
        raise SettingsError(f"merge={merge!r}: give a function, such as casehub.last_writer_wins")
    span = options.get("timeout")
    limit = options.get("limit")
    if limit is not None and limit < 1:
        raise SettingsError(f"limit={limit}: at least 1; leave the binding out if it must not fire")
    return Policy(
        refire=_choice(Refire, "refire", options.get("refire", Refire.ON_CHANGE)),
        limit=limit,
        merge=options.get("merge", last_writer_wins),
        retry=options.get("retry", Retry()),
        timeout=None if span is None else duration(span),
        outcomes=Outcomes(
            failed=_choice(OnOutcome, "on_failed", options.get("on_failed", OnOutcome.RETRY)),
            declined=_choice(OnOutcome, "on_declined", options.get("on_declined", OnOutcome.FAULT_ITEM)),
            expired=_choice(OnOutcome, "on_expired", options.get("on_expired", OnOutcome.RETRY)),
            exhausted=_choice(OnOutcome, "on_exhausted", options.get("on_exhausted", OnOutcome.FAULT_ITEM)),
        ),
        priority=options.get("priority", 0),
        cost=options.get("cost", 1.0),
        value=options.get("value", 0.0),
        needs=_names("needs", options.get("needs", ())),
        brings=_names("brings", options.get("brings", ())),
        estimate=options.get("estimate"),
        budget=options.get("budget"),
        quarantine=options.get("quarantine"),
        compensates=str(options.get("compensates", "")),
    )


def _names(option: str, given: Any) -> tuple[str, ...]:
    """Names as they are, and functions by theirs."""
    found: tuple[Any, ...] = tuple(given) if not isinstance(given, str) and hasattr(given, "__iter__") else (given,)
    names = [each if isinstance(each, str) else getattr(each, "__name__", "") for each in found]
    if not all(names):
        raise SettingsError(f"{option}={given!r}: give the names of conditions, or their functions")
    return tuple(names)


def _choice(kind: type[C], option: str, word: str) -> C:
    try:
        return kind(word)
    except ValueError:
        raise SettingsError(f"{option}={word!r}: there is no such choice; {did_you_mean(str(word), kind)}") from None
