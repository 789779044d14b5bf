"""Activities: what the steps in a log of another system mean for the cases of a definition.

declaration.activity("Declaration SUBMITTED by EMPLOYEE", signal=Submission)
declaration.activity("Payment Handled", worker=pay)

An activity is a signal or the result of a worker. Its value is what a function makes of the logged event, or the
signal's (or the worker's) type with each field taken from the event: `at`, `activity`, `resource`, `role` are its
own, any other is the attribute of that name in snake case, without a prefix: `(case)_Amount` and `case:amount` fill
`amount`. The terms are those of process mining (XES, IEEE 1849-2016).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Protocol, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from casehub.errors import FactError, SettingsError
from casehub.events import Event
from casehub.values import Plain, snake_case, type_name, without_none

COMPLETE: Final = "complete"
"""The step in an activity's own life that counts where nothing else is said (XES: `lifecycle:transition`)."""
TRANSITION: Final = "lifecycle:transition"


class LoggedEvent(Protocol):
    """One thing that happened in a case, as a log has it. `attributes`: all that has no field of its own."""

    @property
    def activity(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def resource(self) -> str | None: ...
    @property
    def role(self) -> str | None: ...
    @property
    def attributes(self) -> Mapping[str, Any]: ...


class LoggedTrace(Protocol):
    """One case of a log: its name, its events in order, its own attributes."""

    @property
    def case(self) -> str: ...
    @property
    def events(self) -> Sequence[LoggedEvent]: ...
    @property
    def attributes(self) -> Mapping[str, Any]: ...


Value = Callable[[LoggedEvent], Any]
"""Makes the value of a signal, or the result of a worker, of a logged event."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What an activity means: the signal that it is, or the worker whose result it is; one of the two is given."""

    name: str
    signal: str = ""
    worker: str = ""
    value: Value | None = None
    transition: str = COMPLETE

    @property
    def label(self) -> str:
        """The activity as reports name it: `Payment Handled`, `Payment Handled (start)`."""
        return label_of(self.name, self.transition)


@dataclass(slots=True, kw_only=True)
class ActivityRecorded(Event):
    """An activity of a log that was replayed, as that log has it; what it meant for the case follows in the same turn.

    `logged_at` keeps the log's offset from UTC; a date among the `attributes` is kept as text (ISO 8601).
    """

    activity: str
    logged_at: datetime
    resource: str | None = None
    role: str | None = None
    attributes: Mapping[str, Plain] = field(default_factory=dict)


def label_of(activity: str, transition: str = COMPLETE) -> str:
    return activity if transition == COMPLETE else f"{activity} ({transition})"


def transition_of(event: LoggedEvent) -> str:
    """The step in the activity's own life that the event is, in lower case; `complete` where the log does not say."""
    return str(event.attributes.get(TRANSITION, COMPLETE)).casefold()


def recorded(event: LoggedEvent, by: str = "") -> ActivityRecorded:
    """The logged event as it goes into the case's own log; without `by` it is by the one who did it there."""
    attributes = {
        key: value.isoformat() if isinstance(value, datetime) else value for key, value in event.attributes.items()
    }
    return ActivityRecorded(
        activity=event.activity,
        logged_at=event.at,
        resource=event.resource,
        role=event.role,
        attributes=attributes,
        by=by or (f"user:{event.resource}" if event.resource else "user"),
    )


def activity_of(
    name: str, signal: str | type | None, worker: str | Callable[..., Any] | None, value: Value | None, transition: str
) -> Activity:
    """The meaning of an activity. Raises `SettingsError` unless one of `signal` and `worker` is given."""
    if (signal is None) == (worker is None):
        raise SettingsError(
            f"activity {name!r}: it is either a signal or the result of a worker; give signal= or worker="
        )
    return Activity(
        name,
        "" if signal is None else signal if isinstance(signal, str) else snake_case(signal.__name__),
        "" if worker is None else worker if isinstance(worker, str) else str(getattr(worker, "__name__", worker)),
        value,
        transition.casefold(),
    )


# ---- values by the names of fields


class Filling:
    """Makes values of one type of logged events, field by field.

    A dataclass, pydantic model or TypedDict is filled; `Any`, `object` and mappings get everything that the event has.
    Raises `SettingsError` for any other type: only a function can say what its value is.
    """

    __slots__ = ("_adapter", "_fields", "_kind", "_known")

    def __init__(self, kind: Any, subject: str) -> None:
        kind = without_none(kind)
        self._kind = kind
        self._fields: tuple[tuple[str, bool], ...] = ()
        self._adapter: TypeAdapter[Any] | None = None
        self._known: dict[tuple[str, ...], dict[str, str]] = {}
        origin = get_origin(kind) or kind
        if isinstance(origin, type) and (
            is_dataclass(origin) or issubclass(origin, BaseModel) or hasattr(origin, "__required_keys__")
        ):
            self._fields = tuple(_fields(origin))
            self._adapter = TypeAdapter(kind)
        elif kind is not Any and kind is not object and not (isinstance(origin, type) and issubclass(origin, Mapping)):
            raise SettingsError(
                f"{subject}: a {type_name(kind)} cannot be filled from an event by names; give value=, a function of the event"
            )

    def __call__(self, event: LoggedEvent) -> Any:
        """The value of an event. Raises `FactError` when a field that is required has no counterpart, or does not fit."""
        own = {"activity": event.activity, "at": event.at, "resource": event.resource, "role": event.role}
        attributes = event.attributes
        if self._adapter is None:
            own["at"] = event.at.isoformat()
            return own | {plain_name(key): value for key, value in recorded(event).attributes.items()}
        given = {name: attributes[key] for name, key in self._sources(tuple(attributes)).items()}
        given |= {name: own[name] for name, _ in self._fields if name in own}
        missing = [name for name, required in self._fields if required and given.get(name) is None]
        if missing:
            raise FactError(
                f"activity {event.activity!r} says nothing of {', '.join(missing)}, which {type_name(self._kind)} needs; "
                f"it has {', '.join(sorted({*own, *map(plain_name, attributes)}))}"
            )
        try:
            return self._adapter.validator.validate_python(given)
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            raise FactError(
                f"activity {event.activity!r}: {'.'.join(map(str, wrong['loc']))} of {type_name(self._kind)}: {wrong['msg']}"
            ) from None

    def _sources(self, keys: tuple[str, ...]) -> dict[str, str]:
        """From the fields to the attributes that fill them; events of one activity have mostly the same attributes."""
        found = self._known.get(keys)
        if found is None:
            by_name = {plain_name(key): key for key in reversed(keys)} | {key: key for key in keys}
            found = {name: by_name[name] for name, _ in self._fields if name in by_name}
            if len(self._known) < 1_000:
                self._known[keys] = found
        return found


@lru_cache(maxsize=4096)
def plain_name(key: str) -> str:
    """The name that an attribute has for Python: `(case)_BudgetNumber` and `case:budget_number` are `budget_number`."""
    bare = re.sub(r"^\([^)]*\)_?", "", key).rpartition(":")[2]
    return re.sub(r"\W+", "_", snake_case(bare)).strip("_")


def _fields(kind: type) -> Iterator[tuple[str, bool]]:
    """Names of fields, and whether they are required."""
    if issubclass(kind, BaseModel):
        yield from ((name, info.is_required()) for name, info in kind.model_fields.items())
    elif is_dataclass(kind):
        for each in fields(kind):
            if each.init:
                yield each.name, each.default is MISSING and each.default_factory is MISSING
    else:
        required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())  # a TypedDict
        yield from ((name, name in required) for name in get_type_hints(kind))
