"""How a hub is listened to: functions that are called for events, and events as an async iterator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar, overload

from casehub.bus import Subscription
from casehub.engine.runtime import Runtime
from casehub.errors import SettingsError
from casehub.events import CaseId, Event
from casehub.opening import Opened
from casehub.query import check_kinds
from casehub.spi import CaseStore
from casehub.subscribers import Handler, Subscriber
from casehub.supervision import supervised

E = TypeVar("E", bound=Event)
E2 = TypeVar("E2", bound=Event)
E3 = TypeVar("E3", bound=Event)


class Listening(ABC):
    """The part of a hub that others listen to."""

    store: CaseStore
    tenant: str
    subscribers: list[Subscriber[Any]]
    _opened: Opened | None

    @property
    @abstractmethod
    def runtime(self) -> Runtime:
        """What runs. Raises `HubClosedError` outside of `async with`."""

    @overload  # of two or three classes, mypy would take the base that they share
    def on(
        self, kind: type[E], other: type[E2], /, *, case: str | None = None, durable: str | None = None
    ) -> Callable[[Handler[E | E2]], Handler[E | E2]]: ...
    @overload
    def on(
        self, kind: type[E], other: type[E2], third: type[E3], /, *, case: str | None = None, durable: str | None = None
    ) -> Callable[[Handler[E | E2 | E3]], Handler[E | E2 | E3]]: ...
    @overload
    def on(
        self, *kinds: type[E], case: str | None = None, durable: str | None = None
    ) -> Callable[[Handler[E]], Handler[E]]: ...
    def on(
        self, *kinds: type[Any], case: str | None = None, durable: str | None = None
    ) -> Callable[[Handler[Any]], Handler[Any]]:
        """Call a function for each event of these classes and their subclasses (none: all), in order, once committed.

        Live by default: from when the hub is entered. With `durable="name"` the position is kept under that name, and
        the function hears everything at least once, over restarts. One that raises is called again (three times in
        all); then the event is skipped with an error in the log.
        """
        check_kinds(kinds)

        def subscribe(handler: Handler[Any]) -> Handler[Any]:
            subscriber = Subscriber(kinds, handler, None if case is None else CaseId(case), durable)
            if durable is not None and any(each.durable == durable for each in self.subscribers):
                raise SettingsError(f"two subscribers are called {durable!r}; a durable one needs a name of its own")
            self.subscribers.append(subscriber)
            if self._opened is not None and not self._opened.runtime.closed:
                runtime, name = self._opened.runtime, f"subscriber {subscriber.name}"
                self._opened.group.start_soon(
                    supervised, runtime, name, subscriber.run, runtime.bus, self.store, self.tenant
                )
            return handler

        return subscribe

    @overload
    def watch(self, *, case: str | None = None, after: int | None = None) -> Subscription[Event]: ...
    @overload
    def watch(
        self, kind: type[E], other: type[E2], /, *, case: str | None = None, after: int | None = None
    ) -> Subscription[E | E2]: ...
    @overload
    def watch(
        self, kind: type[E], other: type[E2], third: type[E3], /, *, case: str | None = None, after: int | None = None
    ) -> Subscription[E | E2 | E3]: ...
    @overload
    def watch(self, *kinds: type[E], case: str | None = None, after: int | None = None) -> Subscription[E]: ...
    def watch(self, *kinds: type[Any], case: str | None = None, after: int | None = None) -> Subscription[Any]:
        """Events of these classes and their subclasses (of none: all) as an async iterator: `with hub.watch(E) as events:`.

        `after`: the global position to go on behind, refilled from the log; None means from here on.
        """
        return self.runtime.bus.subscribe(*kinds, case=None if case is None else CaseId(case), after=after)
