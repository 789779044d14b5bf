"""The hub: the front door. It composes store, clock and engine, and owns everything that runs.

async with CaseHub(claim) as hub:
    case = await hub.start(claim, document="Ada met Grace in Paris")
    print((await case.completed())["decision"])
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from casehub.brakes import Brakes
from casehub.case import Case
from casehub.deadletters import DeadLetters
from casehub.definition import CaseDefinition
from casehub.durations import Duration, duration
from casehub.engine.executor import LocalExecutor
from casehub.engine.pump import Pump
from casehub.engine.runtime import Runtime
from casehub.envelope import is_case_id, new_case_id
from casehub.errors import HubClosedError, InputRefusedError, SettingsError
from casehub.events import CaseId
from casehub.forks import bring_in, fork
from casehub.imports import Import, Imported
from casehub.inputs import Start
from casehub.lifecycle import CaseStatus
from casehub.listening import Listening
from casehub.lookup import clock_of, snapshots_of, store_of
from casehub.loops import Loops, loops_of
from casehub.migration import Migration, migrate
from casehub.moment import Moment
from casehub.opening import Composition, Opened, opened
from casehub.patience import patiently
from casehub.purpose import Wanted, purpose_of
from casehub.quarantines import Quarantines
from casehub.query import CaseQuery, CaseSummary, EventLog
from casehub.registry import Registry
from casehub.residents import Residents
from casehub.resources import Opener
from casehub.retention import KEEP, Keeper, Retention, retiring
from casehub.serialized import FactSerializer
from casehub.snapshot import Checkpoint, checkpoint_of
from casehub.snapshots import Snapshots
from casehub.spi import CaseStore, Clock, Executor, LoopControl, SnapshotStore
from casehub.structure import Structure, started_with
from casehub.subscribers import Subscriber
from casehub.tracing import trace_of
from casehub.transcript import Transcript
from casehub.values import OwnerId, apart
from casehub.worklist import Worklist

NOT_OPEN: Final = "the hub is not open: use it inside 'async with CaseHub(...) as hub:'"


class CaseHub(Listening):
    """Works the cases of its definitions while it is entered; leaving it leaves nothing behind.

    - `kept`: other versions of definitions, for the open cases that have them; new cases are of `definitions`.
    - `loop`: the loop control for all definitions, or one by definition name; choreography by default.
    - `store`: a `CaseStore` or its URL (`sqlite:///cases.db`); this process's memory by default.
    - `snapshots`: a `SnapshotStore` or its URL, to load cases faster; `checkpoint`: when they are kept: `"waiting"`,
      `"lifecycle"` (waiting, suspended or ended) or every so many events.
    - `persist=False`: write nothing, whatever `store` and `snapshots` say: work in this process's memory.
    - `clock`, `executor`: replacements for the machine's; `seed`: of the jitter of retries.
    - `tenant`: whose cases these are; a store keeps those of several apart.
    - `resources`: values for openers declared by `definition.resource`, instead of opening them.
    - `resident`: how many cases that wait for somebody stay in memory; `linger`: how long they do.
    - `patience`: how long a call waits for a store that does not answer; past it, it raises `StoreUnavailableError`.
    - `retention`: how long cases are kept after their end; None: for ever.
    - `serializers`: how facts are stored that are not to be JSON, asked in order (see `casehub.serialized`).
    - `resume=False`: work only the cases that this hub starts or is asked for, not what else is open in the store.

    The constructor does no I/O. Raises `DefinitionError` for a definition that can never work.
    """

    def __init__(
        self,
        *definitions: CaseDefinition,
        kept: Iterable[CaseDefinition] = (),
        loop: Loops | None = None,
        store: CaseStore | str = "memory://",
        snapshots: SnapshotStore | str | None = None,
        checkpoint: Checkpoint = "lifecycle",
        persist: bool = True,
        clock: Clock | None = None,
        executor: Executor | None = None,
        resources: Mapping[Opener, Any] | None = None,
        seed: int | None = None,
        tenant: str = "default",
        resident: int = 1_000,
        linger: Duration = "1m",
        patience: Duration = "2s",
        resume: bool = True,
        retention: Retention | None = KEEP,
        serializers: Sequence[FactSerializer] = (),
    ) -> None:
        if not persist:
            store, snapshots = "memory://", None
        self.registry = Registry(definitions, kept, serializers)
        self._parts = Composition(
            registry=self.registry,
            loops=loops_of(loop, self.registry.versions),
            store=store_of(store) if isinstance(store, str) else store,
            snapshots=snapshots_of(snapshots) if isinstance(snapshots, str) else snapshots,
            checkpoint=checkpoint_of(checkpoint),
            persists=persist,
            clock=clock or clock_of("system"),
            executor=executor or LocalExecutor(),
            chance=random.Random(seed),  # noqa: S311 - jitter, no secret
            replaced=dict(resources or {}),
            tenant=tenant,
            resident=resident,
            linger=duration(linger),
            patience=duration(patience),
            resumes=resume,
            retention=retention,
        )
        self.store: CaseStore = self._parts.store
        self.snapshot_store: SnapshotStore | None = self._parts.snapshots
        self.clock: Clock = self._parts.clock
        if retention is not None and retention is not KEEP:
            retiring(self.store)
        self.tenant = tenant
        self.resumes = resume
        self.tasks = Worklist(self)  # what people have to do
        self.subscribers: list[Subscriber[Any]] = []
        self._opened: Opened | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None

    # ---- life

    async def __aenter__(self) -> Self:
        try:
            self._event_loop = asyncio.get_running_loop()
        except RuntimeError:
            raise SettingsError("CaseHub runs on asyncio, as its drivers do; use anyio's asyncio backend") from None
        if self._opened is not None:
            raise HubClosedError("a hub is entered once; make another one")
        # What a face may have changed is not what the hub was made with.
        parts = replace(self._parts, store=self.store, snapshots=self.snapshot_store, resumes=self.resumes)
        self._opened = await opened(parts, self.subscribers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self._here.close(kind, error, trace, self.subscribers)
        return None

    async def drain(self, limit: Duration = "30s") -> bool:
        """Start nothing new, and wait up to `limit` for what runs; whether all of it came to its end.

        What did not is called off when the hub is left, and runs again when a hub opens the store.
        """
        runtime = self.runtime
        runtime.draining = True
        if runtime.standing is not None:
            await patiently(runtime.standing.store.drain, self.clock)
        with runtime.wheel.limit(duration(limit)) as scope:
            await self._residents_now.settled()
        return not scope.cancelled_caught

    @property
    def parked(self) -> Mapping[CaseId, str]:
        """Open cases that this hub cannot work, and why."""
        return self._residents_now.parked

    @property
    def runtime(self) -> Runtime:
        """What runs. Raises `HubClosedError` outside of `async with`."""
        if self._opened is None or self._opened.runtime.closed:
            raise HubClosedError(NOT_OPEN)
        return self._opened.runtime

    @property
    def _here(self) -> Opened:
        """The open hub, for whoever is on its event loop."""
        if self._opened is None or self._opened.runtime.closed:
            raise HubClosedError(NOT_OPEN)
        if asyncio._get_running_loop() is not self._event_loop:
            raise HubClosedError(
                "the hub is open on another event loop; call it there: asyncio.run_coroutine_threadsafe(..., its_loop)"
            )
        return self._opened

    @property
    def _residents_now(self) -> Residents:
        return self._here.residents

    # ---- cases

    async def start(
        self,
        definition: CaseDefinition | str,
        given: Mapping[str, Any] | None = None,
        /,
        *,
        case_id: str | None = None,
        goal: Wanted | None = None,
        trace: str | None = None,
        by: str = "user",
        **facts: Any,
    ) -> Case:
        """Start a case with its facts, by keyword or in a mapping (`{"by": "Ada"}`); it is in the log when this returns.

        `goal`: what this case is for, instead of what its definition asks for: a goal or a fact, by name, or a fact by type.
        `trace`: what it belongs to, a `traceparent` of W3C Trace Context; that of the current OpenTelemetry span without
        it. Its sub-cases belong to the same, and workers find it in `execution.case.trace`.

        Raises `InputRefusedError` for a missing or unknown fact (naming the nearest) or one of the wrong type, and
        `CaseExistsError` when `case_id` is taken.
        """
        structure = self.registry.meant(definition)
        values, sure = apart({**(given or {}), **facts})
        case = new_case_id() if case_id is None else CaseId(case_id)
        if not is_case_id(case):
            raise InputRefusedError(f"case_id {case!r} is no id; use printable characters other than '/' and '@'")
        plain = started_with(structure, values, OwnerId(case, self.tenant))
        purpose = "" if goal is None else purpose_of(structure, goal)
        await self._residents_now.start(
            case,
            structure,
            Start(facts=plain, confidence=sure, goal=purpose, trace=trace_of(trace), by=by),
            fresh=case_id is None,
        )
        return Case(case, self)

    def case(self, case_id: str) -> Case:
        """The handle of a case. Whether there is one shows when it is asked."""
        return Case(CaseId(case_id), self)

    async def cases(
        self,
        *,
        definition: CaseDefinition | str | None = None,
        status: CaseStatus | Sequence[CaseStatus] = (),
        stalled: bool | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[CaseSummary]:
        """Cases on a line each, latest started first; `after`: the id to go on behind."""
        name = definition.name if isinstance(definition, CaseDefinition) else definition
        statuses = (status,) if isinstance(status, CaseStatus) else tuple(status)
        query = CaseQuery(
            tenant=self.tenant,
            definition=name,
            statuses=statuses,
            stalled=stalled,
            after=None if after is None else CaseId(after),
            limit=limit,
        )
        return await self.store.log.cases(query)

    @property
    def dead_letters(self) -> DeadLetters:
        """Activations of open cases that ended in a fault: to list, show, retry and discard."""
        return DeadLetters(self)

    @property
    def brake(self) -> Brakes:
        """Holds the cases of a definition, or all, or a worker: nothing new starts until it is released."""
        return Brakes(self)

    @property
    def quarantine(self) -> Quarantines:
        """Workers that keep failing and are left alone: to look at, and to release."""
        return Quarantines(self)

    async def fork(
        self, case_id: str, at: Moment | None = None, facts: Mapping[str, Any] | None = None, *, fork_id: str | None = None,
        by: str = "user", reason: str = "",
    ) -> Case:  # fmt: skip
        """A new case that begins with the log of another one up to a moment (now), in whole turns, with these facts set.

        What was in flight begins anew, under ids and keys of the fork; human tasks are asked again, sub-cases start again.
        The source is not touched. Raises `InputRefusedError` where it had ended by then, or a fact is none, `CaseExistsError`.
        """
        runtime, residents = self.runtime, self._residents_now
        made = await fork(
            runtime, residents, self.structures, CaseId(case_id), at, facts or {}, case_id=fork_id, by=by, reason=reason
        )  # fmt: skip
        return Case(made, self)

    async def bring_in(self, transcript: Transcript, *, case_id: str | None = None, dry_run: bool = False) -> Imported:
        """Make the cases of a transcript cases of this hub, under their own ids or that of `case_id`; open ones go on.

        Raises `CaseExistsError`, `InputRefusedError` for one that could not go on here; then none of them is brought in.
        """
        what = Import(transcript, self.tenant, case_id)
        return await bring_in(self.runtime, self._residents_now, self.structures, what, dry_run=dry_run)

    @property
    def retention(self) -> Keeper:
        """Retires cases that ended long ago, by itself; to look at what is due, and to do it now."""
        keeper = self._here.keeper
        if keeper is None:
            retiring(self.store)  # says why
            raise HubClosedError(NOT_OPEN)
        return keeper

    async def migrate(self, definition: CaseDefinition | str, *, dry_run: bool = False) -> Sequence[Migration]:
        """The open cases of other versions, which adopt this one where they can; `dry_run`: only say so.

        By name it is the current version. What a case has running goes on.
        """
        return await migrate(self, self.registry.meant(definition), dry_run=dry_run)

    @property
    def definitions(self) -> Mapping[str, CaseDefinition]:
        """The definitions that new cases are of, by name; those of their sub-cases among them."""
        return self.registry.definitions

    @property
    def structures(self) -> Mapping[str, Structure]:
        """What these come to, by name."""
        return self.registry.structures

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of its cases: what was written, refused and dropped, and those of sub-cases by their parent."""
        return self._residents_now.snapshots

    @property
    def log(self) -> EventLog:
        """The event log of all cases."""
        return self.store.log

    def loop_of(self, definition: CaseDefinition | str) -> LoopControl:
        """The loop control that cases of a definition start with. Raises `SettingsError` for an unknown definition."""
        return self._parts.loops[self.registry.meant(definition).hash]

    def steer(self, case_id: str, loop: LoopControl) -> None:
        """Give one case, before it starts, a loop control of its own, for as long as this hub is open."""
        self._residents_now.steer(CaseId(case_id), loop)

    # ---- how

    async def pump(self, case: CaseId) -> Pump:
        """The pump of a case, loaded when it is not in memory. Raises `CaseNotFoundError`."""
        return await self._here.reach(case)

    async def move(self, case: CaseId, structure: Structure) -> None:
        """Let a case go on under a version of its definition. Raises `InputRefusedError` where it cannot."""
        await self._residents_now.move(case, structure)

    async def pump_anew(self, case: CaseId) -> Pump:
        """As `pump`; a case that has ended is folded from its log."""
        return await self._here.reach(case, anew=True)

    def begin(self, definition: str, case: CaseId) -> Pump:
        """The pump of a case that is about to start: its id is not taken, and what it gets first is its `Start`."""
        return self._residents_now.begin(case, self.registry.meant(definition))
