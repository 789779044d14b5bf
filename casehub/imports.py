"""Imports: cases of a transcript become cases of a store, all of them in one transaction or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from casehub.copies import Move, StructureOf, commit_copies, ids_of
from casehub.envelope import is_case_id
from casehub.errors import CaseExistsError, FactError, InputRefusedError
from casehub.events import CaseId, UnknownEvent
from casehub.spi import CaseStore, Turn
from casehub.subcase import parent_of
from casehub.transcript import Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import comes to, or would. `cases`: their ids, the case itself first; `open`: those that go on."""

    case: CaseId
    cases: Sequence[CaseId]
    events: int
    open: Sequence[CaseId]
    definitions: Mapping[str, str]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Import:
    """A transcript on its way into a store: under the id `case_id`, None for its own, for a tenant."""

    transcript: Transcript
    tenant: str = "default"
    case_id: str | None = None

    @property
    def id(self) -> CaseId:
        return self.transcript.id if self.case_id is None else CaseId(self.case_id)

    async def turns(self, store: CaseStore, structure_of: StructureOf) -> list[Turn]:
        """What is to be committed. Raises `InputRefusedError`, `CaseExistsError`, `FactError`."""
        await self._check_id(store)
        transcript = self.transcript
        move = Move(transcript.id, self.id, self.tenant, structure_of)
        unknown = {e.type for case in transcript.cases for e in case.events if isinstance(e, UnknownEvent)}
        if unknown and self.id != transcript.id:
            raise FactError(
                f"it has events that this CaseHub does not know ({', '.join(sorted(unknown))}), so what ids are in them is "
                "not known either; install the extension that wrote them, or import it under its own id"
            )
        for id in ids_of(transcript.cases, move):
            if await store.load(id, self.tenant):
                raise CaseExistsError(f"case {id!r} is there already; import it under another id, with --id")
        return [turn for case in transcript.cases for turn in move.turns(case)]

    async def _check_id(self, store: CaseStore) -> None:
        id = self.id
        if self.case_id is not None and not is_case_id(id):
            raise InputRefusedError(f"id {id!r} is no id; use printable characters other than '/' and '@'")
        if not all(map(is_case_id, id.split("/"))):
            raise InputRefusedError(f"case {id!r} of the file has no id that a case can have; give one with --id")
        parent = parent_of(id)
        if parent is not None and not await store.load(parent, self.tenant):
            raise InputRefusedError(
                f"case {id!r} is a sub-case of {parent!r}, which is not here; give it an id of its own with --id"
            )

    def imported(self, turns: Sequence[Turn], *, dry_run: bool = False) -> Imported:
        """What it comes to."""
        last = {turn.envelope.case: turn for turn in turns}
        return Imported(
            case=self.id,
            cases=list(last),
            events=sum(len(turn.events) for turn in turns),
            open=[case for case, turn in last.items() if not turn.status.ended],
            definitions={case.state.definition: case.state.structure for case in reversed(self.transcript.cases)},
            dry_run=dry_run,
        )


def _nothing_known(definition: str) -> None:
    return None


async def import_into(store: CaseStore, what: Import, *, dry_run: bool = False) -> Imported:
    """Import into a store that is open and that no hub works; open cases go on with the next one."""
    turns = await what.turns(store, _nothing_known)
    if not dry_run:
        await commit_copies(store, turns)
    return what.imported(turns, dry_run=dry_run)
