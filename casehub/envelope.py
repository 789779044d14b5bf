"""What every event carries besides its body: identifiers, its envelope, its place in the log.

What all events of one turn share (the case, the turn, the time) is one `Envelope`; positions are dense, so an event's
own position follows from the envelope's and its place in the turn.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar, NewType

from casehub.values import Plain

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils.compat import uuid7

CaseId = NewType("CaseId", str)
ActivationId = NewType("ActivationId", str)
"""`case/binding/n`: the n-th activation of a binding; the idempotency key of all its attempts."""
TimerId = NewType("TimerId", str)
"""`purpose:name`, unique in its case while the timer is set: `retry:case/binding/3`, `sla:decided`."""


def new_case_id() -> CaseId:
    """An id that no case has; ids sort by the time they were made."""
    return CaseId(str(uuid7()))


def is_case_id(text: str) -> bool:
    """Whether a case may be called so: printable characters other than the two that divide longer identifiers."""
    return bool(text) and text.isprintable() and "/" not in text and "@" not in text


EVENT_TYPES: dict[str, type[Event]] = {}
"""Every event class by its name in the log."""


@dataclass(slots=True, kw_only=True, eq=False)
class Envelope:
    """What the events of one turn share.

    `seq` is the global position of the turn's first event (0 until it is committed), `version` the place of that event
    in its case's own log (from 1), `turn` the number of the turn in the case (from 1), `at` an aware time in UTC.
    """

    case: CaseId
    definition: str = ""
    tenant: str = "default"
    turn: int = 0
    version: int = 1
    seq: int = 0
    at: datetime = datetime.min.replace(tzinfo=UTC)


_UNRECORDED = Envelope(case=CaseId(""))


@dataclass(slots=True, kw_only=True)
class Event:
    """Base of all events; subscribing to it brings everything.

    `version` is the event's place in its case's log, from 1; `by` who caused it, as `kind:name` or `kind`
    (`user:ada`, `worker:extract`, `timer:sla:decided`, `engine`); `cause` the version of the event of the same case
    that it follows from, 0 where it follows from an input.
    """

    envelope: Envelope = field(default=_UNRECORDED, repr=False, compare=False)
    version: int = 0
    by: str = "engine"
    cause: int = 0

    name: ClassVar[str] = "EVENT"

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).upper()
        EVENT_TYPES[cls.name] = cls

    @property
    def case(self) -> CaseId:
        return self.envelope.case

    @property
    def definition(self) -> str:
        return self.envelope.definition

    @property
    def tenant(self) -> str:
        return self.envelope.tenant

    @property
    def turn(self) -> int:
        return self.envelope.turn

    @property
    def at(self) -> datetime:
        return self.envelope.at

    @property
    def seq(self) -> int:
        """The global position, in commit order; 0 until the turn is committed."""
        envelope = self.envelope
        return envelope.seq and envelope.seq + self.version - envelope.version

    @property
    def id(self) -> str:
        """Unique and the same for ever: `case@version`."""
        return f"{self.envelope.case}@{self.version}"

    @property
    def author(self) -> str:
        """The name part of `by`, or its kind where it has no name: `extract`, `ada`, `user`."""
        return self.by.partition(":")[2] or self.by


@dataclass(slots=True, kw_only=True)
class UnknownEvent(Event):
    """An event of a kind that this process does not know, kept loss-free."""

    type: str
    body: Mapping[str, Plain]


def subtypes(kind: type[Event]) -> list[type[Event]]:
    """A class of events and all its subclasses, which is the topic that it names."""
    found = [kind]
    for sub in kind.__subclasses__():
        # `dataclass(slots=True)` makes a second class; until it is collected, the first is a subclass nobody can name.
        if EVENT_TYPES.get(sub.name) is sub:
            found.extend(subtypes(sub))
    return found
