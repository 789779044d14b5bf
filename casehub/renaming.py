"""An event of one case as an event of another one: the ids that are made of the case's id follow it.

Which fields have such ids is said by their types (`ActivationId`, `TaskId`, `CaseId`, `TimerId`), so what users and
workers wrote is never touched, whatever it looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, get_type_hints

from casehub.envelope import ActivationId, CaseId, Envelope, Event, TimerId, UnknownEvent
from casehub.task_events import TaskId

Follow = Callable[[str, str, str], str]
"""An id, or what has one in it, when the case is called otherwise: of the id, the old one and the new one."""

_CASE: Final = "case:"
"""What `by` begins with where a case did it."""


def renamed_case(id: str, old: str, new: str) -> CaseId:
    """The id of a case, or of one of its sub-cases, when the case has another id."""
    return CaseId(_following(id, old, new))


def renamed(event: Event, envelope: Envelope, old: str, new: str) -> Event:
    """The event in another envelope, with the ids that follow from the id of its case, or of the case around that."""
    changes: dict[str, Any] = {name: follow(getattr(event, name), old, new) for name, follow in _IDS[type(event)]}
    if event.by.startswith(_CASE):
        changes["by"] = _CASE + _following(event.by.removeprefix(_CASE), old, new)
    return replace(event, envelope=envelope, **changes)


def _following(id: str, old: str, new: str) -> str:
    """An id that is another one's, or begins with it."""
    return new + id.removeprefix(old) if id == old or id.startswith(f"{old}/") else id


def _following_timer(timer: str, old: str, new: str) -> str:
    """`purpose:name`, where the name may be an id."""
    purpose, colon, name = timer.partition(":")
    return f"{purpose}{colon}{_following(name, old, new)}"


class _Ids(dict[type[Event], tuple[tuple[str, Follow], ...]]):
    """The fields of each class of events that have ids of cases or of what lies in them, found once."""

    def __missing__(self, kind: type[Event]) -> tuple[tuple[str, Follow], ...]:
        hints = {} if kind is UnknownEvent else get_type_hints(kind)
        found = ((name, _FOLLOWED.get(hint)) for name, hint in hints.items())
        self[kind] = ids = tuple((name, follow) for name, follow in found if follow is not None)
        return ids


_FOLLOWED: Final[dict[object, Follow]] = {
    ActivationId: _following,
    TaskId: _following,
    CaseId: _following,
    TimerId: _following_timer,
}
_IDS: Final = _Ids()
