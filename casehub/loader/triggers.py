"""Triggers: facts that count as changed, events, signals, times, and failures."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from casehub.binding import Trigger
from casehub.envelope import EVENT_TYPES
from casehub.events import Event
from casehub.loader.document import Mapping, Node, Scalar, Sequence
from casehub.loader.mistakes import instead
from casehub.loader.sections import Section, SectionReader
from casehub.loader.vocabulary import SECTIONS
from casehub.lookup import load_extensions
from casehub.schedule import Schedule, after, at, cron, every

_DATED: Final = re.compile(r"\d{4}-\d")
"""What is meant as a moment, and not as the name of a fact or milestone."""


def _at(text: str, **options: Any) -> Schedule:
    """At a moment, or at the one that a fact holds."""
    try:
        return at(text if text.isidentifier() else datetime.fromisoformat(text), **options)
    except ValueError:
        return at(text, **options)


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text) is not None
    except ValueError:
        return False


_MAKERS: Final[dict[str, Callable[..., Schedule]]] = {"after": after, "at": _at, "every": every, "cron": cron}


class TriggerReader:
    """Reads what stands under `on:`."""

    def __init__(self, sections: SectionReader) -> None:
        self._sections = sections
        self._mistakes = sections.mistakes

    def trigger(self, node: Node, subject: str) -> Trigger:
        """The trigger; a name or a list of names is of facts."""
        if not isinstance(node, Mapping):
            return Trigger(tuple(name.text for name in self._sections.names(node, subject)))
        section = self._sections.section(node, "trigger", subject)
        if section is None:
            return Trigger()
        events = []
        for name in self._sections.names(section.value("events"), f"{subject}.events") if "events" in section else ():
            event = self._event(name, f"{subject}.events")
            if event is not None:
                events.append(event)
        times = [self._schedule(section)] if set(section.values) & set(SECTIONS["schedule"]) else []
        if "times" in section:
            several = section.value("times")
            for place, each in enumerate(several.items if isinstance(several, Sequence) else [several]):
                own = self._sections.section(each, "schedule", f"{subject}.times[{place}]")
                times += [] if own is None else [self._schedule(own)]
        return Trigger(
            tuple(section.get("facts", ())),
            tuple(events),
            tuple(section.get("signals", ())),
            tuple(each for each in times if each is not None),
            tuple(section.get("faulted", ())),
        )

    def _event(self, name: Scalar, subject: str) -> type[Event] | None:
        load_extensions()  # whose events may be named too
        classes = {kind.__name__: kind for kind in EVENT_TYPES.values()}
        found = EVENT_TYPES.get(name.text) or classes.get(name.text)
        if found is None:
            self._mistakes.note(
                name.place, subject, f"{name.text!r} is no event", instead(name.text.upper(), EVENT_TYPES)
            )
        return found

    def _schedule(self, section: Section) -> Schedule | None:
        """The schedule of a mapping with one of `after`, `at`, `every` and `cron`."""
        kinds = [kind for kind in _MAKERS if kind in section.node.values]
        if len(kinds) != 1:
            said = f"has {' and '.join(kinds)}" if kinds else "says no time"
            self._mistakes.note(
                section.node.place,
                section.subject,
                said,
                f"give one of {', '.join(_MAKERS)}; several stand in a list under times:",
            )
            return None
        kind = kinds[0]
        if kind not in section:
            return None
        fits = {"after": ("since", "catch_up"), "cron": ("tz", "catch_up")}.get(kind, ("catch_up",))
        for key in ("since", "tz", "catch_up"):
            if key in section and key not in fits:
                self._mistakes.note(
                    section.node.keys[key].place,
                    section.subject,
                    f"{key!r} says nothing of {kind!r}",
                    f"{kind} takes {', '.join(fits)}",
                )
        if kind == "at" and _DATED.match(section.get("at")) and not _is_moment(section.get("at")):
            self._mistakes.note(
                section.value("at").place, f"{section.subject}.at", f"{section.get('at')!r} is no moment",
                "write it as 2030-01-01T09:00:00Z, or name a fact that holds one",
            )  # fmt: skip
            return None
        options: dict[str, Any] = section.only(*fits)
        made = _MAKERS[kind](section.get(kind), **options)
        node = section.value(kind)
        for reason, remedy in made.mistakes():
            place = node.place
            for key, told in (("tz", "time zone"), ("catch_up", "catch_up")):
                if told in reason and key in section:
                    place = section.value(key).place
            named = reason.rpartition(": ")[2].split("'")[1:2] if kind == "cron" and ": " in reason else []
            if named and isinstance(node, Scalar) and named[0] in node.text:
                place = node.inside(1, node.text.index(named[0]) + 1)
            self._mistakes.note(place, f"{section.subject}.{kind}", reason, remedy)
        return made
