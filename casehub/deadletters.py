"""Dead letters for operators: activations of open cases that ended in a fault, found in the log.

The log is all there is: a letter is dead while its activation is the last of its binding, nothing has been decided
about it, and its case goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol

from casehub.engine.letters import check_letter
from casehub.engine.pump import Pump
from casehub.errors import CaseNotFoundError, InputRefusedError, SettingsError, UnknownNameError
from casehub.events import (
    ActivationId,
    CaseEnded,
    CaseId,
    CaseUnfaulted,
    DeadLetterEvent,
    Event,
    WorkerExecutionDeclined,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
    WorkerExecutionInterrupted,
    WorkerScheduled,
)
from casehub.folding import apply
from casehub.inputs import DiscardLetter, RetryLetter
from casehub.query import EventQuery, concrete
from casehub.spi import CaseStore
from casehub.state import CaseState
from casehub.values import ABSENT, Plain, shown

PAGE: Final = 1_000
"""Failures that are read at once while looking for dead letters."""
_BAD: Final = concrete(
    (WorkerExecutionFailed, WorkerExecutionExpired, WorkerExecutionDeclined, WorkerExecutionInterrupted)
)
_DECIDING: Final = concrete((WorkerScheduled, DeadLetterEvent))
_ENDING: Final = concrete((CaseEnded, CaseUnfaulted))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An activation that ended in a fault. `outcome`: the event that ended it; `message`: the error's, or the reason.

    `inputs`: the facts that it ran on, as plain values, where it is shown alone.
    """

    id: ActivationId
    case: CaseId
    definition: str
    binding: str
    worker: str
    outcome: str
    message: str
    attempts: int
    at: datetime
    inputs: Mapping[str, Plain] = field(default_factory=dict[str, Plain])


class Office(Protocol):
    """The hub whose dead letters these are."""

    @property
    def store(self) -> CaseStore: ...

    @property
    def tenant(self) -> str: ...

    async def pump(self, case: CaseId) -> Pump: ...


class DeadLetters:
    """The dead letters of a hub: `hub.dead_letters`."""

    def __init__(self, hub: Office) -> None:
        self._hub = hub

    async def list(
        self, *, definition: str | None = None, binding: str | None = None, worker: str | None = None, limit: int = 50
    ) -> Sequence[DeadLetter]:
        """The latest dead letters, newest first."""
        return await letters(self._hub.store, self._hub.tenant, definition, binding, worker, limit)

    async def show(self, id: str) -> DeadLetter:
        """One of them with what it ran on. Raises `InputRefusedError` for an activation that is none."""
        return await letter(self._hub.store, id, self._hub.tenant)

    async def retry(
        self, id: str, facts: Mapping[str, Any] | None = None, *, by: str = "user", reason: str = ""
    ) -> None:
        """Let its binding fire again, on the facts as they are now; `facts`: those that it reads, edited.

        They are written in the same turn, as `by`'s. Whether it fires is decided as ever: by the loop control, limits and
        budgets. Raises `InputRefusedError` for an activation that is no dead letter (any more) and for a fact that the
        binding does not read, `FactError` for one that does not fit its type.
        """
        pump = await self._hub.pump(case_of(id))
        types, owner = pump.live.structure.types, pump.live.state
        plain: dict[str, Plain] = {
            name: types[name].accept(value, f"fact {name!r}", owner) if name in types else None  # refused by its name
            for name, value in (facts or {}).items()
        }
        await pump.submit(RetryLetter(activation=ActivationId(id), facts=plain, by=by, reason=reason))

    async def discard(self, id: str, *, by: str = "user", reason: str = "") -> None:
        """Settle the failure: nobody will try again. Raises `InputRefusedError` as `retry` does."""
        pump = await self._hub.pump(case_of(id))
        await pump.submit(DiscardLetter(activation=ActivationId(id), by=by, reason=reason))


def case_of(id: str) -> CaseId:
    """The case of a dead letter. Raises `UnknownNameError` for what is no id of one."""
    if id.count("/") < 2:
        raise UnknownNameError(f"{id!r} is no dead letter's id: they are CASE/BINDING/NUMBER; list them")
    return CaseId(id.rsplit("/", 2)[0])


async def letters(
    store: CaseStore, tenant: str, definition: str | None, binding: str | None, worker: str | None, limit: int
) -> Sequence[DeadLetter]:
    """The latest dead letters in a store, newest first."""
    if limit < 1:
        raise SettingsError(f"limit={limit}: at least 1")
    found: list[DeadLetter] = []
    query = EventQuery(
        types=_BAD, tenant=tenant, definition=definition, binding=binding, worker=worker, newest=True, limit=PAGE
    )
    ended: dict[CaseId, bool] = {}
    async for event in _failures(store, query):
        if event.settled and event.then.startswith("fault") and await _undecided(store, event, ended):
            found.append(_letter(event))
            if len(found) == limit:
                break
    return found


async def letter(store: CaseStore, id: str, tenant: str = "default") -> DeadLetter:
    """A dead letter with what it ran on. Raises `CaseNotFoundError`, or `InputRefusedError` for what is none."""
    case = case_of(id)
    events = await store.load(case, tenant)
    if not events:
        raise CaseNotFoundError(f"there is no case {case!r} in {store.describe()}; list them with 'casehub case list'")
    state = CaseState(case)
    inputs: dict[str, Plain] = {}
    last: WorkerExecutionFinished | None = None
    for event in events:
        apply(state, event)
        if isinstance(event, WorkerScheduled) and event.activation == id:
            facts = state.activations[event.activation].facts
            inputs = {n: shown(fact.value) for n, fact in facts.items() if fact.visible and fact.value is not ABSENT}
        elif isinstance(event, WorkerExecutionFinished) and event.activation == id:
            last = event
    check_letter(state, id)
    if last is None:
        raise InputRefusedError(f"activation {id!r} is no dead letter: it has not ended; wait for how it ends")
    return replace(_letter(last), inputs=inputs)


async def _failures(store: CaseStore, query: EventQuery) -> AsyncIterator[WorkerExecutionFinished]:
    """Failures, newest first, a page at a time."""
    while True:
        page: Sequence[Event] = await store.log.query(query)
        for event in page:
            if isinstance(event, WorkerExecutionFinished):
                yield event
        if len(page) < query.limit or page[-1].seq <= 1:
            return
        query = replace(query, upto=page[-1].seq - 1)


async def _undecided(store: CaseStore, event: WorkerExecutionFinished, ended: dict[CaseId, bool]) -> bool:
    """Whether the activation is the last of its binding, nothing has been decided about it, and its case goes on."""
    case = event.case
    if case not in ended:
        query = EventQuery(types=_ENDING, tenant=event.tenant, case=case, newest=True, limit=1)
        ended[case] = any(isinstance(last, CaseEnded) for last in await store.log.query(query))
    if ended[case]:
        return False
    query = EventQuery(types=_DECIDING, tenant=event.tenant, case=case, binding=event.binding, newest=True, limit=1)
    return all(
        isinstance(last, WorkerScheduled) and last.activation == event.activation
        for last in await store.log.query(query)
    )


def _letter(event: WorkerExecutionFinished) -> DeadLetter:
    limit = getattr(event, "limit", None)
    said = getattr(event, "message", "") or getattr(event, "reason", "")
    kind = getattr(event, "error", "")
    message = f"{kind}: {said}" if kind else said or (f"no result within {limit:g} s" if limit else "its process ended")
    return DeadLetter(
        event.activation,
        event.case,
        event.definition,
        event.binding,
        event.worker,
        event.name,
        message,
        event.attempt,
        event.at,
    )
