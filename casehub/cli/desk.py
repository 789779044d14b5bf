"""Where verbs go: to the worker process that owns the database, or, where none runs, to a hub of this process.

Reading needs neither. A hub of this process works only the cases it is asked for, and listens on the control socket
too, so that others can signal the case that it works.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from casehub.case import Case
from casehub.cli.application import InFile, hub_of
from casehub.cli.options import Session
from casehub.cli.place import is_kept
from casehub.cli.worked import Worked, leave_note
from casehub.control import ControlClient, DefinitionNote, connect, listens, note_of, socket_of
from casehub.control_cases import RemoteCase
from casehub.control_server import listening
from casehub.errors import CaseNotFoundError, SettingsError
from casehub.hub import CaseHub
from casehub.record import CaseRecord, read_case
from casehub.stepping import Stepper


@dataclass(frozen=True, slots=True)
class Desk:
    """A hub that takes verbs. `remote`: it is another process's; `steppers`: the one of this process, once it is used."""

    hub: ControlClient | CaseHub
    session: Session
    steppers: list[Stepper] = field(default_factory=list)

    @property
    def remote(self) -> bool:
        return isinstance(self.hub, ControlClient)

    @property
    def definitions(self) -> Mapping[str, DefinitionNote]:
        """What the hub works."""
        if isinstance(self.hub, ControlClient):
            return self.hub.greeting.definitions
        return {name: note_of(each) for name, each in self.hub.structures.items()}

    @property
    def kept(self) -> Collection[str]:
        """The definitions of which it keeps versions, those that have no current one among them."""
        if isinstance(self.hub, ControlClient):
            return self.hub.greeting.kept
        return {each.name for each in self.hub.registry.others}

    def case(self, id: str) -> Case | RemoteCase:
        return self.hub.case(id)

    async def start(
        self,
        definition: str,
        facts: Mapping[str, Any],
        *,
        case_id: str | None,
        by: str,
        goal: str | None = None,
        stepped: bool = False,
    ) -> Case | RemoteCase:
        """Start a case; `stepped`: it holds each decision until it is stepped."""
        if not stepped:
            return await self.hub.start(definition, facts, case_id=case_id, goal=goal, by=by)
        if isinstance(self.hub, ControlClient):
            return await self.hub.start_stepped(definition, facts, case_id=case_id, goal=goal, by=by)
        return await self._stepper(self.hub).start(definition, facts, case_id=case_id, goal=goal, by=by)

    async def step(self, case: Case | RemoteCase) -> Mapping[str, Any] | None:
        """Let the next decision of a stepped case through, and say what came of it; None when it has ended or rests."""
        if isinstance(case, RemoteCase):
            return await case.step()
        step = await self.steppers[0].step(case)
        return None if step is None else step.as_dict()

    async def let_run(self, case: Case | RemoteCase) -> None:
        """Step a case no more. One of another process goes on when this one has gone."""
        if isinstance(case, Case):
            self.steppers[0].turnstile.open(case.id)
            await case.quiescent()

    def _stepper(self, hub: CaseHub) -> Stepper:
        if not self.steppers:
            self.steppers.append(Stepper(hub))
        return self.steppers[0]

    async def record(self, id: str) -> CaseRecord:
        """The case as it is in the database now."""
        if isinstance(self.hub, CaseHub):
            return await read_case(self.hub.store, id, self.hub.tenant)
        async with self.session.reading() as store:
            return await read_case(store, id, self.hub.greeting.tenant)


@asynccontextmanager
async def desk(session: Session, app: str = "") -> AsyncIterator[Desk]:
    """A hub for one verb. `app`: what to work with where no worker process runs, instead of the setting.

    Raises `SettingsError` where there is neither, and what opening the database raises.
    """
    async with worker_process(session) as client:
        if client is not None:
            yield Desk(client, session)
            return
    settings = session.settings
    worked = Worked(app, settings.loop, session.allow_code) if app else session.worked
    if not worked.app:
        raise session.needs_app(f"no worker process owns {session.named}, and what to work with is not known")
    hub = hub_of(
        worked.app,
        settings.db,
        loop=worked.loop,
        tenant=settings.tenant,
        resume=False,
        allow_code=worked.allow_code,
        snapshots=settings.snapshots,
        checkpoint=settings.checkpoint,
    )
    if isinstance(hub.store, InFile) and hub.store.path != session.database:
        raise SettingsError(f"{worked.app} has a database of its own, {hub.store.path}; give --db {hub.store.path}")
    async with hub:
        if not is_kept(settings.db):
            yield Desk(hub, session)
            return
        leave_note(session.database, worked, over=False)
        async with listening(hub, socket_of(session.database)):
            yield Desk(hub, session)


@asynccontextmanager
async def worker_process(session: Session) -> AsyncIterator[ControlClient | None]:
    """The hub of the process that owns the database, None where none listens."""
    path = socket_of(session.database) if is_kept(session.settings.db) else None
    if path is None or not await listens(path):
        yield None
        return
    async with connect(path) as client:
        yield client


@contextmanager
def known(session: Session, id: str) -> Iterator[None]:
    """Say in a command's words that a case is not there."""
    try:
        yield
    except CaseNotFoundError:
        raise CaseNotFoundError(
            f"there is no case {id!r} in {session.named}; list them with '{session.hint('case list')}'"
        ) from None
