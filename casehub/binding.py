"""Bindings: what a loop control chooses from (CMMN: plan item definitions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from casehub.errors import SettingsError
from casehub.events import Event
from casehub.gate import Gate
from casehub.policies import Policy
from casehub.schedule import Schedule
from casehub.sentry import Sentry
from casehub.subcase import SubCase
from casehub.values import FactType
from casehub.wiring import Parameter, Source


@dataclass(frozen=True, slots=True)
class Worker:
    """A knowledge source: a function that reads facts and writes facts.

    `writes`: the facts that its result may bring, in order of declaration; `mapping`: it returns a mapping of them
    rather than the value of the one. Several workers of one `capability` are alternatives for one binding. `is_async`:
    a coroutine function; others run in a thread. `looks_in`: it asks for its execution or the view of its case.
    `loads`: its parameters whose values are kept elsewhere and fetched before it runs; `secrets`: those of whose
    values no error may tell.
    `computes`: what it does, where that is an expression rather than code; it is part of the structure. `form`: of the
    answer where people do the work: then the function says what to ask them. `sub_case`: where cases of another definition
    do it: then the function says what they start with. `gate`: where it plans an action and `performer`, whose first parameter is that, does it.
    """

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    writes: tuple[str, ...]
    mapping: bool = False
    capability: str = ""
    is_async: bool = True
    looks_in: bool = False
    loads: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    computes: str = ""
    form: FactType | None = None
    gate: Gate[Any] | None = None
    performer: Worker | None = None
    sub_case: SubCase | None = None

    @property
    def runs(self) -> bool:
        """Whether its function does the work, rather than people or sub-cases."""
        return self.form is None and self.sub_case is None

    @property
    def required(self) -> tuple[str, ...]:
        """The facts without which it cannot run."""
        return tuple(p.target for p in self.parameters if p.source is Source.FACT and not p.optional)

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts it reads, required or not."""
        return tuple(p.target for p in self.parameters if p.source is Source.FACT)


@dataclass(frozen=True, slots=True)
class Signal:
    """As a trigger: the arrival of a signal of this name, whatever it brings."""

    name: str


@dataclass(frozen=True, slots=True)
class Faulted:
    """As a trigger: an activation of this binding has ended in a fault, for good."""

    binding: str


@dataclass(frozen=True, slots=True)
class Trigger:
    """What makes a binding come up, beyond its reads: facts that narrow what counts as a change, and occurrences.

    `faulted`: bindings, an activation of which has ended in a fault.
    """

    facts: tuple[str, ...] = ()
    events: tuple[type[Event], ...] = ()
    signals: tuple[str, ...] = ()
    times: tuple[Schedule, ...] = ()
    faulted: tuple[str, ...] = ()

    @property
    def occurs(self) -> bool:
        """Whether it waits for occurrences (events, signals, times, failures) rather than for changes of facts."""
        return bool(self.events or self.signals or self.times or self.faulted)


On = str | type[Event] | Signal | Schedule | Faulted
"""What `on=` takes: a fact's name, an event class, the arrival of a signal, a schedule, or the failure of a binding."""


def trigger_of(on: On | Sequence[On]) -> Trigger:
    """The trigger that `on=` means. Raises `SettingsError` for what is none."""
    entries: Sequence[Any] = (on,) if isinstance(on, str | type | Signal | Schedule | Faulted) else on
    facts: list[str] = []
    events: list[type[Event]] = []
    signals: list[str] = []
    times: list[Schedule] = []
    faulted: list[str] = []
    for entry in entries:
        if isinstance(entry, str):
            facts.append(entry)
        elif isinstance(entry, Signal):
            signals.append(entry.name)
        elif isinstance(entry, Schedule):
            times.append(entry)
        elif isinstance(entry, Faulted):
            faulted.append(entry.binding)
        elif isinstance(entry, type) and issubclass(entry, Event):
            events.append(entry)
        else:
            raise SettingsError(
                f"on={entry!r} is no trigger: give a fact's name, an event class, Signal(name), "
                "Faulted(binding), or a schedule such as every('1h')"
            )
    return Trigger(tuple(facts), tuple(events), tuple(signals), tuple(times), tuple(faulted))


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """An activation condition and an action: when the facts are there and the guard holds, one of the workers runs.

    `requires`: facts without which it does not come up; `watches`: facts whose new stamps make it come up again;
    `reads`: all facts that its workers and its guard read; `by_reads`: a change of what it reads makes it come up, and
    nothing else does; `compensation`: the binding that undoes what it does, empty for none.
    """

    name: str
    workers: tuple[Worker, ...]
    when: Sentry | None = None
    on: Trigger = field(default_factory=Trigger)
    policy: Policy = field(default_factory=Policy)
    requires: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    by_reads: bool = False
    compensation: str = ""

    @property
    def compensates(self) -> str:
        """The binding whose work it undoes; empty for one that fires by its own condition."""
        return self.policy.compensates

    @property
    def worker(self) -> Worker:
        """The first of its workers, which gets the activation unless it is left out."""
        return self.workers[0]

    def worker_named(self, name: str) -> Worker:
        """One of its workers; the first where none has the name any more."""
        first = self.workers[0]
        if len(self.workers) > 1:
            for worker in self.workers:
                if worker.name == name:
                    return worker
        return first

    @property
    def priority(self) -> int:
        return self.policy.priority

    @property
    def cost(self) -> float:
        """What planners weigh, without a unit."""
        return self.policy.cost

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for worker in self.workers for name in worker.writes))

    def __repr__(self) -> str:
        return f"Binding({self.name!r})"
