"""Metrics: what a hub measures of itself, through the OpenTelemetry API.

Every figure is a count that the engine keeps anyway and that is read when a metrics SDK asks for it, so an application
without one pays nothing. Names follow OpenTelemetry's conventions (UCUM units); a case's id is never an attribute.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from casehub.engine.runtime import Runtime
from casehub.residents import Residents

Reading = Callable[[Runtime, Residents], Iterable[Observation]]


def _one(value: float) -> list[Observation]:
    return [Observation(value)]


_COUNTERS: dict[str, tuple[str, str, Reading]] = {
    "casehub.events.published": (
        "{event}",
        "Events committed and published by this hub",
        lambda r, _: _one(r.bus.published),
    ),
    "casehub.turns": ("{turn}", "Turns taken by this hub", lambda r, _: _one(r.turns)),
    "casehub.attempts": (
        "{attempt}",
        "Attempts that ended, by outcome",
        lambda r, _: [Observation(count, {"outcome": outcome}) for outcome, count in r.outcomes.items()],
    ),
    "casehub.inputs.refused": ("{input}", "Inputs that a case did not take", lambda r, _: _one(r.refused)),
    "casehub.timers.fired": ("{timer}", "Durable timers that came due", lambda r, _: _one(r.wheel.fired)),
    "casehub.bus.gaps": ("{gap}", "Times that subscribers had to go back to the log", lambda r, _: _one(r.bus.gaps)),
    "casehub.loop.blocked": (
        "{time}",
        "Times that one piece of code held the event loop up for a second",
        lambda r, _: _one(r.watchdog.blocked),
    ),
    "casehub.store.failures": (
        "{failure}",
        "Commits that failed, or whose outcome was unknown",
        lambda r, _: _one(r.failures),
    ),
}
_GAUGES: dict[str, tuple[str, str, Reading]] = {
    "casehub.cases.resident": ("{case}", "Cases in memory", lambda _, c: _one(c.resident)),
    "casehub.cases.parked": ("{case}", "Open cases that cannot be worked", lambda _, c: _one(len(c.parked))),
    "casehub.inbox.depth": ("{input}", "Inputs that wait for their turn, over all cases", lambda _, c: _one(c.waiting)),
    "casehub.work.running": ("{attempt}", "Attempts and deliberations that run", lambda r, _: _one(r.working)),
    "casehub.subscribers": ("{subscriber}", "Subscriptions that are open", lambda r, _: _one(r.bus.subscribers)),
    "casehub.subscriber.lag": ("{event}", "How far the slowest subscriber is behind", lambda r, _: _one(r.bus.lag)),
}


def observe(runtime: Runtime, residents: Residents) -> None:
    """Let the application's metrics SDK, if it has one, read this hub's figures for as long as the hub lives."""
    meter = metrics.get_meter("casehub")
    hub = weakref.ref(runtime), weakref.ref(residents)
    for name, (unit, description, reading) in _COUNTERS.items():
        meter.create_observable_counter(name, [_callback(hub, reading)], unit, description)
    for name, (unit, description, reading) in _GAUGES.items():
        meter.create_observable_gauge(name, [_callback(hub, reading)], unit, description)


def _callback(
    hub: tuple[weakref.ref[Runtime], weakref.ref[Residents]], reading: Reading
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(options: CallbackOptions) -> Iterable[Observation]:
        runtime, residents = hub[0](), hub[1]()
        # The API has no way to take an instrument back: a hub that is gone has nothing to say.
        return () if runtime is None or residents is None else reading(runtime, residents)

    return read
