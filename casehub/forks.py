"""Forks: a new case that begins with a copy of another one's log, up to a moment, and goes its own way from there.

And imports into a hub at work: copies too, which go on as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog

from casehub.copies import Move, commit_copies
from casehub.engine.runtime import Runtime
from casehub.envelope import is_case_id, new_case_id
from casehub.errors import (
    CaseExistsError,
    CaseNotFoundError,
    IllegalTransitionError,
    InputRefusedError,
    SettingsError,
    did_you_mean,
)
from casehub.events import CaseId, Event
from casehub.folding import fold
from casehub.imports import Import, Imported
from casehub.inputs import Diverge, Resume
from casehub.lifecycle import CaseStatus
from casehub.moment import Moment, read_moment, whole_turns
from casehub.residents import Residents
from casehub.spi import ListsInputs
from casehub.structure import Structure
from casehub.transcript import ToldCase
from casehub.values import Plain

log = structlog.get_logger("casehub.hub")


async def fork(
    runtime: Runtime,
    residents: Residents,
    structures: Mapping[str, Structure],
    source: CaseId,
    moment: Moment | None,
    facts: Mapping[str, Any],
    *,
    case_id: str | None,
    by: str,
    reason: str,
) -> CaseId:
    """Make a fork and let it go on; its id. See `CaseHub.fork`."""
    store, tenant = runtime.store, residents.tenant
    told, since = await _until(runtime, source, tenant, moment)
    case = new_case_id() if case_id is None else CaseId(case_id)
    if not is_case_id(case):
        raise InputRefusedError(f"case_id {case!r} is no id; use printable characters other than '/' and '@'")
    if await store.load(case, tenant):
        raise CaseExistsError(f"case {case!r} is there already; give another id")
    turns = Move(source, case, tenant, structures.get).turns(told)
    live = residents.folded(case, [event for turn in turns for event in turn.events])
    before = live.state.status
    plain = dict[str, Plain]()
    for name, value in facts.items():
        if name not in live.structure.types:
            raise InputRefusedError(
                f"case {source!r} knows no fact {name!r}; {did_you_mean(name, live.structure.types)}"
            )
        plain[name] = live.structure.types[name].accept(value, f"fact {name!r}", live.state)
    seq = told.events[-1].seq
    parting = Diverge(
        source=source, source_seq=seq, since=since, facts=plain, reason=reason, by=by, at=runtime.clock.now()
    )
    turns.append(live.take(parting))
    await commit_copies(store, turns)
    if before is not CaseStatus.SUSPENDED and turns[-1].status is CaseStatus.SUSPENDED:
        pump = await residents.pump(case)
        try:
            await pump.submit(Resume(by=by, reason=f"forked from {source} at position {seq}"))
        except (InputRefusedError, IllegalTransitionError) as error:  # a brake is on
            log.warning("fork.suspended", case=case, source=source, reason=str(error))
    return case


async def bring_in(
    runtime: Runtime, residents: Residents, structures: Mapping[str, Structure], what: Import, *, dry_run: bool = False
) -> Imported:
    """Import into the store of a hub that works; open cases go on with it. See `CaseHub.bring_in`."""
    store, tenant = runtime.store, residents.tenant
    turns = await what.turns(store, structures.get)
    events: dict[CaseId, list[Event]] = {}
    for turn in turns:
        events.setdefault(turn.envelope.case, []).extend(turn.events)
    for case, log_of_case in events.items():
        if not fold(case, log_of_case).status.ended:
            residents.folded(case, log_of_case)  # raises where it would be parked
    if dry_run:
        return what.imported(turns, dry_run=True)
    await commit_copies(store, turns)
    done = what.imported(turns)
    for case in done.open:
        pump = await residents.pump(case)
        for timer, due in pump.live.state.timers.items():
            runtime.wheel.taken(tenant, case, timer, due)
    return done


async def _until(runtime: Runtime, source: CaseId, tenant: str, moment: Moment | None) -> tuple[ToldCase, datetime]:
    """The source up to the moment, in whole turns, and when that was. Raises `InputRefusedError` where it has ended by then."""
    store = runtime.store
    events = await store.load(source, tenant)
    if not events:
        raise CaseNotFoundError(
            f"there is no case {source!r} in {store.describe()}; list them with 'casehub case list'"
        )
    last = await store.log.position()
    now = runtime.clock.now()
    at = last if moment is None else read_moment(moment, now)
    if isinstance(at, int) and at > last:
        raise SettingsError(f"position {at} has not come yet; the last one is {last}")
    kept = whole_turns(events, at)
    state = fold(source, kept)
    if state.status.ended:
        raise InputRefusedError(
            f"case {source!r} is {state.status} by then, and a fork of an end goes nowhere; {_before_the_end(kept)}"
        )
    inputs = await store.inputs(source, tenant) if isinstance(store, ListsInputs) else {}
    since = now if moment is None else at if isinstance(at, datetime) else kept[-1].at
    return ToldCase(kept, {key: seq for key, seq in inputs.items() if seq <= kept[-1].seq}), since


def _before_the_end(events: Sequence[Event]) -> str:
    """Which moment to give instead."""
    earlier = [event for event in events if event.turn != events[-1].turn]
    return f"the last position before that is {earlier[-1].seq}" if earlier else "it ended in its first turn"
