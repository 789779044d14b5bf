"""The timeline of a replay: the traces of a log as moments in the order of time, with what each means for its case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final
from urllib.parse import quote

from casehub.activities import Activity, Filling, LoggedEvent, LoggedTrace, Value, label_of, plain_name, transition_of
from casehub.envelope import is_case_id
from casehub.errors import LimitError, SettingsError, did_you_mean
from casehub.structure import Structure
from casehub.values import FactType, Owner, Plain

MOST_EVENTS: Final = 1_000_000
"""Most events of one replay: they are held in memory to put them in order, about 2 KiB each."""
TOLD_EVERY: Final = 1_000
"""Events between two calls of the progress callback."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an activity means for cases of one structure: a signal, or the result of a binding's worker.

    `value` makes it of an event; `plain` makes a signal's value plain.
    """

    label: str
    value: Value
    plain: Callable[[object, str, Owner], Plain] = FactType().accept
    signal: str = ""
    binding: str = ""
    worker: str = ""


@dataclass(slots=True, eq=False)
class Moment:
    """One event of the log. `place`: among those of its case, from 0; `number`: among all that are fed.

    `at` (UTC) is the event's time, or that of the one before it in its case, if that is later.
    """

    case: str
    at: datetime
    place: int
    event: LoggedEvent
    meaning: Meaning
    number: int = 0


@dataclass(slots=True)
class Timeline:
    """What is fed. `cases`: how many events each has that mean something, in the order of the log.

    `events`: all that the log has; `unmapped`: by activity, those that the definition says nothing of; `inputs`: what
    cases start with, by case; `skipped`: events that were taken before.
    """

    structure: Structure
    moments: Sequence[Moment] = ()
    cases: dict[str, int] = field(default_factory=dict)
    events: int = 0
    skipped: int = 0
    unmapped: Counter[str] = field(default_factory=Counter)
    inputs: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def go_on(self, taken: Mapping[str, int]) -> None:
        """Leave out what was taken before: so many of the first events of each case.

        Raises `SettingsError` when that is more than the log has: it is another one.
        """
        for case, had in taken.items():
            if had > self.cases.get(case, had):
                raise SettingsError(
                    f"case {case!r} has taken {had} activities, and this log has {self.cases[case]} of it; "
                    "resume with the log that was replayed before"
                )
        whole = len(self.moments)
        self.moments = [moment for moment in self.moments if moment.place >= taken.get(moment.case, 0)]
        self.skipped = whole - len(self.moments)


def timeline_of(
    structure: Structure,
    traces: Iterable[LoggedTrace],
    *,
    read: Callable[[int], None] = lambda number: None,
    most: int = MOST_EVENTS,
) -> Timeline:
    """The timeline of a log. `read` is told now and then how many events have been read.

    Raises `SettingsError` for a definition without activities, a type that no event can fill, or two traces of one
    name; `LimitError` for a log of more than `most` events.
    """
    meanings = meanings_of(structure)
    timeline = Timeline(structure)
    needed = [name for name in structure.inputs if name not in structure.brought]
    moments: list[Moment] = []
    for trace in traces:
        if not trace.events:
            continue
        case = case_of(trace.case)
        if case in timeline.cases:
            raise SettingsError(f"the log has two traces that are case {case!r}; give each a concept:name of its own")
        before = timeline.events // TOLD_EVERY
        timeline.events += len(trace.events)
        if timeline.events > most:
            raise LimitError(
                f"the log has more than {most:,} events, which are not taken into memory together; "
                "replay fewer cases with a limit, or raise the bound"
            )
        place = len(moments)
        moments.extend(_moments(case, trace, meanings, timeline.unmapped))
        timeline.cases[case] = len(moments) - place
        if needed:
            timeline.inputs[case] = _inputs(trace, needed)
        if timeline.events // TOLD_EVERY > before:
            read(timeline.events)
    read(timeline.events)
    moments.sort(key=attrgetter("at"))  # stable: events of one time stay in the order of the log
    for number, moment in enumerate(moments):
        moment.number = number
    timeline.moments = moments
    return timeline


def case_of(name: str) -> str:
    """The id of a case that a log calls so: its name, with `%2F` and the like for what an id cannot hold."""
    if is_case_id(name):
        return name
    return "".join(c if is_case_id(c) and c != "%" else quote(c, safe="") for c in name) or "unnamed"


def meanings_of(structure: Structure) -> dict[tuple[str, str], Meaning]:
    """What the activities of a definition mean, by name and transition. Raises `SettingsError`."""
    activities = structure.definition.activities
    if not activities:
        raise SettingsError(
            f"definition {structure.name!r} says of no activity what it means; "
            "declare them with definition.activity(name, signal=...) or definition.activity(name, worker=...)"
        )
    return {(each.name, each.transition): _meaning(structure, each) for each in activities}


def _meaning(structure: Structure, activity: Activity) -> Meaning:
    subject = f"activity {activity.label!r}"
    if activity.signal:
        kind = structure.brought[activity.signal]
        if activity.value is None:
            return Meaning(activity.label, Filling(kind.annotation, subject), kind.normalise, activity.signal)
        return Meaning(activity.label, activity.value, kind.accept, activity.signal)
    binding = next(each for each in structure.bindings.values() if any(w.name == activity.worker for w in each.workers))
    worker = binding.worker_named(activity.worker)
    result: Value = activity.value or _nothing
    if activity.value is None:
        match worker.writes:
            case ():
                pass
            case (fact,) if not worker.mapping:
                result = Filling(structure.types[fact].annotation, subject)
            case _:
                raise SettingsError(
                    f"{subject}: worker {worker.name!r} returns a mapping of facts; give value=, which returns one too"
                )
    return Meaning(activity.label, result, binding=binding.name, worker=worker.name)


def _nothing(event: LoggedEvent) -> None:
    return None


def _moments(
    case: str, trace: LoggedTrace, meanings: Mapping[tuple[str, str], Meaning], unmapped: Counter[str]
) -> Iterator[Moment]:
    latest: datetime | None = None
    place = 0
    for event in trace.events:
        at = event.at.astimezone(UTC)
        latest = at if latest is None or at > latest else latest
        transition = transition_of(event)
        meaning = meanings.get((event.activity, transition))
        if meaning is None:
            unmapped[label_of(event.activity, transition)] += 1
        else:
            yield Moment(case, latest, place, event, meaning)
            place += 1


def _inputs(trace: LoggedTrace, needed: Iterable[str]) -> Mapping[str, Any]:
    """What a case starts with: inputs by name, out of the trace's attributes and those of its first event."""
    known = {plain_name(key): value for key, value in trace.events[0].attributes.items()}
    known |= {plain_name(key): value for key, value in trace.attributes.items()}
    return {name: known[name] for name in needed if name in known}


def strictly(timeline: Timeline) -> None:
    """Raise `SettingsError` when the log has activities that the definition says nothing of."""
    if timeline.unmapped:
        activities = timeline.structure.definition.activities
        first, _ = timeline.unmapped.most_common(1)[0]
        raise SettingsError(
            f"{sum(timeline.unmapped.values()):,} events are of {len(timeline.unmapped)} activities that definition "
            f"{timeline.structure.name!r} does not map: {', '.join(map(repr, timeline.unmapped))}; "
            f"{did_you_mean(first, [each.label for each in activities])}"
        )
