"""What can never trigger a binding: signals that nobody declares, failures of no binding, times that are never due."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from casehub.errors import Problem, did_you_mean
from casehub.schedule import At
from casehub.serialized import SerializedType
from casehub.structure import Structure
from casehub.values import type_name


def occasions(structure: Structure) -> Iterator[Problem]:
    """Signals and failures that cannot occur."""
    for binding in structure.bindings.values():
        for signal in binding.on.signals:
            if signal not in structure.definition.signals:
                yield Problem(
                    f"binding {binding.name!r}",
                    f"waits for the signal {signal!r}, which signals= does not declare",
                    did_you_mean(signal, structure.definition.signals),
                )
        for other in binding.on.faulted:
            if other not in structure.bindings:
                yield Problem(
                    f"binding {binding.name!r}",
                    f"waits for a failure of {other!r}, which is no binding",
                    did_you_mean(other, structure.bindings),
                )


def schedules(structure: Structure) -> Iterator[Problem]:
    """Schedules that can never be due, or that are counted from what nobody brings."""
    known = known_facts(structure)
    for binding, schedule in structure.timed.values():
        subject = f"binding {binding.name!r}"
        for reason, remedy in schedule.mistakes():
            yield Problem(subject, reason, remedy)
        name = schedule.since
        if not name or (name in structure.milestones and not isinstance(schedule, At)):
            continue
        if name not in known:
            if structure.definition.strict:
                yield Problem(
                    subject,
                    f"'{schedule}' counts from {name!r}, which is no milestone and no fact that anybody brings",
                    f"{did_you_mean(name, {*known, *structure.milestones})} (or declare it with signals= or external=)",
                )
        elif isinstance(schedule, At) and isinstance(structure.types[name], SerializedType):
            yield Problem(
                subject,
                f"'{schedule}' takes the moment from fact {name!r}, which is stored by a serializer",
                "have a worker write the moment as a fact of its own",
            )
        elif isinstance(schedule, At) and _no_moment(kind := structure.types[name].annotation):
            yield Problem(
                subject,
                f"'{schedule}' takes the moment from fact {name!r}, which is {type_name(kind)}",
                "make the fact a datetime",
            )


def _no_moment(annotation: Any) -> bool:
    """Whether facts of a type can be neither a datetime nor text that is one."""
    return (
        isinstance(annotation, type) and not issubclass(annotation, datetime | str) and annotation not in (Any, object)
    )


def known_facts(structure: Structure) -> set[str]:
    return structure.written() | set(structure.inputs) | set(structure.brought)
