"""Metrics: what the hubs of a process measure of themselves, through the OpenTelemetry API.

Every figure is a count that the engine keeps anyway and that is read when a metrics SDK asks for it, so an application
without one pays nothing. The instruments are the process's, made once; a figure is the sum over its hubs. Names follow
OpenTelemetry's conventions (UCUM units); a case's id is never an attribute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from casehub.engine.runtime import Runtime
from casehub.residents import Residents

Reading = Callable[[Runtime, Residents], Mapping[str, int]]
"""The figures of one hub by outcome; `""` where there is one figure."""

_COUNTERS: dict[str, tuple[str, str, Reading]] = {
    "casehub.events.published": ("{event}", "Events committed and published", lambda r, _: {"": r.bus.published}),
    "casehub.turns": ("{turn}", "Turns taken", lambda r, _: {"": r.turns}),
    "casehub.attempts": ("{attempt}", "Attempts that ended, by outcome", lambda r, _: r.outcomes),
    "casehub.inputs.refused": ("{input}", "Inputs that a case did not take", lambda r, _: {"": r.refused}),
    "casehub.timers.fired": ("{timer}", "Durable timers that came due", lambda r, _: {"": r.wheel.fired}),
    "casehub.bus.gaps": ("{gap}", "Times that subscribers had to go back to the log", lambda r, _: {"": r.bus.gaps}),
    "casehub.loop.blocked": (
        "{time}",
        "Times that the code of a worker held the event loop up, by worker",
        lambda r, _: dict(r.watchdog.blocked),  # its thread writes there
    ),
    "casehub.snapshots": (
        "{snapshot}",
        "Snapshots by what became of them: saved, dropped, used to load a case, refused for it",
        lambda _, c: c.snapshots.counts,
    ),
    "casehub.commits.fenced": (
        "{turn}",
        "Turns that were refused, as the case was another hub's to write",
        lambda r, _: {"": 0 if r.standing is None else r.standing.fenced},
    ),
    "casehub.background.failures": (
        "{failure}",
        "Failures of what runs beside the cases, by task",
        lambda r, _: r.faults,
    ),
    "casehub.store.failures": (
        "{failure}",
        "Commits that failed, or whose outcome was unknown",
        lambda r, _: {"": r.failures},
    ),
}
_ATTRIBUTES = {"casehub.loop.blocked": "worker", "casehub.background.failures": "task"}
"""What the figures of an instrument are told apart by, where it is not the outcome."""
_GAUGES: dict[str, tuple[str, str, Reading]] = {
    "casehub.cases.resident": ("{case}", "Cases in memory", lambda _, c: {"": c.resident}),
    "casehub.hub.leases": (
        "{lease}",
        "Hubs of this process that share a store and whose lease runs",
        lambda r, _: {"": int(r.standing is not None and r.standing.held)},
    ),
    "casehub.cases.parked": ("{case}", "Open cases that cannot be worked", lambda _, c: {"": len(c.parked)}),
    "casehub.store.waiting": (
        "{case}",
        "Cases that wait for the store to write",
        lambda r, _: {"": r.outage.waiting},
    ),
    "casehub.inbox.depth": ("{input}", "Inputs that wait for their turn", lambda _, c: {"": c.waiting}),
    "casehub.work.running": ("{attempt}", "Attempts and deliberations that run", lambda r, _: {"": r.working}),
    "casehub.subscribers": ("{subscriber}", "Subscriptions that are open", lambda r, _: {"": r.bus.subscribers}),
    "casehub.subscriber.lag": ("{event}", "How far the slowest subscriber is behind", lambda r, _: {"": r.bus.lag}),
}


@dataclass(slots=True)
class _Process:
    """The open hubs of this process, and what the ones that were left had counted."""

    open: list[tuple[Runtime, Residents]] = field(default_factory=list)
    counted: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in _COUNTERS})
    measured: bool = False

    def measure(self) -> None:
        """Make the instruments, the first time."""
        if self.measured:
            return
        self.measured = True
        meter = metrics.get_meter("casehub")
        for name, (unit, description, reading) in _COUNTERS.items():
            meter.create_observable_counter(
                name, [self._callback(name, reading, self.counted[name])], unit, description
            )
        for name, (unit, description, reading) in _GAUGES.items():
            meter.create_observable_gauge(name, [self._callback(name, reading, Counter())], unit, description)

    def _callback(
        self, name: str, reading: Reading, before: Counter[str]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        attribute = _ATTRIBUTES.get(name, "outcome")

        def read(options: CallbackOptions) -> Iterable[Observation]:
            figures = Counter(before)
            for hub in self.open:
                figures.update(reading(*hub))
            return [Observation(figure, {attribute: key} if key else None) for key, figure in figures.items()]

        return read


_PROCESS = _Process()


def observe(runtime: Runtime, residents: Residents) -> Callable[[], None]:
    """Let the application's metrics SDK, if it has one, read a hub's figures, until what is returned is called."""
    hub = (runtime, residents)
    _PROCESS.measure()
    _PROCESS.open.append(hub)

    def end() -> None:
        _PROCESS.open.remove(hub)
        for name, (_, _, reading) in _COUNTERS.items():
            _PROCESS.counted[name].update(reading(*hub))

    return end
