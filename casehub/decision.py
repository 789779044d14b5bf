"""Decisions: what each deliberation of a case was about and what came of it, read from its log and nothing else.

A loop control that answers within the turn does not deliberate and leaves no decision: what it chose is in the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from casehub.events import (
    DeliberationCancelled,
    DeliberationEnded,
    DeliberationEvent,
    DeliberationFailed,
    DeliberationFinished,
    DeliberationStarted,
    DeliberationTimedOut,
    Event,
    SelectionDropped,
    SelectionForced,
    WorkerScheduled,
)
from casehub.values import Plain

READ: Final = (DeliberationEvent, SelectionDropped, SelectionForced, WorkerScheduled)
"""The classes of events that decisions are made of."""


class DecisionStatus(StrEnum):
    """How a deliberation ended. `DEFERRED`: it was answered, and is to be asked again; `OPEN`: it is under way."""

    OPEN = "OPEN"
    DECIDED = "DECIDED"
    DEFERRED = "DEFERRED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"

    @property
    def answered(self) -> bool:
        return self in (DecisionStatus.DECIDED, DecisionStatus.DEFERRED)


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question to the log: a verb of `case.log`, the names of event classes, the arguments as they were given.

    `as_of`: the global position that the answer was as of.
    """

    verb: str
    kinds: tuple[str, ...]
    arguments: Mapping[str, Plain]
    as_of: int

    def __str__(self) -> str:
        given = [f"{name}={value}" for name, value in self.arguments.items()]
        return f"{self.verb}({', '.join([*self.kinds, *given])}) as of {self.as_of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One deliberation.

    `number`: its number in the case; `version` and `as_of`: version and global position at which it began; `at`: when;
    `eligible`, `chosen`, `fired`: names of bindings; `dropped`, `forced`: those with the reason; `rationale`: the loop
    control's words; `error`: what went wrong, for one that failed; `stalled`: the reasons of the stall it was about;
    `seconds`: how long it took; `inquiries`: what it asked of the log, `inquiries_left_out` more not being kept.
    """

    number: int
    version: int
    as_of: int
    at: datetime
    eligible: tuple[str, ...]
    status: DecisionStatus = DecisionStatus.OPEN
    chosen: tuple[str, ...] = ()
    fired: tuple[str, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict[str, str])
    forced: Mapping[str, str] = field(default_factory=dict[str, str])
    rationale: str = ""
    error: str = ""
    stalled: tuple[str, ...] = ()
    seconds: float = 0.0
    inquiries: tuple[Inquiry, ...] = ()
    inquiries_left_out: int = 0

    @property
    def not_chosen(self) -> tuple[str, ...]:
        """What could have fired and was left alone."""
        return tuple(name for name in self.eligible if name not in self.chosen)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `at` is a datetime still."""
        return {**asdict(self), "not_chosen": self.not_chosen}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where another loop control decides otherwise. `error`: what it raised, or that it gave no answer in time."""

    recorded: Decision
    chosen: tuple[str, ...] = ()
    deferred: bool = False
    rationale: str = ""
    error: str = ""

    def __str__(self) -> str:
        recorded = self.recorded
        was = _answer(recorded.chosen, recorded.rationale, deferred=recorded.status is DecisionStatus.DEFERRED)
        now = f"failed: {self.error}" if self.error else _answer(self.chosen, self.rationale, deferred=self.deferred)
        return (
            f"decision {recorded.number} (version {recorded.version}) of {', '.join(recorded.eligible) or 'nothing'}:\n"
            f"  recorded: {was}\n"
            f"  replayed: {now}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReplay:
    """What another loop control made of a case's decisions.

    `compared`: those put to it, up to and with the first difference; `skipped`: those that have no recorded answer.
    """

    case: str
    compared: int
    skipped: int
    difference: Difference | None = None

    @property
    def agrees(self) -> bool:
        return self.difference is None


def decisions_of(events: Iterable[Event]) -> list[Decision]:
    """The decisions in a case's log, oldest first. Other events than `READ` may be left out."""
    found: list[Decision] = []
    answered = 0  # the turn whose further events belong to the last decision
    for event in events:
        if isinstance(event, DeliberationStarted):
            found.append(
                Decision(
                    number=event.deliberation,
                    version=event.version,
                    as_of=event.as_of,
                    at=event.at,
                    eligible=event.eligible,
                    stalled=event.stalled,
                )
            )
            answered = 0
        elif isinstance(event, DeliberationEnded) and found and found[-1].number == event.deliberation:
            found[-1] = _ended(found[-1], event)
            answered = event.turn
        elif found and event.turn == answered:
            found[-1] = _followed(found[-1], event)
    return found


def _ended(decision: Decision, event: DeliberationEnded) -> Decision:
    ended = replace(
        decision,
        status=_STATUS.get(type(event), DecisionStatus.DECIDED),
        seconds=event.seconds or (event.at - decision.at).total_seconds(),
        inquiries=tuple(_inquiry(query, decision.as_of) for query in event.queries),
        inquiries_left_out=event.queries_left_out,
    )
    if isinstance(event, DeliberationFinished):
        status = DecisionStatus.DEFERRED if event.deferred else DecisionStatus.DECIDED
        return replace(ended, status=status, chosen=event.chosen, rationale=event.rationale)
    if isinstance(event, DeliberationFailed):
        return replace(ended, error=f"{event.error}: {event.message}")
    if isinstance(event, DeliberationTimedOut):
        return replace(ended, error=f"no answer within {event.limit:g} s")
    return ended


def _followed(decision: Decision, event: Event) -> Decision:
    if isinstance(event, SelectionDropped):
        return replace(decision, dropped={**decision.dropped, event.binding: event.reason})
    if isinstance(event, SelectionForced):
        return replace(decision, forced={**decision.forced, event.binding: event.reason})
    if isinstance(event, WorkerScheduled):
        return replace(decision, fired=(*decision.fired, event.binding))
    return decision


_STATUS: Final[Mapping[type[Event], DecisionStatus]] = {
    DeliberationFailed: DecisionStatus.FAILED,
    DeliberationTimedOut: DecisionStatus.TIMED_OUT,
    DeliberationCancelled: DecisionStatus.CANCELLED,
}


def _inquiry(query: Mapping[str, Plain], as_of: int) -> Inquiry:
    kinds = query.get("kinds", ())
    named = tuple(str(kind) for kind in kinds) if isinstance(kinds, Sequence) and not isinstance(kinds, str) else ()
    rest = {name: value for name, value in query.items() if name not in ("verb", "kinds")}
    return Inquiry(str(query.get("verb", "")), named, rest, as_of)


def _answer(chosen: Sequence[str], rationale: str, *, deferred: bool) -> str:
    said = ", ".join(chosen) or "nothing"
    return f"{said}{', to be asked again' if deferred else ''}{f' ({rationale})' if rationale else ''}"
