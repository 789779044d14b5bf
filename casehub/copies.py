"""Copies of cases: the turns that a log was written in, made again for another case, tenant or store.

A copy is committed in one transaction, whole or not at all. Its events are as they were, but for positions, which are new,
and ids that are made of the case's id, which follow it (`casehub.renaming`). Facts that a serializer has bound to their
place, as encryption does, are stored anew for the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from casehub.adapters.codec import encode
from casehub.errors import CaseExistsError, FactError, StoreError
from casehub.events import CaseId, ContextChanged, Envelope, Event, TimerCancelled, TimerFired, TimerSet
from casehub.folding import apply
from casehub.plain import TAG, Plain
from casehub.renaming import renamed, renamed_case
from casehub.spi import CaseStore, Committed, Duplicate, Turn
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.subcase_events import SubCaseStarted
from casehub.task_events import HumanTaskEvent
from casehub.transcript import ToldCase
from casehub.values import JSON, OwnerId

StructureOf = Callable[[str], Structure | None]
"""What is known of a definition, by its name."""

_TAG: Final = f'"{TAG}"'.encode()


@dataclass(frozen=True, slots=True)
class Move:
    """From one id and tenant to another. `old`, `new`: of the case that no other one of the copied is around."""

    old: str
    new: str
    tenant: str
    structure_of: StructureOf

    def turns(self, told: ToldCase) -> list[Turn]:
        """The turns of a case, in its new place. Raises `FactError` for a fact that cannot be stored there."""
        first = told.events[0]
        case, moved = renamed_case(told.id, self.old, self.new), (self.old, first.tenant) != (self.new, self.tenant)
        state, turns = CaseState(case), list[Turn]()
        keys: dict[int, list[str]] = {}
        for key, seq in told.inputs.items():
            keys.setdefault(seq, []).append(key)
        for number, group in groupby(told.events, key=lambda event: event.turn):
            events = list(group)
            envelope = Envelope(
                case=case,
                definition=first.definition,
                tenant=self.tenant,
                turn=number,
                version=events[0].version,
                at=events[0].at,
            )
            turn = Turn(envelope, key=here.pop(0) if (here := keys.get(events[0].seq)) else "")
            for event in events:
                copy = renamed(event, envelope, self.old, self.new)
                _take(turn, state, self._stored_anew(event, copy) if moved and _TAG in encode(event)[1] else copy)
            turns.append(turn)
        turns += [_only_a_key(turns[-1], state, key) for left in keys.values() for key in left]
        return turns

    def _stored_anew(self, event: Event, copy: Event) -> Event:
        """The copy, with what serializers have stored in it as they store it for the new place."""
        if isinstance(event, ContextChanged):
            owners = (event.case, copy.case)
            copy = replace(copy, facts=self._facts(event.facts, event.definition, event.tenant, *owners))  # type: ignore[call-arg]  # it has facts
        elif isinstance(event, SubCaseStarted) and isinstance(copy, SubCaseStarted):
            owners = (event.child, copy.child)
            copy = replace(copy, facts=self._facts(event.facts, event.child_definition, event.tenant, *owners))
        elif any(_sealed(copy)):
            raise FactError(
                f"event {event.name} of case {event.case!r} has a value that a serializer has stored, which is not "
                "known how to take elsewhere; copy the case under its own id and tenant"
            )
        return copy

    def _facts(
        self, facts: Mapping[str, Plain], definition: str, tenant: str, old: str, new: str
    ) -> Mapping[str, Plain]:
        found = dict(facts)
        for name, value in facts.items():
            if not (isinstance(value, dict) and value.get(TAG, JSON) != JSON):
                continue
            structure = self.structure_of(definition)
            kind = None if structure is None else structure.types.get(name)
            if kind is None:
                raise FactError(
                    f"fact {name!r} of case {old!r} was stored by a serializer, which only a hub with definition "
                    f"{definition!r} can do anew for another place; copy it through that, or under its own id and tenant"
                )
            plain = kind.as_json(value, name, OwnerId(old, tenant))
            found[name] = kind.from_json(plain, f"fact {name!r}", OwnerId(new, self.tenant))
        return found


def _take(turn: Turn, state: CaseState, event: Event) -> None:
    """An event goes into a turn, with what the store keeps of it besides."""
    apply(state, event)
    turn.events.append(event)
    turn.status, turn.stalled = state.status, bool(state.stalled)
    if isinstance(event, TimerSet):
        turn.timers[event.timer] = event.due
    elif isinstance(event, TimerFired | TimerCancelled):
        turn.timers[event.timer] = None
    elif isinstance(event, HumanTaskEvent) and (task := state.tasks.last) is not None:
        turn.tasks[task.id] = task
    if state.status.ended:
        turn.timers |= dict.fromkeys(state.put_away)


def _only_a_key(last: Turn, state: CaseState, key: str) -> Turn:
    """A turn that changes nothing but that an input with this key has been taken."""
    envelope = replace(last.envelope, turn=state.turn, version=state.version + 1)
    return Turn(envelope, status=last.status, stalled=last.stalled, key=key)


def _sealed(copy: Event) -> Iterator[bool]:
    """Whether there is something in an event that a serializer has stored, anywhere."""
    waiting: list[Any] = [getattr(copy, name) for name in copy.__dataclass_fields__ if name != "envelope"]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield TAG in value and value[TAG] != JSON
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


async def commit_copies(store: CaseStore, turns: Sequence[Turn]) -> None:
    """Write copied cases in one transaction. Raises `CaseExistsError` where one has come to be there, `StoreError`."""
    results = await store.commit(turns)
    for turn, result in zip(turns, results, strict=True):
        if not isinstance(result, Committed | Duplicate):
            case = turn.envelope.case
            if turn.envelope.version == 1:
                raise CaseExistsError(f"case {case!r} is there already; give another id")
            raise StoreError(f"case {case!r}: its copy could not be written whole: {result}; it has to be removed")


def ids_of(cases: Sequence[ToldCase], move: Move) -> list[CaseId]:
    """What the copies are called."""
    return [renamed_case(each.id, move.old, move.new) for each in cases]
